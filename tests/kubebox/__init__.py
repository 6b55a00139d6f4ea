"""A Kubernetes cluster in a box: a real control plane and three kubelets on this machine, with OpenSearch on it.

``make staging-kubernetes`` brings it up, see ``python tests/kubebox --help``. Each of its machines is a network, a
process and a mount namespace, whose first process is ours: what is in it ends with that process.
"""
