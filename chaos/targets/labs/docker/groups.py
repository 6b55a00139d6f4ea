"""The control groups that an engine on this machine made for its containers, for whoever may write to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos.base.errors import LabError
from chaos.targets.labs.cgroups import V1_NAMES, Hierarchy, enter, hierarchies


class ContainerGroups:
    """As :class:`chaos.targets.labs.cgroups.Groups`, of groups that somebody else makes and removes.

    ``process``: a node's name → the pid of its container's first process, as this machine counts; raises LabError.
    """

    def __init__(
        self, process: Callable[[str], int], found: dict[str, Hierarchy] | None = None, proc: Path = Path("/proc")
    ) -> None:
        self._process, self._proc = process, proc
        self._found = hierarchies() if found is None else found

    def built(self, controller: str) -> bool:
        return controller in self._found

    def version(self, controller: str) -> int:
        return self._found[controller].version

    def root(self, controller: str) -> Path:
        return self._found[controller].root

    def of(self, node: str) -> Path | None:
        """Where writes to block devices are counted; None when the container does not run."""
        try:
            return self.folder("io", node)
        except LabError:
            return None

    def folder(self, controller: str, *path: str) -> Path:
        """Of the node that ``path`` ends with."""
        if not self.built(controller):
            raise LabError(f"there are no control groups for '{controller}' here")
        hierarchy = self._found[controller]
        return hierarchy.root / self._place(path[-1], hierarchy.version, V1_NAMES[controller]).lstrip("/")

    def place(self, pid: int, node: str) -> None:
        """Put a process into the group that limits a node's memory."""
        enter(self.folder("memory", node), pid)

    def _place(self, node: str, version: int, controller: str) -> str:
        file = self._proc / str(self._process(node)) / "cgroup"
        try:
            lines = [line.split(":", 2) for line in file.read_text().splitlines()]
        except OSError as error:
            raise LabError(f"the control groups of {node} cannot be read: {error.strerror}") from error
        for number, controllers, place in lines:
            if (version == 2 and number == "0") or (version == 1 and controller in controllers.split(",")):
                return place
        raise LabError(f"the container of {node} has no control group for '{controller}'")
