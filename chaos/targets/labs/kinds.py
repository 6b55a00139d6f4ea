"""The kinds of targets by name, ours and those of other packages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.definitions import Topology
from chaos.definitions.loading import located
from chaos.targets import kinds as folder
from chaos.targets.kind import TargetKind
from chaos.targets.labs import base
from chaos.targets.labs.base import BaseLab
from chaos.targets.parts import Parts

DEFAULT = "local"


@functools.cache
def every() -> dict[str, TargetKind]:
    """All that there are, ours first. One that cannot be loaded says so when it is used, and hides no other."""
    ours = [module.TARGET for module in plugins.modules(folder)]
    found = {each.name: each for each in sorted(ours, key=lambda each: each.name != DEFAULT)}
    for point in plugins.named("targets"):
        try:
            theirs = plugins.loaded(point)
            if not isinstance(theirs, TargetKind):
                raise InvalidInput(
                    f"{plugins.whose(point)}: '{point.name}' ({point.value}) is no target",
                    remedy="name an instance of chaos.api.targets.TargetKind",
                )
            if not isinstance(name := getattr(theirs, "name", None), str) or name in found:
                why = "is of a kind that is there already" if isinstance(name, str) else "has no name"
                raise InvalidInput(
                    f"{plugins.whose(point)}: '{point.name}' ({point.value}) {why}",
                    remedy="mend or uninstall that package",
                )
        except InvalidInput as error:
            theirs = Broken(point.name if point.name not in found else f"{point.name} ({point.value})", error)
        found[theirs.name] = theirs
    return found


def makeable() -> list[str]:
    """The names of those of which there are labs."""
    return [name for name, each in every().items() if each.made]


class Broken(TargetKind):
    """A kind that its package names and that cannot be loaded: whoever uses it is told why."""

    def __init__(self, name: str, why: InvalidInput) -> None:
        self.name, self.says, self._why = name, "cannot be loaded", why  # type: ignore[misc]

    def lab(self) -> type[BaseLab]:
        raise self._why

    def require(self) -> None:
        raise self._why

    def refuse_home(self, home: Path | None) -> None:
        raise self._why

    def parts(self, topology: Topology, says: Callable[[str], None], *, opensearch_home: Path | None) -> Parts:
        raise self._why


def named(kind: str) -> TargetKind:
    """The kind of this name. Raises InvalidInput when there is none."""
    if kind not in every():
        raise InvalidInput(f"'{kind}' is no kind of lab", remedy=f"choose one of: {', '.join(makeable())}")
    return every()[kind]


def of_kind(kind: str) -> type[BaseLab]:
    """The class of a kind of labs. Raises InvalidInput when there is none of that name, or it goes by another."""
    made = named(kind).lab()
    if made.kind != kind:
        raise InvalidInput(
            f"the labs of '{kind}' call themselves '{made.kind}'",
            remedy=f"say kind = {kind!r} in {made.__module__}.{made.__qualname__}: it is written into each lab",
        )
    return made


def lacks(kind: str, topology: Topology) -> Callable[[str], str | None]:
    """Capability → None, or why a lab of this kind and topology would lack it; asked before there is one.

    What the kind does not know of is lacking. Raises InvalidInput when there is no such kind.
    """
    offers = of_kind(kind).offers(topology)
    return lambda capability: offers.get(capability, f"a {kind} lab has no '{capability}'")


def attach(id: str) -> BaseLab:
    """A lab that another process made. Raises InvalidInput when there is none, or none that can be read."""
    from chaos.targets.existing.target import ExistingTarget, is_target

    if is_target(id):
        return ExistingTarget.found(id)
    manifest, _ = base.read(id)
    return of_kind(manifest.kind).attach(id)


def parts(
    kind: str, topology: Topology, says: Callable[[str], None] = lambda _: None, *, opensearch_home: Path | None = None
) -> Parts:
    """Find or fetch what a lab is made of. Raises ProvisionError, MissingPrerequisite or InvalidInput."""
    refuse_home(kind, opensearch_home)
    if topology.services and not named(kind).services:
        error = InvalidInput(f"a {kind} lab has no services yet", remedy="use a local lab")
        raise located(topology, ("services",), error)
    if topology.http_layer and not named(kind).services:
        error = InvalidInput(f"a {kind} lab has no layer for HTTP requests yet", remedy="use a local lab")
        raise located(topology, ("http_layer",), error)
    return named(kind).parts(topology, says, opensearch_home=opensearch_home)


def refuse_home(kind: str, home: Path | None) -> None:
    """Raises InvalidInput for an OpenSearch, or a Java, that a lab of this kind cannot use; before any is fetched."""
    named(kind).refuse_home(home)


def require(kind: str) -> None:
    """Raises MissingPrerequisite when this user cannot make labs of a kind here; asked before anything is started."""
    named(kind).require()
