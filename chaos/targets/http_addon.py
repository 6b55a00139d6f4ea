"""What mitmproxy is told to do with requests: delay, answer, hang and cut some of them, and write a line for each.

mitmproxy loads this file by its path, in a Python of its own that has none of our packages, so it imports nothing of
chaos. The variable OSCHAOS_HTTP names a file of JSON: ``rules`` (path of the rules in force), ``record`` (path of the
record) and ``peers`` (port on which the layer listens → host that opens the connections).

Rules are a list of objects. ``id`` is the rule's own name and ``peers`` the hosts whose requests it is about. ``verbs``
and ``paths`` (shell patterns) narrow it, where they are not null, and ``share`` (0..1) of the matching requests meet
it. ``effect`` is one of

delay   the request goes on after ``seconds``
status  answered here with ``status``, ``body`` and ``type``; the server never sees it
hang    never answered: ``where`` is ``before`` (nothing comes) or ``body`` (head and half of a part of the body come)
cut     the connection ends: ``before`` an answer, or in its ``body``

The rules are read anew when their file has changed, so a rule holds for requests that begin after it was written. Hung
requests end with their rule: their connections are closed. A path is matched without its query; a request that lists
keys (``prefix=``) counts as one for that prefix. A request with the header X-Oschaos-Probe is one of ours: it *stands
for* the verb and path that the header names, and the server is asked what its request line says.

The record has a line of JSON for each request that ended: ``t`` and ``end`` (CLOCK_MONOTONIC, ns), ``peer``, ``verb``,
``path``, ``sent`` and ``got`` (bytes of body), ``status`` (null: none came), ``how`` (answered, status, cut, hung,
left: the client went away, unreachable: the server gave no answer), ``rule`` that it met, ``keys`` (those that an S3
request with ``?delete`` takes away) and ``probe`` where it is ours. One that begins to hang has a line of the kind
``hangs`` before, without what is not known yet. Once a second there is a line ``tick`` with how many requests wait and
since when the oldest does: as long as it comes, no request can have been missed. Neither headers nor queries but
``prefix`` are in it, so no credential is.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROBE = "X-Oschaos-Probe"
CONFIGURATION = "OSCHAOS_HTTP"
TICK_SECONDS = 1.0
LOOK_SECONDS = 0.05
"""How often a request that hangs looks whether its rule is still in force, and its client still there."""
CUT_SECONDS = 0.02
"""Between half a body and the end of its connection, so that the one is read before the other."""

Rule = Mapping[str, Any]


def subject(target: str) -> str:
    """What rules and record call a request's path: without its query, but with the prefix that it lists."""
    parts = urlsplit(target)
    prefix = parse_qs(parts.query).get("prefix", [""])[0]
    return f"{parts.path.rstrip('/')}/{prefix.lstrip('/')}" if prefix else parts.path


def matches(rule: Rule, peer: str, verb: str, path: str) -> bool:
    """Whether a rule is about a request."""
    if peer not in rule["peers"] or (rule.get("verbs") and verb not in rule["verbs"]):
        return False
    return not rule.get("paths") or any(fnmatchcase(path, pattern) for pattern in rule["paths"])


def chosen(rules: Iterable[Rule], peer: str, verb: str, path: str, draw: float) -> Rule | None:
    """The first rule that a request meets, given a number drawn from [0, 1)."""
    return next((rule for rule in rules if matches(rule, peer, verb, path) and draw < rule["share"]), None)


