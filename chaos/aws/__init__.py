"""AWS as far as faults need it: FIS's actions, requests held against botocore's models, clients, prices, policies."""
