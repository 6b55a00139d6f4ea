"""What the team's own alerting did on a day: which alerts fired and resolved, and whether that is what was expected.

A Prometheus (``/api/v1/alerts``) or an Alertmanager (``/api/v2/alerts``) is asked every few seconds. None is muted by
us; one that somebody else has silenced or inhibited is seen all the same, and said to be. An answer counts when it is
of now by its own clock, and a Prometheus has evaluated its rules of late. All times are of our own monotonic clock, in
seconds. An alert that fires and is over between two questions is not seen.

The judgement is pure. A pass needs answers without a gap over the span that it rests on: no data never passes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from chaos.base.ages import CLOCKS_SECONDS, answered, untimely
from chaos.base.errors import ChaosError
from chaos.base.text import clip, listed, one_line, printable, seconds
from chaos.definitions.gameday import Alerts, ExpectedAlert
from chaos.definitions.slis import INTERVALS, resolved
from chaos.gamedays.asking import bearer, moment_of
from chaos.gamedays.outside import Page, Unanswered, parsed
from chaos.opensearch.rest import UNREADABLE

DEADLINE_SECONDS = 5.0
"""For one answer, less where the next question is due sooner."""
TRIES = 4
"""How often it is asked within an interval before that is a gap."""
EVALUATIONS = 3
"""So many of its intervals a rule may be late to be evaluated."""
NO_NAME = "(no name)"
Key = tuple[str, tuple[tuple[str, str], ...]]
"""Which alert: its name, and its other labels in order."""


@dataclass(frozen=True)
class Standing:
    """One alert of one answer. ``muted``: how others keep it from being told (silenced, inhibited)."""

    name: str
    labels: Mapping[str, str]
    firing: bool
    muted: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.name, tuple(sorted(self.labels.items()))


@dataclass(frozen=True)
class Firing:
    """One alert from when it was first seen firing to when it was first seen not to."""

    name: str
    labels: Mapping[str, str]
    fired: float
    before: float | None
    """When it was last seen not to fire; None: it did so in the first answer of all."""
    still: float
    """When it was last seen firing."""
    resolved: float | None = None
    muted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seen:
    """All that was seen, as plain data. ``gaps``: from an answer (or ``began``) to the next one (or ``ended``), where
    one or more questions between them got none. ``first`` and ``last``: when the first and the last answer came."""

    began: float
    ended: float
    first: float | None = None
    last: float | None = None
    firings: tuple[Firing, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Seen:
        firings = tuple(Firing(**{**each, "muted": tuple(each["muted"])}) for each in data["firings"])
        gaps = tuple((float(start), float(end)) for start, end in data["gaps"])
        return cls(**{**data, "firings": firings, "gaps": gaps})

    def covers(self, start: float, end: float) -> bool:
        """Whether no question from ``start`` to ``end`` went unanswered, and answers lie on both sides of it."""
        if self.first is None or self.last is None or self.first > start or self.last < end:
            return False
        return not any(a < end and start < b for a, b in self.gaps)

    def blind(self, start: float, end: float) -> float:
        """The longest time between ``start`` and ``end`` in which nobody answered, in seconds."""
        if self.first is None or self.last is None:
            return end - start
        spans = [*self.gaps, (start, self.first), (self.last, end)]
        return max(0.0, *(min(end, b) - max(start, a) for a, b in spans))


class Sightings:
    """Makes :class:`Seen` of one answer after the other."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._last: float | None = None
        self._lost = False
        self._gaps: list[tuple[float, float]] = []
        self._over: list[Firing] = []
        self._firing: dict[Key, Firing] = {}
        self._pending: set[Key] = set()

    def missed(self) -> None:
        """A question got no answer."""
        self._lost = True

    def answered(self, at: float, standing: Iterable[Standing]) -> list[dict[str, Any]]:
        """Take one answer. What is new of it, as lines of the day's record."""
        found: dict[Key, Standing] = {}
        for one in standing:  # two servers behind one address may both name it
            before = found.get(one.key)
            found[one.key] = one if before is None or one.firing else before
        if self._lost:
            self._gaps.append((self._began if self._last is None else self._last, at))
            self._lost = False
        news: list[dict[str, Any]] = []
        for key, one in found.items():
            held = self._firing.get(key)
            if not one.firing:
                if key not in self._pending and held is None:
                    news.append(_line(one, "pending", at))
            elif held is None:
                self._firing[key] = Firing(one.name, dict(one.labels), at, self._last, at, muted=one.muted)
                news.append(_line(one, "firing", at))
            else:
                muted = (*held.muted, *(how for how in one.muted if how not in held.muted))
                self._firing[key] = replace(held, still=at, muted=muted)
                if muted != held.muted:
                    news.append(_line(one, "firing", at))
        for key in [key for key in self._firing if key not in found or not found[key].firing]:
            ended = replace(self._firing.pop(key), resolved=at)
            self._over.append(ended)
            news.append(_line(ended, "resolved", at))
        self._pending = {key for key, one in found.items() if not one.firing}
        self._first, self._last = at if self._first is None else self._first, at
        return news

    def seen(self, ended: float) -> Seen:
        """All of it until now."""
        trailing = [(self._began if self._last is None else self._last, ended)] if self._lost else []
        firings = sorted([*self._over, *self._firing.values()], key=lambda each: (each.fired, each.name))
        gaps = tuple([*self._gaps, *trailing])
        return Seen(self._began, ended, self._first, self._last, tuple(firings), gaps)


