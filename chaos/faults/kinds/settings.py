"""Settings faults: a dynamic setting of the cluster or of an index, changed as a planted weakness.

What was there before is read and written into the inverse before anything changes. Undo puts it back only where the
setting still is what the fault made of it: what somebody else changed meanwhile is theirs, and undo says so.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import urllib3
from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from chaos.definitions.steps import Reach, Scene
from chaos.definitions.topology import LAB_OWNED, STATIC, Topology, setting
from chaos.faults.evidence import Evidence, Look, Probe, Simple
from chaos.faults.kind import Kind
from chaos.faults.offers import Aim, Means
from chaos.faults.probes import Pair
from chaos.opensearch.administration import Text, as_text, settings_path
from chaos.opensearch.rest import UNREADABLE
from chaos.opensearch.views import newest, views
from chaos.targets.protocol import Lab
from chaos.targets.wiring import Wiring

Scope = Literal["cluster", "index"]

REPLICAS = "index.number_of_replicas"
STATIC_INDEX = frozenset(
    f"index.{name}"
    for name in (
        "codec",
        "number_of_routing_shards",
        "number_of_shards",
        "replication.type",
        "routing_partition_size",
        "shard.check_on_startup",
        "soft_deletes.enabled",
        "sort.field",
        "sort.order",
        "store.type",
    )
)
"""Fixed in OpenSearch 3.8.0 when an index is made. What is static and not here OpenSearch itself refuses."""


def _value(given: Any) -> Any:
    return None if given is None else setting(given)


SettingOrDefault = Annotated[
    Any,
    BeforeValidator(_value),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
            ]
        }
    ),
]
SettingName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")]


def said_of(settings: Mapping[str, Any]) -> str:
    """Settings in words."""
    return ", ".join(f"{key}: {_shown(value)}" for key, value in settings.items())


def _shown(value: Any) -> str:
    text = as_text(value)
    return "default" if text is None else f"[{', '.join(text)}]" if isinstance(text, list) else text or "''"


# ---- evidence -------------------------------------------------------------------------------------------


def effective(lab: Lab, node: str, index: str | None) -> dict[str, tuple[Text, bool]] | None:
    """On ``node`` itself, by its own state: setting → what holds, and whether it is set.

    None without an answer, or without one that can be read.
    """
    client = lab.client(node, timeout=3.0)
    try:
        status, answer = client.request(
            "GET", f"{settings_path(index)}?flat_settings=true&include_defaults=true&local=true"
        )
        if status != 200:
            return None
        if index is not None:
            answer = answer.get(index, {})
            layers = [(answer.get("defaults", {}), False), (answer.get("settings", {}), True)]
        else:
            layers = [(answer.get("defaults", {}), False)] + [
                (answer.get(layer, {}), True) for layer in ("persistent", "transient")
            ]
        return {key: (value, is_set) for settings, is_set in layers for key, value in settings.items()}
    except (urllib3.exceptions.HTTPError, *UNREADABLE):
        return None
    finally:
        client.close()


def same(one: Text, other: Text) -> bool:
    """A list may come back as one text with commas."""
    words = [",".join(value) if isinstance(value, list) else value for value in (one, other)]
    return words[0] == words[1]


class SettingsEvidence(Simple):
    """The setting as each node itself holds it; of replicas also how many copies the shards have."""

    effect_deadline = 30.0
    gone_deadline = 60.0

    def __init__(self, index: str | None, settings: Mapping[str, Text]) -> None:
        self._index, self._settings = index, dict(settings)
        self._before: dict[str, dict[str, tuple[Text, bool]]] = {}
        self._copies: Counter[int] = Counter()
        self._nodes: frozenset[str] = frozenset()
        self._turns = itertools.count()

    def beside(self, links: frozenset[Pair], nodes: frozenset[str]) -> None:
        self._nodes = nodes

    def _asked(self, lab: Lab) -> list[str]:
        return [name for name in lab.viewers if name not in self._nodes]

    def _held(self, lab: Lab) -> dict[str, dict[str, tuple[Text, bool]] | None]:
        return {name: effective(lab, name, self._index) for name in self._asked(lab)}

    def before(self, lab: Lab) -> Look:
        probes = []
        for node, held in self._held(lab).items():
            if held is not None:
                self._before[node] = {key: held.get(key, (None, False)) for key in self._settings}
            shown = said_of({key: value for key, (value, _) in self._before.get(node, {}).items()})
            probes.append(Probe(f"settings on {node}", "answered", shown if held else "no answer", held is not None))
        self._copies = self._counted(lab)
        well = sum(probe.ok for probe in probes)
        says = f"{well} of {len(probes)} nodes tell their settings"
        if probes and well == len(probes) and not self._changes():
            asked = said_of(self._settings)
            probes.append(Probe("the settings before", f"other than {asked}", asked, False))
            says = "everything is so already: nothing would change"
        return Look(bool(probes) and all(probe.ok for probe in probes), says, probes)

    def _changes(self) -> bool:
        """Whether anything that is asked for is not so already, on any node."""
        held = [
            (value, is_set, self._settings[key])
            for each in self._before.values()
            for key, (value, is_set) in each.items()
        ]
        return any(is_set if asked is None else not same(value, asked) for value, is_set, asked in held)

    def in_effect(self, lab: Lab) -> Look:
        return self._shows(lab, self._held(lab))

    def held(self, lab: Lab) -> Look:
        """Of the nodes that answer: one that does not tells nothing of a setting, and none may have another value."""
        told = {node: held for node, held in self._held(lab).items() if held is not None}
        return self._shows(lab, told)

    def still(self, lab: Lab) -> Look | None:
        """One node in its turn; None when it does not answer."""
        names = self._asked(lab)
        if not names:
            return None
        node = names[next(self._turns) % len(names)]
        held = effective(lab, node, self._index)
        if held is None:
            return None
        probes = self._signs(node, held)
        return Look(all(probe.ok for probe in probes), f"{node} holds what was set", probes)

    def _signs(self, node: str, held: dict[str, tuple[Text, bool]] | None) -> list[Probe]:
        probes = []
        for key, asked in self._settings.items():
            value, is_set = (held or {}).get(key, (None, False))
            ok = held is not None and (is_set and same(value, asked) if asked is not None else not is_set)
            measured = _told(value, is_set) if held is not None else "no answer"
            probes.append(Probe(f"{key} on {node}", _shown(asked), measured, ok, about=key))
        return probes

    def _shows(self, lab: Lab, nodes: Mapping[str, dict[str, tuple[Text, bool]] | None]) -> Look:
        probes = [probe for node, held in nodes.items() for probe in self._signs(node, held)]
        if self._wanted_copies is not None:
            probes.append(self._copies_probe(self._counted(lab), self._wanted_copies))
        shown = sum(probe.ok for probe in probes)
        return Look(bool(probes) and shown == len(probes), f"{shown} of {len(probes)} signs show it", probes)

    def gone(self, lab: Lab) -> Look:
        probes = []
        for node, held in self._held(lab).items():
            for key, (old, was_set) in self._before.get(node, {}).items():
                value, is_set = (held or {}).get(key, (None, False))
                measured = _told(value, is_set) if held is not None else "no answer"
                ok = held is not None and is_set == was_set and same(value, old)
                probes.append(Probe(f"{key} on {node}", _told(old, was_set), measured, ok))
        if self._wanted_copies is not None and self._copies:
            probes.append(self._copies_probe(self._counted(lab), max(self._copies.values())))
        well = sum(probe.ok for probe in probes)
        return Look(bool(probes) and well == len(probes), f"{well} of {len(probes)} signs are as before", probes)

    @property
    def _wanted_copies(self) -> int | None:
        replicas = self._settings.get(REPLICAS)
        return int(replicas) + 1 if isinstance(replicas, str) and replicas.isdigit() else None

    def _counted(self, lab: Lab) -> Counter[int]:
        """Copies of each shard in the routing table, assigned or not."""
        seen = newest(views(lab)) if self._wanted_copies is not None else None
        return Counter(copy.shard for copy in seen.copies if copy.index == self._index) if seen else Counter()

    def _copies_probe(self, counted: Counter[int], wanted: int) -> Probe:
        measured = ", ".join(f"shard {shard}: {count}" for shard, count in sorted(counted.items())) or "no shard"
        ok = bool(counted) and set(counted.values()) == {wanted}
        return Probe(f"copies of each shard of {self._index}", str(wanted), measured, ok)


def _told(value: Text, is_set: bool) -> str:
    return _shown(value) if is_set else f"{_shown(value)} (default)" if value is not None else "not set"


# ---- the kind -------------------------------------------------------------------------------------------


class SettingsChange(Kind):
    """Any dynamic setting of the cluster or of an index, as a planted weakness; null means the default."""

    kind = "settings.change"
    noticing = "at once"
    family = "settings"
    proof = (
        "the value that each node holds by its own state, another one than before; "
        "of replicas also the copies that each shard has"
    )
    holding = "every two seconds the value that one node holds, in turn; before the undo all nodes that answer"
    colour = "#6b46c1"
    examples = (
        {"scope": "index", "settings": {"number_of_replicas": 0}},
        {"scope": "index", "settings": {"translog.durability": "async"}},
        {"scope": "cluster", "settings": {"cluster.routing.weighted.fail_open": False}},
        {"scope": "cluster", "settings": {"cluster.routing.allocation.awareness.attributes": ""}},
        {"scope": "cluster", "settings": {"cluster.routing.allocation.enable": "primaries"}},
    )
    scope: Scope = Field(description="cluster or index")
    index: str | None = Field(
        default=None, pattern=r"^[a-z0-9][a-z0-9_.-]*$", description="which index; default the load's"
    )
    settings: dict[SettingName, SettingOrDefault] = Field(
        min_length=1, description="name to value, null for the default, for example {number_of_replicas: 0}"
    )

    @model_validator(mode="after")
    def _index_of_an_index(self) -> SettingsChange:
        if self.scope == "cluster" and self.index is not None:
            raise ValueError("a cluster setting has no index: expected scope: index, or no index")
        return self

    @property
    def reach(self) -> Reach:
        return "cluster" if self.scope == "cluster" else "index" if self.index is None else "foreign"

    @property
    def cluster_settings(self) -> tuple[str, ...]:
        return tuple(self.full) if self.scope == "cluster" else ()

    def describe(self) -> str:
        where = "the cluster" if self.scope == "cluster" else self.index or "the load's index"
        return f"set {said_of(self.settings)} on {where}"

    @property
    def full(self) -> dict[str, Text]:
        """The settings by their full names, as texts."""
        prefix = "index." if self.scope == "index" else ""
        return {prefix + key.removeprefix(prefix): as_text(value) for key, value in self.settings.items()}

    def check(self, topology: Topology) -> list[str]:
        found = []
        for key, full in zip(self.settings, self.full, strict=True):
            if self.scope == "cluster" and key.startswith("index."):
                found.append(f"{key} is a setting of an index: expected scope: index")
            elif self.scope == "index" and key.startswith(("cluster.", "indices.", "node.")):
                found.append(f"{key} is a setting of the cluster: expected scope: cluster")
            elif key in LAB_OWNED:
                found.append(f"{key} is set by the lab: expected it in no definition")
            elif key in STATIC:
                found.append(
                    f"{key} is a static setting, which OpenSearch takes from opensearch.yml only: expected it in the "
                    "topology, under settings.node"
                )
            elif full in STATIC_INDEX:
                found.append(f"{key} is fixed when an index is made: expected it in the topology, under settings.index")
        return found

    def claims(self, scene: Scene) -> frozenset[str]:
        where = "the cluster" if self.scope == "cluster" else f"index {self.index or scene.index}"
        return frozenset(f"the setting {key} of {where}" for key in self.full)

    def aim(self, id: str, scene: Scene, wiring: Wiring) -> Aim:
        return Aim(id, scene, wiring)

    def where(self, scene: Scene) -> str | None:
        """The index that is meant; None: the cluster."""
        return (self.index or scene.index) if self.scope == "index" else None

    def evidence(self, aim: Aim, means: Means) -> Evidence:
        return SettingsEvidence(self.where(aim.scene), self.full)
