"""``opensearch-chaos init``: a repository of a team's own, or the file of a cluster that exists."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.access import Authority, Certificate, Insecure, Key, Password, Profile, Region, User
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.commands.install_source import InstallSource


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
    install_from: Annotated[
        str | None,
        typer.Option(
            "--install-from",
            help="Where the repository installs this package from: a wheel, a checkout, git+https://HOST/PATH[@REF], "
            "or index, which is pip's; default where this one came from.",
            metavar="SOURCE",
            show_default=False,
        ),
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
        if install_from is not None:
            raise InvalidInput("--install-from is of a repository, and --from writes a cluster's file alone")
        file = targets.drafted(source, folder, name, zone_attribute, access)
        out.print(f"wrote {file}", markup=False)
        out.print(f"next: read it, then {here}opensearch-chaos target check {file.relative_to(folder)}", markup=False)
        return
    if name is not None or zone_attribute is not None or any(access.values()):
        raise InvalidInput("how to reach a cluster is said with --from only", remedy="add --from URL, or leave it out")
    repository.refuse_taken(folder)
    with TemporaryDirectory(prefix="opensearch-chaos-") as scratch:
        install = _install_source(install_from, Path(scratch))
        for file in repository.write(folder, install):
            out.print(f"wrote {file}", markup=False)
    out.print(f"it installs opensearch-chaos from {install.says}", markup=False, soft_wrap=True)
    out.print(f"next: {here}opensearch-chaos run experiments/zone-goes-dark.yaml", markup=False)


def _install_source(said: str | None, scratch: Path) -> InstallSource:
    """What was said, else where this installation came from, else what a person at a terminal answers."""
    from chaos.commands import install_source

    if said is not None:
        return install_source.stated(said, scratch)
    try:
        return install_source.own(scratch)
    except InvalidInput as error:
        if not sys.stdin.isatty():
            raise
        out.print(str(error), markup=False)
        return install_source.stated(typer.prompt("install opensearch-chaos from"), scratch)
