"""``audit``: a cluster or a topology held against the published checklist for availability."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base import text
from chaos.base.errors import Exit, InvalidInput
from chaos.commands.access import (
    Authority,
    Certificate,
    Insecure,
    Key,
    Password,
    Profile,
    Region,
    TlsName,
    User,
    is_url,
    reached,
)
from chaos.commands.common import out, refuse_given

if TYPE_CHECKING:
    from chaos.programs.audit.facts import Sheet


class For(StrEnum):
    """:class:`chaos.programs.audit.Workload`, which takes longer to load."""

    SEARCH = "search"
    LOGS = "logs"


SIGN = {"ok": "ok     ", "info": "info   ", "warn": "warn   ", "unknown": "unknown", "fail": "FAIL   "}


def audit(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            help="http(s)://HOST:PORT, a target's file, a topology's name or file, an opensearch.yml, or a "
            "resource of the Kubernetes operator.",
            show_default=False,
        ),
    ] = None,
    lab: Annotated[str | None, typer.Option("--lab", help="A lab of `lab up` instead.", show_default=False)] = None,
    saved: Annotated[
        Path | None,
        typer.Option("--from", help="A folder of answers that the script saved instead.", show_default=False),
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
    zone_attribute: Annotated[
        str | None,
        typer.Option(help="The node attribute that holds the zone; default zone, or what a target's file says."),
    ] = None,
    workload: Annotated[For, typer.Option(help="What decides how large shards should be.")] = For.SEARCH,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page too.", show_default=False)] = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The page docs/audit.md.")] = False,
    print_script: Annotated[
        bool, typer.Option("--print-script", help="The script that saves answers with curl, for --from.")
    ] = False,
) -> None:
    """Hold a cluster against the published checklist for availability, and see what was left behind. Sends GETs only.

    Exit code 1 when a rule fails, else 3 when one is unknown (of a topology many are), else 0, warnings or not.
    """
    from chaos.programs.audit import Workload, documentation, script
    from chaos.programs.audit import audit as held

    if as_markdown or print_script:
        one, other = ("as_markdown", "--markdown") if as_markdown else ("print_script", "--print-script")
        others = [each.name for each in context.command.params if each.name and each.name != one]
        refuse_given(context, others, f"{other} is the same page everywhere")
        print(documentation.markdown() if as_markdown else script.text(), end="")
        return
    if html is not None and html.suffix != ".html":
        raise InvalidInput(f"{html}: expected a name that ends in .html")
    given = {"user": user, "password": password, "ca": ca, "certificate": certificate, "key": key}
    access: dict[str, Any] = {
        **given,
        "tls_name": tls_name,
        "insecure": insecure,
        "sigv4": sigv4,
        "aws_profile": aws_profile,
    }
    sheet = _sheet(target, lab, saved, zone_attribute, access)
    found = documentation.to_json(sheet, Workload(workload), held(sheet, Workload(workload)))
    if as_json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _print(found)
    if html is not None:
        from chaos.report.audit import audit_page

        try:
            audit_page(found, html)
        except OSError as error:
            raise InvalidInput(f"cannot write {html}: {error.strerror}") from error
        if not as_json:
            out.print(f"  page: {html}", markup=False)
    raise typer.Exit(int(Exit(found["exit_code"])))


def _sheet(
    target: str | None, lab: str | None, saved: Path | None, attribute: str | None, access: dict[str, Any]
) -> Sheet:
    from chaos.definitions import load_topology
    from chaos.definitions.existing import is_existing, load_existing
    from chaos.definitions.topology import ZONE_ATTRIBUTE
    from chaos.programs.audit import cluster, definition
    from chaos.programs.audit.saved import read

    zone_attribute = attribute or ZONE_ATTRIBUTE
    if (target is None) + (lab is None) + (saved is None) != 2:
        raise InvalidInput(
            "audit takes an address or a topology, or --lab with a lab, or --from with a folder",
            remedy="see: opensearch-chaos audit -h",
        )
    if target is not None and is_url(target):
        return cluster.of_url(*reached(target, **access), zone_attribute)
    if any(access.values()):
        raise InvalidInput("how to reach a cluster is said of an address only", remedy="write http(s)://HOST:PORT")
    if saved is not None:
        return read(saved, zone_attribute)
    if lab is not None:
        from chaos.targets.labs import kinds

        return cluster.of_lab(kinds.attach(lab), zone_attribute)
    assert target is not None
    if is_existing(target):
        from chaos.targets.existing.seen import first_true

        if attribute is not None:
            raise InvalidInput("a target's file says which attribute holds the zone", remedy="leave it out")
        existing = load_existing(target)
        address = first_true(existing)
        return cluster.of_url(address.host, address.port, existing.access, existing.written.zones.attribute)
    return _of_file(Path(target), zone_attribute) or definition.sheet(load_topology(target), zone_attribute)


def _of_file(path: Path, zone_attribute: str) -> Sheet | None:
    """Of a file that is none of ours: an opensearch.yml, or a resource of the Kubernetes operator."""
    from chaos.definitions.source import Source
    from chaos.programs.audit import kubernetes, written

    if path.suffix not in (".yml", ".yaml") or not path.is_file():
        return None
    data = Source.read(path, nulls=True).data
    if kubernetes.is_one(data):
        return kubernetes.read(path, zone_attribute)
    return written.read(path, zone_attribute) if written.is_one(data) else None


def _print(found: dict[str, Any]) -> None:
    out.print(f"audit of {found['of']}, for {found['workload']}", markup=False)
    for note in found.get("notes", ()):
        out.print(f"  {note}", markup=False)
    unknown = [row for row in found["rows"] if row["status"] == "unknown"]
    for row in found["rows"]:
        if row["status"] != "unknown":
            _print_row(row)
        elif row is unknown[0]:
            _print_unknown(unknown)
    out.print(f"audit: {found['outcome'].upper()}  {found['summary']}", markup=False)


def _print_row(row: dict[str, Any]) -> None:
    out.print(f"  {SIGN[row['status']]}  {row['title']}: {row['value']}", markup=False)
    if row["status"] in ("ok", "info"):
        return
    out.print(f"             rule: {row['rule']}", markup=False)
    out.print(f"             remedy: {row['remedy']} ({row['source']['url']})", markup=False)
    for command in row.get("commands", ()):
        out.print(f"             {command}", markup=False)


REASONS = 3
"""So many reasons stand beside what is unknown; --json has all of them."""


def _print_unknown(rows: list[dict[str, Any]]) -> None:
    """One line for all of them: which, and why."""
    why = list(dict.fromkeys(row["value"] for row in rows))
    more = f"; and {len(why) - REASONS} reasons more" if len(why) > REASONS else ""
    names = ", ".join(row["id"] for row in rows)
    reasons = "; ".join(why[:REASONS]) + more
    out.print(f"  {SIGN['unknown']}  {text.plural(len(rows), 'row')} ({names}): {reasons}", markup=False)
