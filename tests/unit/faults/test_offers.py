"""Who carries a kind out: what nobody knows of is lacking, a target's order decides, and names are taken once."""

from __future__ import annotations

import pytest

from chaos.base.errors import InvalidInput, Lacking
from chaos.definitions import load_topology
from chaos.faults import moves
from chaos.faults.fault import Grade
from chaos.faults.kinds.network import NetworkDrop
from chaos.faults.kinds.zone import ZoneIsolation
from chaos.faults.offers import Means, Provider, Providers
from chaos.registry import FAULTS
from chaos.targets.labs import kinds


def provider(name: str, *needs: str, of: type = NetworkDrop) -> Provider:
    made = Provider(name, "another means", grade=Grade.PATH)
    made.carries_out(of, mechanism=name, undoing="undone", needs=needs)(lambda params, aim: Means(()))
    return made


@pytest.mark.parametrize("kind", ["local"])
def test_a_capability_that_nobody_knows_is_lacking(kind: str) -> None:
    lacks = kinds.lacks(kind, load_topology("3az"))
    assert lacks("process") is None and lacks("proces") == f"a {kind} lab has no 'proces'"
    offers = Providers([provider("theirs", "ssh")], FAULTS).on(lacks)
    assert offers.reasons("network.drop") == [f"a {kind} lab has no 'ssh'"]
    with pytest.raises(Lacking, match="no 'ssh'"):
        offers.chosen("network.drop")


def test_where_two_offer_the_same_the_target_s_order_decides_and_then_ours() -> None:
    both = Providers([provider("ours"), provider("theirs")], FAULTS)
    assert both.on().chosen("network.drop").provider == "ours"
    assert both.on(order=("theirs",)).chosen("network.drop").provider == "theirs"
    assert both.on(order=("nobody", "theirs", "ours")).chosen("network.drop").provider == "theirs"
    picky = Providers([provider("ours", "ssh"), provider("theirs")], FAULTS)
    assert picky.on({"ssh": "no ssh here"}.get, ("ours",)).chosen("network.drop").provider == "theirs"


def test_the_order_holds_between_a_kind_and_the_one_that_it_is_made_of() -> None:
    whole = provider("whole", of=ZoneIsolation)
    assert ZoneIsolation.made_of is not None
    parts = provider("parts", of=FAULTS[ZoneIsolation.made_of])
    offered = Providers([whole, parts], FAULTS)
    assert offered.on().chosen("zone.isolation").provider == "whole"
    assert offered.on(order=("parts", "whole")).chosen("zone.isolation").provider == "parts"


def test_a_move_is_carried_out_by_whoever_named_it_first() -> None:
    """A ledger finds what undoes a move by its name: another package must not take it."""
    name = "toxic.add"
    ours = moves.known(name)

    def theirs(lab: object) -> None: ...

    theirs.__module__ = "their.package"
    with pytest.raises(InvalidInput, match=r"their\.package brings a move 'toxic\.add'"):
        moves.operation(name)(theirs)
    assert moves.known(name) is ours
    assert moves.operation(name)(ours) is ours  # a module that is loaded again
