"""Plain numbers in words: four digits, and thousands that can be read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.base import text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (0.01234567, "0.01235"),
        (17.0, "17"),
        (9_999.4, "9999"),
        (9_999.6, "10 000"),
        (12_640.0, "12 640"),
        (165_932.0, "165 900"),
        (-153_600.0, "-153 600"),
        (5_828_981.0, "5 829 000"),
        (1.2e12, "1.2e+12"),
        (math.inf, "inf"),
    ],
)
def test_a_number_has_four_digits_and_its_thousands_apart(value: float, words: str) -> None:
    assert text.number(value).replace("\u00a0", " ") == words


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_said_is_the_number_rounded_to_four_digits(value: float) -> None:
    assert float(text.number(value).replace("\u00a0", "")) == float(f"{value:.4g}")
