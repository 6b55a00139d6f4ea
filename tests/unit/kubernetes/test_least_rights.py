"""The printed rights: what each kind asks of the API server is in them, nothing else is, each that lacks is told."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from apiserver import SETS, Server
from fakes import ROOT, Shown
from podcluster import Cluster, with_helpers
from shipped import EXPERIMENTS
from unit.kubernetes.test_helper_pods import IMAGE, RUN, Programs

from chaos.commands.on_kubernetes import Where
from chaos.faults.fault import Fault
from chaos.kubernetes import rights
from chaos.kubernetes.rights import Right
from chaos.providers.kubernetes import PROVIDER
from chaos.registry import FAULTS, PROVIDERS, load_experiment, ready
from chaos.run import on_target
from chaos.targets.existing.hosts import named
from chaos.targets.existing.target import ExistingTarget

DATA, MANAGER = f"{SETS[1]}-1", f"{SETS[0]}-1"
SINCE_1_35 = {"create pods/portforward", "create pods/exec"}
"""The same as its ``get``: a server asks for one of them, by its version."""
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}
LISTED = {"pods", "jobs", "statefulsets", "poddisruptionbudgets"}
PATH = re.compile(r"/apis?/(?:[a-z.]+/)?v1/(?:namespaces/search/)?([a-z]+)(?:/([^/]+))?(?:/([a-z]+))?")


@pytest.fixture
def lab(cluster: Cluster, where: Where, state: Path) -> ExistingTarget:
    return with_helpers(where, state, IMAGE, RUN)


def taken(asked: Iterable[str]) -> set[str]:
    """The rights that these requests take, as ``get pods``; those in no namespace of ours end in ``everywhere``."""
    found = set()
    for request in asked:
        method, _, path = request.partition(" ")
        if "selfsubjectaccessreviews" in path:  # anybody may ask what he may
            continue
        if method in ("EXEC", "FORWARD"):
            found.add("get pods/exec" if method == "EXEC" else "get pods/portforward")
            continue
        match = PATH.fullmatch(path)
        assert match is not None, path
        resource, name, sub = match.groups()
        verb = "list" if method == "GET" and resource in LISTED and name is None else VERBS[method]
        wide = resource in ("nodes", "namespaces") or "/namespaces/" not in path
        found.add(f"{verb} {resource}{f'/{sub}' if sub else ''}{' everywhere' if wide else ''}")
    return found


def said(needed: Iterable[Right]) -> set[str]:
    every = {f"{each.verb} {each.resource}{' everywhere' if each.everywhere else ''}" for each in needed}
    return every - SINCE_1_35


def carried_out(lab: ExistingTarget, there: Server, made: Fault) -> None:
    """All of a fault: what is read, done and seen, and its undo."""
    assert made.read is not None and lab.pods is not None
    both = made.read(lab)
    evidence = made.evidence()
    evidence._own = Shown(True)  # type: ignore[attr-defined]
    for each in both:
        if each.move.operation.startswith(("pod.", "machine.")):
            each.move.apply(lab)
    lab.pods._last = None
    assert evidence.in_effect(lab).proven
    for each in both:
        assert each.inverse is not None
        each.inverse.apply(lab)
    lab.pods._last = None
    evidence.gone(lab)


KINDS: dict[str, dict[str, Any]] = {
    "node.stop": {"target": f"node {DATA}"},
    "node.kill": {"target": f"node {DATA}"},
    "node.loss": {"target": f"node {MANAGER}"},
    "node.drain": {"target": f"node {DATA}"},
    "node.restart kill": {"target": f"node {DATA}", "how": "kill"},
    "node.restart orderly": {"target": f"node {DATA}", "how": "orderly"},
    "zone.power_loss": {"zone": "b"},
}


def test_all_kinds_on_pods_are_here() -> None:
    assert {each.split()[0] for each in KINDS} == set(PROVIDER.offers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_asks_for_what_is_printed_and_for_no_more(lab: ExistingTarget, there: Server, kind: str) -> None:
    if kind == "node.drain":
        there.pods[MANAGER]["spec"]["nodeName"] = "node-c"
    if kind == "zone.power_loss":
        there.pods[MANAGER]["spec"]["volumes"][0] = {"name": "data", "persistentVolumeClaim": {"claimName": MANAGER}}
    made = ready("f1", FAULTS[kind.split()[0]].model_validate(KINDS[kind]), lab, seed=1, elected=None)
    there.asked.clear()
    carried_out(lab, there, made)
    printed = said(rights.needed("search", [kind], forward=False))
    assert taken(there.asked) == printed


def test_a_helper_asks_for_what_is_printed_and_for_no_more(lab: ExistingTarget, there: Server) -> None:
    assert lab.helpers is not None and lab.pods is not None
    Programs(there)
    there.asked.clear()
    lab.pods.look()
    lab.helpers.make(RUN, [DATA])
    lab.hosts.undo(DATA, named(RUN), "f1-0")
    lab.helpers.end(RUN)
    assert taken(there.asked) == said(rights.needed("search", [rights.HELPER], forward=False))


def test_each_shipped_experiment_is_refused_for_every_right_that_it_lacks(lab: ExistingTarget, there: Server) -> None:
    offers = PROVIDERS.on(lab.lacks)
    tried: set[frozenset[str]] = set()
    for path in EXPERIMENTS:
        asked = load_experiment(path).model_copy(update={"topology": lab.topology})
        kinds = frozenset(on_target.of_pods(asked, offers))
        if not kinds or kinds in tried:
            continue
        tried.add(kinds)
        needed = rights.needed("search", kinds, forward=True)
        there.denied = set()
        with_all = on_target.refused_pods(lab, asked, 1, offers)
        assert not [row for row in with_all if row.what == "rights"], path.name
        there.denied = {(each.verb, each.resource) for each in needed}
        lab.pods._last = None  # type: ignore[union-attr]
        there.denied -= {(each.verb, each.resource) for each in rights.LOOKING}  # without these nothing can be told
        told = [row.says for row in on_target.refused_pods(lab, asked, 1, offers)]
        for each in needed:
            if (each.verb, each.resource) in there.denied:
                assert f"not allowed: {each.says} ({each.why})" in told, f"{path.name}: {each.says}"
    kinds_of_all = {kind for each in tried for kind in each}
    assert {"node.kill", "node.drain", "node.isolation", "zone.power_loss", rights.HELPER} <= kinds_of_all


@pytest.mark.parametrize("lacks", rights.LOOKING, ids=lambda each: each.resource)
def test_a_user_who_may_not_look_is_refused_by_name(lab: ExistingTarget, there: Server, lacks: Right) -> None:
    path = ROOT / "experiments" / "data-node-kill.yaml"
    asked = load_experiment(path).model_copy(update={"topology": lab.topology})
    there.denied = {(lacks.verb, lacks.resource)}
    lab.pods._last = None  # type: ignore[union-attr]
    told = [row.says for row in on_target.refused_pods(lab, asked, 1, PROVIDERS.on(lab.lacks))]
    assert [each for each in told if lacks.resource in each or f"{lacks.resource} is forbidden" in each], told
