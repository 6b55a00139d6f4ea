"""``fis acceptance``: what we believe of AWS FIS, tried on an account of yours, for evidence without its names."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import chaos
from chaos.base.errors import Exit, InvalidInput
from chaos.base.paths import write_json
from chaos.base.text import plural
from chaos.commands import fis as fis_commands
from chaos.commands.common import out
from chaos.commands.fis_lab import words

if TYPE_CHECKING:
    from chaos.aws.price import Price
    from chaos.aws.recording import Recorder
    from chaos.definitions import Experiment
    from chaos.targets.existing.fis import Fis
    from chaos.targets.existing.target import ExistingTarget

CEILING = 5.0
"""US dollars."""
CLAIMS_SECONDS = 600.0
"""Of the claims together, at most as far as AWS's pages say."""
BESIDE_SECONDS = 120.0
"""Of a run beside its phases."""
WATCHED = ("fis", "ec2", "ssm", "sts", "cloudwatch")


@dataclass(frozen=True)
class Asked:
    """What is to be tried. ``files``: as they were named."""

    files: Sequence[Path]
    experiments: Sequence[Experiment]
    requests: Sequence[tuple[str, dict[str, Any]]]
    price: Price

    @property
    def minutes(self) -> float:
        """At most: every phase as long as it may be."""
        phases = sum(float(phase.longest) for each in self.experiments for phase in each.phases)
        return (phases + BESIDE_SECONDS * len(self.experiments) + CLAIMS_SECONDS) / 60


def fis_acceptance(
    experiments: Annotated[list[Path], typer.Argument(help="Experiments with faults by AWS FIS, to be run there.")],
    on: fis_commands.On,
    into: Annotated[Path, typer.Option("--out", help="A new file for the evidence.")] = Path("fis-acceptance.json"),
    ceiling: Annotated[float, typer.Option(help="US dollars that AWS may ask at most.", min=0.0)] = CEILING,
    go: Annotated[
        bool, typer.Option("--go", help="Do it. Without: say what would be done, and what it costs.")
    ] = False,
) -> None:
    """Try what we believe of AWS FIS on a sandbox account, for evidence to send back: half an hour, a few dollars.

    First templates whose actions are skipped, and one that waits: these hit nobody. Then the experiments themselves,
    as `run` runs them. Names, accounts, ids and addresses are replaced in the evidence; read it before you send it.
    Exit code 0: all is as we believe. 1: something is not. 2: refused, and nothing was made.
    """
    from chaos.targets.existing import rehearsing

    reports = into.with_name(f"{into.stem}-reports")
    for each in (into, reports):
        if each.exists():
            raise InvalidInput(f"{each} is there already", remedy="name another file: --out")
    there = fis_commands.target_of(on)
    assert there.fis is not None
    asked = _asked(experiments, there)
    _say(asked, there.fis, ceiling)
    if asked.price.dollars > ceiling:
        remedy = f"--ceiling {asked.price.dollars:.2f}, fewer experiments, or a shorter `longest` in the target's file"
        raise InvalidInput(f"it may cost ${asked.price.dollars:.2f}, more than ${ceiling:.2f}", remedy=remedy)
    if not go:
        out.print("nothing was made; to do it: --go", markup=False)
        return
    kinds = fis_commands.kinds_of(experiments)
    for what, says, well in fis_commands.looks(there, there.fis, kinds):
        if well is None:
            out.print(f"warning: {what}: {says}", markup=False)
        elif not well:
            raise InvalidInput(f"{what}: {says}", remedy="see: opensearch-chaos fis preflight")
    evidence = Evidence(there, asked, rehearsing.named(rehearsing.ACCEPTANCE))
    try:
        held = evidence.gather(on, reports)
    finally:
        write_json(into, evidence.redacted())
        out.print(f"evidence: {into}; read it before you send it to who makes opensearch-chaos", markup=False)
    raise typer.Exit(int(Exit.PASS if held else Exit.WEAKNESS))


def _asked(files: Sequence[Path], there: ExistingTarget) -> Asked:
    from chaos.aws.price import price, total
    from chaos.targets.existing.acceptance import WAIT

    assert there.fis is not None
    mapped = fis_commands.mapped_on(files, there)
    requests = []
    for experiment in mapped:
        own = fis_commands.requests(experiment, there)
        if not own:
            raise InvalidInput(f"{experiment.file} has no fault by AWS FIS there", remedy="leave it out")
        requests += [(f"{experiment.name}.{fault}", request) for fault, request in own]
    region = there.fis.file.region
    return Asked(files, mapped, requests, total([price(each, region) for _, each in requests] + [price(WAIT, region)]))


