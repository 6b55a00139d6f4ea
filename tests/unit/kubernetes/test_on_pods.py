"""Faults on pods: their moves and what undoes them, their evidence, and what refuses a run before it begins."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apiserver import IMAGE, SETS, Server
from fakes import ROOT, Shown
from podcluster import Cluster, written
from ruamel.yaml import YAML
from typer.testing import CliRunner

from chaos.base.errors import FaultError, Lacking
from chaos.cli import app
from chaos.commands.on_kubernetes import Where
from chaos.definitions.existing import Existing
from chaos.faults.fault import Fault, Grade
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.lifecycle import MAY_ARRIVE, on_its_way, undo_entries
from chaos.faults.moves import Move, Reversible
from chaos.kubernetes import rights
from chaos.kubernetes.seen import DRAINED, Seen
from chaos.providers.kubernetes import PROVIDER, Anew, Drained, Held
from chaos.registry import FAULTS, PROVIDERS, load_experiment, ready
from chaos.run import on_target, pods_of_others, reaching, recovering_on
from chaos.run import plan as run_plan
from chaos.run.on_target import OnTarget
from chaos.run.pods_of_others import OthersOnPods
from chaos.targets.existing import mapping
from chaos.targets.existing.compare import Sign
from chaos.targets.existing.pods import KEEPS, Changed
from chaos.targets.existing.seen import seen_of
from chaos.targets.existing.target import ExistingTarget

DATA, MANAGER = f"{SETS[1]}-1", f"{SETS[0]}-1"


@pytest.fixture
def lab(cluster: Cluster, where: Where, state: Path) -> ExistingTarget:
    target = written(where, state)
    needed = load_experiment(ROOT / "experiments" / "data-node-kill.yaml").topology
    made = ExistingTarget(target, mapping.mapped(needed, target.written, seen_of(target)).topology)
    made.run = "20261128T220000Z-x-1a2b"
    return made


def fault(lab: ExistingTarget, kind: str, **given: Any) -> Fault:
    params = FAULTS[kind].model_validate({"target": "node b-data", **given})
    return ready("f1", params, lab, seed=1, elected=None)


def pod(server: Server, name: str = DATA) -> tuple[str, str]:
    found = server.pods[name]
    return found["metadata"]["uid"], found["spec"]["containers"][0]["image"]


def moves(lab: ExistingTarget, made: Fault) -> list[tuple[Move, Move]]:
    assert made.read is not None
    found = []
    for both in made.read(lab):
        assert both.inverse is not None
        found.append((both.move, both.inverse))
    return found


def test_each_kind_has_its_rights_and_what_it_asks_of_data() -> None:
    of_helpers = {"node.isolation", "node.out_of_memory"}  # of a pod that must be there and well
    mine = {*PROVIDER.offers, *of_helpers}
    assert set(KEEPS) == mine == {each.split()[0] for each in rights.OF_KINDS} - {rights.HELPER}
    assert PROVIDER.grade is Grade.EFFECT, "the API server repeats what a kubelet reports"


def test_a_plan_names_whom_it_hits_and_asks_nobody(lab: ExistingTarget, there: Server) -> None:
    asked = len(there.asked)
    made = fault(lab, "node.stop")
    (both,) = made.moves
    assert made.provider == "kubernetes" and made.targets == (DATA,)
    assert both.move.arguments["node"] == DATA and both.move.arguments["uid"] == "(the run's)"
    assert len(there.asked) == asked


@pytest.mark.parametrize(
    ("kind", "node", "anew"),
    [
        ("node.stop", DATA, False),
        ("node.kill", DATA, True),
        ("node.stop", MANAGER, False),
        ("node.loss", MANAGER, True),
    ],
)
def test_a_node_is_held_down_and_comes_back(
    lab: ExistingTarget,
    there: Server,
    kind: str,
    node: str,
    anew: bool,
) -> None:
    before = pod(there, node)
    made = fault(lab, kind, target=f"node {'b-data' if node == DATA else 'b-cm'}")
    ((move, inverse),) = moves(lab, made)
    evidence = made.evidence()
    evidence._own = Shown(True)  # type: ignore[attr-defined]
    assert not evidence.in_effect(lab).proven, "nothing was done yet, whatever is seen"
    for _ in range(2):
        move.apply(lab)
        uid, image = pod(there, node)
        assert (uid != before[0]) is anew and image == move.arguments["mark"]
        lab.pods._last = None  # type: ignore[union-attr]
    assert evidence.in_effect(lab).proven and not evidence.gone(lab).proven
    assert inverse.apply(lab) is True and inverse.apply(lab) is False
    assert pod(there, node)[1] == IMAGE and there.pods[node]["status"]["conditions"][0]["status"] == "True"
    lab.pods._last = None  # type: ignore[union-attr]
    assert evidence.gone(lab).proven and not evidence.in_effect(lab).proven


def test_what_others_do_not_see_is_not_proven(lab: ExistingTarget) -> None:
    made = fault(lab, "node.stop")
    ((move, _),) = moves(lab, made)
    move.apply(lab)
    evidence = made.evidence()
    evidence._own = Shown(False)  # type: ignore[attr-defined]
    assert not evidence.in_effect(lab).proven


def test_a_pod_that_somebody_else_replaced_is_no_proof(lab: ExistingTarget, there: Server) -> None:
    made = fault(lab, "node.stop")
    ((move, inverse),) = moves(lab, made)
    move.apply(lab)
    there.gone(DATA)
    there.pods[DATA]["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    there.pods[DATA]["status"]["conditions"][0]["status"] = "False"
    evidence = made.evidence()
    evidence._own = Shown(True)  # type: ignore[attr-defined]
    look = evidence.in_effect(lab)
    assert not look.proven and "ContainerCreating" in look.says
    assert inverse.apply(lab) is False, "of ours nothing is there"


@pytest.mark.parametrize(
    ("kind", "target", "says"),
    [
        ("node.kill", "node b-cm", "comes back without its data, which is node.loss"),
        ("node.restart", "node b-cm", "comes back without its data"),
        ("node.loss", "node b-data", "its data would not be lost"),
    ],
)
def test_data_that_would_be_lost_or_kept_unasked_refuse_it(
    lab: ExistingTarget, kind: str, target: str, says: str
) -> None:
    made = fault(lab, kind, target=target)
    with pytest.raises(FaultError, match=says):
        moves(lab, made)


def test_a_pod_that_is_not_well_is_not_hit(lab: ExistingTarget, there: Server) -> None:
    made = fault(lab, "node.stop")
    there.pods[DATA]["status"]["conditions"][0]["status"] = "False"
    with pytest.raises(FaultError, match=r"is not well: .* not ready"):
        moves(lab, made)


@pytest.mark.parametrize("how", ["kill", "orderly"])
def test_a_restart_ends_the_pod_and_awaits_the_one_that_comes(lab: ExistingTarget, there: Server, how: str) -> None:
    before = pod(there)[0]
    made = fault(lab, "node.restart", how=how)
    (end, undo), (awaited, _), _ = moves(lab, made)
    evidence = made.evidence()
    evidence._own = Shown(True)  # type: ignore[attr-defined]
    assert isinstance(evidence, Anew) and not evidence.in_effect(lab).proven
    end.apply(lab)
    awaited.apply(lab)
    assert pod(there)[0] != before
    lab.pods._last = None  # type: ignore[union-attr]
    assert evidence.in_effect(lab).proven
    asked = [each for each in there.asked if each.startswith("DELETE") or "eviction" in each]
    with pytest.raises(Changed):
        end.apply(lab)  # of the pod that was meant: the new one stays
    assert len(asked) == 1 and pod(there)[0] not in (before, "")
    undo.apply(lab)


@pytest.mark.parametrize("kind", ["node.stop", "node.kill", "node.drain"])
def test_what_a_dead_run_may_have_sent_is_looked_for_no_longer_than_it_can_arrive(
    lab: ExistingTarget, there: Server, kind: str
) -> None:
    (move, inverse), *_ = drain(lab, there)[1] if kind == "node.drain" else moves(lab, fault(lab, kind))
    entry = Entry(1, "f1", move, inverse, answered=False, at=time.time())
    assert MAY_ARRIVE in str(on_its_way(lab, entry, inverse.apply(lab)))
    assert on_its_way(lab, replace(entry, at=time.time() - 300), False) is None
    move.apply(lab)
    assert on_its_way(lab, entry, inverse.apply(lab)) is None, "it has come, and was undone"


def test_a_restart_that_a_dead_run_began_is_over_once_its_pod_is_ready(lab: ExistingTarget, there: Server) -> None:
    for ends in (True, False):
        (move, inverse), *_ = moves(lab, fault(lab, "node.restart", how="kill"))
        if ends:
            move.apply(lab)
        entry = Entry(1, "f1", move, inverse, answered=False, at=time.time())
        assert on_its_way(lab, entry, inverse.apply(lab)) is None


def test_a_zone_that_loses_power_is_all_of_its_pods_at_once(lab: ExistingTarget, there: Server) -> None:
    for name in list(there.pods):
        if name.startswith(SETS[0]):
            there.pods[name]["spec"]["volumes"][0] = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    params = FAULTS["zone.power_loss"].model_validate({"zone": "b"})
    both = moves(lab, ready("f1", params, lab, seed=1, elected=None))
    assert {move.operation for move, _ in both} == {"pod.kill"}
    assert {move.arguments["node"] for move, _ in both} == {DATA, MANAGER}
    assert len({move.arguments["mark"] for move, _ in both}) == 2
    in_turn = FAULTS["zone.power_loss"].model_validate({"zone": "b", "return_order": ["data", "cm"]})
    with pytest.raises(Lacking, match="put back at once"):
        ready("f1", in_turn, lab, seed=1, elected=None)


def test_what_flaps_or_starts_in_turn_is_refused(lab: ExistingTarget) -> None:
    with pytest.raises(Lacking, match="nothing flaps"):
        fault(lab, "node.kill", flap={"down": "5s", "up": "30s"})
    with pytest.raises(Lacking, match="decides when each pod starts"):
        fault(lab, "node.restart", rolling=False, start="in_order", target="zone b")


# ---- before a run ------------------------------------------------------------------------------------------------


def experiment(lab: ExistingTarget, folder: Path, inject: str) -> Any:
    shutil.copy(ROOT / "experiments" / "data-node-kill.yaml", folder / "x.yaml")
    text = (folder / "x.yaml").read_text().replace("node.kill: {target: node b-data}", inject)
    kind = inject.partition(":")[0]
    text = text.replace("undo: node.kill, ", f"undo: {kind}, " if kind != "node.restart" else "")
    (folder / "x.yaml").write_text(text.replace("name: data-node-kill", "name: x"))
    return load_experiment(folder / "x.yaml").model_copy(update={"topology": lab.topology})


def refused(lab: ExistingTarget, folder: Path, inject: str) -> list[str]:
    offers = reaching.offers_on(PROVIDERS, lab.target.written)
    rows = on_target.refused_pods(lab, experiment(lab, folder, inject), 1, offers)
    assert all(row.sign is Sign.BLOCKS and row.remedy for row in rows)
    return [f"{row.what}: {row.says}" for row in rows]


STOP = "node.stop: {target: node b-data}"
ORDERLY = "node.restart: {target: node b-data, how: orderly}"


def test_a_run_that_lacks_a_right_is_refused_and_one_that_has_all_is_not(
    lab: ExistingTarget,
    there: Server,
    tmp_path: Path,
) -> None:
    assert refused(lab, tmp_path, STOP) == []
    there.denied.add(("patch", "pods"))
    (row,) = refused(lab, tmp_path, STOP)
    assert row.startswith("rights: not allowed: patch pods")
    assert refused(lab, tmp_path, ORDERLY) == []
    there.denied = {("create", "pods/eviction")}
    assert [row for row in refused(lab, tmp_path, ORDERLY) if "create pods/eviction" in row]


def test_a_budget_that_would_refuse_and_data_that_would_go_are_told_before(
    lab: ExistingTarget,
    there: Server,
    tmp_path: Path,
) -> None:
    there.budgets[f"{SETS[1]}-pdb"]["spec"]["maxUnavailable"] = 0
    (row,) = refused(lab, tmp_path, ORDERLY)
    assert row.startswith("budget: ") and "lets 0 of its pods go now" in row
    assert refused(lab, tmp_path, "node.restart: {target: node b-data, how: kill}") == []
    (row,) = refused(lab, tmp_path, "node.kill: {target: node b-cm}")
    assert "comes back without its data" in row
    assert len(refused(lab, tmp_path, "node.kill: {target: elected cluster manager}")) == 3, "any of them may be it"
    (row,) = refused(lab, tmp_path, "zone.power_loss: {zone: b}")
    assert f"pod {MANAGER} has no volume by a claim" in row


def test_a_budget_whose_status_is_not_of_its_spec_lets_no_pod_be_evicted(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    there.computed = {"observedGeneration": 1, "disruptionsAllowed": 3}
    (row,) = refused(lab, tmp_path, ORDERLY)
    assert row.startswith("budget: ") and f"how many of its pods {SETS[1]}-pdb lets go is not known" in row
    assert refused(lab, tmp_path, STOP) == []


@pytest.mark.parametrize(
    ("inject", "at_once"),
    [
        ("node.restart: {target: elected cluster manager, how: orderly, rolling: false}", None),
        ("node.restart: {target: one of role data, how: orderly, rolling: false}", None),
        ("node.drain: {target: elected cluster manager}", None),
        ("node.drain: {target: one of role data}", None),
        ("node.restart: {target: role data, how: orderly}", None),
        ("node.restart: {target: role data, how: orderly, rolling: false}", 3),
        ("node.drain: {target: role data}", 3),
    ],
)
def test_a_budget_is_asked_for_as_many_pods_as_are_evicted_at_once(
    lab: ExistingTarget, tmp_path: Path, inject: str, at_once: int | None
) -> None:
    """Of those of which one is drawn or elected that is one."""
    rows = [row for row in refused(lab, tmp_path, inject) if row.startswith("budget: ")]
    assert len(rows) == (at_once is not None) and all(f"{at_once} would be evicted at once" in row for row in rows)


def test_who_is_beside_the_one_node_that_is_drawn_must_have_agreed_and_nobody_else(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    there.lend("agent-1", "agents", "node-b", "StatefulSet")
    asked = experiment(lab, tmp_path, "node.drain: {target: one of role data}")
    offers = reaching.offers_on(PROVIDERS, lab.target.written)
    (each,) = run_plan.faults(asked)
    hit = {seed: run_plan.preview(each, asked, seed, lab.wiring, offers) for seed in range(6)}
    for seed, made in hit.items():
        assert made is not None
        says = [row.says for row in on_target.refused_pods(lab, asked, seed, offers)]
        assert any("namespace agents" in each for each in says) is (made.targets == (DATA,))
    assert {made.targets == (DATA,) for made in hit.values() if made is not None} == {True, False}


def test_a_pod_of_two_budgets_is_not_asked_to_leave(lab: ExistingTarget, there: Server, tmp_path: Path) -> None:
    both = {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "opensearch"}}}
    there.budgets["all-pdb"] = {"metadata": {"name": "all-pdb"}, "spec": both}
    (row,) = refused(lab, tmp_path, ORDERLY)
    assert row.startswith(f"budget: {SETS[1]}-pdb and all-pdb cover pod {DATA}")
    assert refused(lab, tmp_path, STOP) == []


def test_an_api_server_that_does_not_answer_refuses(lab: ExistingTarget, there: Server, tmp_path: Path) -> None:
    there.broken = lambda method, path: True
    (row,) = refused(lab, tmp_path, STOP)
    assert "no answer" in row


def test_the_policy_is_what_those_experiments_need(lab: ExistingTarget, tmp_path: Path) -> None:
    experiment(lab, tmp_path, STOP)
    done = CliRunner().invoke(app, ["kubernetes", "policy", str(tmp_path / "x.yaml"), "--on", lab.target.file])
    assert done.exit_code == 0, done.output
    kinds = [each["kind"] for each in YAML(typ="safe").load_all(done.stdout)]
    assert kinds == ["Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"]
    assert "patch" in done.stdout and "delete" not in done.stdout
    assert done.stdout.startswith(
        "# for the service account opensearch-chaos of namespace search "
        "(kubectl --namespace search create serviceaccount opensearch-chaos)\n"
    )


def test_the_policy_takes_names_of_shipped_experiments_and_says_which_user_it_is_for(
    lab: ExistingTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["kubernetes", "policy", "data-node-kill", "--on", str(lab.target.file), "--subject", "user:anna"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("# for the user anna\n") and "the one that comes with" in done.stderr
    (bound, _) = [each for each in YAML(typ="safe").load_all(done.stdout) if each["kind"].endswith("Binding")]
    assert bound["subjects"] == [{"kind": "User", "name": "anna", "apiGroup": "rbac.authorization.k8s.io"}]


# ---- meanwhile ---------------------------------------------------------------------------------------------------


class Intents:
    """The ledger of a run."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(folder / "ledger")
        self.intended = self.ledger.intended

    def begin(self, operation: str, arguments: dict[str, Any]) -> Entry:
        return self.ledger.intend("f1", [Reversible(Move(operation, arguments), Move("nothing", {}))])[0]


