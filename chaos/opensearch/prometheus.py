"""Asks a Prometheus one question: one finite number, in time and fresh, or why there is none.

A value counts only when it is one finite number, in time, and fresh. It was evaluated now, by our clock
(:mod:`chaos.base.ages`): a Prometheus whose clock is elsewhere, or a cache, answers of another time. An instant query
says for which moment it was evaluated and not how old its samples are: by default Prometheus looks back 5 minutes for
them. So it is told how far it may look (``lookback_delta``), and it is found out whether it goes by that: one that
knows the parameter refuses nonsense in it. Where it does not (Prometheus 2.42, for one), the experiment has to say how
old the data is (``fresh``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from chaos.base.access import distrust, secret
from chaos.base.ages import CLOCKS_SECONDS, untimely
from chaos.base.netsock import Endpoint
from chaos.base.text import one_line
from chaos.definitions.slis import Sli, resolved
from chaos.opensearch.rest import UNREADABLE, Garbled, NodeClient, short

DEADLINE_SECONDS = 5.0
"""For one answer, with what is asked beside it; less where the next question is due sooner."""
REFUSED = (400, 422)
"""How a Prometheus says that a query is wrong, or cannot be carried out."""
NONSENSE = "no duration"
INFO = "PromQL info"
"""How warnings begin that say nothing against an answer (before Prometheus 3, where they are apart)."""


@dataclass(frozen=True)
class Answer:
    """One number, or why there is none. ``wrong``: that is the query's fault, and no answer will ever be better."""

    value: float | None = None
    at: float | None = None
    why: str | None = None
    said: str | None = None
    wrong: bool = False
    reached: bool = False
    """Whether a Prometheus took the query."""
    alerts: tuple[str, ...] = ()
    """Of alert rules: those that fire, by name."""

    @property
    def sentence(self) -> str:
        return f"{self.why}: {self.said}" if self.said else str(self.why)


def read(status: int, body: Any) -> Answer:
    """What a Prometheus answered to an instant query. Never raises."""
    try:
        return _read(status, body)
    except UNREADABLE as error:
        return Answer(why="its answer cannot be read", said=type(error).__name__)


def refused(status: int, body: Any) -> Answer | None:
    """Why an answer holds nothing; None where it holds data. Raises one of UNREADABLE for what is none."""
    if status in REFUSED:
        return Answer(why="the query is refused", said=_error(body), wrong=True)
    if status in (401, 403):
        return Answer(why=f"this user is refused ({status})", said=_error(body))
    if 300 <= status < 400:
        return Answer(why=f"it sends elsewhere ({status}), and redirects are not followed")
    if status != 200:
        return Answer(why=f"it answers {status}", said=_error(body))
    if body["status"] != "success":
        return Answer(why="it answers with an error", said=_error(body))
    warnings = [str(each) for each in body.get("warnings") or () if not str(each).startswith(INFO)]
    if warnings:
        return Answer(why="it warns that the answer may not be whole", said=one_line(warnings[0]), reached=True)
    return None


def _read(status: int, body: Any) -> Answer:
    why = refused(status, body)
    if why is not None and not why.reached:
        return why
    kind, result = body["data"]["resultType"], body["data"]["result"]
    if kind not in ("scalar", "vector"):
        expected = "expected a scalar, or a vector of one element"
        return Answer(why=f"the answer is a {kind}: {expected}", wrong=True, reached=True)
    if why is not None:
        return why
    if kind == "vector" and len(result) != 1:
        if not result:
            return Answer(why="no series", reached=True)
        says = f"the answer has {len(result)} series, and one number was expected"
        return Answer(why=says, said=one_line(str(result[0]["metric"])), wrong=True, reached=True)
    if kind == "vector" and "value" not in result[0]:
        return Answer(why="the answer is a histogram, and one number was expected", wrong=True, reached=True)
    at, number = result if kind == "scalar" else result[0]["value"]
    value, at = float(number), float(at)
    if not math.isfinite(value):
        return Answer(at=at, why=f"the value is {number}", reached=True)
    return Answer(value, at, reached=True)


def _error(body: Any) -> str:
    said = body.get("error") or body.get("message") if isinstance(body, Mapping) else body
    return one_line(str(said or "without a reason"))


