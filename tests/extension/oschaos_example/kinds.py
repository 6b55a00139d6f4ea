"""A kind of fault: the load's index takes no writes."""

from __future__ import annotations

import itertools

import urllib3

from chaos.api.faults import UNREADABLE, Aim, Evidence, Kind, Lab, Look, Means, Probe, Scene, Simple, Wiring

SETTING = "index.blocks.write"


class WriteBlock(Kind):
    """The load's index takes no writes, as a team sets it before it moves an index."""

    kind = "example.write_block"
    family = "index"
    examples = ({},)
    proof = "by its own state each node that answers blocks writes to the index, and did not before"
    holding = "every two seconds what one node's own state says, in turn; before the undo all of them"

    def describe(self) -> str:
        return "block writes to the load's index"

    def claims(self, scene: Scene) -> frozenset[str]:
        return frozenset({f"the setting {SETTING} of index {scene.index}"})

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring)

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return BlockEvidence(aim.scene.index)


class BlockEvidence(Simple):
    """What each node's own state says of the index."""

    def __init__(self, index: str) -> None:
        self._path = f"/{index}/_settings/{SETTING}?flat_settings=true&local=true"
        self._turns = itertools.count()

    def before(self, lab: Lab) -> Look:
        return self._look(lab, [node.name for node in lab.topology.nodes], blocked=False)

    def in_effect(self, lab: Lab) -> Look:
        return self._look(lab, [node.name for node in lab.topology.nodes], blocked=True)

    def still(self, lab: Lab) -> Look | None:
        nodes = lab.topology.nodes
        return self._look(lab, [nodes[next(self._turns) % len(nodes)].name], blocked=True)

    def gone(self, lab: Lab) -> Look:
        return self.before(lab)

    def _look(self, lab: Lab, nodes: list[str], *, blocked: bool) -> Look:
        probes = []
        for node in nodes:
            said = self._said(lab, node)
            if said is not None:
                wanted = "blocked" if blocked else "takes writes"
                measured = "blocked" if said else "takes writes"
                probes.append(Probe(f"the index by the state of {node}", wanted, measured, said is blocked, about=node))
        shown = sum(probe.ok for probe in probes)
        return Look(bool(probes) and shown == len(probes), f"{shown} of {len(probes)} nodes say so", probes)

    def _said(self, lab: Lab, node: str) -> bool | None:
        """Whether the node blocks writes; None when it does not answer."""
        client = lab.client(node, timeout=3.0)
        try:
            status, answer = client.request("GET", self._path)
            held = [each["settings"] for each in answer.values()] if status == 200 else []
            return any(each.get(SETTING) == "true" for each in held) if status == 200 else None
        except (urllib3.exceptions.HTTPError, *UNREADABLE):
            return None
        finally:
            client.close()
