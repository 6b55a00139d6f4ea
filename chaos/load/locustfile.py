"""The locust side of the load driver; started by :mod:`chaos.load.driver`, never by hand.

locust brings the process, its statistics and its end; the one user's one task is the open loop. What is said between
parent and driver: :mod:`chaos.load.control`.
"""

from __future__ import annotations

import gc
import os
import random
import traceback
from collections.abc import Callable
from typing import Any

import gevent
from locust import User, events, task
from locust.env import Environment
from locust.exception import StopUser

from chaos.load.config import DriverConfig
from chaos.load.control import CONTROL, Control, settle_in
from chaos.load.engine import Engine

_FAREWELL_S = 1.0
"""For the last word to a parent that may not be reading."""

_engine: Engine | None = None
_ready = gevent.event.Event()


class OpenLoop(User):
    """The one user: its task is the whole schedule."""

    fixed_count = 1

    @task
    def walk(self) -> None:
        assert _engine is not None
        _ready.set()
        _engine.run()
        raise StopUser


@events.init.add_listener  # type: ignore[untyped-decorator]
def _begin(environment: Environment, **_: Any) -> None:
    global _engine
    control = Control(int(os.environ[CONTROL]))
    first = control.read()
    if first is None:
        os._exit(3)

    failing = False

    def fail(error: Exception) -> None:
        """Say why and end; what was recorded so far is on disk.

        The parent first, over the socket: that needs no disk, and everything else here may fail on a full one (the
        log too, and a driver that only tried to print its error there would go on without a record).
        """
        nonlocal failing
        if failing:  # another greenlet, or a file that cannot be closed either
            return
        failing = True
        try:
            with gevent.Timeout(_FAREWELL_S, False):
                control.say({"says": "error", "error": f"{error}"})
            if _engine is not None:
                _engine.close(f"error: {error}")
            traceback.print_exception(error)
        finally:
            os._exit(1)

    try:
        settle_in(first["parent"])
        config = DriverConfig.model_validate(first["config"])
        random.seed(config.seed)  # opensearch-py shuffles its hosts
        fire = environment.events.request.fire

        def report(operation: str, name: str, ms: float, length: int, error: BaseException | None) -> None:
            fire(  # type: ignore[no-untyped-call]
                request_type=operation,
                name=name,
                response_time=ms,
                response_length=length,
                exception=error,
                context={},
            )

        _engine = Engine(config, report, control.say, fail)
    except Exception as error:
        fail(error)
        return
    gevent.spawn(_obey, control, environment, _engine, fail)


def _obey(control: Control, environment: Environment, engine: Engine, fail: Callable[[Exception], None]) -> None:
    gevent.spawn(_get_ready, control, engine, fail)
    while (message := control.read()) is not None:
        if message["do"] == "go":
            engine.go(int(message["start_ns"]))
        elif message["do"] == "begin":
            engine.begin(int(message["at_ns"]))
        elif message["do"] == "stop":
            engine.stop(at_once=bool(message.get("at_once")))
            control.say({"says": "stopped"})
            assert environment.runner is not None
            environment.runner.quit()
            return
    engine.close("the parent is gone")
    os._exit(3)


def _get_ready(control: Control, engine: Engine, fail: Callable[[Exception], None]) -> None:
    try:
        engine.prepare()
        _ready.wait()
    except Exception as error:
        fail(error)
    gc.collect()
    gc.freeze()  # what lives for the whole run need not be walked again
    control.say({"says": "ready"})


@events.quitting.add_listener  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    if _engine is not None:
        _engine.close("terminated")
