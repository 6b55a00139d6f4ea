"""A fake lab that moto mirrors, hands on it with a clock of the test's own, and a server that real clients speak to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeLab

from chaos.base.errors import MissingPrerequisite
from chaos.fis_endpoint.clients import REGION, client
from chaos.fis_endpoint.doing import Doing
from chaos.fis_endpoint.ec2 import Ec2
from chaos.fis_endpoint.hands import LabHands
from chaos.fis_endpoint.mirror import Ec2Resources, Mirror, fill
from chaos.fis_endpoint.moto_server import MotoServer, require
from chaos.fis_endpoint.server import Moto, Request
from chaos.fis_endpoint.ssm import Ssm

_NUMBERS = count(1)


def needs_moto() -> None:
    """Skips, with the reason, where moto's server is not installed."""
    try:
        require()
    except MissingPrerequisite as error:
        pytest.skip(str(error))


class TinyLab(FakeLab):
    """A fake lab whose nodes are gone once they were stopped or killed. It may be looked at while the endpoint acts."""

    def __init__(self, id: str, name: str = "3az-standby") -> None:
        super().__init__(name, id)

    def process_state(self, node: str) -> str | None:
        return None if ("dead", node) in self.effects else super().process_state(node)

    @property
    def blocked(self) -> set[tuple[str, str]]:
        return {(each[1], each[2]) for each in self.effects.copy() if each[0] == "blocked"}

    @property
    def dead(self) -> set[str]:
        return {each[1] for each in self.effects.copy() if each[0] == "dead"}

    @property
    def toxic(self) -> set[tuple[str, str]]:
        return {(each[1], each[2]) for each in self.effects.copy() if each[0] == "toxic"}


@dataclass
class Clock:
    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Set:
    """A lab, its mirror, and hands."""

    lab: TinyLab
    mirror: Mirror
    hands: LabHands
    folder: Path
    clock: Clock
    resources: Ec2Resources
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def ec2(self) -> Any:
        return self.mirror.ec2

    def instance(self, node: str) -> str:
        return next(id for id, each in self.mirror.instances().items() if each.node == node)

    def subnet(self, zone: str) -> str:
        return next(id for id, each in self.mirror.subnets().items() if each == zone)

    def state(self, node: str) -> str:
        return self.mirror.instances()[self.instance(node)].state

    def acl(self, zone: str) -> str:
        return next(each.acl for each in self.mirror.associations() if each.subnet == self.subnet(zone))

    def clones(self) -> list[str]:
        found = self.ec2.describe_network_acls(Filters=[{"Name": "tag:managedByFIS", "Values": ["true"]}])
        mine = {tag["Value"] for acl in found["NetworkAcls"] for tag in acl["Tags"]} & set(self.mirror.subnets())
        return [acl["NetworkAclId"] for acl in found["NetworkAcls"] if mine & {tag["Value"] for tag in acl["Tags"]}]

    def doing(self, action: str, key: str = "", *whom: str, seconds: float | None = 60.0, **parameters: str) -> Doing:
        """``whom``: nodes for Instances and Volumes, zones for Subnets."""
        of: Mapping[str, Callable[[str], str]] = {"Instances": self.instance, "Subnets": self.subnet}
        volumes = {node: id for id, node in self.mirror.volumes().items()} if key == "Volumes" else {}
        arns = [self.mirror.arn(volumes[each] if volumes else of[key](each)) for each in whom]
        id = f"EXP{self.lab.id}:{next(self.numbers)}"
        return Doing(id, "EXP1", action, parameters, {key: arns} if key else {}, seconds)

    def tidied(self) -> bool:
        """Put moto back as it was at first; False where something terminated."""
        instances = self.mirror.instances().values()
        if any(each.state == "terminated" for each in instances):
            return False
        if stopped := [each.id for each in instances if each.state != "running"]:
            self.ec2.start_instances(InstanceIds=stopped)
        mine = set(self.mirror.subnets())
        default = self.ec2.describe_network_acls(Filters=[{"Name": "default", "Values": ["true"]}])["NetworkAcls"]
        subnet = self.ec2.describe_subnets(SubnetIds=sorted(mine)[:1])["Subnets"][0]
        acl = next(each["NetworkAclId"] for each in default if each["VpcId"] == subnet["VpcId"])
        for each in self.mirror.associations():
            if each.subnet in mine and each.acl != acl:
                self.ec2.replace_network_acl_association(AssociationId=each.id, NetworkAclId=acl)
        for clone in self.clones():
            self.ec2.delete_network_acl(NetworkAclId=clone)
        return True

    def again(self) -> LabHands:
        """Hands of another process, on the same lab and the same moto."""
        return LabHands(self.lab, self.mirror, self.folder, clock=self.clock)


def a_set(moto: str, folder: Path, lab: TinyLab | None = None, **options: Any) -> Set:
    lab = lab or TinyLab(f"lab{next(_NUMBERS)}")
    clock = Clock()
    mirror = fill(lab, moto, folder)
    hands = LabHands(lab, mirror, folder, clock=clock, **options)
    return Set(lab, mirror, hands, folder, clock, Ec2Resources(moto))


@contextmanager
def front(of: Set) -> Iterator[Callable[[str], Any]]:
    """A server with the handlers of EC2 and SSM on moto; yields (service) → a client of it."""
    forward = Moto(of.mirror.url)
    handlers: dict[str, Any] = {"ec2": Ec2(of.hands, forward), "ssm": Ssm(of.hands, forward)}

    class Serve(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            service = self.headers["Authorization"].split("/")[3]
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Request(self.command, self.path, headers, body, service, REGION)
            answer = handlers.get(service, forward)(got)
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Serve)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield lambda service: client(service, f"http://127.0.0.1:{server.server_address[1]}")
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def started() -> MotoServer:
    """A moto server of the test's own; skips where there is none."""
    needs_moto()
    return MotoServer.start()
