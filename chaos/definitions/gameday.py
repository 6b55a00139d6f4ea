"""A game day: experiments on a cluster that exists, in an agreed window, guarded, announced, on the record.

``experiments/gamedays/NAME.yaml``, ``kind: gameday``. Whatever fires it may fire late or twice: all gates stand here
and are held by ``opensearch-chaos gameday run`` itself. Secrets stand in it by reference only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictInt,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from chaos.base.access import REFERENCES
from chaos.base.addresses import PORTS
from chaos.base.errors import InvalidInput
from chaos.base.units import Duration, Malformed, Number, PositiveDuration, at_least
from chaos.definitions.base import API_VERSION, OneOrMore, Strict
from chaos.definitions.loading import alerts_of, validated
from chaos.definitions.rules import AlertRule
from chaos.definitions.slis import CA, INTERVALS, Prometheus, Query, Reference, ResolvedSli, Sli, SliAccess
from chaos.definitions.source import Problem, Source, beside, did_you_mean, shown
from chaos.definitions.topology import Name

FOLDER = Path("experiments") / "gamedays"
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Event = Literal["before", "begin", "end", "abort", "refused"]
EVENTS: tuple[Event, ...] = ("before", "begin", "end", "abort", "refused")
"""What is announced: that a day will begin (a failure refuses it), that it has begun, how it ended, that it was ended
early, that a gate refused it."""


def _clock(value: Any) -> Any:
    """Minutes past midnight that YAML 1.1 makes of 10:30 are refused: they would be read by some and not by others."""
    if isinstance(value, time):
        return value
    found = re.fullmatch(r"([01][0-9]|2[0-3]):([0-5][0-9])", value) if isinstance(value, str) else None
    if found is None:
        raise Malformed(f"cannot read {value!r}: expected a time of day in quotes, such as '10:30'")
    return time(int(found[1]), int(found[2]))


Clock = Annotated[
    time, BeforeValidator(_clock), WithJsonSchema({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})
]


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        raise Malformed(f"{name!r} is no time zone: expected a name of IANA's, such as Europe/Berlin") from None
    except KeyError:
        raise Malformed(f"there is no time zone {name}: expected a name of IANA's, such as Europe/Berlin") from None
    return name


def _web(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise Malformed("the address cannot be read: expected http://HOST or https://HOST") from None
    if "@" in parts.netloc:
        raise Malformed("no user and password in the address, it is written down: expected a reference instead")
    if parts.scheme not in PORTS or not parts.hostname:
        raise Malformed(f"{text} is no address: expected http://HOST or https://HOST")
    return text


def is_reference(text: str) -> bool:
    """Whether it stands for a secret: env:NAME or file:PATH."""
    return text.startswith(("env:", "file:"))


def _web_or_reference(text: str) -> str:
    if not is_reference(text):
        return _web(text)
    if not text.partition(":")[2]:
        raise Malformed(f"{text} names nothing: expected {REFERENCES}")
    return text


def _trusting(ca: str | None, address: str | None) -> None:
    """Raises Malformed where it is said whom to trust and nobody is asked over TLS. A reference is read later."""
    if ca is None or (address is not None and is_reference(address)):
        return
    if address is None or urlsplit(address).scheme != "https":
        raise Malformed("certificates mean TLS: expected an address with https")


def _pointer(text: str) -> str:
    if not text.startswith("/") or re.search("~(?![01])", text):
        raise Malformed(f"{text} is no JSON pointer (RFC 6901): expected such as /data/value")
    return text


TimeZone = Annotated[str, AfterValidator(_zone)]
Web = Annotated[str, AfterValidator(_web)]
WebOrReference = Annotated[str, AfterValidator(_web_or_reference)]
Words = Annotated[str, Field(min_length=1)]
Pointer = Annotated[str, AfterValidator(_pointer)]


class Window(Strict):
    """When a day may begin and must be over, by the wall's clock of a place."""

    zone: TimeZone = Field(description="whose clock, a name of IANA's, for example Europe/Berlin")
    days: OneOrMore[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = Field(
        min_length=1, description="weekdays on which it may begin, for example [tue, thu]"
    )
    from_: Clock = Field(alias="from", description="from when, for example '10:00'")
    to: Clock = Field(description="until when all is over; before `from`: on the day after, for example '12:00'")
    last_start: Clock | None = Field(
        default=None, description="until when it may begin; default as late as `bounds` leave room for"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.from_ == self.to:
            raise Malformed("from and to are the same: expected a window that is not empty, and shorter than a day")
        if self.last_start is not None and not self.holds(self.last_start):
            raise Malformed(f"last_start is outside of {self.from_:%H:%M} to {self.to:%H:%M}: expected a time within")
        return self

    def holds(self, clock: time) -> bool:
        """Whether a time of day is in it, its end not included."""
        if self.from_ < self.to:
            return self.from_ <= clock < self.to
        return clock >= self.from_ or clock < self.to


class Freeze(Strict):
    """A calendar of days on which nothing may be touched. One that cannot be read, or is too old, freezes."""

    yaml: Words | None = Field(default=None, description="file of ours, beside this one (docs/gamedays.md)")
    ics: Words | None = Field(
        default=None,
        description="a calendar: file beside this one, http(s) address, or a reference to an address that is secret",
    )
    token: Reference | None = Field(default=None, description="bearer token of an address: env:NAME or file:PATH")
    ca: str | None = Field(default=None, description=CA)
    oldest: PositiveDuration | None = Field(
        default=None, description="how old a file may be since it was last written, for example 24h; default any age"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.yaml is None) == (self.ics is None):
            raise Malformed("a freeze is one calendar: expected yaml or ics")
        if self.ics is not None and self.remote:
            _web_or_reference(self.ics)
        if self.token is not None and not self.remote:
            raise Malformed("a token is for an address: expected ics with http(s)://, or a reference to such a one")
        _trusting(self.ca, self.ics if self.remote else None)
        return self

    @property
    def remote(self) -> bool:
        """Whether it is asked for at an address."""
        return self.ics is not None and ("://" in self.ics or is_reference(self.ics))

    @property
    def label(self) -> str:
        """As it stands in the file; never the address that a reference stands for."""
        return str(self.yaml or self.ics)


class Ticket(Strict):
    """A change in somebody's system, which is asked whether it still holds."""

    url: Web = Field(description="of the change, as JSON; {change} in it is what --change gives")
    token: Reference | None = Field(default=None, description="bearer token: env:NAME or file:PATH")
    ca: str | None = Field(default=None, description=CA)
    state: Words = Field(description="JSON pointer to its state, for example /result/state")
    approved: OneOrMore[Words] = Field(min_length=1, description="states that permit, for example [implement]")
    begins: Words = Field(description="JSON pointer to when it begins, ISO 8601 with offset or epoch seconds")
    ends: Words = Field(description="JSON pointer to when it ends")
    digest: Words = Field(description="JSON pointer to a text that holds the plan's digest")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _trusting(self.ca, self.url)
        return self


class Approval(Strict):
    """Who must have agreed to exactly this: signatures over the plan, or a change ticket that holds its digest."""

    allowed_signers: Words | None = Field(
        default=None, description="file of OpenSSH's allowed signers, in git beside this file"
    )
    folder: Words = Field(default="approvals", description="where `gameday approve` puts approvals, beside this file")
    valid: PositiveDuration = Field(default=Duration(7 * 86400), description="how long one holds, for example 168h")
    people: StrictInt | None = Field(
        default=None, ge=1, le=9, description="how many must sign; default 1, and 2 where a whole zone is hit"
    )
    ticket: Ticket | None = Field(default=None, description="instead of signatures, or beside them")

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.allowed_signers is None and self.ticket is None:
            raise Malformed("nobody could approve: expected allowed_signers, ticket, or both")
        if self.people is not None and self.allowed_signers is None:
            raise Malformed("people sign, and nobody may: expected allowed_signers")
        return self


class Consent(Strict):
    """How the consent of the cluster's operators is known to be theirs: by a key or a role that the runner lacks."""

    allowed_signers: Words | None = Field(
        default=None, description="file of OpenSSH's allowed signers, the operators', in git beside this file"
    )
    index: Annotated[str, Field(pattern=r"^\.?[a-z0-9][a-z0-9_.-]*$")] | None = Field(
        default=None,
        description="or, with security on, the index in which they write it and the runner's user may not, "
        "for example .opensearch-chaos-consent",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.allowed_signers is None) == (self.index is None):
            raise Malformed("a consent is known by a key or by a role: expected allowed_signers or index")
        return self


class Snapshot(Strict):
    """A snapshot that must be there, so that nothing is at stake."""

    repository: Words = Field(description="on the cluster, for example nightly")
    newest_within: PositiveDuration = Field(description="a successful one must have ended within, for example 24h")


Rule = Literal["cpu", "heap", "storage", "storage.zone"]
HEADROOM: tuple[Rule, ...] = ("cpu", "heap", "storage", "storage.zone")
"""Rules of the audit that say whether a cluster bears the loss of a zone now."""


class Preflight(Strict):
    """What must hold before the day, and before each of its experiments."""

    snapshot: Snapshot | None = Field(default=None, description="default: none is asked for, and the page says so")
    headroom: OneOrMore[Rule] = Field(
        default=HEADROOM, description="rules of `opensearch-chaos audit` that must not fail; default all four"
    )
    stable: PositiveDuration = Field(
        default=Duration(10), description="for how long it must be green with nothing on its way, for example 10s"
    )
    within: PositiveDuration = Field(
        default=Duration(300), description="how long that is awaited between experiments, for example 5m"
    )


OF_RULES = ("rules", "alert", "labels")


class PrometheusGuard(Strict):
    """One number by PromQL, or alert rules as Prometheus reads them: one that fires is bad."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["query"]}, {"required": ["rules"]}]})

    url: Prometheus = Field(description="of the Prometheus, for example http://prometheus.example:9090")
    query: Query | None = Field(default=None, description="PromQL whose answer is one number")
    rules: Words | None = Field(
        default=None,
        description="instead of a query: a file of alert rules beside this one; Prometheus need not have it loaded",
    )
    alert: OneOrMore[str] | None = Field(
        default=None, description="of rules: the names of alerts that count; default all that are in the file"
    )
    labels: dict[str, str] | None = Field(
        default=None, description="of rules: labels that the alerts that count have, for example {severity: critical}"
    )
    fresh: Query | None = Field(default=None, description="PromQL for how old the data is, in seconds")
    oldest: PositiveDuration = Field(default=Duration(60), description="samples that are older do not count")
    access: SliAccess = Field(default_factory=SliAccess, description="as whom; default nobody")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.access.fits(self.url)
        _ = self.sli
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """One with a query keeps the normal form, and so the digest that was approved, that it always had."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value is not None or key not in OF_RULES}

    @property
    def sli(self) -> Sli:
        """The same as an experiment has it. Raises Malformed where neither query nor rules are given, or both."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"url"}}
        return Sli.model_validate({"prometheus": self.url, **given})

    def of_alerts(self, alerts: tuple[AlertRule, ...], every: Duration) -> ResolvedSli:
        """The same with the rules that count, asked so often."""
        given = {name: getattr(self, name) for name in self.model_fields_set - {"url"}}
        return ResolvedSli.model_validate({"prometheus": self.url, **given, "alerts": alerts, "every": every})


class CloudWatchGuard(Strict):
    """An alarm: OK is good, ALARM is bad, INSUFFICIENT_DATA is no data."""

    alarm: Words = Field(description="its name; a composite alarm's too")
    region: Words = Field(description="for example eu-west-1")
    profile: Words | None = Field(default=None, description="whose credentials; default as boto3 finds them")


class MonitorGuard(Strict):
    """A monitor of OpenSearch's alerting, on the target itself: an active alert is bad."""

    monitor: Words = Field(description="its id")


class HttpGuard(Strict):
    """What an address answers: a status, and where it is asked for a number or a text in its JSON."""

    url: Web = Field(description="asked by GET; redirects are not followed")
    token: Reference | None = Field(default=None, description="bearer token: env:NAME or file:PATH")
    ca: str | None = Field(default=None, description=CA)
    status: OneOrMore[StrictInt] = Field(
        default=(200,),
        description="what is good, for example 200; others are bad, but for 3xx, 401, 403 and 407, which are no data",
    )
    number: Pointer | None = Field(default=None, description="JSON pointer to a number, for above and below")
    at: Pointer | None = Field(
        default=None, description="JSON pointer to when it was measured, ISO 8601 or epoch seconds; for oldest"
    )
    oldest: PositiveDuration = Field(default=Duration(60), description="how old that may be, for example 60s")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        _trusting(self.ca, self.url)
        return self


class ProgramGuard(Strict):
    """A program: exit code 0 is good, 1 and 2 are bad, all else is no data (as Nagios has it)."""

    run: OneOrMore[Words] = Field(min_length=1, description="program and arguments; no shell")


SOURCES = ("prometheus", "cloudwatch", "monitor", "http", "program")


class Guard(Strict):
    """Something outside that says whether others are well. No data for three intervals aborts, however it counts."""

    counts: Literal["blocking", "outcome"] = Field(
        description="blocking: something else broke, and the day is aborted; outcome: we broke it, a weakness"
    )
    prometheus: PrometheusGuard | None = Field(default=None, description="a number by PromQL, or alert rules")
    cloudwatch: CloudWatchGuard | None = Field(default=None, description="an alarm of CloudWatch")
    monitor: MonitorGuard | None = Field(default=None, description="a monitor of OpenSearch's alerting")
    http: HttpGuard | None = Field(default=None, description="what an address answers")
    program: ProgramGuard | None = Field(default=None, description="a program")
    above: Number | None = Field(default=None, description="bad above this, for example 5%")
    below: Number | None = Field(default=None, description="bad below this, for example 99%")
    every: Annotated[PositiveDuration, at_least(Duration(1), "is too often")] = Field(
        default=Duration(10), description="how often it is asked, for example 10s"
    )
    timeout: PositiveDuration = Field(default=Duration(5), description="for one answer, at most `every`")
    times: StrictInt = Field(default=2, ge=1, le=60, description="so many bad answers in a row end the day")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        given = [name for name in SOURCES if getattr(self, name) is not None]
        if len(given) != 1:
            raise Malformed(f"a guard asks one source: expected one of {', '.join(SOURCES)}, got {len(given)}")
        alerts = self.prometheus is not None and self.prometheus.rules is not None
        in_json = self.http is not None and self.http.number is not None
        numbers = in_json or (self.prometheus is not None and not alerts)
        sides = (self.above is not None) + (self.below is not None)
        if numbers and sides != 1:
            raise Malformed("a number has one bad side: expected above or below")
        if not numbers and sides:
            who = "an alert rule" if alerts else given[0]
            raise Malformed(f"{who} answers no number: expected neither above nor below")
        if self.timeout > self.every:
            raise Malformed(f"timeout {self.timeout.text} is more than every {self.every.text}: expected less")
        return self

    @property
    def source(self) -> str:
        return next(name for name in SOURCES if getattr(self, name) is not None)

    def bad(self, value: float) -> bool:
        """Whether a number is on the wrong side."""
        return value > self.above if self.above is not None else self.below is not None and value < self.below

    @property
    def says(self) -> str:
        """``above 5%``; what is bad of it."""
        if self.above is not None or self.below is not None:
            limit = self.above if self.above is not None else self.below
            assert limit is not None
            return f"{'above' if self.above is not None else 'below'} {limit.text}"
        words = {"prometheus": "firing", "cloudwatch": "in ALARM", "monitor": "with an active alert"}
        return words.get(self.source, "bad")

    @property
    def silence(self) -> float:
        """Seconds without a value after which nobody knows how it is."""
        return INTERVALS * float(self.every)


class ExpectedAlert(Strict):
    """An alert that must fire while an experiment lasts, and be over soon after."""

    name: Words = Field(description="alertname, for example ZoneDown")
    experiment: Words = Field(description="during which; its name")
    phase: Words = Field(description="in which of its phases the fault begins, for example dark")
    fires_within: PositiveDuration = Field(description="after that phase began, for example 2m")
    resolves_within: PositiveDuration = Field(description="after the phase's fault was undone, for example 10m")
    labels: dict[str, str] = Field(default={}, description="that it must have beside its name")


class Alerts(Strict):
    """What the team's own alerting must do. None is muted."""

    prometheus: Web | None = Field(default=None, description="whose rules are asked (/api/v1/alerts)")
    alertmanager: Web | None = Field(default=None, description="or an Alertmanager (/api/v2/alerts)")
    access: SliAccess = Field(default_factory=SliAccess, description="as whom; default nobody")
    every: PositiveDuration = Field(default=Duration(5), description="how often it is asked, for example 5s")
    expect: tuple[ExpectedAlert, ...] = Field(default=(), description="that must fire and resolve")
    others: StrictInt | None = Field(
        default=None, ge=0, description="so many alerts that are not expected may fire, for example 0; default any"
    )
    ignore: tuple[Words, ...] = Field(default=(), description="alerts that always fire, for example [Watchdog]")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.prometheus is None) == (self.alertmanager is None):
            raise Malformed("alerts are asked of one server: expected prometheus or alertmanager")
        if not self.expect and self.others is None:
            raise Malformed("nothing is expected of alerts: expected expect, others, or both")
        self.access.fits(self.server)
        return self

    @property
    def server(self) -> str:
        """The address of whom is asked."""
        return str(self.prometheus or self.alertmanager)


class Announcement(Strict):
    """Whom to tell, and of what."""

    webhook: WebOrReference | None = Field(default=None, description="POST of JSON; an address, or a reference to one")
    slack: Reference | None = Field(default=None, description="incoming webhook of Slack's form: env:NAME or file:PATH")
    grafana: Web | None = Field(
        default=None, description="address of a Grafana: one annotation, which becomes a region"
    )
    token: Reference | None = Field(default=None, description="bearer token for webhook or grafana")
    ca: str | None = Field(default=None, description=CA)
    tags: tuple[Words, ...] = Field(default=(), description="of a Grafana annotation, for example [chaos]")
    on: OneOrMore[Event] = Field(default=EVENTS, min_length=1, description="what is told; default all")
    templates: Mapping[Event, Words] = Field(
        default={}, description="own words, with {name}, {target}, {says} and others (docs/gamedays.md)"
    )
    timeout: PositiveDuration = Field(default=Duration(10), description="for an answer, for example 10s")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("webhook", "slack", "grafana") if getattr(self, name) is not None]
        if len(given) != 1:
            raise Malformed(f"an announcement goes one way: expected webhook, slack or grafana, got {len(given)}")
        if self.tags and self.grafana is None:
            raise Malformed("tags are of a Grafana annotation: expected grafana")
        if self.token is not None and self.slack is not None:
            raise Malformed("Slack's address is its secret: expected no token")
        _trusting(self.ca, self.address)
        return self

    @property
    def way(self) -> str:
        return next(name for name in ("webhook", "slack", "grafana") if getattr(self, name) is not None)

    @property
    def address(self) -> str:
        """As it stands in the file: an address, or a reference to one."""
        return str(self.webhook or self.slack or self.grafana)


