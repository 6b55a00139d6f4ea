"""What findings mean, what usually helps in OpenSearch and its price: from each check's file and ``meanings.yaml``.

A remedy is advised for a finding when the fault (or the operator's action) that it was measured under, or the
metric itself, names it, and when it is for that kind of finding: what speeds up recovery is no answer to lost
writes. ``python -m chaos.report`` prints docs/findings.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from chaos.checks import catalogue

FILE = Path(__file__).with_name("meanings.yaml")
DOCUMENT = Path(__file__).parents[2] / "docs" / "findings.md"
COMMAND = "python -m chaos.report"
GROUPS = ("reads", "writes", "data", "movement", "recovery")
"""The kinds of finding that a remedy may be for."""
_OTHERS = {"data": "data", "documents": "data", "until": "recovery", "process": "recovery"}
"""Of findings that no expectation asks for."""


@dataclass(frozen=True)
class Remedy:
    """Something that usually helps. ``settings``: setting or call → what to set, and the default."""

    id: str
    title: str
    groups: tuple[str, ...]
    settings: Mapping[str, str]
    does: str
    price: str


@dataclass(frozen=True)
class Meaning:
    """What a metric, an action or a kind of fault stands for. ``shows``: what OpenSearch usually does (faults)."""

    id: str
    means: str
    shows: str
    helps: tuple[str, ...]


@dataclass(frozen=True)
class Meanings:
    """All that the file holds, in its order."""

    remedies: Mapping[str, Remedy]
    metrics: Mapping[str, Meaning]
    actions: Mapping[str, Meaning]
    faults: Mapping[str, Meaning]

    def metric(self, name: str) -> Meaning | None:
        """Of a metric as a definition names it (``read.good``); None when nothing is written about it."""
        written = self.metrics.get(name) or self.metrics.get(name.partition(".")[2])
        check = catalogue.of(name)
        if written is None and check is not None and check.meaning:
            return Meaning(name, check.meaning, "", check.helps)
        return written

    def advice(self, metric: str, causes: Iterable[str]) -> tuple[Remedy, ...]:
        """What to try for a missed metric, first things first.

        ``causes``: kinds of the faults and actions that it was measured under, the likeliest first. A remedy that
        cause and metric both name comes before one that only the cause names, and that before the metric's own.
        """
        group = group_of(metric)
        meaning = self.metric(metric)
        own = meaning.helps if meaning else ()
        named = [
            id for kind in causes if (cause := self.faults.get(kind) or self.actions.get(kind)) for id in cause.helps
        ]
        looked_into = own if group == "data" else ()  # what was lost, before anything is tuned
        order = [*looked_into, *(id for id in named if id in own), *named, *own]
        return tuple(
            self.remedies[id] for id in dict.fromkeys(order) if group is None or group in self.remedies[id].groups
        )


def group_of(metric: str) -> str | None:
    """Which kind of finding a metric is; None when it is not known, and then every remedy may help."""
    return catalogue.group_of(metric) or _OTHERS.get(metric.partition(".")[0])


def _of_checks() -> dict[str, Meaning]:
    """What each check of ours says in its own file; ``meanings.yaml`` has what no check is of."""
    return {check.metric: Meaning(check.metric, check.meaning, "", check.helps) for check in catalogue.ours()}


@cache
def meanings() -> Meanings:
    """The file, read once."""
    data: dict[str, Any] = YAML(typ="safe").load(FILE)

    def listed(part: str) -> dict[str, Meaning]:
        return {
            str(id): Meaning(str(id), item["means"].strip(), item.get("shows", "").strip(), tuple(item["helps"]))
            for id, item in data[part].items()
        }

    return Meanings(
        remedies={
            id: Remedy(
                id,
                item["title"],
                tuple(item["for"]),
                {name: str(value) for name, value in item["settings"].items()},
                item["does"].strip(),
                item["price"].strip(),
            )
            for id, item in data["remedies"].items()
        },
        metrics={**_of_checks(), **listed("metrics")},
        actions=listed("actions"),
        faults=listed("faults"),
    )


# -- docs/findings.md -----------------------------------------------------------------------------


def markdown() -> str:
    """The content of docs/findings.md."""
    return "\n".join(_page(meanings())) + "\n"


def _page(all_: Meanings) -> Iterator[str]:
    yield "# What findings mean, and what helps"
    yield ""
    yield f"Made by `{COMMAND}` from `chaos/checks` and `chaos/report/meanings.yaml`; a test fails when it is not"
    yield "current. Defaults and facts are those of OpenSearch 3.8.0. A remedy has a price: measure it in your own lab"
    yield "before you take it."
    for title, part in (
        ("Metrics", all_.metrics),
        ("Kinds of fault", all_.faults),
        ("Actions", all_.actions),
    ):
        yield ""
        yield f"## {title}"
        for meaning in part.values():
            yield ""
            yield f"### {meaning.id}"
            yield ""
            yield meaning.means + (f" {meaning.shows}" if meaning.shows else "")
            yield ""
            links = [f"[{all_.remedies[id].title}](#{_anchor(all_.remedies[id].title)})" for id in meaning.helps]
            yield f"Usually helps: {', '.join(links)}."
    yield ""
    yield "## What helps, and its price"
    for remedy in all_.remedies.values():
        yield ""
        yield f"### {remedy.title}"
        yield ""
        yield remedy.does
        yield ""
        yield f"*Price:* {remedy.price}"
        yield ""
        for name, value in remedy.settings.items():
            yield f"- `{name}`: {value}"
        yield ""
        yield f"For {', '.join(remedy.groups)}."


def _anchor(title: str) -> str:
    """The anchor that GitHub gives a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")