class Server:
    """A Prometheus, asked as an SLI says. For one thread.

    Raises InvalidInput when secrets or files of its access cannot be read.
    """

    def __init__(self, sli: Sli, folder: Path) -> None:
        """``folder``: the experiment's, beside which its files are."""
        host, port, self._path = sli.server
        access = sli.reached(folder)
        access.check()
        token = resolved(folder, sli.access.token)
        headers = {"authorization": f"Bearer {secret(token)}"} if token is not None else {}
        self._client = NodeClient(Endpoint(host, port), access=access, headers=headers)

    def get(self, what: str, until: float, **given: str) -> tuple[int, Any] | Answer:
        """Status and body of ``/api/v1/what``, or why there is none. ``until``: by ``time.monotonic()``."""
        left = until - time.monotonic()
        if left <= 0:
            return Answer(why="no answer in time")
        wanted = urlencode({**given, "timeout": f"{left:.3f}"})
        try:
            return self._client.request("GET", f"{self._path}/api/v1/{what}?{wanted}", whole=left)
        except Garbled as error:
            return Answer(why="its answer is no JSON of a Prometheus", said=f"status {error.status}")
        except urllib3.exceptions.TimeoutError as error:
            if isinstance(error, urllib3.exceptions.NewConnectionError):  # which urllib3 counts among them
                return Answer(why="it cannot be reached", said=short(error))
            return Answer(why="no answer in time")
        except urllib3.exceptions.HTTPError as error:
            if untrusted := distrust(error):
                return Answer(why="its certificate is not trusted", said=untrusted)
            return Answer(why="it cannot be reached", said=short(error))

    def close(self) -> None:
        self._client.close()


class Asker:
    """One SLI's questions. For one thread. Raises InvalidInput when secrets or files of its access cannot be read."""

    def __init__(
        self, sli: Sli, folder: Path, *, deadline: float | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """``folder``: the experiment's, beside which its files are. ``deadline``: seconds for one answer with what is
        asked beside it; default :data:`DEADLINE_SECONDS`, less where the next question is due sooner. ``clock``: epoch
        seconds."""
        self._sli, self._clock = sli, clock
        self._deadline = min(float(sli.every), DEADLINE_SECONDS) if deadline is None else deadline
        assert sli.query is not None
        self._query, self._server = sli.query, Server(sli, folder)
        self.looks_back: bool | None = None
        """Whether it goes by ``lookback_delta``; None before anybody knows."""
        self._last: float | None = None

    def ask(self) -> Answer:
        """Ask for the value, and whether it is fresh. Never raises what a server may cause."""
        until = time.monotonic() + self._deadline
        answer = self._get(self._query, until)
        if answer.reached and self.looks_back is None:
            self.looks_back = self._goes_by_it(until)
        if answer.value is None:
            return answer
        if (elsewhen := self._elsewhen(answer)) is not None:
            return replace(answer, value=None, why=elsewhen)
        if self._last == answer.at:
            return replace(answer, value=None, why="the same answer as before, evaluated at the same moment")
        self._last = answer.at
        why = self._stale(until)
        return answer if why is None else replace(answer, value=None, why=why.why, said=why.said, wrong=why.wrong)

    def _elsewhen(self, answer: Answer) -> str | None:
        """Why an answer is not of now by the server's own clock; None: it is."""
        when = "at no known time" if answer.at is None else untimely(answer.at, self._clock())
        return None if when is None else f"it was evaluated {when}: its clock or ours is wrong, or a cache answers"

    def _stale(self, until: float) -> Answer | None:
        """Why a value is not known to be fresh; None where it is."""
        if self._sli.fresh is None:
            if self.looks_back:
                return None
            how = "goes by no" if self.looks_back is False else "has not said yet whether it goes by"
            return Answer(why=f"nobody knows how old its data is: it {how} lookback_delta")
        age = self._get(self._sli.fresh, until)
        if age.value is None:
            return replace(age, why=f"nobody knows how old its data is: {age.why}")
        if (elsewhen := self._elsewhen(age)) is not None:
            return replace(age, why=f"nobody knows how old its data is: {elsewhen}")
        if age.value < -CLOCKS_SECONDS:
            return Answer(why="its data is of the future", said=f"{-age.value:.0f} s from now")
        if age.value > self._sli.oldest:
            return Answer(why=f"its data is older than {self._sli.oldest.text}", said=f"{age.value:.0f} s")
        return None

    def _goes_by_it(self, until: float) -> bool | None:
        """Whether ``lookback_delta`` means anything to it: then nonsense is refused."""
        answer = self._get(self._query, until, lookback=NONSENSE)
        return None if not answer.reached and not answer.wrong else not answer.reached

    def _get(self, query: str, until: float, lookback: str | None = None) -> Answer:
        back = lookback if lookback is not None else f"{float(self._sli.oldest):g}"
        got = self._server.get("query", until, query=query, lookback_delta=back)
        return got if isinstance(got, Answer) else read(*got)

    def close(self) -> None:
        self._server.close()
