"""The table of intents by provider: made from what providers offer, and true of what each target says of itself."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from shipped import ROOT

from chaos.definitions import load_topology
from chaos.faults import documentation
from chaos.faults.documentation import columns, fidelity
from chaos.providers.fis import INTENTS
from chaos.registry import FAULTS, PROVIDERS
from chaos.targets.existing import offered
from chaos.targets.kinds import docker, existing, local
from chaos.targets.labs.local import LocalLab
from chaos.targets.protocol import CAPABILITIES

SHOWN = {each.title: each for each in columns(PROVIDERS)}


def cell(kind: str, column: str) -> str:
    return fidelity(kind, SHOWN[column], PROVIDERS)


def test_there_is_a_column_for_each_of_our_labs_and_each_provider_of_a_cluster_that_exists() -> None:
    others = {f"`{each.name}`" for each in PROVIDERS.all if each.of_others}
    ours = ["local lab", "docker lab", "`rest`", "`toxiproxy`"]
    assert list(SHOWN) == [*ours, "`ssh`", "`helper`", "`kubernetes`", "`hooks`", "`fis`", "`domain`"]
    assert others <= set(SHOWN)


@pytest.mark.parametrize("kind", INTENTS)
def test_of_fis_it_says_what_its_provider_says(kind: str) -> None:
    verdict = INTENTS[kind].verdict
    assert cell(kind, "`fis`") == (verdict if verdict in ("exact", "approximate") else "not")


@pytest.mark.parametrize(
    ("kind", "column", "says"),
    [
        ("network.latency", "local lab", "exact (`toxiproxy`)"),
        ("network.slow_close", "local lab", "exact (`toxiproxy`)"),
        ("network.slow_close", "docker lab", "not"),
        ("network.slow_close", "`toxiproxy`", "not"),
        ("network.loss", "local lab", "not"),
        ("network.loss", "`ssh`", "exact"),
        ("zone.power_loss", "local lab", "exact (`process`)"),
        ("zone.power_loss", "`ssh`", "approximate"),
        ("zone.power_loss", "`hooks`", "approximate"),
        ("cluster_manager.task_storm", "local lab", "exact (`rest`)"),
        ("cluster_manager.task_storm", "`rest`", "not"),
        ("settings.change", "`rest`", "exact"),
    ],
)
def test_a_cell_is_what_that_target_can_have_at_most(kind: str, column: str, says: str) -> None:
    assert cell(kind, column) == says


def test_every_row_is_in_the_page_and_how_it_differs_stands_with_the_kind() -> None:
    page = documentation.markdown(PROVIDERS)
    for kind in FAULTS:
        cells = [fidelity(kind, each, PROVIDERS) for each in SHOWN.values()]
        assert f"| {kind} | {' | '.join(cells)} |" in page
        section = page.partition(f"\n### {kind}\n")[2].partition("\n### ")[0]
        assert any(each != "not" for each in cells), kind
        for offer in PROVIDERS.of(kind):
            assert offer.differs in section


def test_what_no_local_lab_has_none_says_that_it_has() -> None:
    for name in {fault.example_topology for fault in FAULTS.values()}:
        offers = LocalLab.offers(load_topology(name, near=ROOT / "experiments" / "x.yaml"))
        assert all(offers[each] for each in local.TARGET.never), name


def test_what_no_docker_lab_has_none_says_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that has everything."""
    lab = pytest.importorskip("chaos.targets.labs.docker.lab")
    monkeypatch.setattr(lab.Engine, "open", classmethod(lambda cls: None))
    monkeypatch.setattr(lab, "_elsewhere", lambda engine: None)
    monkeypatch.setattr(lab, "usable", lambda controller: True)
    monkeypatch.setattr(lab, "offered", lambda topology, what: None)
    offers = lab.DockerLab.offers(load_topology("3az-disks", near=ROOT / "experiments" / "x.yaml"))
    assert {each for each, why in offers.items() if why} == docker.TARGET.never


def test_what_no_file_gives_is_lacking_whatever_it_names() -> None:
    class File:
        toxiproxies = hosts = fis = domain = ("named",)
        kubernetes = SimpleNamespace(helper="an image")
        by_doors = False
        hooks = dict.fromkeys(FAULTS)

    lacks = offered.by(File())  # type: ignore[arg-type]
    assert {each for each in CAPABILITIES if lacks(each)} == existing.TARGET.never
