"""Kubernetes as far as clusters on it need it: its API server, what is seen of pods, and ways into them."""
