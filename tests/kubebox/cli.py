"""The commands of a box."""

from __future__ import annotations

import argparse
import json
import sys

from chaos.base.errors import ChaosError, Exit
from kubebox import manifests

NAME = "staging"


def main(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    try:
        return int(given.does(given) or 0)
    except ChaosError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(Exit.ABORTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tests/kubebox", description="A Kubernetes cluster in a box, with OpenSearch on it; needs root."
    )
    parser.add_argument("--name", default=NAME, help=f"of the box; default {NAME}. One can be up at a time")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="bring it up; nothing to do where it is up")
    up.add_argument("--searches", type=float, default=10.0, help="of the application, per second; default 10")
    up.add_argument("--writes", type=float, default=5.0, help="of the application, per second; default 5")
    up.add_argument("--liveness", metavar="PATH", help="have kubelets ask nodes for it and end those whose answer is "
                    "not well, for example '/_cluster/health?wait_for_status=green&timeout=1s'; default: as the chart "
                    "has it, none")  # fmt: skip
    up.add_argument("--startup", metavar="PATH", help="have kubelets take a node for started once this answers well, "
                    "for example '/_cluster/health?wait_for_status=green&timeout=1s', so that rollouts wait for it; "
                    "default: once its port is open")  # fmt: skip
    up.add_argument("--management", choices=(manifests.PARALLEL, manifests.ORDERED), default=manifests.PARALLEL,
                    help="how a StatefulSet makes the pods of data nodes: all at once, or each once the one before is "
                    "ready; default: all at once, as the chart has it")  # fmt: skip
    up.add_argument("--zonal", action="store_true", help="give each zone a StatefulSet of two data nodes of its own "
                    "(9 GiB of free memory); default: one of three data nodes for all zones")  # fmt: skip
    up.set_defaults(does=_up)
    for name, does, message in (
        ("down", _down, "take all of it away"),
        ("kubeconfig", _kubeconfig, "print the path of its kubeconfig"),
        ("parts", _parts, "build and unpack what it consists of, and start nothing"),
        ("counts", _counts, "print what the application and the neighbours have counted, as JSON"),
    ):
        commands.add_parser(name, help=message).set_defaults(does=does)
    sample = commands.add_parser("sample", help="run a few of its tests in a box of their own, as CI does: exit code "
                                 "69 where they are left out, and one line says why")  # fmt: skip
    sample.add_argument("--passed", type=float, default=0.0, metavar="SECONDS", help="since CI began; default 0")
    sample.set_defaults(does=_sample)
    return parser


def _up(given: argparse.Namespace) -> None:
    from chaos.base.console import Reporter
    from kubebox.making import Box

    options = manifests.Options(given.liveness, given.startup, given.management, given.zonal)
    reporter = Reporter()
    box = Box(given.name)
    try:
        new = box.up(reporter, searches=given.searches, writes=given.writes, options=options)
    finally:
        reporter.close()
    away = "make staging-kubernetes-down" if given.name == NAME else f"python tests/kubebox --name {given.name} down"
    print(f"box '{given.name}' is {'up' if new else 'up already'}: {box.layout.kubeconfig}")
    print(
        f"""
Try:
  export KUBECONFIG={box.layout.kubeconfig}
  kubectl get nodes --label-columns topology.kubernetes.io/zone
  kubectl --namespace search get pods,poddisruptionbudgets --output wide
Take it away: {away}"""
    )


def _down(given: argparse.Namespace) -> int:
    from chaos.targets.labs.network import require_root
    from kubebox.making import Box

    require_root()
    box = Box(given.name)
    if not box.is_left():
        print(f"there is no box '{given.name}'")
        return 0
    problems = box.down()
    for problem in problems:
        print(f"could not: {problem}")
    if problems:
        return int(Exit.DIRTY)
    print(f"box '{given.name}' is gone")
    return 0


def _kubeconfig(given: argparse.Namespace) -> None:
    from kubebox.making import Box

    box = Box(given.name)
    box.api()
    print(box.layout.kubeconfig)


def _parts(given: argparse.Namespace) -> None:
    from kubebox import parts

    made = parts.ensure(lambda line: print(line, flush=True))
    for name, path in sorted(made.programs.items()):
        print(f"{name}: {path}")


def _sample(given: argparse.Namespace) -> int:
    from kubebox import sample

    return sample.run(given.passed)


def _counts(given: argparse.Namespace) -> None:
    from kubebox import making

    api = making.Box(given.name).api()
    found = {space: making.counts(api, space) for space in (manifests.SHOP, manifests.OTHERS)}
    print(json.dumps(found, indent=1, sort_keys=True))
