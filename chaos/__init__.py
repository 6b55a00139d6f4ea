"""opensearch-chaos: chaos engineering for OpenSearch clusters."""

__version__ = "0.1.0"
