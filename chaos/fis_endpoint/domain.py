"""A lab as a domain of Amazon OpenSearch Service: its control plane, as far as anything here relies on it.

Built are DescribeDomain, DescribeDomainHealth, DescribeDomainNodes, StartDomainMaintenance, GetDomainMaintenanceStatus
and ListDomainMaintenances, each validated in both directions by botocore's model. What AWS asks for before a
maintenance is asked for here too (Developer Guide, Performing administrative actions): three data nodes, no red, a
replica of every index, no standby. A maintenance stops the node's process in order and starts it again; a lab's hosts
are this machine, so REBOOT_NODE does the same. All else is moto's.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from chaos.aws.shapes import Model
from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput
from chaos.fis_endpoint.clients import ACCOUNT, REGION
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.hands import LabHands
from chaos.fis_endpoint.mirror import INSTANCE_TYPE
from chaos.fis_endpoint.routing import OF_DOMAINS, Refused, Reply, Routes, refusal
from chaos.fis_endpoint.server import Request
from chaos.opensearch import administration
from chaos.opensearch.views import View, administer, newest, views
from chaos.targets.labs.base import BaseLab
from chaos.targets.labs.processes import wait_until

NAME = "chaos-lab"
LEAST_DATA_NODES = 3
BACK_SECONDS = 180.0
"""Until a node that was restarted is a member again; after that its maintenance has failed."""
RESTARTS = ("RESTART_SEARCH_PROCESS", "REBOOT_NODE")
WITHOUT_REPLICA = "/_cat/indices?format=json&h=index,rep&expand_wildcards=all"
NOT_AVAILABLE = "NotAvailable"
_COLOURS = {"green": "Green", "yellow": "Yellow", "red": "Red"}


@dataclass(frozen=True)
class Maintenance:
    """One that was asked for, as ListDomainMaintenances tells it. Moments: unix seconds."""

    id: str
    node: str
    action: str
    status: str
    created: float
    updated: float
    message: str = ""


class Book:
    """The maintenances of one domain, on disk, so that a restarted endpoint still tells them."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        try:
            self._all = {each["id"]: Maintenance(**each) for each in json.loads(file.read_text())}
        except FileNotFoundError:
            self._all = {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"{file} cannot be read: {type(error).__name__}", remedy="remove it") from error

    def all(self) -> list[Maintenance]:
        with self._lock:
            return sorted(self._all.values(), key=lambda each: each.created)

    def put(self, one: Maintenance) -> None:
        with self._lock:
            self._all[one.id] = one
            paths.write_json(self._file, [asdict(each) for each in self._all.values()])


