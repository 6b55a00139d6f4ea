"""Kill the runner with -9 at seeded random moments, recover, and look whether anything is left.

For every family of the catalogue and every stage of a run, from the lab's start to its end: a generated experiment
with one fault of that family is run, the runner is killed somewhere inside that stage, ``opensearch-chaos recover``
runs, and then nothing may be left: no namespace, process, mount, loop device, control group, registry entry, lab
folder or held lock; and a lab that is to live on is green and proven clean, with the settings, control group values,
mounts and indices that it had before. Where the kill really hit is read from the run's events, so the table tells
what was tested and not what was meant. Everything happens in a state folder of its own.

    python tests/crash/crash.py --seed 1
    python tests/crash/crash.py --kills 4 --families network,node --stages inject,hold,undo
    python tests/crash/crash.py --runner ../of-an-earlier-version --stages hold   # what it wrote down is undone by this
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from chaos.base import paths
from chaos.base.errors import ChaosError
from chaos.faults.ledger import registrations, standing
from chaos.observe.proof import problems, upgraded
from chaos.opensearch.views import await_green
from chaos.registry import FAULTS
from chaos.targets.labs import cgroups, disks, sweep, traces
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

ROOT = Path(__file__).parents[2]
WINDOWS = {
    "lab start": 10.0,
    "preload": 1.0,
    "warm-up": 4.0,
    "inject": 1.0,
    "hold": 3.0,
    "undo": 0.6,
    "settle": 0.3,
    "read-back": 0.3,
    "lab away": 0.5,
}
"""Stages in the order of a run, and for how many seconds after its beginning one is killed."""
FAULTY_SECONDS = 4
HELD_SECONDS = 15
"""Of the faulty phase, where one is to be killed while the fault is held: a storm takes most of 4 s to be proven."""
OWN_LAB = ("lab start", "lab away")
KILLS = 60
ATTEMPTS = 5
"""A stage may be over before its moment comes; then the moment is drawn nearer to the stage's beginning."""
GREEN_SECONDS = 180
EVENT_SECONDS = 240
VALUES = re.compile(r"(cfs_quota_us|cfs_period_us|limit_in_bytes|\.max|\.high|throttle\.\w+_device|shares|weight)$")
"""Files of a control group that hold what somebody set."""


@dataclass
class Kill:
    """One kill: what was meant, where it hit, and what was wrong afterwards."""

    family: str
    kind: str
    meant: str
    hit: str
    left: int
    wrong: list[str]
    seconds: float