def gone(server: Server) -> None:
    server.gone(DATA)


def evicted(server: Server) -> None:
    conditions: list[dict[str, Any]] = server.pods[DATA]["status"]["conditions"]
    conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})


def ended(server: Server, at: str = "2026-11-29T16:00:00Z") -> None:
    over = {"terminated": {"reason": "Error", "exitCode": 143, "finishedAt": at}}
    server.pods[DATA]["status"]["containerStatuses"][0]["lastState"] = over


def test_what_the_run_hits_is_not_blamed_on_others(lab: ExistingTarget, there: Server, tmp_path: Path) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    ours.begin("pod.kill", {"node": DATA})
    there.gone(DATA)
    assert watch.look() is None
    there.gone(f"{SETS[1]}-2")
    told = watch.look()
    assert told is not None and f"pod {SETS[1]}-2 was replaced" in told


def test_other_moves_of_a_run_name_no_pods(lab: ExistingTarget, there: Server, tmp_path: Path) -> None:
    assert lab.pods is not None
    others = [Move("notes", {"nodes": 6}), Move("load", {}), Move("hook.inject", {"nodes": [DATA]})]
    entries = [(Entry(number, "f1", move, None), True) for number, move in enumerate(others)]
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), lambda: entries)
    assert watch.look() is None
    there.gone(DATA)
    assert watch.look() is None, "what the owners' programs do to a pod is not known"


