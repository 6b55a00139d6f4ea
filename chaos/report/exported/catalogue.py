"""Every name of an export: fields of documents, metrics and their labels. Names never change; new ones may come.

``tests/unit/report/exported_names.json`` holds all of them, and a test compares. A dashboard or an alert of a team's
rests on these names, so a name that is wrong stays, and a better one comes beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

INDEX = "opensearch-chaos-runs"
"""The index of the documents; the template is for all that begin so."""
PREFIX = "opensearch_chaos_"


@dataclass(frozen=True)
class Field:
    """A field of a document. ``type``: in the index template; ``kinds``: of the documents that can have it."""

    name: str
    type: str
    kinds: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Metric:
    """A metric family, all of them gauges. ``name``: without the prefix; ``labels``: beside ``run``; ``unit``: the end
    of its name, or empty; ``sampled``: at which moments it has a value."""

    name: str
    unit: str
    labels: tuple[str, ...]
    sampled: str
    meaning: str

    @property
    def family(self) -> str:
        return PREFIX + self.name


KINDS = {
    "run": "one a run: its outcome",
    "phase": "one a phase, at its beginning",
    "fault": "one a fault, at its command",
    "verdict": "one a promise or expectation and phase, at the phase's end; of the whole run at the run's",
    "second": "one an operation and second in which requests were due",
    "failure": "one an operation, second and reason for which requests failed",
    "sli": "one a value of an SLI",
    "annotation": "one a change, or a moment at which the run was stopped",
}
"""Kinds of documents."""

_ALL = tuple(KINDS)
_IN_PHASE = ("phase", "fault", "verdict", "second", "failure", "sli", "annotation")

FIELDS = (
    Field("@timestamp", "date", _ALL, "when it began, or was measured; of a second its beginning"),
    Field("run", "keyword", _ALL, "the run's name"),
    Field("kind", "keyword", _ALL, "which of the kinds above"),
    Field("experiment", "keyword", _ALL, "the experiment's name"),
    Field("phase", "keyword", _IN_PHASE, "the phase; of a second or failure the one in which they were due"),
    Field("end", "date", ("run", "phase"), "when it ended"),
    Field("seconds", "double", ("run", "phase"), "how long it lasted"),
    Field("outcome", "keyword", ("run",), "pass, weakness, inconclusive, aborted or error"),
    Field("exit_code", "integer", ("run",), "that of the command"),
    Field("clean", "boolean", ("run",), "whether all was taken back; absent where it was not recorded"),
    Field("headline", "text", ("run",), "what decides, in a sentence"),
    Field("topology", "keyword", ("run",), "the topology's name"),
    Field("target", "keyword", ("run",), "what it ran on: local, docker, existing"),
    Field("opensearch", "keyword", ("run",), "the version of OpenSearch"),
    Field("seed", "long", ("run",), "the seed"),
    Field("reason", "keyword", ("phase", "failure"), "why the phase ended; why the requests failed"),
    Field("fault", "keyword", ("fault",), "its name in the run"),
    Field("fault_kind", "keyword", ("fault",), "the kind of fault"),
    Field("provider", "keyword", ("fault",), "who carried it out"),
    Field("targets", "keyword", ("fault",), "whom it hit"),
    Field("in_effect", "date", ("fault",), "when it was first seen in effect; absent where that is not proven"),
    Field("undo", "date", ("fault",), "when its undo was commanded"),
    Field("gone", "date", ("fault",), "when it was seen to be gone"),
    Field("proven", "boolean", ("fault",), "whether it is proven to have been in effect, to have held and to be gone"),
    Field("text", "text", ("fault", "verdict", "annotation"), "what it is or says, in words"),
    Field("finding", "keyword", ("verdict",), "the finding's id, the same in every run of an experiment"),
    Field("metric", "keyword", ("verdict",), "what was measured"),
    Field("operation", "keyword", ("verdict", "second", "failure"), "the operation of the load"),
    Field("wanted", "keyword", ("verdict",), "the target, as it stands in the file"),
    Field("verdict", "keyword", ("verdict",), "pass, fail or inconclusive"),
    Field("counts_as", "keyword", ("verdict",), "what it does to the outcome"),
    Field("measured", "double", ("verdict",), "the value; absent where there is too little data"),
    Field("unit", "keyword", ("verdict",), "of measured: share (0..1), seconds, count, number or ratio"),
    Field("scheduled", "long", ("second",), "requests that were due in it"),
    Field("good", "long", ("second",), "of these were answered in full and in time"),
    Field("late", "long", ("second",), "of these were answered in full, too late"),
    Field("availability", "double", ("second",), "good / scheduled"),
    Field("latency_p50", "double", ("second",), "seconds; absent where so many were not answered"),
    Field("latency_p99", "double", ("second",), "seconds; absent where so many were not answered"),
    Field("count", "long", ("failure",), "requests that failed for this reason"),
    Field("sli", "keyword", ("sli",), "its name"),
    Field("value", "double", ("sli",), "what it said"),
    Field("annotation", "keyword", ("annotation",), "phase, fault, undo, action, guard or abort"),
)

_SECOND = "each second in which requests were due"
METRICS = (
    Metric("run_info", "", ("experiment", "topology", "target", "opensearch"), "each second of the run", "always 1"),
    Metric("requests_scheduled", "", ("operation",), _SECOND, "requests that were due in this second"),
    Metric("requests_good", "", ("operation",), _SECOND, "of these were answered in full and in time"),
    Metric("requests_late", "", ("operation",), _SECOND, "of these were answered in full, too late"),
    Metric(
        "requests_failed",
        "",
        ("operation", "reason"),
        f"{_SECOND}, of each reason that the operation has in the run",
        "of these were not answered in full, for this reason",
    ),
    Metric("availability_ratio", "ratio", ("operation",), _SECOND, "good / scheduled"),
    Metric(
        "latency_seconds",
        "seconds",
        ("operation", "percentile"),
        f"{_SECOND}; not where so many were not answered",
        "from when a request was due to its answer; percentile 50 and 99",
    ),
    Metric("sli", "", ("sli",), "whenever the SLI had a value", "what the team's own SLI said"),
    Metric("phase", "", ("phase",), "each second of the phase", "always 1"),
    Metric("fault_commanded", "", ("fault", "fault_kind"), "each second from command to undo", "always 1"),
    Metric(
        "fault_in_effect",
        "",
        ("fault", "fault_kind"),
        "each second from when it was seen in effect until it was seen to be gone, or its undo where it was not",
        "always 1; absent where that is not proven",
    ),
    Metric(
        "annotation",
        "",
        ("annotation", "text"),
        "the moment of a change",
        "always 1; annotation is phase, fault, undo, action, guard or abort",
    ),
    Metric(
        "verdict",
        "",
        ("finding", "metric", "operation", "phase", "verdict", "counts_as"),
        "the phase's end; of the whole run the run's",
        "always 1",
    ),
    Metric(
        "measured",
        "",
        ("finding", "unit"),
        "as verdict, where there is a value",
        "the value: shares are 0..1, durations seconds",
    ),
    Metric("outcome", "", ("outcome",), "the run's end", "always 1"),
    Metric("exit_code", "", (), "the run's end", "the command's exit code"),
)

_TEXTS = {"text": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 1024}}}}


def template() -> dict[str, object]:
    """The index template of the documents: the body of ``PUT _index_template/opensearch-chaos``."""
    return {
        "index_patterns": [f"{INDEX}*"],
        "priority": 100,
        "template": {
            "settings": {"index": {"auto_expand_replicas": "0-1"}},
            "mappings": {
                "dynamic": "strict",
                "properties": {each.name: _TEXTS.get(each.type, {"type": each.type}) for each in FIELDS},
            },
        },
        "_meta": {"made_by": "opensearch-chaos"},
    }
