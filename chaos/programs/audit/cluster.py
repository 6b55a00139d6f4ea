"""The facts of a cluster, read by GETs alone, from the cluster itself or from answers that somebody saved.

The questions are those of :mod:`.questions`, and one more for each repository, however many indices there are.

What a cluster refuses or does not answer is missing in the sheet, with the reason; only a server that cannot be spoken
to, or is no OpenSearch, is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import urllib3

from chaos.base.access import Access, distrust, mend
from chaos.base.addresses import Address
from chaos.base.errors import InvalidInput, said_by_opensearch
from chaos.base.netsock import Endpoint
from chaos.base.sigv4 import refusal
from chaos.base.text import one_line, printable
from chaos.definitions.topology import ZONE_ATTRIBUTE
from chaos.opensearch.cluster import Cluster
from chaos.opensearch.rest import Garbled, NodeClient, short
from chaos.programs.audit import answers
from chaos.programs.audit.facts import Repository, Sheet, plain
from chaos.programs.audit.questions import (
    CERTIFICATES,
    COMPONENT_TEMPLATES,
    COPIES,
    EXPLAIN,
    INDEX_TEMPLATES,
    INDICES,
    LEGACY_TEMPLATES,
    MANAGED,
    NODES,
    POLICIES,
    REPOSITORIES,
    SETTINGS,
    SHALLOW,
    STATE,
    STATS,
    STREAMS,
    USAGE,
    VERSION,
    Question,
    snapshots_in,
)

Get = Callable[[Question], tuple[int, Any]]
"""One of the questions → status and decoded body. Raises ``urllib3.exceptions.HTTPError``."""

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
MEASURED = ("memory", "cpu", "heap_used", "disk", "disk_free", "limit")
NO_HANDLER, NOTHING_UNASSIGNED = "no handler found", "unable to find any unassigned shards"
"""Words of OpenSearch's: no plugin of this installation answers such a path; and there is nothing to explain."""


