"""The gates of a game day: each says in one sentence whether the day may go on.

Pure, but for the kill switch's file. What each needs is handed in as it was read; what could not be read refuses. Gates
that have a module of their own are not here: windows, freezes, approvals, tickets, guards, the cluster (preflight).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.base.ages import CLOCKS_SECONDS
from chaos.base.text import listed, plural, printable
from chaos.definitions.existing import RUNGS, Existing, as_production
from chaos.definitions.gameday import GameDay, Step
from chaos.gamedays import drill
from chaos.gamedays.board import DAYS, Doc
from chaos.gamedays.gate import Gate

UNDER_WAY, OVER = "under way", "over"
"""States of a day, as its document on the cluster has them."""
CLOCKS = timedelta(seconds=CLOCKS_SECONDS)
"""What is dated further ahead is of no time at all."""
SHOWN = 3
"""Reasons that one gate tells; the rest is counted."""


def _some(reasons: Sequence[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more


# ---- people --------------------------------------------------------------------------------------------


def stop_file(day: GameDay, *, unlocked: bool = False) -> Gate:
    """Whether the kill switch could be seen, and is not there.

    ``unlocked``: the lock is not ours yet, under which a drill's own file is looked at once more.
    """
    path = Path(day.written.stop.file)
    try:
        os.lstat(path)
    except FileNotFoundError:
        if path.parent.is_dir():
            return Gate("stop file", True, f"{path} is not there")
        return Gate("stop file", False, f"there is no folder {path.parent}: nobody could stop it", "make the folder")
    except OSError as error:
        return Gate("stop file", False, f"{path}: {error.strerror}", "let this user read it")
    if (made := drill.left(path)) is not None:
        says = f"{path} is there, made by {made}, and no person has touched it"
        return Gate("stop file", unlocked, says, f"see that this day is not under way, then: rm {path}")
    return Gate("stop file", False, f"{path} is there: somebody wants no game day", f"ask who, then: rm {path}")


def stop_wish(doc: Doc | None) -> Gate:
    """``gameday stop`` on any machine leaves a document."""
    if doc is None:
        return Gate("stop", True, "nobody asked to stop")
    who = printable(str(doc.source.get("by", "somebody")))
    return Gate("stop", False, f"{who} asked to stop", "ask why, then: opensearch-chaos gameday resume FILE --reason …")


def signal(why: str | None) -> Gate:
    """A signal that came while no run was under way. ``why``: as :class:`.stopping.Signalled` says it."""
    return Gate("signal", why is None, why or "none came")


def hold(doc: Doc | None) -> Gate:
    """After trouble nothing begins until a person has said why it may."""
    if doc is None:
        return Gate("hold", True, "nothing is on hold")
    why, at = (printable(str(doc.source.get(key, "?"))) for key in ("why", "day"))
    remedy = "find out, then: opensearch-chaos gameday resume FILE --reason …"
    return Gate("hold", False, f"on hold since the day of {at}: {why}", remedy)


WELL = ("pass", "weakness", "inconclusive")
"""Outcomes of days that ended by themselves: firing one of them again is nothing that a scheduler must tell."""
HOLDING = ("hold", "ended")
"""Gates that only a person opens."""


def stopped(doc: Doc) -> Gate:
    """A day that did not end by itself is not held again, also once a person has let later ones go on."""
    outcome, host, says = (printable(str(doc.source.get(key, "?"))) for key in ("outcome", "host", "says"))
    why = f": {says}" if "says" in doc.source else ""
    return Gate("hold", False, f"this day ended as {outcome} on {host}{why}", "it is held again in its next window")


def unended(days: Mapping[str, Mapping[str, Any]]) -> Gate:
    """Whether a day of this name never ended, though nobody holds the lock: its runner died. Ids as of the board."""
    dead = [
        f"{id.rpartition('-day-')[2]} on {printable(str(source.get('host', '?')))}"
        for id, source in sorted(days.items())
        if source.get("state") == UNDER_WAY
    ]
    remedy = "opensearch-chaos recover --on TARGET; then: opensearch-chaos gameday resume FILE --reason …"
    return Gate("ended", not dead, f"{_some(dead)} never ended" if dead else "each day before it has ended", remedy)


def consent(doc: Doc | None, day: GameDay, today: date, index: str) -> Gate:
    """What the second consent says, a document on the cluster itself. Whose it is, says :mod:`.consent`."""
    remedy = f"its operators: opensearch-chaos gameday consent {day.file} --key KEY --until YYYY-MM-DD"
    if day.written.consent is not None and day.written.consent.index is not None:
        body = '{"gamedays": ["' + day.name + '"], "until": "YYYY-MM-DD", "by": "who"}'
        remedy = f"its operators write: PUT /{index}/_doc/gameday-consent {body}"
    if doc is None:
        return Gate("consent", False, "the cluster holds no consent of its operators", remedy)
    names, until, by = (doc.source.get(key) for key in ("gamedays", "until", "by"))
    if not isinstance(names, list) or not isinstance(until, str) or not isinstance(by, str) or not by.strip():
        return Gate("consent", False, "the consent on the cluster lacks gamedays, until or by", remedy)
    try:
        last = date.fromisoformat(until)
    except ValueError:
        return Gate("consent", False, f"the consent's until is no day: {printable(until)}", remedy)
    if day.name not in names:
        said = listed([printable(str(each)) for each in names]) or "none"
        return Gate("consent", False, f"its operators consent to {said}, and not to {day.name}", remedy)
    if today > last:
        return Gate("consent", False, f"the consent of {printable(by)} ended on {last}", remedy)
    return Gate("consent", True, f"{printable(by)} consents until {last}")


# ---- the target and the plan ----------------------------------------------------------------------------


def production(target: Existing) -> Gate:
    """Nothing that is called as production is."""
    said = list(as_production(target.written))
    return Gate("production", not said, _some(said) or "nothing is called as production is", "no flag overrides this")


def allowed(target: Existing, steps: Sequence[Step], today: date) -> Gate:
    """The file in git allows each step's rung today."""
    rung = target.rung_on(today)
    needed = max((step.rung for step in steps), key=RUNGS.index)
    if RUNGS.index(rung) < RUNGS.index(needed):
        until = target.written.until
        ended = f", {target.written.rung} ended on {until}" if rung != target.written.rung else ""
        says = f"{target.file} allows {rung} today{ended}, and the day needs {needed}"
        return Gate("allow-list", False, says, "agree on it with the cluster's owners")
    return Gate("allow-list", True, f"{target.file} allows {rung} until {target.written.until}, and {needed} is needed")


