"""What FIS will bill: action-minutes and dollars."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.aws.price import Price, price, total
from chaos.base.errors import InvalidInput


def template(*actions: dict[str, str]) -> dict[str, Any]:
    return {"actions": {f"a{n}": {"actionId": "aws:fis:wait", "parameters": each} for n, each in enumerate(actions)}}


@pytest.mark.parametrize(
    ("actions", "minutes", "dollars"),
    [
        (({"duration": "PT5M"},), 5, 0.5),
        (({"duration": "PT20M"}, {"duration": "PT20M"}, {"duration": "PT10M"}), 50, 5.0),
        (({"duration": "PT61S"},), 2, 0.2),
        (({"duration": "PT1S"},), 1, 0.1),
        (({"startInstancesAfterDuration": "PT2M", "completeIfInstancesTerminated": "true"},), 2, 0.2),
        (({"duration": "PT3M"},) * 7, 21, 2.1),
        (({"duration": "PT12H"},), 720, 72.0),
        ((), 0, 0.0),
    ],
)
def test_minutes_are_rounded_up_for_each_action(
    actions: tuple[dict[str, str], ...], minutes: int, dollars: float
) -> None:
    assert price(template(*actions), "eu-central-1") == Price(minutes, dollars)


def test_twelve_faults_of_two_actions_of_five_minutes() -> None:
    one = price(template({"duration": "PT5M"}, {"duration": "PT5M"}), "eu-central-1")
    assert total([one] * 12) == Price(120, 12.0)


def test_govcloud_costs_more() -> None:
    assert price(template({"duration": "PT5M"}), "us-gov-west-1") == Price(5, 0.6)


def test_an_action_without_a_duration_counts_one_minute_and_says_so() -> None:
    found = price(
        {"actions": {"gone": {"actionId": "aws:ec2:terminate-instances"}, **template({"duration": "PT2M"})["actions"]}},
        "eu-central-1",
    )
    assert found == Price(3, 0.3, ("gone",))
    assert found.text == "at least 3 action-minutes, at least $0.30 (gone: without a duration, one minute at least)"
    assert total([found, found]).open == ("gone",)
    assert price(template({"duration": "PT2M"}), "eu-central-1").text == "2 action-minutes, $0.20"


def test_a_malformed_duration_has_no_price() -> None:
    with pytest.raises(InvalidInput, match="no ISO 8601 duration"):
        price(template({"duration": "soon"}), "eu-central-1")
