"""The whole stand-in for one lab: moto, the endpoint, ways to the nodes, and the file of the target that this is."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from chaos.aws import policy as printed
from chaos.aws.shapes import Model
from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput
from chaos.definitions.existing import today
from chaos.fis_endpoint import domain, known, mirror
from chaos.fis_endpoint.clients import ACCOUNT, REGION, client
from chaos.fis_endpoint.connectivity import Connectivity
from chaos.fis_endpoint.doors import Doors
from chaos.fis_endpoint.ec2 import Ec2
from chaos.fis_endpoint.hands import LabHands
from chaos.fis_endpoint.iam import Iam
from chaos.fis_endpoint.mirror import Ec2Resources, Mirror
from chaos.fis_endpoint.moto_server import MotoServer
from chaos.fis_endpoint.opening import Setup, opened
from chaos.fis_endpoint.own import Alarms
from chaos.fis_endpoint.policy import ALLOW_ALL, read
from chaos.fis_endpoint.server import Moto
from chaos.fis_endpoint.service import Place
from chaos.fis_endpoint.ssm import Ssm
from chaos.opensearch.views import administer
from chaos.targets.labs.base import BaseLab

ROLE = f"arn:aws:iam::{ACCOUNT}:role/opensearch-chaos-fis"
ALARM = "opensearch-chaos-users"
"""An alarm that is OK until somebody sets it: the target's stop condition."""
DAYS = 300
"""How long the target's file allows anything."""
SILENT_SECONDS = 0.2
"""How often EC2 is asked which hosts nothing reaches."""
NOTES = ".opensearch-chaos"
WHOLE = "(the cluster)"
"""Among the doors: the one that leads to no node in particular."""


@dataclass(frozen=True)
class Standing:
    """An open stand-in. ``url``: its endpoint. ``doors``: node → the address of its REST API. ``way_in``: the address
    of the whole cluster, behind which any data node that lives may answer."""

    lab: BaseLab
    url: str
    doors: dict[str, str]
    way_in: str
    service: domain.DomainService
    alarm: str
    time_scale: str
    moto: str

    @property
    def alarms(self) -> Any:
        """A client of moto's CloudWatch."""
        return client("cloudwatch", self.moto)

    @property
    def fis(self) -> dict[str, Any]:
        """What that file says of AWS FIS."""
        return {
            "region": REGION,
            "account": ACCOUNT,
            "role": ROLE,
            "instances": {"tag": mirror.NODE},
            "longest": "2h",
            "alarms": [self.alarm],
            "endpoint": self.url,
            "time_scale": self.time_scale,
        }

    @property
    def domain(self) -> dict[str, Any]:
        """What such a file says of a domain."""
        return {"name": domain.NAME, "region": REGION, "account": ACCOUNT, "endpoint": self.url}

    def target(self, name: str) -> dict[str, Any]:
        """The file of a target that is this lab on what passes for AWS, whose nodes are instances of EC2."""
        endpoints = list(self.doors.values())[:1]
        says = "a lab that stands in for instances of EC2: no word about AWS"
        urls = {node: {"url": url} for node, url in self.doors.items()}
        return {**self._file(name, says, endpoints, urls), "fis": self.fis}

    def domain_target(self, name: str) -> dict[str, Any]:
        """The same, as a domain of Amazon OpenSearch Service: one address, and nodes that have none."""
        says = "a lab that stands in for a domain of Amazon OpenSearch Service: no word about AWS"
        return {**self._file(name, says, [self.way_in], {}), "domain": self.domain}

    def _file(
        self, name: str, says: str, endpoints: list[str], more: Mapping[str, Mapping[str, str]]
    ) -> dict[str, Any]:
        """``more``: node → what the file says of it beside its zone and its roles."""
        who = administer(self.lab, "GET", "/")[1]
        topology = self.lab.topology
        nodes = {
            node.name: {"zone": node.zone, "roles": list(node.roles), **more.get(node.name, {})}
            for node in topology.nodes
        }
        return {
            "apiVersion": "opensearch-chaos/v1",
            "kind": "existing",
            "name": name,
            "description": says,
            "endpoints": endpoints,
            "identity": {"cluster_uuid": who["cluster_uuid"], "cluster_name": who["cluster_name"]},
            "opensearch": topology.version,
            "zones": {"names": {zone: zone for zone in topology.zones}},
            "nodes": nodes,
            "notes": NOTES,
            "caps": {"requests": "500/s", "documents": 20000, "copies": topology.shards * (topology.replicas + 1)},
            "rung": "zone",
            "until": (today() + timedelta(days=DAYS)).isoformat(),
        }


