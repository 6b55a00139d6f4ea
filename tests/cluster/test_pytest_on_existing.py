"""``pytest -m chaos --chaos-on FILE`` on a cluster that exists: a lab of which the suite knows addresses alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cluster.test_on_existing import ALLOCATION, CALLED, EXPECT, EXPERIMENT, HELD, There, taken_for_theirs
from clusterkit import DATA, Cli, await_event, cli, findings, in_effect, run_folder

from chaos.opensearch.views import administer
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full

CALM = "  calm: {for: 2s}\n"
OVER = "  over: {undo: all, until: {green: true, stable: 1s, within: 1m}}\n"
KILL = "  dark: {for: 3s, inject: {node.kill: {target: zone b}}}\n"


@pytest.fixture
def there(tiny: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(tiny, tmp_path, CALLED) as made:
        yield made


def experiment(there: There, name: str, phases: str) -> Path:
    file = there.folder / "experiments" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    text = (EXPERIMENT % (DATA / "tiny.yaml")).replace("name: there", f"name: {name}") + phases + EXPECT
    file.write_text(text.replace("write: {rate: 20/s", "write: {rate: 60/s"))  # 299 writes find a loss of one in 100
    return file


def begun(there: There, *files: Path) -> Cli:
    junit = there.folder / "junit.xml"
    return Cli(
        *("-m", "chaos", "-rA", "-p", "no:cacheprovider", f"--chaos-on={there.file}", f"--chaos-out={there.out}"),
        *(f"--junitxml={junit}", *files),
        program="pytest",
    )


def cases(there: There) -> dict[tuple[str, str], tuple[str, str]]:
    """(experiment, test) → what became of it, and what is said of that."""
    found = {}
    for case in ElementTree.parse(there.folder / "junit.xml").iter("testcase"):
        ends = [(each.tag, str(each.get("message"))) for each in case if each.tag in ("error", "failure", "skipped")]
        name = Path(str(case.get("classname")).replace(".yaml", "").replace(".", "/")).name
        found[name, str(case.get("name"))] = ends[0] if ends else ("passed", "")
    return found


def test_what_can_run_there_runs_and_the_rest_is_skipped_with_its_reason(there: There):
    held = experiment(there, "held", CALM + HELD % "3s" + OVER)
    killed = experiment(there, "killed", KILL + OVER)
    code, page = cli("plan", held, "--on", there.file, "--for-change")
    assert code == 0 and "Nothing forbids it today." in page and "Taken back by: `settings.restore" in page, page
    assert there.as_before()
    code, output = begun(there, killed, held).end()
    became = cases(there)
    assert became["held", "acknowledged.lost = 0"] == ("passed", ""), output
    assert became["held", "the run itself is valid and clean"][0] in ("passed", "failure"), output
    for name in ("acknowledged.lost = 0", "the run itself is valid and clean"):
        how, says = became["killed", name]
        assert how == "skipped" and "killed cannot run on staging: no provider: node.kill in phase dark" in says, says
    found = findings(there.out)
    assert code == 0 or found["outcome"] == "inconclusive", output  # a busy machine may send late
    assert found["clean"] is True and [fault["proven"] for fault in found["faults"]] == [True]
    assert there.as_before() and len(list(there.out.iterdir())) == 1
    agreed = json.loads((run_folder(there.out) / "plan.json").read_text())
    assert f"`{agreed['hash']}`" in page, "the run is the one that the page was about"


def test_what_the_file_does_not_allow_is_refused_before_anything_is_changed(there: There):
    there.write("rung: node\nuntil: 2099-01-01\n")
    code, output = begun(there, experiment(there, "held", CALM + HELD % "3s" + OVER)).end()
    assert code == 4 and "zone is needed, and the file allows node" in output and "Traceback" not in output, output
    assert there.as_before() and not there.out.exists()
    code, output = begun(there, experiment(there, "killed", KILL + OVER)).end()
    assert code == 4 and "none of the experiments that are selected (1) can run there" in output, output
    assert there.as_before() and not there.out.exists()


def test_after_a_run_that_left_something_no_other_begins(there: There):
    first = experiment(there, "first", CALM + HELD % "5m" + OVER)
    second = experiment(there, "second", CALM)
    running = begun(there, first, second)
    await_event(running, there.out, in_effect)
    assert administer(there.lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: "primaries"}})[0] == 200
    try:
        code, output = running.end(180)
        how, says = cases(there)["second", "acknowledged.lost = 0"]
        assert code == 1 and how == "error" and "second is not run: before it first ended dirty" in says, output
        assert findings(there.out)["clean"] is False and len(list(there.out.iterdir())) == 1
    finally:
        administer(there.lab, "PUT", "/_cluster/settings", {"persistent": {ALLOCATION: None}})
        assert cli("recover")[0] == 0
    assert there.as_before()
