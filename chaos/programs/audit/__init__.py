"""A cluster held against the published checklist for availability: what it is like, never what it does under a fault.

A :class:`.facts.Sheet` holds the facts, read from a living cluster by GETs alone (:mod:`.cluster`) or taken from a
topology (:mod:`.definition`). The rules are pure functions of it: the published checklist (:mod:`.rules`), what is
left behind (:mod:`.leftovers`, :mod:`.indices`), what is not looked after (:mod:`.keeping`) and what monitoring may
cost (:mod:`.limits`). What could not be read is unknown, in words, and never passes.
"""

from chaos.opensearch.checklist import Status
from chaos.programs.audit import indices, keeping, leftovers, limits, rules
from chaos.programs.audit.catalogue import RULES, Row, Workload, audit
from chaos.programs.audit.facts import Sheet

FILES = (rules, leftovers, indices, keeping, limits)
"""Files with rules, in the order in which rows are shown where they are equally bad."""
RULES.sort(key=lambda each: [file.__name__ for file in FILES].index(each.look.__module__))

__all__ = ["RULES", "Row", "Sheet", "Status", "Workload", "audit"]
