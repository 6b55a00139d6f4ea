"""The hook for Kubernetes of docs/hooks.md, held against a stand-in for kubectl that keeps StatefulSets in a file."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
KUBECTL = """#!/usr/bin/env python3
import json, os, sys
from pathlib import Path
file = Path(os.environ["STATE"])
state = json.loads(file.read_text())
words = sys.argv[1:]
if words[:1] == ["--namespace"]:
    assert words[1] == "shop", words
    words = words[2:]
state["calls"].append(words)
verb, kind, *rest = words
if os.environ.get("REFUSES") == f"{verb} {kind}":
    sys.exit("forbidden")
name = next(word for word in rest if not word.startswith("-"))
if (verb, kind) == ("get", "statefulset"):
    path = rest[-1].removeprefix("jsonpath={.").removesuffix("}")
    found = state["sets"][name]
    print(found["replicas"] if path == "spec.replicas" else found.get("annotation", ""), end="")
elif (verb, kind) == ("get", "pod"):
    owner, _, number = name.rpartition("-")
    if int(number) < state["sets"][owner]["replicas"]:
        print(f"pod/{name}")
elif (verb, kind) == ("scale", "statefulset"):
    (size,) = (word for word in rest if word.startswith("--replicas="))
    state["sets"][name]["replicas"] = int(size.partition("=")[2])
elif (verb, kind) == ("annotate", "statefulset"):
    if rest[1] == "chaos-replicas-":
        state["sets"][name].pop("annotation", None)
    else:
        assert "annotation" not in state["sets"][name], "kubectl wants --overwrite"
        state["sets"][name]["annotation"] = rest[1].partition("=")[2]
elif (verb, kind) == ("create", "job"):
    assert name not in state["jobs"]
    assert len(name) <= 63 and all(letter in "abcdefghijklmnopqrstuvwxyz0123456789-" for letter in name), name
    state["jobs"][name] = rest[rest.index("--") + 1 :]
elif (verb, kind) == ("delete", "job"):
    state["jobs"].pop(name, None)
else:
    sys.exit(f"not known: {words}")
file.write_text(json.dumps(state))
"""


class Hook:
    def __init__(self, folder: Path) -> None:
        text = (ROOT / "docs" / "hooks.md").read_text()
        (script,) = re.findall(r"```sh\n(#!/bin/sh\n# hooks/statefulset-away.*?)```", text, re.S)
        self.folder, self.state = folder, folder / "state.json"
        for name, content in (("hook", script), ("kubectl", KUBECTL)):
            (folder / name).write_text(content)
            (folder / name).chmod(0o755)
        sets = {"es-c": {"replicas": 2}, "es-a": {"replicas": 2}}
        self.state.write_text(json.dumps({"sets": sets, "jobs": {}, "calls": []}))

    def __call__(self, call: str, *nodes: str, **more: str) -> int:
        asked = {
            "call": call,
            "run": "20270110T101500Z-zone-power-loss_1-1a2b3c4d5e6f7081",
            "id": "f1",
            "nodes": nodes,
            "links": [],
            "ttl_seconds": 600.0,
        }
        done = subprocess.run(
            [str(self.folder / "hook"), call],
            input=json.dumps(asked),
            env={
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "STATE": str(self.state),
                "NAMESPACE": "shop",
                "KUBECTL_IMAGE": "registry.example/kubectl",
                **more,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode

    @property
    def now(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.state.read_text())
        return found


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    if shutil.which("jq") is None:
        pytest.skip("no jq: apt-get install --no-install-recommends jq")
    return Hook(tmp_path)


ZONE = ("es-c-0", "es-c-1")


def test_a_zone_is_taken_away_and_comes_back(hook: Hook) -> None:
    assert hook("in_effect", *ZONE) == 1 and hook("gone", *ZONE) == 0
    assert hook("inject", *ZONE) == 0
    assert hook.now["sets"] == {"es-c": {"replicas": 0, "annotation": "2"}, "es-a": {"replicas": 2}}
    verbs = [call[0] for call in hook.now["calls"]]
    assert verbs.index("create") < verbs.index("scale")  # what undoes it by itself is there first
    assert hook("in_effect", *ZONE) == 0 and hook("gone", *ZONE) == 1
    for _ in range(2):  # twice is as once
        assert hook("undo", *ZONE) == 0
    assert hook.now["sets"]["es-c"] == {"replicas": 2} and hook.now["jobs"] == {}
    assert hook("in_effect", *ZONE) == 1 and hook("gone", *ZONE) == 0


def test_part_of_a_set_is_refused_and_nothing_is_done(hook: Hook) -> None:
    assert hook("inject", "es-c-0") == 1
    assert hook.now["sets"]["es-c"] == {"replicas": 2} and hook.now["jobs"] == {}


@pytest.mark.parametrize("refused", ["create job", "annotate statefulset", "scale statefulset"])
def test_what_broke_off_half_way_is_undone(hook: Hook, refused: str) -> None:
    assert hook("inject", *ZONE, REFUSES=refused) != 0
    assert hook("undo", *ZONE) == 0
    assert hook.now["sets"]["es-c"] == {"replicas": 2} and hook.now["jobs"] == {}


def test_the_job_undoes_it_alone(hook: Hook) -> None:
    assert hook("inject", *ZONE) == 0
    ((name, command),) = hook.now["jobs"].items()
    assert re.fullmatch("[a-z0-9-]+", name) and "sleep 600" in command[-1]
    (hook.folder / "sleep").write_text("#!/bin/sh\n")
    (hook.folder / "sleep").chmod(0o755)
    environment = {"PATH": f"{hook.folder}:{os.environ['PATH']}", "STATE": str(hook.state)}
    subprocess.run(command, env=environment, check=True)
    assert hook.now["sets"]["es-c"] == {"replicas": 2}