def test_a_pod_with_a_helper_beside_it_is_watched_until_a_fault_hits_it(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    ours.begin("helpers.make", {"run": "r1", "nodes": [DATA]})
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    ended(there)
    told = watch.look()
    assert told is not None and f"the container of pod {DATA} ended" in told
    ours.begin("host.begin", {"node": DATA, "intent": "node.pause"})
    assert watch.look() is None


@pytest.mark.parametrize(
    ("operation", "given"),
    [
        ("host.begin", {"node": DATA, "intent": "node.pause"}),
        ("host.begin", {"node": DATA, "intent": "network.drop"}),
        ("votes.exclude", {"nodes": [DATA]}),
        ("helpers.make", {"run": "r1", "nodes": [DATA]}),
    ],
)
@pytest.mark.parametrize("change", [gone, evicted], ids=["replaced", "evicted"])
def test_what_leaves_a_pod_in_place_explains_neither_another_pod_nor_its_eviction(
    lab: ExistingTarget,
    there: Server,
    tmp_path: Path,
    operation: str,
    given: dict[str, Any],
    change: Callable[[Server], None],
) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    ours.begin(operation, given)
    assert watch.look() is None
    change(there)
    assert f"pod {DATA} " in str(watch.look())


def test_a_kubelet_that_evicts_a_pod_whose_disk_we_fill_is_our_doing(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    ours.begin("host.begin", {"node": DATA, "intent": "disk.full"})
    evicted(there)
    assert watch.look() is None


@pytest.mark.parametrize("change", [gone, evicted], ids=["replaced", "evicted"])
def test_a_pod_is_watched_again_once_its_fault_is_undone_and_it_is_well(
    lab: ExistingTarget, there: Server, tmp_path: Path, change: Callable[[Server], None]
) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    entry = ours.begin("pod.kill", {"node": DATA})
    there.gone(DATA)
    ready = there.pods[DATA]["status"]["conditions"][0]
    ready["status"] = "False"
    assert watch.look() is None
    ours.ledger.note(entry, "undone")
    assert watch.look() is None, "it comes back by our own undo"
    there.gone(DATA)
    there.pods[DATA]["status"]["conditions"][0]["status"] = "False"
    assert watch.look() is None, "and is not well yet"
    there.run(DATA)
    assert watch.look() is None
    change(there)
    told = watch.look()
    assert told is not None and f"pod {DATA} " in told and "none of our doing" in told


def test_a_fault_that_was_begun_and_undone_between_two_looks_is_ours(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    assert lab.pods is not None
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    ours.ledger.note(ours.begin("pod.end", {"node": DATA}), "undone")
    there.gone(DATA)
    assert watch.look() is None and watch.look() is None
    there.gone(DATA)
    assert f"pod {DATA} was replaced" in str(watch.look())


def test_what_begins_and_is_undone_while_the_pods_are_looked_at_is_ours(
    lab: ExistingTarget, there: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have been seen as they were before it."""
    pods, ours = lab.pods, Intents(tmp_path)
    assert pods is not None
    watch, look = OthersOnPods(pods, experiment(lab, tmp_path, STOP), ours.intended), pods.look
    assert watch.look() is None

    def looked() -> Seen:
        seen = look()
        ours.ledger.note(ours.begin("pod.end", {"node": DATA}), "undone")
        there.gone(DATA)
        return seen

    monkeypatch.setattr(pods, "look", looked)
    assert watch.look() is None
    monkeypatch.setattr(pods, "look", look)
    assert watch.look() is None


def test_a_container_that_ends_after_a_fault_is_ours_until_its_pod_was_well_for_a_while(
    lab: ExistingTarget, there: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a probe has failed while its process was paused."""
    assert lab.pods is not None
    now = 100.0
    monkeypatch.setattr(pods_of_others, "time", SimpleNamespace(monotonic=lambda: now))
    ours = Intents(tmp_path)
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), ours.intended)
    assert watch.look() is None
    entry = ours.begin("host.begin", {"node": DATA, "intent": "node.pause"})
    assert watch.look() is None
    ours.ledger.note(entry, "undone")
    assert watch.look() is None
    now += pods_of_others.SETTLED_SECONDS - 1
    ended(there)
    assert watch.look() is None
    now += 1
    assert watch.look() is None and watch.look() is None
    ended(there, "2026-11-29T16:09:00Z")
    assert f"the container of pod {DATA} ended (Error, 2026-11-29T16:09:00Z)" in str(watch.look())


@pytest.mark.parametrize("how", ["kill", "orderly"])
def test_a_pod_that_others_replaced_before_its_turn_is_no_restart_of_ours(
    lab: ExistingTarget, there: Server, how: str
) -> None:
    (end, _), *_ = moves(lab, fault(lab, "node.restart", how=how))
    there.gone(DATA)
    theirs = pod(there)[0]
    with pytest.raises(Changed, match=f"when the fault began: {theirs}"):
        end.apply(lab)
    assert pod(there)[0] == theirs


def test_an_api_server_that_does_not_answer_is_asked_no_more_often_than_one_that_does(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    assert lab.pods is not None
    watch = OthersOnPods(lab.pods, experiment(lab, tmp_path, STOP), list)
    waits: list[float] = []
    over = threading.Event()

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if len(waits) == 3:
            there.broken = lambda method, path: False
        if len(waits) == 5:
            over.set()
        return over.is_set()

    over.wait = wait  # type: ignore[assignment,method-assign]
    there.broken = lambda method, path: True
    watch.until(over, pytest.fail)
    assert waits == [pods_of_others.WATCH_SECONDS] * 5 and watch._before is not None
    asked = len(there.asked)
    watch.until(over, pytest.fail)
    assert len(there.asked) == asked, "it is over"


def test_a_watch_that_breaks_ends_the_run() -> None:
    def broken() -> None:
        raise TypeError("an error of ours")

    told: list[str] = []
    run = OnTarget(None, None, 1, None, None, told.append)  # type: ignore[arg-type]
    watching = run._watching("pods", broken, "what others do to the pods cannot be seen any more")
    watching.start()
    watching.join(30)
    assert told == ["what others do to the pods cannot be seen any more: TypeError: an error of ours"]


def test_evidence_without_moves_proves_nothing(lab: ExistingTarget) -> None:
    held = Held(Shown(True), {}, anew=False, bare=False)  # type: ignore[arg-type]
    assert not held.in_effect(lab).proven and not held.gone(lab).proven


def test_a_game_day_opens_the_ways_into_pods_by_itself(
    cluster: Cluster, where: Where, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, opened = written(where, state), list[Existing]()
    monkeypatch.setattr(recovering_on.pods, "open_ways", opened.append)
    recovering_on.cluster_of(target)
    assert opened == [target]


# ---- a machine that is drained -----------------------------------------------------------------------------------


def drain(lab: ExistingTarget, there: Server, **given: Any) -> tuple[Fault, list[tuple[Move, Move]]]:
    """Of the machine of b-data; that of the cluster manager beside it is another one."""
    there.pods[MANAGER]["spec"]["nodeName"] = "node-c"
    lab.pods._last = None  # type: ignore[union-attr]
    made = fault(lab, "node.drain", **given)
    return made, moves(lab, made)


@pytest.mark.parametrize("elsewhere", [None, "node-a"])
def test_a_drained_machine_takes_nothing_and_its_pod_waits_or_runs_elsewhere_until_it_is_uncordoned(
    lab: ExistingTarget, there: Server, elsewhere: str | None
) -> None:
    before, there.moves = pod(there)[0], elsewhere
    made, ((cordon, uncordon), (evict, nothing)) = drain(lab, there)
    assert made.in_order and cordon.arguments["machine"] == "node-b"
    evidence = made.evidence()
    evidence._own = Shown(True)  # type: ignore[attr-defined]
    assert not evidence.in_effect(lab).proven, "nothing was done yet, whatever is seen"
    for _ in range(2):
        cordon.apply(lab)
    assert there.machines["node-b"]["spec"] == {"unschedulable": True}
    assert not evidence.in_effect(lab).proven, "its pod is still there"
    evict.apply(lab)
    lab.pods._last = None  # type: ignore[union-attr]
    assert evidence.in_effect(lab).proven and not evidence.gone(lab).proven
    assert pod(there)[0] != before and there.pods[DATA]["spec"].get("nodeName") == elsewhere
    mark = cordon.arguments["mark"]
    assert lab.pods is not None
    assert lab.pods.left(lambda each: each == mark) == ["machine node-b still takes no new pods"]
    assert lab.pods.left(lambda each: False) == []
    nothing.apply(lab)
    assert uncordon.apply(lab) is True and uncordon.apply(lab) is False
    assert there.machines["node-b"]["spec"] == {} == there.machines["node-b"]["metadata"]["annotations"]
    lab.pods._last = None
    assert evidence.gone(lab).proven and not evidence.in_effect(lab).proven
    assert lab.pods.left(lambda each: True) == []


def test_a_mark_that_is_left_on_a_machine_is_said(lab: ExistingTarget, there: Server) -> None:
    _, ((cordon, uncordon), _) = drain(lab, there)
    ledger = SimpleNamespace(moves=lambda: [cordon], run=lab.run)
    run = OnTarget(lab, None, 1, None, ledger, lambda _: None)  # type: ignore[arg-type]
    cordon.apply(lab)
    assert run.marks() == ["machine node-b still takes no new pods"]
    uncordon.apply(lab)
    assert run.marks() == []


class Undone(Ledger):
    """All of it was undone by another process since, which has forgotten the notes."""

    def undone_by_others(self, lab: Any, entries: Any) -> dict[int, str]:
        return {entry.number: "its note is gone" for entry in entries}


@pytest.mark.parametrize("kind", ["node.stop", "node.kill", "node.drain"])
def test_a_run_that_was_undone_by_others_takes_back_what_it_has_done_late(
    lab: ExistingTarget, there: Server, tmp_path: Path, kind: str
) -> None:
    both = drain(lab, there)[1][:1] if kind == "node.drain" else moves(lab, fault(lab, kind))
    ledger = Undone(tmp_path / "ledger")
    (entry,) = ledger.intend("f1", [Reversible(move, inverse) for move, inverse in both])
    entry.move.apply(lab)
    ledger.answered([entry])
    (failure,) = undo_entries(lab, ledger, ledger.standing())
    assert "its note is gone" in failure and ledger.standing() == []
    assert pod(there)[1] == IMAGE
    assert not any(each["spec"].get("unschedulable") for each in there.machines.values())


@pytest.mark.parametrize("kind", ["node.stop", "node.drain"])
def test_a_run_that_was_undone_by_others_takes_back_nothing_that_others_have_made(
    lab: ExistingTarget, there: Server, tmp_path: Path, kind: str
) -> None:
    """Marks are drawn for each fault, so what another run did to the same pod or machine has another one."""
    made = [drain(lab, there)[1][:1] if kind == "node.drain" else moves(lab, fault(lab, kind)) for _ in range(2)]
    ((theirs, _),), ((move, inverse),) = made
    theirs.apply(lab)
    ledger = Undone(tmp_path / "ledger")
    ledger.answered(ledger.intend("f1", [Reversible(move, inverse)]))
    undo_entries(lab, ledger, ledger.standing())
    assert theirs.arguments["mark"] != move.arguments["mark"]
    marks = {each["metadata"].get("annotations", {}).get(DRAINED) for each in there.machines.values()}
    assert theirs.arguments["mark"] in marks | {pod(there)[1]}


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("node.stop", {}),
        ("node.kill", {}),
        ("node.restart", {"how": "orderly"}),
        ("node.restart", {"how": "kill"}),
        ("node.drain", {}),
    ],
)
def test_a_run_that_holds_the_cluster_no_more_changes_nothing(
    lab: ExistingTarget, there: Server, kind: str, given: dict[str, Any]
) -> None:
    assert lab.pods is not None
    found = drain(lab, there)[1] if kind == "node.drain" else moves(lab, fault(lab, kind, **given))
    before = json.dumps([there.pods, there.machines], sort_keys=True)

    def lost() -> None:
        raise FaultError("another run holds the cluster now")

    lab.pods.may_begin = lost
    for move, _ in found:
        if move.operation in ("pod.hold", "pod.kill", "pod.end", "machine.cordon"):
            with pytest.raises(FaultError, match="another run holds the cluster now"):
                move.apply(lab)
    assert json.dumps([there.pods, there.machines], sort_keys=True) == before


def test_a_pod_that_was_killed_is_not_held_by_a_run_that_lost_the_cluster_meanwhile(
    lab: ExistingTarget, there: Server
) -> None:
    """As where the runner is stopped between the deletion and the change of the next pod's image."""
    assert lab.pods is not None
    ((move, _),) = moves(lab, fault(lab, "node.kill"))
    before = pod(there)[0]

    def lost() -> None:
        if pod(there)[0] != before:
            raise FaultError("another run holds the cluster now")

    lab.pods.may_begin = lost
    with pytest.raises(FaultError, match="another run holds"):
        move.apply(lab)
    assert pod(there)[0] != before and pod(there)[1] == IMAGE


@pytest.mark.parametrize("theirs", [True, False])
def test_what_others_do_to_a_machine_between_look_and_patch_is_not_overwritten(
    lab: ExistingTarget, there: Server, theirs: bool
) -> None:
    _, ((cordon, uncordon), _) = drain(lab, there)
    machine, patched = there.machines["node-b"], list[str]()

    def meanwhile(method: str, path: str) -> bool:
        if method == "PATCH" and not patched:
            patched.append(path)
            machine["metadata"]["resourceVersion"] = "7"  # its kubelet has spoken
            machine["spec"] |= {"unschedulable": True} if theirs else {}
        return False

    there.broken = meanwhile
    if theirs:
        with pytest.raises(FaultError, match="takes no new pods already, by somebody else's doing"):
            cordon.apply(lab)
    else:
        cordon.apply(lab)
    assert patched and uncordon.apply(lab) is not theirs
    assert there.machines["node-b"]["spec"] == ({"unschedulable": True} if theirs else {})


def test_a_machine_that_somebody_else_has_cordoned_is_theirs(lab: ExistingTarget, there: Server) -> None:
    _, ((cordon, uncordon), _) = drain(lab, there)
    there.machines["node-b"]["spec"]["unschedulable"] = True
    with pytest.raises(FaultError, match="takes no new pods already, by somebody else's doing"):
        cordon.apply(lab)
    assert uncordon.apply(lab) is False and there.machines["node-b"]["spec"]["unschedulable"] is True


def test_one_that_was_uncordoned_by_somebody_else_or_is_gone_is_no_error(lab: ExistingTarget, there: Server) -> None:
    _, ((cordon, uncordon), _) = drain(lab, there)
    cordon.apply(lab)
    del there.machines["node-b"]["spec"]["unschedulable"]
    evidence = Drained(Shown(True), {})  # type: ignore[arg-type]
    assert not evidence.in_effect(lab).proven and not evidence.gone(lab).proven
    assert uncordon.apply(lab) is True and "annotations" in there.machines["node-b"]["metadata"]
    del there.machines["node-b"]
    assert uncordon.apply(lab) is False


def test_a_drain_is_refused_while_other_pods_on_the_machine_are_not_named(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    there.lend("web-1", "shop", "node-b", "ReplicaSet")
    there.lend("agent-1", "system", "node-b", "DaemonSet")
    there.lend("static-1", "system", "node-b", "")
    there.lend("web-2", "shop", "node-a", "ReplicaSet")
    with pytest.raises(FaultError, match=f"{MANAGER} would be drained from node-b too: name it as well"):
        moves(lab, fault(lab, "node.drain"))
    with pytest.raises(
        FaultError, match=r"^web-1 of namespace shop would get no other pod on node-b: others: \[shop\]$"
    ):
        drain(lab, there)
    assert len(drain(lab, there, others=["shop"])[1]) == 2
    (row,) = refused(lab, tmp_path, "node.drain: {target: node b-data}")
    assert row.startswith("node.drain: web-1 of namespace shop")
    assert refused(lab, tmp_path, "node.drain: {target: node b-data, others: [shop]}") == []


def test_a_drain_counts_pods_of_any_controller_but_those_that_stay(lab: ExistingTarget, there: Server) -> None:
    for name, kind in (("agent-1", "DaemonSet"), ("kube-proxy-b", "Node"), ("alone", "")):
        there.lend(name, "system", "node-b", kind)
    assert len(drain(lab, there)[1]) == 2
    there.lend("kafka-1", "events", "node-b", "StrimziPodSet")
    with pytest.raises(FaultError, match=r"^kafka-1 of namespace events would get no other pod on node-b"):
        drain(lab, there)


def test_a_drain_needs_its_rights_and_a_budget_that_lets_its_pods_go(
    lab: ExistingTarget, there: Server, tmp_path: Path
) -> None:
    drain(lab, there)
    for right in (("patch", "nodes"), ("create", "pods/eviction")):
        there.denied = {right}
        (row,) = refused(lab, tmp_path, "node.drain: {target: node b-data}")
        assert row.startswith(f"rights: not allowed: {' '.join(right)}")
    there.denied = {("list", "all pods")}
    assert any("forbidden" in row for row in refused(lab, tmp_path, "node.drain: {target: node b-data}"))
    there.denied = set()
    there.budgets[f"{SETS[1]}-pdb"]["spec"]["maxUnavailable"] = 0
    (row,) = refused(lab, tmp_path, "node.drain: {target: node b-data}")
    assert "lets 0 of its pods go now" in row
    _, ((cordon, uncordon), (evict, _)) = drain(lab, there)
    cordon.apply(lab)
    with pytest.raises(FaultError, match="a budget refuses the eviction"):
        evict.apply(lab)
    assert uncordon.apply(lab) is True
