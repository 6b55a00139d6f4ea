"""``faults``: what there is, and what can be had here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import (
    DEFAULT_LAB,
    LabKind,
    out,
)


def faults(
    kind: Annotated[
        str | None, typer.Argument(help="One kind, or all that begin so: node.kill, disk.", show_default=False)
    ] = None,
    topology: Annotated[
        str | None, typer.Option("--topology", help="What can be had on it; default on each kind's own example.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/faults.md.")] = False,
    of_kind: LabKind = None,
) -> None:
    """Print the catalogue of faults: parameters, mechanism, proof, undo, and what can be had here."""
    from chaos.faults import documentation
    from chaos.registry import FAULTS, PROVIDERS

    if as_markdown:
        if topology is not None or as_json or of_kind is not None or kind is not None:
            raise InvalidInput(
                "--markdown is the same page everywhere", remedy="leave the kind, --topology, --json and --lab out"
            )
        print(documentation.markdown(PROVIDERS), end="")
        return
    lab_kind = of_kind or DEFAULT_LAB
    unavailable = unavailable_on(lab_kind, topology)
    chosen = None if kind is None else named(kind, FAULTS)
    if as_json:
        print(documentation.as_json(topology, unavailable, PROVIDERS, chosen))
        return
    for line in documentation.text(unavailable, PROVIDERS, chosen):
        out.print(line, markup=False)
    if lab_kind == DEFAULT_LAB and os.geteuid() != 0:
        out.print("A local lab needs root, which this is not.")


def named(given: str, kinds: Iterable[str]) -> frozenset[str]:
    """The kind of this name, or those of this family (``disk``). Raises InvalidInput, with the nearest, for none."""
    from chaos.definitions.source import did_you_mean

    known = list(kinds)
    found = {each for each in known if each == given} or {each for each in known if each.startswith(f"{given}.")}
    if not found:
        raise InvalidInput(f"there is no kind of fault {given}", remedy=did_you_mean(given, known))
    return frozenset(found)


def unavailable_on(lab_kind: str, topology: str | None = None) -> dict[str, list[str]]:
    """Kind of fault → why labs of this kind cannot have it here, for those that cannot.

    ``topology``: its name or path; None: for each kind the one of its example.
    """
    from chaos.definitions import load_topology
    from chaos.registry import FAULTS, PROVIDERS
    from chaos.targets.labs import kinds

    offers = {
        name: PROVIDERS.on(kinds.lacks(lab_kind, load_topology(name)), kinds.named(lab_kind).order)
        for name in ({topology} if topology else {fault.example_topology for fault in FAULTS.values()})
    }
    found = {kind: offers[topology or fault.example_topology].reasons(kind) for kind, fault in FAULTS.items()}
    return {kind: why for kind, why in found.items() if why}
