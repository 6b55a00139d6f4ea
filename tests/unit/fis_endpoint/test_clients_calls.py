"""What clients ask of EC2 and SSM, by real clients over HTTP: the lab hears of it, and answers are AWS's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fishands import Set, front

from chaos.base.errors import LabError
from chaos.fis_endpoint.doing import Doing

DISRUPT = "aws:network:disrupt-connectivity"


@pytest.fixture
def to(made: Set) -> Iterator[Callable[[str], Any]]:
    with front(made) as clients:
        yield clients


def code(call: Callable[[], object]) -> str:
    """The code of the error that a call ends with."""
    try:
        call()
    except Exception as error:
        return str(getattr(error, "response", {})["Error"]["Code"])
    raise AssertionError("no error")


# ---- EC2 --------------------------------------------------------------------------------------


def test_instances_that_clients_stop_and_start_are_nodes_that_do(made: Set, to: Callable[[str], Any]) -> None:
    ec2, one = to("ec2"), made.instance("a-data")
    answer = ec2.stop_instances(InstanceIds=[one])
    assert answer["StoppingInstances"][0]["InstanceId"] == one and made.lab.dead == {"a-data"}
    answer = ec2.start_instances(InstanceIds=[one])
    assert answer["StartingInstances"][0]["InstanceId"] == one and made.lab.dead == set()
    ec2.reboot_instances(InstanceIds=[one])
    ec2.stop_instances(InstanceIds=[one], Force=True)
    assert [call[0] for call in made.lab.calls] == ["stop", "start", "stop", "start", "kill"]
    ec2.terminate_instances(InstanceIds=[one])
    assert made.state("a-data") == "terminated"
    assert code(lambda: ec2.start_instances(InstanceIds=[one])) == "IncorrectInstanceState"
    assert code(lambda: ec2.start_instances(InstanceIds=["i-00000000000000000"])) == "InvalidInstanceID.NotFound"
    assert made.lab.dead == {"a-data"}


def test_a_dry_run_and_what_is_refused_do_nothing(made: Set, to: Callable[[str], Any]) -> None:
    ec2, one = to("ec2"), made.instance("a-data")
    code(lambda: ec2.stop_instances(InstanceIds=[one], DryRun=True))
    code(lambda: ec2.stop_instances(InstanceIds=[one, "i-00000000000000000"]))
    assert made.lab.calls == [] and made.state("a-data") == "running"


def test_a_lab_that_does_not_do_it_is_an_error_of_the_service(made: Set, to: Callable[[str], Any]) -> None:
    def refuse(call: str, arguments: tuple[str, ...]) -> None:
        raise LabError("it <hangs>")

    made.lab.fails = refuse
    assert code(lambda: to("ec2").stop_instances(InstanceIds=[made.instance("a-data")])) == "InternalError"


def test_an_association_that_is_put_back_connects_the_zone_again(made: Set, to: Callable[[str], Any]) -> None:
    ec2, default = to("ec2"), made.acl("a")
    doing = made.doing(DISRUPT, "Subnets", "a", scope="all")
    made.hands.begin(doing)
    association = next(each.id for each in made.mirror.associations() if each.subnet == made.subnet("a"))
    replace = ec2.replace_network_acl_association
    wrong = code(lambda: replace(AssociationId="aclassoc-0", NetworkAclId=default))
    assert wrong == "InvalidAssociationID.NotFound"
    wrong = code(lambda: replace(AssociationId=association, NetworkAclId="acl-0"))
    assert wrong == "InvalidNetworkAclID.NotFound" and made.lab.blocked
    replace(AssociationId=association, NetworkAclId=default)
    assert made.lab.blocked == set() and made.acl("a") == default
    ec2.delete_network_acl(NetworkAclId=made.clones()[0])
    made.hands.end(doing)


def test_everything_else_is_motos(made: Set, to: Callable[[str], Any]) -> None:
    assert len(to("ec2").describe_subnets(Filters=made.mirror.mine())["Subnets"]) == 3
    assert to("sts").get_caller_identity()["Account"] == "123456789012"
    ssm = to("ssm")
    ssm.put_parameter(Name="x", Value="y", Type="String", Overwrite=True)
    assert ssm.get_parameter(Name="x")["Parameter"]["Value"] == "y"


# ---- SSM --------------------------------------------------------------------------------------


def pings(ssm: Any, made: Set) -> dict[str, str]:
    nodes = {each.id: each.node for each in made.mirror.instances().values()}
    pages = ssm.get_paginator("describe_instance_information").paginate(PaginationConfig={"PageSize": 5})
    return {nodes[row["InstanceId"]]: row["PingStatus"] for page in pages for row in page["InstanceInformationList"]}


def test_agents_are_online_where_their_host_is_reached(made: Set, to: Callable[[str], Any]) -> None:
    ssm = to("ssm")
    assert set(pings(ssm, made).values()) == {"Online"} and len(pings(ssm, made)) == 6
    made.hands.begin(made.doing(DISRUPT, "Subnets", "a", scope="all"))
    made.hands.begin(made.doing(DISRUPT, "Subnets", "b", scope="availability-zone"))
    made.hands.machines.stop([made.instance("c-data")])
    made.hands.machines.terminate([made.instance("c-cm")])
    made.lab.kill_node("b-data")  # its process, and not its host
    assert pings(ssm, made) == {
        "a-cm": "ConnectionLost",
        "a-data": "ConnectionLost",
        "b-cm": "Online",
        "b-data": "Online",
        "c-data": "ConnectionLost",
    }
    online = ssm.describe_instance_information(Filters=[{"Key": "PingStatus", "Values": ["Online"]}])
    assert len(online["InstanceInformationList"]) == 2
    one = [{"key": "InstanceIds", "valueSet": [made.instance("b-cm")]}]
    assert len(ssm.describe_instance_information(InstanceInformationFilterList=one)["InstanceInformationList"]) == 1
    tagged = [{"Key": "tag:opensearch-chaos:node", "Values": ["b-cm"]}]
    assert len(ssm.describe_instance_information(Filters=tagged)["InstanceInformationList"]) == 1
    wrong = [{"Key": "IamRole", "Values": ["x"]}]
    assert code(lambda: ssm.describe_instance_information(Filters=wrong)) == "InvalidFilterKey"


def shell(ssm: Any, made: Set, line: str, node: str = "a-data") -> str:
    sent = ssm.send_command(
        InstanceIds=[made.instance(node)], DocumentName="AWS-RunShellScript", Parameters={"commands": [line]}
    )["Command"]
    command = made.hands.commands.get(sent["CommandId"])
    assert command is not None
    made.hands.commands.settled(command)
    return str(ssm.list_commands(CommandId=sent["CommandId"])["Commands"][0]["Status"])


def test_systemctl_starts_and_stops_the_node(made: Set, to: Callable[[str], Any]) -> None:
    ssm = to("ssm")
    assert shell(ssm, made, "systemctl stop opensearch") == "Success" and made.lab.dead == {"a-data"}
    assert shell(ssm, made, "systemctl start opensearch.service") == "Success" and made.lab.dead == set()
    assert shell(ssm, made, "systemctl start elasticsearch") == "Failed"
    for line in ("reboot", "systemctl restart opensearch", "systemctl stop opensearch; rm -rf /"):
        assert code(lambda line=line: shell(ssm, made, line)) == "UnsupportedPlatformType"  # type: ignore[misc]
    assert [call[0] for call in made.lab.calls] == ["stop", "start"]


def test_a_command_is_listed_cancelled_and_rolled_back(made: Set, to: Callable[[str], Any]) -> None:
    ssm, one, two = to("ssm"), made.instance("a-data"), made.instance("b-data")
    sent = ssm.send_command(
        InstanceIds=[one, two],
        DocumentName="arn:aws:ssm:eu-central-1::document/AWSFIS-Run-Network-Packet-Loss-Sources",
        Parameters={"Sources": ["127.0.6.2"], "LossPercent": ["100"], "DurationSeconds": ["300"]},
    )["Command"]
    id = sent["CommandId"]
    command = made.hands.commands.get(id)
    assert command is not None
    made.hands.commands.settled(command)
    assert made.lab.blocked == {("c-data", "a-data"), ("c-data", "b-data")}
    pages = ssm.get_paginator("list_command_invocations").paginate(
        CommandId=id, Details=True, PaginationConfig={"PageSize": 1}
    )
    rows = [row for page in pages for row in page["CommandInvocations"]]
    assert [row["InstanceId"] for row in rows] == [one, two] and {row["Status"] for row in rows} == {"InProgress"}
    assert ssm.get_command_invocation(CommandId=id, InstanceId=one)["Status"] == "InProgress"
    ssm.cancel_command(CommandId=id, InstanceIds=[one])
    assert made.lab.blocked == {("c-data", "b-data")}
    ssm.cancel_command(CommandId=id)
    assert made.lab.blocked == set()
    assert ssm.list_commands(Filters=[{"key": "Status", "value": "Cancelled"}])["Commands"][0]["CommandId"] == id


def test_targets_by_tag(made: Set, to: Callable[[str], Any]) -> None:
    target = {"Key": "tag:opensearch-chaos:zone", "Values": ["a"]}
    mine = {"Key": "tag:opensearch-chaos:lab", "Values": [made.lab.id]}
    parameters = {"ProcessName": ["java"], "Signal": ["SIGKILL"]}
    sent = to("ssm").send_command(
        Targets=[target, mine], DocumentName="AWSFIS-Run-Kill-Process", Parameters=parameters
    )["Command"]
    command = made.hands.commands.get(sent["CommandId"])
    assert command is not None
    made.hands.commands.settled(command)
    assert made.lab.dead == {"a-cm", "a-data"} and sent["TargetCount"] == 2


def test_what_ssm_refuses(made: Set, to: Callable[[str], Any]) -> None:
    ssm, one = to("ssm"), made.instance("a-data")

    def send(name: str, ids: list[str], **parameters: list[str]) -> str:
        return code(lambda: ssm.send_command(InstanceIds=ids, DocumentName=name, Parameters=parameters))

    kill = "AWSFIS-Run-Kill-Process"
    assert send("Ours", [one]) == "InvalidDocument"
    assert send("AWSFIS-Run-CPU-Stress", [one]) == "UnsupportedPlatformType"
    assert send(kill, [one]) == "InvalidParameters"
    assert send(kill, [one, one], ProcessName=["java"]) == "DuplicateInstanceId"
    assert send(kill, ["i-00000000000000000"], ProcessName=["java"]) == "InvalidInstanceId"
    made.hands.begin(made.doing(DISRUPT, "Subnets", "a"))
    assert send(kill, [one], ProcessName=["java"]) == "InvalidInstanceId"
    assert made.lab.dead == set()
    nothing = "00000000-0000-0000-0000-000000000000"
    assert code(lambda: ssm.list_command_invocations(CommandId=nothing)) == "InvalidCommandId"
    assert code(lambda: ssm.cancel_command(CommandId=nothing)) == "InvalidCommandId"
    missing = code(lambda: ssm.get_command_invocation(CommandId=nothing, InstanceId=one))
    assert missing == "InvocationDoesNotExist"


def test_an_action_that_a_client_cancels_has_failed(made: Set, to: Callable[[str], Any]) -> None:
    doing = made.doing(
        "aws:ssm:send-command",
        "Instances",
        "b-data",
        documentArn="arn:aws:ssm:eu-central-1::document/AWSFIS-Run-Network-Packet-Loss-Sources",
        documentParameters=json.dumps({"Sources": "127.0.4.2", "LossPercent": "100", "DurationSeconds": "60"}),
    )
    assert isinstance(doing, Doing)
    made.hands.begin(doing)
    listed = to("ssm").list_commands()["Commands"]
    to("ssm").cancel_command(CommandId=next(each["CommandId"] for each in listed))
    assert "Cancelled" in (made.hands.still(doing) or "") and made.lab.blocked == set()
    made.hands.end(doing)
