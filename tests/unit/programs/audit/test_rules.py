"""The rules: each finds its planted weakness, none passes on what is missing, nothing worse is graded better."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import manager_sizes as sizes
import pytest
from audited import (
    MISSING,
    NOT_FORCED,
    PROBLEMS,
    ZONES,
    healthy,
    large,
    left_set,
    of_index,
    of_nodes,
    often,
    with_replicas,
    with_settings,
)
from fakes import topology
from hypothesis import assume, given
from hypothesis import strategies as st
from shipped import TOPOLOGIES

from chaos.definitions.topology import AWARENESS
from chaos.programs.audit import RULES, Status, Workload, audit, definition, documentation, limits
from chaos.programs.audit import rules as checklist
from chaos.programs.audit.answers import Partial, usage
from chaos.programs.audit.catalogue import Row, worst
from chaos.programs.audit.facts import (
    BALANCE,
    CAT_LIMITS,
    FOLLOWER,
    GIB,
    STOCK,
    WATERMARK,
    Index,
    Settings,
    Sheet,
    Usage,
    seconds,
)
from chaos.programs.audit.rules import checked, regained


def graded(sheet: Sheet, workload: Workload = Workload.SEARCH) -> dict[str, Status]:
    return {row.rule.id: row.status for row in audit(sheet, workload)}


def row(sheet: Sheet, rule: str) -> Row:
    return next(row for row in audit(sheet) if row.rule.id == rule)


def value(sheet: Sheet, rule: str) -> str:
    return row(sheet, rule).value


def test_a_healthy_cluster_satisfies_every_rule() -> None:
    assert set(graded(healthy()).values()) == {Status.OK}
    assert worst(audit(healthy())) is Status.OK


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_planted_weakness_is_found(problem: str) -> None:
    rule, status, change = PROBLEMS[problem]
    assert graded(change(healthy()))[rule] == status


def test_every_rule_has_a_planted_weakness_and_a_missing_fact() -> None:
    assert {rule for rule, _, _ in PROBLEMS.values()} == {rule.id for rule in RULES}
    assert {rule for rules, _ in MISSING.values() for rule in rules} == {rule.id for rule in RULES}


@pytest.mark.parametrize("missing", MISSING)
def test_what_is_missing_never_passes_and_says_why(missing: str) -> None:
    rules, change = MISSING[missing]
    rows = {row.rule.id: row for row in audit(change(healthy()))}
    for rule in rules:
        # awareness that nobody set is a fact: OpenSearch has none then
        assert rows[rule].status is (Status.FAIL if missing == AWARENESS else Status.UNKNOWN), (missing, rule)
        assert rows[rule].value.strip(), (missing, rule)


def test_nothing_known_is_all_unknown() -> None:
    rows = audit(Sheet("nobody", unread={"nodes": "GET /_nodes answered 403: no permissions"}))
    assert {row.status for row in rows} == {Status.UNKNOWN}
    assert "403" in rows[0].value


def worse(changes: Sequence[str]) -> Sheet:
    sheet = healthy()
    for name in changes:
        sheet = PROBLEMS[name][2](sheet)
    return sheet


@given(
    st.lists(st.sampled_from(sorted(PROBLEMS)), max_size=5),
    st.sampled_from([name for name in MISSING if " of one" not in name]),
    st.sampled_from(Workload),
)
def test_what_is_missing_never_passes_whatever_else_is_wrong(problems: list[str], missing: str, work: Workload) -> None:
    assume((missing, "no repository" in problems) != ("the time", True))  # where there is none, none has an age
    rules, change = MISSING[missing]
    rows = graded(change(worse(problems)), work)
    assert [rule for rule in rules if rows[rule] in (Status.OK, Status.INFO, Status.WARN)] == []


@given(st.lists(st.sampled_from(sorted(PROBLEMS)), max_size=5), st.sampled_from(sorted(PROBLEMS)))
def test_one_more_problem_is_found_whatever_else_is_wrong(problems: list[str], last: str) -> None:
    before, after = worse(problems), worse([*problems, last])
    assume(after != before)  # the node that it is about may be one that another problem has taken away
    assert graded(after)[PROBLEMS[last][0]] is not Status.OK


@given(
    st.lists(st.floats(0, 100), min_size=3, max_size=3),
    st.lists(st.floats(0, 100), min_size=3, max_size=3),
)
def test_more_work_never_grades_better(before: list[float], added: list[float]) -> None:
    def working(cpu: Sequence[float]) -> Sheet:
        by_name = dict(zip((f"{zone}-data" for zone in ZONES), cpu, strict=True))
        return of_nodes(lambda n: replace(n, cpu=by_name[n.name]), lambda n: n.is_data)(healthy())

    less, more = working(before), working([min(100.0, b + a) for b, a in zip(before, added, strict=True)])
    assert graded(more)["cpu"].badness >= graded(less)["cpu"].badness


@given(st.integers(1, 10), st.floats(0.1, 60), st.floats(0.1, 10), st.floats(0, 60))
def test_slower_settings_are_never_found_sooner(count: int, timeout: float, interval: float, publish: float) -> None:
    once = checked(count, timeout, interval)
    assert checked(count + 1, timeout, interval) > once and checked(count, timeout + 1, interval) > once
    assert max(regained(once, once, publish)) >= once


def test_stock_settings_take_a_minute_to_see_a_black_hole_as_measured() -> None:
    """Labs with stock settings measured 62 to 66 s, with 1 s, 1 s and 3 s 7 to 9 s."""
    assert regained(checked(3, 10, 1), checked(3, 10, 1), 30)[0] == 62
    assert regained(checked(3, 1, 1), checked(3, 1, 1), 3)[0] == 8
    stock = replace(healthy(), settings=Settings({}, STOCK))
    assert "62 s with the elected manager elsewhere, 64 s with it" in value(stock, "detection")
    assert graded(stock)["detection"] is Status.FAIL


def test_the_most_of_three_zones_is_between_fifty_and_sixty_percent() -> None:
    """The article's headroom for the loss of one of three zones."""
    grades = {}
    for cpu in (50, 53, 54, 60, 61):
        grades[cpu] = graded(of_nodes(lambda n, cpu=cpu: replace(n, cpu=float(cpu)))(healthy()))["cpu"]
    assert grades == {50: "ok", 53: "ok", 54: "warn", 60: "warn", 61: "fail"}


