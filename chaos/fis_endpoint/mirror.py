"""A lab as EC2 sees it: moto is filled from the lab, and everything is read from moto's tags whenever it is asked for.

One VPC, one subnet per zone, one instance per node with the address that the node publishes, one data volume per node.
Identifiers are the same each time a lab of that name is mirrored, so what others wrote down before a restart of the
endpoint still names the same nodes. A subnet's CIDR does not hold the addresses of its instances: those of a lab lie
across its zones.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from chaos.base import paths
from chaos.base.errors import InvalidInput, LabError
from chaos.fis_endpoint.clients import ACCOUNT, REGION, client
from chaos.fis_endpoint.doing import Failed
from chaos.targets.protocol import Target

LAB, NODE, ZONE = "opensearch-chaos:lab", "opensearch-chaos:node", "opensearch-chaos:zone"
ALLOWED = {"chaos": "allowed"}
"""The tag by which an experiment's role is let at a resource."""
IMAGE, INSTANCE_TYPE, DEVICE = "ami-0123456789abcdef0", "m5.large", "/dev/sdf"
_TYPES = {"aws:ec2:instance": "instance", "aws:ec2:subnet": "subnet", "aws:ec2:ebs-volume": "volume"}


class States:
    """What EC2 was told of the instances and a restarted moto cannot know: node → ``stopped``, ``terminated``.

    ``rebooting`` is one that was stopped and has yet to be started. A node that is not there runs.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "states.json"
        self._lock = threading.Lock()

    def all(self) -> dict[str, str]:
        """Raises InvalidInput when the file cannot be read."""
        try:
            return {str(node): str(state) for node, state in json.loads(self._file.read_text()).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as error:
            raise InvalidInput(
                f"the states of instances in {self._file} cannot be read: {type(error).__name__}",
                remedy="remove the file: every instance then counts as running",
            ) from error

    def set(self, node: str, state: str | None) -> None:
        """Write it down; None: it runs."""
        with self._lock:
            states = {**self.all(), node: state}
            paths.write_json(self._file, {each: said for each, said in states.items() if said is not None})


@dataclass(frozen=True)
class Instance:
    """An instance of moto's that is a node. ``state``: as ``State.Name`` of DescribeInstances."""

    id: str
    node: str
    state: str
    subnet: str
    address: str


@dataclass(frozen=True)
class Association:
    """Which network ACL a subnet has."""

    id: str
    acl: str
    subnet: str


@dataclass(frozen=True)
class Mirror:
    """The EC2 side of one lab, read afresh from moto with every call. Calls raise what botocore raises."""

    lab: str
    url: str
    region: str = REGION

    @property
    def ec2(self) -> Any:
        return client("ec2", self.url, self.region)

    def mine(self) -> list[dict[str, Any]]:
        """The filter of Describe calls for what is of this lab."""
        return [{"Name": f"tag:{LAB}", "Values": [self.lab]}]

    def instances(self) -> dict[str, Instance]:
        """Instance id → what it is, terminated ones included."""
        found = {}
        for page in self.ec2.get_paginator("describe_instances").paginate(Filters=self.mine()):
            for each in (instance for reservation in page["Reservations"] for instance in reservation["Instances"]):
                node = tags_of(each).get(NODE)
                if node is not None:
                    where = str(each.get("SubnetId", "")), str(each.get("PrivateIpAddress", ""))
                    found[each["InstanceId"]] = Instance(each["InstanceId"], node, each["State"]["Name"], *where)
        return found

    def instance(self, id: str) -> Instance | None:
        """The node's instance of this id; None when it is no node of the lab."""
        return self.instances().get(id)

    def subnets(self) -> dict[str, str]:
        """Subnet id → zone of the lab."""
        pages = self.ec2.get_paginator("describe_subnets").paginate(Filters=self.mine())
        return {each["SubnetId"]: tags_of(each)[ZONE] for page in pages for each in page["Subnets"]}

    def volumes(self) -> dict[str, str]:
        """Id of a data volume → node."""
        pages = self.ec2.get_paginator("describe_volumes").paginate(Filters=self.mine())
        return {each["VolumeId"]: tags_of(each)[NODE] for page in pages for each in page["Volumes"]}

    def associations(self) -> list[Association]:
        """The network ACL of every subnet of moto's."""
        pages = self.ec2.get_paginator("describe_network_acls").paginate()
        return [
            Association(each["NetworkAclAssociationId"], each["NetworkAclId"], each["SubnetId"])
            for page in pages
            for acl in page["NetworkAcls"]
            for each in acl["Associations"]
        ]

    def availability_zones(self) -> dict[str, tuple[str, str]]:
        """Zone of the lab → (name, id) of its availability zone."""
        found = self.ec2.describe_subnets(Filters=self.mine())["Subnets"]
        return {tags_of(each)[ZONE]: (each["AvailabilityZone"], each["AvailabilityZoneId"]) for each in found}

    def arn(self, id: str) -> str:
        """The ARN of an instance, a subnet or a volume."""
        kind = {"i": "instance", "subnet": "subnet", "vol": "volume"}[id.partition("-")[0]]
        return f"arn:aws:ec2:{self.region}:{ACCOUNT}:{kind}/{id}"


