"""A check in Python that asks the living cluster: an experiment names it as a command, ``command: [python, -m, NAME]``.

The module ends in ``answer(check)``. ``check`` gets an ``Asked``: the run's folder, the URLs of its nodes, and ``get``,
which asks them. It returns None where it holds and a sentence where it does not, and raises ``Unknown`` where it cannot
tell. For what the record of a run says, :mod:`chaos.api.checks` is the place.
"""

from __future__ import annotations

from chaos.programs.checking import Asked, Unknown, answer

__all__ = ["Asked", "Unknown", "answer"]