class Bounds(Strict):
    """How long anything may take."""

    day: PositiveDuration = Field(description="from the first change to the end of all, for example 90m")
    abort: PositiveDuration = Field(
        default=Duration(120), description="from a stop to all undone; drilled on zone days, for example 2m"
    )


class StopBy(Strict):
    """Ways to stop it that do not go through the cluster under test. SIGTERM and `gameday stop` work anyway."""

    file: Words = Field(description="absolute path on the runner; once it is there nothing begins, and all is undone")
    ssh: Words | None = Field(default=None, description="how people reach the runner, for example chaos@runner.example")
    kubernetes: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")] | None = Field(
        default=None,
        description="instead: the namespace in which it runs as a CronJob, for example search; there the ConfigMap "
        "gameday-NAME stops it",
    )

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.ssh is not None and self.kubernetes is not None:
            raise Malformed("a runner is a host or a pod: expected ssh or kubernetes")
        return self

    @model_validator(mode="after")
    def _absolute(self) -> Self:
        if not Path(self.file).is_absolute():
            raise Malformed(f"{self.file} is not absolute: expected such as /run/opensearch-chaos/staging.stop")
        return self


class Step(Strict):
    """One experiment of the day."""

    experiment: Words = Field(description="its file, beside this one")
    rung: Literal["node", "zone"] = Field(description="how far it may reach on the target; more than that is refused")
    on_weakness: Literal["stop", "go on"] = Field(
        default="stop", description="what becomes of the rest of the day where the cluster does not keep its promise"
    )
    topology: Words | None = Field(default=None, description="that it is held against; default its own")


