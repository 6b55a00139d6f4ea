"""``observe``: a cluster that exists, looked at for a while. Nothing is changed on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.base.console import Reporter
    from chaos.definitions.existing import Existing
    from chaos.opensearch.rest import NodeClient

SAMPLE_SECONDS = 3.0
"""How long an endpoint may take to answer a sample."""
SHORTEST_SECONDS = 5.0
LISTED = 10
"""Happenings that are printed; the page has more of them."""
RECORD, SUMMARY, PAGE = "observation.jsonl", "summary.json", "report.html"


def observe(
    on: Annotated[Path, typer.Option("--on", help="The target's file, such as topologies/existing/staging.yaml.")],
    lasting: Annotated[str, typer.Option("--for", help="How long.", metavar="DURATION")] = "10m",
    out_folder: Annotated[Path, typer.Option("--out", help="Where the folder of the observation goes.")] = Path(
        "reports"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the headline only.")] = False,
) -> None:
    """Look at a cluster that exists: samples, audit, report. Sends GETs only, and makes no index of its own.

    Exit code 0, whatever was seen; 3 where too little was seen; 2 where the file is not true; 4 where it was stopped,
    or another cluster answered meanwhile.
    """
    from chaos.base.console import Reporter
    from chaos.base.units import Duration
    from chaos.definitions.existing import load_existing
    from chaos.target.existing import compare
    from chaos.target.existing.seen import look

    target = load_existing(on)
    seconds = float(Duration.parse(lasting))
    if seconds < SHORTEST_SECONDS:
        raise InvalidInput(f"--for {lasting} is too short to see anything", remedy="look for 10s or longer")
    seen = look(target.written.addresses, target.access, target.written.zones.attribute)
    rows = compare.rows(target, seen, datetime.now(UTC).date())
    if wrong := [row for row in rows if row.sign is compare.Sign.DIFFERS]:
        raise InvalidInput(
            f"{target.file} is not true: {'; '.join(f'{row.what}: {row.says}' for row in wrong)}",
            remedy=f"see: opensearch-chaos target check {on}",
        )
    reporter = Reporter(quiet=quiet)
    try:
        code = _observed(target, seconds, out_folder, reporter)
    finally:
        reporter.close()
    raise typer.Exit(int(code))


def _observed(target: Existing, seconds: float, out_folder: Path, reporter: Reporter) -> Exit:
    from chaos.base.netsock import Endpoint
    from chaos.base.paths import write_json
    from chaos.opensearch.rest import NodeClient
    from chaos.programs.observation.summary import lines_of, summary
    from chaos.programs.observation.watch import ANOTHER, STOPPED, Watch, Way
    from chaos.report import observation
    from chaos.run.stopping import Stop, signals

    file = target.written
    folder = out_folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-observe-{file.name}-{secrets.token_hex(2)}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InvalidInput(f"cannot make {folder}: {error.strerror}", remedy="choose a folder with --out") from error
    reporter.line(f"observing {file.name} for {seconds:g} s: GETs only")
    audit = _audited(target, folder, reporter)
    clients = [
        NodeClient(Endpoint(each.host, each.port), access=target.access, timeout=SAMPLE_SECONDS)
        for each in file.addresses
    ]
    ways = [Way(str(each), _get(client)) for each, client in zip(file.addresses, clients, strict=True)]
    stop = Stop()

    def says(t: float, sample: Mapping[str, Any]) -> None:
        seen = f"{sample['status']}, {sample['nodes']} nodes" if sample["ok"] else "no answer"
        reporter.status(f"{t:.0f} of {seconds:g} s: {seen}")

    try:
        with signals(stop, reporter, undoes=False):
            watch = Watch(ways, file.identity.cluster_uuid, folder / RECORD, stopped=stop.is_over)
            how = watch.run(seconds, says)
    finally:
        for client in clients:
            client.close()
    found = summary(lines_of(folder / RECORD))
    about = {"target": file.name, "cluster": file.identity.cluster_name, "version": file.opensearch}
    write_json(folder / SUMMARY, {"format": 1, **about, **found})
    observation.page(found, about, audit, folder / PAGE)
    out.print(f"{file.name}: {found['headline']}", markup=False)
    for each in found["happenings"][:LISTED]:
        out.print(f"  {each['t']:7.0f} s  {each['says']}", markup=False)
    if len(found["happenings"]) > LISTED:
        out.print(f"  and {len(found['happenings']) - LISTED} more", markup=False)
    out.print(f"  report: {folder / PAGE}", markup=False)
    if how == ANOTHER:
        out.print(f"  ended: {found['says']}, and {target.file} is of another cluster", markup=False)
    return Exit.ABORTED if how in (STOPPED, ANOTHER) else Exit.PASS if found["enough"] else Exit.INCONCLUSIVE


def _get(client: NodeClient) -> Callable[[str], tuple[int, Any]]:
    """A reader is given GETs and nothing else."""
    return lambda path: client.request("GET", path)


def _audited(target: Existing, folder: Path, reporter: Reporter) -> dict[str, Any] | None:
    """The audit as the observation begins; None where it cannot be made, which is told."""
    from chaos.base.paths import write_json
    from chaos.programs.audit import Workload, cluster, documentation
    from chaos.programs.audit.rules import audit
    from chaos.target.existing.seen import first_true

    try:
        address = first_true(target)
        sheet = cluster.of_url(address.host, address.port, target.access, target.written.zones.attribute)
    except ChaosError as error:
        reporter.line(f"no audit: {error}")
        return None
    found = documentation.to_json(sheet, Workload.SEARCH, audit(sheet, Workload.SEARCH))
    write_json(folder / "audit.json", found)
    return found