class Silence:
    """Which nodes' hosts nothing enters or leaves: of instances that do not run, and of subnets that are cut off."""

    def __init__(self, seen: Mirror, connectivity: Connectivity) -> None:
        self._mirror, self._connectivity = seen, connectivity
        self._silent: frozenset[str] = frozenset()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)

    def __call__(self, node: str) -> bool:
        return node in self._silent

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(SILENT_SECONDS):
            try:
                cut = self._connectivity.cut_subnets()
                self._silent = frozenset(
                    each.node
                    for each in self._mirror.instances().values()
                    if each.state not in ("running", "pending") or cut.get(each.subnet) == "all"
                )
            except Exception:  # moto is going, or busy: what was known stays
                continue


@contextmanager
def standing(
    lab: BaseLab,
    *,
    port: int = 0,
    time_scale: float = 1.0,
    policy: Path | None = None,
    folder: Path | None = None,
    changed: Callable[[Setup], Setup] = lambda setup: setup,
) -> Iterator[Standing]:
    """For as long as the block lasts. What a dead one left in the lab is undone before it answers.

    ``folder``: where its journal is; default the state folder. ``changed``: for tests, which spoil it.

    Raises InvalidInput where the port is taken or the policy cannot be read, MissingPrerequisite without moto.
    """
    folder = folder or lab.folder / "fis-endpoint"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        moto = stack.enter_context(MotoServer.start(log=folder / "moto.log"))
        seen = mirror.fill(lab, moto.url, folder)
        hands = stack.enter_context(LabHands(lab, seen, folder, time_scale=time_scale))
        forward = Moto(moto.url)
        service = domain.DomainService(lab, hands, folder)
        setup = Setup(
            journal=folder / "journal.jsonl",
            place=Place(ACCOUNT, REGION),
            shapes=Model("fis"),
            catalogue=known.of_aws(),
            hands=hands,
            resources=Ec2Resources(moto.url),
            alarm_state=Alarms(client("cloudwatch", moto.url)),
            handlers={
                "ec2": Ec2(hands, forward),
                "ssm": Ssm(hands, forward),
                "es": service,
                "iam": Iam(moto.url),
            },
            moto=moto.url,
            policy=ALLOW_ALL if policy is None else read(policy),
            time_scale=time_scale,
            port=port,
        )
        alarm = _alarm(moto.url)
        _role(moto.url)
        there = stack.enter_context(opened(changed(setup)))
        if there.left:
            raise ChaosError(f"what a dead endpoint left in lab {lab.id} could not be undone: {'; '.join(there.left)}")
        silence = stack.enter_context(Silence(seen, hands.connectivity))
        ways = {node.name: _way(lab, node.name) for node in lab.topology.nodes}
        doors = Doors({**ways, WHOLE: lambda: _any_way(lab, silence)}, silence)
        stack.callback(doors.close)
        doors.open(_before(folder))
        paths.write_json(folder / "doors.json", doors.ports)
        urls = {node: f"{lab.access.scheme}://127.0.0.1:{number}" for node, number in doors.ports.items()}
        way_in = urls.pop(WHOLE)
        yield Standing(lab, there.url, urls, way_in, service, alarm, f"{time_scale:g}x", moto.url)


def _way(lab: BaseLab, node: str) -> Any:
    return lambda: lab.administration(node)


def _any_way(lab: BaseLab, silent: Callable[[str], bool]) -> Any:
    """To a data node whose process lives and whose host is reached. Raises OSError where there is none."""
    names = [
        node.name
        for node in lab.topology.data_nodes
        if lab.process_state(node.name) not in (None, "T", "Z") and not silent(node.name)
    ]
    if not names:
        raise ConnectionRefusedError("no data node is there")
    return lab.administration(random.choice(names))


def _before(folder: Path) -> dict[str, int]:
    """The ports that doors had: a target's file that names them stays true. Raises InvalidInput."""
    try:
        return {str(node): int(port) for node, port in json.loads((folder / "doors.json").read_text()).items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise InvalidInput(
            f"{folder / 'doors.json'} cannot be read: {type(error).__name__}", remedy="remove it"
        ) from error


def _role(url: str) -> None:
    """FIS's role in moto, with what `fis policy` prints for every fault that FIS offers."""
    iam, name = client("iam", url), ROLE.rpartition("/")[2]
    actions = {action for actions, _ in printed.ACTIONS.values() for action in actions}
    documents = {document for _, documents in printed.ACTIONS.values() for document in documents}
    wanted = printed.Wanted("aws", REGION, ACCOUNT, "", ROLE, actions, documents)
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(printed.trust(wanted)))
    rights = json.dumps(printed.experiment_role(wanted))
    iam.put_role_policy(RoleName=name, PolicyName="opensearch-chaos", PolicyDocument=rights)


def _alarm(url: str) -> str:
    """An alarm in moto that is OK; its ARN."""
    cloudwatch = client("cloudwatch", url)
    cloudwatch.put_metric_alarm(
        AlarmName=ALARM,
        Namespace="shop",
        MetricName="SlowSearches",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1.0,
        ComparisonOperator="GreaterThanThreshold",
    )
    cloudwatch.set_alarm_state(AlarmName=ALARM, StateValue="OK", StateReason="nobody suffers")
    return f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{ALARM}"
