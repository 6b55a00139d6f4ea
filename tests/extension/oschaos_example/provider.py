"""A provider: it carries the write block out, by the index' settings."""

from __future__ import annotations

from chaos.api.errors import FaultError
from chaos.api.providers import Aim, Grade, Lab, Means, Move, Provider, Reversible, administer, operation
from oschaos_example.kinds import SETTING, WriteBlock

PROVIDER = Provider("example", "settings of an index that a team steers itself", grade=Grade.PATH)


@operation("example.block", sets=lambda index: {("index", SETTING): "true"})
def block(lab: Lab, index: str) -> None:
    put(lab, index, "true")


@operation("example.unblock", sets=lambda index: {("index", SETTING): None})
def unblock(lab: Lab, index: str) -> None:
    put(lab, index, None)


def put(lab: Lab, index: str, value: str | None) -> None:
    status, answer = administer(lab, "PUT", f"/{index}/_settings", {SETTING: value})
    if status not in (200, 404):
        raise FaultError(f"OpenSearch does not take {SETTING}: {status}, {str(answer)[:200]}")


@PROVIDER.carries_out(
    WriteBlock,
    mechanism="the index' setting index.blocks.write",
    undoing="the setting goes, and OpenSearch takes writes again",
)
def write_block(fault: WriteBlock, aim: Aim) -> Means:
    index = {"index": aim.scene.index}
    return Means((Reversible(Move("example.block", index), Move("example.unblock", index)),))
