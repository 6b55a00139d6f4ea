"""A box for tests: by its commands, as readers use it, and what is left of those whose tests were killed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from box import hosts, plan, witness
from box.machine import PROGRAM
from box.making import Box
from box.office import give
from clusterkit import ROOT, Cli, kept_lab_id

from chaos.base.paths import PREFIX, STATE_VARIABLE
from chaos.targets.labs import network
from chaos.targets.labs.local import LocalLab

BOXES = Path("/var/lib")
MADE = re.compile(r"opensearch-chaos-(test(\d+)-[0-9a-f]{4})")


class Program(Cli):
    """``python tests/box --name NAME ...`` in a process of its own; of ``exec`` it becomes the command itself."""

    def __init__(self, name: str, *arguments: str | Path) -> None:
        self.started.append(self)
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "box"), "--name", name, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )


class Boxed:
    """One box."""

    def __init__(self, name: str | None = None) -> None:
        self.box = Box(name or kept_lab_id())
        self.target = self.box.file.relative_to(self.box.home(1))

    def begin(self, *arguments: str | Path) -> Program:
        return Program(self.box.name, *arguments)

    def does(self, *arguments: str | Path, timeout: float = 300) -> tuple[int, str]:
        return self.begin(*arguments).end(timeout)

    def inside(self, *command: str | Path, office: int = 1) -> Program:
        """A command in an office, by the office's user."""
        return self.begin("exec", "--office", str(office), "--", *command)

    def chaos(self, *arguments: str | Path, office: int = 1, timeout: float = 600) -> tuple[int, str]:
        return self.inside("opensearch-chaos", *arguments, office=office).end(timeout)

    def ssh(self, host: str, *command: str, office: int = 1, options: Sequence[str] = ()) -> Program:
        """A command on a host, by ssh from an office."""
        config = self.target.with_name(plan.SSH_CONFIG)
        return self.inside("ssh", "-F", config, *options, host, *command, office=office)

    def asks(self, host: str, verb: str, *, office: int = 1, **given: Any) -> dict[str, Any]:
        """What the program for faults on a host answers, called by ssh and sudo; ``given``: its request."""
        config = self.target.with_name(plan.SSH_CONFIG)
        script = f"echo {shlex.quote(json.dumps(given))} | ssh -F {config} {host} sudo -n {PROGRAM} {verb}"
        code, output = self.inside("sh", "-c", script, office=office).end(120)
        assert code == 0, output
        return dict(json.loads(output))

    def on_host(self, host: str, *command: str) -> str:
        """What a command prints that root runs on a host."""
        code, output = self.does("host", host, "--", *command)
        assert code == 0, output
        return output

    def written(self, name: str, text: str) -> Path:
        """An experiment's file in the first office."""
        file = self.box.home(1) / "experiments" / f"{name}.yaml"
        give(file, text, 1)
        return file

    @contextmanager
    def reports(self, name: str, kept: Path) -> Iterator[Path]:
        """Where the office's user has the runs of the test of this name go; what is there then is copied into ``kept``,
        where pytest keeps things, for the box goes."""
        folder = self.box.home(1) / "reports" / re.sub(r"[^a-z0-9-]+", "-", name)
        yield folder
        if folder.exists():
            shutil.copytree(folder, kept / "reports")

    @contextmanager
    def owned(self) -> Iterator[LocalLab]:
        """The cluster, for whom it belongs to: within the block alone, for this process knows no other labs there."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(STATE_VARIABLE, str(self.box.folder / "state"))
            yield self.box.lab()

    def seen(self) -> dict[str, Any]:
        """The same as :meth:`picture`, in this process: where a test needs many."""
        with self.owned() as lab:
            return dict(json.loads(json.dumps(witness.picture(lab, plan.NOTES))))

    def picture(self, file: Path) -> dict[str, Any]:
        """What is on the cluster now and is no run's; kept in ``file``."""
        code, output = self.does("picture")
        assert code == 0, output
        file.write_text(output)
        return dict(json.loads(output))

    def differs(self, file: Path) -> str:
        """From the picture in ``file``; empty: in nothing."""
        code, output = self.does("compare", file)
        assert code in (0, 1), output
        return output


def left(name: str) -> list[str]:
    """All of a box that is still on this machine, in words."""
    box = Box(name)
    found = [f"namespace {each}" for each in network.namespaces(f"{PREFIX}{name}-")]
    found += [f"process {each.pid}: {' '.join(each.info['cmdline'])}" for each in _processes(str(box.folder))]
    for each in _elsewhere(str(box.folder)):
        found.append(f"process {each.pid} has mounts of it: {' '.join(each.info['cmdline'] or [])}")
    found += [f"control group {each}" for each in hosts.groups_left(name)]
    return found + ([f"folder {box.folder}"] if box.folder.exists() else [])


def _processes(folder: str) -> list[psutil.Process]:
    """Those whose command line names something in a folder, or that stand in it."""
    asked = psutil.process_iter(["cmdline", "cwd"])
    return [each for each in asked if folder in " ".join([*(each.info["cmdline"] or []), each.info["cwd"] or ""])]


def _elsewhere(folder: str) -> list[psutil.Process]:
    """Those in another mount namespace in which something of the box is mounted, as in its hosts and offices."""
    here, found = os.stat("/proc/self/ns/mnt").st_ino, []
    for each in psutil.process_iter(["cmdline"]):
        with suppress(OSError):
            if os.stat(f"/proc/{each.pid}/ns/mnt").st_ino == here:
                continue
            points = [line.split()[4] for line in Path(f"/proc/{each.pid}/mountinfo").read_text().splitlines()]
            if any(point == folder or point.startswith(f"{folder}/") for point in points):
                found.append(each)
    return found


def tidy() -> None:
    """Take away boxes of earlier tests that were killed."""
    for folder in BOXES.glob("opensearch-chaos-test*"):
        made = MADE.fullmatch(folder.name)
        if made and not Path(f"/proc/{made[2]}").exists():
            code, output = Boxed(made[1]).does("down")
            assert code == 0, output
