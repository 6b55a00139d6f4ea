"""A staging cluster in a box: a cluster as a team may have one, on this machine, to try experiments on.

``make staging`` brings it up, see ``python tests/box --help``. It has its own load balancers, Toxiproxies, users and
traffic, and offices: hosts without a network but for its URLs, in which the suite runs as a user without rights.
"""
