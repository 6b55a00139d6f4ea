"""How long a cluster may take to notice that a node is gone, by its own settings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.definitions import load_topology
from chaos.definitions.detection import SETTINGS, Detection, read


def test_the_defaults_of_opensearch() -> None:
    """Three checks of 10 s with pauses of 1 s, and a check may have just begun; 62 to 70 s were measured where the
    elected one was in the zone that vanished."""
    stock = Detection()
    assert stock.follower == stock.leader == 34
    assert stock.within("by checks", managers=False) == 34
    assert stock.within("by checks") == 34 + 10 + 34
    assert stock.within("at once") == 12 and stock.within("at once", managers=False) == 2
    assert stock.within("by checks of the disk", managers=False) == 34 + 120
    assert stock.within("hardly", managers=False) == 34


def test_a_tuned_topology_notices_sooner() -> None:
    tuned = Detection.planned(load_topology("3az-tuned"))
    assert tuned.follower < 10 and tuned.within("by checks") < Detection().follower
    assert Detection.planned(load_topology("3az-standby")) == Detection()


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("10s", 10), ("500ms", 0.5), ("1m", 60), ("3", 3), (3, 3), ("-1", None), ("fast", None), (None, None)],
)
def test_a_time_as_opensearch_writes_it(value: object, seconds: float | None) -> None:
    assert read(value) == seconds


def test_what_cannot_be_read_is_as_by_default() -> None:
    assert Detection.of({SETTINGS["follower_timeout"]: "??", "other": "1s"}) == Detection()
    assert Detection.of({SETTINGS["follower_timeout"]: "2s"}).follower == 1 + 3 * 3
    assert Detection.longest([]) == Detection()


@given(st.dictionaries(st.sampled_from(sorted(SETTINGS.values())), st.integers(0, 300).map(lambda n: f"{n}s")))
def test_a_longer_setting_never_shortens_it(given_: dict[str, str]) -> None:
    short = Detection.of(given_)
    longer = Detection.longest([short, Detection()])
    for how in ("at once", "by checks", "by checks of the disk", "hardly"):
        assert longer.within(how) >= max(short.within(how), Detection().within(how)) - 1e-9  # type: ignore[arg-type]
        assert short.within(how) >= short.within(how, managers=False)  # type: ignore[arg-type]