def id_of(arn: str) -> str:
    """The id at the end of an ARN."""
    return arn.rpartition("/")[2]


def tags_of(described: Mapping[str, Any]) -> dict[str, str]:
    """The tags of what was described, key → value."""
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def fill(lab: Target, url: str, folder: Path, *, region: str = REGION) -> Mirror:
    """Fill the moto at ``url`` from a lab; what is there already is left as it is.

    ``folder`` is the endpoint's own, with the :class:`States` from before a restart. Raises InvalidInput when the
    region has fewer availability zones than the lab has zones.
    """
    mirror, states = Mirror(lab.id, url, region), States(folder).all()
    ec2, nodes = mirror.ec2, {each.node: each.id for each in mirror.instances().values()}
    names = sorted(each["ZoneName"] for each in ec2.describe_availability_zones()["AvailabilityZones"])
    zones = lab.topology.zones
    if len(names) < len(zones):
        raise InvalidInput(
            f"{region} has {len(names)} availability zones and the lab {len(zones)} zones",
            remedy="choose a region with more, for example us-east-1",
        )
    lettered = {f"{region}{zone}" for zone in zones} <= set(names)
    places = {zone: f"{region}{zone}" if lettered else names[at] for at, zone in enumerate(zones)}
    vpcs = ec2.describe_vpcs(Filters=mirror.mine())["Vpcs"]
    if not vpcs:
        _seed(url, int.from_bytes(hashlib.sha256(f"{lab.id} {region}".encode()).digest()[:4]))
    try:
        vpc = vpcs[0] if vpcs else ec2.create_vpc(CidrBlock="127.0.0.0/16", **_tagged("vpc", lab.id, lab.id))["Vpc"]
        subnets = {zone: id for id, zone in mirror.subnets().items()}
        for at, zone in enumerate(zones):
            if zone not in subnets:
                subnets[zone] = ec2.create_subnet(
                    VpcId=vpc["VpcId"],
                    CidrBlock=f"127.0.{255 - at}.0/24",
                    AvailabilityZone=places[zone],
                    **_tagged("subnet", lab.id, f"{lab.id}-{zone}", {ZONE: zone}),
                )["Subnet"]["SubnetId"]
        disks = set(mirror.volumes().values())
        for node in lab.topology.nodes:
            more = {NODE: node.name, ZONE: node.zone}
            if node.name not in nodes:
                card = ec2.create_network_interface(
                    SubnetId=subnets[node.zone], PrivateIpAddress=lab.wiring[node.name].loopback
                )["NetworkInterface"]
                nodes[node.name] = ec2.run_instances(
                    ImageId=IMAGE,
                    InstanceType=INSTANCE_TYPE,
                    MinCount=1,
                    MaxCount=1,
                    NetworkInterfaces=[{"DeviceIndex": 0, "NetworkInterfaceId": card["NetworkInterfaceId"]}],
                    Placement={"AvailabilityZone": places[node.zone]},
                    **_tagged("instance", lab.id, node.name, more),
                )["Instances"][0]["InstanceId"]
            if node.name not in disks:
                volume = ec2.create_volume(
                    AvailabilityZone=places[node.zone],
                    Size=8,
                    VolumeType="gp3",
                    **_tagged("volume", lab.id, f"{node.name}-data", more),
                )
                ec2.attach_volume(VolumeId=volume["VolumeId"], InstanceId=nodes[node.name], Device=DEVICE)
    finally:
        if not vpcs:
            _seed(url, int.from_bytes(os.urandom(4)))
    for told, call in (("stopped", ec2.stop_instances), ("terminated", ec2.terminate_instances)):
        if ids := [nodes[node] for node, state in states.items() if state == told and node in nodes]:
            call(InstanceIds=ids)
    return mirror