def test_a_larger_node_counts_for_more() -> None:
    busy = of_nodes(lambda n: replace(n, processors=32, cpu=70.0), lambda n: n.name == "a-data")(healthy())
    assert graded(busy)["cpu"] is Status.FAIL  # 2240 + 640 processor-percent on 16 processors
    assert "without zone a" in value(busy, "cpu")


@pytest.mark.parametrize(("nodes", "memory"), [(10, 8), (11, 16), (30, 16), (31, 32), (75, 32), (76, 64), (126, 128)])
def test_managers_grow_with_the_nodes(nodes: int, memory: int) -> None:
    sheet = healthy()
    data = tuple(replace(sheet.data[0], name=f"n{number}") for number in range(nodes))
    for size, status in ((memory, Status.OK), (memory * 0.85, Status.FAIL)):
        managers = tuple(
            replace(m, memory=int(size * GIB), heap=int(min(size / 2, 31.9) * GIB)) for m in sheet.managers
        )
        assert graded(replace(sheet, nodes=managers + data))["managers.size"] is status
    small = tuple(replace(m, memory=memory * GIB, heap=GIB) for m in sheet.managers)
    assert graded(replace(sheet, nodes=small + data))["managers.size"] is Status.FAIL


def test_the_size_of_shards_is_a_matter_of_the_workload() -> None:
    sheet = healthy(size=45 * GIB)
    assert graded(sheet, Workload.LOGS)["shards.size"] is Status.OK
    assert graded(sheet, Workload.SEARCH)["shards.size"] is Status.FAIL
    one = healthy(shards=1, size=GIB)  # one small shard cannot be fewer
    assert graded(one)["shards.size"] is Status.OK


