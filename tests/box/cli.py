"""The commands of a box."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from chaos.base.access import Access
from chaos.base.errors import ChaosError, Exit

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
    parser = argparse.ArgumentParser(prog="python tests/box", description="A staging cluster in a box; needs root.")
    parser.add_argument("--name", default=NAME, help="of the box; default staging")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, does: object, says: str | None = None) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=says) if says else commands.add_parser(name)
        made.set_defaults(does=does)
        return made

    up = command("up", _up, "bring it up; nothing to do where it is there")
    up.add_argument("--topology", type=Path, help="a secured topology's file instead of the box's own")
    up.add_argument("--searches", type=float, default=20.0, help="of others, per second; default 20")
    up.add_argument("--writes", type=float, default=10.0, help="of others, per second; default 10")
    up.add_argument(
        "--systemd", metavar="NODE", action="append", default=[], help="its host has a systemd that starts it"
    )
    command("down", _down, "take all of it away")
    command("file", _file, "print the path of the target's file")
    inside = command("exec", _exec, "run a command in an office: exec -- opensearch-chaos target check FILE")
    inside.add_argument("--office", type=int, default=1, help="which one; default 1")
    inside.add_argument("command", nargs="+", metavar="-- COMMAND")
    there = command("host", _host, "run a command as root in a node's host: host NODE -- ss -tn")
    there.add_argument("host", metavar="NODE", help="or client-ZONE")
    there.add_argument("command", nargs="+", metavar="-- COMMAND")
    for name, says in (("cut", "cut an office off the network"), ("mend", "join it again")):
        command(name, _link, says).add_argument("--office", type=int, default=1, help="which one; default 1")
        commands.choices[name].set_defaults(up=name == "mend")
    command("picture", _picture, "print what is on the cluster and is no run's, as JSON")
    compare = command("compare", _compare, "say in what the cluster differs from a picture; exit code 1 where it does")
    compare.add_argument("before", type=Path, metavar="PICTURE")
    command("lost", _lost, "name acknowledged writes of others that are not there; exit code 1 where there are some")
    for name, does, says in (
        ("swap", _swap, "have a node's URL lead to another cluster, which takes whatever it is asked to do"),
        ("unswap", _unswap, "have it lead to the node again"),
    ):
        command(name, does, says).add_argument("node")
    command("swapped", _swapped, "print what such clusters were asked to do: no line for a question")
    relay = command("_relay", _relay)
    traffic = command("_traffic", _traffic)
    impostor = command("_impostor", _impostor)
    command("_host", _become).add_argument("file", type=Path)
    beside = command("_team", _team)
    for name in ("office", "traffic", "chat", "owner"):
        beside.add_argument(name)
    for name in ("office", "ways"):
        relay.add_argument(name)
    for name in ("zone", "searches", "writes", "access", "log"):
        traffic.add_argument(name)
    for name in ("host", "node", "version", "certificates", "log"):
        impostor.add_argument(name)
    return parser


def _box(given: argparse.Namespace):  # type: ignore[no-untyped-def]
    from box.making import Box
    from chaos.targets.labs.network import require_root

    require_root()
    box = Box(given.name)
    box.mine()
    return box


def _up(given: argparse.Namespace) -> None:
    from box.making import TOPOLOGY
    from chaos.base.console import Reporter

    reporter = Reporter()
    box = _box(given)
    try:
        topology = given.topology or TOPOLOGY
        rates = {"searches": given.searches, "writes": given.writes}
        new = box.up(reporter, topology=topology, systemd=given.systemd, **rates)
    finally:
        reporter.close()
    inside = f"{sys.executable} {Path(__file__).parent} " + ("" if given.name == NAME else f"--name {given.name} ")
    chaos, file = f"{inside}exec -- opensearch-chaos", box.file.relative_to(box.home(1))
    print(f"box '{given.name}' is {'up' if new else 'up already'}: {box.file}")
    print(
        f"""
Try, in an office of it, where nothing but its URLs is reached:
  {chaos} target check {file}
  {chaos} plan experiments/zone-out.yaml --on {file}
  {chaos} run experiments/zone-out.yaml --on {file}
Go in: {inside}exec -- bash     Take it away: {"make staging-down" if given.name == NAME else inside + "down"}"""
    )


def _down(given: argparse.Namespace) -> int:
    box = _box(given)
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


def _file(given: argparse.Namespace) -> None:
    print(_box(given).file)


def _exec(given: argparse.Namespace) -> None:
    from box import office

    box = _box(given)
    space = box.space(given.office)
    box.lab().instrument(os.getpid())  # an office is a machine of its own: nodes must take no time from it
    office.enter(space, given.office, box.home(given.office), office.hidden(box.folder), given.command)


def _host(given: argparse.Namespace) -> None:
    from box import host

    box = _box(given)
    sshd = box.sshd(given.host)
    box.lab().instrument(os.getpid())  # as its sshd is
    host.enter(sshd.pid, given.command)


def _link(given: argparse.Namespace) -> None:
    from box import office

    office.link(_box(given).space(given.office), up=given.up)


def _picture(given: argparse.Namespace) -> None:
    from box import plan, witness

    print(json.dumps(witness.picture(_box(given).lab(), plan.NOTES), indent=1, sort_keys=True))


def _compare(given: argparse.Namespace) -> int:
    from box import plan, witness

    now = json.loads(json.dumps(witness.picture(_box(given).lab(), plan.NOTES)))
    found = witness.differences(json.loads(given.before.read_text()), now)
    for each in found:
        print(each)
    return int(bool(found))


def _lost(given: argparse.Namespace) -> int:
    from box import plan, traffic, witness

    box = _box(given)
    acknowledged = traffic.acknowledged(traffic.lines(box.traffic))
    found = witness.lost(box.lab(), plan.ORDERS, acknowledged)
    print(f"{len(found)} of {len(acknowledged)} orders are not as acknowledged")
    for each in list(found)[:20]:
        print(each)
    return int(bool(found))


def _swap(given: argparse.Namespace) -> None:
    _box(given).swap(given.node)


def _unswap(given: argparse.Namespace) -> None:
    _box(given).unswap(given.node)


def _swapped(given: argparse.Namespace) -> int:
    from box import impostor

    done = [(method, path) for method, path in impostor.asked(_box(given).swapped) if method not in ("GET", "HEAD")]
    for method, path in done:
        print(f"{method} {path}")
    return int(bool(done))


def _impostor(given: argparse.Namespace) -> None:
    from box.impostor import impostor

    impostor(given.host, given.node, given.version, Path(given.certificates), Path(given.log))


def _relay(given: argparse.Namespace) -> None:
    from box.relay import relay

    relay(Path(given.office), Path(given.ways))


def _become(given: argparse.Namespace) -> None:
    from box import host

    host.become(given.file)


def _team(given: argparse.Namespace) -> None:
    from box.team import team

    team(Path(given.office), Path(given.traffic), Path(given.chat), int(given.owner))


def _traffic(given: argparse.Namespace) -> None:
    from box.traffic import traffic

    access = Access.from_json(json.loads(given.access))
    traffic(given.zone, float(given.searches), float(given.writes), access, Path(given.log))
