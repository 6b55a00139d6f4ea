"""``opensearch-chaos failover``: the zonal failover controller as a program of its own."""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.access import Whose
from chaos.base.errors import InvalidInput
from chaos.base.units import Duration, Malformed
from chaos.commands.access import (
    Authority,
    Certificate,
    Insecure,
    Key,
    Password,
    Profile,
    Region,
    TlsName,
    User,
    reached,
)
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.opensearch.cluster import Zoning


def _seconds(value: str, option: str) -> float:
    try:
        return float(Duration.parse(value))
    except Malformed as error:
        raise InvalidInput(f"{option}: {error.message}", remedy="for example 2s") from error


def _mapping(given: list[str]) -> dict[str, str]:
    found = {}
    for each in given:
        name, equals, address = each.partition("=")
        if not equals or not name or not address.rpartition(":")[2].isdigit():
            raise InvalidInput(f"--at {each}: expected NODE=HOST:PORT", remedy="for example --at a-data=10.0.0.1:9200")
        found[name] = address
    return found


def _zoning(attribute: str, given: list[str]) -> Zoning:
    """How zones are called. Raises InvalidInput where two would be called alike."""
    from chaos.opensearch.cluster import Zoning

    called: dict[str, str] = {}
    for each in given:
        zone, equals, value = each.partition("=")
        if not equals or not zone or not value:
            raise InvalidInput(
                f"--zone-name {each}: expected ZONE=VALUE", remedy="for example --zone-name a=eu-west-1a"
            )
        if zone in called or value in called.values():
            raise InvalidInput(f"--zone-name {each}: that zone has a name already", remedy="name each zone once")
        called[zone] = value
    return Zoning(attribute, called)


def listen_until(descriptor: int, ends: Callable[[], None], silence: float | None) -> None:
    """Returns once what is read there has ended, or has said nothing for so many seconds (None: however long), with
    ``ends`` called."""
    while True:
        ready, _, _ = select.select([descriptor], [], [], silence)
        if not ready or not os.read(descriptor, 4096):
            ends()
            return


