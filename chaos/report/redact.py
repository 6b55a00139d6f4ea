"""A run without the names of its owner, for reports that are mailed: a history whose strings are pseudonyms.

Replaced are names of nodes, client hosts, indices, users and machines, addresses, mail addresses, host names, paths,
and of SLIs the Prometheus, its queries and its words; the same name by the same pseudonym in every file.
Replaced is in the history, before anything is judged or escaped, so a name is gone in every form in which it could be
written. Names of experiments, phases, zones, topologies and SLIs stay, and so do the document ids that the load makes
up: the report would say nothing without them.
A name of one or two characters is replaced only where it stands alone or beside an arrow: "a" is also a word.
"""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from chaos.checks import instruments
from chaos.definitions.slis import of_plan
from chaos.history.reader import History

if TYPE_CHECKING:
    import pandas as pd

KEEP = frozenset(
    {
        "kind",
        "fault_kind",
        "action_kind",
        "metric",
        "op",
        "operation",
        "quantity",
        "unit",
        "comparison",
        "outcome",
        "status",
        "state",
        "stage",
        "colour",
        "hash",
        "started",
        "zone",
        "apiVersion",
    }
)
"""Keys whose values are words of ours, or stay as said above."""
OUR_OWN = ("opensearch-chaos", "OpenSearch chaos")
"""Never replaced, also where an index is called chaos."""
COMMON = frozenset({"root", "localhost", "runner", "admin", "user", "opensearch", "local", "none", "unknown"})
"""Names of users and machines that say nothing of anybody."""
LONG = 40
"""Characters of a name after which a clipped one is found too."""
SUFFIXES = (
    "com|net|org|edu|gov|io|dev|app|cloud|ai|co|internal|intranet|local|localdomain|lan|corp|home|private|arpa|test|"
    "example|invalid|aws|eu|de|uk|fr|nl|ch|at|it|es|pl|se|no|fi|dk|be|cz|us|ca|au|nz|jp|cn|in|br|kr|sg|za"
)

_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)*")
_URL = re.compile(r"(?<=://)(?:[^\s/@]*@)?(\[[0-9a-fA-F:.]+\]|[^\s/:?#\"'<>]+)")
_PATH = re.compile(
    r"(?<![\w/:.<\-])(?:~(?=/)|[A-Za-z]:(?=/))?/(?!_)[^\s/'\"`<>|;,()\[\]{}]+(?:/[^\s/'\"`<>|;,()\[\]{}]*)*"
)
_HOME = re.compile(r"/(?:home|Users)/([^\s/'\"]+)")
_V4 = re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)")
_V6 = re.compile(r"(?<![\w:])(?=[0-9a-fA-F:.]*:[0-9a-fA-F:.]*:)[0-9a-fA-F:.]+(?:%\w+)?(?![\w:])")
_MAC = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")
_HOST = re.compile(rf"(?<![\w.\-])(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+(?:{SUFFIXES})(?![\w\-]|\.\w)")


_LINES = ("cas", "probes", "stale", "wrong")
"""Parts of a history that are lines, each redacted as it is."""


