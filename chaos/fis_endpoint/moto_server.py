"""Moto as a process of its own on a loopback port that is free; it ends when whoever started it ends.

This module is also the program. It holds its standard input open and ends when that is closed: the kernel closes the
other end however its holder dies, and whichever thread had started it.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from chaos.base.errors import LabError, MissingPrerequisite

START_SECONDS = 90.0
"""Until it answers; on a busy machine moto's import alone takes many seconds."""
END_SECONDS = 5.0
_NEEDED = {"moto": "moto", "flask": "flask", "flask_cors": "flask-cors", "yaml": "pyyaml", "botocore": "boto3"}
"""Module → package. The extra moto[server] brings far more, which EC2, SSM and CloudWatch do not need."""


def require() -> None:
    """Raises MissingPrerequisite, which says what to install, where there is no moto server."""
    missing = [package for module, package in _NEEDED.items() if find_spec(module) is None]
    if missing:
        raise MissingPrerequisite(
            f"the local endpoint needs moto's server, and there is no {', '.join(missing)}",
            remedy=f"run: pip install {' '.join(missing)}",
        )


class MotoServer:
    """A running moto server. Make one with :meth:`start`; use it as a context manager, or :meth:`close` it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    @classmethod
    def start(cls, *, log: Path | None = None) -> Self:
        """Start it and wait until it answers; what it says goes to ``log``.

        Raises MissingPrerequisite without moto, LabError when it does not come up.
        """
        require()
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOTO_"))}
        with open(log or os.devnull, "ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={**environment, "MOTO_EC2_LOAD_DEFAULT_AMIS": "false"},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        said = _line(process, deadline)
        server = cls(process, int(said) if said.isdigit() else 0)
        try:
            if not said.isdigit():
                raise LabError(f"moto's server did not start: {said or f'no answer after {START_SECONDS:g} s'}")
            server._await(deadline)
        except BaseException:
            server.close()
            raise
        return server

    def _await(self, deadline: float) -> None:
        try:
            left = max(1.0, deadline - time.monotonic())
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"{self.url}/moto-api/data.json", timeout=left) as answer:
                answer.read()
        except OSError as error:
            raise LabError(f"moto's server listens and does not answer: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """End it; all that it holds is gone. Idempotent."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _line(process: subprocess.Popen[bytes], deadline: float) -> str:
    """The first line that a process says; empty when it says none by then."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        if not selector.select(max(0.0, deadline - time.monotonic())):
            return ""
    if line := process.stdout.readline():
        return line.decode(errors="replace").strip()
    return f"it ended with {process.wait(END_SECONDS)}"


def main() -> None:
    """Print the port, then serve until standard input is closed."""
    import logging

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    threading.Thread(target=server.serve_forever, name="moto", daemon=True).start()
    print(server.port, flush=True)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
