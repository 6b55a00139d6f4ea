"""Attempts at each gate of a game day: some it must refuse, some it must let pass. ``docs/gates.md`` is made of them.

    PYTHONPATH=.:tests/support python -m gatetable        # writes docs/gates.md

A test makes every attempt (tests/unit/gamedays/test_gates.py), and one holds the page against them.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from apiserver import serving
from daykit import a_day
from gatetable_more import MORE

from chaos.base.units import Duration
from chaos.definitions.existing import load_existing
from chaos.definitions.gameday import Preflight, Snapshot
from chaos.gamedays import drill, gates, preflight
from chaos.gamedays.board import Doc
from chaos.gamedays.gate import Gate
from chaos.gamedays.gates import Earlier, LabRun
from chaos.gamedays.preflight import Looked
from chaos.gamedays.stopping import Signalled
from chaos.gamedays.switches import KEY, MapSwitch
from chaos.kubernetes.client import Client

PAGE = Path(__file__).parents[2] / "docs" / "gates.md"
COMMAND = "PYTHONPATH=.:tests/support python -m gatetable"
NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
TODAY = NOW.date()
HOURS = 3600.0


@dataclass(frozen=True)
class Attempt:
    """``gate``: as the page calls it; ``what``: was tried; ``make``: the gates' words, given a folder; ``says``: a part
    of what a refusal must say."""

    gate: str
    what: str
    make: Callable[[Path], Sequence[Gate]]
    says: str | None = None

    @property
    def passes(self) -> bool:
        return self.says is None


def one(gate: Gate) -> Sequence[Gate]:
    return [gate]


def doc(**source: Any) -> Doc:
    return Doc(source, 1, 1)


def held(state: str) -> dict[str, dict[str, str]]:
    return {"gameday-day-staging-2026-11-19": {"state": state, "host": "vm"}}


CONSENT = {"gamedays": ["staging"], "until": "2027-01-31", "by": "team-platform"}


def consent(**change: Any) -> Callable[[Path], Sequence[Gate]]:
    source = {key: value for key, value in {**CONSENT, **change}.items() if value is not None}
    return lambda folder: one(gates.consent(doc(**source), a_day(folder), TODAY, ".opensearch-chaos"))


def stop_file(kind: str) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        day = a_day(folder, stop={"file": f"{folder}/run/x.stop"})
        if kind != "no folder":
            (folder / "run").mkdir()
        if kind == "there":
            (folder / "run" / "x.stop").touch()
        if kind == "dangling":
            (folder / "run" / "x.stop").symlink_to("nowhere")
        if "drill" in kind:
            drill.made(
                folder / "run" / "x.stop", drill.Drill("staging", "uuid/.oc", "vm", "2026-11-19T10:00:00Z", "ab")
            )
        if "touched" in kind:
            (folder / "run" / "x.stop").touch()
        return one(gates.stop_file(day, unlocked="unlocked" in kind))

    return make


def signalled(came: bool) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        heard = threading.Event()
        if came:
            heard.set()
        return one(gates.signal(Signalled(heard).tripped(0.0)))

    return make


def stop_map(kind: str) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        with serving() as server:
            made = drill.Drill("staging", "uuid/.oc", "vm", "2026-11-19T10:00:00Z", "ab")
            if kind != "absent":
                written = drill.text(made) if "drill" in kind else None
                says = {"there": "the shop is slow", "empty word": ""}.get(kind, written)
                server.write_map("gameday-staging", {} if says is None else {KEY: says})
            if kind == "unread":
                server.denied.add(("get", "configmaps"))
            switch = MapSwitch(Client(None, server.kubeconfig(folder)), server.namespace, "staging")
            return one(switch.gate(unlocked="unlocked" in kind))

    return make


def target(
    change: tuple[str, str] = ("", ""), rung: str = "zone", on: date = TODAY
) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        from daykit import TARGET

        day = a_day(folder, cluster=TARGET.replace(*change), experiments=[{"experiment": "one.yaml", "rung": rung}])
        return one(gates.allowed(load_existing(day.target), day.written.experiments, on))

    return make


def production(name: str) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        day = a_day(folder)
        known = load_existing(day.target)
        written = known.written.model_copy(
            update={"identity": known.written.identity.model_copy(update={"cluster_name": name})}
        )
        return one(gates.production(known.model_copy(update={"written": written})))

    return make


def plan(*refused: str, rung: str = "node") -> dict[str, Any]:
    return {
        "experiment": "one",
        "rung": rung,
        "reach": [{"phase": "dead", "hit": ["es-c"]}],
        "refused": [{"where": "the cluster", "what": "health", "says": each} for each in refused],
    }


def plans(*refused: str) -> Callable[[Path], Sequence[Gate]]:
    return lambda folder: gates.plans([plan(*refused)])


def rung(needs: str, says: str) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        day = a_day(folder, experiments=[{"experiment": "one.yaml", "rung": says}])
        return gates.rungs([plan(rung=needs)], day.written.experiments)

    return make


def lab(**change: Any) -> LabRun:
    return replace(LabRun("d" * 64, "pass", True, NOW - timedelta(days=3), "20261123T1000Z-one-ab12"), **change)


def ladder(
    labs: Sequence[LabRun] | str, earlier: Sequence[Earlier] | str = (), *rungs: str
) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        steps = [
            {"experiment": f"{name}.yaml", "rung": each} for name, each in zip("abc", rungs or ("node",), strict=False)
        ]
        day = a_day(folder, ladder={"labs": "lab-runs", "within": "720h"}, experiments=steps)
        return gates.ladder(day, [(str(each["experiment"])[0], "d" * 64) for each in steps], labs, earlier, NOW)

    return make


def node_day(**change: Any) -> Earlier:
    return replace(Earlier("data-node-kill", "node", "pass", True, NOW - timedelta(days=7)), **change)


def climbed(*before: tuple[str, str, bool]) -> Callable[[Path], Sequence[Gate]]:
    def make(folder: Path) -> Sequence[Gate]:
        day = a_day(folder, experiments=[{"experiment": "one.yaml", "rung": "zone"}])
        return one(gates.climbed(day.written.experiments[0], before, False))

    return make


GREEN = {
    "status": "green",
    "relocating_shards": 0,
    "initializing_shards": 0,
    "unassigned_shards": 0,
    "number_of_pending_tasks": 0,
}
ALL = dict.fromkeys(preflight.ALLOCATION, "all")
ROOM = {rule: ("ok", "40 % now") for rule in ("cpu", "heap", "storage", "storage.zone")}
WELL = Looked(GREEN, ALL, (), (), ROOM)
SNAPSHOT = Preflight(snapshot=Snapshot(repository="nightly", newest_within=Duration(24 * HOURS)))


def cluster(wanted: Preflight | None = None, **change: Any) -> Callable[[Path], Sequence[Gate]]:
    return lambda folder: preflight.gates(replace(WELL, **change), wanted or Preflight(), NOW)


def health(**change: Any) -> Callable[[Path], Sequence[Gate]]:
    return cluster(health={key: value for key, value in {**GREEN, **change}.items() if value is not None})


def snapshots(*each: tuple[str, str, float]) -> Callable[[Path], Sequence[Gate]]:
    """Name, state, hours ago."""
    found = [
        {"name": name, "state": state, "ended": int((NOW.timestamp() - hours * HOURS) * 1000)}
        for name, state, hours in each
    ]
    return cluster(SNAPSHOT, snapshots=found)


def frozen(why: str | None) -> Callable[[Path], Sequence[Gate]]:
    return lambda folder: gates.frozen([("freezes.yaml", why)])


def room(minutes: float) -> Callable[[Path], Sequence[Gate]]:
    return lambda folder: one(gates.room(NOW + timedelta(minutes=minutes), 45 * 60.0, NOW))


ATTEMPTS: list[Attempt] = [
    Attempt("stop file", "it is not there", stop_file("absent")),
    Attempt("stop file", "it is there", stop_file("there"), "somebody wants no game day"),
    Attempt("stop file", "it is a link to nothing", stop_file("dangling"), "somebody wants no game day"),
    Attempt(
        "stop file", "its folder is gone, so it could never appear", stop_file("no folder"), "nobody could stop it"
    ),
    Attempt("stop file", "a drill left it, before the lock is ours", stop_file("drill, unlocked")),
    Attempt(
        "stop file",
        "a drill left it, and the lock that is ours was not its day's",
        stop_file("drill"),
        "made by the drill of game day staging on vm",
    ),
    Attempt(
        "stop file",
        "a drill left it, and a person touched it",
        stop_file("drill, unlocked, touched"),
        "somebody wants no game day",
    ),
    Attempt("stop map", "it says nothing", stop_map("empty")),
    Attempt("stop map", "somebody wrote why", stop_map("there"), "says stop: the shop is slow"),
    Attempt("stop map", "somebody wrote an empty word", stop_map("empty word"), "says stop"),
    Attempt("stop map", "it was never made, or is deleted", stop_map("absent"), "nobody could stop it"),
    Attempt("stop map", "this account may not read it", stop_map("unread"), "cannot be read"),
    Attempt("stop map", "a drill left it, before the lock is ours", stop_map("drill, unlocked")),
    Attempt(
        "stop map",
        "a drill left it, and the lock that is ours was not its day's",
        stop_map("drill"),
        "written by the drill of game day staging on vm",
    ),
    Attempt("stop", "nobody asked", lambda folder: one(gates.stop_wish(None))),
    Attempt(
        "stop",
        "`gameday stop` on some machine",
        lambda folder: one(gates.stop_wish(doc(by="ann@host"))),
        "ann@host asked",
    ),
    Attempt("stop", "a wish without a name", lambda folder: one(gates.stop_wish(doc())), "somebody asked"),
    Attempt("signal", "none came", signalled(False)),
    Attempt("signal", "SIGTERM or Ctrl-C while no run is under way", signalled(True), "a signal asked to stop"),
    Attempt("hold", "nothing is on hold", lambda folder: one(gates.hold(None))),
    Attempt(
        "hold",
        "the last day ended dirty",
        lambda folder: one(gates.hold(doc(why="dirty", day="2026-11-19"))),
        "since the day of 2026-11-19: dirty",
    ),
    Attempt("hold", "a hold that says nothing", lambda folder: one(gates.hold(doc())), "on hold"),
    Attempt("ended", "the day before it ended", lambda folder: one(gates.unended(held("over")))),
    Attempt("ended", "no day before it", lambda folder: one(gates.unended({}))),
    Attempt("ended", "its runner died", lambda folder: one(gates.unended(held("under way"))), "on vm never ended"),
    Attempt("consent", "its operators wrote it", consent()),
    Attempt("consent", "on its last day", consent(until="2026-11-26")),
    Attempt(
        "consent",
        "there is none",
        lambda folder: one(gates.consent(None, a_day(folder), TODAY, ".oc")),
        "holds no consent",
    ),
    Attempt("consent", "it ended yesterday", consent(until="2026-11-25"), "ended on 2026-11-25"),
    Attempt(
        "consent", "it is for another game day", consent(gamedays=["other"]), "consent to other, and not to staging"
    ),
    Attempt("consent", "it is for none", consent(gamedays=[]), "consent to none"),
    Attempt("consent", "nobody signed it", consent(by=" "), "lacks gamedays, until or by"),
    Attempt("consent", "it has no end", consent(until=None), "lacks gamedays, until or by"),
    Attempt("consent", "its end is no day", consent(until="soon"), "is no day"),
    Attempt("consent", "it names them as one text", consent(gamedays="staging"), "lacks gamedays, until or by"),
    Attempt("allow-list", "the file allows zone, and zone is needed", target()),
    Attempt("allow-list", "the file allows node, and node is needed", target(("rung: zone", "rung: node"), "node")),
    Attempt(
        "allow-list",
        "the file allows node, and zone is needed",
        target(("rung: zone", "rung: node")),
        "allows node today, and the day needs zone",
    ),
    Attempt("allow-list", "the file's day is over", target(on=date(2100, 1, 1)), "zone ended on 2099-12-31"),
    Attempt("production", "a staging cluster", production("search-staging")),
    Attempt(
        "production", "a cluster called search-prod", production("search-prod"), "is called prod, as production is"
    ),
    Attempt("production", "a cluster called PRODUCTION", production("PRODUCTION"), "as production is"),
    Attempt("production", "a cluster with product in its name", production("product-search")),
    Attempt("plan", "nothing forbids it", plans()),
    Attempt("plan", "the cluster is yellow", plans("it is yellow"), "the cluster, health: it is yellow"),
    Attempt("plan", "four reasons", plans("a", "b", "c", "d"), "and 1 more"),
    Attempt("rung", "it needs node, and its step says node", rung("node", "node")),
    Attempt("rung", "it needs node, and its step says zone", rung("node", "zone")),
    Attempt(
        "rung", "it needs zone, and its step says node", rung("zone", "node"), "it needs zone, and its step says node"
    ),
    Attempt("rung", "what it needs is not known", rung("?", "zone"), "it needs ?"),
    Attempt("ladder", "it passed in a lab", ladder([lab()])),
    Attempt(
        "ladder",
        "it passed in a lab after it had failed",
        ladder([lab(outcome="weakness", started=NOW - timedelta(days=5)), lab()]),
    ),
    Attempt("ladder", "it never ran in a lab", ladder([]), "has no lab run of exactly this experiment"),
    Attempt("ladder", "another version of it passed", ladder([lab(digest="e" * 64)]), "has no lab run of exactly this"),
    Attempt("ladder", "it was a weakness there", ladder([lab(outcome="weakness")]), "ended weakness"),
    Attempt("ladder", "it was inconclusive there", ladder([lab(outcome="inconclusive")]), "ended inconclusive"),
    Attempt("ladder", "it passed and left something", ladder([lab(clean=False)]), "its last run in a lab ended pass"),
    Attempt(
        "ladder", "it passed too long ago", ladder([lab(started=NOW - timedelta(days=31))]), "which is too long ago"
    ),
    Attempt("ladder", "lab runs cannot be read", ladder("there is no folder lab-runs"), "there is no folder"),
    Attempt("ladder", "it passed tomorrow", ladder([lab(started=NOW + timedelta(days=1))]), "which is yet to come"),
    Attempt(
        "ladder",
        "a zone, after a clean day at rung node that is dated next week",
        ladder([lab()], [node_day(ended=NOW + timedelta(days=7))], "zone"),
        "nothing at rung node has passed",
    ),
    Attempt("ladder", "a zone, after a clean day at rung node", ladder([lab()], [node_day()], "zone")),
    Attempt("ladder", "a zone, and a node before it in this day", ladder([lab()], [], "node", "zone")),
    Attempt("ladder", "a zone, and nothing before it", ladder([lab()], [], "zone"), "nothing at rung node has passed"),
    Attempt(
        "ladder",
        "a zone, and the day at rung node was a weakness",
        ladder([lab()], [node_day(outcome="weakness")], "zone"),
        "nothing at rung node has passed",
    ),
    Attempt(
        "ladder",
        "a zone, and the day at rung node left something",
        ladder([lab()], [node_day(clean=False)], "zone"),
        "nothing at rung node has passed",
    ),
    Attempt(
        "ladder",
        "a zone, and that day was long ago",
        ladder([lab()], [node_day(ended=NOW - timedelta(days=40))], "zone"),
        "nothing at rung node has passed",
    ),
    Attempt(
        "ladder", "a zone, and earlier days cannot be read", ladder([lab()], "nobody answers", "zone"), "nobody answers"
    ),
    Attempt("node before zone", "the node before it passed", climbed(("node", "pass", True))),
    Attempt("node before zone", "the node before it was a weakness", climbed(("node", "weakness", True)), "weakness"),
    Attempt("node before zone", "the node before it left something", climbed(("node", "pass", False)), "pass"),
    Attempt("node before zone", "nothing was before it", climbed(), "nothing at rung node has passed before it"),
    Attempt("health", "green, nothing on its way", cluster()),
    Attempt("health", "yellow", health(status="yellow"), "it is yellow"),
    Attempt("health", "red", health(status="red"), "it is red"),
    Attempt("health", "a shard moves", health(relocating_shards=1), "1 shard on the move"),
    Attempt("health", "a copy is being built", health(initializing_shards=2), "2 shards being built"),
    Attempt("health", "a copy has no node", health(unassigned_shards=1), "without a node"),
    Attempt("health", "it does not say how many move", health(relocating_shards=None), "does not say"),
    Attempt("health", "a number that is a text", health(unassigned_shards="0"), "does not say"),
    Attempt("health", "nobody answers", cluster(health=None, unread={"health": "no node answers"}), "no node answers"),
    Attempt("pending tasks", "three wait", health(number_of_pending_tasks=3), "3 tasks wait"),
    Attempt("pending tasks", "it does not say", health(number_of_pending_tasks=None), "does not say"),
    Attempt(
        "allocation",
        "somebody has switched it off",
        cluster(settings={**ALL, preflight.ALLOCATION[0]: "none"}),
        "is none",
    ),
    Attempt(
        "allocation", "it cannot be read", cluster(settings=None, unread={"allocation": "status 403"}), "status 403"
    ),
    Attempt("another run", "one is under way", cluster(others=["run r1 of host is under way"]), "run r1 of host"),
    Attempt("another run", "it cannot be read", cluster(others=None), "could not be read"),
    Attempt("snapshot", "none is asked for", cluster()),
    Attempt("snapshot", "one of three hours ago", snapshots(("s1", "SUCCESS", 3.0))),
    Attempt(
        "snapshot",
        "an old one that succeeded, a new one that failed",
        snapshots(("s1", "SUCCESS", 30.0), ("s2", "FAILED", 1.0)),
        "s1 ended 30.0 h ago",
    ),
    Attempt("snapshot", "one that is partial", snapshots(("s1", "PARTIAL", 1.0)), "no successful snapshot"),
    Attempt("snapshot", "none", snapshots(), "no successful snapshot"),
    Attempt("snapshot", "one that ended tomorrow", snapshots(("s1", "SUCCESS", -24.0)), "in the future"),
    Attempt(
        "snapshot",
        "the repository is not there",
        cluster(SNAPSHOT, snapshots=None, unread={"snapshot": "answered 404"}),
        "answered 404",
    ),
    Attempt("headroom", "a warning", cluster(headroom={**ROOM, "heap": ("warn", "85 %")})),
    Attempt(
        "headroom",
        "too little storage",
        cluster(headroom={**ROOM, "storage": ("fail", "8 % free on es-a")}),
        "8 % free on es-a",
    ),
    Attempt(
        "headroom",
        "a rule that could not be asked",
        cluster(headroom={**ROOM, "cpu": ("unknown", "no stats")}),
        "no stats",
    ),
    Attempt("headroom", "a rule that is missing", cluster(headroom={}), "no such rule"),
    Attempt("headroom", "nobody answers", cluster(headroom=None), "could not be read"),
    Attempt("freeze", "nothing is frozen then", frozen(None)),
    Attempt("freeze", "the end of the year", frozen("end of year, until 2027-01-04"), "end of year"),
    Attempt("room in the window", "an hour for three quarters of one", room(60)),
    Attempt(
        "room in the window", "half an hour for three quarters of one", room(30), "30 minutes of the window are left"
    ),
    Attempt("room in the window", "it has closed", room(-5), "-5 minutes"),
]


def said(attempt: Attempt) -> list[Gate]:
    with tempfile.TemporaryDirectory() as folder:
        return list(attempt.make(Path(folder)))


def page(attempts: Sequence[Attempt]) -> str:
    return "\n".join(_page(attempts)) + "\n"


def _page(attempts: Sequence[Attempt]) -> Iterator[str]:
    names = list(dict.fromkeys(each.gate for each in attempts))
    refusing = sum(not each.passes for each in attempts)
    yield "# The gates of a game day"
    yield ""
    yield f"Made by `{COMMAND}` from attempts that a test makes each time: {len(attempts)} of them, {refusing} of which"
    yield "must be refused. What could not be read refuses. [Game days](gamedays.md) says when each is held."
    for name in names:
        yield ""
        yield f"## {name}"
        yield ""
        yield "| attempt | |"
        yield "|---|---|"
        for each in attempts:
            if each.gate == name:
                yield f"| {each.what} | {_outcome(each)} |"


def _outcome(attempt: Attempt) -> str:
    if attempt.passes:
        return "passes"
    with tempfile.TemporaryDirectory() as folder:
        bad = [gate for gate in attempt.make(Path(folder)) if not gate.ok]
        return f"refused: {bad[0].says.replace(folder, '…')}".replace("|", "\\|")


def all_attempts() -> list[Attempt]:
    more = [Attempt(*each) for each in MORE]
    names = list(dict.fromkeys(each.gate for each in (*more, *ATTEMPTS)))
    return sorted([*ATTEMPTS, *more], key=lambda each: names.index(each.gate))


def main() -> None:
    PAGE.write_text(page(all_attempts()))
    print(PAGE)


if __name__ == "__main__":
    main()
