"""A target whose nodes are pods: its draft, what of it is refused, and what is done to a pod by its uid."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from apiserver import IMAGE, SETS, Server
from fakes import ROOT
from podcluster import Cluster, written

from chaos.base.errors import FaultError, InvalidInput, LabError, Unanswered
from chaos.commands.on_kubernetes import Where, drafted
from chaos.definitions.existing import Existing
from chaos.faults.ledger import Entry
from chaos.faults.moves import Move
from chaos.kubernetes.client import UNKNOWN, Refused
from chaos.kubernetes.seen import DRAINED, Seen
from chaos.registry import load_experiment
from chaos.run.pods_of_others import OthersOnPods, by_others
from chaos.targets.existing import compare, pods, radius
from chaos.targets.existing.compare import Row, Sign
from chaos.targets.existing.pods import AGAIN, Changed, Pods, mark
from chaos.targets.existing.seen import refuse_another, seen_of

DATA, MANAGER = f"{SETS[1]}-1", f"{SETS[0]}-1"
TODAY = date(2026, 11, 28)


def rows(target: Existing) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in compare.rows(target, seen_of(target), TODAY):
        found.setdefault(row.what, []).append(row)
    return found


# ---- the draft ---------------------------------------------------------------------------------------------------


def test_the_draft_is_true_names_uids_pods_and_zones_and_allows_nothing_but_to_look(
    cluster: Cluster, where: Where, state: Path
) -> None:
    target = written(where, state)
    file, server = target.written, cluster.server
    assert file.kubernetes is not None and file.rung == "observe"
    assert file.kubernetes.context == "box" and target.kubeconfig is not None
    assert os.path.samefile(target.kubeconfig, state / "kubeconfig")
    assert file.kubernetes.identity.cluster == server.uids["kube-system"]
    assert file.kubernetes.identity.namespace == server.uids["search"]
    assert set(file.kubernetes.identity.stateful_sets) == set(SETS)
    assert {name: (node.pod, node.zone) for name, node in file.nodes.items()} == {
        name: (name, pod["spec"]["nodeName"][-1]) for name, pod in server.pods.items()
    }
    assert all(address.host.startswith("127.98.") for address in file.of_nodes.values())
    assert len(set(file.of_nodes.values())) == 6 and len(file.endpoints) == 3
    signs = {row.sign for each in rows(target).values() for row in each if row.what != "foreign"}
    assert signs == {Sign.SAME}


def test_with_a_url_no_way_into_pods_is_opened(cluster: Cluster, where: Where, state: Path) -> None:
    host, port = cluster.server.backends[DATA]
    url = f"http://{host}:{port}"
    target = written(Where(kubeconfig=where.kubeconfig, namespace="search", url=url), state)
    assert target.written.endpoints == (url,) and target.written.of_nodes == {}
    assert target.written.kubernetes is not None and target.written.kubernetes.forward is None
    assert pods.ways_of(target) is None
    assert not any(each.startswith("FORWARD") for each in cluster.server.asked)


def test_pods_of_another_cluster_are_refused(cluster: Cluster, where: Where, state: Path) -> None:
    cluster.members.remove(DATA)
    with pytest.raises(InvalidInput, match=f"pod {DATA} is no node of this cluster") as error:
        drafted(where, state, None, None, {})
    assert "--selector" in str(error.value.remedy) and "wait until it has joined" in str(error.value.remedy)


def test_zones_that_opensearch_does_not_know_are_said(cluster: Cluster, where: Where, state: Path) -> None:
    cluster.attributes[DATA].clear()
    with pytest.raises(InvalidInput, match="places copies without regard to zones") as error:
        drafted(where, state, None, None, {})
    assert "node.attr.zone" in str(error.value.remedy)


def test_a_kubernetes_that_cannot_be_told_from_another_is_refused(cluster: Cluster, where: Where, state: Path) -> None:
    cluster.server.denied.add(("get", "namespaces"))
    with pytest.raises(InvalidInput, match="nothing would tell this Kubernetes from another"):
        drafted(where, state, None, None, {})


# ---- what differs ------------------------------------------------------------------------------------------------


def another_uid(key: str) -> Callable[[Cluster], None]:
    def change(cluster: Cluster) -> None:
        cluster.server.uids[key] = str(uuid.uuid4())

    return change


def another_set(cluster: Cluster) -> None:
    cluster.server.sets[SETS[1]]["metadata"]["uid"] = str(uuid.uuid4())


def another_address(cluster: Cluster) -> None:
    cluster.server.pods[DATA]["status"]["podIP"] = "10.9.9.9"
    name = cluster.node(DATA)  # the cluster still knows the old one
    cluster.node = lambda each: {**name, "ip": "10.0.1.2"} if each == DATA else type(cluster).node(cluster, each)  # type: ignore[method-assign]


def another_zone(cluster: Cluster) -> None:
    cluster.server.pods[DATA]["spec"]["nodeName"] = "node-c"


def rolling(cluster: Cluster) -> None:
    cluster.server.sets[SETS[1]]["status"]["updateRevision"] = "r2"


def one_more(cluster: Cluster) -> None:
    cluster.server.make(f"{SETS[1]}-3", SETS[1], zone="a", claims=True, ip="10.0.1.4")


def ours_left(cluster: Cluster) -> None:
    cluster.server.pods[DATA]["spec"]["containers"][0]["image"] = mark("run", "f1")


def a_machine_left(cluster: Cluster) -> None:
    cluster.server.machines["node-b"]["metadata"]["annotations"] = {DRAINED: mark("run", "f1")}


def unreadable(cluster: Cluster) -> None:
    cluster.server.denied.add(("list", "pods"))


@pytest.mark.parametrize(
    ("change", "row", "sign", "says"),
    [
        (another_uid("kube-system"), "Kubernetes", Sign.DIFFERS, "the uid of namespace kube-system is"),
        (another_uid("search"), "Kubernetes", Sign.DIFFERS, "the uid of namespace search is"),
        (another_set, "StatefulSets", Sign.DIFFERS, f"the uid of {SETS[1]} is"),
        (another_address, "pods", Sign.DIFFERS, f"{DATA} has the address 10.0.1.2, and pod {DATA} has 10.9.9.9"),
        (one_more, "pods", Sign.DIFFERS, f"pod {SETS[1]}-3 is no node of the file"),
        (another_zone, "machines", Sign.DIFFERS, "is on a machine of zone c, and its node says b"),
        (rolling, "rollout", Sign.BLOCKS, f"{SETS[1]} is being rolled out"),
        (ours_left, "left of a run", Sign.BLOCKS, "oschaos.invalid/"),
        (a_machine_left, "left of a run", Sign.BLOCKS, "machine node-b takes no new pods (oschaos.invalid/run-f1"),
        (unreadable, "Kubernetes", Sign.UNKNOWN, "403"),
    ],
)
def test_what_differs_from_the_file_is_refused(
    cluster: Cluster, where: Where, state: Path, change: Callable[[Cluster], None], row: str, sign: Sign, says: str
) -> None:
    target = written(where, state)
    change(cluster)
    found = [each for each in rows(target)[row] if each.sign is not Sign.SAME]
    assert [each.sign for each in found] == [sign] and says in found[0].says, found


def test_a_pod_that_came_anew_is_the_same_node(cluster: Cluster, where: Where, state: Path) -> None:
    target = written(where, state)
    cluster.server.gone(DATA)
    assert {row.sign for each in rows(target).values() for row in each if row.what != "foreign"} == {Sign.SAME}


def test_no_more_pods_are_hit_than_a_budget_lets_go(cluster: Cluster, where: Where, state: Path) -> None:
    target = written(where, state)
    seen = seen_of(target)

    def judged(*hit: str) -> Row:
        return next(row for row in radius.rows(hit, target.written, seen) if row.what == "budgets")

    assert judged(DATA, MANAGER).sign is Sign.SAME, "one of each budget"
    two = judged(DATA, f"{SETS[1]}-2")
    assert two.sign is Sign.BLOCKS and "lets 1 of 3 pods go, and 2 could be away" in two.says
    cluster.server.denied.add(("list", "budgets"))
    seen = seen_of(target)
    assert judged(DATA).sign is Sign.UNKNOWN


STALE = [
    {"observedGeneration": 1, "desiredHealthy": 0, "disruptionsAllowed": 3},
    {"observedGeneration": None, "desiredHealthy": 0},
    {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}], "desiredHealthy": 0},
]


@pytest.mark.parametrize("status", STALE, ids=["of the spec before", "of none yet", "not computed"])
def test_the_status_of_a_budget_that_is_not_of_its_spec_allows_nothing(
    cluster: Cluster, where: Where, state: Path, status: dict[str, Any]
) -> None:
    target = written(where, state)
    cluster.server.budgets.pop(f"{SETS[0]}-pdb")
    cluster.server.computed = status
    seen = seen_of(target)

    def judged(*hit: str) -> Row:
        return next(row for row in radius.rows(hit, target.written, seen) if row.what == "budgets")

    assert judged(DATA).sign is Sign.UNKNOWN and f"{SETS[1]}-pdb" in judged(DATA).says
    assert judged(MANAGER).sign is Sign.SAME, "that budget does not cover it"
    cluster.server.computed = {
        "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}]
    }
    seen = seen_of(target)
    assert judged(DATA).sign is Sign.SAME
    cluster.server.budgets[f"{SETS[0]}-pdb"] = {
        "metadata": {"name": f"{SETS[0]}-pdb", "generation": 2},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/component": SETS[0]}}},
    }
    cluster.server.computed = status
    (row,) = rows(target)["budgets"]
    assert row.sign is Sign.WARNING and "has not computed the status of" in row.says


def test_nothing_is_taken_for_undone_in_another_kubernetes(cluster: Cluster, where: Where, state: Path) -> None:
    """As where a context of its name leads elsewhere on the machine that recovers."""
    target = written(where, state)
    pods.refuse_another(target)
    cluster.server.uids["kube-system"] = str(uuid.uuid4())
    with pytest.raises(InvalidInput, match="leads to another Kubernetes: the uid of kube-system is"):
        refuse_another(target)
    cluster.server.broken = lambda method, path: True
    pods.refuse_another(target)


# ---- what is done to one -----------------------------------------------------------------------------------------


@pytest.fixture
def found(cluster: Cluster, where: Where, state: Path) -> Pods:
    return Pods(written(where, state))


def uid_of(server: Server, name: str) -> str:
    return str(server.pods[name]["metadata"]["uid"])


def image_of(server: Server, name: str) -> str:
    return str(server.pods[name]["spec"]["containers"][0]["image"])


def test_a_pod_is_held_by_an_image_of_ours_and_released(there: Server, found: Pods) -> None:
    uid, ours = uid_of(there, DATA), mark("20261128T0-x", "f1")
    found.hold(DATA, uid, IMAGE, ours)
    found.hold(DATA, uid, IMAGE, ours)  # twice is once
    pod = found.pod(DATA)
    assert pod is not None and (pod.uid, pod.image, pod.runs) == (uid, ours, False)
    assert found.left(ours.__eq__) == [f"pod {DATA} still has the image {ours}"]
    assert found.release(DATA, ours, IMAGE) is True
    assert found.release(DATA, ours, IMAGE) is False
    assert image_of(there, DATA) == IMAGE and uid_of(there, DATA) == uid and found.left(lambda _: True) == []


def test_another_pod_of_the_name_is_not_touched(there: Server, found: Pods) -> None:
    uid = uid_of(there, DATA)
    there.gone(DATA)
    now = uid_of(there, DATA)
    with pytest.raises(Changed, match=f"expected pod {uid}"):
        found.hold(DATA, uid, IMAGE, mark("run", "f1"))
    found.delete(DATA, uid, 0)
    found.evict(DATA, uid)
    assert (uid_of(there, DATA), image_of(there, DATA)) == (now, IMAGE)


def test_a_mark_is_ours_whatever_registry_a_webhook_puts_before_it(there: Server, found: Pods) -> None:
    uid, ours = uid_of(there, DATA), mark("run", "f1")
    found.hold(DATA, uid, IMAGE, ours)
    there.pods[DATA]["spec"]["containers"][0]["image"] = f"mirror.example/{ours}"
    found.hold(DATA, uid, IMAGE, ours)
    assert found.left(ours.__eq__) == [f"pod {DATA} still has the image mirror.example/{ours}"]
    assert found.release(DATA, ours, IMAGE) is True
    assert image_of(there, DATA) == IMAGE and found.left(ours.__eq__) == []


def test_an_image_that_somebody_else_has_set_stays(there: Server, found: Pods) -> None:
    uid, ours = uid_of(there, DATA), mark("run", "f1")
    found.hold(DATA, uid, IMAGE, ours)
    there.pods[DATA]["spec"]["containers"][0]["image"] = "theirs:1"
    assert found.release(DATA, ours, IMAGE) is False
    assert image_of(there, DATA) == "theirs:1"


def test_a_killed_pod_comes_anew_and_is_held(there: Server, found: Pods) -> None:
    uid, ours = uid_of(there, DATA), mark("run", "f1")
    found.kill(DATA, uid, IMAGE, ours)
    assert uid_of(there, DATA) != uid and image_of(there, DATA) == ours
    second = uid_of(there, DATA)
    found.kill(DATA, uid, IMAGE, ours)
    assert uid_of(there, DATA) == second, "done once"


def test_a_controller_that_makes_no_pod_is_said(there: Server, found: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "ANOTHER_SECONDS", 0.5)
    there.anew = False
    with pytest.raises(LabError, match="no other pod comes in the place"):
        found.kill(DATA, uid_of(there, DATA), IMAGE, mark("run", "f1"))


def test_a_budget_that_refuses_an_eviction_is_told_in_its_words(there: Server, found: Pods) -> None:
    there.budgets[f"{SETS[1]}-pdb"]["spec"]["maxUnavailable"] = 0
    uid = uid_of(there, DATA)
    with pytest.raises(FaultError, match=r"a budget refuses the eviction .* violate the pod's disruption budget"):
        found.evict(DATA, uid)
    assert uid_of(there, DATA) == uid


def test_a_no_in_an_answer_of_success_is_a_no(there: Server, found: Pods) -> None:
    both = {"maxUnavailable": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "opensearch"}}}
    there.budgets["all-pdb"] = {"metadata": {"name": "all-pdb"}, "spec": both}
    uid = uid_of(there, DATA)
    with pytest.raises(Refused, match="answers 500: This pod has more than one PodDisruptionBudget"):
        found.evict(DATA, uid)
    assert uid_of(there, DATA) == uid


def test_too_many_requests_are_not_blamed_on_a_budget(there: Server, found: Pods) -> None:
    there.answers = {"POST": 429}
    with pytest.raises(Refused, match="answers 429") as error:
        found.evict(DATA, uid_of(there, DATA))
    assert "budget" not in str(error.value)


def test_a_change_without_an_answer_is_open(there: Server, found: Pods) -> None:
    uid = uid_of(there, DATA)
    there.broken = lambda method, path: method == "PATCH"
    with pytest.raises(Unanswered):
        found.hold(DATA, uid, IMAGE, mark("run", "f1"))


def test_an_answer_that_does_not_say_what_became_of_a_change_is_open_too(there: Server, found: Pods) -> None:
    uid = uid_of(there, DATA)
    for status in UNKNOWN:
        there.answers = {"PATCH": status}
        with pytest.raises(Unanswered, match=f"answers {status}, so what became of it is not known"):
            found.hold(DATA, uid, IMAGE, mark("run", "f1"))


def test_an_undo_that_is_refused_is_tried_a_few_times_and_told(there: Server, found: Pods) -> None:
    uid, ours = uid_of(there, DATA), mark("run", "f1")
    found.hold(DATA, uid, IMAGE, ours)
    there.answers, there.asked[:] = {"PATCH": 422}, []
    with pytest.raises(Refused, match="422"):
        found.release(DATA, ours, IMAGE)
    assert len([each for each in there.asked if each.startswith("PATCH")]) == AGAIN
    there.answers = {}
    assert found.release(DATA, ours, IMAGE) is True


def test_marks_are_names_of_images_that_differ_each_time() -> None:
    one, other = mark("20261128T223340Z-X_y.Z", "f1-a.b"), mark("20261128T223340Z-X_y.Z", "f1-a.b")
    assert one != other and one.startswith("oschaos.invalid/20261128t223340z-x-y-z-f1-a-b:")
    assert len(mark("x" * 500, "f1")) < 200 and "-:" not in mark("x" * 79, "f1"), "no image has such a name"


# ---- what others do ----------------------------------------------------------------------------------------------


def evicted(server: Server) -> None:
    conditions: list[dict[str, Any]] = server.pods[DATA]["status"]["conditions"]
    conditions.append({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"})


def deleted(server: Server) -> None:
    server.pods[DATA]["metadata"]["deletionTimestamp"] = "2026-11-28T22:00:00Z"


def scaled(server: Server) -> None:
    server.sets[SETS[1]]["spec"]["replicas"] = 2


def rolled(server: Server) -> None:
    server.sets[SETS[1]]["status"]["updateRevision"] = "r2"


def replaced(server: Server) -> None:
    server.gone(DATA)


def absent(server: Server) -> None:
    server.pods.pop(DATA)


def ended(server: Server) -> None:
    """As where a probe failed: its kubelet has ended the container, and starts it again."""
    over = {"terminated": {"reason": "Error", "exitCode": 143, "finishedAt": "2026-11-29T16:00:00Z"}}
    server.pods[DATA]["status"]["containerStatuses"][0]["lastState"] = over


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (ended, f"the container of pod {DATA} ended (Error, 2026-11-29T16:00:00Z), and no fault hits that pod"),
        (evicted, "being disrupted (EvictionByEvictionAPI)"),
        (deleted, "is being deleted"),
        (replaced, "was replaced by another one"),
        (absent, "is there no more"),
        (scaled, "wants 2 pods and not 3"),
        (rolled, "is being rolled out"),
    ],
)
def test_what_others_do_to_pods_is_named(
    there: Server, found: Pods, change: Callable[[Server], None], says: str
) -> None:
    before = found.look()
    assert by_others(before, found.look(), [], rollouts=True) is None
    change(there)
    now: Seen = found.look()
    told = by_others(before, now, [], rollouts=True)
    assert told is not None and says in told and ("none of" in told) is (change is not ended)
    pod_alone = change not in (scaled, rolled)
    assert (by_others(before, now, [DATA], rollouts=True) is None) is pod_alone, "what is ours is not theirs"


def test_a_stateful_set_whose_pods_are_all_away_is_still_there(there: Server, found: Pods) -> None:
    """As between the deletion of the only pod and the moment when its controller has made the next one."""
    before, ours = found.look(), [name for name in there.pods if name.startswith(SETS[1])]
    for name in ours:
        there.pods.pop(name)
    assert by_others(before, found.look(), ours, rollouts=True) is None
    there.sets.pop(SETS[1])
    told = by_others(before, found.look(), ours, rollouts=True)
    assert told == f"StatefulSet {SETS[1]} is there no more, and that is none of our doing"


def test_all_pods_of_a_machine_that_is_cut_off_are_ours(there: Server, found: Pods) -> None:
    """Its moves name one of them. After five minutes Kubernetes deletes them all."""
    there.pods[MANAGER]["spec"]["nodeName"] = there.pods[DATA]["spec"]["nodeName"]
    nodes = {pod: node for node, pod in found.of_nodes.items()}
    asked = load_experiment(ROOT / "experiments" / "data-node-kill.yaml")
    for intent, ends in (("node.isolation", False), ("node.pause", True)):
        move = Move("host.begin", {"node": nodes[MANAGER], "intent": intent})
        watch = OthersOnPods(found, asked, lambda move=move: [(Entry(0, "f1", move, None), True)])
        assert watch.look() is None
        evicted(there)
        assert (watch.look() is not None) is ends
        there.pods[DATA]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
