"""``observe``: a cluster that exists, looked at for a while. Nothing is changed on it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import ChaosError, Exit, InvalidInput
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.base.console import Reporter
    from chaos.definitions.existing import Existing
    from chaos.load.driver import Driver

SAMPLE_SECONDS = 3.0
"""How long an endpoint may take to answer a sample."""
SHORTEST_SECONDS = 5.0
LISTED = 10
"""Happenings that are printed; the page has more of them."""
RECORD, SUMMARY, PAGE, AUDIT = "observation.jsonl", "summary.json", "report.html", "audit.json"


def observe(
    on: Annotated[Path, typer.Option("--on", help="The target's file, such as topologies/existing/staging.yaml.")],
    lasting: Annotated[str, typer.Option("--for", help="How long.", metavar="DURATION")] = "10m",
    out_folder: Annotated[Path, typer.Option("--out", help="Where the folder of the observation goes.")] = Path(
        "reports"
    ),
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries", help="Send these searches meanwhile, a file as _msearch takes it.", show_default=False
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", help="How many of them, for example 5/s.", show_default=False)
    ] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="What is good of them; default 1s.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the headline only.")] = False,
) -> None:
    """Look at a cluster that exists: samples, audit, report. Sends GETs, and the searches that are asked for.

    Exit code 0, whatever was seen; 3 where too little was seen; 2 where the file is not true; 4 where it was stopped,
    or another cluster answered meanwhile.
    """
    from chaos.base.console import Reporter
    from chaos.base.units import Duration
    from chaos.definitions.existing import load_existing, today
    from chaos.targets.existing import compare
    from chaos.targets.existing.seen import seen_of

    target = load_existing(on)
    seconds = float(Duration.parse(lasting))
    if seconds < SHORTEST_SECONDS:
        raise InvalidInput(f"--for {lasting} is too short to see anything", remedy="look for 10s or longer")
    searching = _searching(target, queries, rate, objective)
    seen = seen_of(target)
    rows = compare.rows(target, seen, today())
    if wrong := [row for row in rows if row.sign is compare.Sign.DIFFERS]:
        raise InvalidInput(
            f"{target.file} is not true: {'; '.join(f'{row.what}: {row.says}' for row in wrong)}",
            remedy=f"see: opensearch-chaos target check {on}",
        )
    reporter = Reporter(quiet=quiet)
    try:
        code = _observed(target, seconds, out_folder, reporter, searching)
    finally:
        reporter.close()
    raise typer.Exit(int(code))


@dataclass(frozen=True)
class Searching:
    """The searches that are sent meanwhile. ``rate`` per second, ``good_within`` in seconds."""

    file: Path
    rate: float
    good_within: float


def _searching(target: Existing, queries: Path | None, rate: str | None, objective: str | None) -> Searching | None:
    """What is asked for, where the target's file allows it. Raises InvalidInput."""
    from chaos.base.units import Duration, Rate
    from chaos.load import queries as searches

    if queries is None:
        if rate is not None or objective is not None:
            raise InvalidInput("--rate and --objective are of searches", remedy="name them with --queries FILE")
        return None
    allowed = target.written.reads
    if allowed is None:
        raise InvalidInput(
            f"{target.file} allows to read no index",
            remedy="write there, for example, reads: {indices: [orders], most: 5/s}",
        )
    if rate is None:
        raise InvalidInput("--queries without --rate", remedy=f"say how many, up to {allowed.most.text}")
    wanted, good = float(Rate.parse(rate)), float(Duration.parse(objective or "1s"))
    if not 0 < wanted <= float(allowed.most):
        raise InvalidInput(f"--rate {rate}: {target.file} allows {allowed.most.text} at most", remedy="ask for less")
    if good <= 0:
        raise InvalidInput("--objective: nothing is good within no time", remedy="say, for example, 1s")
    searches.read(queries, allowed.indices)
    return Searching(queries, wanted, good)


def _load(target: Existing, searching: Searching, folder: Path) -> Driver:
    """The driver of these searches; a user's timeout is five times what is good, and 5 s at least."""
    from chaos.load.config import ClientConfig, ClientHost, DriverConfig, OperationConfig, Target
    from chaos.load.driver import Driver

    allowed = target.written.reads
    assert allowed is not None
    config = DriverConfig(
        seed=1,
        out=(folder / "history").absolute(),
        queries=searching.file.absolute(),
        readable=allowed.indices,
        operations=(
            OperationConfig(
                name="read", kind="search", answer="query", rate=searching.rate, good_within_s=searching.good_within
            ),
        ),
        client=ClientConfig(timeout_s=max(5.0, 5 * searching.good_within)),
        clients=(ClientHost(zone="here"),),
        targets=tuple(
            Target(node=str(each), zone="here", host=each.host, port=each.port) for each in target.written.addresses
        ),
        access=target.bound,
    )
    return Driver(config, folder / "logs" / "driver.log")


