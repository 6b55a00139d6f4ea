"""Bad windows and stable recovery by the binomial rule, on traces whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import Chapter, Story, constant, mixed

from chaos.checks import regained
from chaos.checks.measure import Bound
from chaos.checks.record import Record
from chaos.history.format import Outcome

TRUTH = 24
TRACE = ((0, 12, 1.0), (15, 19, 0.25), (21, 24, 0.05))
"""A flapping recovery: 12 s outage, 3 s lull, 25 % for 4 s, 2 s lull, 5 % for 3 s."""
SECONDS = 60
TRIALS = 300


def share_lost(second: int) -> float:
    return next((share for start, end, share in TRACE if start <= second < end), 0.0005)


def ends(rate: int, alpha: float | None, seconds: int = SECONDS, seed: int = 1) -> np.ndarray:
    """When the last bad window was over, in each of 300 trials. ``alpha`` None: the strict definition."""
    rng = np.random.default_rng(seed)
    lost = np.array([share_lost(second) for second in range(seconds)])
    level = regained.alpha_of(seconds) if alpha is None else alpha
    found = []
    for failed in rng.binomial(rate, lost, (TRIALS, seconds)):
        bad = regained.are_bad(np.full(seconds, rate), failed, regained.FLOOR, level)
        found.append(int(np.flatnonzero(bad).max()) + 1)
    return np.array(found)


@pytest.mark.parametrize("alpha", [regained.ALPHA, None])
@pytest.mark.parametrize(("rate", "early"), [(100, 0.15), (500, 0.0)])
def test_the_last_bad_window_of_a_flapping_outage_is_found_by_both_definitions(
    rate: int, early: float, alpha: float | None
) -> None:
    found = ends(rate, alpha)
    assert np.median(found) == TRUTH
    assert np.mean(found < TRUTH) <= early and np.mean(found < TRUTH - 1) <= early / 5
    assert np.mean(found > TRUTH) <= 0.02


@pytest.mark.parametrize("rate", [20, 50, 100])
def test_a_whole_run_finds_it_to_the_width_of_its_windows(rate: int) -> None:
    """Fewer arrivals make wider windows and so a coarser answer, never one after the first lull."""
    parts = [(start, end, share, Outcome.TIMEOUT, 5.0) for start, end, share in TRACE]
    for seed in range(8):
        hit = Chapter("hit", SECONDS, read=constant(), write=mixed(*parts, base=constant())).fault(at=0.0)
        story = Story(chapters=[Chapter("healthy", 20, write=constant()), hit], rate=rate, seed=seed)
        record = Record(story.history())
        found, width = regained.measure(record, "write", record.spans[1]), record.window("write")
        assert found.bound is Bound.EXACT and found.value is not None
        assert max(19, TRUTH - 2 * width) <= found.value <= TRUTH + width


def test_the_first_good_windows_would_have_been_wrong_every_time() -> None:
    """Why the last bad window counts: one good second, or three, come after 12 s already."""
    rng = np.random.default_rng(1)
    lost = np.array([share_lost(second) for second in range(SECONDS)])
    for failed in rng.binomial(100, lost, (50, SECONDS)):
        bad = regained.are_bad(np.full(SECONDS, 100), failed, regained.FLOOR, regained.alpha_of(SECONDS))
        for k in (1, 3):
            assert next(i for i in range(SECONDS) if not bad[i : i + k].any()) == 12


def test_only_the_strict_definition_bounds_false_alarms_however_long_the_phase_is() -> None:
    """An hour without a fault, exactly as bad as is tolerated: at most one phase in a hundred seems to have lost it."""
    rng = np.random.default_rng(3)
    windows, phases = 3600, 400
    failed = rng.binomial(100, regained.FLOOR, (phases, windows))
    most = {
        name: regained.tolerated(100, regained.FLOOR, level)
        for name, level in (("strict", regained.alpha_of(windows)), ("fixed", regained.ALPHA))
    }
    alarms = {name: float((failed.max(axis=1) > limit).mean()) for name, limit in most.items()}
    assert alarms["strict"] <= 0.02
    assert alarms["fixed"] > 0.3


@given(st.integers(1, 10**6))
def test_the_level_of_one_window_never_exceeds_its_share_nor_the_most(number: int) -> None:
    alpha = regained.alpha_of(number)
    assert alpha <= regained.ALPHA and alpha * number <= max(regained.FAMILY, regained.ALPHA) + 1e-12


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=1, max_size=30), st.floats(1e-3, 0.2))
def test_a_stricter_level_finds_no_more_bad_windows_and_an_empty_one_is_always_bad(
    counts: list[tuple[int, int]], p0: float
) -> None:
    scheduled = np.array([n for n, _ in counts])
    failed = np.array([min(n, f) for n, f in counts])
    loose, strict = (regained.are_bad(scheduled, failed, p0, level) for level in (1e-3, 1e-5))
    assert not (strict & ~loose).any()
    assert loose[scheduled == 0].all() and strict[scheduled == 0].all()
    assert not strict[(failed == 0) & (scheduled > 0)].any()


def _killed_at_the_edge(broke_before: bool, by_phase: bool = True) -> Record:
    """Nodes are killed at the second phase's start: the last twenty of the healthy phase's writes are in flight then.

    ``broke_before``: these were answered before the kill, so they failed by something else.
    """
    edge = mixed((59.0, 60.0, 1.0, Outcome.RESET, 0.01 if broke_before else 1.2), base=constant())
    hit = Chapter("hit", 30, read=constant(), write=constant(Outcome.REFUSED)).fault(at=0.05)
    chapters = [Chapter("healthy", 60, read=constant(), write=edge), hit]
    history = Story(chapters=chapters, rate=20, good_within=4.0).history()
    if by_phase:
        history.plan[regained.BY_PHASE] = True
    return Record(history)


def test_what_a_fault_meets_in_flight_is_no_outage_of_the_phase_before_it() -> None:
    record = _killed_at_the_edge(broke_before=False)
    assert record.in_phase("write", record.spans[0]).good.all()
    before, hit = (regained.measure(record, "write", span) for span in record.spans)
    assert (before.value, before.bound) == (0.0, Bound.EXACT)
    assert hit.bound is Bound.MORE_THAN


def test_what_failed_before_the_fault_stays_an_outage_of_its_phase() -> None:
    record = _killed_at_the_edge(broke_before=True)
    before = regained.measure(record, "write", record.spans[0])
    assert before.bound is Bound.MORE_THAN and before.value == pytest.approx(60.0, abs=0.1)


def test_a_run_of_before_is_judged_as_it_was() -> None:
    record = _killed_at_the_edge(broke_before=False, by_phase=False)
    before = regained.measure(record, "write", record.spans[0])
    assert before.bound is Bound.MORE_THAN and before.value == pytest.approx(60.0, abs=0.1)