def test_a_setting_is_the_clusters_then_the_nodes_then_the_default() -> None:
    """The defaults that a cluster tells are those of the node that was asked, its opensearch.yml included."""
    name = f"{FOLLOWER}.timeout"
    sheet = replace(healthy(), settings=Settings({}, {**STOCK, name: "1s"}))
    node, other = sheet.managers[:2]
    assert sheet.setting(name, node) == "1s"
    mixed = of_nodes(lambda n: replace(n, settings={name: "1s"}), lambda n: n.name == node.name)(sheet)
    assert mixed.setting(name, mixed.managers[0]) == "1s"
    assert mixed.setting(name, other) == "10s"
    assert with_settings(**{name.replace(".", "__"): "5s"})(mixed).setting(name, mixed.managers[0]) == "5s"


def test_a_cluster_that_refuses_uneven_copies_is_said_to() -> None:
    refuses = "any other number is refused"
    strict = with_settings(**{BALANCE.replace(".", "__"): "true"})(healthy())
    assert refuses in value(strict, "copies") and refuses not in value(healthy(), "copies")
    one = replace(healthy(), settings=Settings({}, STOCK))
    one = of_nodes(lambda n: replace(n, settings={BALANCE: "true"}), lambda n: n.name == "a-cm")(one)
    assert refuses not in value(one, "copies")  # another one may be elected
    assert graded(replace(strict, settings=None))["copies"] is Status.OK


def test_one_manager_without_awareness_is_enough_to_fail() -> None:
    sheet = replace(healthy(), settings=Settings({}, {**STOCK, AWARENESS: "zone"}))
    some = of_nodes(lambda n: replace(n, settings={AWARENESS: "zone"}), lambda n: n.name != "b-cm")(sheet)
    assert graded(some)["awareness"] is Status.FAIL and "b-cm" in value(some, "awareness")


@pytest.mark.parametrize(
    ("written", "is_"), [("10s", 10), ("30000ms", 30), ("1m", 60), ("0.5h", 1800), ("-1", None), ("soon", None)]
)
def test_times_as_opensearch_writes_them(written: str, is_: float | None) -> None:
    assert seconds(written) == is_


def test_a_topology_says_what_it_says_and_the_rest_is_unknown() -> None:
    rows = graded(definition.sheet(topology("3az-tuned")))
    assert rows["zones"] is rows["awareness.forced"] is rows["detection"] is Status.OK
    assert rows["managers.size"] is Status.FAIL  # 256 MiB
    for live in ("copies.placed", "copies.started", "shards.size", "cpu", "heap", "heap.size", "storage"):
        assert rows[live] is Status.UNKNOWN
    assert graded(definition.sheet(topology("3az")))["detection"] is Status.FAIL
    assert graded(definition.sheet(topology("planted-no-awareness")))["awareness"] is Status.FAIL
    assert graded(definition.sheet(topology("planted-one-manager")))["managers.dedicated"] is Status.FAIL
    assert graded(definition.sheet(topology("2az")))["zones"] is Status.WARN
    assert graded(definition.sheet(topology("3az"), "rack"))["zones"] is Status.FAIL


def of_leftovers(name: str) -> dict[str, tuple[Status, str]]:
    """The rows of a shipped topology that are not the published checklist's."""
    rows = audit(definition.sheet(topology(name)))
    return {row.rule.id: (row.status, row.value) for row in rows if row.rule.look.__module__ != checklist.__name__}


@pytest.mark.parametrize("name", [path.stem for path in TOPOLOGIES if not path.stem.startswith("planted-")])
def test_no_shipped_topology_that_is_healthy_has_anything_left_behind(name: str) -> None:
    for rule, (status, value) in of_leftovers(name).items():
        assert status in (Status.OK, Status.INFO) or (status, value) == (Status.UNKNOWN, definition.LIVE), (rule, value)


def test_what_is_planted_in_a_shipped_topology_is_found() -> None:
    assert of_leftovers("planted-async")["durability"][0] is Status.WARN
    assert of_leftovers("planted-no-awareness")["tiers.copies"] == (
        Status.FAIL,
        "one node or one zone: zone c (c-data, c-more)",
    )


def test_a_large_cluster_is_judged_in_no_time() -> None:
    sheet = large()
    assert len(sheet.copies or ()) >= 20_000
    began = time.process_time()  # a busy machine is no finding
    assert graded(sheet)["copies.placed"] is not Status.UNKNOWN
    assert time.process_time() - began < 5  # 0.7 s here


