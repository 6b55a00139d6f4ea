"""When others suffer too much: not before, not by chance, and never in silence."""

from __future__ import annotations

import json
import math
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as some

from chaos.base.errors import Aborted, InvalidInput
from chaos.definitions.existing import Foreign
from chaos.instruments import foreign_traffic as foreign
from chaos.instruments import neighbour_impact
from chaos.instruments.foreign_traffic import Asking, Sampled, Unheard, Way
from chaos.instruments.neighbour_impact import (
    SILENT_SECONDS,
    Impact,
    Seen,
    Slower,
    Verdicts,
    Worse,
    baseline_seconds,
    enough_for_fewer,
    enough_for_slower,
)
from chaos.opensearch.foreign import COUNTERS, WHO, Grown
from chaos.run import on_target
from chaos.run.stopping import Stop
from chaos.targets.existing.compare import Sign
from chaos.targets.labs.processes import wait_until


def limits(**given: Any) -> Foreign:
    return Foreign.model_validate({"search": {"slower": "3x", "fewer": "50%"}} | given)


def sample(searches: float = 100, ms: float = 10, documents: float = 0, seconds: float = 2.0) -> Grown:
    """``ms``: of each search."""
    return Grown(seconds, int(searches), int(searches * ms), int(documents), int(documents) * 2, int(documents), 0, 6)


CALM = [sample() for _ in range(15)]


def judged(samples: list[Grown], baseline: list[Grown] = CALM, **given: Any) -> str | None:
    """What the first judge that ends the run says."""
    judges = Verdicts.by(limits(**given), baseline).judges
    return next((why for each in samples for judge in judges if (why := judge.take(each)) is not None), None)


def test_it_ends_after_its_time_and_not_before_and_says_what_suffered() -> None:
    bad = sample(searches=20)
    assert judged([bad] * 4) is None
    assert judged([bad] * 5) == (
        "others had 10 searches per second for 10 s, and 50 before the run did anything: 80% fewer, "
        "and the file allows 50%"
    )
    assert judged([sample(ms=40)] * 5) == (
        "a search of a shard of others took 40 ms on average for 10 s, and 10 ms before the run did anything: "
        "4 times as long, and the file allows 3x"
    )


def test_one_good_sample_begins_the_count_anew() -> None:
    bad = sample(searches=20)
    assert judged([bad] * 4 + [sample()] + [bad] * 4) is None


def test_what_the_file_allows_ends_nothing() -> None:
    assert judged([sample(searches=51)] * 50) is None and judged([sample(ms=29)] * 50) is None
    assert judged([sample(searches=200, ms=5)] * 50) is None, "more and faster is no harm"


def test_a_short_time_that_grew_by_pauses_alone_is_not_slower() -> None:
    fast = [sample(ms=0.5) for _ in range(15)]
    assert judged([sample(ms=5)] * 50, fast) is None
    assert judged([sample(ms=6)] * 50, fast) is not None


def test_searches_that_all_hang_are_fewer() -> None:
    assert "100% fewer" in (judged([sample(searches=0)] * 5) or "")


def test_indexing_is_judged_by_documents_and_timed_by_copies() -> None:
    given = {"search": None, "indexing": {"slower": "3x", "fewer": "50%"}}
    before = [sample(documents=100) for _ in range(15)]
    assert "documents indexed" in (judged([sample(documents=10)] * 5, before, **given) or "")
    assert judged([sample(documents=100, searches=0)] * 50, before, **given) is None
    seen = Seen.of("indexing", [Grown(2.0, 0, 0, 100, 300, 900, 0, 6)])
    assert (seen.rate, seen.mean) == (50.0, 3.0)


def test_with_little_traffic_blocks_are_longer_and_a_baseline_without_enough_decides_nothing() -> None:
    few = [sample(searches=20) for _ in range(15)]  # 84 are needed: 10 s of it
    assert judged([sample(searches=0)] * 4, few) is None and judged([sample(searches=0)] * 5, few) is not None
    found = Verdicts.by(limits(), [sample(searches=2) for _ in range(15)])
    assert found.judges == ()
    assert found.undecided == (
        "foreign search, fewer: nothing ends the run: 30 searches in 30 s, and 84 are needed",
        "foreign search, slower: nothing ends the run: 30 searches in 30 s, and 63 are needed",
    )
    assert len(Verdicts.by(limits(), []).undecided) == 2


