"""Compare-and-set on a few documents, for the check that OpenSearch keeps its promise about them.

An attempt reads a key (realtime get, through whichever copy answers) and writes a value that nobody else writes,
with ``if_seq_no`` and ``if_primary_term`` of what it read. Attempts come in pairs for one key, from two client
zones at once where there are two, so that there is something to win. Which two is drawn for each pair: counted through,
three zones and three keys would give each key the same two for ever. Every operation is two lines of
``history/cas.jsonl``:

* ``kind`` invoke, before it is sent: ``op`` (number), ``process`` (the attempt), ``f`` read or cas, ``key``,
  ``zone``; of a cas ``value`` [read, new], ``if_seq_no``, ``if_primary_term``;
* ``kind`` ok, fail or info, when it has ended: ``op``, ``outcome``, ``status``, ``node``; ``seq_no`` and
  ``primary_term`` that were answered; of a read ``value`` (None: there is no such document).

``fail`` means that it surely changed nothing: a read without an answer, a cas for which no connection was made.
Any other cas without a yes is ``info``, a conflict too: the cluster may have repeated the request by itself, and
the repetition met its own first try (OpenSearch's ConcurrentSeqNoVersioningIT). What has status 2xx and says no
value or no version is garbled, so it is no yes. Nor is one that speaks of another document, or of no copy that took it
(wrong, :mod:`chaos.load.right`). A read of the right id whose fields contradict each other stays a read, and is told as
wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.base.ids import cas_id
from chaos.history.format import Outcome
from chaos.history.writer import CAS, Broken
from chaos.load.client import Send
from chaos.load.config import CasConfig
from chaos.load.examples import Told
from chaos.load.exchange import Answer, Paced, ask
from chaos.load.right import CONTENT, Judge, fields_of
from chaos.load.turns import order
from chaos.load.workload import Workload
from chaos.opensearch.requests import WRITE_FIELDS, document_path

_READ = "?filter_path=_index,_id,found,_seq_no,_primary_term,_source"
_TURNS = {"read": 1000, "cas": 1001}
_ZONES = 3000
"""Tells the orders of client zones from other orders of the same seed."""


class CompareAndSet(Paced):
    """The attempts of one load.

    ``zones`` and ``nodes``: names by number. ``sender``: what sends the next request from a zone (its number); it is
    told ``read`` or ``cas`` and which attempt it is, see :func:`turn_of`. ``seed``: see :func:`zone_of`.
    """

    def __init__(
        self,
        config: CasConfig,
        workload: Workload,
        *,
        index: str,
        alias: str | None,
        out: Path,
        zones: list[str],
        nodes: list[str],
        sender: Callable[[int, str, int], Send],
        timeout_s: float,
        seed: int,
        broken: Broken,
        judge: Judge,
        told: Told,
    ) -> None:
        super().__init__(config.rate, at_once=max(10, int(config.rate * timeout_s * 3)), file=out / CAS, broken=broken)
        self._seed = seed
        self._keys, self._workload = config.keys, workload
        self._index, self._alias = index, alias
        self._zones, self._nodes = zones, nodes
        self._sender = sender
        self._timeout_s = timeout_s
        self._judge, self._told = judge, told

    def due(self, number: int) -> float:
        """Two attempts at the same moment, then two intervals of rest."""
        return super().due(number - number % 2)

    def turn(self, number: int) -> None:
        """One attempt: read a key, then write if nobody else has."""
        key = cas_id(key_of(number, self._keys))
        zone = zone_of(number, len(self._zones), self._seed)
        read = self._operation(2 * number, number, "read", key, zone)
        if read is None or self.given_up:
            return
        self._operation(2 * number + 1, number, "cas", key, zone, read)

    def _operation(
        self, op: int, process: int, f: str, key: str, zone: int, read: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Carry out one operation and write it down. What a get has read, None when it has read no document."""
        path, body, said = f"/{self._index}/_doc/{key}{_READ}", None, {}
        if read is not None:
            value = process + 1  # 0 is there before the load
            said = {
                "value": [read["value"], value],
                "if_seq_no": read["seq_no"],
                "if_primary_term": read["primary_term"],
            }
            condition = f"if_seq_no={read['seq_no']}&if_primary_term={read['primary_term']}"
            path = document_path(self._index, key, f"{condition}&{WRITE_FIELDS}", self._alias)
            body = json.dumps(self._workload.content(key, value), separators=(",", ":"))
        self.note("invoke", op=op, process=process, f=f, key=key, zone=self._zones[zone], **said)
        method, shape = ("GET", "get") if read is None else ("PUT", "index")

        def wrong(status: int, data: Any) -> str:
            if read is None:
                return self._judge.named("get of", key, data, fields_of(path))
            return self._judge.write(status, data, key, fields_of(path), over=read["seq_no"])

        answer = ask(self._sender(zone, f, process), shape, method, path, body, self._timeout_s, wrong)
        kind, found = of_read(answer, self._workload.value) if read is None else of_write(answer)
        outcome = Outcome.GARBLED if kind != "ok" and answer.outcome is Outcome.OK else Outcome(answer.outcome)
        node = None if answer.node is None else self._nodes[answer.node]
        self.note(kind, op=op, outcome=outcome.name.lower(), status=answer.status, node=node, **found)
        if says := answer.wrong or self._contradicts(key, answer, found):
            self._told(f"cas.{'read' if read is None else 'write'}", says, node)
        return found if kind == "ok" and found.get("seq_no") is not None else None

    def _contradicts(self, key: str, answer: Answer, found: dict[str, Any]) -> str:
        """What is wrong with the content of a key that a read has shown."""
        value = found.get("value")
        if value is None or not isinstance(answer.data, dict):
            return ""
        return self._judge.document(answer.data, key, CONTENT, self._workload.content(key, value))


def key_of(number: int, keys: int) -> int:
    """The key (its number) of an attempt: both of a pair have the same."""
    return number // 2 % keys


def zone_of(number: int, zones: int, seed: int) -> int:
    """The client zone (its number) of an attempt: two different ones in a pair where there are two."""
    return order(range(zones), seed, _ZONES, number // 2)[number % 2 % zones]


def turn_of(f: str, number: int) -> int:
    """The number under which a balancer counts the turns of ``read`` or ``cas`` of an attempt: of each by itself.

    From one counter over two nodes every read would go to the one and every write to the other; and the two of a pair,
    where there is one client zone, to different nodes always.
    """
    return 2 * _TURNS[f] + number % 2


def of_read(answer: Answer, field: str) -> tuple[str, dict[str, Any]]:
    """What a get says: ok with a document, ok with none (``value`` None), or fail."""
    data = answer.data if isinstance(answer.data, dict) else {}
    try:
        if data["found"] is False:
            return "ok", {"value": None}
        if data["found"] is True:
            return "ok", {"value": _whole_number(data["_source"][field]), **_version(data)}
    except (KeyError, TypeError):
        pass
    return "fail", {}


def of_write(answer: Answer) -> tuple[str, dict[str, Any]]:
    """What a conditional write says: ok with its version, fail when it never left, info for all else."""
    data = answer.data if isinstance(answer.data, dict) else {}
    if answer.outcome is Outcome.OK:
        try:
            return "ok", _version(data)
        except (KeyError, TypeError):
            return "info", {}
    return "fail" if answer.never_sent else "info", {}


def _version(data: dict[str, Any]) -> dict[str, int]:
    """seq_no and primary term of an answer. Raises KeyError or TypeError where it says none."""
    return {"seq_no": _whole_number(data["_seq_no"]), "primary_term": _whole_number(data["_primary_term"])}


def _whole_number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value
