"""What ends a run early, and the alerts that it is asked about, in words: for ``plan`` and for the page of a change."""

from __future__ import annotations

import json
from collections.abc import Iterator

from chaos.base.text import plural
from chaos.base.units import Duration
from chaos.definitions import Experiment
from chaos.definitions.experiment import GoodFloor, GuardCommand
from chaos.definitions.slis import INTERVALS

SHOWN = 5
"""Alerts of one SLI that are named at most."""


def words(seconds: float) -> str:
    """A duration as people say it: ``90`` is ``1 minute 30 seconds``. Below a second in milliseconds."""
    if 0 < seconds < 1:
        return plural(round(seconds * 1000), "millisecond")
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    parts = ((hours, "hour"), (minutes, "minute"), (left, "second"))
    return " ".join(plural(count, unit) for count, unit in parts if count) or "0 seconds"


def guarded(experiment: Experiment) -> Iterator[str]:
    """Every guard that is on, in words; one of which nothing is known as it is written."""
    guards = experiment.guards
    for name, field in type(guards).model_fields.items():
        value, key = getattr(guards, name), field.alias or name
        if value is None or value == {}:
            continue
        if isinstance(value, GoodFloor):
            of = key.partition(".")[0]
            yield f"less than {value.below.text} of its {of}s are good for {words(float(value.for_))}"
        elif isinstance(value, GuardCommand):
            yield (
                f"`{' '.join(value.run)}` ends with an exit code other than 0, or gives no answer within "
                f"{words(float(value.timeout))} (asked every {words(float(value.every))})"
            )
        elif key == "max":
            yield f"its phases take longer than {words(float(value))}"
        elif key == "cluster.red":
            yield f"the cluster is red for longer than {words(float(value))}"
        elif key == "stop_file":
            yield f"the file `{value}` is there"
        elif key == "sli":
            for sli, limit in value.items():
                lasts = "" if limit.for_ is None else f" for {words(float(limit.for_))}"
                yield (
                    f"`{sli}`, as your Prometheus measures it, is {limit.says}{lasts}, or has no value {INTERVALS} "
                    "times in a row"
                )
        else:
            said = value.text if isinstance(value, Duration) else json.dumps(guards.model_dump(mode="json")[name])
            yield f"its guard `{key}` says so ({said})"


def alerts(experiment: Experiment) -> Iterator[str]:
    """Of each SLI that is of alert rules: which, from where, and how often they are evaluated."""
    for name, sli in experiment.slis.items():
        if sli.rules is None:
            continue
        named = [f"{rule.alert} (for {words(rule.for_)})" if rule.for_ else rule.alert for rule in sli.alerts]
        more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
        which = f"{plural(len(named), 'alert')} of {sli.rules}: {', '.join(named[:SHOWN])}{more}"
        yield f"{name} is {which}; evaluated every {sli.every.text} at {sli.prometheus}"


def lines(experiment: Experiment) -> Iterator[str]:
    """Both, as a plan prints them."""
    yield from (f"alerts: {each}" for each in alerts(experiment))
    yield from (f"guard: it stops when {each}" for each in guarded(experiment))
