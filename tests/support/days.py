"""Records of game days, made up: whole ones, refused ones, aborted ones, dead ones."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

Lines = list[dict[str, Any]]
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
HEADLINE = "Reads held. Writes failed or came late for 48 s while zone c was dark."
HELD = "Reads and writes held."


class Making:
    """Adds lines a given number of seconds after the beginning."""

    def __init__(self, begin: str = "2026-11-24T09:00:00+00:00") -> None:
        self.begin = datetime.fromisoformat(begin)
        self.lines: Lines = []

    def add(self, after: float, kind: str, **fields: Any) -> Making:
        moment = (self.begin + timedelta(seconds=after)).astimezone(UTC)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
        self.lines.append({"n": len(self.lines) + 1, "t": stamp, "kind": kind, **fields, "prev": "0" * 64})
        return self

    def asked(self, name: str = "staging-tuesday", **more: Any) -> Making:
        fields = {"gameday": name, "digest": DIGEST, "file": "experiments/gamedays/staging-tuesday.yaml"}
        fields |= {"host": "runner-1", "user": "chaos", "version": "1.9.0", "command": "gameday run staging-tuesday"}
        return self.add(0, "day.asked", **fields, **more)

    def gate(self, after: float, name: str, ok: bool | None = True, says: str = "as wanted", **more: Any) -> Making:
        return self.add(
            after, "gate", **{"name": name, "ok": ok, "says": says, "remedy": None, "before": "the day"} | more
        )

    def announced(self, after: float, event: str, ok: bool = True, why: str | None = None) -> Making:
        return self.add(after, "announced", event=event, way="slack", label="env:SLACK", ok=ok, why=why, took_ms=84.0)

    def guard(
        self, after: float, name: str, state: str, value: float | None, number: int, why: str | None = None
    ) -> Making:
        counts = "outcome" if name == "users" else "blocking"
        return self.add(after, "guard", name=name, counts=counts, value=value, state=state, why=why, number=number)

    def guards(self, begin: int, end: int) -> Making:
        """Both guards, good, each minute."""
        for after in range(begin, end, 60):
            self.guard(after, "users", "good", 0.9991, after // 10).guard(after, "payments", "good", 0.002, after // 10)
        return self

    def alert(self, after: float, name: str, state: str, **labels: str) -> Making:
        return self.add(after, "alert", name=name, labels={"severity": "page", **labels}, state=state, at=after)

    def experiment(
        self,
        begin: float,
        end: float | None,
        number: int,
        name: str,
        outcome: str = "pass",
        headline: str = HELD,
        **more: Any,
    ) -> Making:
        """Only its two lines: what lies between must be added with :meth:`add`, and :meth:`done` sorts."""
        self.add(
            begin, "experiment.begin", number=number, name=name, rung=more.pop("rung", "zone"), file=f"../{name}.yaml"
        )
        if end is not None:
            code = {"pass": 0, "weakness": 1, "inconclusive": 3, "aborted": 4, "error": 5}[outcome]
            fields = {"number": number, "name": name, "outcome": outcome, "exit_code": code, "clean": True}
            fields |= {"folder": f"runs/{number}-{name}", "seconds": end - begin, "headline": headline}
            self.add(end, "experiment.end", **fields | more)
        return self

    def done(self) -> Lines:
        self.lines.sort(key=lambda line: str(line["t"]))
        return [{**line, "n": n} for n, line in enumerate(self.lines, 1)]


def opening(making: Making | None = None) -> Making:
    """All that comes before the first experiment of a day that may begin."""
    made = (making or Making()).asked(
        hypothesis="One zone may go dark, and nobody notices for longer than ten seconds.",
        target="staging",
        owner="team-search <search@example.com>",
        experiments=["data-node-kill", "zone-black-hole"],
    )
    made.gate(1, "window", says="Tuesday 10:00 to 12:00 Europe/Berlin, until 12:00")
    made.gate(1.2, "freezes", says="2 calendars, nothing is frozen")
    made.gate(1.4, "approval", says="2 of 2 people signed this very plan")
    made.add(
        1.5, "approval", people=["ada@example.com", "grace@example.com"], digest=DIGEST, until="2026-11-28T09:00:00Z"
    )
    made.gate(2, "guards", says="2 of 2 are good")
    made.gate(3, "snapshot", says="nightly-2026.11.24 ended 5 h ago")
    made.add(4, "lock.taken", token=17)
    made.announced(5, "before").announced(6, "begin")
    made.add(
        40,
        "drill",
        seconds=14.2,
        bound=120.0,
        ok=True,
        how="stop file",
        says="a harmless setting, tripped by its stop file",
    )
    return made


def whole() -> Lines:
    """Two experiments, of which the second found a weakness; an alert fired, another did not."""
    made = opening().guards(10, 1500)
    made.gate(60, "preflight", before="experiment data-node-kill").experiment(62, 400, 1, "data-node-kill", rung="node")
    made.gate(420, "preflight", before="experiment zone-black-hole")
    made.experiment(425, 1200, 2, "zone-black-hole", "weakness", HEADLINE)
    made.guard(641, "users", "bad", 0.931, 64, "below 99%").guard(655, "users", "good", 0.9987, 66)
    made.guard(800, "payments", "none", None, 80, "no series").guard(812, "payments", "good", 0.001, 81)
    made.alert(655, "ZoneDown", "pending", zone="c").alert(700, "ZoneDown", "firing", zone="c")
    made.alert(1005, "ZoneDown", "resolved", zone="c").alert(750, "HighLatency", "firing")
    made.add(
        1300, "expectation", name="ZoneDown", what="fires", verdict="pass", says="fired 65 s after the zone was dark"
    )
    made.add(
        1300.1,
        "expectation",
        name="WritesFailing",
        what="fires",
        verdict="weakness",
        says="never fired: a silent alert",
    )
    made.announced(1400, "end", ok=False, why="it answers 500")
    made.add(1500, "day.end", outcome="weakness", exit_code=1, says="zone-black-hole found a weakness")
    return made.done()


def good(begin: str = "2026-11-17T09:00:00+00:00") -> Lines:
    """One on which everything held."""
    made = opening(Making(begin)).guards(10, 1300)
    made.experiment(62, 400, 1, "data-node-kill", rung="node").experiment(425, 1200, 2, "zone-black-hole")
    made.add(1250, "expectation", name="ZoneDown", what="fires", verdict="pass", says="fired after 65 s")
    made.announced(1290, "end").add(1300, "day.end", outcome="pass", exit_code=0, says="all held")
    return made.done()


def refused() -> Lines:
    made = Making().asked(hypothesis="One zone may go dark.", experiments=["zone-black-hole"])
    made.gate(1, "window", says="Tuesday 10:00 to 12:00 Europe/Berlin")
    remedy = "let grace@example.com sign: opensearch-chaos gameday approve staging-tuesday"
    made.gate(2, "approval", False, "1 of 2 people signed this very plan", remedy=remedy)
    made.announced(3, "refused").add(4, "day.end", outcome="refused", exit_code=2, says="approval refused it")
    return made.done()


def aborted() -> Lines:
    """The stop file was touched in the second experiment, and it took longer to undo than it may."""
    made = opening().guards(10, 600).experiment(62, 400, 1, "data-node-kill", rung="node")
    made.experiment(425, 660, 2, "zone-black-hole", "aborted", "The run was stopped: the file staging.stop is there.")
    made.add(600, "stop", by="stop file", why="/run/oschaos/staging.stop is there").announced(601, "abort")
    made.add(760, "undone", seconds=160.0, bound=120.0, all=True, proven=True)
    made.add(762, "hold", why="it was aborted by the stop file")
    made.add(770, "day.end", outcome="aborted", exit_code=4, says="stopped by the stop file")
    return made.done()


def dead() -> Lines:
    return Making().asked().done()


def findings(outcome: str = "pass") -> dict[str, Any]:
    missed = {"title": "write.good >= 99% in dark", "measured_text": "93.1 %", "counts_as": "weakness"}
    fault = {
        "says": "zone c cut off",
        "phase": "dark",
        "targets": ["c-cm", "c-data"],
        "links": [],
        "proven": True,
        "gone": 61.0,
    }
    return {"outcome": outcome, "findings": [missed] if outcome == "weakness" else [], "faults": [fault]}


def runs() -> list[dict[str, Any]]:
    """Those of :func:`whole`."""
    return [
        {"folder": "runs/1-data-node-kill", "findings": findings()},
        {"folder": "runs/2-zone-black-hole", "findings": findings("weakness")},
    ]
