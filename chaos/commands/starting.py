"""``opensearch-chaos init``: a repository of a team's own, or the file of a cluster that exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.access import Authority, Certificate, Insecure, Key, Password, Profile, Region, User
from chaos.commands.common import out


def init(
    folder: Annotated[Path, typer.Argument(help="Where; made if it is not there.")] = Path("."),
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Instead of a repository: the file of the cluster behind this address. Sends GETs only.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Of that file; default the cluster's.", show_default=False)
    ] = None,
    zone_attribute: Annotated[
        str | None,
        typer.Option(help="The node attribute that holds the zone; default that of awareness.", show_default=False),
    ] = None,
    user: User = None,
    password: Password = None,
    ca: Authority = None,
    insecure: Insecure = False,
    certificate: Certificate = None,
    key: Key = None,
    sigv4: Region = None,
    aws_profile: Profile = None,
) -> None:
    """Write a repository of your own: experiment, topology, pytest's settings, CI workflow.

    With --from: the file of a cluster that exists, drafted from what it says of itself, which allows to look at it.
    """
    from chaos.commands import repository, targets

    here = "" if folder == Path(".") else f"cd {folder} && "
    access = {
        "user": user,
        "password": password,
        "ca": ca,
        "insecure": insecure,
        "certificate": certificate,
        "key": key,
        "sigv4": sigv4,
        "aws_profile": aws_profile,
    }
    if source is not None:
        file = targets.drafted(source, folder, name, zone_attribute, access)
        out.print(f"wrote {file}", markup=False)
        out.print(f"next: read it, then {here}opensearch-chaos target check {file.relative_to(folder)}", markup=False)
        return
    if name is not None or zone_attribute is not None or any(access.values()):
        raise InvalidInput("how to reach a cluster is said with --from only", remedy="add --from URL, or leave it out")
    for file in repository.write(folder):
        out.print(f"wrote {file}", markup=False)
    out.print(f"next: {here}opensearch-chaos run experiments/zone-goes-dark.yaml", markup=False)