def test_a_baseline_that_would_itself_end_a_run_decides_nothing() -> None:
    bursts = [sample(searches=1000) for _ in range(5)] + [sample(searches=0) for _ in range(10)]
    found = Verdicts.by(limits(), bursts)
    assert [type(judge) for judge in found.judges] == [Slower]
    assert "varied by more than that before the run did anything" in found.undecided[0]


@given(some.lists(some.integers(0, 300), min_size=15, max_size=15), some.lists(some.integers(0, 300), max_size=40))
def test_no_traffic_makes_it_fail_and_only_worse_traffic_ends_a_run(before: list[int], later: list[int]) -> None:
    baseline = [sample(searches=n) for n in before]
    verdicts = Verdicts.by(limits(), baseline)
    assert len(verdicts.judges) + len(verdicts.undecided) == 2
    rate = sum(before) / 30
    for judge in verdicts.judges:
        whys = [judge.take(sample(searches=n)) for n in later]
        if isinstance(judge, Slower):
            assert not any(whys), "each took as long as before"
        elif any(whys):
            assert min(later) < rate, "some sample had less than half of it"


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5, 0.8, 0.95])
def test_chance_makes_a_calm_rate_fall_so_far_once_in_some_ten_thousand_times(share: float) -> None:
    """Of n + m requests in two blocks alike, the chance that the later has m or fewer."""
    n = enough_for_fewer(share)
    m = math.floor((1 - share) * n)
    chance = sum(math.comb(n + m, k) for k in range(m + 1)) / 2 ** (n + m)
    assert chance < 2e-4, chance


def test_a_smaller_change_needs_more_requests() -> None:
    shares, factors = [0.05, 0.2, 0.5, 0.9], [1.2, 1.5, 2.0, 3.0, 10.0]
    assert all(a > b for a, b in pairwise(map(enough_for_fewer, shares)))
    assert all(a >= b for a, b in pairwise(map(enough_for_slower, factors)))
    assert enough_for_fewer(0.5) == 84 and enough_for_slower(3.0) == 63 and enough_for_slower(100.0) == 30


def test_a_baseline_is_three_times_as_long_as_it_may_be_worse() -> None:
    assert baseline_seconds(limits()) == 30.0 and baseline_seconds(limits(**{"for": "4s"})) == 20.0


# ---- the guard ---------------------------------------------------------------------------------------


def sampled(**given: Any) -> Any:
    return SimpleNamespace(**{"grown": [], "heard": 100.0, "why": None, "alive": lambda: True} | given)


def test_the_guard_judges_each_sample_once_and_none_of_the_baseline() -> None:
    made = sampled(grown=[(100.0, sample(searches=0))] * 7)
    guard = Worse(made, Verdicts.by(limits(), CALM).judges, 7)
    for _ in range(100):
        assert guard.tripped(100.0) is None
    made.grown += [(100.0, sample(searches=0))] * 4
    assert guard.tripped(100.0) is None and guard.tripped(100.0) is None
    made.grown += [(100.0, sample(searches=0))]
    assert "100% fewer" in (guard.tripped(100.0) or "")


def test_one_that_hears_nothing_or_is_dead_ends_the_run() -> None:
    guard = Worse(sampled(why="es-1: timed out"), [], 0)
    assert guard.tripped(100.0 + SILENT_SECONDS) is None
    assert guard.tripped(100.1 + SILENT_SECONDS) == (
        "it cannot be evaluated: nothing was heard of what others do for 6 s (es-1: timed out)"
    )
    assert "is dead" in (Worse(sampled(alive=lambda: False), [], 0).tripped(100.0) or "")


# ---- who is asked ------------------------------------------------------------------------------------

LED = {"cluster_uuid": "u", "cluster_manager_node": "x"}
TARGET: Any = SimpleNamespace(
    written=SimpleNamespace(identity=SimpleNamespace(cluster_uuid="u"), prefix="oschaos-", notes=".notes", foreign=None)
)


def answers(searches: int, **more: Any) -> dict[str, Any]:
    copy = {
        "search": {"query_total": searches, "query_time_in_millis": 10 * searches},
        "indexing": {"index_total": 0, "index_time_in_millis": 0, "index_failed": 0},
    }
    shards = {"orders": [{"0": copy}], ".notes": [{"0": copy}]}
    return {"_nodes": {"successful": 1, "failed": 0}, "nodes": {"n": {"indices": {"shards": shards}}}} | more