def test_every_rule_says_what_why_and_where_it_is_published() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.title and rule.says.endswith(".") and rule.remedy.endswith(".")
        assert rule.source.url.startswith(
            (
                *("https://docs.aws.amazon.com/", "https://docs.opensearch.org/", "https://aws."),
                "https://github.com/opensearch-project/OpenSearch/blob/main/",
            )
        )
        assert rule.needs and set(rule.needs) <= {field.name for field in fields(Sheet)}


def test_the_outcome_is_the_worst_row() -> None:
    def code(sheet: Sheet) -> tuple[str, int]:
        found = documentation.to_json(sheet, Workload.SEARCH, audit(sheet))
        return found["outcome"], found["exit_code"]

    unread = MISSING["indices"][1]
    assert code(healthy()) == ("pass", 0)
    assert code(PROBLEMS["two copies in three zones"][2](healthy())) == ("pass", 0)  # a warning fails nothing
    assert code(unread(healthy())) == ("inconclusive", 3)
    assert code(unread(PROBLEMS["awareness off"][2](healthy()))) == ("weakness", 1)


def test_the_documentation_is_current() -> None:
    assert documentation.FILE.read_text() == documentation.markdown(), f"run: {documentation.COMMAND} > docs/audit.md"


def test_what_monitoring_costs_is_what_was_recorded_and_published() -> None:
    """The row's figures are those of docs/cluster-managers.md, which is made of the same record."""
    measured = sizes.rows(sizes.recorded())
    at = {entries: sizes.predicted(measured, sizes.PUBLISHED_CALLS, 3, entries) for entries in (0, 1000)}
    none, thousand = at[0], at[1000]
    assert none is not None and thousand is not None
    assert pytest.approx(none[0], abs=0.006) == limits.MEASURED_MS
    assert pytest.approx(thousand[0] - none[0], abs=0.006) == limits.MEASURED_MS_PER_1000
    scale = sizes.PUBLISHED_PROCESSORS / 100 * 300 / (sizes.PUBLISHED_ENTRIES / 1000)
    without, checked = (slope * scale for _, slope in sizes.published_slopes())
    assert pytest.approx(checked, abs=0.01) == limits.PUBLISHED_MS_PER_1000
    assert pytest.approx(without, abs=0.01) == limits.UNCHECKED_MS_PER_1000
    found = sizes.line(measured, "cat-shards", "asked")
    assert found is not None and 90 < found[0].at(limits.TABLE_ENTRIES / 1000)[0] < 130  # a tenth of a second
    assert max(row["entries"] for row in measured) == limits.TABLE_ENTRIES


def test_what_each_call_costs_is_what_was_recorded() -> None:
    """The table is that of docs/cluster-managers.md, whose calls are named by what is asked."""
    measured = sizes.rows(sizes.recorded())
    called = {"settings": "index-settings", "health": "health", "pending-cluster-tasks": "pending", "state": "state"}
    called |= {"stats": "cluster-stats"}
    for action, cost in limits.COSTS.items():
        name = action.removesuffix("_action").replace("_", "-").removeprefix("get-")
        name = called.get(name.removeprefix("cluster-"), name).replace("indices-stats", "index-stats")
        found = sizes.line(measured, called.get(name, name), "manager")
        assert found is not None, name
        assert cost == pytest.approx([max(0.0, term) for term in found[0].terms], abs=0.006), name


def test_calls_are_counted_in_their_own_time_and_a_call_more_never_grades_better() -> None:
    answer = {
        "_nodes": {"failed": 0},
        "nodes": {
            "one": {"since": 0, "timestamp": 100_000, "rest_actions": {"cluster_stats_action": 200}},
            "two": {"since": 50_000, "timestamp": 150_000, "rest_actions": {"cluster_stats_action": 100}},
            "new": {"since": 99_000, "timestamp": 100_000, "rest_actions": {"cluster_stats_action": 9}},
        },
    }
    found = usage(answer)
    assert found == ({"cluster_stats_action": 3.0}, 100.0, 1)
    assert graded(replace(healthy(), usage=found))["managers.asked"] is Status.UNKNOWN  # one has only just begun
    none = usage({"nodes": {"new": answer["nodes"]["new"]}})
    assert none == ({}, 0.0, 1) and graded(replace(healthy(), usage=none))["managers.asked"] is Status.UNKNOWN
    with pytest.raises(Partial, match="1 nodes did not answer"):
        usage({**answer, "_nodes": {"failed": 1}})
    grades = [graded(replace(healthy(), usage=often(rate)))["managers.asked"] for rate in (0.0, 100.0, 300.0, 600.0)]
    assert grades == [Status.OK, Status.OK, Status.WARN, Status.FAIL]
    unmeasured = Usage({"cat_nodes_action": 7.0, "get_action": 5000.0}, 3600.0)
    said = value(replace(healthy(), usage=unmeasured), "managers.asked")
    assert said == "0 % of 2 processors, counted over 1 h; not measured: cat_nodes 7/s"


