"""A domain of Amazon OpenSearch Service as a target's file has it: ``domain``. Whose it is, and how it may be touched.

Its nodes are AWS's own. What AWS itself offers for them is all there is: its health is asked, and one node at a time is
restarted (API reference: DescribeDomainHealth, StartDomainMaintenance).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from chaos.definitions.base import Strict
from chaos.definitions.fis import MANAGED_BY_AWS, Account, Loopback, Region
from chaos.definitions.source import Problem

NEVER = "Amazon OpenSearch Service by way of its documentation and its API's models: never run on AWS (docs/domain.md)"
STAND_IN = (
    "a stand-in for Amazon OpenSearch Service's control plane on this machine: it shows that the node that is meant is "
    "the one that is restarted, and nothing about AWS"
)
ACTIONS = {"process": "RESTART_SEARCH_PROCESS", "machine": "REBOOT_NODE"}
"""How a node is restarted → what StartDomainMaintenance is asked for."""


class DomainFile(Strict):
    """What a run needs to ask Amazon OpenSearch Service. Credentials are those that boto3 finds; none stand here."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{2,27}$")] = Field(description="the domain's, for example shop")
    region: Region = Field(description="of the domain, for example eu-west-1")
    account: Account = Field(description="the account that must be the one that answers, 12 digits in quotes")
    restart: Literal["process", "machine"] = Field(
        default="process",
        description="what node.restart is: process (RESTART_SEARCH_PROCESS) or machine (REBOOT_NODE)",
    )
    profile: str | None = Field(
        default=None, min_length=1, description="whose credentials are used; default as boto3 finds them"
    )
    endpoint: Loopback | None = Field(
        default=None, description="of `opensearch-chaos fis-endpoint` on this machine; without it AWS itself is meant"
    )

    @property
    def local(self) -> bool:
        """Whether a stand-in on this machine is meant, and never AWS."""
        return self.endpoint is not None

    @property
    def action(self) -> str:
        """What StartDomainMaintenance is asked for."""
        return ACTIONS[self.restart]

    @property
    def says(self) -> str:
        """What a reader must know of any result by it."""
        return STAND_IN if self.local else NEVER


def check(domain: DomainFile, hosts: Iterable[str], *, by_doors: bool, fis: bool) -> Iterator[Problem]:
    """What does not fit a domain. ``hosts``: where the cluster is reached. ``by_doors``: no node has a url."""
    if fis:
        says = "the nodes of a domain are no instances of yours, which FIS could hit: expected fis or domain"
        yield Problem(("domain",), says, at_key=True)
    if not by_doors:
        says = "a domain has one address, and its nodes have none: expected nodes without url"
        yield Problem(("domain",), says, at_key=True)
    named = sorted(host for host in set(hosts) if MANAGED_BY_AWS.search(host.lower().rstrip(".")))
    if domain.local and named:
        says = f"{named[0]} is AWS's, and endpoint is a stand-in on this machine: expected no endpoint"
        yield Problem(("domain", "endpoint"), says)
    for host in named:
        if f".{domain.region}." not in host:
            yield Problem(("domain", "region"), f"{host} is not in {domain.region}: expected the region of its name")
        if not host.startswith((f"search-{domain.name}-", f"vpc-{domain.name}-")):
            yield Problem(("domain", "name"), f"{host} is not an address of {domain.name}: expected the domain's name")
