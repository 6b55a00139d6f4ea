"""What OpenSearch says and takes, for everybody: formulas of its own, and its REST API."""