def _observed(
    target: Existing, seconds: float, out_folder: Path, reporter: Reporter, searching: Searching | None
) -> Exit:
    from chaos.base.netsock import Endpoint
    from chaos.base.paths import make_folder
    from chaos.opensearch.rest import NodeClient
    from chaos.programs.observation.watch import Watch, Way
    from chaos.run.stopping import Stop, signals
    from chaos.targets.existing.seen import only_get

    file = target.written
    folder = out_folder / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-observe-{file.name}-{secrets.token_hex(2)}"
    try:
        make_folder(folder)
    except OSError as error:
        raise InvalidInput(f"cannot make {folder}: {error.strerror}", remedy="choose a folder with --out") from error
    sent = f"GETs, and {searching.rate:g} searches a second" if searching else "GETs only"
    reporter.line(f"observing {file.name} for {seconds:g} s: {sent}")
    _audited(target, folder, reporter)
    clients = [
        NodeClient(Endpoint(each.host, each.port), access=target.access, timeout=SAMPLE_SECONDS)
        for each in file.addresses
    ]
    ways = [Way(str(each), only_get(client)) for each, client in zip(file.addresses, clients, strict=True)]
    stop = Stop()

    def says(t: float, sample: Mapping[str, Any]) -> None:
        seen = f"{sample['status']}, {sample['nodes']} nodes" if sample["ok"] else "no answer"
        reporter.status(f"{t:.0f} of {seconds:g} s: {seen}")

    about: dict[str, Any] = {"target": file.name, "cluster": file.identity.cluster_name, "version": file.opensearch}
    if searching is not None:
        about["good_within"] = searching.good_within
    driver = _load(target, searching, folder) if searching else None
    try:
        with signals(stop, reporter, undoes=False):
            if driver is not None:
                driver.start()
                driver.go()
            who = file.identity
            watch = Watch(
                ways,
                who.cluster_uuid,
                folder / RECORD,
                about=about,
                stopped=stop.is_over,
                cluster_name=who.cluster_name,
            )
            watch.run(seconds, says)
            if driver is not None:
                driver.stop()
    finally:
        if driver is not None:
            driver.kill()
        for client in clients:
            client.close()
    return concluded(folder)


def concluded(folder: Path) -> Exit:
    """Draw and print what an observation came to, from its folder alone. Raises InvalidInput where that is none."""
    from chaos.base.paths import write_json
    from chaos.history.reader import History
    from chaos.programs.observation.summary import lines_of, reads, summary
    from chaos.programs.observation.watch import ANOTHER, FINISHED, STOPPED
    from chaos.report import observation

    lines = lines_of(folder / RECORD)
    if not lines or "about" not in lines[0]:
        raise InvalidInput(f"{folder / RECORD} does not say what was observed", remedy="name another folder")
    about = lines[0]["about"]
    found = summary(lines)
    if "good_within" in about:
        history = History(folder)
        found["reads"] = reads(history.arrivals, about["good_within"])
        if not any(each.get("kind") == "driver.stop" and each.get("reason") == "stopped" for each in history.driver):
            found["reads"]["doubt"] = "the load driver ended before its time"
        found["enough"] = found["enough"] and found["reads"]["doubt"] is None
    try:
        audit = json.loads((folder / AUDIT).read_text())
    except (OSError, ValueError):
        audit = None
    write_json(folder / SUMMARY, {"format": 1, **about, **found})
    observation.page(found, about, audit, folder / PAGE)
    out.print(f"{about['target']}: {found['headline']}", markup=False)
    if "reads" in found:
        out.print(f"  searches: {observation.said_of(found['reads'])}", markup=False)
    for each in found["happenings"][:LISTED]:
        out.print(f"  {each['t']:7.0f} s  {each['says']}", markup=False)
    if len(found["happenings"]) > LISTED:
        out.print(f"  and {len(found['happenings']) - LISTED} more", markup=False)
    out.print(f"  report: {folder / PAGE}", markup=False)
    if found["reason"] != "finished":
        why = f": {found['says']}" if found["says"] else ""
        out.print(f"  ended early: {found['reason']}{why}", markup=False)
    if found["reason"] in (STOPPED, ANOTHER):
        return Exit.ABORTED
    if found["reason"] != FINISHED:
        return Exit.ERROR
    return Exit.PASS if found["enough"] else Exit.INCONCLUSIVE


def _audited(target: Existing, folder: Path, reporter: Reporter) -> None:
    """The audit as the observation begins; where it cannot be made, that is told."""
    from chaos.base.paths import write_json
    from chaos.programs.audit import Workload, audit, cluster, documentation

    address = target.written.addresses[0]  # all of them have just been found to be true
    try:
        sheet = cluster.of_url(address.host, address.port, target.access, target.written.zones.attribute)
    except ChaosError as error:
        reporter.line(f"no audit: {error}")
        return
    write_json(folder / AUDIT, documentation.to_json(sheet, Workload.SEARCH, audit(sheet, Workload.SEARCH)))