def failover(
    urls: Annotated[list[str], typer.Argument(help="Nodes to learn the others from.", metavar="URL...")],
    act: Annotated[bool, typer.Option("--act", help="Change the cluster; without it, only say what would be.")] = False,
    canaries: Annotated[
        bool, typer.Option("--canaries", help="Make and write canary indices; --act does. Without, less is seen.")
    ] = False,
    zone_attribute: Annotated[str, typer.Option(help="The node attribute that names the zone.")] = "zone",
    zone_name: Annotated[
        list[str] | None,
        typer.Option(help="ZONE=VALUE: how you call a zone whose nodes have this value; default by the value."),
    ] = None,
    standby: Annotated[str | None, typer.Option(help="The standby zone, where no weights are set yet.")] = None,
    read_after: Annotated[str, typer.Option(help="Evidence against a zone until reads leave it.")] = "2s",
    write_after: Annotated[str, typer.Option(help="Evidence until it is decommissioned.")] = "4s",
    cool_down: Annotated[str, typer.Option(help="Between two swaps of the zones' roles.")] = "60s",
    return_after: Annotated[str, typer.Option(help="Good answers until a zone is taken in again.")] = "30s",
    rotate_every: Annotated[str | None, typer.Option(help="Rotate the roles so often; default never.")] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner", help="Mark canary indices with this, and use none that have not got it."),
    ] = None,
    lead_from_standby: Annotated[
        bool, typer.Option("--lead-from-standby", help="Keep the elected cluster manager in the standby zone.")
    ] = False,
    late: Annotated[str, typer.Option(help="An answer that takes longer is a bad sign.")] = "250ms",
    listen: Annotated[str, typer.Option(help="Where GET /nodes, GET /status and POST /rotate are served.")] = (
        "127.0.0.1:9280"
    ),
    events: Annotated[
        Path, typer.Option(help="What was seen, decided and done, as JSON lines; kept over restarts.")
    ] = (Path("failover.jsonl")),
    name: Annotated[str | None, typer.Option(help="Of this controller; default the machine's name.")] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="NODE=HOST:PORT where a node is not reached where it publishes.")
    ] = None,
    user: User = None,
    password: Password = None,
    ca: Authority = None,
    tls_name: TlsName = None,
    insecure: Insecure = False,
    certificate: Certificate = None,
    key: Key = None,
    sigv4: Region = None,
    aws_profile: Profile = None,
    cluster_uuid: Annotated[
        str | None, typer.Option(help="The only cluster that is spoken to, by its UUID …", show_default=False)
    ] = None,
    cluster_name: Annotated[str | None, typer.Option(help="… and by its name.", show_default=False)] = None,
    until_eof: Annotated[bool, typer.Option("--until-eof", help="End when standard input does.")] = False,
    until_silent: Annotated[
        str | None, typer.Option(help="End when standard input does, or says nothing for so long.", show_default=False)
    ] = None,
) -> None:
    """Keep two zones active and one standby, and lead reads and writes away from a zone that is bad.

    Speaks to OpenSearch's REST API only. Recommends only, unless --act is given.
    """
    from chaos.programs.failover.controller import FailoverController
    from chaos.programs.failover.decide import Policy
    from chaos.programs.failover.rest import Api, discover
    from chaos.programs.failover.steering import serve
    from chaos.programs.failover.watch import Pace

    options: dict[str, Any] = {"user": user, "password": password, "ca": ca, "insecure": insecure}
    options |= {
        "tls_name": tls_name,
        "certificate": certificate,
        "key": key,
        "sigv4": sigv4,
        "aws_profile": aws_profile,
    }
    nodes_at = [reached(url, **options) for url in urls]
    addresses, access = (
        [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port, _ in nodes_at],
        nodes_at[0][2],
    )
    if any(each[2] != access for each in nodes_at):
        raise InvalidInput("some URLs are http and others https", remedy="name all nodes alike")
    if (cluster_uuid is None) != (cluster_name is None):
        raise InvalidInput(
            "--cluster-uuid and --cluster-name belong together",
            remedy="give both, as GET / says them: a copied machine keeps its UUID",
        )
    if cluster_uuid is not None and cluster_name is not None:
        access = replace(access, whose=Whose(cluster_uuid, cluster_name))
    policy = Policy(
        read_sustained=_seconds(read_after, "--read-after"),
        write_sustained=_seconds(write_after, "--write-after"),
        cool_down=_seconds(cool_down, "--cool-down"),
        healthy_before_return=_seconds(return_after, "--return-after"),
        rotate_every=_seconds(rotate_every, "--rotate-every") if rotate_every else None,
        standby=standby,
        lead_from_standby=lead_from_standby,
    )
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise InvalidInput(f"--listen {listen}: expected HOST:PORT", remedy="for example --listen 127.0.0.1:9280")
    if not events.absolute().parent.is_dir():
        raise InvalidInput(f"--events: there is no folder {events.absolute().parent}", remedy="make it first")
    reached_at = _mapping(at or [])
    zoning = _zoning(zone_attribute, zone_name or [])
    silence = _seconds(until_silent, "--until-silent") if until_silent is not None else None
    api = Api(access)
    me = name or socket.gethostname()
    nodes, why = discover(api, addresses, zoning, timeout=5.0)
    if not nodes and not events.exists():
        raise InvalidInput(f"no node was found: {why}", remedy="name a node that answers, and how to get in")
    zones = sorted({node.zone for node in nodes if node.is_data})
    if zone_name and (strange := [zone for zone in zones if zone not in zoning.values]):
        raise InvalidInput(
            f"--zone-name: no name is given for zone {', '.join(strange)}", remedy="name every zone, or none at all"
        )
    if standby is not None and nodes and standby not in zones:
        raise InvalidInput(f"--standby {standby}: the zones are {', '.join(zones)}", remedy="name one of them")
    controller = FailoverController(
        api,
        addresses,
        me=me,
        zoning=zoning,
        policy=policy,
        pace=Pace(late=_seconds(late, "--late")),
        acts=act,
        canaries=act or canaries,
        owner=owner,
        log=events,
        at=reached_at,
        says=lambda text: out.print(f"{me}: {text}", markup=False),
    )
    try:
        server = serve(controller, host, int(port))
    except OSError as error:
        raise InvalidInput(f"cannot listen on {listen}: {error.strerror}", remedy="choose another --listen") from error
    if until_eof or silence is not None:
        threading.Thread(target=listen_until, args=(0, controller.stop, silence), daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: controller.stop())
    doing = "acts" if act else "recommends only"
    out.print(f"{me}: watching {len(nodes)} nodes in zones {', '.join(zones)}; {doing}; http://{listen}", markup=False)
    try:
        controller.run()
    finally:
        server.shutdown()
