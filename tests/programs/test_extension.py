"""What another package brings is there as ours is: in the catalogue, in files, in plans; or it says why it is not."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic
from extending import command, installed, metadata
from fakes import ROOT
from pages import Page

from chaos import providers
from chaos.base.errors import InvalidInput
from chaos.checks import catalogue
from chaos.faults import kinds

EXPERIMENT = f"""\
apiVersion: opensearch-chaos/v1
name: blocked
topology: {ROOT / "topologies" / "3az.yaml"}
load: {{note: {{rate: 50/s, good: ok within 1s}}, workload: WORKLOAD}}
phases:
  healthy: {{for: 20s}}
  blocked:
    for: 20s
    inject:
      example.write_block: {{PARAMETERS}}
  after: {{until: {{green: true, within: 60s}}, undo: example.write_block}}
expect:
  - {{note.good: ">= 99%", phase: blocked}}
  - {{example.nodes_left: EXPECTED, phase: blocked}}
"""


TWO_WRITERS = """\
from chaos.base.operations import OperationKind
from chaos.load.workloads.documents import Documents

class Twice(Documents):
    name = "twice"
    operations = (OperationKind("note", "", {"put": "index"}), OperationKind("jot", "", {"put": "index"}))

THING = Twice()
"""
TAKEN = TWO_WRITERS.replace('"note", "", {"put": "index"}', '"cas", "", {"put": "index"}').replace(
    ', OperationKind("jot", "", {"put": "index"})', ","
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("package"))


def experiment(folder: Path, parameters: str = "{}", expected: str = "0", workload: str = "notes") -> str:
    file = folder / "blocked.yaml"
    text = EXPERIMENT.replace("{PARAMETERS}", parameters).replace("EXPECTED", expected)
    file.write_text(text.replace("WORKLOAD", workload))
    return str(file)


def test_a_kind_and_its_provider_are_in_the_catalogue(package: Path) -> None:
    done = command(package, "faults", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = [each for each in json.loads(done.stdout)["faults"] if each["kind"] == "example.write_block"]
    assert found["providers"] == ["example"] and found["available"] and found["family"] == "index"
    assert found["mechanism"] == "the index' setting index.blocks.write"


def test_a_file_names_it_and_a_mistake_in_it_has_its_position(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path))
    assert done.returncode == 0, done.stderr
    done = command(package, "validate", experiment(tmp_path, "{blok: true}"))
    assert done.returncode == 2 and "blocked.yaml:10:29:" in done.stderr and "blok" in done.stderr, done.stderr


def test_a_workload_is_chosen_by_its_name(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path, workload="letters"))
    assert done.returncode == 2 and "blocked.yaml:4:" in done.stderr, done.stderr
    assert "documents" in done.stderr and "notes" in done.stderr, done.stderr


WRONG_OPERATIONS = [
    (("note: {rate", "write: {rate"), 'the workload notes has no operation "write": expected find or note'),
    (("1s}, workload", "1s, operation: by-word}, workload"), "operation: expected put, got 'by-word'"),
    (("note: {rate: 50/s", "find: {operation: search, rate: 50/s"), "expected by-word or by-number, got 'search'"),
    (("workload: notes", "workload: documents"), 'documents has no operation "note": expected read or write'),
    (("note.good", "find.good"), "find.good needs a find load, and there is none: expected load.find"),
    (("note.good", "noet.good"), "note.good"),
]


def test_operations_are_those_that_the_workload_declares(package: Path, tmp_path: Path) -> None:
    given = Path(experiment(tmp_path)).read_text()
    for number, (change, _) in enumerate(WRONG_OPERATIONS):
        assert given.replace(*change) != given
        (tmp_path / f"wrong-{number}.yaml").write_text(given.replace(*change))
    done = command(package, "validate", *(str(tmp_path / f"wrong-{n}.yaml") for n in range(len(WRONG_OPERATIONS))))
    assert done.returncode == 2, done.stderr
    told = re.split(r"(?=\S*wrong-\d\.yaml:\d+:)", done.stderr)
    for number, (_, says) in enumerate(WRONG_OPERATIONS):
        assert any(f"wrong-{number}.yaml:" in each and says in each for each in told), (says, done.stderr)


def test_operations_have_objectives_guards_and_a_place_in_the_plan(package: Path, tmp_path: Path) -> None:
    file = Path(experiment(tmp_path))
    given = file.read_text().replace("load: {", "load: {find: {rate: 5/s, good: ok within 2s, operation: by-number}, ")
    file.write_text(given + "guards: {find.good: {below: 50%, for: 10s}}\n")
    done = command(package, "plan", str(file), "--objective", "find=500ms", "--json")
    assert done.returncode == 0, done.stderr
    planned = json.loads(done.stdout)["experiment"]
    load = planned["load"]
    assert (load["find"]["good_within"], planned["good_in_file"]) == (0.5, {"find": 2.0})
    assert (load["note"]["operation"], load["note"]["writes"], load["find"].get("writes")) == ("put", True, None)
    assert planned["guards"]["find_good"]["below"] == 0.5
    done = command(package, "plan", str(file), "--objective", "read=500ms")
    assert done.returncode == 2 and "has no reads" in done.stderr, done.stderr
    done = command(package, "plan", str(file), "--objective", "look=500ms")
    assert done.returncode == 2 and "expected find or note" in done.stderr, done.stderr


def test_an_instrument_has_a_metric_a_file_and_a_place_in_the_plan(package: Path, tmp_path: Path) -> None:
    file = Path(experiment(tmp_path))
    file.write_text(file.read_text() + "  - {example.connections: '<= 100', phase: blocked}\n")
    done = command(package, "validate", str(file))
    assert done.returncode == 0, done.stderr
    rooms = [
        json.loads(command(where, "plan", str(ROOT / "experiments" / "no-fault.yaml"), "--json").stdout)["room_bytes"]
        for where in (package, tmp_path)
    ]
    assert rooms[0]["record"] > rooms[1]["record"]  # its lines take room
    done = command(tmp_path, "validate", str(file))
    assert done.returncode == 2 and "example.connections" in done.stderr


def test_what_an_instrument_lets_expectations_ask_passes_fails_and_is_open(package: Path) -> None:
    code = (
        "from negative.test_mutated_instruments import TRIALS, tried\n"
        "(found,) = [each for each in TRIALS if each[1].metric == 'example.connections']\n"
        "print([tried(*found, how).verdict.value for how in ('sound', 'broken', 'none')])"
    )
    paths = [str(package), str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "['pass', 'fail', 'inconclusive']", done.stderr


def test_a_check_has_a_section_of_the_page_and_changes_no_finding(package: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    synthetic.black_hole().write(run)
    judged, pages = [], []
    for where in (package, tmp_path):
        done = command(where, "report", str(run))
        assert done.returncode == 1, done.stdout + done.stderr
        judged.append(json.loads((run / "findings.json").read_text()))
        assert judged[-1].pop("made_by")["code"]  # which takes in the code of packages
        pages.append(Page((run / "report.html").read_text()))
    anchors = [[a["href"] for tag, a in page.tags if tag == "a" and "href" in a].count("#nodes-left") for page in pages]
    words = [" ".join(page.words.split()) for page in pages]
    assert "Nodes that left As the cluster's own state said. Phase Nodes dark b-cm and b-data" in words[0]
    assert "As the cluster's own state said" not in words[1] and anchors == [1, 0]
    assert judged[0] == judged[1]


def test_a_check_is_compared_as_its_unit_says(package: Path, tmp_path: Path) -> None:
    done = command(package, "validate", experiment(tmp_path, expected='"<= 10s"'))
    assert done.returncode == 2 and "blocked.yaml:14:" in done.stderr and "count" in done.stderr, done.stderr


def test_a_plan_says_who_carries_it_out_and_takes_it_back(package: Path, tmp_path: Path) -> None:
    done = command(package, "plan", experiment(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (step,) = [each for each in json.loads(done.stdout)["steps"] if "fault" in each]
    assert (step["provider"], step["grade"]) == ("example", "path")
    assert step["moves"] == ["example.block index=chaos"] and step["inverse"] == ["example.unblock index=chaos"]


def test_a_target_is_chosen_by_its_name(package: Path, tmp_path: Path) -> None:
    done = command(package, "faults", "--lab", "quiet", "--json")
    assert done.returncode == 0, done.stderr
    done = command(package, "faults", "--lab", "podman")
    assert done.returncode == 2 and "choose one of: local, docker, quiet" in done.stderr, done.stderr


def test_without_the_package_its_kind_is_unknown(tmp_path: Path) -> None:
    done = command(tmp_path, "validate", experiment(tmp_path))
    assert done.returncode == 2 and "example.write_block" in done.stderr


@pytest.mark.parametrize(
    ("group", "code", "says"),
    [
        ("kinds", "raise RuntimeError('oh no')", "cannot be loaded: RuntimeError: oh no"),
        ("workloads", TWO_WRITERS, "declares two that write documents, whose ids would be the same: jot"),
        ("workloads", TAKEN, "declares a name that is none or means something else: cas"),
    ],
)
def test_a_package_that_is_broken_is_named_and_nothing_is_started(
    tmp_path: Path, group: str, code: str, says: str
) -> None:
    broken(tmp_path, group, code)
    done = command(tmp_path, "faults")
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


DISCOVERS = {"kinds": kinds.discover, "providers": providers.discover, "checks": catalogue.discover}


@pytest.mark.parametrize(
    ("group", "code", "says"),
    [
        ("providers", "THING = 3", "which is no provider"),
        ("kinds", "THING = 3", "which is no kind of fault"),
        ("providers", "from chaos.providers.process import PROVIDER as THING", "two providers named 'process'"),
        ("checks", "THING = 3", "which is no check"),
        ("checks", "from chaos.checks.movement import CHECKS; THING = CHECKS[0]", "two metrics named 'shards.moved'"),
        ("kinds", "from chaos.faults.kinds.node import NodeKill as THING", "two kinds of fault named 'node.kill'"),
    ],
)
def test_what_a_package_brings_and_is_none_or_there_already_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, code: str, says: str
) -> None:
    """In this process: what becomes of the refusal is the test before."""
    broken(tmp_path, group, code)
    monkeypatch.syspath_prepend(tmp_path)
    try:
        with pytest.raises(InvalidInput, match=re.escape(says)):
            DISCOVERS[group]()
    finally:
        sys.modules.pop("theirs", None)


def broken(folder: Path, group: str, code: str) -> None:
    (folder / "theirs.py").write_text(code + "\n")
    metadata(folder, "their-package", "0.1", {f"opensearch_chaos.{group}": {"theirs": "theirs:THING"}})


def for_another_version(folder: Path, *groups: str) -> None:
    """A package that asks for a version of ``chaos.api`` that is not there. Loading it leaves a file."""
    (folder / "theirs.py").write_text("from pathlib import Path\n\nPath(__file__).with_name('loaded').touch()\n")
    points = {f"opensearch_chaos.{group}": {"theirs": "theirs:THING"} for group in groups}
    metadata(folder, "their-package", "0.1", points | {"opensearch_chaos.api": {"version": "chaos.api:V7"}})


REFUSED = (
    "package their-package 0.1 asks for version 7 of chaos.api, and opensearch-chaos has 0; "
    "install a version of that package that fits, or another one of opensearch-chaos"
)


@pytest.mark.parametrize("group", ["kinds", "providers", "checks", "workloads", "instruments"])
def test_a_package_for_a_version_of_the_api_that_is_not_there_is_refused_by_name(tmp_path: Path, group: str) -> None:
    for_another_version(tmp_path, group)
    done = command(tmp_path, "validate", str(ROOT / "experiments" / "no-fault.yaml"))
    assert done.returncode == 2 and done.stdout == "", done.stdout
    assert " ".join(done.stderr.split()) == f"opensearch-chaos: {REFUSED}"
    assert not (tmp_path / "loaded").exists()


def test_a_target_for_a_version_of_the_api_that_is_not_there_is_refused_where_it_is_chosen(tmp_path: Path) -> None:
    for_another_version(tmp_path, "targets")
    experiment = str(ROOT / "experiments" / "no-fault.yaml")
    assert command(tmp_path, "validate", experiment).returncode == 0
    out = tmp_path / "out"
    done = command(tmp_path, "run", experiment, "--lab", "theirs", "--out", str(out), state=tmp_path / "state")
    assert done.returncode == 2 and " ".join(done.stderr.split()) == f"opensearch-chaos: {REFUSED}", done.stderr
    assert not (tmp_path / "loaded").exists() and not out.exists()


def test_a_target_that_is_broken_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("raise RuntimeError('oh no')\n")
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.targets": {"theirs": "theirs:THING"}})
    assert command(tmp_path, "faults", "--lab", "local").returncode == 0
    done = command(tmp_path, "faults", "--lab", "theirs")
    assert done.returncode == 2 and "package their-package 0.1" in done.stderr and "oh no" in done.stderr, done.stderr


def test_a_target_s_labs_bear_its_name(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "from chaos.targets.kinds.local import Local\n\nclass Theirs(Local):\n    name = 'theirs'\n\nTHING = Theirs()\n"
    )
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.targets": {"theirs": "theirs:THING"}})
    done = command(tmp_path, "faults", "--lab", "theirs")
    assert done.returncode == 2 and "the labs of 'theirs' call themselves 'local'" in done.stderr, done.stderr


def test_a_target_of_a_name_that_is_taken_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text("from chaos.targets.kinds.local import TARGET as THING\n")
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.targets": {"local": "theirs:THING"}})
    assert command(tmp_path, "faults").returncode == 0
    done = command(tmp_path, "faults", "--lab", "podman")
    assert done.returncode == 2 and "local, docker, local (theirs:THING)" in done.stderr, done.stderr


NEEDY = """\
from chaos.faults.fault import Grade
from chaos.faults.kinds.network import NetworkDrop
from chaos.faults.offers import Means, Provider

