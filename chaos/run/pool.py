"""The one lab that is up, reused from run to run for as long as it proves clean and green, else made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.base.errors import Dirty, InvalidInput, LabError
from chaos.definitions import Topology
from chaos.observe import disks
from chaos.observe.proof import problems, upgraded
from chaos.run.leftovers import refuse_leftovers
from chaos.run.options import new_lab_id
from chaos.targets.labs import kinds, sweep, traces
from chaos.targets.labs.base import BaseLab
from chaos.targets.parts import Parts


def made_of(topology: Topology) -> dict[str, Any]:
    """What of a topology a lab is made of: the settings of the load's index are each run's own."""
    data = topology.to_json() | {"file": None, "name": None, "description": None}
    return data | {"settings": {**data["settings"], "index": {}}}


class LabPool:
    """Serves every experiment of the lab's topology. ``says`` is told why a lab is not used again.

    ``given``: a lab of the user's (``--on``), which is never made anew and never taken away.
    """

    def __init__(
        self,
        says: Callable[[str], None],
        *,
        opensearch_home: Path | None = None,
        given: BaseLab | None = None,
        kind: str = kinds.DEFAULT,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._says, self._report = says, report
        self._home = opensearch_home
        self._given = given
        self._kind = kind
        self._served = False
        self._lab: BaseLab | None = None
        self._key: dict[str, Any] | None = None

    def parts(self, topology: Topology) -> Parts:
        """What a lab of this topology is made of: found, or fetched."""
        if self._given is not None:
            return self._given.manifest.parts
        return kinds.parts(self._kind, topology, self._report, opensearch_home=self._home)

    def get(
        self, topology: Topology, *, parts: Parts | None = None, check: Callable[[], None] = lambda: None
    ) -> BaseLab:
        """A clean green lab of this topology: the one that is up, or a new one. Raises ChaosError.

        ``check`` is called while a lab comes up and may raise to end that; nothing is left then.
        """
        if self._given is not None:
            if found := problems(self._given):
                kind = LabError if self._served else InvalidInput  # the user's to mend, or what a run left behind
                raise kind(
                    f"lab '{self._given.id}' is not as its topology says: {'; '.join(found[:3])}",
                    remedy="run: opensearch-chaos recover, or take it down and start it again",
                )
            self._served = True
            return self._given
        key = made_of(topology)
        if self._lab is not None:
            same = key == self._key
            found = upgraded(self._lab) + problems(self._lab) if same else ["another topology is asked for"]
            if not found:
                return self._lab
            self._says(f"new lab, because {'; '.join(found)}")
            self.close()
        kinds.require(self._kind)
        refuse_leftovers()
        lab = kinds.of_kind(self._kind).create(topology, parts or self.parts(topology), id=new_lab_id())
        try:
            with disks.named(lab):
                lab.up(self._report, check)
        except BaseException:
            lab.down()
            raise
        self._lab, self._key = lab, key
        return lab

    def close(self) -> None:
        """Take the lab away. Raises Dirty naming what could not be."""
        if self._lab is not None:
            lab, self._lab = self._lab, None
            left = lab.down()
            shutil.rmtree(sweep.logs() / lab.id, ignore_errors=True)  # the run folders have them
            left += [f"{trace} is still here" for trace in traces.of(lab.id)]
            if left:
                says = f"lab {lab.id} could not be taken away: {'; '.join(left)}"
                raise Dirty(says, remedy="run: opensearch-chaos recover")
