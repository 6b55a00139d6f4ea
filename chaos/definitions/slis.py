"""What a team measures already, by PromQL: asked again and again while a run lasts, expected and guarded by name.

``slis: {checkout_errors: {prometheus: …, query: …}}``; then ``sli.checkout_errors.max: "< 1%"`` is a metric as
``read.p99`` is one, and ``guards: {sli: {checkout_errors: {above: 5%, for: 30s}}}`` ends a run. Numbers are in
Prometheus's base units: a share is 0.01 or 1%, a time 0.25 or 250ms (seconds).

Instead of a query an SLI may have alert rules as Prometheus reads them (``rules: alerts.yml``): its number is then how
many of their alerts fire. ``sli.red.fires: "<= 5m"`` and ``sli.critical.firing: 0`` are of these alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from chaos.base.access import REFERENCES, Access
from chaos.base.addresses import PORTS
from chaos.base.units import Duration, Malformed, Number, PositiveDuration
from chaos.definitions.base import OneOrMore, Strict
from chaos.definitions.expectations import Metric, Unit
from chaos.definitions.rules import AlertRule
from chaos.definitions.source import beside

PREFIX = "sli."
"""How metrics of SLIs begin."""
QUANTITIES = ("max", "min", "mean", "last")
"""What a phase's values come to, in the order in which the grammar lists them."""
FIRES, FIRING = "fires", "firing"
"""Of alert rules: seconds from a phase's begin until one fires, and how many fire at once at most."""
OF_ALERTS: dict[str, Unit] = {FIRES: "duration", FIRING: "count"}
EVERY_QUANTITY: dict[str, Unit] = {**dict.fromkeys(QUANTITIES, "number"), **OF_ALERTS}
SLI_NAME = r"^[a-z][a-z0-9_]*$"
SliName = Annotated[str, Field(pattern=SLI_NAME)]
METRICS: dict[str, Unit] = {
    rf"^sli\.[a-z][a-z0-9_]*\.(?:{'|'.join(QUANTITIES)})$": "number",
    **{rf"^sli\.[a-z][a-z0-9_]*\.{quantity}$": unit for quantity, unit in OF_ALERTS.items()},
}
"""Metrics of some SLI and their units, as the published schema knows them."""
INTERVALS = 3
"""So many answers in a row without a value, and nobody knows how it is. A phase must have room for as many."""
SHORTEST = 1
"""Seconds between two questions at least: more often is load, and no more is known."""


def metric(name: str, quantity: str) -> str:
    """The metric of an SLI's quantity, as an expectation names it."""
    return f"{PREFIX}{name}.{quantity}"


def metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Every metric of these SLIs, by its name."""
    made = {metric(name, quantity): unit for name in names for quantity, unit in EVERY_QUANTITY.items()}
    return {each: Metric(each, unit) for each, unit in made.items()}


def parted(named: str) -> tuple[str, str] | None:
    """(SLI, quantity) of a metric; None for one that is of no SLI."""
    if not named.startswith(PREFIX):
        return None
    name, _, quantity = named.removeprefix(PREFIX).rpartition(".")
    return (name, quantity) if name and quantity in EVERY_QUANTITY else None


def _reference(text: str) -> str:
    if text.partition(":")[0] not in ("env", "file") or not text.partition(":")[2]:
        raise Malformed(f"a secret is given by reference only: expected {REFERENCES}")
    return text


def _url(text: str) -> str:
    """Never repeats a password that stands in it."""
    wanted = "expected http://HOST:PORT or https://HOST:PORT, with the path before /api/v1 where there is one"
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise Malformed(f"the address cannot be read: {wanted}") from None
    if "@" in parts.netloc:
        raise Malformed("no user and password in the address, it is written down: expected access, by reference")
    if parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment or parts.port == 0:
        raise Malformed(f"{text} is no address of a Prometheus: {wanted}")
    if "/api/v1" in parts.path:
        raise Malformed(f"/api/v1 is asked for anyway: {wanted}")
    return text.rstrip("/")


def _asked(text: str) -> str:
    if not text.strip():
        raise Malformed("the query is empty: expected PromQL whose answer is one number")
    return text.strip()


def _not_too_often(value: Duration) -> Duration:
    if value < SHORTEST:
        raise Malformed(f"{value.text} is too often: expected {SHORTEST}s or more")
    return value


Reference = Annotated[str, AfterValidator(_reference)]
Prometheus = Annotated[str, AfterValidator(_url)]
Query = Annotated[str, AfterValidator(_asked)]


CA = "PEM file of whom to trust; default the system's"
"""What every ``ca`` is."""


class SliAccess(Strict):
    """As whom a Prometheus is asked, and whom to trust. Files are relative to the experiment's own."""

    user: str | None = Field(default=None, min_length=1, description="of basic authentication")
    password: Reference | None = Field(default=None, description=f"where it stands: {REFERENCES}")
    token: Reference | None = Field(default=None, description=f"a bearer token, instead of a user: {REFERENCES}")
    ca: str | None = Field(default=None, description=CA)
    certificate: str | None = Field(default=None, description="PEM file of a client certificate")
    key: str | None = Field(default=None, description="PEM file of its key")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.user is None) != (self.password is None):
            raise Malformed("user and password belong together: expected both or none")
        if self.user is not None and self.token is not None:
            raise Malformed("a request is a user's or has a token: expected user or token")
        if self.key is not None and self.certificate is None:
            raise Malformed("a key without its certificate: expected the certificate too")
        return self

    def fits(self, address: str) -> None:
        """Raises Malformed where it has certificates and the address is not spoken to over TLS."""
        if urlsplit(address).scheme != "https" and (self.ca is not None or self.certificate is not None):
            raise Malformed("certificates mean TLS: expected an address with https")

    def reached(self, folder: Path, *, tls: bool) -> Access:
        """How a server is spoken to, but for a token; files are beside the one in which this stands, in ``folder``."""
        return Access(
            tls=tls,
            ca=_beside(folder, self.ca),
            user=self.user,
            password=resolved(folder, self.password),
            certificate=_beside(folder, self.certificate),
            key=_beside(folder, self.key),
        )


class Sli(Strict):
    """A number that a Prometheus knows, asked every few seconds from the warm-up to the end: a query, or how many
    alerts of these rules fire."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["query"]}, {"required": ["rules"]}]})

    prometheus: Prometheus = Field(description="its address, for example http://prometheus.example:9090")
    query: Query | None = Field(
        default=None, description="PromQL; the answer must be one number: a scalar, or a vector of one element"
    )
    rules: str | None = Field(
        default=None,
        min_length=1,
        description="instead of a query: a file of alert rules as Prometheus reads it, beside the experiment's own; it "
        "need not be loaded there",
    )
    alert: OneOrMore[str] | None = Field(
        default=None, description="of rules: the names of alerts that count; default all that are in the file"
    )
    labels: dict[str, str] | None = Field(
        default=None, description="of rules: labels that the alerts that count have, for example {severity: critical}"
    )
    every: Annotated[PositiveDuration, AfterValidator(_not_too_often)] = Field(
        default=Duration(5), description="how often it is asked, for example 5s"
    )
    oldest: PositiveDuration = Field(
        default=Duration(60), description="samples that are older do not count, for example 60s; more than a scrape"
    )
    fresh: Query | None = Field(
        default=None,
        description="PromQL for how old the data is, in seconds; a Prometheus that takes no lookback_delta needs it, "
        "for example time() - max(timestamp(http_requests_total))",
    )
    access: SliAccess = Field(default_factory=SliAccess, description="as whom; default nobody")

    @model_validator(mode="after")
    def _secured(self) -> Self:
        if (self.query is None) == (self.rules is None):
            raise Malformed("an SLI is of a query or of alert rules: expected query or rules")
        if self.rules is None and (self.alert is not None or self.labels is not None):
            raise Malformed("alert and labels choose among alert rules: expected rules too, or neither here")
        if self.rules is not None and self.fresh is not None:
            raise Malformed("of alert rules each selector is asked for its age: expected no fresh")
        given = self.access
        if not self.tls and (given.ca is not None or given.certificate is not None):
            raise Malformed("certificates mean TLS: expected https in prometheus")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """One with a query keeps the normal form, and the hash, that it always had."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value or key not in _OF_RULES}

    @property
    def tls(self) -> bool:
        return urlsplit(self.prometheus).scheme == "https"

    @property
    def server(self) -> tuple[str, int, str]:
        """Host, port, and the path before ``/api/v1``."""
        parts = urlsplit(self.prometheus)
        return str(parts.hostname), parts.port or PORTS[parts.scheme], parts.path.rstrip("/")

    def reached(self, folder: Path) -> Access:
        """How it is spoken to, but for a token; its files are beside the experiment's own, in ``folder``."""
        return self.access.reached(folder, tls=self.tls)