class Rules:
    """The rules in force: a file that is written anew as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._rules: list[Rule] = []

    def now(self) -> Sequence[Rule]:
        """Another file has another inode: two that were written within a tick of the clock are told apart by it."""
        there = os.stat(self._path)
        if (there.st_ino, there.st_mtime_ns) != self._seen:
            self._rules = json.loads(self._path.read_text())
            self._seen = (there.st_ino, there.st_mtime_ns)
        return self._rules

    def has(self, id: str) -> bool:
        return any(rule["id"] == id for rule in self.now())


class Half:
    """Lets through the first half of the first part of a body, and nothing after it."""

    def __init__(self) -> None:
        self.got = 0
        self.began = False

    def __call__(self, data: bytes) -> bytes:
        if self.began or not data:
            return b""
        self.began = True
        first = data[: len(data) // 2]
        self.got = len(first)
        return first


class Requests:
    """The addon: rules are applied to requests, and requests are written down."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._rules = Rules(Path(configuration["rules"]))
        self._peers = {int(port): name for port, name in configuration["peers"].items()}
        self._record = open(configuration["record"], "a", buffering=1)  # noqa: SIM115 - as long as the process
        self._random = random.Random()
        self._waiting: dict[str, int] = {}
        self._ticks: asyncio.Task[None] | None = None

    def running(self) -> None:
        self._ticks = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            oldest = min(self._waiting.values(), default=None)
            self._write({"kind": "tick", "t": time.monotonic_ns(), "waiting": len(self._waiting), "oldest": oldest})
            await asyncio.sleep(TICK_SECONDS)

    def _write(self, line: Mapping[str, Any]) -> None:
        self._record.write(json.dumps(line, separators=(",", ":")) + "\n")

    # -- mitmproxy's hooks, in the order in which a request meets them ------------------------------

    def requestheaders(self, flow: Any) -> None:
        """A request has begun: what it is, and which rule it meets, are settled."""
        begun = time.monotonic_ns()
        said = flow.request.headers.pop(PROBE, None)
        verb, target = (said.split(" ", 1) if said else (flow.request.method, flow.request.path))[:2]
        path = subject(target)
        peer = self._peers[flow.client_conn.sockname[1]]
        rule = chosen(self._rules.now(), peer, verb, path, self._random.random())
        flow.metadata["oschaos"] = {
            "t": begun,
            "peer": peer,
            "verb": verb,
            "path": path,
            "rule": rule,
            "how": "answered",
            "probe": said is not None,
        }
        self._waiting[flow.id] = begun

    async def request(self, flow: Any) -> None:
        """The request is here as a whole: what happens before an answer happens now."""
        note = flow.metadata["oschaos"]
        if flow.request.method == "POST" and "delete" in urlsplit(flow.request.path).query.split("&"):
            body = (flow.request.raw_content or b"").decode(errors="replace")
            note["keys"] = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body, re.DOTALL)]
        if (rule := note["rule"]) is None or rule.get("where") == "body":
            return
        if rule["effect"] == "delay":
            await asyncio.sleep(rule["seconds"])
        elif rule["effect"] == "status":
            from mitmproxy.http import Response

            note["how"] = "status"
            body = "" if flow.request.method == "HEAD" else rule["body"]
            flow.response = Response.make(rule["status"], body, {"Content-Type": rule["type"]})
        elif rule["effect"] == "hang":
            await self._hang(flow, note, rule)
        elif rule["effect"] == "cut":
            self._end(flow, note, "cut")

    def responseheaders(self, flow: Any) -> None:
        note = flow.metadata["oschaos"]
        if (rule := note["rule"]) is not None and rule.get("where") == "body" and self._has_body(flow):
            note["half"] = flow.response.stream = Half()

    @staticmethod
    def _has_body(flow: Any) -> bool:
        """Of an answer without a body there is nothing to hold back: it is left as it is."""
        length = flow.response.headers.get("content-length")
        return flow.request.method != "HEAD" and flow.response.status_code not in (204, 304) and length != "0"

    async def response(self, flow: Any) -> None:
        """The answer is here as a whole, and was sent as far as it is to be."""
        note = flow.metadata["oschaos"]
        half = note.get("half")
        if half is not None and half.began:
            if note["rule"]["effect"] == "hang":
                await self._hang(flow, note, note["rule"])
            else:
                await asyncio.sleep(CUT_SECONDS)
                self._end(flow, note, "cut")
        elif note["rule"] is not None and note["rule"].get("where") == "body":  # an answer without a byte of body
            note["rule"] = None
        self._ended(flow)

    def error(self, flow: Any) -> None:
        """No answer comes any more. A server that gave none is no 502: its client's connection ends, as it would."""
        if (note := flow.metadata.get("oschaos")) is None:
            return
        if note["how"] == "answered":
            client = flow.error is not None and "client" in flow.error.msg.lower()
            note["how"] = "left" if client else "unreachable"
        if flow.killable:
            flow.kill()
        self._ended(flow)

    # ----------------------------------------------------------------------------------------------

    async def _hang(self, flow: Any, note: dict[str, Any], rule: Rule) -> None:
        note["how"] = "hung"
        line = {name: note[name] for name in ("t", "peer", "verb", "path", "how")}
        self._write(line | {"kind": "hangs", "rule": rule["id"]} | ({"probe": True} if note["probe"] else {}))
        while self._rules.has(rule["id"]) and flow.client_conn.timestamp_end is None and flow.client_conn.connected:
            await asyncio.sleep(LOOK_SECONDS)
        self._end(flow, note, "hung")

    def _end(self, flow: Any, note: dict[str, Any], how: str) -> None:
        note["how"] = how
        if flow.killable:
            flow.kill()

    def _ended(self, flow: Any) -> None:
        note = flow.metadata["oschaos"]
        if self._waiting.pop(flow.id, None) is None:
            return
        answer, half = flow.response, note.get("half")
        came = answer is not None and (note["how"] in ("answered", "status") or (half is not None and half.began))
        line = {name: note[name] for name in ("t", "peer", "verb", "path", "how")}
        line |= {"end": time.monotonic_ns(), "sent": len(flow.request.raw_content or b"")}
        line |= {"status": answer.status_code if came else None, "rule": note["rule"]["id"] if note["rule"] else None}
        line["got"] = half.got if half is not None and half.began else len(answer.raw_content or b"") if came else 0
        line |= {"keys": note["keys"]} if "keys" in note else {}
        self._write(line | ({"probe": True} if note["probe"] else {}))


addons: list[Requests] = []
if CONFIGURATION in os.environ:
    addons.append(Requests(json.loads(Path(os.environ[CONFIGURATION]).read_text())))
