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


def test_rounds_over_the_healthy_ones_each_operation_by_itself():
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


# -- whose turn it is --------------------------------------------------------------------------------


def balancer_of(nodes: int, seed: int) -> Balancer:
    found = Balancer(range(nodes), seed=seed)
    for node in range(nodes):
        found.observe(node, True)
    return found


seeds = st.integers(0, 2**64 - 1)


@given(st.integers(1, 9), st.integers(0, 40), seeds, st.data())
def test_over_n_rounds_every_node_gets_n_of_each_operation_however_they_alternate(nodes, rounds, seed, data):
    balancer = balancer_of(nodes, seed)
    left = {op: rounds * nodes for op in (0, 1, 1000)}
    chosen: dict[int, Counter[int]] = {op: Counter() for op in left}
    while open_ := [op for op, number in left.items() if number]:
        op = open_[0] if len(open_) == 1 or rounds > 5 else data.draw(st.sampled_from(open_))
        left[op] -= 1
        chosen[op][balancer.choose(op)] += 1
    for counts in chosen.values():
        assert counts == Counter(dict.fromkeys(range(nodes), rounds)) or not rounds


@given(st.integers(2, 6), seeds, st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 7)), max_size=40))
def test_nodes_that_come_and_go_leave_the_others_their_turns(nodes, seed, changes):
    """Those that stay in service get every round's one turn, whatever the others do."""
    balancer = Balancer(range(nodes), up=1, down=1, seed=seed)
    for node in range(nodes):
        balancer.observe(node, True)
    counts: Counter[int] = Counter()
    stayed = set(range(nodes))
    for node, ok, turns in changes:
        balancer.observe(node % nodes, ok)
        if len(balancer.in_use) < nodes:
            stayed &= set(balancer.in_use)
        for _ in range(turns):
            chosen = balancer.choose(0)
            assert chosen in balancer.in_use
            counts[chosen] += 1
    there = [counts[node] for node in stayed]
    assert not there or max(there) - min(there) <= 1


@given(st.integers(2, 5), seeds)
def test_two_operations_that_alternate_are_not_in_step(nodes, seed):
    """Of 600 pairs, 1 in n goes to the same node twice: far from all and far from none."""
    balancer = balancer_of(nodes, seed)
    same = sum(balancer.choose(0) == balancer.choose(1) for _ in range(600))
    assert abs(same / 600 - 1 / nodes) < 0.15  # six standard deviations


@given(st.integers(2, 5), seeds)
def test_the_same_seed_gives_the_same_choices_and_another_one_others(nodes, seed):
    first, again, other = (balancer_of(nodes, s) for s in (seed, seed, seed + 1))
    ops = [op for number in range(60) for op in (0, number % 2)]
    choices = [first.choose(op) for op in ops]
    assert choices == [again.choose(op) for op in ops]
    assert choices != [other.choose(op) for op in ops]


def test_a_node_that_flaps_does_not_begin_the_same_order_again():
    balancer = Balancer(range(3), up=1, down=1, seed=3)
    for node in range(3):
        balancer.observe(node, True)
    first: Counter[int] = Counter()
    for number in range(300):
        balancer.observe(2, number % 2 == 0)
        first[balancer.choose(0)] += 1
    assert first[0] > 100 and first[1] > 100 and abs(first[0] - first[1]) <= 1 and first[2] > 40
