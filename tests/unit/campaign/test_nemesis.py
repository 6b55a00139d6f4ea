"""The random mode: the same seed draws the same bytes, what is drawn is an experiment, and the limits hold."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import pytest
from apart import examples
from fakes import topology
from hypothesis import given, settings
from hypothesis import strategies as st
from making import OFFERS, lacking, needs

from chaos.base.errors import InvalidInput
from chaos.campaign import nemesis
from chaos.campaign.nemesis import Drawn, Hit, Limits, Options, hits, spared
from chaos.definitions import Duration, Experiment, Rate, Topology
from chaos.definitions.steps import FaultParams
from chaos.registry import FAULTS, load_experiment
from chaos.targets.protocol import NO_OWNERS

NAMES = ["3az-standby", "3az-standby-2data", "2az", "planted-no-replicas"]
named = cache(topology)


def options(on: str = "3az-standby", seed: int = 1, **more: object) -> Options:
    return Options(named(on), on, seed, **{"duration": Duration(120), "rate": Rate.parse("6/min"), **more})  # type: ignore[arg-type]


drawn = st.builds(
    options,
    st.sampled_from(NAMES),
    st.integers(0, 10_000),
    limits=st.builds(Limits, st.integers(1, 4), st.booleans(), st.booleans()),
    rate=st.sampled_from([Rate.parse("2/min"), Rate.parse("20/min")]),
)


def faults(given: Options) -> list[Drawn]:
    try:
        return nemesis.timeline(given, OFFERS)
    except InvalidInput as nothing:
        assert "nothing was drawn" in nothing.message
        return []


@given(drawn)
@settings(max_examples=examples(40), deadline=None)
def test_never_more_than_the_limits_at_any_moment(given: Options) -> None:
    made = faults(given)
    for at in {each.begin for each in made}:
        active = [each for each in made if each.begin <= at < each.end]
        assert 1 <= len(active) <= given.limits.active
        for one, other in itertools.combinations(active, 2):
            assert not any(a.claims & b.claims for a in one.hits for b in other.hits)
        for case in itertools.product(*(each.hits for each in active)):
            down = frozenset().union(*(hit.nodes for hit in case))
            managers = [node.name for node in given.topology.cluster_managers]
            if not given.limits.quorum_loss:
                assert 2 * len(down & set(managers)) < len(managers)
            if not given.limits.all_copies:
                assert not {node.name for node in given.topology.data_nodes} <= down


@given(drawn)
@settings(max_examples=examples(15), deadline=None)
def test_the_same_options_give_the_same_bytes_and_they_are_that_experiment(given: Options) -> None:
    if not faults(given):
        return
    text = nemesis.text(given, OFFERS)
    assert text == nemesis.text(given, OFFERS)
    meant = nemesis.draw(given, OFFERS)
    assert read(text, given.topology).phases == meant.phases


def read(text: str, on: Topology) -> Experiment:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.yaml"
        file.write_text(text)
        return load_experiment(file, topology=on)


def test_another_seed_draws_another_plan() -> None:
    plans = {nemesis.text(options(seed=seed), OFFERS).partition("phases:")[2] for seed in range(5)}
    assert len(plans) == 5


def test_the_plan_names_the_command_that_draws_it_again() -> None:
    given = options(weights={"node.kill": 2.0, "network.drop": 1.0}, limits=Limits(3, all_copies=True), name="short")
    text = nemesis.text(given, OFFERS)
    assert text.splitlines()[0] == (
        "# drawn by: opensearch-chaos nemesis 3az-standby --seed 1 --for 2m --rate 6/min "
        "--weights node.kill=2,network.drop=1 --max-active 3 --allow-all-copies --name short"
    )
    assert {step.kind for phase in read(text, given.topology).phases for step in phase.inject} <= {
        "node.kill",
        "network.drop",
    }


def test_every_fault_is_undone_by_its_own_name_and_the_last_phase_waits_for_green() -> None:
    plan = nemesis.draw(options(), OFFERS)
    injected = [step.label for phase in plan.phases for step in phase.inject]
    undone = [label for phase in plan.phases for label in phase.undo]
    assert sorted(injected) == sorted(undone) and len(set(injected)) == len(injected) > 1
    assert plan.phases[-1].until is not None and plan.phases[-1].undo
    assert [each.text for each in plan.expect] == ["cluster.recovered <= 3m", "acknowledged.lost = 0"]


def test_what_the_lab_lacks_is_not_drawn_and_refused_where_it_is_asked_for() -> None:
    def lacks(need: str) -> str | None:
        return "no such thing here" if need == "process" else NO_OWNERS.get(need)

    kinds = {each.params.kind for seed in range(5) for each in nemesis.timeline(options(seed=seed), lacking(lacks))}
    assert kinds and not any("process" in needs(kind) for kind in kinds)
    with pytest.raises(InvalidInput, match=r"node\.kill cannot be drawn: no such thing here"):
        nemesis.timeline(options(weights={"node.kill": 1.0}), lacking(lacks))


def test_planted_weaknesses_are_drawn_only_where_they_are_asked_for() -> None:
    assert not any(FAULTS[kind].family in nemesis.PLANTED for kind in nemesis.default_weights(OFFERS))


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ("node.kil=1", 'did you mean "node.kill"?'),
        ("node.kill", "expected for example node.kill=2"),
        ("node.kill=-1", "expected for example node.kill=2"),
    ],
)
def test_weights_that_cannot_be_read(weights: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        nemesis.parse_weights(weights, FAULTS)
    assert says in refused.value.message


def test_nothing_to_draw() -> None:
    with pytest.raises(InvalidInput, match="every weight is 0"):
        nemesis.timeline(options(weights={"node.kill": 0.0}), OFFERS)
    with pytest.raises(InvalidInput, match="nothing was drawn in 1s"):
        nemesis.timeline(options(duration=Duration(1), rate=Rate(0.001)), OFFERS)


# ---- what is spared --------------------------------------------------------------------------------------


def of(kind: str, **parameters: object) -> FaultParams:
    return FAULTS[kind].model_validate(parameters)


@pytest.mark.parametrize(
    ("name", "kind", "parameters", "enough"),
    [
        ("3az-standby", "node.kill", {"target": "zone c"}, True),
        ("3az-standby", "node.kill", {"target": "group cm"}, False),
        ("3az-standby", "node.kill", {"target": "2 of group cm"}, False),
        ("3az-standby", "node.kill", {"target": "role data"}, False),
        ("3az-standby", "network.drop", {"links": "around everything in zone c"}, True),
        ("3az-standby", "network.drop", {"links": "between group cm and group cm"}, False),
        ("3az-standby", "network.drop", {"links": "between zone a and zone b"}, True),
        ("3az-standby", "network.drop", {"links": "between group cm and role data"}, False),
        ("3az-standby", "network.drop", {"links": "from clients to role data"}, True),
        ("2az", "node.kill", {"target": "zone a"}, False),
        ("2az", "node.kill", {"target": "zone b"}, True),
        ("3az-standby-2data", "node.kill", {"target": "zone c"}, True),
        ("3az-standby-2data", "node.kill", {"target": "group data"}, False),
        ("planted-no-replicas", "node.kill", {"target": "node c-data"}, False),
        ("planted-no-replicas", "node.kill", {"target": "elected cluster manager"}, True),
    ],
)
def test_a_majority_and_a_copy_are_spared_or_not(
    name: str, kind: str, parameters: dict[str, str], enough: bool
) -> None:
    found = hits(of(kind, **parameters), named(name), OFFERS)
    assert all(spared(named(name), [hit], Limits()) for hit in found) == enough
    assert all(spared(named(name), [hit], Limits(quorum_loss=True, all_copies=True)) for hit in found)


def drawn_at(begin: int, end: int, params: FaultParams, on: Topology) -> Drawn:
    return Drawn(begin, end, params, hits(params, on, OFFERS))


@pytest.mark.parametrize(
    ("first", "second", "may"),
    [
        (("node.kill", {"target": "node c-data"}), ("node.pause", {"target": "node c-data"}), False),
        (("node.kill", {"target": "node c-data"}), ("node.pause", {"target": "node b-data"}), True),
        (("node.kill", {"target": "node c-cm"}), ("network.drop", {"links": "to node b-cm"}), False),
        # nothing is left to prove it on
        (("node.kill", {"target": "node c-data"}), ("network.drop", {"links": "to node c-data"}), False),
        # it could not come back while its links to the managers are cut
        (("node.kill", {"target": "node c-data"}), ("network.drop", {"links": "to zone c"}), False),
        # right before its end, when it is to be looked at again, its node stands still
        (
            ("network.hang", {"links": "from node a-data to node c-data"}),
            ("node.pause", {"target": "node c-data"}),
            False,
        ),
    ],
)
def test_what_may_begin_beside_another(first: tuple, second: tuple, may: bool) -> None:
    on = named("3az-standby")
    one = drawn_at(0, 20, of(first[0], **first[1]), on)
    other = drawn_at(5, 30, of(second[0], **second[1]), on)
    assert nemesis.may_begin([one], other, on, Limits()) == may


def test_what_begins_together_must_leave_each_something_to_prove() -> None:
    on = named("3az-standby")
    slow = drawn_at(0, 20, of("network.bandwidth", links="from node c-data to node a-data", rate="256KiB/s"), on)
    pause = of("node.pause", target="node a-data")
    assert not nemesis.may_begin([slow], drawn_at(0, 10, pause, on), on, Limits())
    assert nemesis.may_begin([slow], drawn_at(1, 10, pause, on), on, Limits())


def test_data_that_was_lost_stays_lost() -> None:
    on = named("3az-standby")
    lost = [drawn_at(0, 5, of("node.loss", target="node a-data"), on)]
    lost.append(drawn_at(100, 105, of("node.loss", target="node b-data"), on))
    assert not nemesis.may_begin(lost, drawn_at(300, 310, of("node.loss", target="node c-data"), on), on, Limits())
    assert nemesis.may_begin(lost, drawn_at(300, 310, of("node.loss", target="node b-data"), on), on, Limits())


def test_whoever_is_elected_is_reckoned_with() -> None:
    found = hits(of("node.kill", target="elected cluster manager"), named("3az-standby"), OFFERS)
    assert {next(iter(hit.nodes)) for hit in found} == {"a-cm", "b-cm", "c-cm"}
    with pytest.raises(InvalidInput):
        hits(of("node.kill", target="elected cluster manager and role data"), named("3az-standby"), OFFERS)
    assert spared(named("3az-standby"), [Hit(frozenset(), frozenset(), frozenset())], Limits())
