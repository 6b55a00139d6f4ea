"""Alerts: what is seen of them, and what that is worth. A late alert is none, and no data never passes."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from answering import answering
from gamedaykit import Clock, Lines
from hypothesis import assume, given
from hypothesis import strategies as st

from chaos.base.errors import InvalidInput
from chaos.base.units import Duration
from chaos.gamedays.alerts import (
    Alerts,
    AlertWatch,
    Firing,
    Moment,
    Seen,
    Sightings,
    Standing,
    Verdict,
    judged,
    read_alertmanager,
    read_prometheus,
    watched_until,
)
from chaos.gamedays.outside import Unanswered
from chaos.opensearch.rest import UNREADABLE
from chaos.targets.labs.processes import wait_until

EVERY = 5.0
DARK = Moment("zone", "dark", effect=1002.0, undone=1062.0, begun=1001.0)
"""Between two questions, which are put at 1000, 1005 and so on."""
EXPECTED = {"name": "ZoneDown", "experiment": "zone", "phase": "dark", "fires_within": "20s", "resolves_within": "30s"}


def alerts(**given: Any) -> Alerts:
    return Alerts.model_validate({"prometheus": "http://127.0.0.1:9", "expect": [EXPECTED], **given})


def standing(name: str = "ZoneDown", firing: bool = True, **labels: str) -> Standing:
    return Standing(name, labels, firing)


Answers = Sequence[Sequence[Standing] | None]


def seen(answers: Answers, began: float = 1000.0) -> Seen:
    """What was seen in these answers, one every five seconds; None: nobody answered."""
    made, at = Sightings(began), began
    for number, answer in enumerate(answers):
        at = began + number * EVERY
        if answer is None:
            made.missed()
        else:
            made.answered(at, answer)
    return made.seen(at)


def firing(first: int, last: int, length: int = 24, **labels: str) -> list[list[Standing] | None]:
    """Answers of which those from ``first`` to ``last`` have the alert that is expected."""
    return [[standing(**labels)] if first <= number <= last else [] for number in range(length)]


def said(found: list[Verdict], kind: str) -> tuple[str, str]:
    (one,) = [each for each in found if each.kind == kind]
    return one.verdict, one.says


# --------------------------------------------------------------------------------------------- judging


def test_an_alert_that_fires_and_resolves_in_time_passes() -> None:
    found = judged(alerts(), seen(firing(3, 14)), [DARK])
    assert said(found, "fires") == ("pass", "it fired 13 s after the fault was in effect")
    assert said(found, "resolves") == ("pass", "it resolved 13 s after the fault was undone")


@pytest.mark.parametrize(
    ("answers", "verdict", "says"),
    [
        (firing(99, 99), "weakness", "a silent alert: it did not fire within 20s of the fault"),
        (firing(6, 14), "weakness", "it fired 28 s after the fault was in effect, not in 20s"),
        (firing(5, 14), "inconclusive", "it fired after 20s or a little sooner"),  # last asked for 18 s after
        (firing(4, 14), "pass", "it fired 18 s after the fault was in effect"),
        (firing(1, 14), "pass", "it fired 3 s after"),
        (firing(0, 14), "inconclusive", "it fired already before the fault"),
        ([None, *firing(1, 14, 23)], "inconclusive", "not all was seen between"),
        ([[], None, None, *firing(0, 9, 21)], "inconclusive", "not all was seen between"),
        ([[], None, None, None, None, *firing(99, 99, 19)], "inconclusive", "but nobody answered for 20 s of its 20s"),
        ([[], None, *firing(99, 99, 22)], "weakness", "a silent alert"),
        (firing(99, 99, 4), "inconclusive", "was not watched for all of its 20s"),
        ([None] * 24, "inconclusive", "was not watched for all of its 20s"),
        ([], "inconclusive", "was not watched for all of its 20s"),
    ],
)
def test_whether_it_fires(answers: Answers, verdict: str, says: str) -> None:
    found = said(judged(alerts(), seen(answers), [DARK]), "fires")
    assert found[0] == verdict and says in found[1]


@pytest.mark.parametrize(
    ("answers", "verdict", "says"),
    [
        (firing(3, 99), "weakness", "it was still firing 53 s after the fault was undone, not 30s"),
        (firing(3, 20), "weakness", "it resolved 43 s after the fault was undone, not in 30s"),
        (firing(3, 18), "inconclusive", "it resolved after 30s or a little sooner"),
        ([*firing(3, 14, 14), None, None, None, *firing(0, 9, 7)], "inconclusive", "nobody answered for 20 s"),
        (firing(3, 17), "pass", "it resolved 28 s after the fault was undone"),
        (firing(3, 5), "pass", "it resolved before the fault was undone"),
        (firing(3, 99, 18), "inconclusive", "it was still firing when it was last asked for"),
        (firing(99, 99), "inconclusive", "it did not fire, so it had nothing to resolve"),
        (firing(0, 14), "inconclusive", "it fired already before the fault"),
        ([*firing(3, 14, 14), None, None, [], [], []], "inconclusive", "not all was seen between"),
        ([*firing(3, 5, 12), None, [], []], "inconclusive", "not all was seen between"),  # it may fire again unseen
        ([*firing(3, 5, 8), *firing(1, 99, 16)], "weakness", "it was still firing"),
    ],
)
def test_whether_it_resolves(answers: Answers, verdict: str, says: str) -> None:
    found = said(judged(alerts(), seen(answers), [DARK]), "resolves")
    assert found[0] == verdict and says in found[1]


@pytest.mark.parametrize(
    "moments",
    [
        [],
        [Moment("other", "dark", 1002.0, 1062.0)],
        [Moment("zone", "light", 1002.0, 1062.0)],
        [Moment("zone", "dark", None, None)],
        [Moment("zone", "dark", None, 1062.0, begun=1001.0)],
    ],
)
def test_a_fault_that_was_not_proven_is_inconclusive(moments: list[Moment]) -> None:
    found = judged(alerts(), seen(firing(3, 14)), moments)
    assert [each.verdict for each in found] == ["inconclusive"] * 2
    assert "was not proven to be in effect" in found[0].says


def test_a_fault_that_is_gone_before_the_alerts_time_is_up_is_inconclusive() -> None:
    short = Moment("zone", "dark", 1002.0, 1012.0)
    verdict, says = said(judged(alerts(), seen(firing(99, 99)), [short]), "fires")
    assert verdict == "inconclusive" and says.endswith("the fault was undone after 10 s, before its 20s were up")
    assert said(judged(alerts(), seen(firing(3, 4)), [short]), "fires")[0] == "pass"


def test_an_undo_that_was_not_proven_is_inconclusive() -> None:
    found = judged(alerts(), seen(firing(3, 14)), [Moment("zone", "dark", 1002.0, None)])
    assert said(found, "resolves") == ("inconclusive", "the fault was not proven to be undone")


def test_labels_tell_alerts_of_one_name_apart_and_all_of_them_must_resolve() -> None:
    expect = [{**EXPECTED, "labels": {"zone": "a"}}]
    answers = seen(firing(3, 14, zone="b", node="1"))
    assert said(judged(alerts(expect=expect), answers, [DARK]), "fires")[0] == "weakness"
    both = [[standing(zone="a", node="1"), standing(zone="a", node="2")]] * 12
    one = [[standing(zone="a", node="2")]] * 20
    found = judged(alerts(expect=expect), seen([[], [], *both, *one]), [DARK])
    assert said(found, "fires")[0] == "pass" and said(found, "resolves")[0] == "weakness"


def test_an_experiment_that_ran_twice_is_judged_twice() -> None:
    again = Moment("zone", "dark", 1102.0, 1162.0)
    found = judged(alerts(), seen(firing(3, 14, 50)), [DARK, again])
    assert [(each.kind, each.verdict) for each in found] == [
        ("fires", "pass"),
        ("resolves", "pass"),
        ("fires", "weakness"),
        ("resolves", "inconclusive"),
    ]
    assert watched_until(alerts(), [DARK, again]) == 1192.0
    assert watched_until(alerts(), [Moment("zone", "dark", None, None)]) is None


def test_a_silenced_alert_fires_and_nobody_is_told() -> None:
    muted = Standing("ZoneDown", {}, True, ("silenced",))
    found = judged(alerts(), seen([[], [], [muted], [muted], []] + [[]] * 19), [DARK])
    assert said(found, "fires") == (
        "pass",
        "it fired 8 s after the fault was in effect, but it was silenced: nobody was told",
    )


# ---------------------------------------------------------------------------------------------- others


def others(answers: Answers, most: int = 0, moments: Sequence[Moment] = (DARK,), **given: Any) -> tuple[str, str]:
    return said(judged(alerts(others=most, **given), seen(answers), moments), "others")


def test_others_that_nobody_expected_are_a_weakness_each_by_its_name() -> None:
    slow, full = standing("SlowSearch", shard="1"), standing("Disk\x1b[2J\nFull")
    answers: Answers = [[], [slow], [slow, standing("SlowSearch", shard="2")], [full], []]
    verdict, says = others(answers)
    assert verdict == "weakness"
    assert says == "SlowSearch (2 of it) and Disk?[2J?Full fired, which nobody expected (at most 0 may)"
    assert others(answers, most=3)[0] == "pass"


def test_what_is_expected_ignored_or_older_than_the_day_is_none_of_the_others() -> None:
    watchdog, old = standing("Watchdog"), standing("Old")
    answers: Answers = [[old, watchdog], [old, watchdog, standing()], [watchdog], [old, watchdog], []]
    assert others(answers, ignore=["Watchdog"]) == ("pass", "no others fired")
    expect = [{**EXPECTED, "labels": {"zone": "a"}}]
    assert others(answers, ignore=["Watchdog"], expect=expect)[0] == "weakness"  # of the right name, and another zone
    assert others([[], [standing("Other", firing=False)], []])[0] == "pass"  # pending is not firing


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([], "nobody answered what alerts fire"),
        ([None, None], "nobody answered what alerts fire"),
        ([[], None, []], "nobody answered what alerts fire for up to 10 s"),
        ([[], [], None], "nobody answered what alerts fire for up to 5 s"),
        ([None, [standing("Other")], []], "it was not asked for before the first fault began"),
    ],
)
def test_no_data_of_others_is_inconclusive(answers: Answers, says: str) -> None:
    assert others(answers) == ("inconclusive", says)


def test_others_that_were_seen_are_a_weakness_whatever_else_was_not() -> None:
    assert others([[], None, [standing("Other")], None])[0] == "weakness"


# ------------------------------------------------------------------------------------------------ laws

answer = st.lists(st.sampled_from([standing(node="1"), standing(node="2"), standing("Other")]), max_size=3)
days = st.lists(st.none() | answer, min_size=1, max_size=14)


@st.composite
def moment_in_a_day(draw: st.DrawFn) -> Moment:
    begun = draw(st.integers(998, 1030))
    effect = begun + draw(st.integers(0, 8))
    undone = draw(st.none() | st.integers(effect, effect + 40))
    return Moment("zone", "dark", float(effect), None if undone is None else float(undone), float(begun))


SHORT = alerts(expect=[{**EXPECTED, "fires_within": "12s", "resolves_within": "12s"}], others=0)


@given(days, moment_in_a_day(), st.data())
def test_to_lose_data_never_makes_a_pass(day: list[list[Standing] | None], moment: Moment, data: st.DataObject) -> None:
    before = judged(SHORT, seen(day), [moment])
    lost = data.draw(st.sets(st.integers(0, len(day) - 1), min_size=1))
    after = judged(SHORT, seen([None if n in lost else each for n, each in enumerate(day)]), [moment])
    for was, now in zip(before, after, strict=True):
        assert now.verdict != "pass" or was.verdict == "pass", (was, now)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), moment_in_a_day())
def test_a_later_firing_never_makes_a_pass_of_a_weakness(first: int, lasts: int, later: int, moment: Moment) -> None:
    told = seen(firing(first, first + lasts, 60))
    assert moment.effect is not None
    assume(told.firings[0].fired >= moment.effect)  # one that is over before the fault is none of its
    early = judged(SHORT, told, [moment])
    late = judged(SHORT, seen(firing(first + later, first + later + lasts, 60)), [moment])
    assert said(early, "fires")[0] != "weakness" or said(late, "fires")[0] != "pass"


@given(st.integers(1, 20), st.integers(0, 20), st.integers(0, 20), moment_in_a_day())
def test_a_later_resolution_never_makes_a_pass_of_a_weakness(
    first: int, lasts: int, later: int, moment: Moment
) -> None:
    told = seen(firing(first, first + lasts, 60))
    assert moment.effect is not None
    assume(told.firings[0].fired >= moment.effect)  # one that is over before the fault is none of its
    early = judged(SHORT, told, [moment])
    late = judged(SHORT, seen(firing(first, first + lasts + later, 60)), [moment])
    assert said(early, "resolves")[0] != "weakness" or said(late, "resolves")[0] != "pass"


@given(days)
def test_what_was_seen_survives_being_written_down(day: list[list[Standing] | None]) -> None:
    made = seen(day)
    assert Seen.from_json(json.loads(json.dumps(made.to_json()))) == made


@given(days)
def test_gaps_and_firings_are_in_order_and_within_the_time(day: list[list[Standing] | None]) -> None:
    made = seen(day)
    assert all(made.began <= start <= end <= made.ended for start, end in made.gaps)
    assert all(left[1] <= right[0] for left, right in zip(made.gaps, made.gaps[1:], strict=False))
    for each in made.firings:
        assert (each.before is None) == (each.fired == made.first)
        assert each.fired <= each.still and (each.resolved is None or each.still < each.resolved)
    assert (made.first is None) == (not any(each is not None for each in day))


# ---------------------------------------------------------------------------------------------- asking

PROMETHEUS = {
    "status": "success",
    "data": {
        "alerts": [
            {
                "labels": {"alertname": "ZoneDown", "zone": "a", "severity": "page"},
                "annotations": {"summary": "a zone is down"},
                "state": "firing",
                "activeAt": "2026-09-22T10:00:00.123456789Z",
                "value": "1e+00",
            },
            {
                "labels": {"alertname": "SlowSearch"},
                "annotations": {},
                "state": "pending",
                "activeAt": "2026-09-22T10:00:01Z",
                "value": "2e-01",
            },
        ]
    },
}
"""As a Prometheus 2.42 answers."""
ALERTMANAGER = [
    {
        "annotations": {},
        "endsAt": "2026-09-22T10:05:00.000Z",
        "fingerprint": "66d7c8a1e8a1b3c4",
        "receivers": [{"name": "page"}],
        "startsAt": "2026-09-22T10:00:00.000Z",
        "status": {"inhibitedBy": [], "silencedBy": ["8a1b"], "state": "suppressed"},
        "updatedAt": "2026-09-22T10:01:00.000Z",
        "generatorURL": "http://prometheus.example:9090/graph",
        "labels": {"alertname": "ZoneDown", "zone": "a"},
    },
    {"labels": {"severity": "page"}, "status": {"state": "active", "silencedBy": [], "inhibitedBy": []}},
]
"""As its published API (api/v2/openapi.yaml) has it; the second one without what is not read."""


def test_what_servers_answer() -> None:
    assert read_prometheus(PROMETHEUS) == [
        Standing("ZoneDown", {"zone": "a", "severity": "page"}, True),
        Standing("SlowSearch", {}, False),
    ]
    assert read_alertmanager(ALERTMANAGER) == [
        Standing("ZoneDown", {"zone": "a"}, True, ("silenced",)),
        Standing("(no name)", {"severity": "page"}, True),
    ]


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.sampled_from(["success", "firing", "active"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["status", "data", "alerts", "labels", "state", "warnings"]), inner)
    ),
    max_leaves=10,
)


@given(json_like)
def test_whatever_comes_is_alerts_or_no_answer(body: Any) -> None:
    for read in (read_prometheus, read_alertmanager):
        try:
            assert all(isinstance(each, Standing) for each in read(body))
        except (Unanswered, *UNREADABLE):
            pass


def rules(off: float = 0.0) -> dict[str, Any]:
    """Rules as they are now; ``off``: seconds from now at which they were evaluated."""
    at = datetime.fromtimestamp(time.time() + off, UTC).isoformat().replace("+00:00", "123Z")  # nanoseconds
    each = [
        {"name": name, "health": health, "lastEvaluation": at}
        for name, health in (("ZoneDown", "ok"), ("Broken", "err"))
    ]
    return {"status": "success", "data": {"groups": [{"interval": 60, "rules": each}]}}


def with_rules(reply: Callable[[], tuple[int, Any]], off: float = 0.0) -> Callable[[str], tuple[int, Any]]:
    """A Prometheus that answers so when it is asked for alerts."""

    def answer(path: str) -> tuple[int, Any]:
        return (200, rules(off)) if "/rules" in path else reply()

    return answer


def watch(url: str, lines: Lines, folder: Path, **given: Any) -> AlertWatch:
    made = alerts(prometheus=url, **given).model_copy(update={"every": Duration(0.1)})
    return AlertWatch(made, folder, lines)


@pytest.mark.parametrize(
    ("name", "why"),
    [("ZoneDown", None), ("ZoneDwon", "it has no rule for the alert ZoneDwon"), ("Broken", "it cannot evaluate its")],
)
def test_an_alert_without_a_rule_is_found_before_the_day(name: str, why: str | None, tmp_path: Path) -> None:
    with answering(with_rules(lambda: (200, PROMETHEUS))) as server:
        made = alerts(prometheus=f"{server.url}/prom/", expect=[{**EXPECTED, "name": name}])
        found = AlertWatch(made, tmp_path, Lines()).ready()
    assert found == why if why is None else found is not None and found.startswith(why)
    asked = ["/prom/api/v1/alerts", "/prom/api/v1/rules?type=alert", "/prom/api/v1/rules?type=alert"]
    assert [path for path, _ in server.asked] == asked


@pytest.mark.parametrize(
    ("off", "headers", "others", "why"),
    [
        (-200, {}, None, None),
        (-3600, {}, None, "its rule for the alert ZoneDown was evaluated 36"),
        (-3600, {}, 0, "its rule for the alert ZoneDown was evaluated 36"),
        (86400, {}, None, "its rule for the alert ZoneDown was evaluated 86"),
        (0, {"Age": "3600"}, None, "a cache answered with what is 3600 s old"),
        (0, {"Date": None}, None, "it does not say when it answered: there is no Date in its headers"),
    ],
)
def test_alerts_of_another_time_are_no_answer(
    off: float, headers: dict[str, str | None], others: int | None, why: str | None, tmp_path: Path
) -> None:
    """A Prometheus whose rules stand still answers at once, with the alerts of then."""
    with answering(with_rules(lambda: (200, PROMETHEUS), off)) as server:
        server.headers = headers
        found = AlertWatch(alerts(prometheus=server.url, expect=[EXPECTED], others=others), tmp_path, Lines()).ready()
    assert str(found).startswith(str(why))


def test_an_alertmanager_behind_a_cache_is_no_answer(tmp_path: Path) -> None:
    with answering(lambda path: (200, [])) as server:
        made = alerts(prometheus=None, alertmanager=server.url)
        assert AlertWatch(made, tmp_path, Lines()).ready() is None
        server.headers = {"Age": "61"}
        assert AlertWatch(made, tmp_path, Lines()).ready() == "a cache answered with what is 61 s old"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((503, b"overloaded"), "it answers 503"),
        ((302, b""), "it answers 302"),
        ((200, b"<html>"), "its answer is no JSON"),
        ((200, []), "its answer cannot be read: TypeError"),
        ((200, {"status": "error"}), "it answers with an error"),
        ((200, {**PROMETHEUS, "warnings": ["a store is gone"]}), "it warns that the answer may not be whole"),
    ],
)
def test_who_cannot_be_asked_is_not_ready(reply: tuple[int, Any], why: str, tmp_path: Path) -> None:
    with answering(lambda path: reply) as server:
        assert str(AlertWatch(alerts(prometheus=server.url), tmp_path, Lines()).ready()).startswith(why)


def test_nobody_there_and_no_secret_are_not_ready_either(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert "cannot be reached" in str(AlertWatch(alerts(prometheus=url), tmp_path, Lines()).ready())
    secret = AlertWatch(alerts(prometheus=url, access={"token": "file:none"}), tmp_path, Lines())
    assert "cannot read the secret" in str(secret.ready())
    with pytest.raises(InvalidInput):
        secret.start()
    assert secret.seen().first is None


def test_a_watch_sees_an_alert_come_and_go_and_what_nobody_answered(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    now: dict[str, Any] = {"reply": (200, {"status": "success", "data": {"alerts": []}})}
    lines = Lines()

    def told(state: str) -> bool:
        return any(line["name"] == "ZoneDown" and line["state"] == state for line in lines.told)

    with answering(with_rules(lambda: now["reply"])) as server:
        made = watch(server.url, lines, tmp_path, access={"token": "file:token"})
        made.start()
        made.start()
        assert wait_until(lambda: made.seen().first is not None, 60)
        now["reply"] = (200, PROMETHEUS)
        assert wait_until(lambda: told("firing"), 60)
        gaps = len(made.seen().gaps)
        now["reply"] = (500, b"")
        assert wait_until(lambda: len(made.seen().gaps) > gaps, 60)
        now["reply"] = (200, {"status": "success", "data": {"alerts": []}})
        assert wait_until(lambda: told("resolved"), 60)
        made.stop()
        made.stop()
    assert server.asked[0][1]["authorization"] == "Bearer s3cret"
    found = made.seen()
    (one,) = found.firings
    assert (one.name, dict(one.labels)) == ("ZoneDown", {"zone": "a", "severity": "page"})
    assert one.before is not None and one.resolved is not None and one.before < one.fired < one.resolved
    assert any(start < one.resolved and one.still <= end for start, end in found.gaps)
    assert [line["state"] for line in lines.told if line["name"] == "ZoneDown"] == ["firing", "resolved"]
    assert {"kind", "name", "labels", "state", "at"} == set(lines.told[0])
    assert [line["state"] for line in lines.told if line["name"] == "SlowSearch"] == ["pending"]


def test_one_answer_that_fails_is_asked_for_again_before_it_is_a_gap(tmp_path: Path) -> None:
    turns = iter(range(10**6))
    empty = {"status": "success", "data": {"alerts": []}}
    with answering(with_rules(lambda: (200, empty) if next(turns) % 2 else (500, b""))) as server:
        made = AlertWatch(alerts(prometheus=server.url, every="1s"), tmp_path, Lines(), now=Clock())
        made._sightings = Sightings(1000.0)
        asked = _asked(made)
        assert made._turn(asked, 1001.0)
        asked.close()
    assert made._sightings.seen(1001.0).gaps == ()


def _asked(made: AlertWatch) -> Any:
    from chaos.gamedays.alerts import Asked

    return Asked(made._alerts, made._folder)


def test_a_watch_that_nobody_answers_any_more_shows_a_gap_until_its_end(tmp_path: Path) -> None:
    lines = Lines()
    now: dict[str, Any] = {"reply": (200, PROMETHEUS)}

    def unanswered() -> bool:
        seen = made.seen()
        return bool(seen.gaps) and seen.gaps[-1][0] == seen.last

    with answering(with_rules(lambda: now["reply"])) as server:
        made = watch(server.url, lines, tmp_path)
        made.start()
        assert wait_until(lambda: made.seen().first is not None, 60)
        now["reply"] = (200, None)  # connections that live are answered after the server is closed
        assert wait_until(unanswered, 60)
        made.stop()
    found = made.seen()
    assert found.gaps[-1] == (found.last, found.ended)
    assert isinstance(found.firings[0], Firing) and found.firings[0].resolved is None
