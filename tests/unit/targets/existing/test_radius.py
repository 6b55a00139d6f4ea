"""Whether what is hit leaves the cluster its zones, its majority, and a copy of everything."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as some
from staging import file, seen

from chaos.opensearch.views import ShardCopy
from chaos.targets.existing import radius
from chaos.targets.existing.compare import Sign
from chaos.targets.existing.seen import Seen, SeenNode

FILE = file()
NODES = sorted(FILE.nodes)
VOTING = ("es-m-a", "es-m-b", "es-m-c")


def copy(index: str, shard: int, node: str | None, state: str = "STARTED") -> ShardCopy:
    return ShardCopy(index, shard, False, state, node)


SPREAD = tuple(copy("orders", 0, f"es-d-{zone}1") for zone in "abc")
SEEN = replace(seen(FILE), copies=SPREAD, voting=VOTING)


def signs(*hit: str, **changes: object) -> dict[str, Sign]:
    return {row.what: row.sign for row in radius.rows(hit, FILE, replace(SEEN, **changes))}


def test_one_zone_may_be_lost_where_everything_has_a_copy_elsewhere() -> None:
    assert set(signs("es-m-c", "es-d-c1", "es-d-c2").values()) == {Sign.SAME}
    assert set(signs().values()) == {Sign.SAME}


def test_what_is_too_much_is_named() -> None:
    assert signs("es-d-a1", "es-d-b1") == {"zones hit": Sign.BLOCKS, "votes": Sign.SAME, "shards": Sign.SAME}
    assert signs("es-m-c", voting=("es-m-b", "es-m-c"))["votes"] is Sign.BLOCKS  # one of two is no majority
    assert signs("es-m-c", voting=(*VOTING[:2], "an id of a node that is away"))["votes"] is Sign.SAME
    assert signs("es-m-a", voting=(*VOTING[:2], "an id of a node that is away"))["votes"] is Sign.BLOCKS
    alone = (*SPREAD, copy(".hidden", 0, "es-d-c1"))
    (_, _, shards) = radius.rows({"es-d-c1"}, FILE, replace(SEEN, copies=alone))
    assert shards.sign is Sign.BLOCKS and "no active copy elsewhere of 1 shard of .hidden" in shards.says
    assert signs("strange")["zones hit"] is Sign.UNKNOWN


def votes(hit: Collection[str], voteless: Collection[str], there: Seen = SEEN) -> Sign:
    return radius.rows(hit, FILE, there, voteless=voteless)[1].sign


def test_of_those_that_still_vote_a_majority_stays() -> None:
    assert votes((), ["es-m-a"]) is Sign.SAME
    assert votes(["es-m-a"], ["es-m-a"]) is Sign.SAME  # who has no vote may go
    assert votes(["es-m-b"], ["es-m-a"]) is Sign.BLOCKS
    assert votes(["es-d-b1"], ["es-m-a"]) is Sign.SAME
    assert votes((), ["es-m-a", "es-m-b"]) is Sign.SAME
    assert votes((), VOTING) is Sign.BLOCKS
    shrunk = replace(SEEN, voting=("es-m-b",))  # as it is while the vote is away
    assert votes((), ["es-m-a"], shrunk) is Sign.SAME and votes(["es-m-c"], ["es-m-a"], shrunk) is Sign.BLOCKS
    says = radius.rows(["es-m-b"], FILE, SEEN, voteless=["es-m-a"])[1].says
    assert says == "without es-m-a 1 of 2 nodes of the voting configuration stay: no majority"


def chosen(pool: list[str], before: int) -> set[frozenset[str]]:
    """The voting configurations that these live managers may end in: ``Reconfigurator`` of OpenSearch 3.8.0, asked
    again until it changes nothing. Who is elected comes first, so it may be any of them."""
    size = before
    while True:
        size, last = min(len(pool), max(len(pool) - 1 + len(pool) % 2, 1 if size < 3 else 3)), size
        if size == last:
            return set(map(frozenset, itertools.combinations(pool, size)))


managers = some.integers(3, 8).map(lambda count: [f"m{n}" for n in range(count)])


@settings(max_examples=examples(300))
@given(managers, some.data())
def test_a_majority_is_safe_where_it_stays_whatever_configuration_is_chosen(
    names: list[str], data: some.DataObject
) -> None:
    size = len(names) - 1 + len(names) % 2
    voting = tuple(names[:size])
    voteless = data.draw(some.sets(some.sampled_from(names), min_size=1))
    hit = data.draw(some.sets(some.sampled_from(names)))
    nodes = tuple(SeenNode(name, ("cluster_manager",), "a", "3.8.0") for name in names)
    pool = [name for name in names if name not in voteless]
    ways = chosen(pool, size) if pool else set()
    safe = bool(ways) and all(2 * len(way - hit) > len(way) for way in ways)
    there = replace(SEEN, nodes=nodes, voting=voting)
    assert (votes(hit, voteless, there) is Sign.SAME) is safe


def test_what_was_not_read_is_not_safe() -> None:
    assert signs(voting=None, copies=None) == {
        "zones hit": Sign.SAME,
        "votes": Sign.UNKNOWN,
        "shards": Sign.UNKNOWN,
    }


def test_an_index_that_its_owner_gives_away_is_spared_and_a_system_index_never() -> None:
    lone = replace(SEEN, copies=(copy("logs", 0, "es-d-c1"), copy(".kibana", 0, "es-d-c1")))
    shards = radius.rows({"es-d-c1"}, FILE, lone, accepted={"logs", ".kibana"})[2]
    assert shards.sign is Sign.BLOCKS and ".kibana" in shards.says and "logs" not in shards.says
    shards = radius.rows({"es-d-c1"}, FILE, replace(lone, copies=lone.copies[:1]), accepted={"logs"})[2]
    assert shards.sign is Sign.SAME and "of logs none, which the file accepts" in shards.says


MARKS = "cluster.routing.allocation.disk.watermark"


def filled(share: float | None, *nodes: str, accepted: Collection[str] = (), **changes: Any) -> str | None:
    """What forbids to fill the disks of these nodes; None: nothing does."""
    notes = changes.pop("notes", None)
    written = FILE.model_copy(update={"notes": notes})
    row = radius.filled(nodes, share, written, replace(SEEN, **changes), accepted=accepted, own={"mine"})
    assert row is None or (row.what == "disks" and row.sign in (Sign.BLOCKS, Sign.UNKNOWN))
    return None if row is None else row.says


@pytest.mark.parametrize(
    ("share", "marks", "beyond"),
    [
        (None, {}, "flood_stage (95%)"),
        (0.97, {}, "flood_stage (95%)"),
        (0.94, {}, "flood_stage (95%)"),  # the node goes on writing
        (0.92, {}, "high (90%)"),
        (0.87, {}, None),
        (0.6, {}, None),
        (0.87, {"high": "80%"}, "high (80%)"),
        (0.87, {"high": "0.7", "flood_stage": "0.8"}, "flood_stage (0.8)"),
        (0.6, {"high": "10gb", "flood_stage": "5gb"}, "flood_stage (5gb)"),
        (0.92, {"high": "96%", "flood_stage": "98%"}, None),
    ],
)
def test_a_disk_that_is_filled_to_a_watermark_of_the_cluster_hits_indices_of_others(
    share: float | None, marks: dict[str, str], beyond: str | None
) -> None:
    asked = {f"{MARKS}.{name}": mark for name, mark in marks.items()}
    says = filled(share, "es-d-c1", settings=asked)
    assert (says is None) is (beyond is None)
    assert says is None or (beyond is not None and f"beyond {beyond} indices" in says and "orders" in says)
    assert filled(share, "es-d-c1", settings=asked, accepted={"orders"}) is None
    assert filled(share, "es-d-c2", "es-m-c", settings=asked) is None, "nothing is there"


def test_a_full_disk_spares_what_is_the_run_s_own_and_never_a_hidden_index() -> None:
    here = (copy("mine", 0, "es-d-c1"), copy(".kibana", 0, "es-d-c1"), copy("orders", 0, "es-d-a1"))
    assert filled(0.97, "es-d-c1", copies=here[:1]) is None
    says = filled(0.97, "es-d-c1", copies=here, accepted={".kibana"})
    assert says is not None and says.endswith("take no more writes, on any node: .kibana")
    says = filled(0.92, "es-d-c1", copies=here)
    assert says is not None and says.endswith("have copies that are moved away: .kibana")


def test_beyond_the_flood_stage_a_run_could_not_write_its_notes() -> None:
    notes = ".opensearch-chaos"
    there = (copy(notes, 0, "es-d-a1"), copy(notes, 0, "es-d-c1"))
    assert filled(0.97, "es-d-c1", copies=there, notes=notes, accepted={notes}) is not None
    assert filled(0.97, "es-d-c2", copies=there, notes=notes) is None
    assert filled(0.92, "es-d-c1", copies=there, notes=notes) is None, "they are moved, which hurts nobody"
    assert filled(0.97, "es-d-c2", copies=(), notes=notes) is not None, "the first run gives each zone a copy"
    assert filled(0.97, "es-m-c", copies=(), notes=notes) is None


def test_what_a_full_disk_does_is_not_computed_without_watermarks_and_copies() -> None:
    unread = {"shards": "GET /_cluster/state answered 403", "awareness": "GET /_cluster/settings answered 403"}
    assert filled(0.6, "es-d-c1", copies=None, unread=unread) == unread["shards"]
    assert filled(0.6, "es-d-c1", settings=None, unread=unread) == unread["awareness"]


copies = some.lists(
    some.builds(
        copy,
        some.sampled_from(["one", "two"]),
        some.integers(0, 1),
        some.one_of(some.none(), some.sampled_from(NODES)),
        some.sampled_from(["STARTED", "RELOCATING", "INITIALIZING", "UNASSIGNED"]),
    ),
    max_size=12,
)


@settings(max_examples=examples(200))
@given(copies, some.sets(some.sampled_from(NODES)), some.sets(some.sampled_from(NODES)))
def test_safe_is_what_leaves_each_shard_an_active_copy_and_no_less_is_hit_by_more(
    given: list[ShardCopy], hit: set[str], more: set[str]
) -> None:
    there = replace(SEEN, copies=tuple(given))

    def kept(nodes: set[str]) -> bool:
        return radius.rows(nodes, FILE, there)[2].sign is Sign.SAME

    by_hand = {(each.index, each.shard) for each in given} == {
        (each.index, each.shard)
        for each in given
        if each.node is not None and each.node not in hit and each.state in ("STARTED", "RELOCATING")
    }
    assert kept(hit) is by_hand
    assert kept(hit) or not kept(hit | more)
    assert bool(radius.wrong(radius.rows(hit, FILE, there))) <= bool(radius.wrong(radius.rows(hit | more, FILE, there)))
