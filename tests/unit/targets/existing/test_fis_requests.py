"""Every request of the provider of AWS FIS is the one that is written down, and is one that AWS's models take.

Replayed by botocore's Stubber, without a network; and told once more to the endpoint with moto.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import fisrecord
import pytest
from fakes import ROOT
from fishands import needs_moto
from fisrecord import COMMAND, STORIES, Call, Changed, Told, offered, written

from chaos.aws.shapes import RELIED_ON, Model
from chaos.targets.existing.fis import Fis

WRITTEN = written()
CALLS = [call for told in WRITTEN.values() for call in told.calls]
HINT = f"write it down again: {COMMAND}"


def test_every_story_is_written_down_and_every_kind_that_fis_offers_is_in_one() -> None:
    assert list(STORIES) == list(WRITTEN), HINT
    assert {f"life of {kind}" for kind in offered()} <= set(WRITTEN), HINT


@pytest.mark.parametrize("story", STORIES)
def test_the_provider_asks_what_is_written_down_and_says_the_same_of_the_answers(story: str) -> None:
    assert story in WRITTEN, HINT
    told = WRITTEN[story]
    assert fisrecord.replayed(story, told) == told.says, HINT


@pytest.mark.parametrize("story", WRITTEN)
def test_requests_and_answers_fit_the_models_limits_patterns_and_enumerations_too(story: str) -> None:
    for call in WRITTEN[story].calls:
        model = Model(call.service)
        assert model.problems_of_input(call.operation, call.params) == [], call.asks
        if call.service in ("fis", "ssm") and call.answer is not None:
            assert model.problems_of_output(call.operation, call.answer) == [], call.asks


def test_what_is_asked_is_what_new_models_are_watched_for() -> None:
    """A new botocore that changes one of them fails (tests/unit/aws/test_shapes.py)."""
    assert {(call.service, call.operation) for call in CALLS} <= {
        (service, operation) for service, operations in RELIED_ON.items() for operation in operations
    }


def test_stories_change_restore_and_read_what_they_are_told_for() -> None:
    asked = {call.operation for call in CALLS}
    for operation in (
        "CreateExperimentTemplate",
        "StartExperiment",
        "ListExperimentResolvedTargets",
        "StopExperiment",
        "DeleteExperimentTemplate",
        "StartInstances",
        "ReplaceNetworkAclAssociation",
        "DeleteNetworkAcl",
        "SendCommand",
        "GetSafetyLever",
        "DescribeAlarms",
        "DescribeInstanceInformation",
    ):
        assert operation in asked
    reading = ("Get", "List", "Describe", "Simulate")
    for story in ("preflight", "export"):
        assert all(call.operation.startswith(reading) for call in WRITTEN[story].calls)
    again = [call.operation for call in WRITTEN["another machine ends it by its tags"].calls]
    assert again.count("StartExperiment") == 1


def test_every_template_names_resources_all_of_them_and_fails_where_there_are_none() -> None:
    made = [call.params for call in CALLS if call.operation == "CreateExperimentTemplate"]
    assert made
    for each in made:
        assert each["experimentOptions"]["emptyTargetResolutionMode"] == "fail"
        assert each["stopConditions"][0]["source"] == "aws:cloudwatch:alarm"
        assert each["clientToken"].startswith(each["tags"]["opensearch-chaos:run"])
        for target in each["targets"].values():
            assert target["selectionMode"] == "ALL" and target["resourceArns"]
            assert not {"resourceTags", "filters", "parameters"} & set(target)


def test_nothing_of_a_real_account_or_of_this_machine_is_written_down() -> None:
    text = fisrecord.FILE.read_text()
    assert str(ROOT) not in text and fisrecord.NOBODY not in text
    assert "127.0.0.1" not in text


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        ("StartExperiment", lambda params: {**params, "clientToken": "another"}),
        ("CreateExperimentTemplate", lambda params: {**params, "description": "other words"}),
        ("StopExperiment", None),
        ("DeleteExperimentTemplate", None),
    ],
)
def test_a_request_that_is_another_one_fails_with_the_command_that_records(operation: str, change: Any) -> None:
    """As if the provider had asked the one that is in the file here, and does no more."""
    told = WRITTEN["life of node.stop"]
    calls: list[Call] = []
    for call in told.calls:
        if call.operation != operation:
            calls.append(call)
        elif change is not None:
            calls.append(replace(call, params=change(call.params)))
    with pytest.raises(Changed, match=r"fisrecord\.py --record") as raised:
        fisrecord.replayed("life of node.stop", Told(tuple(calls), told.says))
    assert operation in str(raised.value)
    if change is not None:
        assert re.search(r": (clientToken|description) changed: the provider asks fis", str(raised.value))


def test_a_request_that_is_not_made_any_more_fails_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fis, "drop_template", lambda *_: None)
    with pytest.raises(Changed, match="ListExperimentTemplates"):
        fisrecord.replayed("life of node.stop", WRITTEN["life of node.stop"])


def test_an_answer_that_is_none_of_the_models_is_refused_by_botocore() -> None:
    told = WRITTEN["preflight"]
    wrong = [replace(call, answer={**(call.answer or {}), "unheard": "of"}) for call in told.calls]
    with pytest.raises(Changed, match=r"(?s)botocore's models do not know.*unheard"):
        fisrecord.replayed("preflight", Told(tuple(wrong), told.says))


SOME = ("preflight", "life of node.stop", "network ACLs that FIS leaves")


@pytest.mark.parametrize("some", [SOME, pytest.param(tuple(STORIES), marks=pytest.mark.full)], ids=["some", "all"])
def test_the_endpoint_is_asked_the_same_today(tmp_path: Path, some: tuple[str, ...]) -> None:
    needs_moto()
    with fisrecord.stood(tmp_path) as (url, world):
        for story in some:
            now = fisrecord.recorded(story, url, world)
            assert fisrecord.blurred(now.calls) == fisrecord.blurred(WRITTEN[story].calls), HINT