def test_more_shards_or_fewer_processors_of_managers_never_grade_better() -> None:
    grades = []
    for copies in (100, 40_000, 70_000, 130_000):
        sheet = healthy()
        sheet = replace(sheet, indices=(*(sheet.indices or ()), Index("many", 1, copies - 1)))
        one = of_nodes(lambda n: replace(n, processors=1), lambda n: n.name == "b-cm")(sheet)
        assert graded(one)["managers.calls"].badness >= graded(sheet)["managers.calls"].badness
        grades.append(graded(sheet)["managers.calls"])
    assert grades == [Status.OK, Status.OK, Status.WARN, Status.FAIL]


@pytest.mark.parametrize(
    ("version", "given", "status"),
    [
        ("3.8.0", {}, Status.OK),
        ("3.8.0", {"put-mapping": "10"}, Status.OK),
        ("3.8.0", {"put-mapping": "10", "create-index": "-1"}, Status.WARN),
        ("2.19.6", {}, Status.WARN),
        ("2.19.6", {"create-index": "50"}, Status.OK),
    ],
)
def test_tasks_are_throttled_by_default_since_3_and_by_what_is_set_before(
    version: str, given: dict[str, str], status: Status
) -> None:
    names = {f"cluster_manager.throttling.thresholds.{kind}.value": value for kind, value in given.items()}
    sheet = replace(healthy(), version=version)
    assert sheet.settings is not None
    sheet = replace(sheet, settings=replace(sheet.settings, explicit=names))
    assert graded(sheet)["protection.tasks"] is status
    assert all(kind in value(sheet, "protection.tasks") for kind in given)


def test_tables_have_a_limit_each_only_where_all_were_told() -> None:
    limited = with_settings(**{name.replace(".", "__"): "100" for name in CAT_LIMITS})(healthy())
    assert value(limited, "limits.tables") == "12 shard copies; each has a limit"
    unsaid = MISSING["cat.shards.response.limit.number_of_shards"][1](limited)
    said = "12 shard copies; cat.shards.response.limit.number_of_shards: this cluster does not say it"
    assert (row(unsaid, "limits.tables").status, value(unsaid, "limits.tables")) == (Status.UNKNOWN, said)


