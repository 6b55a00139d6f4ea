"""What is known of a scheduler's workers, without ever waiting for one that does not answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from distributed import Client

from chaos.campaign.dask_order import RESOURCE

EVERY_SECONDS = 1.0
ANSWER_SECONDS = 60.0
"""How long a worker may take to answer a question."""


class Watch:
    """Asks the scheduler every second, in a thread of its own, so that one which hangs holds nothing up."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: Mapping[str, Mapping[str, Any]] = {}
        self._processing: Mapping[str, Sequence[str]] = {}
        self.look()

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Looking again and again until the end of the block."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(EVERY_SECONDS):
                try:
                    self.look()
                except Exception:  # the scheduler is gone: what was known last stays, the client's status says so
                    continue

        threading.Thread(target=watch, name="what workers there are", daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def look(self) -> None:
        """Ask the scheduler now. Raises OSError and TimeoutError."""
        info = self._client.scheduler_info(n_workers=-1)  # unasked some versions of Dask tell of five alone
        self._known = dict(info["workers"])
        self._processing = {address: [str(key) for key in keys] for address, keys in self._client.processing().items()}

    @property
    def workers(self) -> list[str]:
        """Addresses of all."""
        return [*self._known]

    @property
    def labs(self) -> list[str]:
        """Addresses of the workers that take cells."""
        return [
            address for address, known in self._known.items() if (known.get("resources") or {}).get(RESOURCE, 0) >= 1
        ]

    def addresses(self, name: str) -> set[str]:
        """Of the workers with this name."""
        return {address for address, known in self._known.items() if str(known.get("name")) == name}

    def is_stuck(self, key: str) -> bool:
        """Whether a task waits at a worker that takes no cells any more."""
        labs = {*self.labs}
        return any(key in keys and address not in labs for address, keys in self._processing.items())

    def asked(self, function: Callable[..., Any], *given: Any, addresses: Sequence[str]) -> dict[str, Any]:
        """What a function says on each of these workers; an exception where it raised one, or where no answer came in
        time: a frozen worker does not hold up the rest."""
        answers: dict[str, Any] = {address: TimeoutError("it does not answer") for address in addresses}

        def ask(address: str) -> None:
            try:
                answers.update(self._client.run(function, *given, workers=[address], on_error="return"))
            except Exception as error:
                answers[address] = error

        asking = [threading.Thread(target=ask, args=(address,), daemon=True) for address in addresses]
        for each in asking:
            each.start()
        end = time.monotonic() + ANSWER_SECONDS
        for each in asking:
            each.join(max(0.0, end - time.monotonic()))
        return dict(answers)
