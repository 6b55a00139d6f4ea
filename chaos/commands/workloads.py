"""``workload``: what documents and searches a load consists of, and what can be verified of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.load.workload import Workload

EXAMPLE = 7
"""The arrival whose document and requests are shown."""
COSTED = 3000
"""Documents that are made to say what one costs."""
DEAR_US = 20.0
"""A document above this costs a driver more than it should, in microseconds."""

AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def workload_check(
    given: Annotated[str, typer.Argument(help="A workload's file, or the name of one.", metavar="FILE")],
    as_json: AsJson = False,
) -> None:
    """Check a workload: what its documents are, what they cost, and what can be verified. It starts nothing."""
    found = checked(given)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for line in said(found):
        out.print(line, markup=False)


def workload_list(
    as_json: AsJson = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="As the table of docs/workloads.md.")] = False,
) -> None:
    """List the workloads that an experiment can name."""
    from chaos.load import workloads

    if as_markdown:
        print("\n".join(table()))
        return
    found = {name: each.says for name, each in workloads.every().items()}
    if as_json:
        print(json.dumps(found, indent=1))
        return
    width = max(map(len, found))
    for name, says in found.items():
        out.print(f"{name:{width}}  {says}", markup=False)


def table() -> list[str]:
    """Those that are written in YAML, as a table in Markdown."""
    from chaos.definitions.loading import load_workload
    from chaos.load import workloads

    lines = ["| workload | documents | searches, share of each | like |", "|---|---|---|---|"]
    for name, path in workloads.FILES.items():
        definition, workload = load_workload(path), workloads.named(name)
        total = sum(definition.mix.values())
        mix = "<br>".join(
            f"`{query}` {definition.mix[query] / total:.0%}: {each.description}"
            for query, each in definition.queries.items()
        )
        index = "".join(f", `{key}: {value}`" for key, value in definition.settings.items())
        documents = f"{len(definition.fields)} fields, {workload.size / 1024:.1f} KiB{index}"
        lines.append(f"| `{name}` | {documents} | {mix} | {'<br>'.join(definition.sources)} |")
    return lines


def checked(given: str) -> dict[str, Any]:
    """What is to be said of a workload, as data. Raises InvalidInput for one that cannot be."""
    from chaos.load.dataset import Dataset

    workload = _of(given)
    workload.refuse_unfit()
    requests = workload.requests("INDEX", 1)
    found: dict[str, Any] = {
        "workload": workload.name,
        "description": workload.says,
        "settings": dict(workload.settings),
        "document": json.loads(workload.body(f"w-{EXAMPLE}")),
        "bytes": workload.size,
        "microseconds": round(_cost_us(workload), 1),
        "verified": _verified(workload),
        "not_verified": _not_verified(workload),
        "queries": [],
        "notes": [],
    }
    if isinstance(workload, Dataset):
        made = workload.requests("INDEX", 1)
        total = sum(weight for _, weight in made.mix)
        found["notes"] = list(workload.definition.notes)
        found["queries"] = [
            {
                "name": query.name,
                "share": weight / total,
                "judged": query.judged,
                "example": json.loads(query.example(EXAMPLE)),
            }
            for query, weight in made.mix
        ]
    else:
        kinds = {kind: answer for each in workload.operations for kind, answer in each.requests.items()}
        found["queries"] = [
            {
                "name": kind,
                "share": None,
                "judged": f"as the answer to a {answer}",
                "example": requests.of(kind, EXAMPLE).path,
            }
            for kind, answer in kinds.items()
        ]
    return found


def _of(given: str) -> Workload:
    from chaos.definitions.loading import SUFFIXES, load_workload
    from chaos.load import workloads
    from chaos.load.dataset import Dataset

    if given.endswith(SUFFIXES) or Path(given).is_file():
        return Dataset(load_workload(given))
    if given not in workloads.declared():
        raise InvalidInput(
            f"there is no workload '{given}'",
            remedy=f"name a file (x.yaml), or one of: {', '.join(workloads.declared())}",
        )
    return workloads.named(given)


def _cost_us(workload: Workload) -> float:
    import time

    began = time.process_time()
    for n in range(COSTED):
        workload.body(f"w-{n}")
    return (time.process_time() - began) / COSTED * 1e6


def _verified(workload: Workload) -> list[str]:
    fields = " and ".join(workload.fields) if len(workload.fields) < 3 else ", ".join(workload.fields)
    words = [f"by which words of {workload.text} it is found"] if workload.text is not None else []
    return [
        "its id, on every copy of its shard",
        f"doc values of {fields}, and that it is found by them",
        "its whole source, field by field",
        *words,
    ]


def _not_verified(workload: Workload) -> list[str]:
    if workload.text is not None:
        return []
    return [
        f"doc values of other fields than {' and '.join(workload.fields)}",
        "by which values of other fields, and by which words of texts, it is found (the inverted index)",
    ]


def said(found: dict[str, Any]) -> list[str]:
    """The same for people."""
    lines = [found["workload"] + (f": {found['description']}" if found["description"] else "")]
    dear = " (a driver on one core wants 20 or less)" if found["microseconds"] > DEAR_US else ""
    lines += [
        "",
        f"a document has {found['bytes']} bytes and takes {found['microseconds']:g} µs to make{dear}, for example",
    ]
    lines += json.dumps(found["document"], indent=2, ensure_ascii=False).splitlines()
    if found["settings"]:
        lines += ["", "its index, where the topology says nothing else:"]
        lines += [f"  {key}: {json.dumps(value)}" for key, value in found["settings"].items()]
    lines += ["", "of each acknowledged document the read-back compares:"]
    lines += [f"  {each}" for each in found["verified"]]
    if found["not_verified"]:
        lines += ["it does not compare:"]
        lines += [f"  {each}" for each in found["not_verified"]]
    lines += ["", "requests:" if found["queries"] else "no queries: a read of it can only get documents by id"]
    for query in found["queries"]:
        share = "" if query["share"] is None else f", {query['share']:.1%} of searches"
        lines.append(f"  {query['name']}{share}: {query['judged']}")
        example = query["example"]
        lines.append(f"    {example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)}")
    lines += [f"note: {each}" for each in found["notes"]]
    return lines