def _say(asked: Asked, fis: Fis, ceiling: float) -> None:
    lines = (
        "first, and nobody is hit:",
        *(f"  the template of {fault}, started with its actions skipped" for fault, _ in asked.requests),
        "  a template of nobody's instance, one of six ARNs, and one that waits: made twice, started twice, stopped",
        "then, as `opensearch-chaos run` does it:",
        *(f"  {each}" for each in asked.files),
        f"at most {asked.price.text}, of ${ceiling:.2f} that are allowed; at most {asked.minutes:.0f} minutes",
        fis.file.says,
    )
    for line in lines:
        out.print(line, markup=False)


class Evidence:
    """What was believed, asked, answered and seen."""

    def __init__(self, there: ExistingTarget, asked: Asked, run: str) -> None:
        from chaos.aws.recording import Recorder

        self._there, self._asked, self._run = there, asked, run
        self._claims = list[Any]()
        self._runs = list[dict[str, Any]]()
        self._recorder: Recorder = Recorder()
        self._began = datetime.now(UTC)

    def gather(self, on: Path, reports: Path) -> bool:
        """Whether all is as we believe. Where it is not, no experiment is run. ``reports``: a folder for theirs."""
        from chaos.targets.existing import acceptance

        fis = self._there.fis
        assert fis is not None
        self._recorder.watch(fis.clients, WATCHED)
        for claim in acceptance.claims(fis, self._run, self._asked.requests):
            self._claims.append(claim)
            out.print(f"  {'holds  ' if claim.well else 'DOES NOT'} {claim.id}: {claim.seen}", markup=False)
        if wrong := [each for each in self._claims if not each.well]:
            out.print(f"{plural(len(wrong), 'belief')} of ours does not hold: nothing is run", markup=False)
            return False
        for file, experiment in zip(self._asked.files, self._asked.experiments, strict=True):
            self._runs.append(_run(file, on, experiment.name, reports / experiment.name))
        return all(each["as_believed"] for each in self._runs)

    def redacted(self) -> dict[str, Any]:
        """As it is written."""
        import botocore

        fis = self._there.fis
        assert fis is not None
        whole = {
            "claims": [each.to_json() for each in self._claims],
            "runs": self._runs,
            "calls": [each.to_json() for each in self._recorder.calls],
        }
        return {
            "format": 1,
            "of": "opensearch-chaos fis acceptance",
            "against": fis.file.says if fis.file.local else "AWS",
            "version": chaos.__version__,
            "botocore": botocore.__version__,
            "began": self._began.isoformat(timespec="seconds"),
            "region": fis.file.region,
            "price_at_most": self._asked.price.text,
            **_without_names(self._there, whole),
        }


def _without_names(there: ExistingTarget, value: Any) -> Any:
    """Without ids and accounts, and without the names that the target's file has."""
    from urllib.parse import urlsplit

    from chaos.aws.redaction import Redaction
    from chaos.report.redact import Redactor

    written, fis = there.target.written, there.fis
    assert fis is not None
    redactor = Redactor()
    redactor.learn("node", written.nodes)
    redactor.learn("zone", [*written.zones.names, *written.zones.names.values()])
    redactor.learn("cluster", [written.name, written.identity.cluster_name, written.identity.cluster_uuid])
    urls = [*written.endpoints, *(node.url for node in written.nodes.values() if node.url is not None)]
    redactor.learn("host", sorted({urlsplit(str(url)).hostname or "" for url in urls}))
    alarms = [alarm.partition(":alarm:")[2] for alarm in fis.file.alarms]
    redactor.learn("name", [fis.file.role.rpartition("/")[2], *alarms, fis.file.profile])
    return redactor.value(Redaction()(value))


def _run(file: Path, on: Path, name: str, folder: Path) -> dict[str, Any]:
    """One experiment by ``run``, with its report in ``folder``."""
    code = subprocess.call(words("run", str(file), "--on", str(on), "--out", str(folder)))
    made: dict[str, Any] = {"experiment": name, "exit_code": code, "as_believed": False}
    found = next(iter(sorted(folder.glob("*/plan.json"))), None)
    if found is None:
        return made
    from chaos.statistics.judged import judged  # it loads the checks, and those of other packages

    verdict = judged(found.parent)
    looks = list(_looks(found.parent))
    proven = bool(looks) and all(each["proven"] for each in looks)
    # a weakness is the cluster's own, and says nothing against FIS
    believed = verdict["clean"] and proven and code in (Exit.PASS, Exit.WEAKNESS)
    return made | {
        "outcome": verdict["outcome"],
        "headline": verdict["headline"],
        "reasons": verdict["reasons"],
        "clean": verdict["clean"],
        "faults": looks,
        "as_believed": bool(believed),
    }


def _looks(report: Path) -> Iterator[dict[str, Any]]:
    """Each proof of each fault: before, in effect, held, gone."""
    from chaos.history import History

    for event in History.open(report).events:
        if event["kind"] == "fault.evidence":
            keys = ("fault", "stage", "proven", "says", "probes", "t")
            yield {key: event[key] for key in keys if key in event}


COMMANDS = {"acceptance": fis_acceptance}
