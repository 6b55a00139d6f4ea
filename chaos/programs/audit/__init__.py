"""A cluster held against the published checklist for availability: what it is like, never what it does under a fault.

A :class:`.facts.Sheet` holds the facts, read from a living cluster by GETs alone (:mod:`.cluster`) or taken from a
topology (:mod:`.definition`); the rules (:mod:`.rules`) are pure functions of it. What could not be read is unknown,
in words, and never passes.
"""

from chaos.opensearch.checklist import Status
from chaos.programs.audit.facts import Sheet
from chaos.programs.audit.rules import RULES, Row, Workload, audit

__all__ = ["RULES", "Row", "Sheet", "Status", "Workload", "audit"]