class Node:
    """One address. ``who``, ``counters``: what it answers there; an exception is raised."""

    def __init__(self, name: str, who: Any = LED, counters: Any = None) -> None:
        self.name, self.who, self.counters = name, who, answers(1) if counters is None else counters
        self.asked: list[str] = []

    @property
    def way(self) -> Way:
        return Way(self.name, self.get)

    def get(self, path: str, seconds: float) -> tuple[int, Any]:
        self.asked.append(path)
        found = {WHO: self.who, COUNTERS: self.counters}[path]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, tuple) else (200, found)


HANGS = urllib3.exceptions.ReadTimeoutError(None, WHO, "timed out")  # type: ignore[arg-type]


def asking(*nodes: Node) -> Asking:
    return Asking([node.way for node in nodes], TARGET)


@pytest.mark.parametrize(
    ("who", "why"),
    [
        (HANGS, "timed out"),
        ((503, None), "answered 503"),
        ({"cluster_uuid": "u"}, foreign.ALONE),
        ({"cluster_uuid": "v", "cluster_manager_node": "x"}, "is another cluster"),
        ([], "cannot be read"),
    ],
)
def test_who_is_not_in_the_cluster_is_not_asked_for_counters(who: Any, why: str) -> None:
    lost, well = Node("one", who), Node("two")
    ask = asking(lost, well)
    assert list(ask.ask().copies) == [("orders", "0", "n")]
    assert COUNTERS not in lost.asked
    ask.ask()
    assert len(lost.asked) == 1, "whoever answered last is asked first"
    if why != foreign.ALONE:
        with pytest.raises(Unheard, match=why):
            asking(Node("one", who)).ask()


def test_while_nobody_is_elected_whoever_answered_last_is_asked() -> None:
    nobody = {"cluster_uuid": "u", "cluster_manager_node": None}
    one, two = Node("one", nobody), Node("two", nobody)
    ask = asking(one, two)
    assert ask.ask().nodes == 1 and COUNTERS in one.asked and COUNTERS not in two.asked
    one.who = HANGS
    with pytest.raises(Unheard, match="timed out"):
        ask.ask()


def test_who_does_not_count_is_asked_last_the_next_time() -> None:
    slow, well = Node("one", counters=HANGS), Node("two")
    ask = asking(slow, well)
    with pytest.raises(Unheard, match="one, for the counters of its shards: "):
        ask.ask()
    assert ask.ask().nodes == 1


@pytest.mark.parametrize(
    "wrong", [{}, (403, {"error": "no permissions"}), {"_nodes": {"successful": 1, "failed": 0.5}}]
)
def test_counters_that_are_none_are_no_calm(wrong: Any) -> None:
    with pytest.raises(Unheard):
        asking(Node("one", counters=wrong)).ask()


# ---- all of it ---------------------------------------------------------------------------------------


class Theirs(Node):
    """A cluster whose others do ``rate`` searches between two questions."""

    def __init__(self) -> None:
        super().__init__("one")
        self.rate, self.total = 100, 0

    def get(self, path: str, seconds: float) -> tuple[int, Any]:
        if path == COUNTERS and not isinstance(self.counters, Exception):
            self.total += self.rate
            self.counters = answers(self.total)
        return super().get(path, seconds)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Theirs:
    made = Theirs()

    class Ways:
        def __enter__(self) -> tuple[Way, ...]:
            return (made.way,)

        def __exit__(self, *_: object) -> None:
            return

    monkeypatch.setattr(foreign, "ways_to", lambda target: Ways())
    monkeypatch.setattr(foreign, "PERIOD_SECONDS", 0.0)  # a tenth of a second is the least that it rests
    monkeypatch.setattr(neighbour_impact, "baseline_seconds", lambda limits: 0.5)
    return made


class Others:
    """What a run has of both instruments. ``said``: the limits that cannot be held."""

    def __init__(self, folder: Path, stop: Stop, given: Foreign | None, tick: Any = lambda says: None) -> None:
        self.said: list[str] = []
        self.sampled = Sampled(TARGET, folder / "foreign.jsonl", stop.fail)
        self.impact = Impact(given, lambda: self.sampled, stop.ask, tick, self.said.append)

    def begin(self) -> tuple[str, ...]:
        self.sampled.start()
        self.impact.start()
        return tuple(self.said)

    def stop(self) -> None:
        self.impact.stop()
        self.sampled.stop()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "foreign.jsonl").read_text().splitlines()]