class DomainService:
    """Answers requests that are signed for ``es``. What a dead endpoint had begun is ended before it answers.

    Raises InvalidInput where what was written down cannot be read.
    """

    def __init__(self, lab: BaseLab, hands: LabHands, folder: Path) -> None:
        self._lab, self._hands = lab, hands
        self._restart = self._by_hands
        self._book = Book(folder / "maintenances.json")
        self._routes = Routes(Model("opensearch"), "opensearch", "2021-01-01")
        self._zones = {zone: name for zone, (name, _) in hands.mirror.availability_zones().items()}
        self._ids: dict[str, str] = {}
        hands.machines.rebooted(hands.mirror.instances())
        for each in self._book.all():
            if each.status not in ("COMPLETED", "FAILED"):
                self._say(each, "FAILED", "the endpoint died meanwhile")

    def __call__(self, request: Request) -> Reply | None:
        """None: it is moto's."""
        try:
            operation, params = self._routes.parse(request.method, request.path, request.body)
            work: Callable[[Mapping[str, Any]], dict[str, Any]] | None = getattr(self, f"_{operation}", None)
            if work is None:
                return None
            self._routes.check(operation, params)
            if params["DomainName"] != NAME:
                raise _refused("ResourceNotFoundException", f"Domain not found: {params['DomainName']}")
            return self._routes.answer(operation, work(params))
        except Refused as error:
            return refusal(error)

    def operation(self, request: Request) -> str:
        return self._routes.named(request)

    # ---- what it is -----------------------------------------------------------------------------------------

    def _DescribeDomain(self, _: Mapping[str, Any]) -> dict[str, Any]:
        topology = self._lab.topology
        return {
            "DomainStatus": {
                "DomainId": f"{ACCOUNT}/{NAME}",
                "DomainName": NAME,
                "ARN": f"arn:aws:es:{REGION}:{ACCOUNT}:domain/{NAME}",
                "Created": True,
                "Deleted": False,
                "Processing": False,
                "UpgradeProcessing": False,
                "EngineVersion": f"OpenSearch_{'.'.join(topology.version.split('.')[:2])}",
                "DomainProcessingStatus": "Active",
                "ClusterConfig": {
                    "InstanceCount": len(topology.data_nodes),
                    "DedicatedMasterEnabled": self._dedicated,
                    "ZoneAwarenessEnabled": len(topology.zones) > 1,
                    "MultiAZWithStandbyEnabled": bool(self._standby()),
                },
            }
        }

    def _DescribeDomainHealth(self, _: Mapping[str, Any]) -> dict[str, Any]:
        seen, standby, topology = newest(views(self._lab)), self._standby(), self._lab.topology
        managers = [node for node in topology.nodes if node.is_cluster_manager]
        return {
            "DomainState": "Active",
            "AvailabilityZoneCount": str(len(topology.zones)),
            "ActiveAvailabilityZoneCount": str(len(topology.zones) - len(standby)),
            "StandByAvailabilityZoneCount": str(len(standby)),
            "DataNodeCount": str(len(topology.data_nodes)),
            "DedicatedMaster": self._dedicated,
            "MasterEligibleNodeCount": str(len(managers)),
            "MasterNode": "UnAvailable" if seen is None else "Available",
            "ClusterHealth": NOT_AVAILABLE if seen is None else _COLOURS[seen.status],
            "TotalShards": NOT_AVAILABLE if seen is None else str(len(seen.copies)),
            "TotalUnAssignedShards": NOT_AVAILABLE if seen is None else str(_unassigned(seen)),
            "EnvironmentInformation": [
                {"AvailabilityZoneInformation": [self._zone(zone, seen, standby) for zone in topology.zones]}
            ],
        }

    def _zone(self, zone: str, seen: View | None, standby: set[str]) -> dict[str, Any]:
        """One of DescribeDomainHealth's. A zone without a data node in the cluster is not available."""
        inside = [node.name for node in self._lab.topology.data_nodes if node.zone == zone]
        there = 0 if seen is None else sum(name in seen.nodes for name in inside)
        status = "StandBy" if zone in standby else "Active"
        return {
            "AvailabilityZoneName": self._zones[zone],
            "ZoneStatus": status if there else NOT_AVAILABLE,
            "ConfiguredDataNodeCount": str(len(inside)),
            "AvailableDataNodeCount": NOT_AVAILABLE if seen is None else str(there),
        }

    def _DescribeDomainNodes(self, _: Mapping[str, Any]) -> dict[str, Any]:
        ids, standby = self._known_ids(), self._standby()
        seen = newest(views(self._lab))
        there = frozenset[str]() if seen is None else seen.nodes
        return {
            "DomainNodesStatusList": [
                {
                    "NodeId": ids[node.name],
                    "NodeType": "Data" if node.is_data else "Master",
                    "AvailabilityZone": self._zones[node.zone],
                    "InstanceType": f"{INSTANCE_TYPE}.search",
                    "NodeStatus": NOT_AVAILABLE
                    if node.name not in there
                    else "StandBy"
                    if node.zone in standby
                    else "Active",
                }
                for node in self._lab.topology.nodes
                if node.name in ids
            ]
        }

    # ---- maintenance ----------------------------------------------------------------------------------------

    def _StartDomainMaintenance(self, given: Mapping[str, Any]) -> dict[str, Any]:
        names = {id: name for name, id in self._known_ids().items()}
        node = names.get(given.get("NodeId", ""))
        data = {each.name for each in self._lab.topology.data_nodes}
        if given["Action"] not in RESTARTS:
            raise _refused("DisabledOperationException", f"{given['Action']}: a lab has no dashboards")
        if node not in data:
            raise _refused("ValidationException", f"{given.get('NodeId')} is no data node of {NAME}")
        if why := self._unfit(len(data)):
            raise _refused("ValidationException", why)
        now = time.time()
        made = Maintenance(str(uuid.uuid4()), given["NodeId"], given["Action"], "PENDING", now, now)
        self._book.put(made)
        threading.Thread(target=self._carry_out, args=(made, node), name="maintenance", daemon=True).start()
        return {"MaintenanceId": made.id}

    def _unfit(self, nodes: int) -> str | None:
        """Why AWS would restart nothing of such a domain."""
        if self._standby():
            return "maintenance is not supported on domains with Multi-AZ with Standby"
        if nodes < LEAST_DATA_NODES:
            return f"maintenance needs {LEAST_DATA_NODES} data nodes, and there are {nodes}"
        seen = newest(views(self._lab))
        if seen is None or seen.status == "red":
            return "maintenance needs a cluster that is not red"
        status, rows = administer(self._lab, "GET", WITHOUT_REPLICA)
        bare = [row["index"] for row in rows if row["rep"] == "0"] if status == 200 else ["(nobody knows)"]
        return f"maintenance needs a replica of every index: {', '.join(sorted(bare)[:5])}" if bare else None

    def _carry_out(self, made: Maintenance, node: str) -> None:
        made = self._say(made, "IN_PROGRESS")
        try:
            self._restart(node)
        except (Failed, ChaosError) as error:
            self._say(made, "FAILED", str(error))
            return
        self._say(made, "COMPLETED")

    def _by_hands(self, node: str) -> None:
        """Raises Failed."""
        (id,) = [id for id, each in self._hands.mirror.instances().items() if each.node == node]
        self._hands.machines.reboot([id])
        if not wait_until(lambda: self._is_in(node), BACK_SECONDS, every=0.5):
            raise Failed("InternalFailure", f"{node} is no member after {BACK_SECONDS:g} s")

    def _is_in(self, node: str) -> bool:
        seen = newest(views(self._lab))
        return seen is not None and node in seen.nodes

    def _say(self, one: Maintenance, status: str, message: str = "") -> Maintenance:
        said = replace(one, status=status, updated=time.time(), message=message)
        self._book.put(said)
        return said

    def _GetDomainMaintenanceStatus(self, given: Mapping[str, Any]) -> dict[str, Any]:
        for each in self._book.all():
            if each.id == given["MaintenanceId"]:
                told = _told(each)
                return {name: told[name] for name in told if name not in ("MaintenanceId", "DomainName")}
        raise _refused("ResourceNotFoundException", f"there is no maintenance {given['MaintenanceId']}")

    def _ListDomainMaintenances(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Paged: the token is the place at which the next page begins."""
        token = str(given.get("NextToken") or "0")
        if not token.isdecimal():
            raise _refused("ValidationException", "NextToken is none of ours")
        rows = [
            _told(each)
            for each in self._book.all()
            if given.get("Action") in (None, each.action) and given.get("Status") in (None, each.status)
        ]
        at, most = int(token), int(given.get("MaxResults") or 100)
        more = {"NextToken": str(at + most)} if at + most < len(rows) else {}
        return {"DomainMaintenances": rows[at : at + most], **more}

    # ---- the lab --------------------------------------------------------------------------------------------

    @property
    def _dedicated(self) -> bool:
        return any(node.is_cluster_manager and not node.is_data for node in self._lab.topology.nodes)

    def _standby(self) -> set[str]:
        """The zones that no search is to reach: what AWS calls standby is a weight of 0."""
        try:
            weights, _ = administration.weights(self._lab)
        except ChaosError:  # without a leader nobody says
            return set()
        return {zone for zone, weight in (weights or {}).items() if weight == 0}

    def _known_ids(self) -> dict[str, str]:
        """Node → its id, which stays the same on its data: also of nodes that are away."""
        status, answer = administer(self._lab, "GET", "/_nodes?filter_path=nodes.*.name")
        if status == 200:
            self._ids |= {str(each["name"]): id for id, each in answer["nodes"].items()}
        return self._ids


def _refused(code: str, says: str) -> Refused:
    return Refused(code, says, OF_DOMAINS)


def _told(each: Maintenance) -> dict[str, Any]:
    return {
        "MaintenanceId": each.id,
        "DomainName": NAME,
        "Action": each.action,
        "NodeId": each.node,
        "Status": each.status,
        **({"StatusMessage": each.message} if each.message else {}),
        "CreatedAt": datetime.fromtimestamp(each.created, UTC),
        "UpdatedAt": datetime.fromtimestamp(each.updated, UTC),
    }


def _unassigned(seen: View) -> int:
    return sum(copy.state == "UNASSIGNED" for copy in seen.copies)
