"""The service as a real client of boto3 sees it, over HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apart import examples
from fiskit import (
    CATALOGUE,
    INSTANCE,
    PLACE,
    Stepped,
    World,
    alarm,
    arn,
    client,
    code_of,
    journal_in,
    stop_action,
    template,
    underway,
    wait_action,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chaos.fis_endpoint import templates
from chaos.fis_endpoint.opening import Opened
from chaos.fis_endpoint.routing import Refused
from chaos.fis_endpoint.templates import Quotas, over_quota

exceptions = pytest.importorskip("botocore.exceptions", reason="boto3 is the extra [aws]")
ClientError = exceptions.ClientError


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def endpoint(tmp_path: Path, world: World) -> Iterator[Opened]:
    with world.open(tmp_path / "journal.jsonl") as there:
        yield there


@pytest.fixture
def fis(endpoint: Opened) -> Any:
    return client(endpoint.url)


def created(fis: Any, token: str = "t", **given: Any) -> str:
    return str(fis.create_experiment_template(**template(token, **given))["experimentTemplate"]["id"])


def started(fis: Any, of: str, token: str = "s", **given: Any) -> str:
    return str(fis.start_experiment(experimentTemplateId=of, clientToken=token, **given)["experiment"]["id"])


def refused(call: Any, *args: Any, **given: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as error:
        call(*args, **given)
    return code_of(error.value)


# templates


def test_a_template_lives_and_goes(fis: Any) -> None:
    made = fis.create_experiment_template(**template())["experimentTemplate"]
    assert made["id"].startswith("EXT") and made["arn"].endswith(f":experiment-template/{made['id']}")
    assert made["experimentOptions"] == {"accountTargeting": "single-account", "emptyTargetResolutionMode": "fail"}
    assert fis.get_experiment_template(id=made["id"])["experimentTemplate"] == made
    [listed] = fis.list_experiment_templates()["experimentTemplates"]
    assert listed == {name: made[name] for name in listed} and "actions" not in listed
    changed = fis.update_experiment_template(
        id=made["id"], description="two", experimentOptions={"emptyTargetResolutionMode": "skip"}
    )["experimentTemplate"]
    assert changed["description"] == "two" and changed["actions"] == made["actions"]
    assert changed["experimentOptions"]["emptyTargetResolutionMode"] == "skip"
    assert changed["lastUpdateTime"] > changed["creationTime"] == made["creationTime"]
    assert fis.delete_experiment_template(id=made["id"])["experimentTemplate"]["id"] == made["id"]
    for call in (fis.get_experiment_template, fis.delete_experiment_template, fis.update_experiment_template):
        assert refused(call, id=made["id"]) == ("ResourceNotFoundException", 404)


def target(**given: Any) -> dict[str, Any]:
    return {"nodes": {"resourceType": INSTANCE, "resourceArns": [arn(0)], "selectionMode": "ALL", **given}}


def bare(**given: Any) -> dict[str, Any]:
    return {"nodes": {"resourceType": INSTANCE, "selectionMode": "ALL", **given}}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"actions": {}}, "one action"),
        ({"actions": {"a": {"actionId": "no:such:action"}}}, "no:such:action"),
        ({"actions": {"a": {"actionId": "aws:fis:wait"}}}, "duration is missing"),
        ({"actions": {"a": stop_action("elsewhere")}}, "elsewhere, which is not there"),
        ({"actions": {"a": stop_action(after=("b",))}}, "startAfter names b"),
        ({"actions": {"a": stop_action(after=("a",))}}, "names itself"),
        ({"actions": {"a": wait_action(after=("b",)), "b": wait_action(after=("a",))}}, "round in a circle: a, b"),
        ({"targets": {"nodes": {**target()["nodes"], "resourceType": "aws:ec2:subnet"}}}, "takes aws:ec2:instance"),
        ({"targets": target(resourceType="aws:nothing:here")}, "nobody knows the resource type"),
        ({"targets": target(selectionMode="NONSENSE")}, "selectionMode"),
        ({"targets": target(selectionMode="COUNT(0)")}, "selectionMode"),
        ({"targets": target(selectionMode="PERCENT(101)")}, "selectionMode"),
        ({"targets": target(resourceTags={"a": "b"})}, "exclude resourceTags"),
        ({"targets": target(filters=[{"path": "State.Name", "values": ["running"]}])}, "exclude filters"),
        ({"targets": target(resourceArns=["i-0123456789abcdef01234"])}, "no ARN"),
        ({"targets": bare()}, "names no resources"),
        ({"targets": bare(resourceTags={"a": "b"}, parameters={"vpc": "v"})}, "no parameter vpc"),
        ({"stopConditions": []}, "stop conditions"),
        ({"stopConditions": [{"source": "none"}, {"source": "none"}]}, "stands alone"),
        ({"stopConditions": [{"source": "aws:cloudwatch:alarm"}]}, "ARN, not nothing"),
        ({"stopConditions": [{"source": "a:clock"}]}, "a:clock"),
        ({"roleArn": "arn:aws:iam::999999999999:role/chaos"}, "another account"),
        ({"roleArn": "arn:aws:iam::123456789012:user/chaos"}, "no role"),
        ({"experimentOptions": {"accountTargeting": "multi-account"}}, "multi-account"),
        ({"logConfiguration": {"logSchemaVersion": 2}}, "logConfiguration"),
        ({"experimentReportConfiguration": {"preExperimentDuration": "PT5M"}}, "experimentReportConfiguration"),
        ({"tags": {"aws:mine": "x"}}, "aws:mine"),
    ],
)
def test_what_fis_refuses_is_refused(tmp_path: Path, world: World, wrong: dict[str, Any], says: str) -> None:
    service = Stepped(journal_in(tmp_path), world).service
    with pytest.raises(Refused, match=says) as error:
        service.call("CreateExperimentTemplate", template(**wrong))
    assert error.value.code == "ValidationException"
    good = service.call("CreateExperimentTemplate", template())["experimentTemplate"]
    if "tags" not in wrong and "accountTargeting" not in str(wrong):
        with pytest.raises(Refused, match=says):
            service.call("UpdateExperimentTemplate", {"id": good["id"], **wrong})
        assert service.call("GetExperimentTemplate", {"id": good["id"]})["experimentTemplate"] == good


def test_a_refusal_comes_with_its_code_over_http(fis: Any) -> None:
    assert refused(created, fis, actions={}) == ("ValidationException", 400)
    assert fis.list_experiment_templates()["experimentTemplates"] == []


# quotas


def test_quotas_are_awss() -> None:
    assert Quotas(500, 5, 20, 10, 5, 5, 43200) == templates.AWS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"actions": {str(n): wait_action("PT1M", (str(n - 1),) if n else ()) for n in range(21)}}, "21 actions"),
        ({"actions": {str(n): wait_action() for n in range(11)}}, "11 actions in parallel"),
        (
            {"stopConditions": [{"source": "aws:cloudwatch:alarm", "value": alarm(str(n))} for n in range(6)]},
            "6 stop conditions",
        ),
        ({"actions": {"a": wait_action("PT7H"), "b": wait_action("PT7H", ("a",))}}, "50400 seconds"),
    ],
)
def test_more_than_a_quota_is_named(fis: Any, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ClientError, match=says) as error:
        created(fis, **given)
    assert code_of(error.value) == ("ServiceQuotaExceededException", 402)


def test_as_many_as_the_quotas_are_taken() -> None:
    ten_then_ten = {str(n): wait_action("PT1H", (str(n - 10),) if n >= 10 else ()) for n in range(20)}
    made = {"actions": ten_then_ten, "stopConditions": [{"source": "none"}] * 5}
    assert over_quota(made, templates.AWS, CATALOGUE.seconds) is None


@given(
    edges=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(lambda pair: pair[0] < pair[1]), max_size=14)
)
def test_the_widest_antichain_by_trying_all(edges: set[tuple[int, int]]) -> None:
    after = {str(n): [str(a) for a, b in edges if b == n] for n in range(7)}

    def before(name: str) -> set[str]:
        return set(after[name]).union(*(before(each) for each in after[name]))

    sets = [{str(n) for n in range(7) if mask >> n & 1} for mask in range(128)]
    widest = max(len(each) for each in sets if all(not (before(name) & each) for name in each))
    assert templates.parallel(after) == widest


def test_templates_are_counted_without_those_that_were_deleted(tmp_path: Path, world: World) -> None:
    with world.open(tmp_path / "j.jsonl", quotas=Quotas(templates=2)) as there:
        fis = client(there.url)
        first = created(fis, "a")
        created(fis, "b")
        assert refused(created, fis, "c") == ("ServiceQuotaExceededException", 402)
        assert created(fis, "a") == first, "a repeated request is no new template"
        fis.delete_experiment_template(id=first)
        created(fis, "c")


def test_five_experiments_at_once(fis: Any, endpoint: Opened) -> None:
    of = created(fis)
    names = [started(fis, of, str(n)) for n in range(5)]
    assert refused(started, fis, of, "5") == ("ServiceQuotaExceededException", 402)
    assert started(fis, of, "4") == names[4]
    fis.stop_experiment(id=names[0])
    endpoint.engine.wait(names[0])
    started(fis, of, "5")


# experiments


def test_an_experiment_from_start_to_stop(fis: Any, endpoint: Opened, world: World) -> None:
    of = created(fis)
    begun = fis.start_experiment(experimentTemplateId=of, clientToken="s", tags={"run": "r1"})["experiment"]
    assert begun["id"].startswith("EXP") and begun["state"]["status"] == "pending" and begun["tags"] == {"run": "r1"}
    endpoint.engine.wait(begun["id"], underway)
    there = fis.get_experiment(id=begun["id"])["experiment"]
    assert there["experimentOptions"]["actionsMode"] == "run-all" and there["startTime"] >= there["creationTime"]
    page = fis.list_experiment_resolved_targets(experimentId=begun["id"])["resolvedTargets"]
    assert page == [{"resourceType": INSTANCE, "targetName": "nodes", "targetInformation": {"arn": arn(0)}}]
    answer = fis.stop_experiment(id=begun["id"])["experiment"]
    assert answer["state"]["status"] in ("stopping", "stopped")
    endpoint.engine.wait(begun["id"])
    over = fis.get_experiment(id=begun["id"])["experiment"]
    assert over["state"]["status"] == "stopped" and over["actions"]["stop"]["state"]["status"] == "stopped"
    assert over["endTime"] >= over["startTime"] and world.hands.effect == {}
    assert refused(fis.stop_experiment, id=begun["id"]) == ("ValidationException", 400)


def test_a_template_that_changes_or_goes_leaves_its_experiments_alone(fis: Any, endpoint: Opened) -> None:
    of = created(fis)
    name = started(fis, of)
    endpoint.engine.wait(name, underway)
    before = fis.get_experiment(id=name)["experiment"]
    fis.update_experiment_template(id=of, actions={"other": wait_action()})
    fis.delete_experiment_template(id=of)
    assert fis.get_experiment(id=name)["experiment"]["actions"].keys() == before["actions"].keys() == {"stop"}
    assert refused(started, fis, of, "again") == ("ResourceNotFoundException", 404)
    assert started(fis, of) == name


def test_empty_targets_fail_after_a_start_that_was_answered(fis: Any, endpoint: Opened) -> None:
    name = started(fis, created(fis, targets=target(resourceArns=[arn(99)])))
    endpoint.engine.wait(name)
    state = fis.get_experiment(id=name)["experiment"]["state"]
    assert state["status"] == "failed" and state["error"]["code"] == "InvalidTarget"


def test_what_is_not_there_is_not_found(fis: Any) -> None:
    for call, params in (
        (fis.get_experiment, {"id": "EXP0"}),
        (fis.stop_experiment, {"id": "EXP0"}),
        (fis.list_experiment_resolved_targets, {"experimentId": "EXP0"}),
        (fis.start_experiment, {"experimentTemplateId": "EXT0"}),
        (fis.get_action, {"id": "no:such:action"}),
        (fis.get_target_resource_type, {"resourceType": "no:such:type"}),
        (fis.get_safety_lever, {"id": "other"}),
        (fis.list_tags_for_resource, {"resourceArn": PLACE.arn("experiment", "EXP0")}),
        (fis.list_tags_for_resource, {"resourceArn": "arn:aws:ec2:eu-central-1:123456789012:instance/i-1"}),
    ):
        assert refused(call, **params) == ("ResourceNotFoundException", 404)


def test_pages_end_and_hold_everything_once(fis: Any, endpoint: Opened) -> None:
    of, other = created(fis, "a"), created(fis, "b")
    names = [started(fis, each, f"{each}{n}") for each in (of, other) for n in range(2)]
    paginator = fis.get_paginator("list_experiments")
    for size in (1, 3, 100):
        pages = list(paginator.paginate(PaginationConfig={"PageSize": size}))
        assert [each["id"] for page in pages for each in page["experiments"]] == names
        assert all(len(page["experiments"]) <= size for page in pages)
    only = fis.list_experiments(experimentTemplateId=other)["experiments"]
    assert [each["id"] for each in only] == names[2:]
    assert refused(fis.list_experiments, nextToken="nonsense") == ("ValidationException", 400)
    foreign = fis.list_experiments(maxResults=1)["nextToken"]
    assert refused(fis.list_experiment_templates, nextToken=foreign) == ("ValidationException", 400)


# catalogue, lever, tags, accounts


def test_actions_and_types_are_the_catalogues(fis: Any) -> None:
    found = [each["id"] for page in fis.get_paginator("list_actions").paginate() for each in page["actions"]]
    assert found == sorted(CATALOGUE.actions)
    stop = fis.get_action(id="aws:ec2:stop-instances")["action"]
    assert stop["targets"] == {"Instances": {"resourceType": INSTANCE}}
    assert stop["parameters"]["startInstancesAfterDuration"]["required"] is False
    kinds = [each["resourceType"] for each in fis.list_target_resource_types()["targetResourceTypes"]]
    assert kinds == sorted(CATALOGUE.types)
    assert fis.get_target_resource_type(resourceType=INSTANCE)["targetResourceType"]["resourceType"] == INSTANCE


def test_the_lever_stops_what_runs_and_cancels_what_is_started(fis: Any, endpoint: Opened, world: World) -> None:
    of = created(fis)
    name = started(fis, of)
    endpoint.engine.wait(name, underway)
    world.hands.hold = threading.Event()
    begins = started(fis, of, "slow")
    endpoint.engine.wait(begins, lambda each: each["actions"]["stop"]["state"]["status"] == "initiating")
    state = {"status": "engaged", "reason": "sales day"}
    answer = fis.update_safety_lever_state(id="default", state=state)["safetyLever"]
    assert answer["state"]["status"] == "engaging", "an action that is beginning is awaited"
    assert refused(fis.update_safety_lever_state, id="default", state=state) == ("ConflictException", 409)
    world.hands.hold.set()
    for each in (name, begins):
        assert endpoint.engine.wait(each)["state"]["reason"] == "The safety lever was engaged"
        assert fis.get_experiment(id=each)["experiment"]["state"]["status"] == "stopped"
    assert fis.get_safety_lever(id="default")["safetyLever"]["state"] == state and world.hands.effect == {}
    late = started(fis, of, "late")
    endpoint.engine.wait(late)
    cancelled = fis.get_experiment(id=late)["experiment"]
    assert (
        cancelled["state"]["status"] == "cancelled" and cancelled["actions"]["stop"]["state"]["status"] == "cancelled"
    )
    fis.update_safety_lever_state(id="default", state={"status": "disengaged", "reason": "over"})
    endpoint.engine.wait(started(fis, of, "later"), underway)


def test_tags_of_templates_and_experiments(fis: Any, endpoint: Opened) -> None:
    of = created(fis)
    name = started(fis, of, tags={"a": "1"})
    endpoint.engine.wait(name, underway)
    for kind, made, before in (("experiment-template", of, {"run": "r1"}), ("experiment", name, {"a": "1"})):
        where = PLACE.arn(kind, made)
        assert fis.list_tags_for_resource(resourceArn=where)["tags"] == before
        fis.tag_resource(resourceArn=where, tags={"b": "2", "c/d": "é"})
        fis.untag_resource(resourceArn=where, tagKeys=["b", "nothing"])
        assert fis.list_tags_for_resource(resourceArn=where)["tags"] == {**before, "c/d": "é"}
        many = {str(n): "" for n in range(49)}
        assert refused(fis.tag_resource, resourceArn=where, tags=many) == ("ValidationException", 400)
    assert fis.get_experiment(id=name)["experiment"]["tags"] == {"a": "1", "c/d": "é"}
    fis.stop_experiment(id=name)
    endpoint.engine.wait(name)
    fis.tag_resource(resourceArn=PLACE.arn("experiment", name), tags={"late": "1"})
    assert fis.get_experiment(id=name)["experiment"]["tags"]["late"] == "1"


def test_target_accounts_are_refused_by_name(fis: Any) -> None:
    of = created(fis)
    account = {"experimentTemplateId": of, "accountId": "123456789012"}
    for call, params in (
        (fis.create_target_account_configuration, {**account, "roleArn": "arn:aws:iam::123456789012:role/x"}),
        (fis.get_target_account_configuration, account),
        (fis.update_target_account_configuration, account),
        (fis.delete_target_account_configuration, account),
        (fis.list_target_account_configurations, {"experimentTemplateId": of}),
        (fis.list_experiment_target_account_configurations, {"experimentId": "EXP0"}),
        (fis.get_experiment_target_account_configuration, {"experimentId": "EXP0", "accountId": "123456789012"}),
    ):
        with pytest.raises(ClientError, match="target account configurations") as error:
            call(**params)
        assert code_of(error.value) == ("ValidationException", 400)


# tokens


def test_a_token_with_other_content_is_a_conflict(fis: Any, endpoint: Opened) -> None:
    of, other = created(fis, "a"), created(fis, "b")
    name = started(fis, of, "s", tags={"a": "1"})
    assert started(fis, of, "s", tags={"a": "1"}) == name
    for params in ({"tags": {"a": "2"}}, {"tags": {"a": "1"}, "experimentOptions": {"actionsMode": "skip-all"}}, {}):
        assert refused(started, fis, of, "s", **params) == ("ConflictException", 409)
    assert refused(started, fis, other, "s", tags={"a": "1"}) == ("ConflictException", 409)
    assert refused(created, fis, "a", description="another") == ("ConflictException", 409)
    assert refused(started, fis, of, "a") == ("ConflictException", 409), "of another operation"
    assert len(fis.list_experiments()["experiments"]) == 1


def test_a_token_of_a_template_that_was_deleted_makes_no_other(fis: Any) -> None:
    fis.delete_experiment_template(id=created(fis, "a"))
    assert refused(created, fis, "a") == ("ConflictException", 409)


def test_a_refused_start_does_not_use_its_token_up(fis: Any, world: World) -> None:
    assert refused(started, fis, "EXT0", "s") == ("ResourceNotFoundException", 404)
    started(fis, created(fis), "s")


def test_starts_at_once_with_one_token_make_one_experiment(fis: Any, endpoint: Opened) -> None:
    of, made = created(fis), []
    threads = [threading.Thread(target=lambda: made.append(started(client(endpoint.url), of))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert len(made) == 8 and len(set(made)) == 1
    assert [each["id"] for each in fis.list_experiments()["experiments"]] == made[:1]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from("abc"), st.sampled_from(["", "other"])),
        st.sampled_from(["restart", "turn", "stop all"]),
    ),
    max_size=20,
)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_token_makes_one_experiment_whatever_is_lost(
    tmp_path_factory: pytest.TempPathFactory, without_fsync: None, steps: list[Any]
) -> None:
    """Starts whose answers are lost are repeated, the endpoint dies and comes again: one experiment per token, and each
    answer is of it."""
    world, folder = World(), tmp_path_factory.mktemp("fis")
    stepped = Stepped(journal_in(folder), world)
    of = stepped.service.call("CreateExperimentTemplate", template())["experimentTemplate"]["id"]
    made: dict[str, tuple[str, str]] = {}
    for step in steps:
        if step == "restart":
            stepped.journal.close()
            stepped = Stepped(journal_in(folder), world)
        elif step == "turn":
            stepped.advance(10)
        elif step == "stop all":
            stepped.engine.stop_all("enough")
            stepped.advance()
        else:
            _, token, tag = step
            params = {"experimentTemplateId": of, "clientToken": token, "tags": {"t": tag}}
            try:
                answer = stepped.service.call("StartExperiment", params)["experiment"]["id"]
            except Refused as error:
                assert error.code == "ConflictException" and made[token][1] != tag
            else:
                assert made.setdefault(token, (answer, tag)) == (answer, tag)
    assert sorted(each["id"] for each in stepped.engine.experiments()) == sorted(name for name, _ in made.values())
    stepped.journal.close()