def _line(one: Standing | Firing, state: str, at: float) -> dict[str, Any]:
    line = {"name": one.name, "labels": dict(one.labels), "state": state, "at": at}
    return {**line, "muted": list(one.muted)} if one.muted else line


# ---- asking ---------------------------------------------------------------------------------------------------------


def read_prometheus(body: Any) -> list[Standing]:
    """Alerts of ``/api/v1/alerts``. Raises Unanswered, and what :data:`UNREADABLE` names."""
    if body["status"] != "success":
        raise Unanswered("it answers with an error")
    if body.get("warnings"):
        raise Unanswered(f"it warns that the answer may not be whole: {one_line(str(body['warnings'][0]))}")
    states = {"firing": True, "pending": False}
    return [_standing(each["labels"], states[each["state"]]) for each in body["data"]["alerts"]]


def read_alertmanager(body: Any) -> list[Standing]:
    """Alerts of ``/api/v2/alerts``, which are all firing. Raises what :data:`UNREADABLE` names."""
    if not isinstance(body, list):
        raise TypeError(type(body))
    ways = {"silenced": "silencedBy", "inhibited": "inhibitedBy", "muted": "mutedBy"}
    found = []
    for each in body:
        if each["status"]["state"] not in ("active", "suppressed", "unprocessed"):
            raise ValueError("an unknown state")
        muted = tuple(how for how, field in ways.items() if each["status"].get(field))
        found.append(_standing(each["labels"], True, muted))
    return found


def _standing(labels: Mapping[str, Any], firing: bool, muted: tuple[str, ...] = ()) -> Standing:
    texts = {str(name): str(value) for name, value in labels.items()}
    return Standing(texts.pop("alertname", NO_NAME), texts, firing, muted)


class Asked:
    """Whom the alerts are asked of. For one thread. Raises InvalidInput when secrets or files cannot be read."""

    def __init__(self, alerts: Alerts, folder: Path, clock: Callable[[], float] = time.time) -> None:
        """``clock``: epoch seconds."""
        self._alerts, self._clock = alerts, clock
        access = alerts.access.reached(folder, tls=urlsplit(alerts.server).scheme == "https")
        self._page = Page(alerts.server, access, bearer(resolved(folder, alerts.access.token)))
        self._seconds = min(float(alerts.every), DEADLINE_SECONDS)

    def _get(self, path: str) -> Any:
        status, body, headers = self._page.get(self._page.path + path, self._seconds)
        if status != 200:
            raise Unanswered(f"it answers {status}")
        if (elsewhen := answered(headers, self._clock())) is not None:
            raise Unanswered(elsewhen)
        try:
            return parsed(body)
        except ValueError:
            raise Unanswered("its answer is no JSON") from None

    def alerts(self) -> list[Standing]:
        """All that stand now. Raises Unanswered, also where a Prometheus has not evaluated its rules of late: what
        stands then is of another time."""
        try:
            if self._alerts.prometheus is not None:
                standing = read_prometheus(self._get("/api/v1/alerts"))
                if (idle := self._idle()) is not None:
                    raise Unanswered(idle)
                return standing
            return read_alertmanager(self._get("/api/v2/alerts?active=true&silenced=true&inhibited=true"))
        except UNREADABLE as error:
            raise Unanswered(f"its answer cannot be read: {type(error).__name__}") from None

    def _idle(self) -> str | None:
        """Why rules are not known to have been evaluated of late: those of alerts that are expected, and of all where
        others count."""
        expected = None if self._alerts.others is not None else {each.name for each in self._alerts.expect}
        for group in self._get("/api/v1/rules?type=alert")["data"]["groups"]:
            longest = EVALUATIONS * float(group["interval"]) + CLOCKS_SECONDS
            for rule in group["rules"]:
                if expected is not None and rule["name"] not in expected:
                    continue
                at = moment_of(rule["lastEvaluation"])
                when = "at no known time" if at is None else untimely(at.timestamp(), self._clock(), longest)
                if when is not None:
                    return f"its rule for the alert {printable(str(rule['name']))} was evaluated {when}"
        return None

    def ruled(self) -> dict[str, str]:
        """By name the alerts that a Prometheus has rules for, each with how well it evaluates them ("ok", "err",
        "unknown": not yet). Raises Unanswered."""
        try:
            groups = self._get("/api/v1/rules?type=alert")["data"]["groups"]
            rules = [rule for group in groups for rule in group["rules"]]
            return {str(rule["name"]): str(rule["health"]) for rule in rules}
        except UNREADABLE as error:
            raise Unanswered(f"its rules cannot be read: {type(error).__name__}") from None

    def close(self) -> None:
        self._page.close()