@dataclass
class Crash:
    """The whole test: living labs by topology, and everything seen so far."""

    folder: Path
    rng: random.Random
    checkout: Path = ROOT
    """Whose runs are killed. It may be of an earlier version: whatever it wrote down, this one undoes."""
    labs: dict[str, LocalLab] = field(default_factory=dict)
    before: dict[str, dict[str, Any]] = field(default_factory=dict)
    kills: list[Kill] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    turns: dict[str, Iterator[tuple[str, dict[str, Any]]]] = field(default_factory=dict)

    # ---- one kill ------------------------------------------------------------------------------

    def kill(self, family: str, stage: str) -> bool:
        """Aim at a cell until it is hit. True when it was."""
        for attempt in range(ATTEMPTS):
            delay = self.rng.uniform(0, WINDOWS[stage]) * (0 if attempt == ATTEMPTS - 1 else 0.4**attempt)
            made = self.once(family, stage, delay)
            self.kills.append(made)
            verdict = "WRONG" if made.wrong else "clean"
            print(
                f"{len(self.kills):3} {verdict}  {made.family}: {made.kind}, killed {delay:.2f} s into {made.meant}, "
                f"hit {made.hit}, {made.left} leftovers, {made.seconds:.0f} s",
                flush=True,
            )
            for wrong in made.wrong:
                print(f"      {wrong}", flush=True)
            if made.hit == stage:
                return True
        return False

    def once(self, family: str, stage: str, delay: float) -> Kill:
        began = time.monotonic()
        kind, parameters = next(self.turn(family))
        topology = FAULTS[kind].example_topology
        out = self.folder / f"run-{len(self.kills)}"
        out.mkdir()
        file = out / "crash.yaml"
        held = HELD_SECONDS if stage == "hold" else FAULTY_SECONDS
        file.write_text(json.dumps(experiment(kind, parameters, topology, held)))
        arguments = ["run", str(file), "--out", str(out / "reports")]
        lab = None
        if stage not in OWN_LAB:
            lab = self.living(topology)
            arguments += ["--on", lab.id]
        else:
            for other in list(self.labs):  # memory is for one
                self.down(other)
        runner = start(*arguments, log=out / "runner.log", checkout=self.checkout)
        here = wait_until(lambda: runner.poll() is not None or reached(out, stage), EVENT_SECONDS, every=0.005)
        if not here or runner.poll() is not None:
            end(runner)
            why = f"it never came to {stage}: {(out / 'runner.log').read_text()[-400:]}"
            return Kill(family, kind, stage, "nowhere", 0, [why, *self.recovered(lab, topology)], 0.0)
        time.sleep(delay)  # the seeded moment
        end(runner)
        hit = stages(out)[-1]
        self.ids |= {path.name for path in paths.labs().glob("*")}
        left = len(sweep.leftovers()) + sum(len(standing(each.ledger)) for each in registrations())
        wrong = [] if hit != "hold" or left else ["a run that was killed in mid-fault left nothing to be found"]
        wrong += self.recovered(lab, topology)
        if not wrong:
            shutil.rmtree(out)
        return Kill(family, kind, stage, hit, left, wrong, time.monotonic() - began)

    def turn(self, family: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The kinds of a family with each of their examples, shuffled, again and again."""
        if family not in self.turns:
            known = [(n, k, e) for k, v in FAULTS.items() if v.family == family for n, e in enumerate(v.examples)]
            self.rng.shuffle(known)
            # every kind once before the second example of any; labs are changed seldom
            known.sort(key=lambda each: (each[0], FAULTS[each[1]].example_topology))
            self.turns[family] = itertools.cycle([(kind, example) for _, kind, example in known])
        return self.turns[family]

    # ---- afterwards ----------------------------------------------------------------------------

    def recovered(self, lab: LocalLab | None, topology: str) -> list[str]:
        """Recover, and everything that is wrong after it."""
        code, output = cli("recover")
        wrong = [f"recover ended with {code}: {output.strip()[-300:]}"] if code else []
        alive = {each.id for each in self.labs.values()}
        wrong += [f"left: {each.what}" for each in sweep.leftovers()]
        wrong += [f"registry entry {each.file}" for each in registrations()]
        wrong += [trace for id in sorted(self.ids - alive) for trace in traces.of(id)]
        wrong += [f"lab folder {path}" for path in paths.labs().glob("*") if path.name not in alive]
        if not wait_until(lambda: not strays(self.folder), 20):
            wrong += [f"process {pid}: {line}" for pid, line in strays(self.folder).items()]
        with paths.locked(paths.state() / "recover.lock", blocking=False) as free:
            wrong += [] if free else ["the lock of recover is held"]
        if lab is not None:
            with paths.locked(lab.folder / "run.lock", blocking=False) as free:
                wrong += [] if free else [f"the lock of lab {lab.id} is held"]
            unwell = self.unwell(lab, topology)
            if unwell:  # the next kill needs a lab that is well
                self.replace(topology)
            wrong += unwell
        return wrong

    def unwell(self, lab: LocalLab, topology: str) -> list[str]:
        if not await_green(lab, GREEN_SECONDS)[0]:
            return [f"lab {lab.id} is not green again"]
        wrong = problems(lab)
        now = snapshot(lab)
        for what, value in self.before[topology].items():
            if now.get(what) != value:
                wrong.append(f"{what} was {value} and is {now.get(what)}")
        wrong += [f"{what} is new: {value}" for what, value in now.items() if what not in self.before[topology]]
        return wrong

    # ---- labs that live on ---------------------------------------------------------------------

    def living(self, topology: str) -> LocalLab:
        if topology in self.labs and upgraded(self.labs[topology]):  # there is no way back
            self.down(topology)
        if topology not in self.labs:
            for other in list(self.labs):  # memory is for one
                self.down(other)
            name = f"test{os.getpid()}-{len(self.kills):04x}"  # the next run of the tests knows whose it was
            code, output = cli("lab", "up", str(topology_file(topology)), "--name", name)
            if code:
                raise ChaosError(f"no lab of {topology}: {output.strip()[-600:]}")
            self.labs[topology] = LocalLab.attach(name)
            self.before[topology] = snapshot(self.labs[topology])
        return self.labs[topology]

    def down(self, topology: str) -> None:
        lab = self.labs.pop(topology)
        self.ids.add(lab.id)
        code, output = cli("lab", "down", lab.id)
        if code or traces.of(lab.id):
            raise ChaosError(f"lab {lab.id} cannot be taken away: {output.strip()[-300:]}; {traces.of(lab.id)}")

    def replace(self, topology: str) -> None:
        self.down(topology)
        self.living(topology)


def experiment(kind: str, parameters: dict[str, Any], topology: str, held: int = FAULTY_SECONDS) -> dict[str, Any]:
    """A short run around one fault; JSON is YAML. Wide objectives: nothing here is judged."""
    operation = {"rate": "20/s", "good": "ok within 4s"}
    return {
        "apiVersion": "opensearch-chaos/v1",
        "name": "crash",
        "topology": str(topology_file(topology)),
        "load": {"read": operation, "write": operation, "documents": 200},
        "phases": {
            "faulty": {"for": f"{held}s", "inject": {kind: parameters}},
            "healed": {"undo": "all", "for": "500ms"},
        },
        "expect": [{"acknowledged.lost": 0}],
    }


def topology_file(name: str) -> Path:
    return ROOT / "topologies" / f"{name}.yaml"


def events(out: Path) -> list[dict[str, Any]]:
    found = []
    for file in out.glob("reports/*/history/events.jsonl"):
        for line in file.read_bytes().split(b"\n"):
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
    return found


def stages(out: Path) -> list[str]:
    """The stages that a run has come to, in order, as its events say."""
    seen = ["nowhere"]

    def now(stage: str) -> None:
        if seen[-1] != stage:
            seen.append(stage)

    for event in events(out):
        kind = event["kind"]
        if kind == "stage":
            now(event["name"])
        elif kind == "phase.start" and event["phase"] == "faulty":
            now("inject")
        elif kind == "fault.evidence" and event["stage"] == "effect":
            now("hold")
        elif kind == "fault.undo":
            now("undo")
    return seen


def reached(out: Path, stage: str) -> bool:
    return stage in stages(out)


def snapshot(lab: LocalLab) -> dict[str, Any]:
    """What of a lab must be the same before and after: settings, indices, control group values, mounts."""
    client = lab.client(lab.topology.nodes[0].name, timeout=10.0)
    _, settings = client.request("GET", "/_cluster/settings?flat_settings=true")
    _, indices = client.request("GET", "/_cat/indices?format=json&h=index&expand_wildcards=all")
    client.close()
    found: dict[str, Any] = {
        "cluster settings": {name: settings[name] for name in ("persistent", "transient")},
        "indices": sorted(each["index"] for each in indices),
        "mounts": traces.mounts(lab.id, lab.folder, Path("/proc/self/mounts").read_text()),
        "loop devices": [(loop.name, str(loop.backing)) for loop in disks.loops_below(lab.folder)],
    }
    for hierarchy in set(cgroups.hierarchies().values()):
        for file in sorted((hierarchy.root / lab.groups.name).rglob("*")):
            if file.is_file() and VALUES.search(file.name):
                try:
                    found[str(file)] = file.read_text().strip()
                except OSError:
                    continue
    return found


def strays(folder: Path) -> dict[int, str]:
    """Processes of ours outside the namespaces: they carry our state folder, or work below our own."""
    found = {}
    mine = {os.getpid(), *(each.pid for each in psutil.Process().parents())}
    marker = f"{paths.STATE_VARIABLE}={paths.state()}".encode()
    for process in psutil.process_iter(["pid", "cmdline"]):
        if process.pid in mine:
            continue
        try:
            here = marker in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
            where = os.readlink(f"/proc/{process.pid}/cwd")
        except OSError:
            continue
        line = " ".join(process.info["cmdline"] or [])
        gateway = "chaos.targets.labs.gateway" in line  # of the lab that lives on
        if (here or where.startswith(f"{folder}/run-")) and not gateway and process.is_running():
            found[process.pid] = line[:120]
    return found


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "chaos", *arguments]


def start(*arguments: str, log: Path, checkout: Path = ROOT) -> subprocess.Popen[bytes]:
    with open(log, "wb") as output:
        return subprocess.Popen(
            command(*arguments), stdout=output, stderr=subprocess.STDOUT, cwd=checkout, start_new_session=True
        )


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the runner alone; what it started is left to itself."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def cli(*arguments: str) -> tuple[int, str]:
    answer = subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=400)
    return answer.returncode, answer.stdout + answer.stderr


def cells(families: list[str], wanted: list[str], kills: int, rng: random.Random) -> list[tuple[str, str]]:
    """Each cell once, if there are kills enough, then more by chance; fewer kills are spread over both axes."""
    every = [(family, stage) for family in families for stage in wanted]
    rng.shuffle(every)
    chosen: list[tuple[str, str]] = []
    while len(chosen) < kills:
        rest = [cell for cell in every if cell not in chosen] or every
        seen = Counter(part for cell in chosen for part in cell)
        chosen.append(min(rest, key=lambda cell: (seen[cell[0]] + seen[cell[1]], rng.random())))
    # labs that live on are started once for each topology
    home = {family: next(v.example_topology for v in FAULTS.values() if v.family == family) for family in families}
    return sorted(chosen, key=lambda cell: (cell[1] in OWN_LAB, home[cell[0]], families.index(cell[0])))


def table(kills: list[Kill], families: list[str], wanted: list[str]) -> str:
    """Kills by the stage that they hit and by family."""
    hits = Counter((kill.family, kill.hit) for kill in kills)
    wide = max(len(family) for family in families) + 2
    lines = ["".join([f"{'stage':12}", *(f"{family:>{wide}}" for family in families)])]
    for stage in [*wanted, *sorted({kill.hit for kill in kills} - set(wanted))]:
        lines.append("".join([f"{stage:12}", *(f"{hits[(family, stage)] or '-':>{wide}}" for family in families)]))
    return "\n".join(lines)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    families = list(dict.fromkeys(kind.family for kind in FAULTS.values()))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, help=f"at least; default each cell once, and {KILLS} in all")
    parser.add_argument("--families", default=",".join(families), help="some of: %(default)s")
    parser.add_argument("--runner", type=Path, default=ROOT, help="a checkout whose runs are killed; default this one")
    parser.add_argument("--stages", default=",".join(WINDOWS), help="some of: %(default)s")
    options = parser.parse_args(given)
    chosen = [name.strip() for name in options.families.split(",")]
    wanted = [name.strip() for name in options.stages.split(",")]
    if unknown := [*(set(chosen) - set(families)), *(set(wanted) - set(WINDOWS))]:
        parser.error(f"unknown: {', '.join(unknown)}")
    rng = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp(prefix="crash-"))
    folder.chmod(0o755)  # the nodes' own user must get to its data
    before = os.environ.get(paths.STATE_VARIABLE)
    os.environ[paths.STATE_VARIABLE] = str(folder / "state")
    crash = Crash(folder, rng, options.runner.resolve())
    missed = []
    try:
        aims = cells(chosen, wanted, options.kills or max(KILLS, len(chosen) * len(wanted)), rng)
        print(f"seed {options.seed}: {len(aims)} kills, {len(set(aims))} cells of {len(chosen) * len(wanted)}")
        for family, stage in aims:
            if not crash.kill(family, stage):
                missed.append(f"{family} in {stage}")
    finally:
        for topology in list(crash.labs):
            crash.down(topology)
        if before is None:
            del os.environ[paths.STATE_VARIABLE]
        else:
            os.environ[paths.STATE_VARIABLE] = before
    wrong = [kill for kill in crash.kills if kill.wrong]
    print(table(crash.kills, chosen, wanted))
    kinds = Counter(kill.kind for kill in crash.kills)
    print(f"{len(crash.kills)} kills, {len(kinds)} kinds: {', '.join(f'{k} {n}' for k, n in sorted(kinds.items()))}")
    for cell in missed:
        print(f"never hit: {cell}")
    print(f"{len(wrong)} left something, {len(missed)} cells were never hit")
    if not wrong:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"what the runners said: {folder}")
    return 1 if wrong or missed else 0


if __name__ == "__main__":
    sys.exit(main())
