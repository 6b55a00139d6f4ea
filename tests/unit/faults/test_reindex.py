"""The load's index copied to one with other settings: what is asked of a cluster, what must hold, what is undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fakes import Log

from chaos.base.errors import InvalidInput, LabError
from chaos.definitions import Experiment
from chaos.definitions.actions import Reindex
from chaos.faults.actions import perform
from chaos.faults.ledger import Ledger, standing
from chaos.opensearch import reindexing
from chaos.opensearch.requests import OWNER, reindex_tasks
from chaos.registry import GRAMMAR, load_experiment
from chaos.run import plan

COPY = "chaos-converted"
HEAD = """apiVersion: opensearch-chaos/v1
name: copied
topology: 3az
load: {documents: 500, read: {rate: 10/s, good: ok within 1s}}
expect: [{phase: all, read.good: ">= 99%"}]
phases:
"""
COPIED = "  p: {for: 5s, do: {reindex: {settings: {replication.type: SEGMENT}}}}\n"


class Copying(FakeCluster):
    """Has documents. ``meanwhile``: so many are written while they are copied; ``lost``: so many the copy lacks.
    ``tasks``: that copy into an index, and how often they must be cancelled until they are gone."""

    def __init__(self) -> None:
        super().__init__("3az")
        self.documents = {"chaos": 500}
        self.meanwhile, self.lost = 0, 0
        self.failures: list[Any] = []
        self.tasks: dict[str, int] = {}
        self.bodies: dict[str, Any] = {}
        self.refreshed: list[str] = []

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        name = path.partition("?")[0]
        if method == "GET" and path == "/chaos?flat_settings=true":
            given = {"index.uuid": "u", "index.creation_date": "1", "index.version.created": "2", "index.codec": "x"}
            settings = self.indices["chaos"] | given | {"index.provided_name": "chaos"}
            return 200, {"chaos": {"settings": settings, "mappings": {"_meta": {OWNER: "run"}, "properties": {}}}}
        if name.endswith("/_refresh"):
            self.refreshed.append(name.split("/")[1])
            return 200, {}
        if name.endswith("/_count"):
            assert path.endswith("preference=_primary") and name.split("/")[1] == self.refreshed[-1]
            self.refreshed.append("counted")
            return 200, {"count": self.documents[name.split("/")[1]]}
        if name == "/_reindex":
            assert self.refreshed[-2:] == ["counted", "chaos"], "all copies show what was counted"
            self.bodies[name] = body
            self.documents[COPY] = self.documents["chaos"] - self.lost
            self.documents["chaos"] += self.meanwhile
            return 200, {"failures": self.failures, "total": 500, "created": self.documents[COPY]}
        if name == "/_tasks":
            tasks = {
                task: {"description": f"reindex from [chaos] to [{COPY}]"} for task, left in self.tasks.items() if left
            }
            return 200, {"nodes": {"n": {"tasks": {**tasks, "n:9": {"description": "reindex from [a] to [b]"}}}}}
        if name.endswith("/_cancel"):
            self.tasks[name.split("/")[2]] -= 1
            return 200, {}
        return super().answer(node, method, path, body)


@pytest.fixture
def lab() -> Any:
    return Copying()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.jsonl")


def reindex(**settings: Any) -> Reindex:
    return Reindex.model_validate({"settings": settings or {"replication.type": "SEGMENT"}})


def done(lab: Any, ledger: Ledger, action: Reindex) -> tuple[bool, str]:
    log: Any = Log()
    well = perform("a1", action, lab, ledger, log, "chaos")
    (event,) = log.of("action.done")
    assert event["ok"] is well
    return well, event["says"]


def test_a_copy_is_made_with_other_settings_and_says_what_it_lacks(lab: Any, ledger: Ledger) -> None:
    lab.meanwhile = 40
    assert done(lab, ledger, reindex()) == (
        True,
        "copy the load's index to one with replication.type SEGMENT: chaos-converted has 500 documents; 40 that were "
        "written meanwhile are in chaos alone",
    )
    made = lab.indices[COPY]
    assert made == {"index.number_of_replicas": "2", "index.codec": "x", "index.replication.type": "SEGMENT"}
    assert lab.bodies["/_reindex"] == {"source": {"index": "chaos"}, "dest": {"index": COPY}}
    (stands,) = standing(ledger.path)
    assert stands.inverse is not None and stands.inverse.operation == "index.forget"
    assert lab.marks[COPY]["meta"][OWNER] == stands.inverse.arguments["owner"] != "run"
    assert stands.inverse.apply(lab) is True and COPY not in lab.indices and "chaos" in lab.indices
    assert stands.inverse.apply(lab) is False, "once more is fine"


def test_where_nothing_was_written_meanwhile_that_is_said(lab: Any, ledger: Ledger) -> None:
    assert done(lab, ledger, reindex())[1].endswith("chaos-converted has 500 documents; none was written meanwhile")


def test_a_copy_that_lacks_what_was_there_before_is_no_copy(lab: Any, ledger: Ledger) -> None:
    lab.lost = 3
    assert done(lab, ledger, reindex()) == (False, "of 500 documents of chaos 497 were copied to chaos-converted")
    lab.indices.pop(COPY)
    lab.lost, lab.failures = 0, [{"cause": "rejected"}]
    well, says = done(lab, ledger, reindex())
    assert not well and "the first failure is {'cause': 'rejected'}" in says
    assert {each.move.operation for each in standing(ledger.path)} == {"index.convert"}, "it can be taken away"


def test_what_still_copies_is_ended_before_the_copy_is_deleted(lab: Any, ledger: Ledger) -> None:
    """Else its next write would make the index anew, with defaults."""
    done(lab, ledger, reindex())
    (stands,) = standing(ledger.path)
    assert stands.inverse is not None
    lab.tasks = {"n:7": 2}
    assert stands.inverse.apply(lab) is True
    asked = [path.partition("?")[0] for _, method, path in lab.requests if method in ("POST", "DELETE")]
    assert asked[-1] == f"/{COPY}"
    assert lab.tasks == {"n:7": 0}


def test_what_cannot_be_ended_keeps_the_copy(lab: Any, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reindexing, "CANCELLED_SECONDS", 0.0)
    done(lab, ledger, reindex())
    (stands,) = standing(ledger.path)
    lab.tasks = {"n:7": 1000}
    assert stands.inverse is not None
    with pytest.raises(LabError, match="goes on after it was cancelled: task n:7"):
        stands.inverse.apply(lab)
    assert COPY in lab.indices


def test_an_index_of_others_under_that_name_is_left_alone(lab: Any, ledger: Ledger) -> None:
    lab.indices[COPY] = {}
    well, says = done(lab, ledger, reindex())
    assert not well and "this run did not make it" in says and lab.indices[COPY] == {}


def test_only_the_request_itself_is_cancelled_and_not_its_parts() -> None:
    said = {"description": "reindex from [a] to [b]"}
    answer = {"nodes": {"n": {"tasks": {"n:1": said, "n:2": {**said, "parent_task_id": "n:1"}}}}}
    assert reindex_tasks(answer, "b") == ["n:1"] and reindex_tasks(answer, "a") == [] == reindex_tasks({}, "b")


# -- as a file has it ----------------------------------------------------------------------------------


def loaded(folder: Path, text: str) -> Experiment:
    (folder / "x.yaml").write_text(text)
    return load_experiment(folder / "x.yaml")


def test_it_is_read_written_back_and_planned(tmp_path: Path) -> None:
    experiment = loaded(tmp_path, HEAD + COPIED)
    (action,) = experiment.phases[0].do
    assert isinstance(action, Reindex) and float(action.within) == 180
    assert GRAMMAR.experiment(experiment.to_json()) == experiment
    assert plan._inverse(action) == "what still copies is ended, and the copy deleted"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "  p: {for: 5s, do: {reindex: {settings: {}}}}\n", "settings: expected at least 1"),
        (HEAD + COPIED + COPIED.replace("  p:", "  q:"), "was copied before, under the same name"),
        (HEAD.replace("{documents", "{alias: true, documents") + COPIED, "is several indices"),
        (HEAD + COPIED.replace("replication.type: SEGMENT", "number_of_replicas: 9"), "makes 10 copies of a shard"),
        (HEAD + COPIED.replace("SEGMENT}", "SEGMENT}, within: 0s"), "within"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        loaded(tmp_path, text)


def test_the_page_says_how_much_the_copy_lacks_or_why_there_is_none() -> None:
    from chaos.report.timeline import _more

    said = reindex().describe()
    assert _more(said, f"{said}: 5 documents; 2 in chaos alone") == ": 5 documents; 2 in chaos alone"
    assert _more(said, "creating the index answered 500") == ": creating the index answered 500"
    assert _more(said, f"{said}: done") == _more(said, "") == "", "as it was of all other actions"
