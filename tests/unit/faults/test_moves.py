"""Moves: data that survives JSON, each with an inverse that takes back exactly what it did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import FakeLab
from hypothesis import given
from hypothesis import strategies as st
from making import block, refuse, toxic

from chaos.base.errors import FaultError
from chaos.faults.ledger import Entry, Ledger
from chaos.faults.lifecycle import undo_entries
from chaos.faults.moves import Move, Reversible, on_node

hosts = st.sampled_from(["a-cm", "b-data", "client-a"])
names = st.text("abc-", min_size=1, max_size=4)
reversibles = st.one_of(
    st.builds(
        toxic,
        hosts,
        names,
        names,
        st.sampled_from(["latency", "timeout"]),
        st.sampled_from(["upstream", "downstream"]),
        st.dictionaries(names, st.integers(0, 500), max_size=2),
    ),
    st.builds(refuse, hosts, names),
    st.builds(block, hosts, hosts),
    st.builds(
        lambda pair, node: on_node(*pair, node),
        st.sampled_from([("node.kill", "node.start"), ("node.stop", "node.start"), ("node.pause", "node.resume")]),
        hosts,
    ),
)


@given(reversibles)
def test_json_round_trip(both: Reversible) -> None:
    for move in (both.move, both.inverse):
        assert move is not None
        assert Move.from_json(json.loads(json.dumps(move.to_json()))) == move


@given(st.lists(reversibles, max_size=8))
def test_inverses_last_in_first_out_take_back_exactly_what_moves_did(all_of_them: list[Reversible]) -> None:
    lab = FakeLab()
    for both in all_of_them:
        both.move.apply(lab)
    for both in reversed(all_of_them):
        assert both.inverse is not None
        both.inverse.apply(lab)
    assert lab.effects == set()


@given(reversibles)
def test_moves_and_inverses_are_idempotent_and_the_inverse_of_the_inverse_is_the_move(both: Reversible) -> None:
    assert both.inverse is not None
    lab = FakeLab()
    both.inverse.apply(lab)  # undoing what never came through does no harm
    assert lab.effects == set()
    both.move.apply(lab)
    once = set(lab.effects)
    assert len(once) == 1
    both.move.apply(lab)
    assert lab.effects == once
    both.inverse.apply(lab)
    both.inverse.apply(lab)
    assert lab.effects == set()
    both.move.apply(lab)
    assert lab.effects == once


@given(reversibles)
def test_a_move_and_its_inverse_happen_in_the_same_place(both: Reversible) -> None:
    """Undo runs host by host in order: a pair that spans two hosts could overtake itself."""
    assert both.inverse is not None
    assert both.move.where == both.inverse.where != "cluster"


def test_an_unknown_operation_is_neither_intended_nor_carried_out(tmp_path: Path) -> None:
    unknown, nothing, ledger = Move("iptables.flush"), Move("nothing"), Ledger(tmp_path / "ledger.jsonl")
    with pytest.raises(FaultError, match=r"nobody here can make the move iptables\.flush"):
        unknown.apply(FakeLab())
    for both in (Reversible(unknown, nothing), Reversible(nothing, unknown)):
        with pytest.raises(FaultError, match=r"nobody here can make the move iptables\.flush"):
            ledger.intend("f1", [Reversible(nothing, nothing), both])
    assert ledger.path.read_bytes() == b""


def test_one_inverse_that_nobody_here_can_make_keeps_no_other_from_being_undone(tmp_path: Path) -> None:
    lab, ledger = FakeLab(), Ledger(tmp_path / "ledger.jsonl")
    both = block("a-data", "b-data")
    both.move.apply(lab)
    (entry,) = ledger.intend("f1", [both])
    foreign = Entry(7, "f2", Move("nothing", {"node": "a-data"}), Move("their.undo", {"node": "a-data"}))
    (failed,) = undo_entries(lab, ledger, [foreign, entry])
    assert "nobody here can make the move their.undo" in failed and lab.effects == set()


def test_what_cannot_be_taken_back_says_so() -> None:
    assert on_node("node.wipe", None, "a-data").inverse is None


def test_a_move_says_what_and_where() -> None:
    assert str(block("a-data", "b-data").move) == "neighbour.block host=a-data peer=b-data"
