"""Requests whose answer was never seen: they may still arrive, so what was written down of them stays."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from documents import INDEX, WithDocuments
from fakes import a_fault

import chaos.registry  # noqa: F401 - it knows every move
from chaos.base.errors import FaultError, LabError, Unanswered
from chaos.base.paths import ProcessIdentity
from chaos.definitions.actions import Decommission, IndexClose, IndexCreate, IndexOpen, Recommission
from chaos.faults import fault as faults
from chaos.faults.actions import perform
from chaos.faults.ledger import Ledger, standing
from chaos.faults.lifecycle import MAY_ARRIVE, Lifecycle, on_its_way, undo_entries
from chaos.faults.moves import SIGNED_SECONDS, Move, Reversible
from chaos.opensearch.views import administer
from chaos.providers import hooks
from chaos.run import calling, commanding, recovering_on
from chaos.run.noted import NotedLedger, Notes, opening, settle_open

KEY = "cluster.routing.allocation.enable"


class Holding(WithDocuments):
    """A cluster of others, with a proxy before it. ``holds``: which requests it holds; ``gives_up``: with which status
    it answers them meanwhile, None: not at all."""

    asks = True

    def __init__(self) -> None:
        super().__init__()
        self.holds: Callable[[str, str], bool] = lambda method, path: False
        self.gives_up: int | None = None
        self.held: list[tuple[str, str, str, Any]] = []

    def answer(self, node: str, method: str, path: str, body: Any) -> tuple[int, Any]:
        if not self.holds(method, path):
            return super().answer(node, method, path, body)
        self.held.append((node, method, path, body))
        if self.gives_up is not None:
            return self.gives_up, "<html>Gateway Time-out</html>"
        raise urllib3.exceptions.ReadTimeoutError(None, path, "no answer")  # type: ignore[arg-type]

    def let_go(self) -> None:
        """What was held arrives."""
        self.holds, held, self.held = (lambda method, path: False), self.held, []
        for each in held:
            super().answer(*each)


def changed(value: str = "none") -> Reversible:
    made = {"index": None, "settings": {KEY: value}}
    back = {"index": None, "changed": {KEY: value}, "before": {KEY: None}}
    return Reversible(Move("settings.change", made), Move("settings.restore", back))


def puts(method: str, path: str) -> bool:
    return method in ("PUT", "POST") and path.startswith("/_cluster/settings")


@pytest.fixture
def cluster() -> Holding:
    return Holding()


def opened(cluster: Holding, folder: Path) -> NotedLedger:
    ledger = NotedLedger(folder / "ledger.jsonl", lambda says: None, "run-1")
    notes = Notes(cluster, INDEX)  # type: ignore[arg-type]
    both = opening(notes, "run-1")
    entries = ledger.intend("notes", [both])
    both.move.apply(cluster)  # type: ignore[arg-type]
    ledger.answered(entries)
    ledger.notes = notes
    return ledger


def recover_on(cluster: Holding, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[str], list[str]]:
    target = SimpleNamespace(written=SimpleNamespace(notes=INDEX), file="staging.yaml")
    cluster.fis = None  # type: ignore[attr-defined]
    for name, value in {
        "load_existing": lambda file: target,
        "refuse_another": lambda target: None,
        "cluster_of": lambda target: cluster,
        "LOOKED_SECONDS": 0.0,
        "WATCHED_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(recovering_on, name, value)
    told: list[str] = []
    count, problems = recovering_on.recover_on(Path("staging.yaml"), told.append)
    return count, problems, told


def test_a_held_change_keeps_its_note_until_it_has_come_and_was_undone(
    cluster: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runner and keeper are killed while a proxy holds the PUT. As found, the note was forgotten; the PUT stayed."""
    ledger = opened(cluster, tmp_path)
    cluster.holds = puts
    (entry,) = ledger.intend("f1", [changed()])
    with pytest.raises(Unanswered):
        entry.move.apply(cluster)  # type: ignore[arg-type]
    # here both die
    count, problems, told = recover_on(cluster, monkeypatch)
    assert count == 0 and len(problems) == 1
    assert MAY_ARRIVE in problems[0] and "note run-1-1 in .opensearch-chaos" in problems[0]
    assert cluster.noted == {"run", "run-1-1"}
    assert any("once you know that nothing holds it: DELETE /.opensearch-chaos/_doc/NOTE" in line for line in told)
    cluster.let_go()
    assert cluster.persistent == {KEY: "none"}
    count, problems, told = recover_on(cluster, monkeypatch)
    assert (count, problems, cluster.persistent, cluster.noted) == (1, [], {}, set())