def plans(made: Sequence[Mapping[str, Any]]) -> list[Gate]:
    """A gate for each experiment: whether its plan is refused now. ``made``: plans as JSON (``plan --on --json``)."""
    found = []
    for plan in made:
        reasons = [f"{each['where']}, {each['what']}: {each['says']}" for each in plan["refused"]]
        hit = sorted({name for each in plan["reach"] for name in each["hit"]})
        well = f"hits at worst {listed(hit)}" if hit else "hits no node"
        remedy = f"see: opensearch-chaos plan EXPERIMENT --on FILE ({plan['experiment']})"
        found.append(Gate(f"plan of {plan['experiment']}", not reasons, _some(reasons) or well, remedy))
    return found


def rungs(made: Sequence[Mapping[str, Any]], steps: Sequence[Step]) -> list[Gate]:
    """A gate for each step: it needs no more than it says."""
    found = []
    for plan, step in zip(made, steps, strict=True):
        needs = str(plan["rung"])
        ok = needs in RUNGS and RUNGS.index(needs) <= RUNGS.index(step.rung)
        says = f"it needs {needs}, and its step says {step.rung}"
        found.append(
            Gate(f"rung of {plan['experiment']}", ok, says, "write its rung under experiments, and approve it")
        )
    return found


# ---- the ladder ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LabRun:
    """A run of an experiment in a lab. ``digest``: of its plan; ``ended``: by the wall's clock."""

    digest: str
    outcome: str
    clean: bool
    started: datetime
    folder: str


@dataclass(frozen=True)
class Earlier:
    """An experiment of an earlier game day on the same cluster."""

    name: str
    rung: str
    outcome: str
    clean: bool
    ended: datetime


def ladder(
    day: GameDay,
    digests: Sequence[tuple[str, str]],
    labs: Iterable[LabRun] | str,
    earlier: Iterable[Earlier] | str,
    now: datetime,
) -> list[Gate]:
    """What must have passed before. ``digests``: of each step its experiment, and the digest of that one's plan. A text
    instead of runs: why they could not be read."""
    written = day.written.ladder
    if written.waived is not None:
        return [Gate("ladder", True, f"waived by the file: {printable(written.waived)}")]
    since = now - timedelta(seconds=float(written.within))
    return [*_in_labs(digests, labs, since, now, str(written.labs)), *_of_nodes(day, digests, earlier, since, now)]


