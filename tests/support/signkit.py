"""People with real SSH keys, and a game day that they may approve."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.definitions.existing import Existing, ExistingFile
from chaos.definitions.gameday import GameDay, GameDayFile
from chaos.gamedays import approval

NODES: dict[str, dict[str, str]] = {
    "id-a-1": {"name": "es-a-1", "zone": "a"},
    "id-b-1": {"name": "es-b-1", "zone": "b"},
    "id-c-1": {"name": "es-c-1", "zone": "c"},
}
CAPS = {"requests": "200/s", "documents": 10000, "copies": 9}


def ssh_keygen(*arguments: str | Path) -> None:
    """Raises CalledProcessError."""
    subprocess.run(["ssh-keygen", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)


def key(folder: Path, name: str) -> Path:
    """A new key pair; its private half."""
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name)
    return folder / name


def public(private: Path) -> str:
    """Type and key, as a line of allowed signers ends."""
    return " ".join(private.with_name(f"{private.name}.pub").read_text().split()[:2])


def day_in(folder: Path, *, rung: str = "node", **changes: Any) -> GameDay:
    """``changes``: parts of the file that are others."""
    written: dict[str, Any] = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "gameday",
        "name": "staging-tuesday",
        "owner": "team-search <search@example.com>",
        "hypothesis": "nobody notices that a zone is gone",
        "target": "staging.yaml",
        "experiments": [{"experiment": "zone-dark.yaml", "rung": rung}],
        "window": {"zone": "Europe/Berlin", "days": ["tue", "thu"], "from": "10:00", "to": "12:00"},
        "approval": {"allowed_signers": "allowed_signers"},
        "ladder": {"waived": "this is a test of approvals"},
        "guards": {"users": {"counts": "outcome", "program": {"run": ["true"]}}},
        "announce": [{"webhook": "http://hooks.example/day"}],
        "bounds": {"day": "60m"},
        "stop": {"file": "/run/opensearch-chaos/staging.stop"},
        **changes,
    }
    return GameDay(file="staging-tuesday.yaml", folder=folder, written=GameDayFile.model_validate(written))


def plan(name: str = "zone-dark", **changes: Any) -> dict[str, Any]:
    """One experiment's plan on the cluster, as ``plan --on FILE --json`` has it."""
    return {
        "experiment": name,
        "digest": "d" * 64,
        "rung": "node",
        "reach": [
            {"phase": "dark", "hit": ["es-b-1"], "voteless": [], "steps": [], "rows": []},
            {"phase": "after", "hit": [], "voteless": [], "steps": [], "rows": []},
        ],
        "steps": [
            {
                "phase": "dark",
                "step": "inject network.black_hole: to es-b-1",
                "fault": "f1",
                "provider": "ssh",
                "targets": ["es-b-1"],
                "moves": ["nft.drop es-b-1"],
                "inverse": ["nft.undrop es-b-1"],
            },
            {"phase": "dark", "step": "hold for 2m", "inverse": None},
            {"phase": "after", "step": "undo all", "inverse": None},
        ],
        "refused": [],
        **changes,
    }


def target_in(
    folder: Path, *, uuid: str = "uuid-staging", caps: Mapping[str, Any] | None = CAPS, **changes: Any
) -> Existing:
    """The cluster on which the day would be held. ``changes``: parts of its file that are others."""
    written: dict[str, Any] = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "existing",
        "name": "staging",
        "endpoints": ["http://127.0.0.1:9"],
        "identity": {"cluster_uuid": uuid, "cluster_name": "staging"},
        "opensearch": "3.8.0",
        "zones": {"names": {"a": "za"}},
        "nodes": {"es-a-1": {"zone": "a", "roles": ["data"]}},
        "caps": caps,
        **changes,
    }
    return Existing(file="staging.yaml", folder=folder, written=ExistingFile.model_validate(written))


def wanted(
    day: GameDay,
    *plans: Mapping[str, Any],
    nodes: Mapping[str, Mapping[str, str]] = NODES,
    uuid: str = "uuid-staging",
    caps: Mapping[str, Any] | None = CAPS,
    target: Existing | None = None,
) -> dict[str, Any]:
    """What is to be approved of a day."""
    return approval.content(day, plans or (plan(),), nodes, target or target_in(day.folder, uuid=uuid, caps=caps))
