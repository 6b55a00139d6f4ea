"""All instruments: the ``INSTRUMENT`` of each file in ``chaos/instruments``, then those of other packages.

A file that is put there, or that another package names as an entry point of ``opensearch_chaos.instruments``, takes
part in every run, in every judgement and in every report. One that is not there is missed by nobody: no module of ours
imports one (a contract of import-linter says so).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

from chaos.base import plugins
from chaos.base.errors import InvalidInput
from chaos.checks.check import Check
from chaos.checks.instrument import Instrument
from chaos.checks.record import Record

FOLDER = "chaos.instruments"
FILE = Path(__file__).parents[2] / "docs" / "instruments.md"
COMMAND = "python -m chaos.registry"


@functools.cache
def every() -> tuple[Instrument, ...]:
    """In the order in which they begin. Raises InvalidInput for what a package brings and that is none, or is twice."""
    ours = plugins.modules(importlib.import_module(FOLDER))
    found: list[Instrument] = [module.INSTRUMENT for module in ours]
    for name, brought in plugins.brought("instruments"):
        if not isinstance(brought, Instrument):
            raise InvalidInput(
                f"'{name}' brings {brought!r}, which is no instrument",
                remedy="name an instance of chaos.checks.instrument.Instrument",
            )
        found.append(brought)
    plugins.refuse_twice("instruments", (each.name for each in found))
    plugins.refuse_twice("instruments with a file", (each.file for each in found if each.file is not None))
    return tuple(sorted(found, key=lambda each: each.order))


def checks() -> Iterator[Check]:
    """What instruments let expectations ask."""
    return (check for each in every() for check in each.checks)


def check_of(metric: str) -> Check | None:
    """The check of a metric that is in no list; None: no instrument has one."""
    made = (each.check_of(metric) for each in every() if each.check_of is not None)
    return next((check for check in made if check is not None), None)


def harm(record: Record) -> list[tuple[int, str]]:
    """When instruments saw something broken for users (ns), in words."""
    return [item for each in every() if each.harm is not None for item in each.harm(record)]


def markdown() -> str:
    """docs/instruments.md: every instrument of this folder, from what it says of itself."""
    lines = [
        "# Instruments",
        "",
        f"What is observed while a run lasts. Made by `{COMMAND}`; a test fails when it is not current.",
        "How to write one: [CONTRIBUTING.md](../CONTRIBUTING.md).",
        "",
        "| instrument | what it observes | from | until | in `history/` | answers | metrics |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in every():
        if not each.observe.__module__.startswith(f"{FOLDER}."):
            continue  # another package's
        answers = ", ".join(f"`{name.removesuffix('.')}`" for name in each.answers)
        metrics = ", ".join(f"`{check.metric}`" for check in each.checks)
        file = f"`{each.file}`" if each.file else ""
        lines.append(
            f"| {each.name} | {each.says} | {each.begins.value} | {each.ends.value} | {file} | {answers} | {metrics} |"
        )
    return "\n".join(lines) + "\n"