class Ladder(Strict):
    """What must have passed before: the same experiment in a lab, and node runs before a zone."""

    labs: Words | None = Field(
        default=None, description="folder of lab runs, beside this file: the same experiment passed there"
    )
    within: PositiveDuration = Field(default=Duration(30 * 86400), description="how old that may be, for example 720h")
    waived: str | None = Field(default=None, min_length=10, description="why this day needs none; the page shows it")

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.labs is None) == (self.waived is None):
            raise Malformed("a ladder is climbed or waived: expected labs, or waived with the reason")
        return self


class GameDayFile(Strict):
    """A game day as written."""

    api_version: Literal["opensearch-chaos/v1"] = Field(alias="apiVersion", description=API_VERSION)
    kind: Literal["gameday"] = Field(description="gameday")
    name: Name = Field(description="the file's name without suffix, for example staging-tuesday")
    description: str = Field(default="", description="one line for people")
    owner: Words = Field(description="who answers for it, for example team-search <search@example.com>")
    hypothesis: Words = Field(description="what is believed, in words that it can be held to")
    target: Words = Field(description="file of the cluster, beside this one")
    experiments: tuple[Step, ...] = Field(min_length=1, max_length=50, description="in this order")
    window: Window
    freezes: tuple[Freeze, ...] = Field(default=(), description="calendars of days on which nothing is touched")
    approval: Approval
    consent: Consent | None = Field(
        default=None, description="by what the operators' consent is known to be theirs; without it no day begins"
    )
    ladder: Ladder
    preflight: Preflight = Field(default_factory=Preflight)
    guards: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*$")], Guard] = Field(
        min_length=1, description="what others see, by name; the first should be the objective of your users"
    )
    alerts: Alerts | None = Field(default=None, description="what your alerting must do; default it is not looked at")
    announce: tuple[Announcement, ...] = Field(min_length=1, description="who is told")
    bounds: Bounds
    stop: StopBy
    drill: bool | None = Field(
        default=None, description="whether the kill switch is tried first; default on days that hit a zone"
    )
    record: Words = Field(default="gamedays", description="folder of the days' records, below the working folder")
    textfile: str | None = Field(
        default=None, description="absolute path of a .prom file for node_exporter's textfile collector"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.textfile is not None and not (Path(self.textfile).is_absolute() and self.textfile.endswith(".prom")):
            raise Malformed(f"textfile {self.textfile}: expected an absolute path that ends with .prom")
        return self

    @property
    def hits_zone(self) -> bool:
        """Whether one of its experiments may hit a whole zone."""
        return any(step.rung == "zone" for step in self.experiments)

    @property
    def drilled(self) -> bool:
        return self.hits_zone if self.drill is None else self.drill

    @property
    def people(self) -> int:
        """How many signatures are needed."""
        if self.approval.allowed_signers is None:
            return 0
        return self.approval.people or (2 if self.hits_zone else 1)


class GameDay(Strict):
    """A game day with the file in which it stands. ``file``: as people name it; ``folder``: absolute."""

    file: str
    folder: Path
    written: GameDayFile

    @property
    def name(self) -> str:
        return self.written.name

    def beside(self, name: str) -> Path:
        """A file that it names."""
        return beside(self.folder, name)

    @property
    def target(self) -> Path:
        return self.beside(self.written.target)

    def resolved(self, reference: str | None) -> str | None:
        """A reference to a secret, with its file beside the day's own."""
        if reference is None or not reference.startswith("file:"):
            return reference
        return f"file:{self.beside(reference.removeprefix('file:'))}"


def load_gameday(path: str | Path) -> GameDay:
    """Read a game day. Raises InvalidInput with file, line and column of every error."""
    path = Path(path)
    source = Source.read(path)
    file = validated(source, GameDayFile, "gameday")
    errors: list[str] = []
    if file is not None:
        source.add(_check(file, path))
        for name, guard in file.guards.items():
            if guard.prometheus is not None and guard.prometheus.rules is not None:
                alerts_of(guard.prometheus, ("guards", name, "prometheus"), source, errors)
    if wrong := source.errors() + errors:
        raise InvalidInput("\n".join(wrong))
    assert file is not None
    return GameDay(file=shown(path), folder=path.parent.absolute(), written=file)


def refuse_alerts_of_nothing(day: GameDay, begins: Mapping[str, Collection[str]]) -> None:
    """Raises InvalidInput, with a line for each, for alerts that are expected of an experiment or a phase that the day
    does not have. ``begins``: the phases in which faults begin, by the names of the day's experiments."""
    source = Source.read(day.folder / Path(day.file).name)
    for number, each in enumerate(day.written.alerts.expect if day.written.alerts is not None else ()):
        place = ("alerts", "expect", number)
        if each.experiment not in begins:
            says = f"the day has no experiment {each.experiment}: {did_you_mean(each.experiment, begins)}"
            source.add([Problem((*place, "experiment"), says)])
        elif each.phase not in begins[each.experiment]:
            says = f"no fault of {each.experiment} begins in a phase {each.phase}"
            source.add([Problem((*place, "phase"), f"{says}: {did_you_mean(each.phase, begins[each.experiment])}")])
    source.raise_if_wrong()


def target_of(path: Path) -> Path | None:
    """The target's file that a game day's file names, whatever else is wrong with it: enough to stop the day. None
    where it names none. Raises InvalidInput for what is no YAML."""
    named = Source.read(path).data.get("target")
    return beside(path.parent.absolute(), named) if isinstance(named, str) else None


def _check(file: GameDayFile, path: Path) -> Iterator[Problem]:
    """What pydantic cannot see: contradictions between parts of the file, and files that are not there."""
    if file.name != path.stem:
        yield Problem(("name",), f"the name is {file.name} and the file is {path.name}: expected the same")
    folder = path.parent
    if not os.path.isfile(folder / file.target):
        yield Problem(("target",), f"there is no file {file.target} beside this one: expected the target's file")
    for number, step in enumerate(file.experiments):
        if not os.path.isfile(folder / step.experiment):
            says = f"there is no file {step.experiment} beside this one: expected an experiment's file"
            yield Problem(("experiments", number, "experiment"), says)
    told = {event for each in file.announce for event in each.on}
    for event in ("before", "abort"):
        if event not in told:
            yield Problem(("announce",), f"nobody is told of {event!r}: expected one announcement with it", at_key=True)
    if file.approval.allowed_signers is not None and not os.path.isfile(folder / file.approval.allowed_signers):
        says = f"there is no file {file.approval.allowed_signers} beside this one: expected OpenSSH's allowed signers"
        yield Problem(("approval", "allowed_signers"), says)
    signers = None if file.consent is None else file.consent.allowed_signers
    if signers is not None and not os.path.isfile(folder / signers):
        says = f"there is no file {signers} beside this one: expected OpenSSH's allowed signers of the operators"
        yield Problem(("consent", "allowed_signers"), says)
    if not any(guard.counts == "outcome" for guard in file.guards.values()):
        says = "no guard says how users are: expected one that counts as outcome, the objective of your users"
        yield Problem(("guards",), says, at_key=True)
    window, room = file.window, float(file.bounds.day) + float(file.bounds.abort)
    start = window.last_start or window.from_
    minutes = (window.to.hour * 60 + window.to.minute) - (start.hour * 60 + start.minute)
    if minutes % 1440 * 60 < room:
        says = (
            f"from {start:%H:%M} to {window.to:%H:%M} there is no room for {file.bounds.day.text} and an abort of "
            f"{file.bounds.abort.text}: expected a longer window, or an earlier last_start"
        )
        yield Problem(("window",), says, at_key=True)