THING = Provider("needy", "what nobody has", grade=Grade.EFFECT)


@THING.carries_out(NetworkDrop, mechanism="m", undoing="u", needs=("ssh",))
def make(params, aim):
    return Means(())
"""
KIND = """\
from typing import ClassVar

from chaos.faults.kind import Kind


class THING(Kind):
    \"\"\"A kind that nobody carries out.\"\"\"

    kind: ClassVar[str] = "their.kind"
    family: ClassVar[str] = "other"
    proof: ClassVar[str] = "p"
    holding: ClassVar[str] = "h"
    examples: ClassVar[tuple[dict, ...]] = ({},)
"""


def test_what_a_provider_needs_and_nobody_knows_is_lacking_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(NEEDY)
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.providers": {"needy": "theirs:THING"}})
    done = command(tmp_path, "faults", "--json")
    (drop,) = [each for each in json.loads(done.stdout)["faults"] if each["kind"] == "network.drop"]
    assert "needy" in drop["providers"] and drop["available"]  # by ours


def test_a_kind_without_a_provider_is_told_and_one_that_says_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(KIND)
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.kinds": {"theirs": "theirs:THING"}})
    done = command(tmp_path, "faults", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = [each for each in json.loads(done.stdout)["faults"] if each["kind"] == "their.kind"]
    assert not found["available"] and found["reasons"] == ["no provider offers their.kind"]
    (tmp_path / "theirs.py").write_text(KIND.replace('    family: ClassVar[str] = "other"\n', ""))
    done = command(tmp_path, "faults")
    assert done.returncode == 2 and "does not say its family" in done.stderr, done.stderr


@pytest.mark.parametrize("arguments", [[], ["--chaos-objective", "read=1s"]])
def test_under_pytest_a_broken_package_is_one_line_too(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "theirs.py").write_text("raise RuntimeError('oh no')\n")
    metadata(tmp_path, "their-package", "0.1", {"opensearch_chaos.providers": {"theirs": "theirs:THING"}})
    folder = tmp_path / "experiments"
    folder.mkdir()
    experiment(folder)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "chaos", *arguments],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode in (2, 4) and "package their-package 0.1" in said and "oh no" in said, said
    assert "Traceback" not in said and "INTERNALERROR" not in said and "registry.py" not in said, said