def _in_labs(
    digests: Sequence[tuple[str, str]], labs: Iterable[LabRun] | str, since: datetime, now: datetime, where: str
) -> Iterator[Gate]:
    runs = labs if isinstance(labs, str) else list(labs)
    for name, digest in dict.fromkeys(digests):
        gate, remedy = f"lab run of {name}", f"run it in a lab first: opensearch-chaos run EXPERIMENT --out {where}"
        if isinstance(runs, str):
            yield Gate(gate, False, runs, remedy)
            continue
        same = sorted((run for run in runs if run.digest == digest), key=lambda run: run.started)
        good = [run for run in same if run.outcome == "pass" and run.clean and since <= run.started <= now + CLOCKS]
        if good:
            yield Gate(gate, True, f"the same passed in a lab on {good[-1].started:%Y-%m-%d} ({good[-1].folder})")
        elif same:
            last = same[-1]
            says = f"its last run in a lab ended {last.outcome} on {last.started:%Y-%m-%d}"
            old = last.outcome == "pass" and last.clean
            when = "is yet to come: one of two clocks is wrong" if last.started > now + CLOCKS else "is too long ago"
            yield Gate(gate, False, f"{says}, which {when}" if old else says, remedy)
        else:
            yield Gate(gate, False, f"{where} has no lab run of exactly this experiment", remedy)


def _of_nodes(
    day: GameDay, digests: Sequence[tuple[str, str]], earlier: Iterable[Earlier] | str, since: datetime, now: datetime
) -> Iterator[Gate]:
    """Clean runs at rung node before one at rung zone: on an earlier day, or in this one before it."""
    steps = [(name, step) for (name, _), step in zip(digests, day.written.experiments, strict=True)]
    if all(step.rung != "zone" for _, step in steps):
        return
    remedy = "hold a day at rung node first, or put such an experiment before it"
    before = [name for name, _ in steps[: next(n for n, (_, step) in enumerate(steps) if step.rung == "zone")]]
    if before:
        yield Gate("node before zone", True, f"{listed(before)} must pass first, in this day")
        return
    if isinstance(earlier, str):
        yield Gate("node before zone", False, earlier, remedy)
        return
    good = [
        each
        for each in earlier
        if each.rung == "node" and each.outcome == "pass" and each.clean and since <= each.ended <= now + CLOCKS
    ]
    if not good:
        yield Gate("node before zone", False, "nothing at rung node has passed on this cluster of late", remedy)
        return
    last = max(good, key=lambda each: each.ended)
    yield Gate("node before zone", True, f"{last.name} passed at rung node on {last.ended:%Y-%m-%d}")


def climbed(step: Step, before: Sequence[tuple[str, str, bool]], earlier_ok: bool) -> Gate:
    """Before a step at rung zone in mid-day. ``before``: (rung, outcome, clean) of the steps that are over."""
    if step.rung != "zone" or earlier_ok:
        return Gate("node before zone", True, "nothing has to come before it")
    bad = [outcome for rung, outcome, clean in before if rung == "node" and (outcome != "pass" or not clean)]
    passed = any(rung == "node" and outcome == "pass" and clean for rung, outcome, clean in before)
    says = f"before it at rung node: {listed(bad)}" if bad else "nothing at rung node has passed before it"
    return Gate("node before zone", passed and not bad, "what was before it passed" if passed and not bad else says)


# ---- time ---------------------------------------------------------------------------------------------


def room(closes: datetime, needed: float, now: datetime) -> Gate:
    """Whether the rest of the window is long enough for what comes next and an abort. ``needed``: seconds."""
    left = (closes - now).total_seconds()
    says = f"{left / 60:.0f} minutes of the window are left, and {needed / 60:.0f} are needed"
    return Gate("room in the window", left >= needed, says, "begin earlier, or ask for less")


def frozen(found: Sequence[tuple[str, str | None]]) -> list[Gate]:
    """A gate for each calendar: (label, why it freezes)."""
    return [
        Gate(f"freeze {printable(label)}", why is None, why or "nothing is frozen then", "another day")
        for label, why in found
    ]


def earlier_of(days: Mapping[str, Mapping[str, Any]]) -> list[Earlier]:
    """Experiments of earlier days, by the documents on the cluster. What cannot be read is left out: it permits
    nothing."""
    found = []
    for id, source in days.items():
        if not id.startswith(DAYS):
            continue
        for each in source.get("experiments") or []:
            try:
                ended = datetime.fromisoformat(str(each["ended"]))
                made = Earlier(
                    str(each["name"]),
                    str(each["rung"]),
                    str(each["outcome"]),
                    each["clean"] is True,
                    ended.astimezone(UTC),
                )
            except (KeyError, TypeError, ValueError):
                continue
            found.append(made)
    return found


def words(gates: Sequence[Gate]) -> str:
    """Why a day is refused, in one sentence for those who are told."""
    bad = [gate for gate in gates if not gate.ok]
    return f"{plural(len(bad), 'gate')} refused: {_some([f'{gate.name}: {gate.says}' for gate in bad])}"
