"""Guards from outside: what others measure, asked again and again while a day lasts, each in a thread of its own.

An answer is good, bad, or none: nobody knows. Each has an age by the clock of its source, and a bound
(:mod:`chaos.base.ages`): one of another time is none. ``times`` bad ones in a row end the day, and so do three
intervals without an answer that says something. No data is never good. What a source cannot know is said where it is
asked.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import quote, urlsplit

import urllib3

from chaos.base.access import Access, distrust
from chaos.base.addresses import PORTS
from chaos.base.ages import CLOCKS_SECONDS, answered, untimely
from chaos.base.errors import ChaosError, InvalidInput, MissingPrerequisite
from chaos.base.extras import AWS
from chaos.base.text import one_line, printable
from chaos.definitions.gameday import CloudWatchGuard, GameDay, Guard, HttpGuard, ProgramGuard
from chaos.definitions.loading import load_rules
from chaos.definitions.rules import chosen
from chaos.definitions.slis import INTERVALS
from chaos.gamedays.asking import access_of, bearer, moment_of, number_of, pointed
from chaos.opensearch.alerts import AlertAsker
from chaos.opensearch.prometheus import Asker
from chaos.opensearch.rest import UNREADABLE, Garbled, connection_class, short

State = Literal["good", "bad", "none"]
MINUTE = 60.0
TAIL_BYTES = 4096
"""Of what a program printed; its last line is repeated."""
ALERTING = "/_plugins/_alerting"
UNFIT = (401, 403, 407)
"""Statuses that speak of who asks, and not of what is asked for."""
Get = Callable[[str], tuple[int, Any]]
"""Asks the target: a path, then status and decoded JSON. What it raises is no data."""


@dataclass(frozen=True)
class Answer:
    """One answer. ``value``: its number, where the source has one. ``why``: of every answer that is not good."""

    state: State
    value: float | None = None
    why: str | None = None


def _none(why: str) -> Answer:
    return Answer("none", why=why)


class Source(Protocol):
    """Whom a guard asks. For one thread."""

    def ask(self) -> Answer:
        """One answer within the guard's timeout; what a server may cause is an answer too."""

    def close(self) -> None:
        """Idempotent."""


# ---- one address by HTTP --------------------------------------------------------------------------------------------


class Unanswered(Exception):
    """Nobody answered in time; ``str`` is why, in one line."""


