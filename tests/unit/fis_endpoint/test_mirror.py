"""A lab as EC2 sees it, what can be found in it, and the moto server itself."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from fishands import Set, TinyLab, a_set, started

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.paths import ProcessIdentity
from chaos.fis_endpoint import moto_server
from chaos.fis_endpoint.clients import client, is_loopback
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.mirror import ALLOWED, NODE, Mirror, fill, tags_of
from chaos.targets.labs.processes import wait_until

INSTANCE, SUBNET, VOLUME = "aws:ec2:instance", "aws:ec2:subnet", "aws:ec2:ebs-volume"
RUNNING = {"path": "State.Name", "values": ["running"]}


def test_each_node_is_an_instance_at_its_own_address_with_a_data_volume(made: Set) -> None:
    described = [
        each
        for reservation in made.ec2.describe_instances(Filters=made.mirror.mine())["Reservations"]
        for each in reservation["Instances"]
    ]
    nodes = {tags_of(each)[NODE]: each for each in described}
    assert nodes.keys() == {node.name for node in made.lab.topology.nodes}
    for node in made.lab.topology.nodes:
        each = nodes[node.name]
        assert each["PrivateIpAddress"] == made.lab.wiring[node.name].loopback
        assert each["Placement"]["AvailabilityZone"] == f"eu-central-1{node.zone}"
        assert each["SubnetId"] == made.subnet(node.zone)
        assert ALLOWED.items() <= tags_of(each).items() and tags_of(each)["Name"] == node.name
        attached = {mapping["Ebs"]["VolumeId"] for mapping in each["BlockDeviceMappings"]}
        assert attached & set(made.mirror.volumes()) == {
            id for id, name in made.mirror.volumes().items() if name == node.name
        }
    assert sorted(made.mirror.subnets().values()) == ["a", "b", "c"]


def test_filling_twice_changes_nothing(made: Set, moto: str) -> None:
    before = made.mirror.instances(), made.mirror.subnets(), made.mirror.volumes()
    again = fill(made.lab, moto, made.folder)
    assert before == (again.instances(), again.subnets(), again.volumes())


def test_a_restarted_moto_has_the_same_identifiers_and_states(made: Set) -> None:
    made.hands.machines.stop([made.instance("a-data")])
    made.hands.machines.terminate([made.instance("b-data")])
    with started() as other:
        mirror = fill(made.lab, other.url, made.folder)
        assert mirror.instances() == made.mirror.instances()
        assert (mirror.subnets(), mirror.volumes()) == (made.mirror.subnets(), made.mirror.volumes())
        assert {each.state for each in mirror.instances().values()} == {"running", "stopped", "terminated"}


def test_two_labs_in_one_moto_are_apart(made: Set, moto: str, tmp_path: Path) -> None:
    other = a_set(moto, tmp_path / "other")
    assert not other.mirror.instances().keys() & made.mirror.instances().keys()
    assert len(other.mirror.instances()) == len(made.mirror.instances())


def test_more_zones_than_the_region_has_are_refused(moto: str, tmp_path: Path) -> None:
    lab = TinyLab("wide")
    lab.topology = lab.topology.model_copy(update={"zones": ("a", "b", "c", "d")})
    with pytest.raises(InvalidInput, match="4 zones"):
        fill(lab, moto, tmp_path)


def test_states_that_cannot_be_read_are_refused(moto: str, tmp_path: Path) -> None:
    (tmp_path / "states.json").write_text("[")
    with pytest.raises(InvalidInput, match="cannot be read"):
        fill(TinyLab("torn"), moto, tmp_path)


# ---- finding ----------------------------------------------------------------------------------


def test_targets_by_arn_are_those_that_exist(made: Set) -> None:
    one = made.mirror.arn(made.instance("a-data"))
    gone = one[:-17] + "0" * 17
    assert made.resources.find(INSTANCE, arns=[gone, one, one]) == [one]
    assert made.resources.find(SUBNET, arns=[one]) == []
    assert made.resources.find(INSTANCE, arns=[one.replace("123456789012", "210987654321")]) == []


def test_tags_are_and_filters_are_and_of_or(made: Set) -> None:
    mine = {"opensearch-chaos:lab": made.lab.id}
    every = made.resources.find(INSTANCE, tags={**mine, **ALLOWED})
    assert len(every) == 6
    assert made.resources.find(INSTANCE, tags={**mine, "chaos": ""}) == []
    zone = {"path": "Placement.AvailabilityZone", "values": ["eu-central-1a", "eu-central-1b"]}
    assert len(made.resources.find(INSTANCE, tags=mine, filters=[zone])) == 4
    made.hands.machines.terminate([made.instance("a-data")])
    assert len(made.resources.find(INSTANCE, tags=mine, filters=[zone])) == 4  # it lingers
    assert len(made.resources.find(INSTANCE, tags=mine, filters=[zone, RUNNING])) == 3
    volume = {"path": "Attachments.Device", "values": ["/dev/sdf"]}
    assert len(made.resources.find(VOLUME, tags=mine, filters=[volume])) == 5
    no = {"path": "DefaultForAz", "values": ["false"]}
    assert len(made.resources.find(SUBNET, tags=mine, filters=[no])) == 3


def test_parameters_choose_by_zone_and_vpc(made: Set) -> None:
    mine = {"opensearch-chaos:lab": made.lab.id}
    vpc = made.ec2.describe_vpcs(Filters=made.mirror.mine())["Vpcs"][0]["VpcId"]
    expected = [made.mirror.arn(made.subnet("b"))]
    for zone in ("eu-central-1b", made.mirror.availability_zones()["b"][1]):
        asked = {"availabilityZoneIdentifier": zone, "vpc": vpc}
        assert made.resources.find(SUBNET, parameters=asked) == expected
        assert len(made.resources.find(VOLUME, tags=mine, parameters={"availabilityZoneIdentifier": zone})) == 2


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("aws:rds:db", {}),
        (INSTANCE, {"filters": [{"path": "state.name", "values": ["running"]}]}),
        (INSTANCE, {"filters": [{"path": "Placement.Zone", "values": ["x"]}]}),
        (INSTANCE, {"filters": [{"path": "State", "values": ["running"]}]}),
        (INSTANCE, {"parameters": {"vpc": "vpc-1"}}),
        (VOLUME, {"parameters": {"vpc": "vpc-1"}}),
    ],
)
def test_what_cannot_be_read_is_an_invalid_target(made: Set, kind: str, given: dict[str, Any]) -> None:
    with pytest.raises(Failed) as failed:
        made.resources.find(kind, **given)
    assert failed.value.code == "InvalidTarget"


# ---- clients and the server -------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["https://ec2.eu-central-1.amazonaws.com", "http://localhost:5000", "http://10.0.0.1:1", "nonsense", ""]
)
def test_a_client_leads_to_loopback_alone(url: str) -> None:
    assert not is_loopback(url)
    with pytest.raises(InvalidInput, match="not on this machine"):
        client("ec2", url)


def test_a_client_heeds_nothing_of_the_environment(moto: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client.cache_clear()
    for name, value in {
        "AWS_PROFILE": "production",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
        "AWS_ENDPOINT_URL_EC2": "http://127.0.0.1:1",
    }.items():
        monkeypatch.setenv(name, value)
    ec2 = client("ec2", moto)
    assert ec2.meta.endpoint_url == moto and Mirror("nobody", moto).instances() == {}
    client.cache_clear()


def test_without_moto_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moto_server, "find_spec", lambda name: None if name in ("moto", "flask_cors") else object())
    with pytest.raises(MissingPrerequisite, match=r"no moto, flask-cors; run: pip install moto flask-cors"):
        moto_server.MotoServer.start()


def test_it_is_gone_when_it_is_closed(moto: str) -> None:
    with started() as server:
        identity = ProcessIdentity.of(server.pid)
        assert server.url.startswith("http://127.0.0.1:") and server.alive()
    assert not identity.alive()
    with pytest.raises(OSError), urllib.request.urlopen(server.url, timeout=5):
        pass


def test_it_dies_with_whoever_started_it(moto: str) -> None:
    code = (
        "import os, signal, threading\n"
        "from chaos.fis_endpoint.moto_server import MotoServer\n"
        "found = []\n"
        "thread = threading.Thread(target=lambda: found.append(MotoServer.start()))\n"
        "thread.start(); thread.join()\n"  # the thread that started it is gone, and it lives
        "print(found[0].pid, found[0].alive(), flush=True)\n"
        "os.read(0, 1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        pid, lives = holder.stdout.readline().split()
        identity = ProcessIdentity.of(int(pid))
        assert lives == b"True" and identity.alive()
        holder.stdin.write(b"x")
        holder.stdin.flush()
        holder.wait(30)
    assert wait_until(lambda: not identity.alive(), 30)
