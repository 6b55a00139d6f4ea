"""Documents that wait to be found are looked for together, once a round, and each gets its own answer."""

from __future__ import annotations

from collections.abc import Sequence

import gevent
import pytest

from chaos.load import visibility
from chaos.load.visibility import Looked, Rounds


def test_all_that_wait_share_a_search_and_each_gets_its_own_answer() -> None:
    asked: list[list[str]] = []

    def search(ids: Sequence[str]) -> dict[str, Looked]:
        asked.append(list(ids))
        return {id: Looked(len(asked), int(id == "v-1")) for id in ids}

    rounds = Rounds(search, pause_s=0.001)
    looks = [gevent.spawn(rounds.look, f"v-{n}") for n in range(3)]
    gevent.joinall(looks)
    assert sorted(id for ids in asked for id in ids) == ["v-0", "v-1", "v-2"] and len(asked) <= 2
    assert [look.value.hits for look in looks] == [0, 1, 0]
    before = len(asked)
    gevent.sleep(0.02)
    assert len(asked) == before, "nothing waits, so nothing is asked"
    look = rounds.look("v-1")
    assert look is not None and look.hits == 1 and asked[-1] == ["v-1"]


def test_a_round_that_cannot_be_asked_lets_all_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gevent.get_hub(), "print_exception", lambda *_: None)

    def search(ids: Sequence[str]) -> dict[str, Looked]:
        if ids == ["v-0"]:
            raise OSError("no room for another connection")
        return {id: Looked(1, 1) for id in ids}

    rounds = Rounds(search, pause_s=0.001)
    assert rounds.look("v-0") is None
    found = rounds.look("v-1")
    assert found is not None and found.hits == 1


def test_a_search_is_for_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visibility, "MOST_SOUGHT", 4)
    sizes: list[int] = []

    def search(ids: Sequence[str]) -> dict[str, Looked]:
        sizes.append(len(ids))
        return {id: Looked(1, 1) for id in ids}

    rounds = Rounds(search, pause_s=0.001)
    looks = [gevent.spawn(rounds.look, f"v-{n}") for n in range(10)]
    gevent.joinall(looks)
    assert max(sizes) <= 4 and sum(sizes) == 10 and all(look.value for look in looks)
