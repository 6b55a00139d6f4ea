"""``opensearch-chaos init``: a repository of a team's own, or the file of a cluster that exists."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.access import Authority, Certificate, Insecure, Key, Password, Profile, Region, TlsName, User
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
    from_kubernetes: Annotated[
        bool,
        typer.Option(
            "--from-kubernetes",
            help="The same of a cluster whose nodes are pods: found by the labels of chart or operator.",
        ),
    ] = False,
    context: Annotated[
        str | None, typer.Option(help="With --from-kubernetes: of the kubeconfig; default its current one.")
    ] = None,
    kubeconfig: Annotated[Path | None, typer.Option(help="Likewise: default as kubectl finds it.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Likewise: of the pods; default the one that has some.", show_default=False)
    ] = None,
    selector: Annotated[
        str | None, typer.Option(help="Likewise: labels of the pods, such as app=search.", show_default=False)
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            help="Likewise: where REST is reached; default each pod's own, through the API server.", show_default=False
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
    tls_name: TlsName = None,
    insecure: Insecure = False,
    certificate: Certificate = None,
    key: Key = None,
    sigv4: Region = None,
    aws_profile: Profile = None,
) -> None:
    """Write a repository of your own: experiment, topology, pytest's settings, CI workflow.

    With --from or --from-kubernetes: the file of a cluster that exists, drafted from what it says of itself, which
    allows to look at it.
    """
    from chaos.commands import on_kubernetes, repository, targets

    here = "" if folder == Path(".") else f"cd {folder} && "
    access = {
        "user": user,
        "password": password,
        "ca": ca,
        "tls_name": tls_name,
        "insecure": insecure,
        "certificate": certificate,
        "key": key,
        "sigv4": sigv4,
        "aws_profile": aws_profile,
    }
    pods = on_kubernetes.Where(context, kubeconfig, namespace, selector, url)
    if not from_kubernetes and (
        said := [key for key in ("context", "kubeconfig", "namespace", "selector", "url") if getattr(pods, key)]
    ):
        raise InvalidInput(f"--{said[0]} is of --from-kubernetes", remedy="add it, or leave this out")
    if source is not None or from_kubernetes:
        if install_from is not None:
            raise InvalidInput("--install-from is of a repository, and --from writes a cluster's file alone")
        if source is not None and from_kubernetes:
            raise InvalidInput("--from and --from-kubernetes both say where the cluster is", remedy="give one of them")
        if source is not None:
            file = targets.drafted(source, folder, name, zone_attribute, access)
        else:
            file = on_kubernetes.drafted(pods, folder, name, zone_attribute, access)
        out.print(f"wrote {file}", markup=False)
        out.print(f"next: read it, then {here}opensearch-chaos target check {file.relative_to(folder)}", markup=False)
        return
    if name is not None or zone_attribute is not None or any(access.values()):
        raise InvalidInput(
            "how to reach a cluster is said with --from or --from-kubernetes only", remedy="add one, or leave it out"
        )
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
