"""``doctor``, ``docker-image`` and ``recover``: this machine before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.commands.common import (
    out,
)


def doctor() -> None:
    """List every prerequisite, what was found, and the remedy for what was not."""
    from chaos.provision.doctor import examine
    from chaos.run.recovery import leftovers
    from chaos.targets.labs import kinds

    table = Table("", "prerequisite", "found", "remedy", box=None, pad_edge=False)
    bad = False
    for item in examine():
        bad |= not item.ok and not item.optional
        sign = "ok" if item.ok else "optional" if item.optional else "MISSING"
        table.add_row(sign, item.name, escape(item.found), escape(item.remedy or ""))
    left = leftovers()
    bad |= bool(left)
    table.add_row(
        "ok" if not left else "LEFT",
        "leftovers of dead runs",
        f"{len(left)}" if left else "none",
        "opensearch-chaos recover" if left else "",
    )
    for lab_kind in kinds.makeable():
        table.add_row(*_faults_on(lab_kind))
    out.print(table)
    raise typer.Exit(int(Exit.USAGE) if bad else 0)


def _faults_on(lab_kind: str) -> tuple[str, str, str, str]:
    """How many kinds of fault labs of a kind can have here: the answer that ``faults``, ``plan`` and ``run`` give."""
    from chaos.commands.catalogue import unavailable_on
    from chaos.registry import FAULTS

    name = f"faults on labs of kind {lab_kind}"
    try:
        lacking = unavailable_on(lab_kind)
    except ChaosError as error:
        return "optional", name, "none", escape(str(error))
    found = f"{len(FAULTS) - len(lacking)} of {len(FAULTS)} kinds"
    if not lacking:
        return "ok", name, found, ""
    return "optional", name, found, f"why not: opensearch-chaos faults --lab {lab_kind}"


def docker_image(
    version: Annotated[
        str | None, typer.Option("--opensearch", help="Which version; default the newest that is locked.")
    ] = None,
) -> None:
    """Build images for docker labs from what this machine has: no registry is asked."""
    from chaos.targets.labs import kinds

    kinds.of_kind("docker")
    from chaos.provision import lock
    from chaos.targets.labs.docker import images

    for name in images.build(version or lock.DEFAULT_VERSION, lambda text: out.print(text, markup=False)):
        out.print(f"image {name}", markup=False)


def recover(
    on: Annotated[
        Path | None,
        typer.Option(
            "--on",
            help="What a dead run left on the cluster of this file, whose machine may be gone.",
            metavar="FILE",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Undo and remove everything that dead runs left on this machine, or with --on on a cluster that exists."""
    from chaos import providers
    from chaos.base import plugins
    from chaos.run.recovery import recover as recover_all

    plugins.modules(providers)  # they bring what undoes their moves
    for point in plugins.named("providers"):
        try:
            plugins.loaded(point)
        except InvalidInput as error:
            out.print(f"going on without it: {error}", markup=False)
    if on is not None:
        from chaos.run.recovering_on import recover_on, remaining_in_fis

        def say(text: str) -> None:
            out.print(text, markup=False)

        undone, problems = recover_on(on, say)
        left, by_hand = remaining_in_fis(on, say)
        problems = [*problems, *left]
        for problem in problems:
            say(f"could not: {problem}")
        for each in by_hand:
            say(f"not ours to delete, and no run begins while it is there: {each}")
        say("nothing is left behind" if not (undone or problems or by_hand) else f"{undone} moves undone")
        raise typer.Exit(int(Exit.DIRTY if problems else Exit.PASS))
    result = recover_all(lambda text: out.print(text, markup=False))
    for problem in result.problems:
        out.print(f"could not: {problem}", markup=False)
    if not result.clean:
        raise typer.Exit(int(Exit.DIRTY))
    if not result.removed and not result.undone:
        out.print("nothing is left behind")
    else:
        out.print(f"clean: {len(result.removed)} labs removed, {len(result.undone)} runs undone")
