"""``fis-endpoint``: what passes for AWS on this machine, in front of a lab."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import out


def fis_endpoint(
    lab: Annotated[str, typer.Argument(help="A lab that is up: opensearch-chaos lab up 3az.")],
    target: Annotated[
        Path | None,
        typer.Option("--target", help="Write the target's file here, such as topologies/existing/local.yaml."),
    ] = None,
    domain: Annotated[
        Path | None,
        typer.Option("--domain", help="Write it here as a domain of Amazon OpenSearch Service (docs/domain.md)."),
    ] = None,
    port: Annotated[int, typer.Option(help="Of loopback; default a free one.", min=0, max=65535)] = 0,
    time_scale: Annotated[
        float, typer.Option("--time-scale", help="By which durations are divided; 1 is as on AWS.", min=1.0)
    ] = 1.0,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", help="A policy of IAM by which calls are denied; default all are allowed."),
    ] = None,
    with_stdin: Annotated[
        bool, typer.Option("--with-stdin", help="End when standard input ends: with whoever started it.")
    ] = False,
) -> None:
    """Stand in for AWS FIS, EC2 and Systems Manager in front of a lab, on loopback, until Ctrl-C.

    It really breaks the lab, and undoes at its end and at its restart. It shows nothing about AWS (docs/fis.md).
    """
    from chaos.fis_endpoint.standing import standing
    from chaos.targets.labs.local import LocalLab

    for each in (target, domain):
        if each is not None and each.suffix != ".yaml":
            raise InvalidInput(f"{each} is no YAML file", remedy="for example topologies/existing/local.yaml")
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with standing(LocalLab.attach(lab), port=port, time_scale=time_scale, policy=policy) as there:
        if domain is not None:
            _write(domain, there.domain_target(domain.stem))
        if target is not None:
            _write(target, there.target(target.stem))
        out.print(f"fis-endpoint: {there.url}, durations divided by {time_scale:g}; the lab is {lab}", markup=False)
        out.print("it is no AWS, and shows nothing about AWS", markup=False)
        for each in (target, domain):
            if each is not None:
                out.print(f"target: {each}", markup=False)
        if with_stdin:
            threading.Thread(target=_await_end, args=(over,), daemon=True).start()
        over.wait()
    out.print("fis-endpoint: ended, and all is undone", markup=False)


def _write(file: Path, said: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}: {json.dumps(value)}" for key, value in said.items()]
    file.write_text("# written by opensearch-chaos fis-endpoint\n" + "\n".join(lines) + "\n")


def _await_end(over: threading.Event) -> None:
    while os.read(0, 4096):
        continue
    over.set()
