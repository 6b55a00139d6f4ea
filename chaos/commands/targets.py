"""``target``: the file of a cluster that exists, held against the cluster, and the rights that it takes.

Nothing is changed.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import Exit, InvalidInput
from chaos.base.text import plural
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.base.access import Access
    from chaos.definitions.existing import Existing
    from chaos.targets.existing.compare import Row

SIGNS = {"same": "same   ", "warning": "WARNING", "differs": "DIFFERS", "blocks": "BLOCKS ", "unknown": "unknown"}


def target_check(
    file: Annotated[Path, typer.Argument(help="A target's file, such as topologies/existing/staging.yaml.")],
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Hold a target's file against its cluster: what matches, what differs, what keeps it from being touched.

    Sends GETs only, and asks hosts that it names what they can do. Exit code 0, or 2 where the file is not true, or
    where what it allows could not be done now.
    """
    from chaos.definitions.existing import load_existing, today
    from chaos.targets.existing import compare
    from chaos.targets.existing.seen import seen_of

    target = load_existing(file)
    seen = seen_of(target)
    rows = compare.rows(target, seen, today())
    if target.written.hosts is not None and not target.written.by_doors:
        from chaos.run import on_target, recovering_on

        rows += on_target.host_rows(recovering_on.cluster_of(target))
    refused = compare.refused(target, rows)
    if as_json:
        found = {
            "target": target.written.name,
            "file": target.file,
            "rung": target.rung_on(today()),
            "rows": [row.to_json() for row in rows],
            "refused": [row.what for row in refused],
        }
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _print(target, rows, refused)
    raise typer.Exit(int(Exit.USAGE if refused else Exit.PASS))


def target_rights(
    file: Annotated[Path, typer.Argument(help="A target's file, such as topologies/existing/staging.yaml.")],
    iam: Annotated[bool, typer.Option("--iam", help="A policy of AWS IAM instead of a role.")] = False,
) -> None:
    """Print the least that this target's user needs, as a role of the security plugin; asks nobody.

    Only what the file allows is in it: a higher rung, settings that may be changed, indices that may be read are more.
    """
    from chaos.definitions.existing import load_existing
    from chaos.targets.existing import rights

    target = load_existing(file).written
    print(json.dumps(rights.policy(target) if iam else rights.role(target), indent=2))
    named = "a policy of IAM for this domain" if target.domain else "for ACCOUNT and DOMAIN fill in yours"
    where = named if iam else f"PUT _plugins/_security/api/roles/{rights.ROLE}"
    typer.echo(where, err=True)


def _print(target: Existing, rows: list[Row], refused: list[Row]) -> None:
    out.print(f"target {target.written.name} ({target.file})", markup=False)
    for row in rows:
        out.print(f"  {SIGNS[row.sign.value]}  {row.what}: {row.says}", markup=False)
        if row.remedy:
            out.print(f"             remedy: {row.remedy}", markup=False)
    for line in _carried_out(target):
        out.print(f"  {line}", markup=False)
    if refused:
        said = ", ".join(row.what for row in refused)
        out.print(f"check: REFUSED  {said}", markup=False)
    else:
        warned = [row.what for row in rows if row.sign.value == "warning"]
        more = f"; {plural(len(warned), 'warning')}: {', '.join(warned)}" if warned else ""
        out.print(f"check: OK  the file is true{more}", markup=False)


def _carried_out(target: Existing) -> list[str]:
    """Which kinds of fault this cluster can have, by whom; and what the others lack."""
    from chaos.registry import PROVIDERS
    from chaos.run import reaching

    offers = reaching.offers_on(PROVIDERS, target.written)
    there = {kind: offers.meant(kind).provider for kind in offers.kinds if not offers.reasons(kind)}
    lines = [
        f"by {provider}: {', '.join(kind for kind, by in there.items() if by == provider)}"
        + ("; and actions: decommission, recommission, weights" if provider == "rest" else "")
        for provider in offers.order
        if provider in there.values()
    ]
    lacking = len(offers.kinds) - len(there) - len(offers.refused)
    not_yet = [f"not there: {kind}, because {why}" for kind, why in offers.refused.items()]
    return [*lines, *not_yet, f"not there: {lacking} kinds, because they need more than that"]


def drafted(url: str, folder: Path, name: str | None, zone_attribute: str | None, given: dict[str, Any]) -> Path:
    """Write the draft of a target's file for the cluster behind an address; returns it. Sends GETs only."""
    from chaos.base.addresses import Address
    from chaos.commands.access import reached
    from chaos.definitions.existing import FOLDER
    from chaos.targets.existing import draft
    from chaos.targets.existing.seen import look

    refuse_name(name)
    host, port, access = reached(url, **given)
    address = Address(access.tls, host, port)
    seen = look((address,), access, zone_attribute)
    named = name or draft.file_name(seen.identity.cluster_name)
    path = folder / FOLDER / f"{named}.yaml"
    draft.write(draft.draft(seen, [str(address)], written_access(access, given, folder, path.parent), named), path)
    return path


def refuse_name(name: str | None) -> None:
    """Raises InvalidInput where a target cannot have this name."""
    from chaos.definitions.selectors import NAME

    if name is not None and not re.fullmatch(NAME, name):
        raise InvalidInput(
            f"--name {name!r} cannot name a target", remedy="use small letters, digits, dashes, dots and underscores"
        )


def written_access(access: Access, given: dict[str, Any], repository: Path, folder: Path) -> dict[str, Any]:
    """The keys of ``access`` that a file in ``folder`` needs for what a command was given."""
    plain = ("user", "password", "ca", "tls_name", "certificate", "key")
    keys: dict[str, Any] = {key: given[key] for key in plain if given.get(key)}
    for key in ("ca", "certificate", "key"):
        if key in keys:
            keys[key] = beside(keys[key], repository, folder)
    if str(keys.get("password", "")).startswith("file:"):
        keys["password"] = f"file:{beside(keys['password'].removeprefix('file:'), repository, folder)}"
    if given.get("insecure"):
        keys["verify"] = False
    if access.sigv4 is not None:
        profile = {"profile": access.sigv4.profile} if access.sigv4.profile else {}
        keys["sigv4"] = {"region": access.sigv4.region, **profile}
    return keys


def beside(file: str | Path, repository: Path, folder: Path) -> str:
    """A file as a target's file in ``folder`` names it, which is read from there; outside the repository and below the
    user's home by ``~``. In another checkout, or another's home, an absolute path would be none."""
    at, home = Path(os.path.abspath(Path(file).expanduser())), Path.home()
    if not at.is_relative_to(repository.absolute()) and at.is_relative_to(home):
        return f"~/{at.relative_to(home)}"
    return os.path.relpath(at, folder.absolute())
