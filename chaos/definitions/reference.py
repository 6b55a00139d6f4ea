"""docs/reference.md: the grammar of every kind of file but cases of bugs, made from the published schemas.

``python -m chaos.registry`` writes it; a test fails when the page is not current. Parameters of faults are
in docs/faults.md, what metrics mean in docs/findings.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.definitions import slis
from chaos.definitions.grammar import Grammar
from chaos.definitions.schema import schema_of

FILE = Path(__file__).parents[2] / "docs" / "reference.md"
COMMAND = "python -m chaos.registry"
EXPERIMENT = {
    "KnownWeakness": "expect.known_weakness",
    "Retry": "load.write.retry",
    "HelperFile": "load.write.client",
    "Actions": "load.write.actions",
    "CompareAndSet": "load.cas",
    "Visibility": "load.visibility",
    "DataStream": "load.data_stream",
    "Rollover": "load.rollover",
    "Client": "load.client",
    "PhaseFile": "phases.NAME",
    "Until": "phases.NAME.until",
    "During": "phases.NAME.during",
    "Decommission": "phases.NAME.do.decommission",
    "Recommission": "phases.NAME.do.recommission",
    "Weights": "phases.NAME.do.weights",
    "ExcludeVotes": "phases.NAME.do.exclude_votes",
    "IncludeVotes": "phases.NAME.do.include_votes",
    "Reindex": "phases.NAME.do.reindex",
    "Reroute": "phases.NAME.do.reroute",
    "RetryFailed": "phases.NAME.do.retry_failed",
    "IndexCreate": "phases.NAME.do.index_create",
    "IndexClose": "phases.NAME.do.index_close",
    "IndexOpen": "phases.NAME.do.index_open",
    "IndexDelete": "phases.NAME.do.index_delete",
    "RemoteRestore": "phases.NAME.do.remote_restore",
    "Snapshot": "phases.NAME.do.snapshot",
    "Restore": "phases.NAME.do.restore",
    "Sli": "slis.NAME",
    "SliAccess": "slis.NAME.access",
    "Guards": "guards",
    "GoodFloor": "guards.read.good, guards.write.good",
    "GuardCommand": "guards.command",
    "SliLimit": "guards.sli.NAME",
    "Controller": "controller",
    "Program": "programs.NAME",
    "VaryFile": "vary",
    "SideFile": "vary.sides.NAME",
    "ProtectionFile": "vary.protection",
}
"""Parts of the schema, and where they stand in a file; in the order of the page, after the load and its operations."""
EXISTING = {
    "AccessFile": "access",
    "SigV4File": "access.sigv4",
    "Identity": "identity",
    "Zones": "zones",
    "Member": "nodes.NAME",
    "Accepted": "accept_unavailable",
    "Caps": "caps",
    "AuditFile": "audit",
    "Foreign": "foreign",
    "TrafficLimits": "foreign.search, foreign.indexing",
    "Reads": "reads",
    "TheirToxiproxy": "toxiproxies",
    "Passage": "toxiproxies.proxies.NAME",
    "HostsFile": "hosts",
    "ClientHost": "hosts.clients.ZONE",
    "Hook": "hooks.KIND",
    "FisFile": "fis",
    "Instances": "fis.instances",
    "DomainFile": "domain",
    "KubernetesFile": "kubernetes",
    "KubernetesIdentity": "kubernetes.identity",
}
GAMEDAY = {
    "Step": "experiments",
    "Window": "window",
    "Freeze": "freezes",
    "Approval": "approval",
    "Ticket": "approval.ticket",
    "Consent": "consent",
    "Ladder": "ladder",
    "Preflight": "preflight",
    "Snapshot": "preflight.snapshot",
    "Guard": "guards.NAME",
    "PrometheusGuard": "guards.NAME.prometheus",
    "CloudWatchGuard": "guards.NAME.cloudwatch",
    "MonitorGuard": "guards.NAME.monitor",
    "HttpGuard": "guards.NAME.http",
    "ProgramGuard": "guards.NAME.program",
    "Alerts": "alerts",
    "ExpectedAlert": "alerts.expect",
    "Announcement": "announce",
    "Bounds": "bounds",
    "StopBy": "stop",
}
CAMPAIGN = {
    "MatrixFile": "matrix",
    "EntryFile": "matrix.experiments, each",
    "ExcludeFile": "matrix.exclude, each",
    "BudgetFile": "budget",
    "RetryFile": "retry",
}
WORKLOAD = {"FieldFile": "fields.NAME", "QueryFile": "queries.NAME"}
TOPOLOGY = {
    "Group": "nodes.NAME",
    "Settings": "settings",
    "Disks": "disks",
    "Security": "security",
    "Service": "services.NAME",
    "RemoteStore": "remote_store",
}
UNITS = (
    ("a duration", "300ms, 20s, 8m, 1h"),
    ("a rate", "100/s, 6000/min"),
    ("a frequency", "2/year"),
    ("a share", "99.9%"),
    ("a size", "384MiB, 1GiB"),
    ("a comparison", "'>= 99.9%', '<= 10s', 0"),
)
KINDS = {"percent": "share", "duration": "duration", "count": "count", "number": "number, share or duration"}


def markdown(grammar: Grammar) -> str:
    """The content of docs/reference.md."""
    return "\n".join(_page(grammar)) + "\n"


def parts(grammar: Grammar) -> dict[str, str]:
    """Parts of an experiment's schema, and where they stand in a file; in the order of the page."""
    operations = {f"{name.capitalize()}File": f"load.{name}" for name in grammar.operations}
    return {
        "LoadFile": "load",
        **operations,
        "StreamFile": "load.streams.NAME",
        "ChangingRate": "rate, where it changes",
        "RateStep": "rate.steps, each",
        "IndexFile": "load.indices.NAME",
        **EXPERIMENT,
    }