def of_url(host: str, port: int, access: Access, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of the cluster behind an address. Raises InvalidInput."""
    client = NodeClient(Endpoint(host, port), access=access, timeout=READ_SECONDS, connect=CONNECT_SECONDS)
    return _through(client, str(Address(access.tls, host, port)), zone_attribute)


def of_lab(
    lab: Cluster, zone_attribute: str | None = None, timeout: float = CONNECT_SECONDS, where: str | None = None
) -> Sheet:
    """The facts of a lab's cluster, over the path that no fault touches. Raises InvalidInput.

    ``where``: what to call it, where it is no lab.
    """
    client = lab.client(lab.topology.data_nodes[0].name, timeout=timeout)
    return _through(client, where or f"lab of topology {lab.topology.name}", zone_attribute or lab.zoning.attribute)


def _through(client: NodeClient, where: str, zone_attribute: str) -> Sheet:
    """A reader is given a GET and nothing else."""
    try:
        return read(lambda question: client.request("GET", question.path), where, zone_attribute)
    finally:
        client.close()


def read(get: Get, where: str, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts of the cluster that answers. Raises InvalidInput where nothing answers, or something else."""
    version = _version(get, where)
    reader = Reader(get)
    ask = reader.ask
    stats = ask(STATS, MEASURED, lambda answer: (answers.stats(answer), answers.asked_at(answer)))
    measured, asked_at = stats or ({}, None)
    return Sheet(
        origin=f"{where}, OpenSearch {version}",
        zone_attribute=zone_attribute,
        version=version,
        nodes=ask(NODES, ("nodes", "heap"), lambda answer: answers.nodes(answer, measured, zone_attribute)),
        settings=ask(SETTINGS, ("settings",), answers.settings),
        indices=ask(INDICES, ("indices",), answers.indices),
        copies=ask(COPIES, ("copies",), answers.copies),
        state=ask(STATE, ("state",), answers.state),
        explained=ask(EXPLAIN, ("explained",), answers.explained, {NOTHING_UNASSIGNED: ""}),
        index_templates=ask(INDEX_TEMPLATES, ("index_templates",), answers.index_templates),
        component_templates=ask(COMPONENT_TEMPLATES, ("component_templates",), answers.component_templates),
        legacy_templates=ask(LEGACY_TEMPLATES, ("legacy_templates",), answers.legacy_templates),
        streams=ask(STREAMS, ("streams",), answers.streams),
        repositories=reader.repositories(),
        shallow=ask(SHALLOW, ("shallow",), answers.shallow),
        policies=ask(POLICIES, ("policies",), answers.policies, {NO_HANDLER: ()}),
        managed=ask(MANAGED, ("managed",), answers.managed, {NO_HANDLER: ()}),
        certificates=ask(CERTIFICATES, ("certificates",), answers.certificates, {NO_HANDLER: ()}),
        usage=ask(USAGE, ("usage",), answers.usage),
        unread=reader.unread,
        absent=reader.absent,
        asked_at=asked_at,
    )


@dataclass
class Reader:
    """Asks one question after the other, and keeps why one was not answered."""

    get: Get
    unread: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        question: Question,
        names: tuple[str, ...],
        parse: Callable[[Any], Any],
        refusals: Mapping[str, Any] = MappingProxyType({}),
    ) -> Any:
        """What ``parse`` makes of the answer, or None. ``names``: the parts of the sheet that are missing then.

        ``refusals``: words of a refusal that is an answer too, and what it comes to.
        """
        said = self._asked(question, parse, refusals)
        if not isinstance(said, str):
            return said[0]
        self.unread.update(dict.fromkeys(names, said))
        return None

    def _asked(self, question: Question, parse: Callable[[Any], Any], refusals: Mapping[str, Any]) -> tuple[Any] | str:
        """What it comes to, or why there is nothing."""
        name = question.path.partition("?")[0]
        try:
            status, answer = self.get(question)
            if status == 200:
                return (parse(answer),)
            reason = _reason(answer)
            for words, comes_to in refusals.items():
                if status in (400, 404, 405) and words in reason:
                    if words == NO_HANDLER:
                        self.absent[question.name] = f"no plugin of this cluster answers {name}"
                    return (comes_to,)
            return f"GET {name} answered {status}: {reason}"
        except Garbled as error:
            return f"GET {name} answered something that cannot be read: {short(error)}"
        except urllib3.exceptions.HTTPError as error:
            return f"GET {name} was not answered: {short(error)}"
        except answers.Partial as error:
            return f"GET {name}: {error}"
        except (LookupError, TypeError, ValueError, AttributeError):
            return f"GET {name} answered something that cannot be read"

    def repositories(self) -> tuple[Repository, ...] | None:
        """Each with its snapshots, or why they are not known."""
        kinds = self.ask(REPOSITORIES, ("repositories",), answers.repositories)
        if kinds is None:
            return None
        found = []
        for name, kind in sorted(kinds.items()):
            said = self._asked(snapshots_in(name), answers.snapshots, {})
            one = (None, said) if isinstance(said, str) else (said[0], "")
            found.append(Repository(printable(name), kind, *one))
        return tuple(found)


def _version(get: Get, where: str) -> str:
    try:
        status, answer = get(VERSION)
    except urllib3.exceptions.SSLError as error:
        raise InvalidInput(
            f"{where}: TLS failed: {short(error)}", remedy=f"{mend(distrust(error) or '')}; or say --insecure"
        ) from error
    except Garbled:
        raise InvalidInput(
            f"{where} is no OpenSearch", remedy="give the address of a node's or a domain's REST API"
        ) from None
    except urllib3.exceptions.HTTPError as error:
        raise InvalidInput(
            f"{where} cannot be reached: {short(error)}", remedy="check the address, and http against https"
        ) from error
    if status in (401, 403) and (told := refusal(answer)):
        raise InvalidInput(f"{where}: {_line(told[0])} ({status})", remedy=told[1])
    if status == 401:
        raise InvalidInput(f"{where} refuses this user or password (401)", remedy="give --user and --password")
    if status != 200:
        raise InvalidInput(f"{where} answered {status}: {_reason(answer)}", remedy="check the address and the rights")
    with suppress(LookupError, TypeError, AttributeError):
        version = answer["version"]
        if version.get("distribution") == "opensearch" or "OpenSearch" in str(answer.get("tagline")):
            return printable(version["number"])
    raise InvalidInput(f"{where} is no OpenSearch", remedy="give the address of a node's or a domain's REST API")


def _reason(answer: Any) -> str:
    """What OpenSearch says of a refusal, in one line."""
    said = told[0] if (told := refusal(answer)) else said_by_opensearch(answer)
    if said is None and isinstance(answer, dict):  # the security plugin's own requests
        said = answer.get("message")
    return _line(plain(said if said is not None else answer if isinstance(answer, str) else "no reason"))


def _line(text: str) -> str:
    return one_line(text) or "no reason"
