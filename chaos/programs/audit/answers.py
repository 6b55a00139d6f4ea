"""What each answer of a cluster says, as facts. An answer of another shape raises what Python raises, or Partial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from chaos.base.text import one_line, printable
from chaos.programs.audit.facts import (
    Certificate,
    Copy,
    Decommissioned,
    Index,
    Node,
    Policy,
    Running,
    Settings,
    Snapshot,
    State,
    Template,
    Unassigned,
    Usage,
    by_name,
    flat,
    of_index,
)


class Partial(ValueError):
    """An answer that lacks what a rule might have found."""


def stats(answer: Any) -> dict[str, dict[str, Any]]:
    """By node: what was measured. A node that says nothing of it has None."""
    found = {}
    for id, node in answer["nodes"].items():
        memory, disk = node.get("os", {}).get("mem", {}), node.get("fs", {}).get("total", {})
        cpu, jvm = node.get("os", {}).get("cpu", {}).get("percent"), node.get("jvm", {}).get("mem", {})
        old = jvm.get("pools", {}).get("old", {})
        used, most = _number(old.get("used_in_bytes")), _number(old.get("max_in_bytes"))
        share = 100 * used / most if used is not None and most else _number(jvm.get("heap_used_percent"))
        found[id] = {
            "memory": _number(memory.get("total_in_bytes")) or None,
            "cpu": _number(cpu),
            "heap_used": share,
            "disk": _number(disk.get("total_in_bytes")) or None,
            "disk_free": _number(disk.get("available_in_bytes")),
            "limit": _number(node.get("breakers", {}).get("parent", {}).get("limit_size_in_bytes")) or None,
        }
    return found


def asked_at(answer: Any) -> float | None:
    """When the nodes answered, by their own clocks, in seconds since the epoch."""
    times = [_number(node.get("timestamp")) for node in answer["nodes"].values()]
    return max((time / 1000 for time in times if time is not None), default=None)


COUNTED_SECONDS = 60.0
"""What a node has counted for less time says nothing of how often it is asked."""


def usage(answer: Any) -> Usage:
    if silent := answer.get("_nodes", {}).get("failed"):
        raise Partial(f"{silent} nodes did not answer")
    rates: dict[str, float] = {}
    spans = {id: (int(node["timestamp"]) - int(node["since"])) / 1000 for id, node in answer["nodes"].items()}
    grown = {id: span for id, span in spans.items() if span >= COUNTED_SECONDS}
    for id, span in grown.items():
        for action, count in answer["nodes"][id].get("rest_actions", {}).items():
            rates[printable(action)] = rates.get(printable(action), 0.0) + int(count) / span
    return Usage(rates, min(grown.values(), default=0.0), len(spans) - len(grown))


def nodes(answer: Any, measured: Mapping[str, Mapping[str, Any]], zone_attribute: str) -> tuple[Node, ...]:
    if silent := answer.get("_nodes", {}).get("failed"):
        raise Partial(f"{silent} nodes did not answer")
    found = []
    for id, node in answer["nodes"].items():
        zone = node.get("attributes", {}).get(zone_attribute)
        found.append(
            Node(
                name=printable(node["name"]),
                roles=frozenset(map(str, node["roles"])),
                zone=None if zone is None else printable(zone),
                processors=_number(node.get("os", {}).get("allocated_processors")),
                heap=_number(node.get("jvm", {}).get("mem", {}).get("heap_max_in_bytes")) or None,
                settings=by_name(node.get("settings", {})),
                id=str(id),
                ip=_text(node.get("ip")),
                host=_text(node.get("host")),
                attributes={str(name): printable(value) for name, value in node.get("attributes", {}).items()},
                secured=_secured(node.get("settings", {})),
                **measured.get(id, {}),
            )
        )
    if not found:
        raise Partial("it names no node")
    return tuple(sorted(found, key=lambda node: node.name))


def settings(answer: Any) -> Settings:
    persistent, transient = dict(answer["persistent"]), dict(answer["transient"])
    cluster = by_name({**persistent, **transient})
    return Settings(
        cluster,
        by_name(answer["defaults"]),
        transient=by_name(transient),
        explicit=cluster,
        hidden=tuple(sorted(name for name in {*persistent} & {*transient} if persistent[name] != transient[name])),
    )


def indices(answer: Any) -> tuple[Index, ...]:
    return tuple(_index(printable(name), each["settings"]) for name, each in (answer or {}).items())


def _index(name: str, settings: Any) -> Index:
    """Settings that an upgrade has put aside are named ``archived.``."""
    held = of_index(settings["index"]) | flat(settings.get("archived", {}), "archived.")
    return Index(name, int(held["number_of_shards"]), int(held["number_of_replicas"]), held)


def copies(answer: Any) -> tuple[Copy, ...]:
    """A copy that moves is named ``node -> address id other``; until it has moved it is where it was."""
    return tuple(
        Copy(
            printable(row["index"]),
            int(row["shard"]),
            row["prirep"] == "p",
            row["state"] in ("STARTED", "RELOCATING"),
            printable(row["node"]).partition(" -> ")[0] if row.get("node") else None,
            None if row.get("store") is None else int(row["store"]),
        )
        for row in answer
    )


def state(answer: Any) -> State:
    metadata = answer["metadata"]
    coordination = metadata["cluster_coordination"]
    return State(
        voters=tuple(map(str, coordination["last_committed_config"])),
        excluded=tuple(printable(each["node_name"]) for each in coordination["voting_config_exclusions"]),
        closed=frozenset(
            printable(name) for name, each in metadata.get("indices", {}).items() if each["state"] == "close"
        ),
        blocks=tuple(printable(each["description"]) for each in answer.get("blocks", {}).get("global", {}).values()),
        weights=_weights(metadata.get("weighted_shard_routing", {})),
        decommissioned=_decommissioned(metadata.get("decommissionedAttribute")),
        restores=tuple(_restores(answer.get("restore", {}))),
        running=tuple(_running(answer.get("snapshots", {}))),
        unassigned=tuple(_unassigned(answer.get("routing_table", {}))),
    )


def _weights(said: Any) -> dict[str, dict[str, float]]:
    return {
        printable(attribute): {printable(value): float(weight) for value, weight in weights.items()}
        for attribute, weights in said.get("awareness", {}).items()
    }


def _decommissioned(said: Any) -> Decommissioned | None:
    if not said:
        return None
    [(attribute, value)] = said["awareness"].items()
    return Decommissioned(printable(attribute), printable(value), str(said["status"]).lower())


def _restores(said: Any) -> Iterator[str]:
    for each in said.get("snapshots", ()):
        if str(each["state"]).upper() not in ("SUCCESS", "FAILURE"):
            yield printable(f"{each['repository']}/{each['snapshot']} {str(each['state']).lower()}")


def _running(said: Any) -> Iterator[Running]:
    for each in said.get("snapshots", ()):
        began = _number(each.get("start_time_millis"))
        yield Running(
            printable(each["repository"]),
            printable(each["snapshot"]),
            str(each["state"]).lower(),
            None if began is None else began / 1000,
        )


def _unassigned(table: Any) -> Iterator[Unassigned]:
    for name, index in table.get("indices", {}).items():
        for number, copies in index["shards"].items():
            for copy in copies:
                if copy["state"] == "UNASSIGNED":
                    info = copy.get("unassigned_info", {})
                    yield Unassigned(
                        printable(name),
                        int(number),
                        str(info.get("reason", "unknown")),
                        int(info.get("failed_attempts", 0)),
                        one_line(printable(info.get("details", ""))),
                        str(copy.get("recovery_source", {}).get("type", "")),
                    )


def explained(answer: Any) -> str:
    """Why the first unassigned copy stays so: what each node's deciders said no with, the same words once."""
    copy = "primary" if answer["primary"] else "replica"
    told = f"{copy} {answer['shard']} of {printable(answer['index'])}: {answer['unassigned_info']['reason']}"
    reasons: dict[str, list[str]] = {}
    for node in answer.get("node_allocation_decisions", ()):
        for decider in node.get("deciders", ()):
            if decider.get("decision") != "YES":
                name = str(decider["decider"])
                reasons.setdefault(name, []).append(printable(node["node_name"]))
    refused = "; ".join(f"{name} on {', '.join(sorted(where))}" for name, where in reasons.items())
    why = refused or printable(answer.get("allocate_explanation") or answer["can_allocate"])
    return one_line(f"{told}; {why}")


