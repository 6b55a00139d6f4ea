"""The child's end of the socket to the parent, of every driver: JSON lines, one a message.

The parent says first ``{"config": …, "parent": {"pid", "main_thread"}}``, then ``{"do": "go", "start_ns"}``, of rates
that change ``{"do": "begin", "at_ns"}``, and ``{"do": "stop", "at_once"}``. A driver says ``{"says": "ready"}``, once a
second ``{"says": "status", …}``, and at its end ``{"says": "stopped"}`` or ``{"says": "error", "error"}``. The end of
that socket means that the parent is dead: the driver writes what it has, and exits.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import resource
import signal
import socket
from typing import Any

CONTROL = "OPENSEARCH_CHAOS_CONTROL"
"""The variable with the number of the socket's descriptor."""
_PR_SET_PDEATHSIG = 1


class Control:
    """The child's end."""

    def __init__(self, descriptor: int) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self._lines = self.socket.makefile("r", encoding="utf-8")

    def read(self) -> dict[str, Any] | None:
        """The parent's next message; None when there is no parent any more."""
        try:
            line = self._lines.readline()
        except OSError:
            return None
        return json.loads(line) if line.endswith("\n") else None

    def say(self, message: dict[str, Any]) -> None:
        try:
            self.socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the reading side notices the parent's death
            logging.debug("the parent does not listen")


def die_with(parent: dict[str, Any]) -> None:
    """Ask the kernel for a signal when the parent dies, in case the end of the socket is not noticed.

    Only where the parent started us from its main thread, for the kernel means the death of that thread.
    """
    if parent["main_thread"]:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent["pid"]:
        os._exit(3)


def settle_in(parent: dict[str, Any]) -> None:
    """End with the parent, have as many descriptors as may be, and let the library log nothing that is recorded."""
    die_with(parent)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # every failed request would be logged with its stack otherwise; the history has them all
    logging.getLogger("opensearch").setLevel(logging.CRITICAL)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
