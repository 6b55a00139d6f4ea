"""Evidence of what is done to HTTP requests: requests of ours over the very links, and what passed there of others'.

A request of ours *stands for* one that the fault is about: the layer treats it as the verb and path that a header names
(:mod:`chaos.targets.http_addon`), and the server is asked something harmless. So what clients get is seen by us as a
client, for any verb and path, and nothing is written. Beside them go requests that stand for something else, and those
over links without a fault: they must be answered as before.

Of a share of the requests some meet the fault and some do not. So many are sent that their number tells: it must lie
where 9,999 of 10,000 draws with that share would lie, and none may meet it when it is to be gone.
"""

from __future__ import annotations

import http.client
import itertools
import json
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos.faults.evidence import UNANSWERABLE, Look, Probe, Simple, milliseconds, tolerance
from chaos.faults.probes import HTTP_PING, SERVICE_PING, Pair
from chaos.targets.http_addon import PROBE, Rule, matches
from chaos.targets.protocol import Lab

SURE = 1e-4
"""How often, at the most, the number of requests that met a fault lies elsewhere though all is as asked."""
FEWEST = 4
"""Requests of ours over a link, where every one meets the fault; of a share there are more (:func:`enough`)."""
LANES = 8
"""How many requests of ours are under way over one link at a time."""
AT_ONCE, IN_TURN = 32, 6
"""How many are under way in all; fewer where what is measured is so short that they would be in each other's way, for
the layer is one process and takes some milliseconds for each."""
SHORT_SECONDS = 1.0
ANSWERED_SECONDS = 3.0
"""For so long an answer is waited for that nothing should hold."""
SILENT_SECONDS = 1.0
"""Without a byte for so long, a request hangs."""
CONTROLS = 2
"""Links that nobody touched, and that are asked beside the others."""
ELSEWHERE = "GET /_oschaos/elsewhere"
"""What no narrowed fault is about."""


class Answer(StrEnum):
    WHOLE = "answered"
    SILENT = "no answer"
    PART = "a part of an answer, and nothing more"
    CLOSED = "closed without an answer"
    CUT = "closed in mid-answer"
    NONE = "no connection"


@dataclass(frozen=True)
class Got:
    """What became of one request of ours. ``seconds``: until it was known."""

    answer: Answer
    seconds: float
    status: int | None = None

    def __str__(self) -> str:
        said = f"{self.answer} ({self.status})" if self.status is not None else str(self.answer)
        return f"{said} after {milliseconds(self.seconds)}"


def enough(share: float) -> int:
    """How many requests tell that this share of them meets a fault: one of them does, all but once in 10,000 times."""
    return FEWEST if share >= 1 else max(20, math.ceil(math.log(SURE) / math.log(1 - share)))


def bounds(count: int, share: float) -> tuple[int, int]:
    """Between which numbers of ``count`` requests meet a fault that each meets with this probability.

    Each side is exceeded with a probability of SURE / 2 at the most; one and the other are at least one request, where
    not all meet it, because nothing else tells a share from all or none.
    """
    if share >= 1:
        return count, count
    # by logarithms: of a run's thousands of requests neither the binomials nor the powers are numbers for floats
    log, of_none = [math.lgamma(k + 1) for k in range(count + 1)], math.log(1 - share)
    ratio = math.log(share) - of_none
    weights = [math.exp(log[count] - log[k] - log[count - k] + k * ratio + count * of_none) for k in range(count + 1)]

    def first(tail: Iterable[float]) -> int:
        """How many at this end are too improbable together."""
        return sum(1 for total in itertools.accumulate(tail) if total <= SURE / 2)

    return max(1, first(weights)), min(count - 1, count - first(reversed(weights)))


def ask(lab: Lab, pair: Pair, stands_for: str | None, timeout: float) -> Got:
    """One request over a new connection of a pair, standing for ``VERB /path``; None: for itself."""
    began = time.monotonic()
    service = lab.wiring[pair[1]].kind == "service"
    headers = {"Host": "probe", "Connection": "close", **({} if service else lab.access.headers())}
    headers |= {PROBE: stands_for} if stands_for else {}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    path = SERVICE_PING if service else HTTP_PING

    def got(answer: Answer, status: int | None = None) -> Got:
        return Got(answer, time.monotonic() - began, status)

    try:
        sock = lab.connect(pair[0], (lab.wiring[pair[1]].loopback, lab.wiring.port(*pair)), timeout)
    except OSError:
        return got(Answer.NONE)
    with sock:
        status: int | None = None
        try:
            sock.settimeout(timeout)
            sock.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())
            response = http.client.HTTPResponse(sock)
            response.begin()
            status = response.status
            response.read()
        except TimeoutError:
            return got(Answer.SILENT if status is None else Answer.PART, status)
        except (http.client.HTTPException, OSError):
            return got(Answer.CLOSED if status is None else Answer.CUT, status)
    return got(Answer.WHOLE, status)


