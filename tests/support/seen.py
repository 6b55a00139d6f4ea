"""A cluster in memory as others see it: who answers, who has whom as a member, who gets something from whom."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import urllib3
from fakes import FakeLab

from chaos.definitions.hooks import Hook
from chaos.faults import effects
from chaos.targets.wiring import Wiring


class Asked(Wiring):
    """Nothing is reached from beside: nodes are asked for each other, and what clients get nobody sees."""

    def answers(self, source: str, node: str) -> bool:
        return self[source].kind == "node"

    def reached(self, source: str, node: str) -> bool:
        return False


class Seen(FakeLab):
    """``deaf``: they do not answer us, but by their kernel; ``shut``: not even by that. ``lost``: the others have them
    as members no more. ``cut``: (who asks, whom) gets nothing. ``slow``: who says nothing of others."""

    asks = True

    def __init__(self) -> None:
        super().__init__()
        self.wiring = Asked(self.wiring.lab, self.wiring.hosts)
        self.deaf: set[str] = set()
        self.shut: set[str] = set()
        self.lost: set[str] = set()
        self.cut: set[tuple[str, str]] = set()
        self.slow: set[str] = set()
        self.starts: dict[str, int] = {}
        """Node → how often its process was started anew."""
        self.known: dict[tuple[str, str], int] = {}
        """(who says it, of whom) → which of its processes it has for a member; default the newest."""
        self.status = "green"

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.topology.nodes]

    @property
    def viewers(self) -> tuple[str, ...]:
        return tuple(self.names)

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        return _Client(self, node)

    def administration(self, node: str) -> Any:
        return _Door(self, node)

    def again(self, *nodes: str) -> None:
        """They are started anew, and everybody knows it."""
        for node in nodes:
            self.starts[node] = self.starts.get(node, 0) + 1

    def kill(self, *nodes: str) -> None:
        """As dead ones are."""
        self.deaf, self.shut, self.lost = set(nodes), set(nodes), set(nodes)


class _Client:
    def __init__(self, lab: Seen, node: str) -> None:
        self._lab, self._node = lab, node

    def request(self, method: str, path: str, **_: Any) -> tuple[int, Any]:
        lab, node = self._lab, self._node
        if node in lab.shut:
            refused = urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]
            raise refused from ConnectionRefusedError(111, "Connection refused")
        if node in lab.deaf:
            raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]
        if path == effects.STARTED:
            return 200, {"nodes": {"x": {"jvm": {"start_time_in_millis": 1000 + lab.starts.get(node, 0)}}}}
        if path == effects.WHOLE:
            there = len(set(lab.names) - lab.lost)
            return 200, {"status": lab.status, "number_of_nodes": there, "discovered_cluster_manager": True}
        if path.startswith("/_nodes/_local/"):
            return 200, {"nodes": {"x": {"name": node}}}
        if path.startswith("/_nodes/"):
            other = path.split("/")[2]
            there = other not in lab.deaf | lab.shut and (node, other) not in lab.cut
            return 200, {"nodes": {"x": {"name": other}} if there else {}}
        assert path in (effects.MEMBERS, effects.LIVES), path
        if node in lab.slow:
            return 503, {"error": "no cluster manager"}
        if path == effects.LIVES:
            ids = {name: lab.known.get((node, name), lab.starts.get(name, 0)) for name in lab.names}
            nodes = {name: {"name": name, "ephemeral_id": f"{name}-{id}"} for name, id in ids.items()}
            return 200, {"nodes": {name: each for name, each in nodes.items() if name not in lab.lost}}
        return 200, {"nodes": {name: {"name": name} for name in lab.names if name not in lab.lost}}

    def close(self) -> None:
        return


class _Door:
    def __init__(self, lab: Seen, node: str) -> None:
        self._lab, self._node = lab, node

    def connect(self, timeout: float) -> Any:
        if self._node in self._lab.shut:
            raise ConnectionRefusedError(111, "Connection refused")
        return self

    def close(self) -> None:
        return


class WithHooks(Seen):
    """The same with programs: ``folder`` holds them, and the file ``made`` is the fault, which they make and see."""

    run = "run-1"

    def __init__(self, folder: Path, nodes: tuple[str, ...] = (), cut: set[tuple[str, str]] | None = None) -> None:
        super().__init__()
        self.folder, self.hooks_folder, self._nodes, self._cut = folder / "target", folder, nodes, cut or set()
        self.written = {"within": "5s", "ttl": "5m"}
        self.kills = True
        """Dead nodes, or such as stand still."""

    def hook(self, kind: str) -> Hook:
        calls = {call: ["./hook", call] for call in ("inject", "in_effect", "undo", "gone")}
        return Hook.model_validate({**calls, **self.written}).beside(self.hooks_folder)

    def client(self, node: str, *, timeout: float = 5.0) -> Any:
        self.look()
        return super().client(node, timeout=timeout)

    def administration(self, node: str) -> Any:
        self.look()
        return super().administration(node)

    def look(self) -> None:
        made = (self.hooks_folder / "made").exists()
        self.cut = self._cut if made else set()
        self.deaf = set(self._nodes) if made else set()
        self.shut, self.lost = (self.deaf, self.deaf) if self.kills else (set(), set())
