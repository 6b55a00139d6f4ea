"""A game day's guards and alerts on a real Prometheus, with one rule, and on a real Alertmanager."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from gamedaykit import Lines, with_guards
from prometheuskit import FRESH, PATIENCE, Monitoring, alertmanager, alertmanager_needed, monitored, needed

from chaos.definitions.gameday import Guard
from chaos.gamedays.alerts import Alerts, AlertWatch, Moment, judged
from chaos.gamedays.outside import Outside
from chaos.targets.labs.processes import wait_until

pytestmark = needed
EXPECTED = {"name": "CheckoutErrors", "experiment": "zone", "phase": "dark", "labels": {"severity": "page"}}


@pytest.fixture
def monitoring(tmp_path: Path) -> Iterator[Monitoring]:
    with monitored(tmp_path) as made:
        yield made


def guard(url: str, query: str = "checkout_errors_ratio") -> Guard:
    asked = {"url": url, "query": query, "fresh": FRESH, "oldest": "5s"}
    return Guard.model_validate(
        {"counts": "outcome", "prometheus": asked, "above": "1%", "every": "1s", "timeout": "1s"}
    )


def test_a_guard_is_good_then_bad_then_knows_nothing(monitoring: Monitoring, tmp_path: Path) -> None:
    made = Outside(with_guards(tmp_path, users=guard(monitoring.url)), Lines())

    def state() -> str:
        return made.ready()[0][1].state

    assert wait_until(lambda: state() == "good", PATIENCE)
    monitoring.exporter.ratio = 0.02
    assert wait_until(lambda: state() == "bad", PATIENCE)
    monitoring.exporter.shut()
    assert wait_until(lambda: state() == "none", PATIENCE)
    assert "no series" in str(made.ready()[0][1].why)


def test_a_prometheus_that_stands_still_ends_the_day(monitoring: Monitoring, tmp_path: Path) -> None:
    lines = Lines()
    made = Outside(with_guards(tmp_path, users=guard(monitoring.url)), lines)
    made.start()
    try:
        assert wait_until(lambda: any(line["state"] == "good" for line in lines.told), PATIENCE)
        os.kill(monitoring.process.pid, signal.SIGSTOP)
        # nothing was heard in time is said by whom looks at it late; here only what was heard counts
        assert wait_until(lambda: made.trips[0].tripped(0.0) is not None, PATIENCE)
        assert "users said nothing 3 times in a row (no answer in time)" in str(made.trips[0].tripped(0.0))
    finally:
        os.kill(monitoring.process.pid, signal.SIGCONT)
        made.stop()


def wanted(**server: str) -> Alerts:
    expect = [{**EXPECTED, "fires_within": "60s", "resolves_within": "60s"}]
    return Alerts.model_validate({**server, "every": "1s", "expect": expect, "others": 0})


def fires_and_resolves(watch: AlertWatch, monitoring: Monitoring, lines: Lines) -> Moment:
    """The fault of a day: errors, until the alert fires, and then none until it is over."""

    def told(state: str) -> bool:
        return any((line["name"], line["state"]) == ("CheckoutErrors", state) for line in lines.told)

    watch.start()
    assert wait_until(lambda: watch.seen().first is not None, PATIENCE)
    effect = watch.seen().ended
    monitoring.exporter.ratio = 0.02
    assert wait_until(lambda: told("firing"), PATIENCE)
    undone = watch.seen().ended
    monitoring.exporter.ratio = 0.001
    # Prometheus tells an Alertmanager at once that an alert is over
    assert wait_until(lambda: told("resolved"), 2 * PATIENCE)
    watch.stop()
    return Moment("zone", "dark", effect, undone)


def test_an_alert_of_a_real_rule_fires_and_resolves(monitoring: Monitoring, tmp_path: Path) -> None:
    lines, alerts = Lines(), wanted(prometheus=monitoring.url)
    watch = AlertWatch(alerts, tmp_path, lines)
    assert wait_until(lambda: watch.ready() is None, PATIENCE), watch.ready()
    moment = fires_and_resolves(watch, monitoring, lines)
    seen = watch.seen()
    (one,) = seen.firings
    assert dict(one.labels)["severity"] == "page" and one.resolved is not None
    verdicts = {each.kind: each.verdict for each in judged(alerts, seen, [moment])}
    # on a busy machine a question may go unanswered, and then nothing passes
    assert verdicts["others"] == ("inconclusive" if seen.gaps else "pass")
    assert "weakness" not in verdicts.values() and (seen.gaps or set(verdicts.values()) == {"pass"})
    another = alerts.model_copy(update={"expect": (alerts.expect[0].model_copy(update={"name": "ZoneDown"}),)})
    assert AlertWatch(another, tmp_path, lines).ready() == "it has no rule for the alert ZoneDown"
    silent = judged(another, seen, [moment])
    assert silent[0].verdict != "pass" and silent[-1].verdict == "weakness" and "CheckoutErrors" in silent[-1].says


@pytest.mark.full  # tests/unit/gamedays/test_outside.py
@alertmanager_needed
def test_an_alertmanager_tells_of_alerts_that_somebody_silenced(tmp_path: Path) -> None:
    with alertmanager(tmp_path) as url, monitored(tmp_path, tells=url) as monitoring:
        lines, alerts = Lines(), wanted(alertmanager=url)
        watch = AlertWatch(alerts, tmp_path, lines)
        assert wait_until(lambda: watch.ready() is None, PATIENCE), watch.ready()
        silence: dict[str, Any] = {
            "matchers": [{"name": "alertname", "value": "CheckoutErrors", "isRegex": False, "isEqual": True}],
            "startsAt": "2000-01-01T00:00:00Z",
            "endsAt": "2100-01-01T00:00:00Z",
            "createdBy": "a test",
            "comment": "who silences an alert does not hide it from a game day",
        }
        headers = {"content-type": "application/json"}
        answer = urllib3.request("POST", f"{url}/api/v2/silences", body=json.dumps(silence), headers=headers)
        assert answer.status == 200, answer.data
        moment = fires_and_resolves(watch, monitoring, lines)
        seen = watch.seen()
        (one,) = seen.firings
        assert one.muted == ("silenced",)
        fires = judged(alerts, seen, [moment])[0]
        assert fires.verdict == ("inconclusive" if seen.gaps else "pass")
        assert seen.gaps or "it was silenced: nobody was told" in fires.says
