"""What a verdict is called for people: the outcomes, and two words of their own beside them.

A pass that missed what its file calls a known weakness is a *pass with known weaknesses*: outcome ``pass`` and exit
code 0 stay, and it is counted apart wherever passes are counted. A run whose only weakness is that a known one is gone
has *improved*: its exit code stays 1 until the note is cleared, and no weakness of the cluster was found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from chaos.base import text
from chaos.checks.reasons import Cause, Outcome


class Shown(StrEnum):
    """The name of a verdict in pages and styles, worst first."""

    ERROR = "error"
    ABORTED = "aborted"
    WEAKNESS = "weakness"
    IMPROVED = "improved"
    INCONCLUSIVE = "inconclusive"
    KNOWN = "known_pass"
    PASS = "pass"

    @property
    def words(self) -> str:
        """As people read it."""
        return "pass with known weaknesses" if self is Shown.KNOWN else self.value


CLEAR = "clear its note before the next release"
"""What is left to do for a known weakness that is gone."""


def of(findings: Mapping[str, Any]) -> Shown:
    """Of a run, from its findings.json; files of earlier versions may lack the causes of reasons."""
    outcome = str(findings["outcome"])
    decide = [each for each in findings.get("reasons") or () if each["outcome"] == outcome]
    notes = bool(decide) and all(each.get("cause") == Cause.NOTE for each in decide)
    return by_counts(
        outcome, [str(each.get("counts_as")) for each in findings.get("findings") or ()], notes_alone=notes
    )


def by_counts(outcome: str, counts: Collection[str], *, notes_alone: bool) -> Shown:
    """From an outcome and what each finding counts as.

    ``notes_alone``: of all that made a weakness of it nothing is more than a known weakness that is gone.
    """
    if outcome == Outcome.PASS and "known_weakness" in counts:
        return Shown.KNOWN
    if outcome == Outcome.WEAKNESS and notes_alone:
        return Shown.IMPROVED
    return Shown(outcome) if outcome in set(Shown) else Shown.ERROR


def worst(several: Iterable[Shown], default: Shown = Shown.INCONCLUSIVE) -> Shown:
    """The worst of some; ``default`` of none."""
    order = list(Shown)
    return min(several, key=order.index, default=default)


def counted(several: Iterable[Shown]) -> str:
    """``3 pass, 2 pass with known weaknesses and 1 weakness``, the worst first."""
    tally = Counter(several)
    return text.listed([f"{tally[each]} {each.words}" for each in Shown if tally[each]])


SAID = {
    "pass": "held",
    "relaxed": "relaxed (broken, as the file allows)",
    "unexpected_pass": "improved",
    "known_weakness": "missed as known",
    "weakness": "missed",
    "inconclusive": "not proven",
}
"""How a tally says what a finding counts as."""


MARKS = {
    Shown.ERROR: "!",
    Shown.ABORTED: "■",
    Shown.WEAKNESS: "✗",
    Shown.IMPROVED: "↑",
    Shown.INCONCLUSIVE: "?",
    Shown.KNOWN: "✓",
    Shown.PASS: "✓",
}
"""The same as a shape, for who sees no colour."""


def fails_on_known(findings: Mapping[str, Any], wanted: bool) -> bool:
    """Whether a switch for CI makes a run fail that passed with known weaknesses."""
    return wanted and of(findings) is Shown.KNOWN


def tally(findings: Mapping[str, Any]) -> str:
    """``9 of 10 expectations held, 1 missed as known``; each kind apart, and nothing counts as held that did not."""
    counts = Counter(str(each.get("counts_as")) for each in findings.get("findings") or ())
    if not counts:
        return "nothing was expected"
    first = f"{counts['pass']} of {text.plural(sum(counts.values()), 'expectation')} held"
    return ", ".join(
        [first, *(f"{counts[kind]} {said}" for kind, said in SAID.items() if kind != "pass" and counts[kind])]
    )
