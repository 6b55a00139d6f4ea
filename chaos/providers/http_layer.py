"""Faults of HTTP requests by a layer that each of them passes: mitmproxy, with rules in a file."""

from __future__ import annotations

import secrets
from typing import Any

from chaos.faults.fault import Grade
from chaos.faults.kinds.http import HttpCut, HttpDelay, HttpHang, HttpStatus, OnRequests
from chaos.faults.moves import Move, Reversible, operation
from chaos.faults.offers import Aim, Means, Provider
from chaos.targets.protocol import Lab

PROVIDER = Provider("http_layer", "rules of a proxy that HTTP requests pass on their way to a host", grade=Grade.PATH)
NEEDS = ("http",)


@operation("http.rule.add")
def _add(lab: Lab, host: str, rule: dict[str, Any]) -> None:
    lab.http_layer(host).add(rule)


@operation("http.rule.remove")
def _remove(lab: Lab, host: str, rule: str) -> bool | None:
    return lab.http_layer(host).remove(rule)


def rules(fault: OnRequests, aim: Aim) -> Means:
    """A rule for each host that is asked. Its name is drawn when it is made, so that what has it is ours."""
    openers: dict[str, list[str]] = {}
    for opener, host in sorted(aim.links):
        openers.setdefault(host, []).append(opener)

    def both(id: str) -> tuple[Reversible, ...]:
        found = []
        for host, peers in openers.items():
            about = {"id": f"oschaos-{id}", "peers": peers, "share": float(fault.share)}
            about |= {"verbs": list(fault.verbs) or None, "paths": list(fault.paths) or None}
            add = Move("http.rule.add", {"host": host, "rule": about | fault.rule})
            found.append(Reversible(add, Move("http.rule.remove", {"host": host, "rule": f"oschaos-{id}"})))
        return tuple(found)

    return Means(both(aim.id), read=lambda lab: both(f"{aim.id}-{secrets.token_hex(8)}"))


@PROVIDER.carries_out(
    HttpDelay,
    mechanism="mitmproxy holds each request before it passes it on",
    undoing="the rule goes; requests that wait go on after their delay",
    needs=NEEDS,
)
def delay(fault: HttpDelay, aim: Aim) -> Means:
    return rules(fault, aim)


@PROVIDER.carries_out(
    HttpStatus,
    mechanism="mitmproxy answers in the server's place",
    undoing="the rule goes",
    needs=NEEDS,
)
def status(fault: HttpStatus, aim: Aim) -> Means:
    return rules(fault, aim)


@PROVIDER.carries_out(
    HttpHang,
    mechanism="mitmproxy passes nothing on, or half of an answer",
    undoing="the rule goes, and the connections of requests that hang are closed",
    needs=NEEDS,
)
def hang(fault: HttpHang, aim: Aim) -> Means:
    return rules(fault, aim)


@PROVIDER.carries_out(
    HttpCut,
    mechanism="mitmproxy closes the connection of a request, before its answer or in the middle of it",
    undoing="the rule goes",
    needs=NEEDS,
)
def cut(fault: HttpCut, aim: Aim) -> Means:
    return rules(fault, aim)