_OF_RULES = ("rules", "alert", "labels", "alerts")


class ResolvedSli(Sli):
    """As a run is planned from it: with its alert rules, wherever the plan is carried to."""

    alerts: tuple[AlertRule, ...] = ()

    @property
    def written(self) -> Sli:
        """As people write it."""
        return Sli.model_validate({name: getattr(self, name) for name in self.model_fields_set - {"alerts"}})


def _beside(folder: Path, file: str | None) -> str | None:
    return None if file is None else str(beside(folder, file))


def resolved(folder: Path, reference: str | None) -> str | None:
    """A reference with its file beside the experiment's own."""
    if reference is None or not reference.startswith("file:"):
        return reference
    return f"file:{_beside(folder, reference.removeprefix('file:'))}"


class SliLimit(Strict):
    """An SLI on the wrong side of a number for too long, in every answer; of alert rules, one that fires. Three answers
    without a value abort too."""

    above: Number | None = Field(default=None, description="abort above this, for example 5%, 250ms or 0.05")
    below: Number | None = Field(default=None, description="abort below this, for example 99%")
    firing: Literal[True] | None = Field(default=None, description="abort when an alert fires; of alert rules alone")
    for_: PositiveDuration | None = Field(
        default=None, alias="for", description="abort when it is so for this long, for example 30s; not with firing"
    )

    @model_validator(mode="after")
    def _one_side(self) -> Self:
        given = [name for name in ("above", "below", "firing") if getattr(self, name) is not None]
        if len(given) != 1:
            got = "got both" if given == ["above", "below"] else f"got {' and '.join(given) or 'neither'}"
            raise Malformed(f"a limit has one side: expected above or below, {got} (or firing, of alert rules)")
        if self.firing is None and self.for_ is None:
            raise Malformed('"for" is missing: expected for how long, for example for: 30s')
        if self.firing is not None and self.for_ is not None:
            raise Malformed("an alert has its own for: expected no for beside firing")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """One with a side keeps the normal form, and the hash, that it always had."""
        data: dict[str, Any] = handler(self)
        return {key: value for key, value in data.items() if value is not None or key != "firing"}

    @property
    def seconds(self) -> float:
        """For how long it must be so; 0: at once."""
        return 0.0 if self.for_ is None else float(self.for_)

    @property
    def says(self) -> str:
        """``above 5%``."""
        if self.firing:
            return "firing"
        limit = self.above if self.above is not None else self.below
        assert limit is not None
        return f"{'above' if self.above is not None else 'below'} {limit.text}"

    def beyond(self, value: float) -> bool:
        """Whether a value is on the wrong side."""
        if self.firing:
            return value > 0
        return value > self.above if self.above is not None else self.below is not None and value < self.below


def of_plan(experiment: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The SLIs of an experiment in normal form, by name; older ones have none."""
    return dict(experiment.get("slis") or {})


def written_in(data: Mapping[str, Any]) -> list[str]:
    """The names of SLIs in a file that is not validated yet; what is no name of one is left out."""
    given = data.get("slis")
    return [name for name in given if re.fullmatch(SLI_NAME, str(name))] if isinstance(given, Mapping) else []
