"""A program as owners of a cluster write it, for a lab that is taken for their cluster: honest, or as it is told.

It ends and starts nodes as their own service manager would. What a call does instead stands in a file beside it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from chaos.base import paths
from chaos.targets.labs.local import LocalLab

PROGRAM = """#!{python} -I
import json, os, signal, subprocess, sys, time

HERE = {here!r}
LAB, ID = {lab!r}, {id!r}
asked = json.load(sys.stdin)
call, kind, nodes, links = asked["call"], asked["kind"], asked["nodes"], asked["links"]
with open(HERE + "/asked.jsonl", "a") as told:
    told.write(json.dumps(asked) + "\\n")
instead = json.load(open(HERE + "/instead.json")).get(call, "")
MARK = HERE + "/made"


def state(node):
    try:
        said = json.load(open(LAB + "/run/node-" + node + ".json"))
        fields = open("/proc/%d/stat" % said["pid"]).read().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None, None
    if int(fields[19]) != said["start_ticks"] or fields[0] in "ZX":
        return None, None
    return said["pid"], fields[0]


def on_lab(line):
    # as a service manager does it: from a session of its own
    code = "from chaos.targets.labs.local import LocalLab; lab = LocalLab.attach(%r); %s" % (ID, line)
    subprocess.run([sys.executable, "-c", code], env={env!r}, check=True, start_new_session=True, stdout=2)


def make():
    for node in nodes:
        pid, _ = state(node)
        if pid:
            os.kill(pid, signal.SIGSTOP if kind == "node.pause" else signal.SIGKILL)
    if links:
        on_lab("; ".join("lab.block_neighbour(%r, %r)" % tuple(link) for link in links))
        open(MARK, "w").close()


def back():
    for node in nodes:
        pid, letter = state(node)
        if kind == "node.pause" and pid:
            os.kill(pid, signal.SIGCONT)
        elif not pid:
            on_lab("lab.start_node(%r)" % node)
    if links:
        on_lab("; ".join("lab.restore_neighbour(%r, %r)" % tuple(link) for link in links))
        if os.path.exists(MARK):
            os.unlink(MARK)


def there():
    if links:
        return os.path.exists(MARK)
    letters = [state(node)[1] for node in nodes]
    return all(letter == "T" if kind == "node.pause" else letter is None for letter in letters)


if instead == "yes":
    sys.exit(0)
if instead == "no":
    sys.exit(1)
if instead == "fails":
    sys.exit("no right to do that")
if instead == "hangs":
    time.sleep(600)
if instead == "half done":
    make()
    time.sleep(600)
if instead == "once made":  # says that it is in effect as soon as it was asked to make it
    sys.exit(not any(json.loads(line)["call"] == "inject" for line in open(HERE + "/asked.jsonl")))
if instead == "later":
    if os.fork() == 0:
        open(HERE + "/waits", "w").write(str(os.getpid()))
        time.sleep(3)
        make()
        os._exit(0)
    while not os.path.exists(HERE + "/waits"):
        time.sleep(0.02)
    sys.exit(0)
if call == "inject":
    make()
elif call == "undo":
    back()
else:
    sys.exit(0 if there() == (call == "in_effect") else 1)
"""


class Owners:
    """Their program, beside a target's file."""

    def __init__(self, lab: LocalLab, beside: Path) -> None:
        self.folder = beside / "hooks"
        self.folder.mkdir()
        self.does()
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
        env[paths.STATE_VARIABLE] = str(paths.state())
        program = self.folder / "hook"
        given = {"here": str(self.folder), "lab": str(lab.folder), "id": lab.id, "env": env}
        program.write_text(PROGRAM.format(python=sys.executable, **given))
        program.chmod(0o755)

    def does(self, **instead: str) -> None:
        """What it does otherwise from now on, by call: see the program."""
        (self.folder / "instead.json").write_text(json.dumps(instead))

    def written(self, *kinds: str, within: str = "20s", ttl: str = "10m") -> str:
        """For the target's file."""
        calls = {call: ["./hooks/hook", call] for call in ("inject", "in_effect", "undo", "gone")}
        return f"hooks: {json.dumps({kind: {**calls, 'within': within, 'ttl': ttl} for kind in kinds})}\n"

    @property
    def calls(self) -> list[str]:
        """Which it was asked for, in order."""
        file = self.folder / "asked.jsonl"
        return [json.loads(line)["call"] for line in file.read_text().splitlines()] if file.exists() else []