@dataclass(frozen=True)
class Effect:
    """What a request that meets a fault gets. ``shows``: whether what it got is that; ``waits``: for how long it is
    waited for. ``adds``: seconds by which it delays what it lets through."""

    says: str
    shows: Callable[[Got], bool]
    waits: float = ANSWERED_SECONDS
    adds: float = 0.0


def delayed(seconds: float) -> Effect:
    """Whatever the machine adds, what waits for so long takes no less; how much more the fastest may take is judged of
    all together."""

    def shows(got: Got) -> bool:
        return got.answer is Answer.WHOLE and got.status == 200 and got.seconds >= seconds

    return Effect(f"answered after {milliseconds(seconds)} or more", shows, seconds + ANSWERED_SECONDS, seconds)


def answered_with(status: int) -> Effect:
    return Effect(f"answered {status}", lambda got: got.answer is Answer.WHOLE and got.status == status)


def hung(*, body: bool) -> Effect:
    wanted = Answer.PART if body else Answer.SILENT
    return Effect(str(wanted), lambda got: got.answer is wanted, SILENT_SECONDS)


def cut(*, body: bool) -> Effect:
    wanted = Answer.CUT if body else Answer.CLOSED
    return Effect(str(wanted), lambda got: got.answer is wanted)


@dataclass(frozen=True)
class Wanted:
    """Which requests a fault is about, in what a rule says of it, and the share of them."""

    share: float
    verbs: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def stands_for(self) -> str | None:
        """A verb and a path that it is about."""
        if not self.verbs and not self.paths:
            return None
        path = (self.paths or ("/_oschaos/probe",))[0]
        return f"{(self.verbs or ('GET',))[0]} {_literal(path)}"

    @property
    def elsewhere(self) -> str | None:
        """A request that it is not about; None where it is about all."""
        return ELSEWHERE if self.paths or (self.verbs and "GET" not in self.verbs) else None


def _literal(pattern: str) -> str:
    """A path that matches a shell pattern; of a set of characters its first."""
    out, at = "", 0
    while at < len(pattern):
        end = pattern.find("]", at + 2) if pattern[at] == "[" else -1
        if end > 0:
            inside = pattern[at + 1 : end]
            out += inside[0] if inside[0] != "!" else "0"
            at = end
        else:
            out += {"*": "oschaos", "?": "x"}.get(pattern[at], pattern[at])
        at += 1
    return out if out.startswith("/") else f"/{out}"


@dataclass
class Row:
    """What came of the requests over one link."""

    pair: Pair
    stands_for: str | None
    got: list[Got] = field(default_factory=list)

    @property
    def what(self) -> str:
        said = f" as {self.stands_for}" if self.stands_for else ""
        return f"requests {self.pair[0]} → {self.pair[1]}{said}"


