"""Which packets between hosts of the lab vanish: what network ACLs of moto's and documents that run ask for.

What is cut is never remembered: it is read from moto's associations and from the commands, so that what ends takes back
only what nothing else still asks for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from chaos.faults.fault import Link
from chaos.faults.moves import Move, apply_moves
from chaos.fis_endpoint.clients import error_code
from chaos.fis_endpoint.doing import Failed
from chaos.fis_endpoint.mirror import Mirror, tags_of
from chaos.providers.neighbour import blocked
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

MANAGED = "managedByFIS"
DOING, SUBNET, SCOPE, RESTORES = (f"opensearch-chaos:{name}" for name in ("doing", "subnet", "scope", "restores"))
SCOPES = ("all", "availability-zone")
"""Those of disrupt-connectivity that a lab has a counterpart of. In both a zone is cut off from the others; under the
first its instances' agents are too."""


def around(wiring: Wiring, zone: str) -> frozenset[Link]:
    """Both directions between every host of a zone, its clients' included, and every other host."""
    here = {host.name for host in wiring.hosts if host.zone == zone}
    return frozenset(
        (a.name, b.name) for a in wiring.hosts for b in wiring.hosts if (a.name in here) != (b.name in here)
    )


class Connectivity:
    """The connections between the hosts of one lab, as EC2 and documents have them.

    ``documents``: (command to leave out) → links whose packets documents let vanish. Hold ``lock`` around anything
    that changes an association and what follows from it.
    """

    def __init__(self, lab: Lab, mirror: Mirror, documents: Callable[[str | None], Iterable[Link]]) -> None:
        self._lab, self._mirror, self._documents = lab, mirror, documents
        self.lock = threading.RLock()

    # ---- what is cut --------------------------------------------------------------------------

    def _clones(self) -> list[dict[str, Any]]:
        pages = self._mirror.ec2.get_paginator("describe_network_acls").paginate(
            Filters=[{"Name": f"tag:{MANAGED}", "Values": ["true"]}]
        )
        return [acl for page in pages for acl in page["NetworkAcls"]]

    def cut_subnets(self) -> dict[str, str]:
        """Subnet id → scope, of those that have a clone which denies."""
        return {
            each["SubnetId"]: tags_of(acl).get(SCOPE, "all") for acl in self._clones() for each in acl["Associations"]
        }

    def by_acls(self) -> frozenset[Link]:
        """Links that network ACLs cut now."""
        cut, zones = self.cut_subnets(), self._mirror.subnets()
        return frozenset(link for id, zone in zones.items() if id in cut for link in around(self._lab.wiring, zone))

    def isolated(self) -> frozenset[str]:
        """Subnets that an ACL keeps from everything outside, the service of their instances' agents included."""
        return frozenset(subnet for subnet, scope in self.cut_subnets().items() if scope == "all")

    def hold(self, links: Iterable[Link]) -> None:
        """Let the packets of these links vanish. Raises Failed."""
        with self.lock:
            self._apply([each.move for each in blocked(links)])

    def release(self, links: Iterable[Link], *, without: str | None = None) -> None:
        """Let them through, except where something else still cuts them. ``without``: a command that no longer counts.

        Raises Failed.
        """
        with self.lock:
            left = frozenset(links) - self.by_acls() - frozenset(self._documents(without))
            self._apply([each.inverse for each in blocked(left) if each.inverse is not None])

    def _apply(self, moves: list[Move]) -> None:
        if failures := apply_moves(self._lab, moves):
            raise Failed("DependentServiceFailure", f"the lab did not do it: {'; '.join(failures[:3])}")

    # ---- disrupt-connectivity -----------------------------------------------------------------

    def disrupt(self, doing: str, subnets: Iterable[str], scope: str) -> None:
        """Give each subnet a clone of its ACL that denies, and cut its zone off. Raises Failed."""
        zones = self._mirror.subnets()
        with self.lock:
            for subnet in subnets:
                if not self._clones_of(doing, subnet):
                    self._associate_clone(doing, subnet, scope)
                self.hold(around(self._lab.wiring, zones[subnet]))

    def restore(self, doing: str, subnets: Iterable[str]) -> None:
        """Put each subnet's association back, delete the clone and connect its zone again. Idempotent.

        Where somebody else changed the association meanwhile, that and the clone stay as they are. Raises Failed for
        those and for what failed, after all others were restored.
        """
        zones, failures = self._mirror.subnets(), []
        with self.lock:
            for subnet in subnets:
                try:
                    changed = [acl for acl in self._clones_of(doing, subnet) if not self._put_back(acl, subnet)]
                    if subnet in zones:
                        self.release(around(self._lab.wiring, zones[subnet]))
                    if changed:
                        raise Failed(
                            "ConfigurationFailure",
                            f"somebody else changed the network ACL association of {subnet}: it is left as it is, and "
                            f"so is the clone {changed[0]['NetworkAclId']}",
                        )
                except Failed as failed:
                    failures.append(failed)
        if failures:
            raise Failed(failures[0].code, "; ".join(each.reason for each in failures))

    def _clones_of(self, doing: str, subnet: str) -> list[dict[str, Any]]:
        wanted = {DOING: doing, SUBNET: subnet}
        return [acl for acl in self._clones() if wanted.items() <= tags_of(acl).items()]

    def _put_back(self, acl: dict[str, Any], subnet: str) -> bool:
        """Whether it was this clone that the subnet had. Raises Failed."""
        now = next((each for each in self._mirror.associations() if each.subnet == subnet), None)
        if now is None or now.acl != acl["NetworkAclId"]:
            return False
        ec2, before = self._mirror.ec2, tags_of(acl)[RESTORES]
        try:
            # moto drops an association before it looks for the ACL that is to replace it
            ec2.describe_network_acls(NetworkAclIds=[before])
            ec2.replace_network_acl_association(AssociationId=now.id, NetworkAclId=before)
            ec2.delete_network_acl(NetworkAclId=acl["NetworkAclId"])
        except Exception as error:
            if error_code(error) is None:
                raise
            raise Failed("DependentServiceFailure", f"the network ACL {before} cannot be put back: {error}") from error
        return True

    def _associate_clone(self, doing: str, subnet: str, scope: str) -> None:
        ec2, now = self._mirror.ec2, {each.subnet: each for each in self._mirror.associations()}[subnet]
        original = ec2.describe_network_acls(NetworkAclIds=[now.acl])["NetworkAcls"][0]
        tags = {
            MANAGED: "true",
            "Name": f"FIS clone of {now.acl}",
            DOING: doing,
            SUBNET: subnet,
            SCOPE: scope,
            RESTORES: now.acl,
        }
        clone = ec2.create_network_acl(
            VpcId=original["VpcId"],
            TagSpecifications=[
                {"ResourceType": "network-acl", "Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}
            ],
        )["NetworkAcl"]["NetworkAclId"]
        for rule in self._rules(original, subnet, scope):
            ec2.create_network_acl_entry(NetworkAclId=clone, **rule)
        ec2.replace_network_acl_association(AssociationId=now.id, NetworkAclId=clone)

    def _rules(self, original: dict[str, Any], subnet: str, scope: str) -> list[dict[str, Any]]:
        """The entries of a clone: what is denied first, then those of the original."""
        described = self._mirror.ec2.describe_subnets(Filters=self._mirror.mine())["Subnets"]
        own = [each["CidrBlock"] for each in described if each["SubnetId"] == subnet]
        others = [each["CidrBlock"] for each in described if each["SubnetId"] != subnet]
        if scope == "all":
            first = [("allow", cidr) for cidr in own] + [("deny", "0.0.0.0/0")]
        else:
            first = [("deny", cidr) for cidr in others]
        entries = [
            {"RuleNumber": number, "Protocol": "-1", "RuleAction": action, "Egress": egress, "CidrBlock": cidr}
            for egress in (True, False)
            for number, (action, cidr) in enumerate(first, 1)
        ]
        kept = ("RuleNumber", "Protocol", "RuleAction", "Egress", "CidrBlock", "PortRange", "IcmpTypeCode")
        return entries + [
            {name: entry[name] for name in kept if name in entry}
            for entry in original["Entries"]
            if len(first) < entry["RuleNumber"] < 32767
        ]
