"""A local endpoint of AWS FIS: it validates as AWS does, resolves targets in a moto server, and really breaks a lab."""
