"""A case as a report that can be filed as it is, and the page of all of them. Both are made of files and records alone.

Nothing of this suite is in a report but the shell lines: a maintainer needs OpenSearch, bash and curl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.definitions.selectors import client_host, variable
from chaos.definitions.upstream import DECIDES_NOTHING, KEPT, NEW, REPRODUCED, Case, StepFile

Record = Mapping[str, Any]
MOST_LINES = 12
"""Of what one step printed."""
MOST_COLUMNS = 300
RULE_OF_THREE = 3.0
"""Nothing seen in n attempts: at 95 % it is seen in at most 3/n of them (Hanley and Lippman-Hand, JAMA 1983)."""


def counted(case: Case, records: Iterable[Record], version: str, *, control: bool = False) -> tuple[int, int]:
    """How often it was seen, of how many attempts that showed anything; of the steps as they are now."""
    mine = [
        each
        for each in records
        if each["steps_hash"] == case.written.fingerprint
        and each["version"] == version
        and each["control"] == control
        and each.get("outcome") in (REPRODUCED, KEPT)
    ]
    return sum(each["outcome"] == REPRODUCED for each in mine), len(mine)


def how_often(seen: int, tried: int) -> str:
    """k of n in words; where it was never seen with the bound of the rule of three (95 %)."""
    if not tried:
        return "not tried"
    if seen:
        return f"{seen} of {tried}"
    bound = min(1.0, RULE_OF_THREE / tried)
    return f"0 of {tried} (at most {bound:.0%} of attempts, 95 % confidence)"


def state(case: Case, records: Sequence[Record]) -> str:
    """*confirmed*, *not reproduced* or *not run*; confirmed takes two fresh labs of one version."""
    found = [counted(case, records, version) for version in case.written.versions]
    if any(seen >= 2 for seen, _ in found):
        return "confirmed"
    if any(seen for seen, _ in found):
        return "seen once"
    return "not reproduced" if any(tried for _, tried in found) else "not run"


def report(case: Case, records: Sequence[Record]) -> str:
    """The text of an issue, in Markdown."""
    return "\n".join(_report(case, records)).rstrip() + "\n"


def _report(case: Case, records: Sequence[Record]) -> Iterator[str]:
    file = case.written
    best = _best(case, records)
    yield f"# {file.title}"
    yield ""
    yield file.seen
    yield ""
    if file.thread != NEW:
        yield f"Known as: {file.thread}"
        yield ""
    yield "**Versions** (seen, of attempts in fresh clusters)"
    yield ""
    for version in file.versions:
        yield f"* {version}: {how_often(*counted(case, records, version))}"
    yield ""
    yield "## To reproduce"
    yield ""
    yield from _nodes(case)
    yield ""
    yield from _shell(file.steps, variables=True)
    yield ""
    yield "## Expected"
    yield ""
    yield file.expected
    yield ""
    yield f"{file.promise.says} ({file.promise.source})"
    yield ""
    yield "## Seen"
    yield ""
    if best is None:
        yield "Not seen yet."
    else:
        yield f"OpenSearch {best['version']}, {best['seconds']:g} s after the first step:"
        yield ""
        yield from _printed(best["steps"])
        if best.get("log"):
            yield ""
            yield "In a node's log:"
            yield ""
            yield "```"
            yield from best["log"]
            yield "```"
    yield ""
    yield "## Cause"
    yield ""
    yield file.cause
    yield ""
    yield "## Workaround"
    yield ""
    yield file.workaround
    yield ""
    yield f"## The same without it: {file.control.says}"
    yield ""
    seen, tried = _over(case, records, control=True)
    yield from _shell(file.control.steps)
    yield ""
    yield f"Shows what is expected: {tried - seen} of {tried}." if tried else "Not run yet."
    if file.restart:
        yield ""
        yield "## Does it outlive a restart of all nodes?"
        yield ""
        yield {True: "Yes.", False: "No.", None: "Not known."}[best.get("outlives_restart") if best else None]
        yield ""
        yield from _shell(file.restart)


def _over(case: Case, records: Sequence[Record], *, control: bool) -> tuple[int, int]:
    found = [counted(case, records, version, control=control) for version in case.written.versions]
    return sum(seen for seen, _ in found), sum(tried for _, tried in found)


def _best(case: Case, records: Iterable[Record]) -> Record | None:
    """The newest attempt on the newest version that showed it."""
    mine = [
        each
        for each in records
        if each["steps_hash"] == case.written.fingerprint and not each["control"] and each.get("outcome") == REPRODUCED
    ]
    return max(mine, key=lambda each: ([int(n) for n in each["version"].split(".")], each["began"]), default=None)


def _nodes(case: Case) -> Iterator[str]:
    nodes = case.topology.nodes
    if len(nodes) == 1:
        yield f"One node. `${variable(nodes[0].name)}` is its URL, such as `http://127.0.0.1:9200`."
    else:
        yield "Nodes; the variable is a node's URL:"
        yield ""
        for node in nodes:
            own = f", of {node.version}" if case.written.mixed and node.version else ""
            yield f"* `${variable(node.name)}`: {', '.join(node.roles)}{own}"
    if settings := case.topology.settings.node:
        yield ""
        yield "In `opensearch.yml`:"
        yield ""
        yield "```yaml"
        for key, value in settings.items():
            yield f"{key}: {value if not isinstance(value, tuple | list) else ', '.join(map(str, value))}"
        yield "```"
    if said := _store(case):
        yield ""
        yield said


def _store(case: Case) -> str:
    """Where indices are, on remote-backed storage; else nothing."""
    topology = case.topology
    if topology.remote_store is None:
        return ""
    name = topology.remote_store.service
    service = topology.services[name]
    disk = f", on a disk of {service.disk.text} of its own" if service.disk is not None else ""
    state = "Indices and the cluster's state are" if topology.remote_store.state else "Indices are"
    return f"{state} on remote-backed storage: the repository `{name}` of type `{service.kind}`{disk}."


def _shell(steps: Iterable[StepFile], *, variables: bool = False) -> Iterator[str]:
    yield "```sh"
    for step in steps:
        if step.says:
            yield f"# {step.says}"
        action, value = step.action
        if action == "run":
            yield from value.rstrip().splitlines()
        elif action == "wait":
            yield f"sleep {value:g}"
        elif action == "cut":
            yield f"# drop all packets between {value[0]} and {value[1]}, both ways, for example by iptables on both"
        elif action == "start":
            yield f"# start {value} again, and wait until it answers"
        else:
            signal = {"pause": "STOP", "resume": "CONT", "kill": "KILL"}[action]
            yield f"kill -{signal} ${variable(value)}_pid" if value != "all" else f"# kill -{signal} every node"
    yield "```"


def _printed(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    decisive = [step for step in steps if "shows" in step]
    yield "```"
    for number, step in enumerate(decisive):
        if number:
            yield "[...]"
        lines = [line[:MOST_COLUMNS] for line in step["printed"].rstrip().splitlines()]
        if len(lines) > MOST_LINES:
            lines = [*lines[: MOST_LINES // 2], "[...]", *lines[-MOST_LINES // 2 :]]
        yield from lines
    yield "```"


# -- the page ----------------------------------------------------------------------------------------


def page(cases: Sequence[Case], records: Sequence[Record], hunts: Sequence[Hunted] = ()) -> str:
    """docs/upstream.md: a line for each case, what was drawn at random, then the reports."""
    return "\n".join(_page(cases, records, hunts)).rstrip() + "\n"


@dataclass(frozen=True)
class Hunted:
    """What a hunt drew. ``over``: settings or faults; ``command``: what draws so; ``outcomes``: how many of each.

    ``found``: what did not end well, in words, with the name of the case that explains it; None: nothing does.
    """

    over: str
    command: str
    outcomes: Mapping[str, int]
    found: Sequence[tuple[str, str | None]] = ()


def _hunted(hunts: Sequence[Hunted]) -> Iterator[str]:
    yield "## What was drawn at random"
    yield ""
    yield "Some of these cases were found by `opensearch-chaos hunt`. What it drew so far, by its committed journals:"
    for each in hunts:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in each.outcomes.items())
        yield ""
        yield f"* over {each.over} (`{each.command}`): {sum(each.outcomes.values())} draws: {counted}"
        for says, case in each.found:
            why = f"[{case}](#{case})" if case is not None else "not explained"
            yield f"    * {says}: {why}"


def _page(cases: Sequence[Case], records: Sequence[Record], hunts: Sequence[Hunted]) -> Iterator[str]:
    yield "# Bugs of OpenSearch that this suite has shown"
    yield ""
    yield (
        "Made by `opensearch-chaos upstream --page` from `experiments/upstream/` and `reports/results/`. Nothing here "
        "is typed. *k of n*: it was seen in k of n attempts, each in a cluster of its own. *Confirmed* takes two."
    )
    yield ""
    yield "| case | thread | state | " + " | ".join(versions := _versions(cases)) + " | control | outlives a restart |"
    yield "|---|---|---|" + "---|" * (len(versions) + 2)
    for case in cases:
        yield _row(case, records, versions)
    yield ""
    yield "## Try one by hand"
    yield ""
    yield "Three commands give a shell in which the lines of a report work. Paste them one after the other:"
    yield ""
    example = cases[0] if cases else None
    if example is not None:
        topology = example.topology
        yield "```sh"
        yield f"opensearch-chaos lab up {topology.name}"
        yield f"opensearch-chaos lab exec {topology.name} {client_host(topology.zones[0])} -- bash"
        yield "# the lines of a report; then leave the shell"
        yield f"opensearch-chaos lab down {topology.name}"
        yield "```"
        yield ""
    yield "The topology of each case is named in its file. `opensearch-chaos upstream NAME --run` does all of it."
    if hunts:
        yield ""
        yield from _hunted(hunts)
    for case in cases:
        yield ""
        yield "---"
        yield ""
        yield f'<a id="{case.written.name}"></a>'
        yield ""
        shell = False
        for line in report(case, records).splitlines():
            shell ^= line.startswith("```")
            yield f"#{line}" if line.startswith("#") and not shell else line
        yield ""


def _versions(cases: Iterable[Case]) -> list[str]:
    every = {version for case in cases for version in case.written.versions}
    return sorted(every, key=lambda text: [int(part) for part in text.split(".")])


def _row(case: Case, records: Sequence[Record], versions: Sequence[str]) -> str:
    file = case.written
    thread = "new" if file.thread == NEW else f"[{file.thread.rsplit('/', 1)[-1]}]({file.thread})"
    cells = [f"[{file.name}](#{file.name})", thread, state(case, records)]
    for version in versions:
        if version not in file.reproduces:
            cells.append("")
            continue
        seen, tried = counted(case, records, version)
        more = ", decides nothing" if file.reproduces[version] == DECIDES_NOTHING else ""
        cells.append(f"{seen} of {tried}{more}" if tried else "not tried")
    seen, tried = _over(case, records, control=True)
    cells.append(f"well, {tried - seen} of {tried}" if tried else "not run")
    best = _best(case, records)
    outlives = best.get("outlives_restart") if best else None
    cells.append({True: "yes", False: "no", None: "" if not file.restart else "not known"}[outlives])
    return f"| {' | '.join(cells)} |"
