"""A domain of Amazon OpenSearch Service: what AWS says of its health, and the restart of a node that AWS carries out.

AWS gives no token to StartDomainMaintenance and no tags to what it begins. So each is asked for once and never again,
and ours is the one that was not there before, of the node and the action that were asked for.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from chaos.aws.clients import Clients, in_words, paged
from chaos.base.errors import FaultError, LabError
from chaos.base.text import listed
from chaos.definitions.domain import DomainFile
from chaos.targets.existing.fis import Ask

UNDER_WAY = ("PENDING", "IN_PROGRESS")
FAILED = ("FAILED", "TIMED_OUT")
"""Two of the states of a maintenance; the one that is left is COMPLETED (API reference, MaintenanceStatus)."""
SEVERAL = "several"
LEAST_DATA_NODES = 3
"""Which AWS asks for (Developer Guide, Performing administrative actions)."""
POLL_SECONDS, LOCAL_POLL_SECONDS = 5.0, 0.5
HEALTH_SECONDS = 15.0
LOST_SECONDS = 20.0
"""Until what was begun by a request without an answer is listed."""
SETTLE_SECONDS = 1800.0
"""Until a maintenance is over: a machine boots, and its copies recover."""
IDS = "/_nodes?filter_path=nodes.*.name"
HEALTH = ("DomainState", "ClusterHealth", "MasterNode", "DataNodeCount", "TotalUnAssignedShards")
"""Of DescribeDomainHealth what is kept, beside the zones."""
OF_ZONES = ("ZoneStatus", "ConfiguredDataNodeCount", "AvailableDataNodeCount", "TotalUnAssignedShards")


@dataclass(frozen=True)
class Word:
    """What AWS says of a maintenance of ours. ``status`` None: it lists none."""

    status: str | None
    says: str

    @property
    def over(self) -> bool:
        return self.status not in UNDER_WAY

    @property
    def denied(self) -> bool:
        """Whether AWS began nothing, or gave it up, or whether it is not known which one is ours."""
        return self.status in (None, SEVERAL, *FAILED)


class Domain:
    """One domain. Every call raises FaultError or LabError in words, and InvalidInput for another account."""

    def __init__(self, file: DomainFile) -> None:
        self.file = file
        self._unlisted = set[str]()
        """Nodes of which AWS took a maintenance that it did not list."""

    @cached_property
    def clients(self) -> Clients:
        file = self.file
        return Clients(file.region, profile=file.profile, endpoint=file.endpoint, account=file.account)

    @property
    def every(self) -> float:
        """Seconds between two looks at what is under way."""
        return LOCAL_POLL_SECONDS if self.file.local else POLL_SECONDS

    @property
    def health_every(self) -> float:
        """Seconds between two questions how it is."""
        return LOCAL_POLL_SECONDS if self.file.local else HEALTH_SECONDS

    def _call(self, operation: str, *, once: bool = False, **given: Any) -> dict[str, Any]:
        with in_words("opensearch", operation):
            client = self.clients.client("opensearch", once=once)
            answer: dict[str, Any] = getattr(client, operation)(DomainName=self.file.name, **given)
            return answer

    # ---- how it is ------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """What AWS says: the words of :data:`HEALTH`, and ``zones``: zone → those of :data:`OF_ZONES`. Each is as AWS
        says it, ``NotAvailable`` too; what it does not say is None."""
        told = self._call("describe_domain_health")
        zones = [
            zone
            for each in told.get("EnvironmentInformation") or []
            for zone in each.get("AvailabilityZoneInformation") or []
        ]
        return {
            **{name: told.get(name) for name in HEALTH},
            "zones": {
                str(zone.get("AvailabilityZoneName")): {name: zone.get(name) for name in OF_ZONES} for zone in zones
            },
        }

    def not_ready(self) -> list[str]:
        """Why AWS would restart no node of it now, in words; asked by reading alone. Raises ChaosError."""
        told = self._call("describe_domain").get("DomainStatus") or {}
        found = []
        state = told.get("DomainProcessingStatus")
        if (
            told.get("Deleted")
            or told.get("Processing")
            or told.get("UpgradeProcessing")
            or state not in (None, "Active")
        ):
            found.append(f"AWS is changing the domain ({state or 'Processing'})")
        config = told.get("ClusterConfig") or {}
        if config.get("MultiAZWithStandbyEnabled"):
            found.append("AWS restarts no node of a domain that is Multi-AZ with Standby")
        count = config.get("InstanceCount")
        if not isinstance(count, int) or count < LEAST_DATA_NODES:
            found.append(
                f"AWS asks for {LEAST_DATA_NODES} data nodes, and says that it has {count or 'an unknown number'}"
            )
        if (colour := self.health()["ClusterHealth"]) != "Green":
            found.append(f"AWS says that the domain's health is {colour or 'not known'}")
        return found + self.under_way()

    def under_way(self) -> list[str]:
        """Maintenances that are not over, whoever asked for them, in words."""
        return [_words(each) for each in self._maintenances() if each.get("Status") in UNDER_WAY]

    # ---- the restart of a node ------------------------------------------------------------------------------

    def node_id(self, ask: Ask, node: str) -> str:
        """By which AWS knows a node of the cluster. Raises FaultError where it lists none, or more than one, or one
        that is no data node."""
        status, answer = ask(IDS)
        if status != 200:
            raise LabError(f"asking for the ids of the nodes answered {status}")
        ids = {id for id, each in answer["nodes"].items() if each["name"] == node}
        listed_nodes = self._call("describe_domain_nodes").get("DomainNodesStatusList") or []
        mine = [each for each in listed_nodes if each.get("NodeId") in {*ids, node}]
        if len(mine) != 1:
            raise FaultError(f"AWS lists {len(mine) or 'no'} nodes of the domain {self.file.name} that are {node}")
        if mine[0].get("NodeType") != "Data":
            raise FaultError(
                f"{node} is a node of the type {mine[0].get('NodeType')}, and AWS restarts data nodes alone"
            )
        return str(mine[0]["NodeId"])

    def known(self) -> list[str]:
        """The ids of all maintenances that there are by now."""
        return sorted(str(each["MaintenanceId"]) for each in self._maintenances())

    def maintain(self, node_id: str, before: Collection[str]) -> None:
        """Ask AWS to restart a node, once. Where the answer is lost, what was begun is looked for.

        ``before``: the ids that there were. Raises FaultError where AWS refuses, or lists nothing that was begun.
        """
        if others := self.under_way():
            raise FaultError(f"another maintenance is under way: {listed(others)}", remedy="wait until it is over")
        try:
            self._call("start_domain_maintenance", once=True, Action=self.file.action, NodeId=node_id)
        except FaultError:
            if self._appeared(node_id, before) is None:
                raise
            return
        if self._appeared(node_id, before) is None:
            self._unlisted.add(node_id)
            raise FaultError(f"AWS took it, and does not list a maintenance of {node_id}")

    def settle(self, node_id: str, before: Collection[str], *, within: float = SETTLE_SECONDS) -> None:
        """Until none of ours is under way: what was begun cannot be taken back. Raises FaultError for one that is."""
        if self._appeared(node_id, before) is None:
            if node_id in self._unlisted:
                raise FaultError(f"whether the maintenance of {node_id} is over is not known: AWS does not list it")
            return
        end = time.monotonic() + within
        while going := [_words(each) for each in self._ours(node_id, before) if each.get("Status") in UNDER_WAY]:
            if time.monotonic() >= end:
                raise FaultError(f"not over after {within:g} s: {listed(going)}")
            time.sleep(self.every)

    def word(self, node_id: str, before: Collection[str]) -> Word:
        ours = self._ours(node_id, before)
        if len(ours) > 1:
            return Word(SEVERAL, f"{len(ours)} of them: {listed([_words(each) for each in ours])}")
        return Word(str(ours[0].get("Status")), _words(ours[0])) if ours else Word(None, "AWS lists none")

    def _appeared(self, node_id: str, before: Collection[str]) -> Mapping[str, Any] | None:
        """The first one of ours; it is waited for."""
        end = time.monotonic() + LOST_SECONDS
        while not (ours := self._ours(node_id, before)) and time.monotonic() < end:
            time.sleep(self.every)
        return next(iter(ours), None)

    def _ours(self, node_id: str, before: Collection[str]) -> list[dict[str, Any]]:
        return [
            each
            for each in self._maintenances()
            if each.get("NodeId") == node_id
            and each.get("Action") == self.file.action
            and each.get("MaintenanceId") not in before
        ]

    def _maintenances(self) -> list[dict[str, Any]]:
        with in_words("opensearch", "list_domain_maintenances"):
            pages = paged(self.clients.domains, "list_domain_maintenances", DomainName=self.file.name)
        if any("DomainMaintenances" not in page for page in pages):
            raise FaultError("opensearch list_domain_maintenances: an answer without DomainMaintenances")
        return [each for page in pages for each in page["DomainMaintenances"]]


def _words(each: Mapping[str, Any]) -> str:
    why = each.get("StatusMessage")
    return f"{each.get('Action')} of {each.get('NodeId')} is {each.get('Status')}{f' ({why})' if why else ''}"
