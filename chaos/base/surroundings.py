"""What a command of the user's finds in its environment: which run asks it, and where the nodes are reached.

A run writes them (:mod:`chaos.run.surroundings`), and a check in Python reads them (:mod:`chaos.programs.checking`).
"""

from __future__ import annotations

PREFIX = "OPENSEARCH_CHAOS_"
RUN = f"{PREFIX}RUN"
"""The run's folder."""
PHASE = f"{PREFIX}PHASE"
"""The phase that waits for the command; of a phase's command alone."""
ON = f"{PREFIX}ON"
"""What ``--on`` takes: the lab, or the target's file."""
URLS = f"{PREFIX}URLS"
"""Of every node, with blanks between them."""
NODES = f"{PREFIX}NODES"
"""The same as a JSON object, node to URL."""
CA = f"{PREFIX}CA"
"""A PEM file of whom to trust; only where the nodes speak TLS."""
USER = f"{PREFIX}USER"
PASSWORD_FROM = f"{PREFIX}PASSWORD_FROM"
"""Where the password stands: ``env:NAME`` or ``file:PATH``. No secret is put into an environment."""
