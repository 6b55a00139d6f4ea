"""``kubernetes``: what a user must be allowed, for a target and the experiments that are to run there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from chaos.base.errors import InvalidInput

On = Annotated[Path, typer.Option("--on", help="The target's file, such as topologies/existing/staging.yaml.")]


def kubernetes_policy(
    experiments: Annotated[list[Path], typer.Argument(help="Experiments that are to run there.")],
    on: On,
    subject: Annotated[
        str, typer.Option(help="Who gets it: a service account of the namespace, or user:NAME.")
    ] = "opensearch-chaos",
) -> None:
    """Print the least that these experiments need of Kubernetes: Role, ClusterRole and bindings, for kubectl apply.

    Sends no request. A run is refused before it starts where a rule of it is missing.
    """
    from ruamel.yaml import YAML

    from chaos.definitions.existing import load_existing
    from chaos.kubernetes import rights
    from chaos.registry import PROVIDERS, load_experiment
    from chaos.run import on_target, reaching

    target = load_existing(on)
    pods = target.written.kubernetes
    if pods is None:
        raise InvalidInput(f"{target.file} says nothing of Kubernetes", remedy="see: init --from-kubernetes")
    offers = reaching.offers_on(PROVIDERS, target.written)
    kinds = {kind for path in experiments for kind in on_target.of_pods(load_experiment(path), offers)}
    needed = rights.needed(pods.namespace, kinds, forward=pods.forward is not None)
    yaml = YAML()
    yaml.explicit_start = True
    for each in needed:
        print(f"# {each.says}: {each.why}")
    for item in rights.manifests(pods.namespace, needed, subject):
        yaml.dump(json.loads(json.dumps(item)), sys.stdout)


COMMANDS: dict[str, Callable[..., None]] = {"policy": kubernetes_policy}
