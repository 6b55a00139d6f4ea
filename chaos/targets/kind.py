"""What a kind of target says of itself: how it is made, what it needs here, and what it may leave behind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from chaos.base import paths
from chaos.definitions import Topology
from chaos.targets.parts import Parts

if TYPE_CHECKING:
    from chaos.targets.labs.base import BaseLab


class TargetKind(ABC):
    """One kind of target. Loading it must be cheap: what is heavy is loaded when it is used.

    ``shares_processors``: its nodes run on this machine, so the load and they take time from each other.
    ``keeps_data``: its nodes' data lies in our state folder. ``order``: names of providers that it wants first, where
    two offer the same. ``accepts``: grades of proofs below ``path`` that count on it (``effect``; ``reported`` never
    does). ``made``: there are labs of this kind; False: it is only found. ``refused``: kinds of fault that it does not
    take from any provider, with the reason. ``never``: capabilities that none of them has, on whatever machine.
    ``services``: its labs start the services of their topologies (:mod:`chaos.targets.services`), and layers for HTTP.
    """

    name: ClassVar[str]
    says: ClassVar[str]
    shares_processors: ClassVar[bool] = True
    keeps_data: ClassVar[bool] = True
    order: ClassVar[tuple[str, ...]] = ()
    accepts: ClassVar[tuple[str, ...]] = ()
    made: ClassVar[bool] = True
    refused: ClassVar[Mapping[str, str]] = {}
    never: ClassVar[frozenset[str]] = frozenset()
    services: ClassVar[bool] = False

    @abstractmethod
    def lab(self) -> type[BaseLab]:
        """The class of its labs. Raises MissingPrerequisite where what it is made with is not installed."""

    @abstractmethod
    def require(self) -> None:
        """Raises MissingPrerequisite when this user cannot make one here; asked before anything is started."""

    @abstractmethod
    def refuse_home(self, home: Path | None) -> None:
        """Raises InvalidInput for an OpenSearch, or a Java, that it cannot use; before any is fetched.

        ``home`` is the option's.
        """

    @abstractmethod
    def parts(self, topology: Topology, says: Callable[[str], None], *, opensearch_home: Path | None) -> Parts:
        """Find or fetch what it is made of. Raises ProvisionError, MissingPrerequisite or InvalidInput."""

    def data_folder(self) -> Path | None:
        """Where its nodes' data lies on this machine; None: not here, or not known."""
        return paths.labs() if self.keeps_data else None

    # what is left of labs whose owners are dead, beyond what the kernel holds
    def known(self) -> set[str]:
        """The ids of labs of which there is anything."""
        return set()

    def of_other_machines(self) -> set[str]:
        """The ids of labs that are within reach and of other machines, whose owners this one cannot know."""
        return set()

    def held(self, id: str) -> list[str]:
        """What there is of a lab, in words."""
        return []

    def remove(self, id: str) -> list[str]:
        """Take away what there is of a lab, its logs into its folder first. Returns what would not go."""
        return []
