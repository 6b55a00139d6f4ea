"""A game day's files, with everything that they name, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.definitions.gameday import GameDay, load_gameday

TARGET = """\
apiVersion: opensearch-chaos/v1
kind: existing
name: staging
endpoints: [http://127.0.0.1:9]
identity: {cluster_uuid: abcdefghijklmnopqrstuv, cluster_name: search}
opensearch: 3.8.0
zones: {names: {a: za, b: zb, c: zc}}
nodes:
  es-a: {zone: a, roles: [data], url: http://127.0.0.1:9}
notes: .opensearch-chaos
rung: zone
until: 2099-12-31
"""
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: NAME
topology: 3az
load:
  read:  {rate: 10/s, good: ok within 5s}
  write: {rate: 5/s, good: ok within 5s}
  documents: 50
phases:
  healthy: {for: 2s}
  dead:    {for: 5s, inject: {node.kill: {target: node c-data}}}
expect:
  - {acknowledged.lost: 0}
guards: {max: 10m}
"""
DAY: dict[str, Any] = {
    "apiVersion": "opensearch-chaos/v1",
    "kind": "gameday",
    "name": "staging",
    "owner": "team-search <search@example.com>",
    "hypothesis": "Users notice nothing when a node dies.",
    "target": "target/staging.yaml",
    "experiments": [{"experiment": "one.yaml", "rung": "node"}],
    "window": {"zone": "Europe/Berlin", "days": ["mon", "tue", "wed", "thu", "fri"], "from": "10:00", "to": "16:00"},
    "approval": {"allowed_signers": "allowed_signers"},
    "ladder": {"waived": "it is a test of the tool itself"},
    "guards": {"users": {"counts": "outcome", "program": {"run": ["true"]}}},
    "announce": [{"webhook": "http://127.0.0.1:9/hook"}],
    "bounds": {"day": "30m", "abort": "1m"},
    "stop": {"file": "/STOP"},
}
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ1lTnB2a2Vybm9ib2R5a25vd3NpdGF0YWxsMDAx"


def spelled(value: Any) -> str:
    import json

    return json.dumps(value)


def written(folder: Path, day: Mapping[str, Any] | None = None, cluster: str = TARGET, **changes: Any) -> Path:
    """The day's file, with the files that it names beside it. ``changes``: of :data:`DAY`; None takes a key away.

    ``cluster``: the text of its target."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "target").mkdir(exist_ok=True)
    (folder / "target" / "staging.yaml").write_text(cluster)
    made = {**(DAY if day is None else day), **changes}
    for step in made["experiments"]:
        name = Path(step["experiment"]).stem
        if not (folder / step["experiment"]).exists():
            (folder / step["experiment"]).write_text(EXPERIMENT.replace("NAME", name))
    if not (folder / "allowed_signers").exists():
        (folder / "allowed_signers").write_text(f"ann@example.com {KEY}\n")
    made["stop"] = {**made["stop"], "file": made["stop"]["file"].replace("/STOP", str(folder / "stop"))}
    file = folder / f"{made['name']}.yaml"
    file.write_text("".join(f"{key}: {spelled(value)}\n" for key, value in made.items() if value is not None))
    return file


def a_day(folder: Path, **changes: Any) -> GameDay:
    return load_gameday(written(folder, **changes))
