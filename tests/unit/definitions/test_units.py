"""Quantities: what is read, what is refused and how, and the laws of their texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.errors import InvalidInput
from chaos.base.units import Factor, Malformed
from chaos.definitions import Duration, Frequency, Percent, Rate, Size, SizeRate

positive = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Duration, "300ms", 0.3),
        (Duration, "20s", 20),
        (Duration, "8m", 480),
        (Duration, "2h", 7200),
        (Duration, "1.5 s", 1.5),
        (Duration, "0s", 0),
        (Rate, "100/s", 100),
        (Rate, "6000/min", 100),
        (Frequency, "2/year", 2),
        (Frequency, "1/month", 12),
        (Frequency, "0.5/week", 0.5 * 365.25 / 7),
        (Percent, "99.9%", 0.999),
        (Percent, "100%", 1),
        (Factor, "1.5x", 1.5),
        (Size, "256MiB", 256 * 2**20),
        (Size, "1GiB", 2**30),
        (Size, "512KiB", 512 * 2**10),
        (Size, "1.5KiB", 1536),
        (SizeRate, "256KiB/s", 256 * 2**10),
    ],
)
def test_what_people_write(kind: type, text: str, value: float) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Duration(0.3), "300ms"),
        (Duration(1.5), "1.5s"),
        (Duration(90), "90s"),
        (Duration(120), "2m"),
        (Duration(7200), "2h"),
        (Duration(0), "0s"),
        (Rate(100), "100/s"),
        (Rate.parse("1/min"), "1/min"),
        (Percent(0.999), "99.9%"),
        (Factor(3), "3x"),
        (Size(384 * 2**20), "384MiB"),
        (Size(0), "0B"),
        (SizeRate(2**20), "1MiB/s"),
    ],
)
def test_the_shortest_text(value: Duration, text: str) -> None:
    assert value.text == text


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (
            Duration,
            "20",
            "20 has no unit: a duration is a number and ms, s, m or h, for example 300ms or 20s or 8m",
        ),
        (
            Duration,
            "20 sec",
            "unknown unit 'sec' in '20 sec': a duration is a number and ms, s, m or h, for example 300ms or 20s or 8m",
        ),
        (
            Rate,
            "fast",
            "cannot read 'fast': a rate is a number and /s or /min, for example 100/s or 6000/min",
        ),
        (Rate, "100", "100 has no unit: a rate is a number and /s or /min, for example 100/s or 6000/min"),
        (
            Size,
            "256MB",
            "unknown unit 'MB' in '256MB': a size is a number and B, KiB, MiB or GiB, for example 256MiB or 1GiB",
        ),
        (
            Size,
            "0.3B",
            "0.3B is not a whole number of bytes: "
            "a size is a number and B, KiB, MiB or GiB, for example 256MiB or 1GiB",
        ),
        (
            SizeRate,
            "256KiB",
            "unknown unit 'KiB' in '256KiB': a throughput is a number and B/s, KiB/s, MiB/s or GiB/s, "
            "for example 256KiB/s or 1MiB/s",
        ),
        (Percent, "101%", "101% is more than 100%: a percentage is a number and %, for example 99.9%"),
        (
            Duration,
            "-3s",
            "cannot read '-3s': a duration is a number and ms, s, m or h, for example 300ms or 20s or 8m",
        ),
    ],
)
def test_what_is_refused(kind: type, text: str, says: str) -> None:
    with pytest.raises(Malformed) as caught:
        kind.parse(text)
    assert str(caught.value) == says
    assert isinstance(caught.value, InvalidInput)
    assert isinstance(caught.value, ValueError)


@given(positive)
def test_a_duration_survives_its_text(seconds: float) -> None:
    assert Duration.parse(Duration(seconds).text) == seconds


@given(positive)
def test_a_rate_survives_its_text(per_second: float) -> None:
    assert Rate.parse(Rate(per_second).text) == per_second


@given(st.integers(min_value=1, max_value=10**6))
def test_a_rate_per_minute_survives_its_text(per_minute: int) -> None:
    rate = Rate.parse(f"{per_minute}/min")
    assert Rate.parse(rate.text) == rate


@given(positive)
def test_a_frequency_survives_its_text(per_year: float) -> None:
    assert Frequency.parse(Frequency(per_year).text) == per_year


@given(st.floats(min_value=0, max_value=1))
def test_a_percentage_survives_its_text(fraction: float) -> None:
    assert Percent.parse(Percent(fraction).text) == fraction


@given(st.integers(min_value=0, max_value=2**60))
def test_sizes_survive_their_text(count: int) -> None:
    assert Size.parse(Size(count).text) == count
    assert SizeRate.parse(SizeRate(count).text) == count


@given(st.integers(min_value=0, max_value=10**6), st.integers(min_value=0, max_value=10**6))
def test_order_is_that_of_the_quantity_not_of_the_text(one: int, other: int) -> None:
    assert (Duration.parse(f"{one}ms") < Duration.parse(f"{other}ms")) == (one < other)
    assert (Duration.parse(f"{one}s") < Duration.parse(f"{other}m")) == (one < 60 * other)
    assert (Size.parse(f"{one}KiB") < Size.parse(f"{other}MiB")) == (one < 1024 * other)


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused_by_name(text: str) -> None:
    for kind in (Duration, Rate, Frequency, Percent, Size, SizeRate):
        try:
            assert kind.parse(text) >= 0
        except Malformed as error:
            assert kind.what in str(error)


def test_a_quantity_is_a_plain_number_to_json() -> None:
    assert json.dumps([Duration(0.3), Rate(100.0), Size(1024)]) == "[0.3, 100.0, 1024]"
