"""The endpoint from its parts, open and closed again."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from chaos.base.errors import InvalidInput
from chaos.fis_endpoint import templates
from chaos.fis_endpoint.doing import Hands, Resources
from chaos.fis_endpoint.engine import Engine, recover
from chaos.fis_endpoint.journal import Journal
from chaos.fis_endpoint.own import AlarmState, WithOwnActions
from chaos.fis_endpoint.policy import ALLOW_ALL, Policy
from chaos.fis_endpoint.routing import Routes, Shapes
from chaos.fis_endpoint.server import Endpoint, Handler, Moto, Server
from chaos.fis_endpoint.service import Place, Service
from chaos.fis_endpoint.targets import Resolve, resolved
from chaos.fis_endpoint.templates import Catalogue, Quotas

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Setup:
    """All that an endpoint is made of. ``moto``: the URL of a moto server. ``shapes``: chaos.aws.shapes of FIS."""

    journal: Path
    place: Place
    shapes: Shapes
    catalogue: Catalogue
    hands: Hands
    resources: Resources
    alarm_state: AlarmState
    handlers: Mapping[str, Handler] = field(default_factory=lambda: MappingProxyType({}))
    moto: str | None = None
    policy: Policy = ALLOW_ALL
    quotas: Quotas = templates.AWS
    time_scale: float = 1.0
    host: str = "127.0.0.1"
    port: int = 0
    resolve: Resolve = resolved
    serve: Callable[[Endpoint, str, int], Server] = Server
    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time


@dataclass(frozen=True)
class Opened:
    """``left``: what began before the endpoint died and could not be ended at this start, in words."""

    url: str
    engine: Engine
    server: Server
    left: tuple[str, ...]


@contextmanager
def opened(setup: Setup) -> Iterator[Opened]:
    """An endpoint that answers on ``url``. What a dead one began is ended before; what this one began, after.

    Raises InvalidInput for a journal, an address or a time scale that cannot be used.
    """
    if not (math.isfinite(setup.time_scale) and setup.time_scale > 0):
        raise InvalidInput(
            f"a time scale is more than 0, not {setup.time_scale:g}", remedy="write 1 for real durations"
        )
    routes = Routes(setup.shapes)
    journal = Journal(setup.journal, account=setup.place.account, region=setup.place.region)
    try:
        hands = WithOwnActions(setup.hands, setup.alarm_state)
        left = tuple(recover(journal, hands, setup.now))
        for each in left:
            LOG.error("a dead endpoint's action could not be ended: %s", each)
        journal.write({"kind": "opened", "time_scale": setup.time_scale})
        LOG.info("durations are divided by %g", setup.time_scale)
        engine = Engine(
            hands=hands,
            resources=setup.resources,
            journal=journal,
            alarm_state=setup.alarm_state,
            seconds=setup.catalogue.seconds,
            time_scale=setup.time_scale,
            most_by_tag=setup.quotas.by_tag,
            monotonic=setup.monotonic,
            now=setup.now,
            resolve=setup.resolve,
        )
        service = Service(
            engine=engine,
            journal=journal,
            catalogue=setup.catalogue,
            place=setup.place,
            now=setup.now,
            quotas=setup.quotas,
        )
        endpoint = Endpoint(
            service=service,
            routes=routes,
            place=setup.place,
            handlers=setup.handlers,
            moto=None if setup.moto is None else Moto(setup.moto),
            policy=setup.policy,
            time_scale=setup.time_scale,
        )
        server = setup.serve(endpoint, setup.host, setup.port)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        engine.start()
        thread.start()
        try:
            yield Opened(server.url, engine, server, left)
        finally:
            server.shutdown()
            server.server_close()
            for each in engine.close():
                LOG.error("not ended: %s", each)
    finally:
        journal.close()
