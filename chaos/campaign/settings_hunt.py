"""A hunt for settings that are accepted and deadly.

The property: whatever a cluster accepts as a change of its settings, it can take back. After each accepted request
health, the creation of an index and the undo must answer, each within :data:`PATIENCE` seconds, and the undo must have
put back what was there. Every dynamic cluster setting is tried with values within and at the edges of what its kind of
value allows, in an order drawn from a seed; then pairs of values that were accepted alone.

What breaks it ends the cluster's life: the next draw gets a new one. A pair that breaks it is shrunk to one value where
that suffices. What became of a draw is written down at once, so that a hunt goes on where it stopped.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3

from chaos.base.errors import LabError
from chaos.campaign import journal
from chaos.definitions import Topology
from chaos.opensearch.rest import NodeClient
from chaos.run.pool import LabPool
from chaos.run.stopping import Stop
from chaos.targets.labs.base import BaseLab

PATIENCE = 30.0
"""Seconds within which health, a new index and the undo must answer."""
INDEX = "hunted"
KEPT_ALONE = ("logger.", "cluster.remote.")
"""Groups that are no single settings."""
UNDONE, REFUSED, DEAF, ONCE = "undone", "refused", "deaf", "deaf once, not again"
STATIC = re.compile(r"not (dynamically updateable|recognized)|final")
"""In the refusal of a setting that no request can change."""

TIMES = ("0ms", "-1", "1nanos", "1ms", "1s", "30d", "106751d")
SIZES = ("-1", "0b", "1b", "1kb", "9223372036854775807b")
SHARES = ("0%", "0.1%", "100%", "-1%")
WHOLE = ("-1", "0", "1", "2", "2147483647", "-2147483648")
FRACTIONS = ("-1", "0", "0.5", "1", "1.5", "1e308", "NaN")
TRUTHS = ("true", "false")
WORDS = ("", "a", "a,b,c", "*", "-*", "none", "all")
KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"true|false", TRUTHS),
    (r"-?\d+(\.\d+)?(nanos|micros|ms|s|m|h|d)", (*TIMES, *WHOLE[:2])),
    (r"-?\d+(\.\d+)?([kmgtp]?b)", (*SIZES, *SHARES[:2])),
    (r"-?\d+(\.\d+)?%", (*SHARES, *SIZES[:2])),
    (r"-?\d+", WHOLE),
    (r"-?\d*\.\d+([eE]-?\d+)?", FRACTIONS),
)
"""What a default looks like, and what is tried instead. The edges of each kind are among it."""


@dataclass(frozen=True)
class Draw:
    """Settings that are changed in one request after the other; mostly one."""

    changes: tuple[tuple[str, str], ...]

    @property
    def says(self) -> str:
        return ", then ".join(f"{key}: {json.dumps(value)}" for key, value in self.changes)


def values_for(default: Any) -> tuple[str, ...]:
    """Values to try for a setting with this default, its own left out."""
    text = str(default)
    values = next((values for pattern, values in KINDS if re.fullmatch(pattern, text)), WORDS)
    return tuple(value for value in dict.fromkeys(values) if value != text)


def singles(defaults: Mapping[str, Any], seed: int) -> list[Draw]:
    """Every value of every setting once, in an order drawn from the seed."""
    found = [
        Draw(((key, value),))
        for key, default in sorted(defaults.items())
        if not key.startswith(KEPT_ALONE)
        for value in values_for(default)
    ]
    random.Random(seed).shuffle(found)
    return found


def pairs(accepted: Sequence[tuple[str, str]], seed: int) -> Iterator[Draw]:
    """Without end: two values that were accepted alone, of two settings whose names begin alike, or of one."""
    drawn = random.Random(seed)
    by_group: dict[str, list[tuple[str, str]]] = {}
    for key, value in accepted:
        by_group.setdefault(".".join(key.split(".")[:3]), []).append((key, value))
    groups = sorted(group for group, members in by_group.items() if len(members) > 1)
    while groups:
        yield Draw(tuple(drawn.sample(by_group[drawn.choice(groups)], 2)))


# ---- one draw ----------------------------------------------------------------------------------------------


def tried(draw: Draw, ask: Callable[[str, str, Any], tuple[int, Any]]) -> dict[str, Any]:
    """Make the changes, see whether the cluster still listens, and take them back.

    ``ask``: method, path, body → status and answer; status 0 where none came in time. ``outcome``: ``refused`` where no
    change was accepted, ``undone``, or ``deaf`` with what did not answer.
    """
    accepted, refusal = [], ""
    for key, value in draw.changes:
        status, answer = ask("PUT", "/_cluster/settings", {"persistent": {key: value}})
        if status == 200:
            accepted.append(key)
        elif status == 0 or status >= 500:
            return {"outcome": DEAF, "deaf": [_told("the change itself", status, answer)]}
        else:
            refusal = str(answer)
    if not accepted:
        return {"outcome": REFUSED} | ({"static": True} if STATIC.search(refusal) else {})
    deaf = []
    for what, method, path, body in _questions({"persistent": dict.fromkeys(accepted)}):
        status, answer = ask(method, path, body)
        if status != 200 and (what in MENDS or status == 0 or status >= 500):
            deaf.append(_told(what, status, answer))
        if status == 0 and len(deaf) > 1:
            break
    mended = not any(each["what"] in MENDS for each in deaf)
    status, answer = ask("GET", "/_cluster/settings?flat_settings=true", None)
    left = sorted(set(accepted) & set(answer.get("persistent", {}))) if status == 200 else ["not known"]
    if left and mended:
        deaf.append({"what": f"still set after the undo: {', '.join(left)}", "status": status, "answer": ""})
        mended = False
    # an index that could not be made while the value held is what some settings are for; what cannot be undone is not
    return {"outcome": UNDONE if mended else DEAF, "deaf": deaf} if deaf else {"outcome": UNDONE}


MENDS = ("the undo", "health after the undo", "an index after the undo")
"""What must be answered with 200 whatever was set."""


def _questions(undo: dict[str, Any]) -> Iterator[tuple[str, str, str, Any]]:
    """What is asked after a change, in words and as a request: the cluster state changes twice before the undo."""
    deadlines = "cluster_manager_timeout=20s&timeout=5s"
    made = ("PUT", f"/{INDEX}?wait_for_active_shards=0&{deadlines}", {"settings": SMALL})
    gone = ("DELETE", f"/{INDEX}?{deadlines}", None)
    yield "health", "GET", "/_cluster/health", None
    yield "a new index", *made
    yield "its deletion", *gone
    yield "the undo", "PUT", "/_cluster/settings?cluster_manager_timeout=20s", undo
    yield "health after the undo", "GET", "/_cluster/health", None
    yield "an index after the undo", *made
    yield "its deletion", *gone


SMALL = {"number_of_shards": 1, "number_of_replicas": 0}


def _told(what: str, status: int, answer: Any) -> dict[str, Any]:
    return {"what": what, "status": status, "answer": str(answer)[:300]}


def asker(client: NodeClient) -> Callable[[str, str, Any], tuple[int, Any]]:
    """Requests to a node that never raise for what the cluster does."""

    def ask(method: str, path: str, body: Any) -> tuple[int, Any]:
        try:
            return client.request(method, path, body=body)
        except urllib3.exceptions.HTTPError as error:
            return 0, type(error).__name__

    return ask


# ---- the hunt ----------------------------------------------------------------------------------------------


class Journal(journal.Journal):
    """With which settings no request can change, and what was tried already."""

    def __init__(self, file: Path, plan: str | None = None) -> None:
        super().__init__(file, plan)
        self.static = {line["changes"][0][0] for line in self.lines if line.get("static")}

    def done(self) -> set[tuple[tuple[str, str], ...]]:
        return {tuple((key, value) for key, value in line["changes"]) for line in self.lines}

    def undone_alone(self) -> list[tuple[str, str]]:
        """Single changes that were accepted and taken back."""
        ours = (line["changes"] for line in self.lines if line["outcome"] == UNDONE)
        return [(changes[0][0], changes[0][1]) for changes in ours if len(changes) == 1]

    def write(self, line: dict[str, Any]) -> None:
        super().write(line)
        if line.get("static"):
            self.static.add(line["changes"][0][0])


@dataclass
class Hunt:
    """Draws on a lab that is made anew whenever one went deaf."""

    pool: LabPool
    topology: Topology
    journal: Journal
    seed: int
    stop: Stop
    says: Callable[[str], None]
    _there: BaseLab | None = None

    def run(self, seconds: float) -> list[dict[str, Any]]:
        """Draw for so long, or until everything was drawn. Returns what was found deaf in this call."""
        deadline = time.monotonic() + seconds
        found = []
        for draw in self._draws():
            self.stop.check()
            if time.monotonic() > deadline:
                break
            told = self._tried(draw)
            if told["outcome"] == DEAF:
                draw, told = self._confirmed(draw, told)
                self.says(f"{told['outcome']}: {draw.says}")
                found.append({"changes": draw.changes, **told})
            self.journal.write({"changes": draw.changes, **told})
        return found

    def _draws(self) -> Iterator[Draw]:
        """What was not drawn yet. Of a setting that turns out to be static the rest is left out."""
        done = self.journal.done()
        for draw in singles(dynamic(self._lab()), self.seed):
            if draw.changes not in done and draw.changes[0][0] not in self.journal.static:
                yield draw
        yield from pairs(self.journal.undone_alone(), self.seed + len(self.journal.lines))

    def _confirmed(self, draw: Draw, told: dict[str, Any]) -> tuple[Draw, dict[str, Any]]:
        """The smallest part of a draw that is deaf on a new cluster too, and what that one said."""
        alone = [Draw((change,)) for change in draw.changes] if len(draw.changes) > 1 else []
        for part in (*alone, draw):
            self._renew()
            again = self._tried(part)
            if again["outcome"] == DEAF:
                self._renew()
                return part, again
        self._renew()
        return draw, {**told, "outcome": ONCE}

    def _tried(self, draw: Draw) -> dict[str, Any]:
        client = self._client()
        try:
            return tried(draw, asker(client))
        finally:
            client.close()

    def _lab(self) -> BaseLab:
        if self._there is None:
            self._there = self.pool.get(self.topology, check=self.stop.check)
        return self._there

    def _renew(self) -> None:
        """The next lab is a new one."""
        self._there = None
        self.pool.close()

    def _client(self) -> NodeClient:
        lab = self._lab()
        return lab.client(lab.topology.nodes[0].name, timeout=PATIENCE)


def dynamic(lab: BaseLab) -> dict[str, Any]:
    """The cluster's settings with their defaults; which of them are dynamic only a change tells."""
    client = lab.client(lab.topology.nodes[0].name, timeout=PATIENCE)
    try:
        status, answer = client.request("GET", "/_cluster/settings?include_defaults=true&flat_settings=true")
    finally:
        client.close()
    if status != 200:
        raise LabError(f"the settings of lab '{lab.id}' cannot be read: {status}")
    return dict(answer["defaults"])
