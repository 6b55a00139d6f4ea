from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from chaos.load.balancer import Balancer, Health


def test_the_first_result_decides_and_later_two_are_needed():
    health = Health(up=2, down=2)
    assert health.observe(True) and health.healthy
    assert not health.observe(False) and health.healthy
    assert health.observe(False) and not health.healthy
    assert not health.observe(True) and not health.healthy
    assert health.observe(True) and health.healthy


def test_results_must_come_in_a_row():
    health = Health(up=2, down=2, healthy=True)
    for ok in (False, True, False, True):
        assert not health.observe(ok)
    assert health.healthy


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 4), st.integers(1, 4))
def test_health_changes_only_after_enough_equal_results(results, up, down):
    health = Health(up, down)
    for number, ok in enumerate(results):
        before = health.healthy
        changed = health.observe(ok)
        assert changed == (health.healthy != before)
        if changed and before is not None:
            needed = up if ok else down
            assert results[number + 1 - needed : number + 1] == [ok] * needed


def test_round_robin_over_the_healthy_ones_each_operation_by_itself():
    balancer = Balancer([0, 1, 2])
    for node in (0, 1, 2):
        balancer.observe(node, node != 1)
    assert balancer.in_use == (0, 2)
    chosen = Counter((op, balancer.choose(op)) for _ in range(50) for op in (0, 1))
    assert set(chosen.values()) == {25}


def test_with_nothing_healthy_everything_is_tried():
    balancer = Balancer([0, 1])
    assert balancer.in_use == (0, 1)  # nothing known yet
    balancer.observe(0, False)
    balancer.observe(1, False)
    assert {balancer.choose(0) for _ in range(4)} == {0, 1}
