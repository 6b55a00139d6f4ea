"""What a team of its own adds to opensearch-chaos."""