def test_others_that_suffer_end_the_run_and_the_load_first(tmp_path: Path, theirs: Theirs) -> None:
    stop, ceased = Stop(), threading.Event()
    stop.at_once = ceased.set
    made = Others(tmp_path, stop, limits(**{"for": "4s"}), lambda says: stop.check())
    theirs.rate = 1000
    assert made.begin() == ()
    (baseline,) = [line for line in lines(tmp_path) if line["kind"] == "baseline"]
    assert baseline["judged"] == ["fewer search", "slower search"] and baseline["search"]["count"] >= 3000
    theirs.rate = 0
    assert ceased.wait(60) and stop.guard == "foreign" and "100% fewer" in (stop.reason or "")
    made.stop()
    made.stop()
    assert threading.active_count() < 50 and lines(tmp_path)[-1]["kind"] == "grown"


def test_without_limits_it_is_sampled_and_ends_nothing(tmp_path: Path, theirs: Theirs) -> None:
    stop = Stop()
    made = Others(tmp_path, stop, None, lambda says: pytest.fail("nothing is waited for"))
    assert made.begin() == ()
    theirs.counters = HANGS
    assert wait_until(lambda: (tmp_path / "foreign.jsonl").exists() and len(lines(tmp_path)) > 2, 60)
    made.stop()
    assert not stop.asked and lines(tmp_path)[-1]["kind"] == "missing"


def test_a_run_whose_others_cannot_be_heard_does_not_begin(
    tmp_path: Path, theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbour_impact, "SILENT_SECONDS", 0.3)
    stop = Stop()
    made = Others(tmp_path, stop, limits(), lambda says: stop.check())
    theirs.counters = HANGS
    with pytest.raises(Aborted, match="nothing was heard of what others do"):
        made.begin()
    made.stop()


def test_what_cannot_be_judged_is_said(tmp_path: Path, theirs: Theirs) -> None:
    theirs.rate = 0
    made = Others(tmp_path, Stop(), limits())
    said = made.begin()
    assert len(said) == 2 and all("nothing ends the run" in each for each in said)
    made.stop()


def test_one_that_was_never_begun_can_be_stopped(tmp_path: Path) -> None:
    Others(tmp_path, Stop(), limits()).stop()


def test_limits_that_no_instrument_can_hold_are_refused() -> None:
    """The file of the instrument that samples what others do is not there."""
    made = Impact(limits(), lambda: None, lambda why, guard: None, lambda says: None)
    with pytest.raises(InvalidInput, match="no instrument samples what they do"):
        made.start()
    Impact(None, lambda: None, lambda why, guard: None, lambda says: None).start()


def test_a_record_that_cannot_be_written_ends_the_run(tmp_path: Path, theirs: Theirs) -> None:
    stop = Stop()
    made = Sampled(TARGET, Path("/dev/full"), stop.fail)
    made.start()
    assert wait_until(lambda: stop.asked, 60) and "cannot be written" in (stop.failure or "")
    made.stop()


def test_a_stop_tells_the_load_once_and_whoever_asks() -> None:
    told: list[str | None] = []
    stop = Stop()
    stop.at_once = lambda: told.append(stop.reason)
    stop.fail("the record is broken")
    stop.ask("and a guard", "foreign")
    assert told == ["the record is broken"]


def test_what_the_file_limits_and_nobody_may_read_forbids_a_run(theirs: Theirs) -> None:
    def target(given: Foreign | None) -> Any:
        return SimpleNamespace(written=SimpleNamespace(**{**TARGET.written.__dict__, "foreign": given}))

    assert on_target.refused_instruments(target(limits())) == []
    theirs.counters = (403, {"error": "no permissions"})
    theirs.get = lambda path, seconds: Node.get(theirs, path, seconds)  # type: ignore[method-assign]
    (row,) = on_target.refused_instruments(target(limits()))
    assert (
        row.sign is Sign.BLOCKS and "cannot be sampled: one, for the counters of its shards: answered 403" in row.says
    )
    assert on_target.refused_instruments(target(None)) == [], "what is only shown forbids nothing"
