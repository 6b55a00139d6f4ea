"""A check: one metric, its judgement and its words. It reads a run's record alone, and loads no lab.

``Record`` is the run, ``Span`` a phase, ``Expected`` the line of ``expect``, ``Measure`` what came out. ``BLIND`` and
``longest_blind``: for how long the cluster was seen by none, and from when on that is too long to say that nothing
happened. ``Trial`` says what an ``Altered`` record must be found out by. ``Section``, with ``Row`` and ``Curve``, is
what the report draws. ``text`` has the functions that put numbers and lists into words.
"""

from __future__ import annotations

from chaos.base import text
from chaos.checks.check import Check
from chaos.checks.measure import Bound, Measure
from chaos.checks.movement import BLIND, longest_blind
from chaos.checks.record import Expected, Record, Span
from chaos.checks.section import Curve, Row, Section
from chaos.checks.trial import Altered, Trial
from chaos.checks.words import Words

__all__ = [
    "BLIND",
    "Altered",
    "Bound",
    "Check",
    "Curve",
    "Expected",
    "Measure",
    "Record",
    "Row",
    "Section",
    "Span",
    "Trial",
    "Words",
    "longest_blind",
    "text",
]