class Redactor:
    """Replaces names in strings and in whole JSON values. The same name is always the same pseudonym."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._count: dict[str, int] = {}
        self._pattern: re.Pattern[str] | None = None
        self.text: Callable[[str], str] = lru_cache(maxsize=65536)(self._text)

    @property
    def names(self) -> Mapping[str, str]:
        """Every name that is known so far → its pseudonym."""
        return self._given

    def learn(self, what: str, names: Iterable[object]) -> None:
        """Take names of one sort (``node``, ``index`` …), in this order; empty ones and known ones are passed over."""
        for name in names:
            if name is not None and str(name).strip():
                self._pseudonym(what, str(name))
        self._pattern = None
        self.text = lru_cache(maxsize=65536)(self._text)

    def value(self, given: Any, key: str | None = None) -> Any:
        """A JSON value with every name in it replaced, names that are keys too."""
        if isinstance(given, str):
            return given if key in KEEP else self.text(given)
        if isinstance(given, Mapping):
            return {
                (self.text(name) if isinstance(name, str) else name): self.value(item, str(name))
                for name, item in given.items()
            }
        if isinstance(given, list | tuple):
            return [self.value(item, key) for item in given]
        return given

    def _pseudonym(self, what: str, name: str) -> str:
        if name not in self._given:
            self._count[what] = self._count.get(what, 0) + 1
            self._given[name] = f"{what}-{self._count[what]}"
        return self._given[name]

    def _text(self, given: str) -> str:
        if given in self._given:
            return self._given[given]
        for name in self._given:
            if len(name) > LONG and name[:LONG] in given:
                given = self._prefixes(given, name)
        if self._pattern is None:
            self._pattern = _pattern(self._given)
        given = self._pattern.sub(lambda match: self._given.get(match[0], match[0]), given)
        given = _MAIL.sub(lambda match: self._pseudonym("user", match[0]), given)
        given = _URL.sub(lambda match: match[1] if self._ours(match[1]) else self._pseudonym("host", match[1]), given)
        given = _PATH.sub(lambda match: self._pseudonym("path", match[0]), given)
        for address in (_MAC, _V6, _V4):
            given = address.sub(self._address, given)
        return _HOST.sub(lambda match: self._pseudonym("host", match[0]), given)

    def _ours(self, name: str) -> bool:
        return name in self._given.values() or _V4.fullmatch(name) is not None or name.startswith("[")

    def _address(self, match: re.Match[str]) -> str:
        found = match[0]
        if not _MAC.fullmatch(found):
            try:
                ipaddress.ip_address(found.partition("%")[0])
            except ValueError:
                return found
        return self._pseudonym("address", found)

    def _prefixes(self, given: str, name: str) -> str:
        """Replace the name, and what is left of it where somebody clipped it."""
        parts = []
        while (at := given.find(name[:LONG])) >= 0:
            parts.append(given[:at])
            end = LONG
            while end < len(name) and given[at + end : at + end + 1] == name[end]:
                end += 1
            parts.append(self._given[name])
            given = given[at + end :]
        return "".join([*parts, given])


def _pattern(names: Mapping[str, str]) -> re.Pattern[str]:
    """One pattern for all names, the longest first; what is ours comes before and is left as it is."""
    ordered = sorted(names, key=len, reverse=True)
    parts = [re.escape(word) for word in OUR_OWN]
    for name in ordered:
        escaped = re.escape(name)
        left = r"(?<![A-Za-z0-9])" if name[:1].isalnum() else ""
        right = r"(?![A-Za-z0-9])" if name[-1:].isalnum() else ""
        if len(name) < 3:
            left, right = r"(?:(?<=-> )|(?<=→ )|^)", r"(?= ->| →|$)"
        parts.append(f"{left}{escaped}{right}")
    return re.compile("|".join(parts))


def redacted(history: History) -> tuple[History, Redactor]:
    """The same run under other names, and who replaced them. The history given is left as it is."""
    redactor = Redactor()
    plan = history.plan
    zones = {str(zone) for zone in (plan.get("topology") or {}).get("zones") or []}
    redactor.learn("node", _nodes(history))
    redactor.learn("index", _indices(history))
    redactor.learn(
        "client",
        (
            name
            for name in [*((plan.get("lab") or {}).get("client_hosts") or []), *_categories(history.arrivals, "client")]
            if str(name).removeprefix("client-") not in zones
        ),
    )
    redactor.learn("path", (file for file in _files(plan) if "/" in file))
    redactor.learn("prometheus", (sli.get("prometheus") for sli in _slis(plan)))
    redactor.learn("query", (sli.get(key) for sli in _slis(plan) for key in ("query", "fresh", "rules")))
    redactor.learn("query", (rule.get("expr") for sli in _slis(plan) for rule in sli.get("alerts") or ()))
    redactor.learn("alert", (alert for sli in _slis(plan) for alert in _alerts(sli)))
    redactor.learn("reference", (value for sli in _slis(plan) for value in (sli.get("access") or {}).values()))
    redactor.learn("user", (name for name in [*_users(plan), *_users(history.events)] if _tells(name)))
    redactor.learn("machine", (name for name in _machines() if _tells(name)))
    copy = History(history.folder)
    vars(copy).update(
        {  # History reads each of these once and keeps it: what is there already is not read
            "plan": redactor.value(plan),
            "events": redactor.value(history.events),
            "driver": redactor.value(history.driver),
            "readback": redactor.value(history.readback),
            "clean": redactor.value(history.clean),
            "audit": _audit(history.audit, redactor),
            "seal": history.seal,
            **{name: redactor.value(getattr(history, name)) for name in _LINES},
            "arrivals": _renamed(history.arrivals, redactor),
        }
    )
    for each in instruments.every():
        if each.file is not None:
            copy.give(each.file, [redactor.value(each.redact(line)) for line in history.lines(each.file)])
    return copy, redactor


def _nodes(history: History) -> Iterator[object]:
    plan = history.plan
    for part in (plan.get("topology"), plan.get("lab"), (plan.get("experiment") or {}).get("topology")):
        for node in (part or {}).get("nodes") or []:
            yield node.get("name") if isinstance(node, dict) else node
    for target in (plan.get("client") or {}).get("targets") or []:
        yield target.get("node")
    for event in history.events:
        for name in ("node", "leader", "source_node", "target_node", "source", "target", "host", "to", "from"):
            if isinstance(event.get(name), str) and (
                name in ("node", "leader") or event["kind"].startswith("cluster.")
            ):
                yield event[name]
    for copy in (history.readback or {}).get("copies") or []:
        yield copy.get("node")
    yield from _audited(history, "nodes")
    yield from _categories(history.arrivals, "node")


def _slis(plan: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The experiment's SLIs; their names are the experiment's, and stay."""
    return of_plan(plan.get("experiment") or {}).values()


