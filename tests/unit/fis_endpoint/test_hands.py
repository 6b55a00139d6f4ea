"""Actions of FIS on a fake lab and a real moto: what is done, what is taken back, what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from apart import examples
from fishands import Set, TinyLab, a_set
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import LabError
from chaos.fis_endpoint.connectivity import around
from chaos.fis_endpoint.doing import Doing, Failed

STOP, REBOOT, END = "aws:ec2:stop-instances", "aws:ec2:reboot-instances", "aws:ec2:terminate-instances"
DISRUPT, SEND, PAUSE = "aws:network:disrupt-connectivity", "aws:ssm:send-command", "aws:ebs:pause-volume-io"
AFTER = {"startInstancesAfterDuration": "PT1M"}


def document(made: Set, name: str, *nodes: str, seconds: float | None = 60.0, **parameters: str) -> Doing:
    arn = f"arn:aws:ssm:eu-central-1::document/{name}"
    given = json.dumps(parameters, separators=(",", ":"))
    return made.doing(SEND, "Instances", *nodes, seconds=seconds, documentArn=arn, documentParameters=given)


def lost(made: Set, *nodes: str, seconds: float | None = 60.0, **more: str) -> Doing:
    asked = {"DurationSeconds": "120", "Sources": "127.0.4.2", "LossPercent": "100", **more}
    return document(made, "AWSFIS-Run-Network-Packet-Loss-Sources", *nodes, seconds=seconds, **asked)


# ---- instances --------------------------------------------------------------------------------


def test_a_stopped_instance_is_an_orderly_stop_and_starts_again_at_its_end(made: Set) -> None:
    doing = made.doing(STOP, "Instances", "a-data", **AFTER)
    assert made.hands.unable(doing) is None
    made.hands.begin(doing)
    assert made.lab.calls == [("stop", "a-data")] and made.state("a-data") == "stopped"
    assert made.hands.still(doing) is None
    for hands in (made.again(), made.hands):  # another process, and twice
        hands.end(doing)
        assert made.lab.dead == set() and made.state("a-data") == "running"


def test_without_its_parameter_a_stopped_instance_stays_stopped(made: Set) -> None:
    doing = made.doing(STOP, "Instances", "a-data", "b-data", seconds=None)
    made.hands.begin(doing)
    made.hands.end(doing)
    assert made.lab.dead == {"a-data", "b-data"} and made.state("b-data") == "stopped"


@pytest.mark.parametrize("completes", [True, False])
def test_an_instance_that_terminates_while_it_is_stopped(made: Set, completes: bool) -> None:
    more = {"completeIfInstancesTerminated": "true"} if completes else {}
    doing = made.doing(STOP, "Instances", "a-data", "b-data", **AFTER, **more)
    made.hands.begin(doing)
    made.hands.machines.terminate([made.instance("a-data")])
    if completes:
        assert made.hands.still(doing) is None
        made.hands.end(doing)
    else:
        assert "terminated meanwhile" in (made.hands.still(doing) or "")
        with pytest.raises(Failed, match="cannot be started"):
            made.hands.end(doing)
    assert made.lab.dead == {"a-data"} and made.state("a-data") == "terminated" and made.state("b-data") == "running"


def test_a_reboot_is_a_stop_and_a_start_and_has_no_undo(made: Set) -> None:
    doing = made.doing(REBOOT, "Instances", "a-cm", seconds=None)
    made.hands.begin(doing)
    assert made.lab.calls == [("stop", "a-cm"), ("start", "a-cm")] and made.state("a-cm") == "running"
    made.lab.kill_node("a-cm")  # by something else, afterwards
    made.hands.end(doing)
    assert made.lab.dead == {"a-cm"}


def test_a_reboot_that_was_cut_short_is_ended_by_another_process(made: Set) -> None:
    def refuse(call: str, arguments: tuple[str, ...]) -> None:
        if call == "start":
            raise LabError("no start today")

    doing = made.doing(REBOOT, "Instances", "a-cm", seconds=None)
    made.lab.fails = refuse
    with pytest.raises(Failed, match="no start today"):
        made.hands.begin(doing)
    made.lab.fails = lambda call, arguments: None
    made.again().end(doing)
    assert made.lab.dead == set()


def test_termination_has_no_undo_and_lingers(made: Set) -> None:
    doing = made.doing(END, "Instances", "c-data", seconds=None)
    made.hands.begin(doing)
    made.hands.end(doing)
    assert made.lab.calls == [("kill", "c-data")] and made.state("c-data") == "terminated"
    stop = made.doing(STOP, "Instances", "c-data", **AFTER)
    with pytest.raises(Failed) as refused:
        made.hands.begin(stop)
    assert refused.value.code == "ConfigurationFailure"


def test_one_of_two_that_fails_stops_not_the_other_and_both_are_taken_back(made: Set) -> None:
    def refuse(call: str, arguments: tuple[str, ...]) -> None:
        if (call, arguments) == ("stop", ("a-data",)):
            raise LabError("a-data does not stop")

    made.lab.fails = refuse
    doing = made.doing(STOP, "Instances", "a-data", "b-data", **AFTER)
    with pytest.raises(Failed, match="a-data does not stop") as failed:
        made.hands.begin(doing)
    assert failed.value.code == "DependentServiceFailure" and made.lab.dead == {"b-data"}
    made.hands.end(doing)
    assert made.lab.dead == set() and {made.state("a-data"), made.state("b-data")} == {"running"}


# ---- subnets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["all", "availability-zone"])
def test_a_disrupted_subnet_is_cut_off_both_ways_and_spared_inside(made: Set, scope: str) -> None:
    before = made.acl("a")
    doing = made.doing(DISRUPT, "Subnets", "a", scope=scope)
    assert made.hands.unable(doing) is None
    made.hands.begin(doing)
    inside = {"a-cm", "a-data", "client-a"}
    outside = {"b-cm", "b-data", "client-b", "c-cm", "c-data", "client-c"}
    expected = {(i, o) for i in inside for o in outside} | {(o, i) for i in inside for o in outside}
    assert made.lab.blocked == expected
    assert [made.acl("a")] == made.clones() and made.acl("b") == before
    heard = {each.node for each in made.mirror.instances().values() if made.hands.commands.online(each)}
    assert ("a-data" in heard) == (scope == "availability-zone") and "b-data" in heard
    for hands in (made.again(), made.hands):
        hands.end(doing)
        assert made.lab.blocked == set() and made.acl("a") == before and made.clones() == []


def test_of_two_disruptions_the_end_of_one_leaves_what_the_other_cuts(made: Set) -> None:
    one, two = made.doing(DISRUPT, "Subnets", "a"), made.doing(DISRUPT, "Subnets", "b")
    made.hands.begin(one)
    made.hands.begin(two)
    made.hands.end(one)
    assert made.lab.blocked == set(around(made.lab.wiring, "b"))
    made.hands.end(two)
    assert made.lab.blocked == set()


def test_an_association_that_somebody_changed_meanwhile_is_left(made: Set) -> None:
    doing = made.doing(DISRUPT, "Subnets", "a", "b")
    made.hands.begin(doing)
    other = made.ec2.create_network_acl(
        VpcId=made.ec2.describe_subnets(SubnetIds=[made.subnet("a")])["Subnets"][0]["VpcId"]
    )
    theirs = other["NetworkAcl"]["NetworkAclId"]
    held = next(each for each in made.mirror.associations() if each.subnet == made.subnet("a"))
    made.ec2.replace_network_acl_association(AssociationId=held.id, NetworkAclId=theirs)
    for _ in range(2):
        with pytest.raises(Failed, match=made.subnet("a")):
            made.hands.end(doing)
        assert made.acl("a") == theirs and len(made.clones()) == 1  # b's is away
        assert made.lab.blocked == set()


def test_a_moto_that_knows_nothing_any_more_keeps_no_zone_cut_off(made: Set, tmp_path: Path) -> None:
    doing = made.doing(DISRUPT, "Subnets", "a")
    made.hands.begin(doing)
    made.ec2.replace_network_acl_association(
        AssociationId=next(each.id for each in made.mirror.associations() if each.subnet == made.subnet("a")),
        NetworkAclId=made.acl("b"),
    )
    made.ec2.delete_network_acl(NetworkAclId=made.clones()[0])
    made.again().end(doing)
    assert made.lab.blocked == set()


# ---- what has no counterpart ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "key", "whom", "parameters", "says"),
    [
        (DISRUPT, "Subnets", "a", {"scope": "s3"}, "scope s3"),
        (DISRUPT, "Subnets", "a", {"scope": "vpc"}, "scope vpc"),
        (PAUSE, "Volumes", "a-data", {}, "reads go on"),
        ("aws:ebs:volume-io-latency", "Volumes", "a-data", {}, "cannot delay each read and write"),
        ("aws:eks:pod-delete", "", "", {}, "aws:eks:pod-delete has no counterpart"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(
    made: Set, action: str, key: str, whom: str, parameters: dict[str, str], says: str
) -> None:
    doing = made.doing(action, key, *([whom] if whom else []), **parameters)
    assert says in (made.hands.unable(doing) or "")
    with pytest.raises(Failed, match=says) as failed:
        made.hands.begin(doing)
    assert failed.value.code == "ConfigurationFailure" and made.lab.calls == []
    made.hands.end(doing)


def test_a_lab_without_disks_says_so(made: Set) -> None:
    made.lab.missing = {"disks": "topology x gives its nodes no disks"}
    doing = made.doing(PAUSE, "Volumes", "a-data")
    assert "gives its nodes no disks" in (made.hands.unable(doing) or "")


def test_what_is_in_ec2_and_not_of_the_lab_is_refused(made: Set) -> None:
    strange = made.ec2.run_instances(ImageId="ami-12345678", MinCount=1, MaxCount=1)["Instances"][0]["InstanceId"]
    doing = Doing("x", "x", STOP, AFTER, {"Instances": [made.mirror.arn(strange)]}, 1.0)
    assert strange in (made.hands.unable(doing) or "")


@pytest.mark.parametrize(
    ("name", "parameters", "says"),
    [
        ("AWSFIS-Run-CPU-Stress", {}, "CPU-Stress has no counterpart"),
        ("AWSFIS-Run-Memory-Stress", {}, "Memory-Stress has no counterpart"),
        ("Ours", {}, "there is no document Ours"),
        ("AWSFIS-Run-Kill-Process", {}, "needs ProcessName"),
        ("AWSFIS-Run-Kill-Process", {"ProcessName": "java", "Sig": "x"}, "takes no parameter Sig"),
        ("AWSFIS-Run-Kill-Process", {"ProcessName": "java", "Signal": "SIGSTOP"}, "Signal is one of"),
        ("AWSFIS-Run-Network-Packet-Loss", {"DurationSeconds": "60", "LossPercent": "15"}, "not 15 %"),
        ("AWSFIS-Run-Network-Packet-Loss", {"LossPercent": "100"}, "needs DurationSeconds"),
        (
            "AWSFIS-Run-Network-Latency-Sources",
            {"DurationSeconds": "60", "Sources": "ALL"},
            "JitterMilliseconds 0",
        ),
        (
            "AWSFIS-Run-Network-Packet-Loss-Sources",
            {"DurationSeconds": "60", "Sources": "example.org", "LossPercent": "100"},
            "example.org",
        ),
        (
            "AWSFIS-Run-Network-Packet-Loss-Sources",
            {"DurationSeconds": "60", "Sources": "ALL", "LossPercent": "100", "FlowsPercent": "50"},
            "FlowsPercent 100",
        ),
        (
            "AWSFIS-Run-Network-Blackhole-Port",
            {"DurationSeconds": "60", "Protocol": "tcp", "Port": "9300"},
            "port 9300 alone",
        ),
    ],
)
def test_documents_without_a_counterpart_say_what_is_missing(
    made: Set, name: str, parameters: dict[str, str], says: str
) -> None:
    doing = document(made, name, "a-data", **parameters)
    assert says in (made.hands.unable(doing) or "")
    with pytest.raises(Failed, match=says):
        made.hands.begin(doing)
    assert made.lab.calls == [] and made.hands.commands.all() == []


# ---- documents --------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "call"), [("SIGKILL", "kill"), ("SIGTERM", "stop")])
def test_kill_process_ends_the_node_and_nothing_starts_it(made: Set, number: str, call: str) -> None:
    doing = document(made, "AWSFIS-Run-Kill-Process", "a-data", ProcessName="java", Signal=number)
    made.hands.begin(doing)
    made.hands.end(doing, stopped=True)
    assert made.lab.calls == [(call, "a-data")] and made.state("a-data") == "running"


def test_kill_process_fails_where_there_is_none(made: Set) -> None:
    for name in ("postgres", "java"):
        made.lab.effects.add(("dead", "a-data"))
        doing = document(made, "AWSFIS-Run-Kill-Process", "a-data", ProcessName=name)
        with pytest.raises(Failed, match="no process found"):
            made.hands.begin(doing)
        assert "Failed" in (made.hands.still(doing) or "")
        made.hands.end(doing, stopped=True)
    assert made.lab.calls == []


def test_a_document_outlives_its_action_and_ends_at_its_own_time(made: Set) -> None:
    doing = lost(made, "b-data", seconds=60.0)
    made.hands.begin(doing)
    assert made.lab.blocked == {("a-data", "b-data")}
    made.clock.now += 60
    made.hands.end(doing)
    assert made.lab.blocked == {("a-data", "b-data")}, "completed, and the fault goes on"
    made.again().end(doing)
    assert made.lab.blocked == {("a-data", "b-data")}
    made.clock.now += 59
    made.hands.commands.tick()
    assert made.lab.blocked == {("a-data", "b-data")}
    made.clock.now += 1
    made.hands.commands.tick()
    assert made.lab.blocked == set() and made.hands.commands.all()[0].status == "Success"


def test_a_stop_rolls_a_document_back(made: Set) -> None:
    doing = lost(made, "b-data", TrafficType="egress")
    made.hands.begin(doing)
    assert made.lab.blocked == {("b-data", "a-data")}
    made.clock.now += 10
    assert made.hands.still(doing) is None
    made.again().end(doing)  # of another process: it sees that the time is not over
    assert made.lab.blocked == set()


def test_a_document_is_not_sent_twice(made: Set) -> None:
    doing = lost(made, "b-data")
    made.hands.begin(doing)
    made.hands.begin(doing)
    assert len(made.hands.commands.all()) == 1


def test_another_process_ends_documents_at_their_time(made: Set) -> None:
    made.hands.begin(lost(made, "b-data"))
    made.clock.now += 121
    with made.again() as hands:
        assert made.lab.blocked == set() and hands.commands.all()[0].status == "Success"


def test_what_could_not_be_rolled_back_stays_due(made: Set) -> None:
    def refuse(call: str, arguments: tuple[str, ...]) -> None:
        if call == "restore":
            raise LabError("not now")

    doing = lost(made, "b-data")
    made.hands.begin(doing)
    made.lab.fails = refuse
    with pytest.raises(Failed, match="not now"):
        made.hands.end(doing, stopped=True)
    made.lab.fails = lambda call, arguments: None
    made.hands.end(doing, stopped=True)
    assert made.lab.blocked == set()


def test_time_scale_divides_what_a_document_lasts(moto: str, tmp_path: Path) -> None:
    made = a_set(moto, tmp_path, time_scale=60.0)
    made.hands.begin(lost(made, "b-data", seconds=1.0))
    made.clock.now += 2
    made.hands.commands.tick()
    assert made.lab.blocked == set()


def test_latency_sources_is_late_on_the_links_that_it_names(made: Set) -> None:
    sources = {"Sources": "127.0.5.2,eu-central-1c", "TrafficType": "egress"}
    asked = {**sources, "DurationSeconds": "60", "DelayMilliseconds": "150", "JitterMilliseconds": "0"}
    doing = document(
        made,
        "AWSFIS-Run-Network-Latency-Sources",
        "a-data",
        **asked,
    )
    made.hands.begin(doing)
    wiring = made.lab.wiring
    peers = ("b-data", "c-cm", "c-data", "client-c")
    places = {(each.host, each.proxy) for peer in peers for each in wiring.toxified("a-data", peer)}
    assert made.lab.toxic == places and made.lab.blocked == set()
    made.hands.end(doing, stopped=True)
    assert made.lab.toxic == set()


def test_a_network_card_that_is_not_there_does_nothing_and_succeeds(made: Set) -> None:
    doing = lost(made, "b-data", Interface="ens5")
    made.hands.begin(doing)
    assert made.lab.calls == [] and made.hands.still(doing) is None
    made.clock.now += 120
    made.hands.commands.tick()
    assert made.hands.commands.all()[0].status == "Success"


def test_port_9200_vanishes_from_clients_alone(made: Set) -> None:
    doing = document(
        made, "AWSFIS-Run-Network-Blackhole-Port", "a-data", Protocol="tcp", Port="9200", DurationSeconds="60"
    )
    made.hands.begin(doing)
    assert made.lab.blocked == {(f"client-{zone}", "a-data") for zone in "abc"}


def test_an_agent_that_is_cut_off_hears_no_cancel(made: Set) -> None:
    asked = {"DurationSeconds": "60", "LossPercent": "100"}
    doing = document(made, "AWSFIS-Run-Network-Packet-Loss", "a-data", **asked)
    made.hands.begin(doing)
    everything = {("a-data", host.name) for host in made.lab.wiring.hosts if host.name != "a-data"}
    assert made.lab.blocked == everything
    made.hands.end(doing, stopped=True)
    assert made.lab.blocked == everything
    made.clock.now += 60
    made.hands.commands.tick()
    assert made.lab.blocked == set()


def test_a_document_needs_an_agent(made: Set) -> None:
    made.hands.begin(made.doing(DISRUPT, "Subnets", "b"))
    with pytest.raises(Failed, match="no SSM agent is online") as failed:
        made.hands.begin(lost(made, "b-data"))
    assert failed.value.code == "DependentServiceFailure"


def test_a_stopped_instance_forgets_what_documents_did_to_its_network(made: Set) -> None:
    doing = lost(made, "b-data")
    made.hands.begin(doing)
    made.hands.begin(made.doing(STOP, "Instances", "b-data", **AFTER))
    assert made.lab.blocked == set() and "Failed" in (made.hands.still(doing) or "")


def test_a_document_and_an_acl_on_the_same_link(made: Set) -> None:
    send, cut = lost(made, "b-data"), made.doing(DISRUPT, "Subnets", "b", scope="availability-zone")
    made.hands.begin(send)
    made.hands.begin(cut)
    made.hands.end(cut)
    assert made.lab.blocked == {("a-data", "b-data")}
    made.hands.begin(cut)
    made.hands.end(send, stopped=True)
    assert made.lab.blocked == set(around(made.lab.wiring, "b"))
    made.hands.end(cut)
    assert made.lab.blocked == set()


@settings(max_examples=examples(16))
@given(turns=st.lists(st.tuples(st.sampled_from(["a", "b", "c", "loss"]), st.booleans()), max_size=6))
def test_what_is_cut_is_what_is_under_way(moto: str, tmp_path_factory: Any, turns: list[tuple[str, bool]]) -> None:
    """Any order of beginnings and ends, by whichever process, leaves exactly what has begun and not ended."""
    made = a_set(moto, tmp_path_factory.mktemp("law"), LAW)
    LAW.effects.clear()
    doings = {zone: made.doing(DISRUPT, "Subnets", zone, scope="availability-zone") for zone in "abc"}
    doings["loss"] = lost(made, "b-data", seconds=None)
    active: set[str] = set()
    cuts = {zone: set(around(LAW.wiring, zone)) for zone in "abc"} | {"loss": {("a-data", "b-data")}}
    over: set[str] = set()
    try:
        for what, begins in turns:
            hands = made.again()
            if begins and what not in over:
                hands.begin(doings[what])
                active.add(what)
            elif not begins:
                hands.end(doings[what])
                over |= {"loss"} & active & {what}  # a command that was cancelled is not sent again
                active.discard(what)
            assert LAW.blocked == set().union(*(cuts[each] for each in active))
    finally:
        for what in active:
            made.again().end(doings[what])
    assert LAW.blocked == set() and made.clones() == []


LAW = TinyLab("law")