def test_nodes_of_a_good_tier_are_not_named_with_a_bad_one() -> None:
    tiered = PROBLEMS["a tier of one node"][2](healthy())  # c-data is the warm one
    small = of_nodes(lambda n: replace(n, heap=8 * GIB, limit=8 * GIB * 7 // 10), lambda n: n.name == "b-data")(tiered)
    found = row(small, "tiers.heap")
    assert (found.status, found.nodes, found.value) == (Status.WARN, ("b-data",), "temp hot: heap 8 GiB to 16 GiB")


@pytest.mark.parametrize(
    ("limit", "replicas", "status", "says"),
    [
        ("4", (2, 2), Status.OK, "room enough"),  # two nodes can hold 8 of the 12 copies
        ("4", (2, 5), Status.OK, "room enough"),  # more copies than nodes: the others have no place anyhow
        ("3", (2, 2), Status.FAIL, "3 for 12 copies on 3 nodes"),
        ("2", (0, 1), Status.WARN, "2 for 6 copies on 2 nodes after the loss of one"),
    ],
)
def test_the_cluster_s_limit_is_held_against_copies_that_find_a_place(
    limit: str, replicas: tuple[int, int], status: Status, says: str
) -> None:
    indices = tuple(Index(f"i{number}", 2, each) for number, each in enumerate(replicas))
    set_to = left_set(cluster__routing__allocation__total_shards_per_node=limit)
    sheet = set_to(replace(healthy(), indices=indices))
    found = row(sheet, "shards.limit")
    assert found.status is status and says in found.value, found.value


def test_a_node_that_may_hold_nothing_of_an_index_leaves_as_many_copies_when_it_is_lost() -> None:
    """Of an index that is kept off a-data both copies stay where a-data is lost: one node more has to hold them."""
    off = Index("off", 3, 2, {"routing.allocation.exclude.zone": "a"})
    set_to = left_set(cluster__routing__allocation__total_shards_per_node="2")
    found = row(set_to(replace(healthy(), indices=(off,))), "shards.limit")
    assert found.status is Status.WARN and "2 for 6 copies on 2 nodes after the loss of one" in found.value


BOXES = of_nodes(lambda n: replace(n, attributes={**n.attributes, "box": "warm" if n.zone == "c" else "hot"}))
"""Two nodes of one box, and one of another."""


def test_a_node_needs_every_value_that_is_required_of_it() -> None:
    """DiscoveryNodeFilters.match: ``require`` asks for all values of an attribute, ``include`` for one of them."""
    required = of_index(routing__allocation__require__box="hot,warm")(BOXES(healthy()))
    assert row(required, "index.filters").status is Status.FAIL
    assert "box hot,warm (no node)" in value(required, "tiers.copies")
    included = of_index(routing__allocation__include__box="hot,warm")(BOXES(healthy()))
    assert row(included, "index.filters").status is row(included, "tiers.copies").status is Status.OK
    cluster = left_set(cluster__routing__allocation__require__box="hot,warm")(BOXES(healthy()))
    assert "keeps copies off a-data, b-data, c-data" in value(cluster, "left.excludes")
    both = of_index(routing__allocation__require__box="h*,*t")(with_replicas(1)(BOXES(healthy())))
    assert row(both, "index.filters").status is Status.OK  # two nodes have both


def test_of_addresses_one_that_is_required_is_enough() -> None:
    address = {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}
    sheet = of_nodes(lambda n: replace(n, ip=address[n.zone or ""]))(healthy())
    bound = of_index(routing__allocation__require___ip=",".join(address.values()))(sheet)
    assert row(bound, "index.filters").status is Status.WARN  # bound, and not without a node
    fewer = of_index(routing__allocation__require___ip="10.0.0.1,10.0.0.2")(sheet)
    assert row(fewer, "index.filters").status is Status.FAIL


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("_host", "10.0.0.1,node-b.internal,10.0.0.3"),
        ("_host", "*.internal"),
        ("_host_ip", "10.0.0.*"),
        ("_publish_ip", "10.0.0.1,10.0.0.2,10.0.0.3"),
        ("name", "a-data,b-data,c-data"),
    ],
)
def test_a_node_is_known_by_its_address_its_host_s_name_and_its_own(key: str, values: str) -> None:
    """DiscoveryNodeFilters.match: ``_host`` is the name or the address, and ``name`` is ``_name``."""
    sheet = of_nodes(
        lambda n: replace(n, ip=f"10.0.0.{'abc'.index(n.zone or '') + 1}", host=f"node-{n.zone}.internal")
    )(healthy())
    included = of_index(**{f"routing__allocation__include__{key}": values})(sheet)
    assert row(included, "index.filters").status is Status.WARN, "bound, and not without a node"
    excluded = of_index(**{f"routing__allocation__exclude__{key}": values})(sheet)
    assert row(excluded, "index.filters").status is Status.FAIL, "no node is left"
    named: dict[str, Any] = {f"cluster__routing__allocation__exclude__{key}": values}
    cluster = left_set(**named)(sheet)
    assert "keeps copies off a-data, b-data, c-data" in value(cluster, "left.excludes")
    assert row(cluster, "left.excludes").status is Status.FAIL


def test_of_a_node_whose_host_is_not_known_in_full_only_a_match_is_known() -> None:
    sheet = of_nodes(lambda n: replace(n, ip="10.0.0.1", host=None))(healthy())
    found = row(left_set(cluster__routing__allocation__exclude___host="node-a")(sheet), "left.excludes")
    assert found.status is Status.WARN and "which nodes that are is not known" in found.value
    found = row(left_set(cluster__routing__allocation__exclude___host="10.0.0.1")(sheet), "left.excludes")
    assert found.status is Status.FAIL


