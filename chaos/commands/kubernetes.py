"""``kubernetes``: what a user must be allowed, for a target and the experiments that are to run there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import InvalidInput
from chaos.commands.common import Definitions

if TYPE_CHECKING:
    from chaos.definitions.existing import Existing
    from chaos.definitions.experiment import Experiment
    from chaos.kubernetes.rights import Right

On = Annotated[Path, typer.Option("--on", help="The target's file, such as topologies/existing/staging.yaml.")]


def kubernetes_policy(
    experiments: Definitions,
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
    from chaos.registry import load_experiment

    target = load_existing(on)
    pods = target.written.kubernetes
    if pods is None:
        raise InvalidInput(f"{target.file} says nothing of Kubernetes", remedy="see: init --from-kubernetes")
    needed = needed_by(target, [load_experiment(path) for path in experiments])
    yaml = YAML()
    yaml.explicit_start = True
    print(f"# for {whom(pods.namespace, subject)}")
    for each in needed:
        print(f"# {each.says}: {each.why}")
    for item in rights.manifests(pods.namespace, needed, subject):
        yaml.dump(json.loads(json.dumps(item)), sys.stdout)


def whom(namespace: str, subject: str) -> str:
    """Who gets the rights, in words; of a service account also how it is made, for a binding needs none to be there."""
    if subject.startswith("user:"):
        return f"the user {subject.removeprefix('user:')}"
    made = f"kubectl --namespace {namespace} create serviceaccount {subject}"
    return f"the service account {subject} of namespace {namespace} ({made})"


def needed_by(target: Existing, experiments: Iterable[Experiment]) -> list[Right]:
    """What these experiments need of the target's Kubernetes, each right once; nothing where it is in none."""
    from chaos.kubernetes import rights
    from chaos.registry import PROVIDERS
    from chaos.run import on_target, reaching

    pods = target.written.kubernetes
    if pods is None:
        return []
    offers = reaching.offers_on(PROVIDERS, target.written)
    kinds = {kind for each in experiments for kind in on_target.of_pods(each, offers)}
    return rights.needed(pods.namespace, kinds, forward=pods.forward is not None)


COMMANDS: dict[str, Callable[..., None]] = {"policy": kubernetes_policy}