def _tagged(kind: str, lab: str, name: str, more: Mapping[str, str] | None = None) -> dict[str, Any]:
    tags = {"Name": name, LAB: lab, **ALLOWED, **(more or {})}
    return {"TagSpecifications": [{"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}]}


def _seed(url: str, number: int) -> None:
    """Choose what moto draws identifiers from."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(f"{url}/moto-api/seed?a={number}", method="POST"), timeout=30):
            return
    except OSError as error:
        raise LabError(f"what answers at {url} is no moto server: {error}") from error


# ---- what experiments are aimed at ------------------------------------------------------------


@dataclass(frozen=True)
class Ec2Resources:
    """Resources of FIS's types as moto's EC2 has them, of this lab or not: :class:`chaos.fis_endpoint.doing.Resources`.

    Terminated instances are among them for as long as EC2 describes them.
    """

    url: str
    region: str = REGION

    def find(
        self,
        kind: str,
        *,
        arns: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        filters: Sequence[Mapping[str, Any]] = (),
        parameters: Mapping[str, str] | None = None,
    ) -> list[str]:
        """ARNs, in the order in which they were named or are described. Raises Failed with InvalidTarget."""
        if kind not in _TYPES:
            raise Failed("InvalidTarget", f"there are no resources of the type {kind} here")
        wanted = [(_leaf(kind, each["path"]), [str(value) for value in each["values"]]) for each in filters]
        asked = dict(parameters or {})
        if unknown := asked.keys() - _PARAMETERS[kind]:
            raise Failed("InvalidTarget", f"{kind} takes no parameter {', '.join(sorted(unknown))}")
        described = {f"{self._prefix(kind)}{each[_IDS[kind]]}": each for each in self._described(kind)}
        if arns:
            return [arn for arn in dict.fromkeys(arns) if arn in described]
        zone, vpc = asked.get("availabilityZoneIdentifier"), asked.get("vpc")
        if zone is not None:  # moto's volumes have the name of their zone alone
            zones = client("ec2", self.url, self.region).describe_availability_zones()["AvailabilityZones"]
            zone = {each["ZoneId"]: each["ZoneName"] for each in zones}.get(zone, zone)
        return [
            arn
            for arn, each in described.items()
            if (tags or {}).items() <= tags_of(each).items()
            and all(set(values) & set(_values(each, path)) for path, values in wanted)
            and (zone is None or zone == each.get("AvailabilityZone"))
            and (vpc is None or vpc == each.get("VpcId"))
        ]

    def _prefix(self, kind: str) -> str:
        return f"arn:aws:ec2:{self.region}:{ACCOUNT}:{_TYPES[kind]}/"

    def _described(self, kind: str) -> Iterator[dict[str, Any]]:
        operation, path = _DESCRIBES[kind]
        for page in client("ec2", self.url, self.region).get_paginator(operation).paginate():
            yield from _at(page, path)


_IDS = {"aws:ec2:instance": "InstanceId", "aws:ec2:subnet": "SubnetId", "aws:ec2:ebs-volume": "VolumeId"}
_DESCRIBES = {
    "aws:ec2:instance": ("describe_instances", ("Reservations", "Instances")),
    "aws:ec2:subnet": ("describe_subnets", ("Subnets",)),
    "aws:ec2:ebs-volume": ("describe_volumes", ("Volumes",)),
}
_PARAMETERS: dict[str, set[str]] = {
    "aws:ec2:instance": set(),
    "aws:ec2:subnet": {"availabilityZoneIdentifier", "vpc"},
    "aws:ec2:ebs-volume": {"availabilityZoneIdentifier"},
}


def _at(value: Any, path: Sequence[str]) -> list[Any]:
    """All values at a path, through lists."""
    if isinstance(value, list):
        return [found for each in value for found in _at(each, path)]
    if not path:
        return [value]
    return _at(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


def _values(described: Mapping[str, Any], path: Sequence[str]) -> list[str]:
    return [str(found).lower() if isinstance(found, bool) else str(found) for found in _at(dict(described), path)]


@cache
def _shape(kind: str) -> Any:
    """The shape of one resource in the answer that describes it, by botocore's model."""
    from botocore.session import Session

    operation, path = _DESCRIBES[kind]
    model = Session().get_service_model("ec2")
    shape = model.operation_model("".join(part.title() for part in operation.split("_"))).output_shape
    for name in path:
        shape = shape.members[name].member
    return shape


def _leaf(kind: str, path: str) -> tuple[str, ...]:
    """A filter's path in parts. Raises Failed when it leads to no single value of what is described."""
    shape, parts = _shape(kind), tuple(path.split("."))
    for part in parts:
        while shape.type_name == "list":
            shape = shape.member
        if shape.type_name != "structure" or part not in shape.members:
            raise Failed("InvalidTarget", f"the path {path} of a filter is not in what describes {kind}")
        shape = shape.members[part]
    while shape.type_name == "list":
        shape = shape.member
    if shape.type_name == "structure":
        raise Failed("InvalidTarget", f"the path {path} of a filter leads to no single value")
    return parts