def test_a_preference_of_tiers_that_another_system_left_keeps_nothing_anywhere() -> None:
    """DiscoveryNodeFilters.trimTier: OpenSearch heeds no filter of that name, of an index or of the cluster."""
    preferred = of_index(routing__allocation__include___tier_preference="data_warm,data_hot")(healthy())
    assert row(preferred, "index.filters").status is row(preferred, "tiers.copies").status is Status.OK
    cluster = left_set(cluster__routing__allocation__require___tier="data_hot")(healthy())
    assert row(cluster, "left.excludes").status is Status.OK
    beside = of_index(
        routing__allocation__include___tier_preference="data_hot", routing__allocation__include__zone="nowhere"
    )(healthy())
    assert row(beside, "index.filters").status is Status.FAIL, "the other filter holds all the same"


@pytest.mark.parametrize("values", ["hot*", "hot1,hot2,hot3", "hot3, hot2 ,hot1", "hot1,*2,*3"])
def test_a_tier_is_all_the_nodes_that_a_filter_takes(values: str) -> None:
    number = {"a": 1, "b": 2, "c": 3}
    sheet = of_nodes(lambda n: replace(n, attributes={**n.attributes, "box": f"hot{number[n.zone or '']}"}))(healthy())
    tier = of_index(routing__allocation__include__box=values)(sheet)
    assert row(tier, "tiers.copies").status is Status.OK, value(tier, "tiers.copies")
    assert value(tier, "tiers.heap") == "alike in 1 tier"
    unlike = of_nodes(lambda n: replace(n, heap=8 * GIB), lambda n: n.name == "c-data")(tier)
    assert row(unlike, "tiers.heap").nodes == ("c-data",)
    alone = of_index(routing__allocation__exclude__zone="b,c")(tier)
    assert row(alone, "tiers.copies").nodes == ("a-data",) and "not zone b,c (a-data)" in value(alone, "tiers.copies")


def test_an_index_that_includes_either_of_two_attributes_may_lie_on_nodes_of_both() -> None:
    either = of_index(routing__allocation__include__box="warm", routing__allocation__include__zone="a")(
        BOXES(healthy())
    )
    assert row(either, "tiers.copies").status is Status.OK
    named = of_index(routing__allocation__include__box="warm", routing__allocation__include___name="a-data")
    assert row(named(BOXES(healthy())), "tiers.copies").status is Status.OK


def silent(*zones: str, facts: tuple[str, ...]) -> Callable[[Sheet], Sheet]:
    """Data nodes of these zones did not answer what was asked of their statistics."""
    return of_nodes(lambda n: replace(n, **dict.fromkeys(facts)), lambda n: n.is_data and n.zone in zones)


def test_nodes_that_did_not_answer_are_no_loss_of_processors() -> None:
    half = of_nodes(lambda n: replace(n, cpu=50.0))(healthy())
    two = row(silent("b", "c", facts=("cpu",))(half), "cpu")
    assert two.status is Status.UNKNOWN and "nothing survives" not in two.value
    assert "cpu of b-data, c-data: not said" in two.value
    one = row(silent("c", facts=("cpu",))(half), "cpu")  # 800 processor-percent of two nodes, on 16 processors
    assert one.status is Status.UNKNOWN and "at least 50 % on the others" in one.value
    full = of_nodes(lambda n: replace(n, cpu=88.0, processors=12 if n.zone == "a" else 4))(healthy())
    assert row(silent("c", facts=("cpu",))(full), "cpu").status is Status.FAIL  # whatever the silent one does
    alone = of_nodes(lambda n: replace(n, zone="a"))(half)
    assert (
        "nothing survives the loss of its zone" in row(alone, "cpu").value and row(alone, "cpu").status is Status.FAIL
    )