def _alerts(sli: Mapping[str, Any]) -> Iterator[object]:
    """Names and labels of the alerts of an SLI's rules."""
    yield from (rule.get("alert") for rule in sli.get("alerts") or ())
    labels = (each for rule in (*(sli.get("alerts") or ()), sli) for each in (rule.get("labels") or {}).items())
    yield from (value for name, value in labels if name != "severity")  # whose values are words that we use, too


def _indices(history: History) -> Iterator[object]:
    yield (history.plan.get("client") or {}).get("index")
    yield (history.readback or {}).get("index")
    for event in history.events:
        if isinstance(event.get("index"), str):
            yield event["index"]
    yield from _audited(history, "indices")
    yield from _audited(history, "others")


def _audited(history: History, names: str) -> Iterator[object]:
    """The names of nodes or indices that the audit's rows speak of."""
    for row in (history.audit or {}).get("rows") or []:
        yield from row.get(names) or []


def _audit(given: dict[str, Any] | None, redactor: Redactor) -> dict[str, Any] | None:
    """Rules, remedies and sources are ours and published: only what was found of this cluster has names."""
    if given is None:
        return None
    found = {name: redactor.value(item) for name, item in given.items() if name != "rows"}
    mine = ("value", "nodes", "indices", "others", "commands")
    rows = [row | {name: redactor.value(row[name]) for name in mine if name in row} for row in given.get("rows") or []]
    return found | {"rows": rows}


def _categories(arrivals: pd.DataFrame, column: str) -> list[str]:
    return [str(name) for name in arrivals[column].cat.categories]


def _renamed(arrivals: pd.DataFrame, redactor: Redactor) -> pd.DataFrame:
    changed = {
        column: arrivals[column].cat.rename_categories(
            [redactor.names.get(name, name) for name in _categories(arrivals, column)]
        )
        for column in ("node", "client")
    }
    return arrivals.assign(**changed)


def _files(given: Any) -> Iterator[str]:
    """Everything under the key ``file``: where definitions lie, also when their path is a relative one."""
    if isinstance(given, Mapping):
        for name, item in given.items():
            if name == "file" and isinstance(item, str):
                yield item
            yield from _files(item)
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _files(item)


def _users(given: Any) -> Iterator[str]:
    """Whose home a path in a JSON value lies in."""
    if isinstance(given, str):
        yield from _HOME.findall(given)
    elif isinstance(given, Mapping):
        for item in given.values():
            yield from _users(item)
    elif isinstance(given, list | tuple):
        for item in given:
            yield from _users(item)


def _machines() -> Iterator[str]:
    """This machine and its user: a report is mostly made where the run was."""
    with suppress(KeyError, OSError):  # no such user in the system's table
        yield getpass.getuser()
    yield os.environ.get("SUDO_USER", "")
    name = socket.gethostname()
    yield name
    yield name.partition(".")[0]


def _tells(name: str) -> bool:
    return len(name) >= 3 and name.lower() not in COMMON