def test_the_keeper_looks_again_and_forgets_no_note_before(cluster: Holding, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.holds = puts
    (entry,) = ledger.intend("f1", [changed()])
    with pytest.raises(Unanswered):
        entry.move.apply(cluster)  # type: ignore[arg-type]
    for _ in range(2):
        book = Ledger(ledger.path)
        (failure,) = undo_entries(cluster, book, standing(ledger.path))  # type: ignore[arg-type]
        book.close()
        assert MAY_ARRIVE in failure and {each.fault for each in standing(ledger.path)} == {"notes", "f1"}
        assert cluster.noted == {"run", "run-1-1"}
    cluster.let_go()
    book = Ledger(ledger.path)
    assert undo_entries(cluster, book, standing(ledger.path)) == []  # type: ignore[arg-type]
    assert cluster.persistent == {} and standing(ledger.path) == [] and cluster.noted == set()


def test_an_index_whose_making_is_held_stays_open_while_theirs_has_its_name(
    cluster: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attack of ours: theirs takes the name, is left alone, and goes; only then our own request lands."""
    ledger = opened(cluster, tmp_path)
    cluster.holds = lambda method, path: (method, path) == ("PUT", "/oschaos-1-load")
    made = {"index": "oschaos-1-load", "owner": "ours"}
    both = Reversible(Move("index.create", {**made, "settings": {}}), Move("index.delete", made))
    (entry,) = ledger.intend("index", [both])
    with pytest.raises(Unanswered):
        entry.move.apply(cluster)  # type: ignore[arg-type]
    cluster.put_index("oschaos-1-load", {"settings": {}})
    (failure,) = undo_entries(cluster, ledger, ledger.standing())  # type: ignore[arg-type]
    assert "not the one that this run made" in failure and MAY_ARRIVE in failure
    count, problems, _ = recover_on(cluster, monkeypatch)
    assert count == 0 and len(problems) == 1 and "run-1-1" in cluster.documents
    assert "oschaos-1-load" in cluster.indices  # theirs
    del cluster.indices["oschaos-1-load"]
    cluster.let_go()
    assert "oschaos-1-load" in cluster.indices  # ours
    assert recover_on(cluster, monkeypatch)[:2] == (1, [])
    assert "oschaos-1-load" not in cluster.indices and cluster.noted == set()


def test_what_was_settled_on_another_machine_is_settled_here(
    cluster: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.holds = puts
    (entry,) = ledger.intend("f1", [changed()])
    with pytest.raises(Unanswered):
        entry.move.apply(cluster)  # type: ignore[arg-type]
    ledger.close()
    cluster.let_go()
    book = Ledger(ledger.path)
    settle_open(cluster, book)  # type: ignore[arg-type]
    assert book.is_open(entry)  # its note is there
    assert recover_on(cluster, monkeypatch)[:2] == (1, [])
    assert undo_entries(cluster, book, standing(ledger.path)) != []  # type: ignore[arg-type]
    settle_open(cluster, book)  # type: ignore[arg-type]
    assert not book.is_open(entry)
    assert undo_entries(cluster, book, standing(ledger.path)) == []  # type: ignore[arg-type]


def test_what_was_answered_is_closed_at_once_and_its_note_says_so(
    cluster: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has put the value back before us: nothing is left to undo, and nothing can come any more."""
    ledger = opened(cluster, tmp_path)
    lifecycle = Lifecycle(cluster, ledger, SimpleNamespace(write=lambda *_, **__: 0))  # type: ignore[arg-type]
    assert lifecycle.inject(a_fault("f1", [changed()]))
    ledger.settle()
    assert cluster.documents["run-1-1"]["answered"] is True
    cluster.persistent.clear()
    _, problems, _ = recover_on(cluster, monkeypatch)
    assert problems == [] and cluster.noted == set()


def test_a_refused_change_is_an_answer(cluster: Holding, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.refused = {KEY}
    lifecycle = Lifecycle(cluster, ledger, SimpleNamespace(write=lambda *_, **__: 0))  # type: ignore[arg-type]
    with pytest.raises(FaultError, match="does not take"):
        lifecycle.inject(a_fault("f1", [changed()]))
    assert [each.fault for each in standing(ledger.path)] == ["notes"]


def test_a_gateway_that_gives_up_says_nothing_of_what_it_holds(cluster: Holding, tmp_path: Path) -> None:
    """An attack of ours: the runner lives, and is answered 504; the change lands after it has looked for it."""
    ledger = opened(cluster, tmp_path)
    cluster.holds, cluster.gives_up = puts, 504
    lifecycle = Lifecycle(cluster, ledger, SimpleNamespace(write=lambda *_, **__: 0))  # type: ignore[arg-type]
    with pytest.raises(FaultError, match="answered 504"):
        lifecycle.inject(a_fault("f1", [changed()]))
    assert {each.fault for each in standing(ledger.path)} == {"notes", "f1"}
    cluster.let_go()
    assert cluster.persistent == {KEY: "none"}
    assert undo_entries(cluster, ledger, ledger.standing()) == []  # type: ignore[arg-type]
    assert cluster.persistent == {} and ledger.standing() == []


@pytest.mark.parametrize("status", [502, 503, 504])
def test_what_a_gateway_answers_is_no_answer_to_a_change(cluster: Holding, status: int) -> None:
    cluster.holds, cluster.gives_up = (lambda method, path: path.startswith("/_cluster/settings")), status
    with pytest.raises(Unanswered):
        administer(cluster, "PUT", "/_cluster/settings", {})  # type: ignore[arg-type]
    assert administer(cluster, "GET", "/_cluster/settings")[0] == status  # type: ignore[arg-type]


def test_a_fault_that_comes_and_goes_is_open_until_its_last_time_is_over(cluster: Holding, tmp_path: Path) -> None:
    """An attack of ours: the first time is answered, and the runner dies while a later one is on its way."""
    ledger = opened(cluster, tmp_path)
    lifecycle = Lifecycle(cluster, ledger, SimpleNamespace(write=lambda *_, **__: 0))  # type: ignore[arg-type]
    flapping = a_fault("f1", [changed()])
    flapping = faults.Fault(**{**flapping.__dict__, "pulse": faults.Pulse(30.0, 30.0)})
    assert lifecycle.inject(flapping)
    (entry,) = [each for each in ledger.standing() if each.fault == "f1"]
    assert ledger.is_open(entry) and not entry.answered
    assert lifecycle.undo_all(look=False)
    assert [each.fault for each in ledger.standing()] == ["notes"]


def test_a_fault_that_comes_and_goes_and_is_refused_is_not_open(cluster: Holding, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.refused = {KEY}
    lifecycle = Lifecycle(cluster, ledger, SimpleNamespace(write=lambda *_, **__: 0))  # type: ignore[arg-type]
    flapping = faults.Fault(**{**a_fault("f1", [changed()]).__dict__, "pulse": faults.Pulse(30.0, 30.0)})
    with pytest.raises(FaultError, match="does not take"):
        lifecycle.inject(flapping)
    assert [each.fault for each in ledger.standing()] == ["notes"]


def test_what_was_never_sent_is_not_looked_for(cluster: Holding, tmp_path: Path) -> None:
    ledger, over = opened(cluster, tmp_path), threading.Event()
    lifecycle = Lifecycle(
        cluster,  # type: ignore[arg-type]
        ledger,
        SimpleNamespace(write=lambda *_, **__: 0),  # type: ignore[arg-type]
        stopped=over.is_set,
    )
    prepared = lifecycle.prepare(a_fault("f1", [changed()]))
    over.set()
    assert not lifecycle.make(prepared)
    assert undo_entries(cluster, ledger, ledger.standing()) == []  # type: ignore[arg-type]


def moving(cluster: Holding, ledger: NotedLedger, action: Any) -> bool:
    log: Any = SimpleNamespace(write=lambda *_, **__: 0)
    return perform("a1", action, cluster, ledger, log)  # type: ignore[arg-type]


def open_moves(ledger: NotedLedger) -> list[str]:
    return [each.move.operation for each in standing(ledger.path) if each.fault != "notes"]


ENDED: dict[str, tuple[Any, Any, str, Callable[[Holding], None]]] = {
    "a zone": (
        Decommission(zone="c"),
        Recommission(zone="c"),
        "zone.decommission",
        lambda cluster: cluster.decommissioned.update(c="SUCCESSFUL"),
    ),
    "an index": (IndexClose(index="archive"), IndexOpen(index="archive"), "index.close", lambda cluster: None),
}


@pytest.mark.parametrize("what", ENDED)
def test_an_action_that_ends_one_without_an_answer_leaves_it_open_until_it_has_come_and_was_undone(
    cluster: Holding, tmp_path: Path, what: str
) -> None:
    """An attack of ours: a proxy holds the change, its end finds nothing, and the change lands afterwards."""
    ledger = opened(cluster, tmp_path)
    assert moving(cluster, ledger, IndexCreate(index="archive"))
    first, end, operation, lands = ENDED[what]
    cluster.holds = lambda method, path: method != "GET" and ("decommission" in path or path.startswith("/archive/"))
    assert not moving(cluster, ledger, first)
    held, cluster.holds = cluster.held, lambda method, path: False
    assert moving(cluster, ledger, end)  # by another way than the proxy's
    assert open_moves(ledger) == [operation, "index.create"]
    cluster.held = held
    cluster.let_go()
    lands(cluster)
    assert cluster.decommissioned or cluster.closed == {"archive"}
    problems = undo_entries(cluster, ledger, ledger.standing())  # type: ignore[arg-type]
    assert not cluster.decommissioned and "archive" not in cluster.indices
    if what == "a zone":  # its end says that it found it, so nothing of it can come any more
        assert problems == [] and open_moves(ledger) == []


def test_an_action_that_finds_what_an_earlier_one_made_ends_it_though_that_was_not_answered(
    cluster: Holding, tmp_path: Path
) -> None:
    ledger = opened(cluster, tmp_path)
    cluster.holds = lambda method, path: method == "PUT" and "decommission" in path
    assert not moving(cluster, ledger, Decommission(zone="c"))
    cluster.let_go()
    cluster.decommissioned = {"c": "SUCCESSFUL"}
    assert open_moves(ledger) == ["zone.decommission"]
    assert moving(cluster, ledger, Recommission(zone="c"))
    assert open_moves(ledger) == [] and not cluster.decommissioned


def entry_of(tmp_path: Path, move: Move, inverse: Move) -> Any:
    (entry,) = Ledger(tmp_path / "ledger.jsonl").intend("f1", [Reversible(move, inverse)])
    return entry


def test_every_provider_says_how_long_a_request_may_be_on_its_way(cluster: Holding, tmp_path: Path) -> None:
    cluster.hook = lambda kind: SimpleNamespace(within=10.0, ttl=60.0)  # type: ignore[attr-defined]
    hook = {"run": "r", "id": "f1", "kind": "node.kill", "nodes": [], "links": [], "parameters": {}}
    host = {"node": "a-data", "run": "r", "id": "f1-0"}
    fis = {"host": "AWS FIS, f1", "run": "r", "id": "f1"}
    domain = {"host": "AWS", "node": "b-data", "id": "x", "before": []}
    toxic = {"host": "t", "proxy": "p", "toxic": "oschaos-f1"}
    ours = commanding.ending(commanding.Session(ProcessIdentity.me(), "t"), ["sleep"])
    expected = [
        (changed().move, None),
        (Move("zone.weights", {"zones": {}}), None),
        (Move("zone.decommission", {"zone": "c"}), None),
        (Move("votes.exclude", {"nodes": []}), None),
        (Move("index.create", {"index": "i", "settings": {}}), None),
        (Move("toxic.add", {**toxic, "kind": "latency", "stream": "upstream", "attributes": {}}), None),
        (Move("proxy.disable", {"host": "t", "proxy": "p"}), None),
        (Move("theirs.of.a.package", {}), None),
        (Move("hook.inject", hook), 70.0),
        (Move("fis.template", {**fis, "template": {}}), SIGNED_SECONDS),
        (Move("fis.start", {**fis, "expected": {}}), SIGNED_SECONDS),
        (Move("domain.maintain", domain), SIGNED_SECONDS),
        (Move("host.begin", {**host, "token": 1, "intent": "node.kill", "asked": {}}), 0.0),
        (ours.move, 0.0),
        (Move("nothing"), 0.0),
    ]
    assert [(each, each.late(cluster)) for each, _ in expected] == expected  # type: ignore[arg-type]
    cluster.asks = False  # a lab: all ways are ours
    assert {each.late(cluster) for each, _ in expected} == {0.0}  # type: ignore[arg-type]


def test_a_call_of_theirs_is_over_where_it_was_made_and_for_a_while_not_seen_from_elsewhere(
    cluster: Holding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"run": "run-1", "id": "f1", "kind": "node.kill", "nodes": [], "links": [], "parameters": {}}
    cluster.hook = lambda kind: SimpleNamespace(within=10.0, ttl=60.0)  # type: ignore[attr-defined]
    cluster.folder = tmp_path  # type: ignore[attr-defined]
    monkeypatch.setattr(hooks, "asked", lambda *_, **__: calling.Called(0, "done"))
    entry = entry_of(tmp_path, Move("hook.inject", given), Move("hook.undo", given))
    for runs, says in (([], "it may still arrive for"), (["run-1"], None)):
        monkeypatch.setattr(hooks, "registrations", lambda runs=runs: [SimpleNamespace(run=run) for run in runs])
        why = on_its_way(cluster, entry, entry.inverse.apply(cluster))  # type: ignore[arg-type]
        assert why is None if says is None else says in (why or "")


def test_a_bound_that_is_over_closes_what_was_not_seen(cluster: Holding, tmp_path: Path) -> None:
    fis = {"host": "AWS FIS, f1", "run": "r", "id": "f1"}
    entry = entry_of(tmp_path, Move("fis.start", {**fis, "expected": {}}), Move("fis.end", {**fis, "snapshot": {}}))
    assert "it may still arrive for" in (on_its_way(cluster, entry, None) or "")  # type: ignore[arg-type]
    old = type(entry)(entry.number, entry.fault, entry.move, entry.inverse, False, entry.at - SIGNED_SECONDS)
    assert on_its_way(cluster, old, None) is None  # type: ignore[arg-type]
    assert on_its_way(cluster, entry, True) is None  # type: ignore[arg-type]


def test_ledgers_and_notes_of_before_count_as_answered(cluster: Holding, tmp_path: Path) -> None:
    ledger = opened(cluster, tmp_path)
    ledger.intend("f1", [changed()])
    rows = [json.loads(line) for line in ledger.path.read_text().splitlines()]
    old = tmp_path / "old.jsonl"
    old.write_text("".join(json.dumps({k: v for k, v in row.items() if k != "answered"}) + "\n" for row in rows))
    assert [each.answered for each in standing(ledger.path) if each.fault == "f1"] == [False]
    assert all(each.answered for each in standing(old))
    for said in cluster.documents.values():
        said.pop("answered", None)
    (noted,) = Notes(cluster, INDEX).standing()["run-1"]  # type: ignore[arg-type]
    assert noted.answered


def test_a_change_that_reached_nobody_is_not_open(cluster: Holding) -> None:
    class Nobody:
        def request(self, *_: Any, **__: Any) -> Any:
            raise urllib3.exceptions.NewConnectionError(None, "refused")  # type: ignore[arg-type]

        def close(self) -> None: ...

    cluster.client = lambda node, timeout=5.0: Nobody()  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(LabError) as caught:
        administer(cluster, "PUT", "/_cluster/settings", {}, through="a-cm")  # type: ignore[arg-type]
    assert not isinstance(caught.value, Unanswered)