def _page(grammar: Grammar) -> Iterator[str]:
    experiment = schema_of("experiment", grammar)
    yield "# The grammar of experiments, topologies, workloads, targets, game days and campaigns"
    yield ""
    yield f"Made by `{COMMAND}` from the published schemas (`chaos/definitions/schema/`); a test"
    yield "fails when it is not current. An unknown key is an error, with file, line and column. [Faults](faults.md)"
    yield "have a page of their own; how all of it is used is in [Write an experiment](writing.md)."
    yield ""
    yield "| a value | for example |"
    yield "|---|---|"
    yield from (f"| {what} | {example} |" for what, example in UNITS)
    yield ""
    yield "## An experiment"
    yield from _table(experiment, experiment)
    for name, place in parts(grammar).items():
        yield from _part(f"`{place}`", experiment["$defs"][name], experiment)
    yield from _expectations(experiment["$defs"]["ExpectationFile"], experiment, grammar)
    for title, kind, places in (
        ("A topology", "topology", TOPOLOGY),
        ("A workload", "workload", WORKLOAD),
        ("A cluster that exists", "existing", EXISTING),
        ("A game day", "gameday", GAMEDAY),
        ("A campaign", "campaign", CAMPAIGN),
    ):
        schema = schema_of(kind, grammar)
        yield ""
        yield f"## {title}"
        yield from _table(schema, schema)
        for name, place in places.items():
            yield from _part(f"`{place}`", schema["$defs"][name], schema)


def _part(title: str, part: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"### {title}"
    yield " ".join(str(part.get("description") or "").replace("``", "`").split())
    yield from _table(part, whole)


def _table(part: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[str]:
    if "properties" not in part:  # a mapping whose keys are names; what it is for is said above
        return
    yield ""
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    required = part.get("required") or []
    for key, value in part["properties"].items():
        default = "required" if key in required else _default(value)
        yield f"| `{key}` | {_cell(_type(value, whole))} | {_cell(default)} | {_cell(_meaning(value))} |"


def _expectations(part: Mapping[str, Any], whole: Mapping[str, Any], grammar: Grammar) -> Iterator[str]:
    plain = {key: value for key, value in part["properties"].items() if key not in grammar.metrics}
    yield from _part("`expect`, each line", {**part, "properties": plain}, whole)
    yield ""
    yield "And exactly one of these metrics:"
    yield ""
    yield "| metric | compared with a | judged |"
    yield "|---|---|---|"
    for metric, each in grammar.metrics.items():
        judged = "over the whole run" if each.whole_run else "in each phase"
        compared = "nothing: a program and its arguments" if each.command else KINDS[each.unit]
        yield f"| `{metric}` | {compared} | {judged} |"
    yield "| `NAME.…`, of a stream | as `read.…` | in each phase |"
    for quantity, unit in slis.EVERY_QUANTITY.items():
        of = "an SLI of alert rules" if quantity in slis.OF_ALERTS else "an SLI"
        yield f"| `{slis.metric('NAME', quantity)}`, of {of} | {KINDS[unit]} | in each phase |"


def _type(value: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """What may be written, in words."""
    if (reference := value.get("$ref")) is not None:
        name = str(reference).rpartition("/")[2]
        return {"NodeSelector": "nodes", "LinkSelector": "links", "InjectFile": "faults", "DoFile": "actions"}.get(
            name, "a mapping, see below"
        )
    if "const" in value:
        return f"`{_spelled(value['const'])}`"
    if "enum" in value:
        return " or ".join(f"`{item}`" for item in value["enum"])
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(_type(item, whole) for item in value["anyOf"]))
    if value.get("type") == "array":
        return f"a list of {_type(value.get('items') or {}, whole)}"
    if value.get("type") == "object":
        return "a mapping"
    if "examples" in value:
        return f"for example {', '.join(f'`{item}`' for item in value['examples'])}"
    return {"string": "text", "integer": "a whole number", "boolean": "true or false", "number": "a number"}.get(
        str(value.get("type")), "any"
    )


def _default(value: Mapping[str, Any]) -> str:
    if "default" not in value:
        return ""
    default = value["default"]
    if default in ([], {}, ""):
        return "none"
    if isinstance(default, dict):
        return "its own defaults"
    shown = ", ".join(map(_spelled, default)) if isinstance(default, list) else _spelled(default)
    return f"`{shown}`"


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(value: Mapping[str, Any]) -> str:
    return str(value.get("description") or "")


def _cell(words: str) -> str:
    return " ".join(words.split()).replace("|", "\\|")
