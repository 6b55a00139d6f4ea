"""What FIS can do, from the room of AWS's facts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from fiskit import HAS_SHAPES, World, arn, client, template

from chaos.fis_endpoint.known import of_aws

pytestmark = pytest.mark.skipif(
    not HAS_SHAPES or importlib.util.find_spec("chaos.aws.catalogue") is None,
    reason="chaos.aws.shapes and chaos.aws.catalogue are not there",
)


def test_each_action_and_type_is_answered_in_fiss_shapes(tmp_path: Path) -> None:
    known = of_aws()
    assert {"aws:ec2:stop-instances", "aws:ssm:send-command", "aws:fis:wait"} <= set(known.actions)
    with World().open(tmp_path / "j.jsonl", catalogue=known) as there:
        fis = client(there.url)
        for action in known.actions:
            answer = fis.get_action(id=action)["action"]
            for key, target in answer.get("targets", {}).items():
                assert known.actions[action].targets[key] == target["resourceType"]
                assert fis.get_target_resource_type(resourceType=target["resourceType"])
        pages = fis.get_paginator("list_actions").paginate(PaginationConfig={"PageSize": 4})
        assert [each["id"] for page in pages for each in page["actions"]] == sorted(known.actions)


def test_an_experiment_by_the_real_catalogue(tmp_path: Path) -> None:
    world = World()
    with world.open(tmp_path / "j.jsonl", catalogue=of_aws(), time_scale=36000) as there:
        fis = client(there.url)
        made = template(actions={"wait": {"actionId": "aws:fis:wait", "parameters": {"duration": "PT59S"}}})
        with pytest.raises(fis.exceptions.ValidationException, match="duration"):
            fis.create_experiment_template(**made)
        of = fis.create_experiment_template(**template())["experimentTemplate"]["id"]
        name = fis.start_experiment(experimentTemplateId=of, clientToken="s")["experiment"]["id"]
        assert there.engine.wait(name)["state"]["status"] == "completed"
        assert [each["arn"] for each in there.engine.wait(name)["resolved"]] == [arn(0)]
