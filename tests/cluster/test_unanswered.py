"""A cluster of others behind a proxy that holds a request: what nobody has answered is not called undone. And what has
the names of a run without being its own stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster.test_on_existing import ALLOCATION, CALLED, HELD, There, taken_for_theirs
from clusterkit import cli, findings, keepers_of, recovered_elsewhere

from chaos.opensearch.administration import create_index, delete_index
from chaos.opensearch.views import administer
from chaos.run import on_target
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full


@pytest.fixture
def there(tiny: LocalLab, tmp_path: Path) -> Iterator[There]:
    with taken_for_theirs(tiny, tmp_path, CALLED) as made:
        yield made


def allocation(there: There) -> str | None:
    answer = administer(there.lab, "GET", "/_cluster/settings?flat_settings=true")[1]
    return answer["persistent"].get(ALLOCATION)


def noted(there: There) -> list[str]:
    administer(there.lab, "POST", "/.opensearch-chaos/_refresh")
    answer = administer(there.lab, "GET", "/.opensearch-chaos/_search")[1]
    return sorted(each["_id"] for each in answer["hits"]["hits"])


def test_a_held_change_is_looked_for_until_it_has_come(there: There, tmp_path: Path) -> None:
    there.doors.gate.begins = b"PUT /_cluster/settings"
    running = there.begin("  healthy: {for: 2s}\n" + HELD % "5m")
    assert wait_until(lambda: bool(there.doors.gate.held), 120)
    for child in keepers_of(running.process.pid):
        child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    code, output = recovered_elsewhere(there.file, tmp_path)
    assert code != 0 and "no answer to it was seen" in output and "nothing is left behind" not in output, output
    left = noted(there)
    assert "run" in left and len(left) == 2, left
    assert allocation(there) is None
    there.doors.gate.free.set()
    assert wait_until(lambda: allocation(there) == "none", 30)
    code, output = recovered_elsewhere(there.file, tmp_path)
    assert code == 0 and "undone of run" in output, output
    assert allocation(there) is None and there.as_before()
    code, output = cli("recover")
    assert code == 0, output
    assert recovered_elsewhere(there.file, tmp_path) == (0, "nothing is left behind\n")


def test_an_index_of_theirs_that_has_the_name_of_ours_stays(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is known beforehand here alone: the run's process is told it by a file that names it."""
    create_index(there.lab, "oschaos-c0de-load", {"number_of_shards": 1, "number_of_replicas": 0})
    try:
        for number in range(5):
            body = {"theirs": number}
            assert administer(there.lab, "PUT", f"/oschaos-c0de-load/_doc/{number}?refresh=true", body)[0] == 201
        before = there.theirs()
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "data" / "named"))
        code, output = there.run("  healthy: {for: 2s}\n")
        assert code == 6, output
        assert "there is an index oschaos-c0de-load already" in output, output
        found = findings(there.out)
        assert found["clean"] is False
        assert administer(there.lab, "GET", "/oschaos-c0de-load/_count")[1]["count"] == 5
        assert there.theirs() == before
        assert cli("recover")[0] == 0
    finally:
        delete_index(there.lab, "oschaos-c0de-load")


def test_a_template_that_catches_one_run_in_sixteen_is_named(there: There) -> None:
    body = {"index_patterns": ["oschaos-c*"], "template": {"settings": {"number_of_replicas": 0}}}
    assert administer(there.lab, "PUT", "/_index_template/theirs", body)[0] == 200
    try:
        code, output = there.run("  healthy: {for: 2s}\n")
        assert code == 2 and "a template of yours would catch oschaos-*: theirs" in output, output
        assert not there.out.exists() and on_target.DIGIT not in output
    finally:
        administer(there.lab, "DELETE", "/_index_template/theirs")