class AlertWatch:
    """Asks from :meth:`start` to :meth:`stop`, in a thread of its own. ``folder``: the day's, beside which files are.

    ``record("alert", …)`` is told what is new. Begin before the day's first change: what fires then is none of it.
    """

    def __init__(
        self, alerts: Alerts, folder: Path, record: Callable[..., None], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._alerts, self._folder, self._record, self._now = alerts, folder, record, now
        self._over, self._lock = threading.Event(), threading.Lock()
        self._sightings: Sightings | None = None
        self._thread: threading.Thread | None = None
        self._ended: float | None = None

    def ready(self) -> str | None:
        """Why it cannot be asked now, or has no rule for an alert that is expected; None where all is well.

        An Alertmanager knows no rules: there a name that is mistyped is seen as an alert that is silent.
        """
        try:
            asked = Asked(self._alerts, self._folder)
        except ChaosError as error:
            return printable(str(error))
        try:
            asked.alerts()
            if self._alerts.prometheus is None:
                return None
            rules = asked.ruled()
            for name in sorted({each.name for each in self._alerts.expect}):
                if name not in rules:
                    return f"it has no rule for the alert {printable(name)}"
                if rules[name] == "err":
                    return f"it cannot evaluate its rule for the alert {printable(name)}"
            return None
        except Unanswered as error:
            return str(error)
        except Exception as error:  # its words may hold a secret
            return f"asking failed: {type(error).__name__}"
        finally:
            asked.close()

    def start(self) -> None:
        """A second time it does nothing. Raises InvalidInput when secrets or files cannot be read (any more)."""
        if self._thread is not None:
            return
        asked = Asked(self._alerts, self._folder)
        self._sightings = Sightings(self._now())
        self._thread = threading.Thread(target=self._run, args=(asked,), name="alerts", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask for the last time, and end. Idempotent; waits for four answers at most."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(4 * DEADLINE_SECONDS + 1.0)
        with self._lock:
            if self._ended is None:
                self._ended = self._now()
                if self._sightings is not None and self._thread is not None and self._thread.is_alive():
                    self._sightings.missed()

    def seen(self) -> Seen:
        """What was seen until now, or until it was stopped. A thread that is dead, or hangs, has seen nothing since."""
        with self._lock:
            now = self._now() if self._ended is None else self._ended
            if self._sightings is None:
                return Seen(now, now)
            seen = self._sightings.seen(now)
            alive = self._thread is not None and self._thread.is_alive()
            last = seen.began if seen.last is None else seen.last
            if self._ended is None and (not alive or now - last > INTERVALS * float(self._alerts.every)):
                self._sightings.missed()
                seen = self._sightings.seen(now)
            return seen

    def _run(self, asked: Asked) -> None:
        every, due = float(self._alerts.every), self._now()
        try:
            while not self._over.is_set():
                answered = self._turn(asked, due + every)
                late = max(1.0, math.ceil((self._now() - due) / every))
                due += every * late
                if late > 1 or not answered:
                    self._miss()
                self._over.wait(max(0.0, due - self._now()))
            if not self._once(asked):
                self._miss()
        finally:
            asked.close()

    def _turn(self, asked: Asked, until: float) -> bool:
        """One question, put again until somebody answers or the next one is due. Whether somebody did."""
        for _ in range(TRIES):
            if self._once(asked):
                return True
            if self._over.wait(float(self._alerts.every) / TRIES) or self._now() >= until:
                break
        return False

    def _once(self, asked: Asked) -> bool:
        try:
            standing = asked.alerts()
        except Exception:  # whatever it is: nobody answered
            return False
        with self._lock:
            assert self._sightings is not None
            news = [] if self._ended is not None else self._sightings.answered(self._now(), standing)
        for line in news:
            with suppress(OSError):  # of the disk: whoever owns the record has been told
                self._record("alert", **line)
        return True

    def _miss(self) -> None:
        with self._lock:
            assert self._sightings is not None
            self._sightings.missed()


# ---- judging --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """When a phase's fault began to be injected, was proven to be in effect, and was undone (monotonic seconds).

    None: it never was, or nobody knows. ``begun`` None: as ``effect``.
    """

    experiment: str
    phase: str
    effect: float | None
    undone: float | None
    begun: float | None = None

    @property
    def since(self) -> float | None:
        """From when on an alert may be of this fault."""
        return self.effect if self.begun is None else self.begun


@dataclass(frozen=True)
class Verdict:
    """What was expected of one alert, or of the others, and what came of it."""

    name: str
    kind: Literal["fires", "resolves", "others"]
    verdict: Literal["pass", "weakness", "inconclusive"]
    says: str


def watched_until(alerts: Alerts, moments: Sequence[Moment]) -> float | None:
    """Until when alerts must be watched so that nothing is inconclusive for that reason; None: not at all."""
    ends: list[float] = []
    for expected in alerts.expect:
        for moment in _of(expected, moments):
            if moment.effect is not None:
                ends.append(moment.effect + float(expected.fires_within))
            if moment.undone is not None:
                ends.append(moment.undone + float(expected.resolves_within))
    return max(ends, default=None)


def judged(alerts: Alerts, seen: Seen, moments: Sequence[Moment]) -> list[Verdict]:
    """Hold what was seen to what was expected. Pure.

    It must fire within its time after the fault was in effect, and not before that began. Those of its name and labels
    that fired before the fault was undone must be over in time, or else the first one that fired later. Whether it
    fires anew after that is not asked.
    """
    found: list[Verdict] = []
    for expected in alerts.expect:
        mine = [each for each in seen.firings if _fits(expected, each)]
        for moment in _of(expected, moments) or [Moment(expected.experiment, expected.phase, None, None)]:
            found.append(Verdict(expected.name, "fires", *_fires(alerts, expected, mine, seen, moment)))
            found.append(Verdict(expected.name, "resolves", *_resolves(alerts, expected, mine, seen, moment)))
    if alerts.others is not None:
        found.append(Verdict("others", "others", *_others(alerts, alerts.others, seen, moments)))
    return found


Judgement = tuple[Literal["pass", "weakness", "inconclusive"], str]


def _of(expected: ExpectedAlert, moments: Sequence[Moment]) -> list[Moment]:
    return [each for each in moments if (each.experiment, each.phase) == (expected.experiment, expected.phase)]


def _fits(expected: ExpectedAlert, firing: Firing) -> bool:
    return firing.name == expected.name and all(firing.labels.get(k) == v for k, v in expected.labels.items())


def _before(mine: Sequence[Firing], since: float) -> bool:
    """Whether it fired already when the fault began."""
    return any(each.fired <= since and (each.resolved is None or each.resolved > since) for each in mine)


def _unjudged(expected: ExpectedAlert, mine: Sequence[Firing], moment: Moment) -> str | None:
    """Why nothing can be said of it whatever was seen."""
    if moment.effect is None or moment.since is None:
        return f"the fault of {expected.experiment}, phase {expected.phase}, was not proven to be in effect"
    if _before(mine, moment.since):
        return "it fired already before the fault"
    return None


def _fires(alerts: Alerts, expected: ExpectedAlert, mine: Sequence[Firing], seen: Seen, moment: Moment) -> Judgement:
    if (why := _unjudged(expected, mine, moment)) is not None:
        return "inconclusive", why
    assert moment.effect is not None and moment.since is not None
    since, within = moment.since, expected.fires_within.text
    limit = moment.effect + float(expected.fires_within)
    first = next((each for each in mine if each.fired > since), None)
    if first is not None and first.fired <= limit:
        took = f"it fired {seconds(max(0.0, first.fired - moment.effect))} after the fault was in effect"
        if not seen.covers(since, first.fired):
            return "inconclusive", f"{took}, but not all was seen between, so it may have fired before"
        muted = f", but it was {' and '.join(first.muted)}: nobody was told" if first.muted else ""
        return "pass", f"{took}{muted}"
    blind = seen.blind(moment.effect, limit)
    if seen.last is None or seen.last < limit:
        return "inconclusive", f"it was not seen to fire, and was not watched for all of its {within}"
    if blind > INTERVALS * float(alerts.every):
        return "inconclusive", f"it was not seen to fire, but nobody answered for {seconds(blind)} of its {within}"
    if moment.undone is not None and moment.undone < limit:
        lasted = seconds(max(0.0, moment.undone - moment.effect))
        return "inconclusive", f"it did not fire, but the fault was undone after {lasted}, before its {within} were up"
    if first is None:
        return "weakness", f"a silent alert: it did not fire within {within} of the fault"
    if first.before is None or first.before < limit:
        return "inconclusive", f"it fired after {within} or a little sooner: it was not asked for at that moment"
    return "weakness", f"it fired {seconds(first.fired - moment.effect)} after the fault was in effect, not in {within}"


def _resolves(alerts: Alerts, expected: ExpectedAlert, mine: Sequence[Firing], seen: Seen, moment: Moment) -> Judgement:
    if (why := _unjudged(expected, mine, moment)) is not None:
        return "inconclusive", why
    assert moment.since is not None
    if moment.undone is None:
        return "inconclusive", "the fault was not proven to be undone"
    after = [each for each in mine if each.fired > moment.since]
    last = {_key(each): each for each in after if each.fired <= moment.undone}
    limit = moment.undone + float(expected.resolves_within)
    held = list(last.values()) or [each for each in after[:1] if each.fired <= limit]
    if not held:
        return "inconclusive", "it did not fire, so it had nothing to resolve"
    whole = seen.covers(moment.since, after[0].fired)
    each_said = [_resolved(expected, one, seen, moment.undone, whole) for one in held]
    worst = min(each_said, key=lambda said: ("weakness", "inconclusive", "pass").index(said[0]))
    blind = seen.blind(moment.undone, limit)
    if worst[0] == "weakness" and blind > INTERVALS * float(alerts.every):
        return "inconclusive", f"it was not seen to resolve, but nobody answered for {seconds(blind)} of its time"
    return worst


def _resolved(expected: ExpectedAlert, one: Firing, seen: Seen, undone: float, whole: bool) -> Judgement:
    """Of one firing. ``whole``: whether all was seen from the fault's begin until it fired."""
    limit, within = undone + float(expected.resolves_within), expected.resolves_within.text
    if one.resolved is None:
        if one.still < limit:
            return "inconclusive", f"it was still firing when it was last asked for, before its {within} were up"
        return "weakness", f"it was still firing {seconds(one.still - undone)} after the fault was undone, not {within}"
    if one.resolved > limit:
        if one.still < limit:
            return "inconclusive", f"it resolved after {within} or a little sooner: it was not asked for at that moment"
        return "weakness", f"it resolved {seconds(one.resolved - undone)} after the fault was undone, not in {within}"
    if not whole or not seen.covers(min(one.still, undone), max(one.resolved, undone)):
        return "inconclusive", "it resolved in time, but not all was seen between"
    if one.resolved <= undone:
        return "pass", "it resolved before the fault was undone"
    return "pass", f"it resolved {seconds(one.resolved - undone)} after the fault was undone"


def _others(alerts: Alerts, most: int, seen: Seen, moments: Sequence[Moment]) -> Judgement:
    began = min((each.since for each in moments if each.since is not None), default=math.inf)
    # what fires in the first answer is none of the day's, where that came before the day's first fault
    known = seen.first is not None and seen.first <= began
    others: dict[Key, Firing] = {}
    standing = {_key(each) for each in seen.firings if each.before is None}
    for each in seen.firings:
        if each.name in alerts.ignore or any(_fits(expected, each) for expected in alerts.expect):
            continue
        if _key(each) not in standing:
            others.setdefault(_key(each), each)
    if len(others) > most:
        return "weakness", f"{_named(others.values())} fired, which nobody expected (at most {most} may)"
    if seen.first is None:
        return "inconclusive", "nobody answered what alerts fire"
    if not known:
        return "inconclusive", "it was not asked for before the first fault began"
    if seen.gaps:
        lost = seconds(max(end - start for start, end in seen.gaps))
        return "inconclusive", f"nobody answered what alerts fire for up to {lost}"
    return "pass", f"{_named(others.values())} fired, which nobody expected" if others else "no others fired"


def _key(firing: Firing) -> Key:
    return firing.name, tuple(sorted(firing.labels.items()))


def _named(firings: Iterable[Firing]) -> str:
    """Each by its name, on one line, and how many of that name."""
    counts: dict[str, int] = {}
    for each in firings:
        name = clip(printable(each.name), 80)
        counts[name] = counts.get(name, 0) + 1
    return listed([name if many == 1 else f"{name} ({many} of it)" for name, many in counts.items()])
