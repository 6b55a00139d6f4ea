"""Restarts of nodes that Amazon OpenSearch Service carries out on a domain of its own (docs/domain.md).

FIS has no action for a domain, and nobody but AWS has a way to its nodes. AWS restarts one data node at a time when it
is asked (StartDomainMaintenance). What AWS says of its success counts for nothing: another process of the node must be
a member (:class:`chaos.faults.effects.Restarted`), while AWS does not deny what it was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.base.errors import ChaosError, FaultError, Lacking
from chaos.faults.corroboration import Corroborated, with_probe
from chaos.faults.effects import Restarted
from chaos.faults.evidence import Evidence, Look, Probe
from chaos.faults.fault import Grade
from chaos.faults.kinds.node import NodeRestart
from chaos.faults.moves import Move, Reversible, operation, said, signed
from chaos.faults.offers import Aim, Means, Provider
from chaos.opensearch.views import administer
from chaos.targets.existing.domain import Domain
from chaos.targets.existing.target import ExistingTarget
from chaos.targets.protocol import Lab

PROVIDER = Provider("domain", "Amazon OpenSearch Service, on a domain", grade=Grade.EFFECT, of_others=True)
HOST = "Amazon OpenSearch Service"
LATER = "(the run's)"
"""What a plan cannot know of a move."""


def there(lab: Lab) -> Domain:
    """The domain that the target is, if it is one."""
    if not isinstance(lab, ExistingTarget) or lab.domain is None:
        raise FaultError("only a cluster that exists, and whose file says so, is a domain")
    return lab.domain


@operation("domain.maintain", late=signed)
def _maintain(lab: Lab, host: str, node: str, id: str, before: Sequence[str]) -> None:
    there(lab).maintain(id, before)


@operation("domain.settle")
def _settle(lab: Lab, host: str, node: str, id: str, before: Sequence[str]) -> None:
    there(lab).settle(id, before)


@PROVIDER.carries_out(
    NodeRestart,
    mechanism="approximate: StartDomainMaintenance, RESTART_SEARCH_PROCESS or REBOOT_NODE by the target's file",
    undoing="it cannot be taken back: AWS is waited for until its maintenance is over",
    proof="the node says another start of its process, the cluster has it as a member under another ephemeral id and "
    "is whole and green, while AWS does not deny its maintenance",
    differs="one data node at a time, when AWS comes to it",
    needs=("domain",),
)
def restart(fault: NodeRestart, aim: Aim) -> Means:
    if fault.how == "kill":
        raise Lacking("AWS restarts nodes in its own order, and kills none", remedy="how: orderly")
    if len(aim.nodes) > 1:
        raise Lacking("AWS restarts one node of a domain at a time", remedy="one node for each fault")
    (node,) = aim.nodes

    def both(id: str, before: Sequence[str]) -> tuple[Reversible, ...]:
        what: dict[str, Any] = {"host": HOST, "node": node, "id": id, "before": list(before)}
        return (Reversible(Move("domain.maintain", what), Move("domain.settle", what)),)

    return Means(
        both(LATER, []),
        in_order=True,
        read=lambda lab: both(*listed_by(lab, node)),
        evidence=lambda _: Undenied(Restarted([node], within=float(fault.within)), node),
    )


def listed_by(lab: Lab, node: str) -> tuple[str, list[str]]:
    """By which id AWS knows a node, and the maintenances that there are by now. Raises ChaosError."""
    domain = there(lab)
    assert isinstance(lab, ExistingTarget)
    return domain.node_id(lambda path: administer(lab, "GET", path), node), domain.known()


class Undenied(Corroborated):
    """The evidence ``own``, and beside it what AWS says of its maintenance.

    It may call one completed whose node never left. A node that came back by itself, while AWS failed or began
    nothing, is no fault of ours.
    """

    what, expected = "reported by AWS: the maintenance", "not denied"

    def __init__(self, own: Evidence, node: str) -> None:
        super().__init__(own)
        self._node = node
        self._id = ""
        self._before: list[str] = []

    def before(self, lab: Lab) -> Look:
        look, what = super().before(lab), "AWS lists the node"
        try:
            self._id, self._before = listed_by(lab, self._node)
        except ChaosError as error:
            return with_probe(look, Probe(what, "once", said(error), False))
        return with_probe(look, Probe(what, "once", f"as {self._id}", True))

    def word(self, lab: Lab, *, over: bool) -> tuple[str, bool]:
        word = there(lab).word(self._id, self._before)
        return word.says, word.over if over else not word.denied
