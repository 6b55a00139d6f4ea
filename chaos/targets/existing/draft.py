"""The first draft of a target's file, from what the cluster says. It allows nothing but to be looked at."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.definitions.existing import ExistingFile
from chaos.definitions.selectors import NAME
from chaos.definitions.source import Source
from chaos.definitions.topology import VERSION
from chaos.targets.existing.seen import Seen

ZONES = "abcdefghijklmnopqrstuvwxyz"


def zones(seen: Seen) -> dict[str, str]:
    """Zone of experiments → value of the attribute: their own names where those will do, else a, b, c.

    Raises InvalidInput where nodes have no zone, or there are too many.
    """
    if seen.nodes is None:
        raise InvalidInput(f"its nodes are not known: {seen.unread['nodes']}", remedy="ask as a user who may list them")
    without = [node.name for node in seen.nodes if node.zone is None]
    if without:
        said = ", ".join(sorted({key for node in seen.nodes for key in node.attributes})) or "none at all"
        raise InvalidInput(
            f"{len(without)} of {len(seen.nodes)} nodes have no attribute '{seen.attribute}' ({without[0]} is one)",
            remedy=f"name the attribute that holds the zone with --zone-attribute; there are: {said}",
        )
    values = sorted({node.zone for node in seen.nodes if node.zone is not None})
    if all(re.fullmatch(NAME, value) and len(value) == 1 for value in values):
        return {value: value for value in values}
    if len(values) > len(ZONES):
        raise InvalidInput(f"{len(values)} zones are more than a file can name", remedy="name another attribute")
    return dict(zip(ZONES, values, strict=False))


def draft(
    seen: Seen,
    endpoints: Sequence[str],
    access: dict[str, Any],
    name: str,
    *,
    of_nodes: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    kubernetes: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The file's text. ``access``: keys of it that are not as by default. ``of_nodes``: more keys of each node;
    ``kubernetes``: those of the section, where nodes are pods."""
    named = zones(seen)
    zone_of = {value: zone for zone, value in named.items()}
    assert seen.nodes is not None
    identity = seen.identity
    version = seen.nodes[0].version  # what GET / says may be another one, for clients of old
    if not re.fullmatch(VERSION, version):
        raise InvalidInput(f"its nodes run {version}, which is no release", remedy="write the file by hand")
    lines = [
        "# Drafted from what the cluster said of itself. Read it: whatever is done to the cluster goes by this file.",
        "apiVersion: opensearch-chaos/v1",
        "kind: existing",
        f"name: {name}",
        "endpoints:",
        *(f"  - {_quoted(each)}" for each in endpoints),
        *(["access:", *(f"  {key}: {_quoted(value)}" for key, value in access.items())] if access else []),
        "identity:",
        f"  cluster_uuid: {_quoted(identity.cluster_uuid)}",
        f"  cluster_name: {_quoted(identity.cluster_name)}",
        f"opensearch: {version}",
        "zones:",
        f"  attribute: {_quoted(seen.attribute)}",
        "  names:",
        *(f"    {_quoted(zone)}: {_quoted(value)}" for zone, value in named.items()),
        *(["kubernetes:", *(f"  {key}: {_quoted(value)}" for key, value in kubernetes.items())] if kubernetes else []),
        "nodes:",
        *(
            f"  {_quoted(node.name)}: {{zone: {_quoted(zone_of[node.zone or ''])}, "
            f"roles: [{', '.join(map(_quoted, node.roles))}]"
            + "".join(f", {key}: {_quoted(value)}" for key, value in of_nodes.get(node.name, {}).items())
            + "}"
            for node in seen.nodes
        ),
        "# observe: nothing is changed, not even an index of ours. Each rung allows what is before: plan, node, zone.",
        "rung: observe",
    ]
    return "\n".join(lines) + "\n"


def file_name(cluster_name: str) -> str:
    """A name for the file, from the cluster's."""
    made = re.sub(r"[^a-z0-9]+", "-", cluster_name.lower()).strip("-")[:40]
    return made or "cluster"


def write(text: str, path: Path) -> None:
    """Write a draft that says what it should. Raises InvalidInput where a file is there, or it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"{path} is there already, and nothing was written", remedy="name another with --name, or move it away"
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", remedy="name another folder") from None
    ExistingFile.model_validate(Source.read(path).data)  # a draft that cannot be read would be our mistake


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def _quoted(value: Any) -> str:
    """A value as YAML reads it back; quoted where it could be taken for something else."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_quoted(key)}: {_quoted(each)}' for key, each in value.items())}}}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