def index_templates(answer: Any) -> tuple[Template, ...]:
    return tuple(_composed(answer, "index_template"))


def component_templates(answer: Any) -> tuple[Template, ...]:
    return tuple(_composed(answer, "component_template"))


def _composed(answer: Any, kind: str) -> Iterator[Template]:
    """Where there is none, filter_path leaves an empty object."""
    for each in answer[f"{kind}s"] if answer != {} else ():
        body = each.get(kind, {})
        yield Template(
            printable(each["name"]),
            of_index(body.get("template", {}).get("settings")),
            tuple(map(printable, body.get("index_patterns", ()))),
            tuple(map(printable, body.get("composed_of", ()))),
            "data_stream" in body,
        )


def legacy_templates(answer: Any) -> tuple[Template, ...]:
    return tuple(
        Template(printable(name), of_index(each.get("settings")), tuple(map(printable, each["index_patterns"])))
        for name, each in answer.items()
    )


def streams(answer: Any) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for each in answer["data_streams"] if answer != {} else ():
        found.setdefault(printable(each["template"]), []).append(printable(each["name"]))
    return {template: tuple(names) for template, names in found.items()}


def repositories(answer: Any) -> dict[str, str]:
    """Name → type."""
    if not isinstance(answer, list):
        raise TypeError("a list was expected")
    return {str(each["id"]): printable(each["type"]) for each in answer}