class RequestEvidence(Simple):
    """Of a fault that every request, or a share of them, over these links meets."""

    def __init__(self, touched: Sequence[Pair], others: Sequence[Pair], wanted: Wanted, effect: Effect) -> None:
        self.touched, self._others = list(touched), list(others)[:CONTROLS]
        self._wanted, self._effect = wanted, effect
        self._before: dict[Pair, float] = {}
        self._links: frozenset[Pair] = frozenset()
        self._turns = itertools.count()
        self.effect_deadline = 15.0 + 3 * effect.adds
        self.gone_deadline = 30.0 + effect.adds

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        super().beside(links, nodes)
        self._links = links | {(b, a) for a, b in links}

    def _free(self, pairs: Sequence[Pair]) -> list[Pair]:
        return [pair for pair in pairs if pair not in self._links and not self._beside_nodes & set(pair)]

    def before(self, lab: Lab) -> Look:
        """Nothing is wrong yet, and what an answer takes."""
        rows = self._send(lab, [(pair, self._wanted.stands_for, 3) for pair in (*self.touched, *self._others)])
        for row in rows:
            self._before[row.pair] = min((got.seconds for got in row.got), default=0.0)
        probes = [self._calm(row) for row in rows]
        return Look(all(probe.ok for probe in probes), "requests are answered", probes)

    def in_effect(self, lab: Lab) -> Look:
        return self._look(lab, self._free(self.touched))

    def held(self, lab: Lab) -> Look:
        return self._look(lab, self._free(self.touched))

    def still(self, lab: Lab) -> Look | None:
        """One request over the next link; of a share one tells nothing."""
        free = self._free(self.touched)
        if self._wanted.share < 1 or not free:
            return None
        pair = free[next(self._turns) % len(free)]
        (row,) = self._send(lab, [(pair, self._wanted.stands_for, 1)])
        probe = self._met(row)
        return Look(probe.ok, f"requests: {self._effect.says}", [probe])

    def gone(self, lab: Lab) -> Look:
        pairs = self._free(self.touched)
        if not pairs:
            return Look(False, UNANSWERABLE)
        rows = self._send(lab, [(pair, self._wanted.stands_for, enough(self._wanted.share)) for pair in pairs])
        probes = [self._calm(row) for row in rows]
        return Look(all(probe.ok for probe in probes), "requests are answered as before", probes)

    def _look(self, lab: Lab, pairs: Sequence[Pair]) -> Look:
        number = enough(self._wanted.share)
        asked = [(pair, self._wanted.stands_for, number) for pair in pairs]
        controls = [(pair, self._wanted.stands_for, number) for pair in self._free(self._others)]
        if (elsewhere := self._wanted.elsewhere) is not None:
            controls += [(pair, elsewhere, FEWEST) for pair in pairs[:CONTROLS]]
        rows = self._send(lab, [*asked, *controls])
        probes = [self._met(row) for row in rows[: len(asked)]]
        calm = [self._calm(row, control=True) for row in rows[len(asked) :]]
        shown = sum(probe.ok for probe in probes)
        proven = bool(probes) and all(probe.ok for probe in [*probes, *calm])
        says = f"{shown} of {len(probes)} links: {self._effect.says}"
        return Look(
            proven,
            says + (f"; {sum(p.ok for p in calm)} of {len(calm)} others as before" if calm else ""),
            [*probes, *calm],
        )

    def _send(self, lab: Lab, asked: Sequence[tuple[Pair, str | None, int]]) -> list[Row]:
        """So many requests each, those over one link some at a time."""
        rows = [Row(pair, stands_for) for pair, stands_for, _ in asked]

        def lane(row: Row, count: int) -> None:
            for _ in range(count):
                row.got.append(ask(lab, row.pair, row.stands_for, self._effect.waits))

        work = []
        for row, (_, _, number) in zip(rows, asked, strict=True):
            lanes = min(LANES, number)
            work += [(row, number // lanes + (n < number % lanes)) for n in range(lanes)]
        if work:
            short = 0 < self._effect.adds < SHORT_SECONDS
            with ThreadPoolExecutor(min(len(work), IN_TURN if short else AT_ONCE)) as pool:
                list(pool.map(lambda each: lane(*each), work))
        return rows

    def _met(self, row: Row) -> Probe:
        before, effect = self._before.get(row.pair, 0.0), self._effect
        met = [got for got in row.got if effect.shows(got)]
        rest = [got for got in row.got if got not in met and not self._is_calm(got, before)]
        least, most = bounds(len(row.got), self._wanted.share)
        expected = (
            effect.says if least == most == len(row.got) else f"{least} to {most} of {len(row.got)} {effect.says}"
        )
        if effect.adds and met:  # the fastest of them was not held by the machine: it says how much was added
            limit = before + effect.adds + tolerance(effect.adds)
            in_time = min(got.seconds for got in met) <= limit
        else:
            in_time = True
        ok = least <= len(met) <= most and not rest and in_time
        return Probe(row.what, expected, self._said(row, met, rest), ok)

    def _said(self, row: Row, met: Sequence[Got], rest: Sequence[Got]) -> str:
        fastest = f", the first {min(met, key=lambda got: got.seconds)}" if met else ""
        odd = f", {len(rest)} otherwise ({rest[0]})" if rest else ""
        return f"{len(met)} of {len(row.got)}{fastest}{odd}"

    def _calm(self, row: Row, *, control: bool = False) -> Probe:
        before = self._before.get(row.pair, 0.0)
        wrong = [got for got in row.got if not self._is_calm(got, before)]
        said = f"{len(row.got) - len(wrong)} of {len(row.got)}" + (
            f", {len(wrong)} otherwise ({wrong[0]})" if wrong else ""
        )
        what = f"untouched: {row.what}" if control else row.what
        return Probe(what, "answered 200", said, bool(row.got) and not wrong, control=control)

    def _is_calm(self, got: Got, before: float) -> bool:
        late = bool(self._effect.adds) and got.seconds > before + self._effect.adds / 2
        return got.answer is Answer.WHOLE and got.status == 200 and not late


def recorded(file: Path, since: int) -> list[dict[str, Any]]:
    """The lines of a layer's record that ended after a moment (monotonic ns); the last one may be half written."""
    found = []
    try:
        with open(file, "rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    row = json.loads(line)
                    if row.get("end", row["t"]) >= since:
                        found.append(row)
    except FileNotFoundError:
        return []
    return found


class OwnRequests(RequestEvidence):
    """And the requests that nodes themselves sent since: at least one met the fault, as many as the share says, and how
    each was answered is what the fault is. ``shows``: of a line of the record."""

    def __init__(
        self,
        touched: Sequence[Pair],
        others: Sequence[Pair],
        wanted: Wanted,
        effect: Effect,
        *,
        fault: str,
        shows: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        super().__init__(touched, others, wanted, effect)
        self._fault, self._shows = fault, shows
        self._begun: int | None = None
        self._ended: int | None = None
        self.effect_deadline += 20.0

    def in_effect(self, lab: Lab) -> Look:
        self._begun = self._begun or time.monotonic_ns()
        return self._with_nodes(lab, super().in_effect(lab), self._begun)

    def held(self, lab: Lab) -> Look:
        return self._with_nodes(lab, super().held(lab), self._begun or time.monotonic_ns())

    def gone(self, lab: Lab) -> Look:
        self._ended = self._ended or time.monotonic_ns()
        look = super().gone(lab)
        after = [row for row in self._of_nodes(lab, self._ended) if row["t"] >= self._ended]
        wrong = [row for row in after if self._is_mine(row)]
        said = f"{len(wrong)} of {len(after)} met it"
        probe = Probe("requests of nodes", "none met it", said, not wrong)
        return Look(look.proven and probe.ok, look.says, [*look.probes, probe])

    def _with_nodes(self, lab: Lab, look: Look, since: int) -> Look:
        rows = [row for row in self._of_nodes(lab, since) if row["t"] >= since]
        met = [row for row in rows if self._is_mine(row)]
        wrong = [row for row in met if not self._shows(row)]
        count, (least, most) = len(rows), bounds(len(rows), self._wanted.share)
        ok = bool(met) and not wrong and (count < 20 or least <= len(met) <= most)
        share = "all" if self._wanted.share >= 1 else f"{self._wanted.share:.0%}"
        expected = f"{share} of those that it is about: {self._effect.says}"
        said = f"{len(met)} of {count} met it" + (f", {len(wrong)} otherwise ({_line(wrong[0])})" if wrong else "")
        said += f", such as {_line(met[-1])}" if met else ""
        probe = Probe("requests of nodes", expected, said, ok)
        says = f"{look.says}; {said.split(',')[0]} of the nodes' own requests"
        return Look(look.proven and ok, says, [*look.probes, probe])

    def _of_nodes(self, lab: Lab, since: int) -> list[dict[str, Any]]:
        """Lines about requests of nodes that the fault is about. One that hangs has a line when it begins to."""
        about: Rule = {"verbs": self._wanted.verbs, "paths": self._wanted.paths, "peers": {a for a, _ in self.touched}}
        found = []
        for host in dict.fromkeys(b for _, b in self.touched):
            for row in recorded(lab.http_layer(host).record, since):
                if row.get("kind") == "tick" or row.get("probe") or (row["how"] == "hung" and "kind" not in row):
                    continue
                if matches(about, row["peer"], row["verb"], row["path"]):
                    found.append(row)
        return found

    def _is_mine(self, row: Mapping[str, Any]) -> bool:
        return str(row["rule"] or "").startswith(f"oschaos-{self._fault}-")


def _line(row: Mapping[str, Any]) -> str:
    took = f" after {(row['end'] - row['t']) / 1e6:.0f} ms" if "end" in row else ""
    return f"{row['verb']} {row['path']}: {row['how']} {row.get('status') or ''}{took}".strip()