def test_nodes_that_did_not_answer_are_no_loss_of_storage() -> None:
    sheet = NOT_FORCED(healthy())
    two = row(silent("b", "c", facts=("disk", "disk_free"))(sheet), "storage.zone")
    assert two.status is Status.UNKNOWN and "disk of b-data, c-data: not said" in two.value
    fuller = of_nodes(lambda n: replace(n, disk_free=240 * GIB), lambda n: n.is_data)(sheet)
    assert row(fuller, "storage.zone").status is Status.OK  # 780 of 1000
    assert row(silent("c", facts=("disk", "disk_free"))(fuller), "storage.zone").status is Status.UNKNOWN
    full = of_nodes(lambda n: replace(n, disk_free=20 * GIB), lambda n: n.is_data)(sheet)
    proven = row(silent("c", facts=("disk_free",))(full), "storage.zone")
    assert proven.status is Status.FAIL and "at least 96 %" in proven.value
    alone = of_nodes(lambda n: replace(n, zone="a"))(sheet)
    assert row(alone, "storage.zone").status is Status.FAIL


FLOOD = f"{WATERMARK}.flood_stage"


def in_files(name: str, value: str, *, of: str = "") -> Callable[[Sheet], Sheet]:
    """In the opensearch.yml of nodes whose names end so."""
    return of_nodes(lambda n: replace(n, settings={**n.settings, name: value}), lambda n: n.name.endswith(of))


def test_what_the_cluster_sets_comes_before_opensearch_yml() -> None:
    raised = in_files(FLOOD, "99%")(healthy())
    assert value(raised, "left.watermarks") == f"{FLOOD}: 99% (in opensearch.yml)"
    assert row(raised, "left.watermarks").commands == ()  # no request takes that back
    mended = left_set(**{FLOOD.replace(".", "__"): "95%"})(raised)
    assert row(mended, "left.watermarks").status is Status.OK
    filtered = in_files("cluster.routing.allocation.exclude._name", "a-data")(healthy())
    assert row(filtered, "left.excludes").status is Status.FAIL
    cleared = left_set(cluster__routing__allocation__exclude___name="")(filtered)
    assert row(cleared, "left.excludes").status is Status.OK


def test_a_file_counts_where_its_node_decides() -> None:
    """The elected manager decides where copies go, and a data node how fast it copies."""
    assert row(in_files(FLOOD, "99%", of="-data")(healthy()), "left.watermarks").status is Status.OK
    one = in_files(FLOOD, "99%", of="b-cm")(healthy())
    assert row(one, "left.watermarks").status is Status.WARN  # it may be elected
    pace = in_files("indices.recovery.max_bytes_per_sec", "1mb", of="a-data")(healthy())
    assert row(pace, "left.recovery").status is Status.INFO


def test_a_node_that_runs_lives_with_most_of_its_own_file() -> None:
    """It would not have started with a window of nothing, and a cache of ``-1`` from the start has no limit."""
    for name, value in {
        "indices.fielddata.cache.size": "-1",
        "node.resource.tracker.global_cpu_usage.window_duration": "100ms",
    }.items():
        assert row(in_files(name, value)(healthy()), "settings.deadly").status is Status.OK, name
        by_api = left_set(**{name.replace(".", "__"): value})(healthy())
        assert row(by_api, "settings.deadly").status is Status.FAIL, name
    never = in_files("cluster_manager.throttling.thresholds.cluster-update-settings.value", "0", of="b-cm")(healthy())
    assert row(never, "settings.deadly").status is Status.FAIL


def test_what_a_topology_sets_for_its_nodes_is_looked_at() -> None:
    stock = topology("3az")

    def setting(**names: str | int) -> Sheet:
        node = {**stock.settings.node, **{name.replace("__", "."): value for name, value in names.items()}}
        settings = stock.settings.model_copy(update={"node": node})
        return definition.sheet(stock.model_copy(update={"settings": settings}))

    raised = setting(cluster__routing__allocation__disk__watermark__flood_stage="99%")
    assert row(raised, "left.watermarks").status is Status.WARN
    assert value(raised, "left.watermarks") == f"{FLOOD}: 99% (as written)"
    stopped = setting(cluster__routing__allocation__node_concurrent_recoveries=0)
    assert row(stopped, "left.recovery").status is Status.FAIL
    for deadly, status in (
        ({"cluster__publish__timeout": "1ms"}, Status.FAIL),
        ({"node__resource__tracker__global_cpu_usage__window_duration": "100ms"}, Status.FAIL),  # it would not start
        ({"indices__fielddata__cache__size": "-1"}, Status.OK),
    ):
        assert row(setting(**deadly), "settings.deadly").status is status, deadly