class Page:
    """GETs of one server. None is repeated, no redirect is followed: it could lead the token elsewhere.

    Finding out the address of a name (DNS) has no deadline of ours. Raises InvalidInput when secrets or files of
    ``access`` cannot be read.
    """

    def __init__(self, url: str, access: Access, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self.path = parts.path.rstrip("/")
        self.target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        self._headers = {"accept": "application/json", **access.headers(), **headers}
        kind = urllib3.HTTPSConnectionPool if access.tls else urllib3.HTTPConnectionPool
        host, port = str(parts.hostname), parts.port or PORTS[parts.scheme]
        self._pool = kind(host, port, maxsize=1, retries=False, **access.of_pool())
        self._pool.ConnectionCls = connection_class(None, tls=access.tls)

    def get(self, target: str, seconds: float) -> tuple[int, bytes, Mapping[str, str]]:
        """Status, body and headers. Raises Unanswered."""
        timeout = urllib3.Timeout(total=seconds)
        try:
            answer = self._pool.request("GET", target, headers=self._headers, redirect=False, timeout=timeout)
        except Garbled as error:
            raise Unanswered(f"what answers speaks no HTTP: {error}") from error
        except urllib3.exceptions.TimeoutError as error:
            if isinstance(error, urllib3.exceptions.NewConnectionError):  # which urllib3 counts among them
                raise Unanswered(f"it cannot be reached: {short(error)}") from error
            raise Unanswered("no answer in time") from error
        except urllib3.exceptions.HTTPError as error:
            if untrusted := distrust(error):
                raise Unanswered(f"its certificate is not trusted: {untrusted}") from error
            raise Unanswered(f"it cannot be reached: {short(error)}") from error
        return answer.status, answer.data, answer.headers

    def close(self) -> None:
        self._pool.close()


def parsed(body: bytes) -> Any:
    """JSON. Raises ValueError."""
    try:
        return json.loads(body)
    except RecursionError:
        raise ValueError("brackets without end") from None


class Http:
    """An address. A status that is not good is bad only where it came in time: who is not reached says nothing.

    3xx, 401, 403 and 407 are no data where they are not called good: they speak of who asks. When an answer was made,
    its headers say (Date, Age), and ``at`` when it was measured; one of them must.
    """

    def __init__(self, guard: Guard, wanted: HttpGuard, day: GameDay, clock: Callable[[], float]) -> None:
        self._guard, self._wanted, self._clock = guard, wanted, clock
        access = access_of(day, wanted.url, wanted.ca)
        self._page = Page(wanted.url, access, bearer(day.resolved(wanted.token)))

    def ask(self) -> Answer:
        try:
            status, body, headers = self._page.get(self._page.target, float(self._guard.timeout))
        except Unanswered as error:
            return _none(str(error))
        wanted = self._wanted
        must = wanted.at is None and status in wanted.status
        elsewhen = answered(headers, self._clock(), float(wanted.oldest), must=must)
        if status not in wanted.status:
            if status in UNFIT:
                return _none(f"this user is refused ({status})")
            if 300 <= status < 400:
                return _none(f"it sends elsewhere ({status}), and redirects are not followed")
            return Answer("bad", why=f"it answers {status}") if elsewhen is None else _none(elsewhen)
        if elsewhen is not None:
            return _none(elsewhen)
        if wanted.number is None and wanted.at is None:
            return Answer("good")
        try:
            said = parsed(body)
        except ValueError:
            return _none("its answer is no JSON")
        if wanted.at is not None and (why := self._stale(said, wanted.at)) is not None:
            return _none(why)
        return Answer("good") if wanted.number is None else self._number(said, wanted.number)

    def _stale(self, said: Any, pointer: str) -> str | None:
        try:
            at = moment_of(pointed(said, pointer))
        except LookupError:
            return f"it does not say when it was measured: there is no {pointer}"
        if at is None:
            return f"nobody knows when it was measured: {pointer} is neither ISO 8601 with an offset nor epoch seconds"
        age = self._clock() - at.timestamp()
        if age < -CLOCKS_SECONDS:
            return f"it says to have been measured in {-age:.0f} s from now"
        if age > float(self._wanted.oldest):
            return f"it is older than {self._wanted.oldest.text}: {age:.0f} s"
        return None

    def _number(self, said: Any, pointer: str) -> Answer:
        try:
            value = number_of(pointed(said, pointer))
        except LookupError:
            return _none(f"there is no {pointer} in its answer")
        return _none(f"{pointer} is no finite number") if value is None else _judged(self._guard, value)

    def close(self) -> None:
        self._page.close()


def _judged(guard: Guard, value: float) -> Answer:
    return Answer("bad", value, f"{value:g} is {guard.says}") if guard.bad(value) else Answer("good", value)


# ---- a Prometheus ---------------------------------------------------------------------------------------------------


class Prometheus:
    """One number by PromQL, asked and held to be fresh as an experiment's SLIs are."""

    def __init__(self, guard: Guard, day: GameDay, clock: Callable[[], float]) -> None:
        assert guard.prometheus is not None
        self._guard = guard
        self._asker = Asker(guard.prometheus.sli, day.folder, deadline=float(guard.timeout), clock=clock)

    def ask(self) -> Answer:
        answer = self._asker.ask()
        return _none(answer.sentence) if answer.value is None else _judged(self._guard, answer.value)

    def close(self) -> None:
        self._asker.close()


class FiringAlerts:
    """Alert rules of the team's own, evaluated as an experiment's SLIs evaluate them: one that fires is bad. The
    Prometheus that has them loaded is not asked. Raises InvalidInput when their file cannot be read (any more)."""

    def __init__(self, guard: Guard, day: GameDay, clock: Callable[[], float]) -> None:
        wanted = guard.prometheus
        assert wanted is not None and wanted.rules is not None
        alerts = chosen(load_rules(day.beside(wanted.rules)), wanted.alert, wanted.labels)
        if not alerts:
            raise InvalidInput(f"{wanted.rules} has no alert that counts any more", remedy="mend it, or the guard")
        sli = wanted.of_alerts(alerts, guard.every)
        self._asker = AlertAsker(sli, day.folder, deadline=float(guard.timeout), clock=clock)

    def ask(self) -> Answer:
        answer = self._asker.ask()
        if answer.value is None:
            return _none(answer.sentence)
        if answer.value:
            return Answer("bad", answer.value, f"{', '.join(map(printable, answer.alerts))} fires")
        return Answer("good", answer.value)

    def close(self) -> None:
        self._asker.close()


# ---- a program ------------------------------------------------------------------------------------------------------


class Program:
    """A program as Nagios has it: 0 is good, 1 and 2 are bad, all else is no data, a signal and no answer too.

    In a session of its own, which is killed after each answer with all that it started; never by a shell. ``over``
    ends one that is under way.
    """

    def __init__(self, guard: Guard, wanted: ProgramGuard, over: threading.Event) -> None:
        self._guard, self._run, self._over = guard, list(wanted.run), over

    def ask(self) -> Answer:
        name = self._run[0]
        try:
            process = subprocess.Popen(
                self._run,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return _none(f"{name}: {getattr(error, 'strerror', None) or 'cannot be run'}")
        try:
            tail, ended = self._tail(process)
        finally:
            # before it is reaped: until then nobody else has its number
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if not ended:
            return _none(f"{name} gave no answer within {self._guard.timeout.text}")
        code = process.returncode
        lines = [line for line in tail.decode(errors="replace").splitlines() if line.strip()]
        said = f": {one_line(lines[-1])}" if lines else ""
        if code == 0:
            return Answer("good")
        if code in (1, 2):
            return Answer("bad", why=f"{name} ended with exit code {code}{said}")
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        return _none(f"{name} {how}{said}")

    def _tail(self, process: subprocess.Popen[bytes]) -> tuple[bytes, bool]:
        """The end of what it printed, and whether it ended in time. What it left running is not waited for."""
        assert process.stdout is not None
        descriptor, until = process.stdout.fileno(), time.monotonic() + float(self._guard.timeout)
        tail, open_ = b"", True
        while time.monotonic() < until and not self._over.is_set():
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            if open_ and select.select([descriptor], [], [], 0.0 if ended else 0.05)[0]:
                piece = os.read(descriptor, 1 << 16)
                tail, open_ = (tail + piece)[-TAIL_BYTES:], bool(piece)
            elif ended:
                return tail, True
            elif not open_:
                self._over.wait(0.01)
        return tail, False

    def close(self) -> None:
        return


# ---- CloudWatch -----------------------------------------------------------------------------------------------------


class CloudWatch:
    """An alarm of Amazon CloudWatch, a metric's or a composite one.

    AWS says when it answered, and nothing of how old the data is by which it judges. An alarm whose
    ``TreatMissingData`` is ``notBreaching`` stays OK without any: such a one is no guard. Its actions may be disabled,
    its state counts all the same. Connecting and reading have half of the timeout each, and there is one attempt;
    finding credentials has no deadline of ours.
    """

    def __init__(self, guard: Guard, wanted: CloudWatchGuard, clock: Callable[[], float] = time.time) -> None:
        self._alarm, self._clock = wanted.alarm, clock
        try:
            import boto3
            from botocore.config import Config
            from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound
        except ImportError:
            raise MissingPrerequisite(
                "a guard of CloudWatch needs the Python package boto3", remedy=AWS.install
            ) from None
        self._client_error, self._failures = ClientError, (BotoCoreError, OSError)
        half = float(guard.timeout) / 2
        once = {"total_max_attempts": 1, "mode": "standard"}
        try:
            session = boto3.Session(profile_name=wanted.profile, region_name=wanted.region)
            self.client = session.client(
                "cloudwatch", config=Config(connect_timeout=half, read_timeout=half, retries=once)
            )
        except ProfileNotFound:
            raise InvalidInput(
                f"AWS's configuration has no profile {wanted.profile}", remedy="name another one"
            ) from None
        except (BotoCoreError, ValueError) as error:  # `from None`: what a file with credentials said may be in it
            says = f"AWS cannot be asked in {wanted.region}: {type(error).__name__}"
            raise InvalidInput(says, remedy="check region and profile") from None

    def ask(self) -> Answer:
        try:
            kinds = ["MetricAlarm", "CompositeAlarm"]
            said = self.client.describe_alarms(AlarmNames=[self._alarm], AlarmTypes=kinds)
            headers = said.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            if (elsewhen := answered(headers, self._clock())) is not None:
                return _none(elsewhen)
            found = [*said.get("MetricAlarms", ()), *said.get("CompositeAlarms", ())]
            return self._read([each for each in found if each["AlarmName"] == self._alarm])
        except self._client_error as error:
            return _none(f"DescribeAlarms answered {one_line(str(error.response.get('Error', {}).get('Code')))}")
        except self._failures as error:
            return _none(f"AWS was not asked: {type(error).__name__}")
        except UNREADABLE as error:
            return _none(f"its answer cannot be read: {type(error).__name__}")

    def _read(self, found: Sequence[Mapping[str, Any]]) -> Answer:
        if not found:
            return _none(f"there is no alarm {self._alarm}")
        states = {str(each["StateValue"]) for each in found}
        if "ALARM" in states:
            return Answer("bad", why=f"{self._alarm} is in ALARM")
        if states != {"OK"}:
            return _none(f"{self._alarm} is in {one_line(', '.join(sorted(states - {'OK'})))}")
        for each in found:
            changed = each.get("StateUpdatedTimestamp")
            if changed is not None and (when := untimely(changed.timestamp(), self._clock(), math.inf)) is not None:
                return _none(f"{self._alarm} is OK since a moment {when}: one of two clocks is wrong")
            if how := each.get("EvaluationState"):
                return _none(f"{self._alarm} is OK, and not evaluated wholly: {one_line(str(how))}")
        return Answer("good")

    def close(self) -> None:
        self.client.close()


# ---- OpenSearch's alerting ------------------------------------------------------------------------------------------


@dataclass
class Runs:
    """When a monitor was last seen to have run: what OpenSearch said, and when that was new to us (monotonic)."""

    last: int | None = None
    heard: float | None = None


class Monitor:
    """A monitor of OpenSearch's alerting on the target: one alert that is active, or acknowledged and not over, is bad.

    Who acknowledges an alert has not mended what it says. (A document-level monitor's are over once acknowledged.)
    A monitor that does not run tells nothing. ``_alerting/stats`` says of each node when it last began to run what is
    scheduled there, and forgets it when that moves to another node, as it does when its own is gone. So what was heard
    is remembered: a monitor by period must be seen to run again within two of its periods, by our clock, and what it
    says of when it ran must lie in these too. At first, and always with a cron schedule, OpenSearch's own word counts
    (``running_on_time``), for a run that is not yet to come. A run that fails leaves an alert in
    state ERROR: no data.

    What cannot be known: whether its query saw recent documents; and what happened since its last run, at least a
    minute. It is asked of the cluster under test, which may be too ill to run it: beside others only. Composite
    monitors are not asked for. Facts: the plugin's source (JobScheduler.kt, Schedule.kt, AlertService.kt).
    """

    PERIODS = 2
    UNITS: Mapping[str, float] = {"MINUTES": 60.0, "HOURS": 3600.0, "DAYS": 86400.0}

    def __init__(
        self,
        guard: Guard,
        monitor: str,
        get: Get,
        runs: Runs,
        now: Callable[[], float],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``now``: seconds that only go on; ``clock``: epoch seconds."""
        self._guard, self._id, self._get, self._runs, self._now = guard, monitor, get, runs, now
        self._clock = clock

    def ask(self) -> Answer:
        until = self._now() + float(self._guard.timeout)
        try:
            answer = self._asked()
        except ChaosError as error:
            return _none(f"the target was not asked: {one_line(error.message)}")
        except urllib3.exceptions.HTTPError as error:
            return _none(f"the target gave no answer: {type(error).__name__}")
        except UNREADABLE as error:
            return _none(f"an answer of the target cannot be read: {type(error).__name__}")
        return answer if self._now() <= until else _none("no answer in time")

    def _asked(self) -> Answer:
        status, said = self._get(f"{ALERTING}/monitors/{quote(self._id, safe='')}")
        if status == 404:
            return _none(f"there is no monitor {self._id}")
        if status != 200:
            return _none(f"asking for the monitor answered {status}")
        monitor = said["monitor"]
        if monitor["enabled"] is not True:
            return _none(f"the monitor {self._id} is not enabled")
        if (why := self._idle(monitor["schedule"])) is not None:
            return _none(why)
        standing = ("ACTIVE",) if monitor.get("monitor_type") == "doc_level_monitor" else ("ACTIVE", "ACKNOWLEDGED")
        for state in standing:
            total, _ = self._alerts(state)
            if total:
                return Answer("bad", why=f"it has {total} alerts that are {state}")
        total, failed = self._alerts("ERROR")
        if any(each.get("end_time") is None for each in failed):  # those that are over keep their state
            return _none(f"the monitor {self._id} fails: it has an alert in state ERROR")
        if total > len(failed) and not failed:
            return _none(f"the monitor {self._id} has {total} alerts in state ERROR, and none is shown")
        return Answer("good")

    def _alerts(self, state: str) -> tuple[int, Sequence[Mapping[str, Any]]]:
        """How many, and the latest. Raises one of :data:`UNREADABLE` for an answer of another shape."""
        query = f"monitorId={quote(self._id, safe='')}&alertState={state}"
        order = "sortString=last_notification_time&sortOrder=desc&size=20"
        status, said = self._get(f"{ALERTING}/monitors/alerts?{query}&{order}")
        if status != 200:
            raise ValueError(status)
        total, alerts = said["totalAlerts"], said["alerts"]
        if isinstance(total, bool) or not isinstance(total, int) or not isinstance(alerts, list):
            raise TypeError(type(total))
        return max(total, len(alerts)), alerts

    def _idle(self, schedule: Mapping[str, Any]) -> str | None:
        """Why nobody knows whether it runs; None where it does."""
        status, said = self._get(f"{ALERTING}/stats")
        if status != 200:
            return f"asking whether the monitor runs answered {status}"
        jobs = [node.get("jobs_info", {}).get(self._id) for node in said["nodes"].values()]
        ran = [job for job in jobs if job is not None and isinstance(job.get("last_execution_time"), int)]
        last = max(ran, key=lambda job: int(job["last_execution_time"]), default=None)
        on_time, now, runs = last is not None and last["running_on_time"] is True, self._now(), self._runs
        period = schedule.get("period")
        longest = math.inf if period is None else self._longest(period)
        if last is not None and (when := self._elsewhen(last, longest)) is not None:
            return f"the monitor {self._id} says that it ran {when}"
        if period is None:
            return None if on_time else f"the monitor {self._id} does not run on time"
        if last is not None and last["last_execution_time"] != runs.last and (runs.last is not None or on_time):
            runs.last, runs.heard = int(last["last_execution_time"]), now
        if runs.heard is None:
            return (
                f"the monitor {self._id} {'does not run on time' if last else 'has not run yet where it is scheduled'}"
            )
        if now - runs.heard > longest:
            return f"the monitor {self._id} was not seen to run for {now - runs.heard:.0f} s"
        return None

    def _longest(self, period: Mapping[str, Any]) -> float:
        """Seconds within which it must run again."""
        return self.PERIODS * float(period["interval"]) * self.UNITS[str(period["unit"]).upper()]

    def _elsewhen(self, last: Mapping[str, Any], longest: float) -> str | None:
        return untimely(int(last["last_execution_time"]) / 1000, self._clock(), longest + CLOCKS_SECONDS)

    def close(self) -> None:
        return


# ---- what comes of answers ------------------------------------------------------------------------------------------


class Watched:
    """One guard: what its answers come to. A stop condition as :class:`chaos.run.guards.Guard` is one.

    It trips after ``times`` bad answers in a row, when three answers in a row say nothing, when nothing is heard of it
    for four intervals, and when its thread is dead. An answer that says nothing neither counts as bad nor begins the
    count anew: bad, none, bad are two in a row. One good answer does begin it anew: a guard that flaps (bad, good, bad,
    good) does not trip with ``times: 2``; who wants that says ``times: 1``. Once it has tripped it stays so.

    What is heard is told to ``record`` when its state changes, once a minute, and always when it trips.
    """

    def __init__(self, name: str, guard: Guard, record: Callable[..., None], now: Callable[[], float]) -> None:
        self.name, self.counts = f"guard.{name}", guard.counts
        self._short, self._guard, self._record, self._now = name, guard, record, now
        self._lock = threading.Lock()
        self._began: float | None = None
        self._heard: float | None = None
        self._why: str | None = None
        self._number = self._bad = self._without = 0
        self._written: tuple[State, int] | None = None
        self.alive: Callable[[], bool] = lambda: True
        """Whether somebody asks."""

    def begin(self) -> None:
        """From now on silence counts."""
        self._began = self._now()

    def hear(self, answer: Answer) -> None:
        """Take one answer. Never raises."""
        at = self._now()
        with self._lock:
            self._number, self._heard = self._number + 1, at
            if answer.state == "none":
                self._without += 1
            else:
                self._without, self._bad = 0, self._bad + 1 if answer.state == "bad" else 0
            trips = self._why is None and (why := self._verdict(answer)) is not None
            if trips:
                self._why = why
            written = answer.state, int((at - (self._began or 0.0)) // MINUTE)
            told, self._written = trips or written != self._written, written
            number = self._number
        if told:
            self._tell(answer, number)

    def _verdict(self, answer: Answer) -> str | None:
        why = f" ({answer.why})" if answer.why else ""
        if self._bad >= self._guard.times and answer.state == "bad":
            in_a_row = f" {self._bad} times in a row" if self._bad > 1 else ""
            return f"{self._short} was bad{in_a_row}{why}"
        if self._without >= INTERVALS:
            return f"it cannot be evaluated: {self._short} said nothing {self._without} times in a row{why}"
        return None

    def _tell(self, answer: Answer, number: int) -> None:
        said = {"value": answer.value, "state": answer.state, "why": answer.why, "number": number}
        try:
            self._record("guard", name=self._short, counts=self.counts, **said)
        except Exception as error:  # what is not on the record did not happen
            with self._lock:
                self._why = self._why or f"it cannot be evaluated: its record is not written: {type(error).__name__}"

    def tripped(self, now: float) -> str | None:
        """Why the day must end at ``now`` (``time.monotonic()``); None while it may go on."""
        with self._lock:
            if self._why is not None:
                return self._why
            since = self._began if self._heard is None else self._heard
            silent = (INTERVALS + 1) * float(self._guard.every)
            if not self.alive():
                self._why = f"it cannot be evaluated: the thread that asks {self._short} ended"
            elif since is None:
                return f"it cannot be evaluated: nobody asks {self._short}"
            elif now - since > silent:
                self._why = f"it cannot be evaluated: nothing was heard of {self._short} for {silent:g} s"
            why, number = self._why, self._number
        if why is not None:
            self._tell(_none(why), number)
        return why


class Outside:
    """All guards of a day, from :meth:`start` to :meth:`stop`.

    ``record(kind, **fields)`` writes a line of the day's record, from any thread. ``get`` asks the target, for guards
    that are monitors there; its own deadline is its owner's. ``clock``: epoch seconds, for what says when it was
    measured.
    """

    def __init__(
        self,
        day: GameDay,
        record: Callable[..., None],
        *,
        get: Get | None = None,
        now: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._day, self._get, self._now, self._clock = day, get, now, clock
        self._guards = day.written.guards
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._runs = {name: Runs() for name in self._guards}
        self._watched = {name: Watched(name, guard, record, now) for name, guard in self._guards.items()}

    @property
    def trips(self) -> Sequence[Watched]:
        """Their stop conditions, for :class:`chaos.run.guards.Watch`, in the file's order."""
        return tuple(self._watched.values())

    def start(self) -> None:
        """Ask from now on; a second time it does nothing. Raises InvalidInput when secrets or files cannot be read, or
        what asks is not installed."""
        if self._threads:
            return
        sources: dict[str, Source] = {}
        try:
            for name in self._guards:
                sources[name] = self._source(name, self._over)
        except ChaosError:
            for source in sources.values():
                source.close()
            raise
        for name, source in sources.items():
            thread = threading.Thread(target=self._run, args=(name, source), name=f"guard {name}", daemon=True)
            self._watched[name].begin()
            self._threads.append(thread)
            thread.start()
            self._watched[name].alive = lambda thread=thread: thread.is_alive() or self._over.is_set()  # type: ignore[misc]

    def stop(self) -> None:
        """Idempotent. Waits for answers that are under way for one timeout at most; a program's is ended."""
        self._over.set()
        until = time.monotonic() + 1.0 + max(float(guard.timeout) for guard in self._guards.values())
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def ready(self) -> list[tuple[str, Answer]]:
        """Ask each once now, all at a time. Anything but good is a reason not to begin. Never raises."""
        names = list(self._guards)
        with ThreadPoolExecutor(max_workers=len(names), thread_name_prefix="guard ready") as pool:
            return list(zip(names, pool.map(self._once, names), strict=True))

    def _once(self, name: str) -> Answer:
        try:
            source = self._source(name, threading.Event())
        except ChaosError as error:
            return _none(printable(str(error)))
        try:
            return asked(source)
        finally:
            with suppress(Exception):
                source.close()

    def _source(self, name: str, over: threading.Event) -> Source:
        guard = self._guards[name]
        if guard.prometheus is not None and guard.prometheus.rules is not None:
            return FiringAlerts(guard, self._day, self._clock)
        if guard.prometheus is not None:
            return Prometheus(guard, self._day, self._clock)
        if guard.http is not None:
            return Http(guard, guard.http, self._day, self._clock)
        if guard.program is not None:
            return Program(guard, guard.program, over)
        if guard.cloudwatch is not None:
            return CloudWatch(guard, guard.cloudwatch, self._clock)
        assert guard.monitor is not None
        if self._get is None:
            raise InvalidInput(f"the guard {name} is a monitor on the target, which is not asked here", remedy="run it")
        runs = self._runs[name]
        return Monitor(guard, guard.monitor.monitor, self._get, runs, self._now, self._clock)

    def _run(self, name: str, source: Source) -> None:
        every, due = float(self._guards[name].every), self._now()
        try:
            while not self._over.is_set():
                answer = asked(source)
                if self._over.is_set():
                    return  # a program that was ended says nothing
                self._watched[name].hear(answer)
                due += every * max(1.0, math.ceil((self._now() - due) / every))  # what was missed is not made up
                if self._over.wait(max(0.0, due - self._now())):
                    return
        finally:
            with suppress(Exception):
                source.close()


def asked(source: Source) -> Answer:
    """One answer. Never raises; what an exception says may hold a secret, so only its kind is told."""
    try:
        return source.ask()
    except Exception as error:
        return _none(f"asking failed: {type(error).__name__}")