def shallow(answer: Any) -> tuple[str, ...]:
    """The repositories whose snapshots of remote-backed indices are shallow."""
    said = {name: each["settings"]["remote_store_index_shallow_copy"] for name, each in answer.items()}
    return tuple(sorted(printable(name) for name, value in said.items() if str(value).lower() == "true"))


def snapshots(answer: Any) -> tuple[Snapshot, ...]:
    """Of one repository, the oldest first."""
    found = [
        Snapshot(
            printable(each["snapshot"]),
            str(each["state"]).upper(),
            each["start_time_in_millis"] / 1000,
            None if not each.get("end_time_in_millis") else each["end_time_in_millis"] / 1000,
        )
        for each in (answer["snapshots"] if answer != {} else ())
    ]
    return tuple(sorted(found, key=lambda each: each.began))


def policies(answer: Any) -> tuple[Policy, ...]:
    """Of snapshot management. ``latest_execution`` is missing until the first one."""
    found = []
    for each in answer["policies"]:
        problems = []
        for kind in ("creation", "deletion"):
            last = (each.get(kind) or {}).get("latest_execution") or {}
            if last.get("status") not in (None, "SUCCESS", "IN_PROGRESS"):
                cause = (last.get("info") or {}).get("cause") or (last.get("info") or {}).get("message") or ""
                problems.append(one_line(printable(f"{kind} {str(last['status']).lower()} {cause}")).strip())
        found.append(Policy(printable(each["name"]), each["enabled"] is True, "; ".join(problems)))
    return tuple(found)


def managed(answer: Any) -> tuple[Policy, ...]:
    """Indices under a policy of index state management."""
    total = answer["total_managed_indices"]
    found = []
    for name, each in answer.items():
        if not isinstance(each, Mapping) or not each.get("policy_id"):
            continue
        failed = (each.get("retry_info") or {}).get("failed") or (each.get("action") or {}).get("failed")
        info = each.get("info") or {}
        cause = info.get("cause") or info.get("message") or "its step failed"
        found.append(
            Policy(printable(name), each.get("enabled") is not False, one_line(printable(cause)) if failed else "")
        )
    if len(found) < total:
        raise Partial(f"{len(found)} of {total} managed indices were told")
    return tuple(found)


def certificates(answer: Any) -> tuple[Certificate, ...]:
    if silent := answer.get("_nodes", {}).get("failed"):
        raise Partial(f"{silent} nodes did not answer")
    return tuple(
        Certificate(printable(node["name"]), layer, datetime.fromisoformat(each["not_after"]).timestamp())
        for node in answer["nodes"].values()
        for layer, found in node["certificates"].items()
        for each in found
    )


def _text(value: Any) -> str | None:
    return None if value is None else printable(value)


def _secured(settings: Mapping[str, Any]) -> bool:
    """By the security plugin, which wraps the REST API where it is not switched off."""
    return "security" in str(settings.get("http.type", "")).lower()


def _number(value: Any) -> Any:
    """A number that is one, and not the -1 with which OpenSearch says that it does not know."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
