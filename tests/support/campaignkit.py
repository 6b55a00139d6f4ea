"""Campaigns whose runs are a stand-in: a real child process, told, watched and committed as a run is, that breaks
nothing and takes as long as it is told.

    python tests/support/campaignkit.py CAMPAIGN STORE MACHINE SHARD [KILL]

is a worker of its own, for tests that kill and freeze it. MACHINE is a folder that stands for a machine: its lock and
its dirt. KILL ``upload``: the worker ends itself (SIGKILL) after each upload with a chance of one in three, before the
commit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
STAND_IN = (str(ROOT / "tests" / "support" / "standin_run.py"),)
"""Arguments of Python, in place of :data:`chaos.campaign.worker.CELL`."""
TEXT = """apiVersion: opensearch-chaos/v1
kind: campaign
name: {name}
description: its runs are a stand-in of seconds
store: {store}
matrix:
  experiments: [{experiments}]
  versions: [2.19.6, 3.8.0]
repeats: {repeats}
budget: {{machines: 9}}
retry: {{lost: {lost}, error: 2}}
"""


def write_campaign(folder: Path, store: Path | str, repeats: int, *, lost: int = 10, experiments: int = 1) -> Path:
    """A campaign's file of ``experiments`` times 2 versions times ``repeats`` cells."""
    named = ("no-fault", "zone-black-hole")[:experiments]
    file = folder / "stand-in.yaml"
    paths = ", ".join(str(ROOT / "experiments" / f"{name}.yaml") for name in named)
    file.write_text(TEXT.format(name=file.stem, store=store, repeats=repeats, lost=lost, experiments=paths))
    return file


def behave(machine: Path, **how: Any) -> None:
    """How the stand-in's runs behave on a machine: ``seconds``, ``outcome``, ``clean``, ``error`` (a class and a text),
    ``dies`` (a signal), ``bytes`` of a log."""
    machine.mkdir(parents=True, exist_ok=True)
    (machine / "behaviour.json").write_text(json.dumps(how))


def matrix_of(file: Path) -> Any:
    from chaos.commands.campaign_runs import loaded

    return loaded(file)


def records_at(store: Path | str) -> Any:
    from chaos.campaign.opening import open_store
    from chaos.campaign.records import Records

    return Records(open_store(str(store)))


def worker(
    file: Path, store: Any, machine: Path, *, looks: Any = list, uploaded: Any = None, matrix: Any = None, **more: Any
) -> Any:
    """A worker in this process. ``store``: a path, or a store. ``looks``: what is wrong with its machine."""
    from chaos.base.console import Reporter
    from chaos.campaign.machine import Machine
    from chaos.campaign.records import Records
    from chaos.campaign.worker import Worker
    from chaos.run.stopping import Stop

    records = Records(store) if hasattr(store, "create") else records_at(store)
    made = Worker(
        matrix or matrix_of(file),
        records,
        Machine(looks, machine),
        machine / "out",
        Reporter(quiet=True),
        more.pop("stop", None) or Stop(),
        program=(*STAND_IN, str(machine)),
        **more,
    )
    if uploaded is not None:
        made.uploaded = uploaded
    return made


def commit_story(records: Any, cell: Any, folder: Path, story: Any, **plan: Any) -> Any:
    """Commit a made-up run (:class:`synthetic.Story`) as that of a cell. ``plan``: keys laid over its plan."""
    from chaos.campaign.artifacts import chosen
    from chaos.campaign.records import Commit

    story.seed = cell.seed
    run = story.write(folder / f"run-{cell.key[:12]}")
    written = json.loads((run / "plan.json").read_text())
    written["experiment"]["tags"] = list(cell.experiment.tags)
    written["command"] = cell.spec("stand-in.yaml").command
    (run / "plan.json").write_text(json.dumps(written | plan))
    attempt = records.begin(cell, {}, 60.0)
    names, left_out = chosen(run, 2**30)
    manifest = records.upload(cell.key, attempt, run, names)
    commit = Commit(
        key=cell.key,
        attempt=attempt,
        cell=cell.to_json(),
        manifest=manifest,
        left_out=tuple(left_out),
        run=run.name,
        outcome="pass",
        clean=True,
        seconds=120.0,
        machine={},
        committed="2026-11-28T00:00:00+00:00",
    )
    assert records.commit(commit)
    return commit


def started(file: Path, store: Path, machine: Path, shard: str, *kill: str) -> subprocess.Popen[bytes]:
    """A worker in a process of its own; what it prints is in ``machine/worker.log``."""
    machine.mkdir(parents=True, exist_ok=True)
    with open(machine / "worker.log", "ab") as log:
        return subprocess.Popen(
            [sys.executable, __file__, str(file), str(store), str(machine), shard, *kill], stdout=log, stderr=log
        )


def main(arguments: Sequence[str]) -> int:
    from chaos.base.console import Reporter
    from chaos.campaign.matrix import Shard
    from chaos.run.stopping import signals

    file, store, machine, shard, *kill = arguments
    drawn = random.Random(os.getpid())

    def uploaded(attempt: str) -> None:
        if kill == ["upload"] and drawn.random() < 1 / 3:
            os.kill(os.getpid(), signal.SIGKILL)

    made = worker(Path(file), store, Path(machine), uploaded=uploaded)
    made.reporter = Reporter()
    with signals(made.stop, made.reporter):
        return int(made.work(Shard.parse(shard)).exit_code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
