"""Runs whose phases a Python test makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.base.console import Reporter
from chaos.base.errors import InvalidInput
from chaos.base.operations import USUAL
from chaos.base.units import positive
from chaos.definitions import Client, Duration, Experiment, Load, Operation, Rate
from chaos.definitions import objectives as overriding
from chaos.definitions.expectations import Expectation
from chaos.faults.offers import Providers
from chaos.run import space, spec
from chaos.run.execution import Execution
from chaos.run.spec import On, RunSpec
from chaos.targets.labs.base import BaseLab


def python_execution(
    *,
    name: str,
    lab: BaseLab,
    out: Path,
    rates: Mapping[str, str | None],
    good: str,
    client: Mapping[str, Any],
    seed: int,
    file: Path,
    reporter: Reporter,
    providers: Providers,
    expect: tuple[Expectation, ...] = (),
    objectives: tuple[Mapping[str, Duration], str] = ({}, overriding.OPTION),
) -> Execution:
    """A run on ``lab`` whose phases a Python test makes. ``rates``: operation → ``100/s`` or None for none.

    ``expect``: what is expected of the whole run beside what the test asserts. ``objectives``: those that replace
    ``good``, and the option that gave them.
    Raises InvalidInput for a wrong rate, duration or client, or an objective for what there is none of.
    """
    try:
        operations = tuple(
            Operation(
                name=kind.name,
                rate=positive(Rate.parse(rate)),
                good_within=Duration.parse(good),
                operation=kind.usual,
                writes=kind.writes,
            )
            for kind in USUAL
            if (rate := rates.get(kind.name)) is not None
        )
        load = Load(operations=operations, client=Client.model_validate(dict(client)))
    except ValueError as error:
        raise InvalidInput(f"load: {error}") from None
    for operation in operations:
        if (late := load.client.unseen(operation.good_within, operation)) is not None:
            raise InvalidInput(f"load: {late}")
    experiment = Experiment(
        name=re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"),
        seed=seed,
        file=file,
        topology=lab.topology,
        load=load,
        phases=(),
        expect=expect,
    )
    given, option = objectives
    experiment = overriding.override(experiment, given, option)
    command = [f"pytest -m chaos {file.name}::{name}", *(f"{option}={each}" for each in overriding.options(experiment))]
    experiment = experiment.model_copy(update={"good_in_file": {}})  # the test states none that would be replaced
    space.refuse_scarce(space.wanted([experiment], out, own_lab=False))
    run = RunSpec(experiment, seed, On(lab.kind), command_given=" ".join(command))
    return spec.in_python(run, out=out, providers=providers, reporter=reporter, lab=lab)
