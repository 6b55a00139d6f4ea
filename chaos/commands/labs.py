"""``lab``: a cluster to play with."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from chaos.base.errors import Exit, InvalidInput
from chaos.commands.common import (
    DEFAULT_LAB,
    Home,
    LabKind,
    out,
)


def lab_up(
    topology: Annotated[str, typer.Argument(help="A topology's name or file.")] = "3az",
    name: Annotated[str | None, typer.Option("--name", help="The lab's name; default the topology's.")] = None,
    port: Annotated[int | None, typer.Option(help="Loopback port; default a free one.", min=1, max=65535)] = None,
    opensearch_home: Home = None,
    of_kind: LabKind = None,
) -> None:
    """Start a cluster that stays until `lab down`."""
    from chaos.base.console import Reporter
    from chaos.commands import leases
    from chaos.definitions import load_topology
    from chaos.run import space
    from chaos.targets.labs import kinds

    kind = of_kind or DEFAULT_LAB
    spec = load_topology(topology)
    id = name or spec.name[:31].strip("-")
    leases.refuse(id, port, kind)
    space.refuse_scarce([space.in_state(f"lab '{id}'", space.of_topology(spec, kind))])
    kinds.refuse_home(kind, opensearch_home)
    kinds.require(kind)
    reporter = Reporter()
    try:
        parts = kinds.parts(kind, spec, reporter.line, opensearch_home=opensearch_home)
        where = leases.up(spec, parts, id=id, port=port, reporter=reporter, kind=kind)
    finally:
        reporter.close()
    out.print(f"lab {where.id}: {where.url}   (opensearch-chaos lab status {where.id})", markup=False)
    if where.login:
        out.print(where.login, markup=False, soft_wrap=True)


def lab_status(name: Annotated[str | None, typer.Argument(help="A lab; default all.")] = None) -> None:
    """Show labs, their nodes and how they are."""
    from chaos.commands import leases

    labs = leases.status(name)
    if not labs:
        out.print("no labs")
    for lab in labs:
        out.print(f"lab {lab.id}: {lab.state}   {lab.url or ''}", markup=False)
        if lab.login:
            out.print(lab.login, markup=False, soft_wrap=True)
        table = Table("node", "zone", "roles", "process", "address", box=None, pad_edge=False)
        for row in lab.nodes:
            table.add_row(*map(escape, row))
        out.print(table)


def lab_exec(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A lab.")],
    host: Annotated[str, typer.Argument(help="A node, or client-<zone>.")],
) -> None:
    """Run a command in a host of a lab: opensearch-chaos lab exec 3az a-data -- curl 127.0.4.2:9200"""
    from chaos.commands import leases

    if not context.args:
        raise InvalidInput("no command is given", remedy="for example: opensearch-chaos lab exec 3az client-a -- bash")
    raise typer.Exit(leases.execute(name, host, context.args))


def lab_down(
    name: Annotated[str | None, typer.Argument(help="A lab; may be left out when there is one.")] = None,
) -> None:
    """Take a lab away; its nodes' logs are kept."""
    from chaos.commands import leases

    id, logs, problems = leases.down(name)
    for problem in problems:
        out.print(f"could not: {problem}", markup=False)
    if problems:
        raise typer.Exit(int(Exit.DIRTY))
    out.print(f"lab {id} is gone; its logs are in {logs}", markup=False)
