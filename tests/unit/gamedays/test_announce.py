"""Announcements: what is said, to whom, within which time, and what is never said."""

from __future__ import annotations

import json
import re
import shlex
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import receivers
from hypothesis import given
from hypothesis import strategies as st
from receivers import Receiver, says
from tlskit import authority

from chaos.definitions.gameday import EVENTS, GameDay, GameDayFile
from chaos.gamedays.announce import NAMES, TEXTS, Announcer, Told, label_of, stop_line, wrong_templates

STOP = "ssh chaos@runner touch /run/oschaos/staging.stop"
TOKEN = "glsa_7hV2kQ9xSecretSecret"
PATH = "/services/T0HIDDEN/B0HIDDEN/s3cr3tPartOfIt"


def day_with(*announce: dict[str, Any], folder: Path = Path("."), **changed: Any) -> GameDay:
    file = {
        "apiVersion": "opensearch-chaos/v1",
        "kind": "gameday",
        "name": "staging-tuesday",
        "owner": "team-search <search@example.com>",
        "hypothesis": "One zone may go dark and nobody notices.",
        "target": "staging.yaml",
        "experiments": [{"experiment": "../zone-black-hole.yaml", "rung": "zone"}],
        "window": {"zone": "Europe/Berlin", "days": ["tue"], "from": "10:00", "to": "12:00"},
        "approval": {"allowed_signers": "signers"},
        "ladder": {"waived": "a test has no cluster"},
        "guards": {"users": {"counts": "outcome", "program": {"run": ["true"]}}},
        "announce": list(announce),
        "bounds": {"day": "60m"},
        "stop": {"file": "/run/oschaos/staging.stop", "ssh": "chaos@runner"},
    }
    return GameDay(file="day.yaml", folder=folder, written=GameDayFile.model_validate({**file, **changed}))


class Recorded:
    """What was told to the record, from any thread."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def __call__(self, kind: str, **fields: Any) -> None:
        self.lines.append({"kind": kind, **fields})


def announcer(day: GameDay, recorded: Recorded | None = None) -> Announcer:
    return Announcer(day, STOP, recorded or Recorded(), now=lambda: 1_764_147_603.5)


@pytest.fixture
def well() -> Iterator[Receiver]:
    with receivers.receiver(says(200, "ok")) as it:
        yield it


def told_once(behaviour: receivers.Behaviour, timeout: str = "10s", **fields: Any) -> tuple[Told, list[Any]]:
    recorded = Recorded()
    with receivers.receiver(behaviour) as it:
        day = day_with({"webhook": it.address, "timeout": timeout, **fields})
        (told,) = announcer(day, recorded).tell("begin")
    return told, recorded.lines


# -- what is said --------------------------------------------------------------------------------


def test_a_webhook_gets_all_that_its_docstring_promises(well: Receiver) -> None:
    recorded = Recorded()
    told = announcer(day_with({"webhook": f"{well.address}/hook?to=ops"}), recorded).tell(
        "begin", says="All gates let it begin.", record="gamedays/x", head="9f", digest="1b", rung="zone"
    )
    (asked,) = well.asked
    assert (asked.method, asked.target) == ("POST", "/hook?to=ops")
    text = asked.body.pop("text")
    assert asked.body == {
        "format": 1,
        "event": "begin",
        "at": "2025-11-26T09:00:03Z",
        "gameday": "staging-tuesday",
        "target": "staging",
        "owner": "team-search <search@example.com>",
        "hypothesis": "One zone may go dark and nobody notices.",
        "says": "All gates let it begin.",
        "experiments": ["zone-black-hole (zone)"],
        "window": "10:00 to 12:00 Europe/Berlin",
        "stop": STOP,
        "outcome": None,
        "record": "gamedays/x",
        "head": "9f",
        "digest": "1b",
        "more": {"rung": "zone"},
    }
    assert "staging-tuesday has begun on staging" in text and STOP in text
    assert [(each.way, each.label, each.ok, each.why) for each in told] == [("webhook", "127.0.0.1", True, None)]
    (line,) = recorded.lines
    assert line == {
        "kind": "announced",
        "event": "begin",
        "way": "webhook",
        "label": "127.0.0.1",
        "ok": True,
        "why": None,
        "took_ms": told[0].took_ms,
    }


@pytest.mark.parametrize("event", EVENTS)
def test_each_event_has_sentences_of_its_own_and_a_stoppable_one_says_how(event: Any, well: Receiver) -> None:
    announcer(day_with({"webhook": well.address})).tell(event, says="It is so.")
    text = well.asked[0].body["text"]
    assert "staging-tuesday" in text and "{" not in text
    assert (STOP in text) == (event in ("before", "begin"))
    assert ("It is so." in text) == (event not in ("before", "begin"))


def test_only_those_are_told_that_want_to_know(well: Receiver) -> None:
    recorded = Recorded()
    it = announcer(day_with({"webhook": well.address, "on": ["before", "abort"]}), recorded)
    assert it.tell("begin") == [] and it.tell("end") == []
    assert len(it.tell("abort")) == 1
    assert [line["event"] for line in recorded.lines] == ["abort"]


def test_what_is_not_known_is_no_data_and_null(well: Receiver) -> None:
    announcer(day_with({"webhook": well.address})).tell("end")
    body = well.asked[0].body
    assert body["head"] is None and body["record"] is None and body["says"] is None
    assert "Record: no data, head no data" in body["text"]


def test_own_words_keep_the_way_to_stop_it(well: Receiver) -> None:
    own = {"begin": "Chaos on {target}!", "before": "{stop} stops {name}", "end": "{{over}} {says}"}
    it = announcer(day_with({"webhook": well.address, "templates": own}))
    for event in ("begin", "before", "end"):
        it.tell(event, says="Fine.")
    assert [each.body["text"] for each in well.asked] == [
        f"Chaos on staging!\nTo stop it: {STOP}",
        f"{STOP} stops staging-tuesday",
        "{over} Fine.",
    ]


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("{nobody}", "there is no {nobody}"),
        ("{name.__class__}", "there is no {name.__class__}"),
        ("{name[0]}", "there is no {name[0]}"),
        ("{}", "there is no {}"),
        ("{0}", "there is no {0}"),
        ("{name!r}", "takes no format and no conversion"),
        ("{name:>100000000}", "takes no format and no conversion"),
        ("{name:{says}}", "takes no format and no conversion"),
        ("{name", "braces do not match"),
        ("}", "braces do not match"),
    ],
)
def test_a_wrong_template_is_found_and_never_used(template: str, says: str, well: Receiver) -> None:
    day = day_with({"webhook": well.address, "templates": {"begin": template, "end": "{says}"}})
    (wrong,) = wrong_templates(day)
    assert wrong.startswith("announce[0].templates.begin: ") and says in wrong
    assert announcer(day).tell("begin")[0].ok
    assert "has begun on staging" in well.asked[0].body["text"]


def test_ours_and_right_ones_are_not_wrong() -> None:
    every = " ".join(f"{{{name}}}" for name in NAMES)
    assert wrong_templates(day_with({"slack": "env:X", "templates": {**TEXTS, "end": every}})) == []


@given(st.text(alphabet="{}.[]!:name0_ ", max_size=40))
def test_whatever_stands_in_a_template_is_either_wrong_or_only_names(template: str) -> None:
    day = day_with({"slack": "env:X", "templates": {"end": template or "x"}})
    literal = re.sub(r"\{\{|\}\}", "", template)
    named = re.findall(r"\{(.*?)\}", literal)
    right = all(name in NAMES for name in named) and not re.search(r"[{}]", re.sub(r"\{.*?\}", "", literal))
    if wrong_templates(day) == []:
        assert right


# -- how to stop it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "line"),
    [
        ({"file": "/run/x.stop", "ssh": "chaos@runner"}, "ssh chaos@runner touch /run/x.stop"),
        ({"file": "/run/x.stop"}, "ssh host-1 touch /run/x.stop"),
        ({"file": "/run/x.stop", "ssh": "-oProxyCommand=x"}, "ssh -- -oProxyCommand=x touch /run/x.stop"),
    ],
)
def test_the_stop_line_needs_nothing_of_ours(stop: dict[str, str], line: str) -> None:
    assert stop_line(day_with({"slack": "env:X"}, stop=stop), "host-1") == line


@given(st.text(alphabet=" '\"$`;\\ab&|*", min_size=1, max_size=12))
def test_the_remote_shell_touches_just_the_file(name: str) -> None:
    day = day_with({"slack": "env:X"}, stop={"file": f"/run/{name}", "ssh": "a; reboot"})
    words = shlex.split(stop_line(day, "host-1"))
    assert words[:2] == ["ssh", "a; reboot"]
    assert shlex.split(" ".join(words[2:])) == ["touch", f"/run/{name}"]


# -- who is told, and by what address ------------------------------------------------------------


def test_labels_hold_no_secret() -> None:
    addresses = [
        {"webhook": "https://user.example:8443/a/secret?key=1"},
        {"webhook": "env:HOOK"},
        {"slack": "file:slack.txt"},
        {"grafana": "http://[::1]:3000/grafana"},
    ]
    labels = [label_of(each) for each in day_with(*addresses).written.announce]
    assert labels == ["user.example", "env:HOOK", "file:slack.txt", "::1"]


def test_addresses_and_tokens_stand_elsewhere(well: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slack.txt").write_text(f"{well.address}{PATH}\n")
    monkeypatch.setenv("TOKEN", TOKEN)
    recorded = Recorded()
    day = day_with({"slack": "file:slack.txt"}, {"webhook": well.address + "/w", "token": "env:TOKEN"}, folder=tmp_path)
    assert all(each.ok for each in announcer(day, recorded).tell("begin"))
    by_target = {each.target: each for each in well.asked}
    assert by_target["/w"].headers["authorization"] == f"Bearer {TOKEN}"
    assert "authorization" not in by_target[PATH].headers
    assert by_target[PATH].body["mrkdwn"] is False
    assert TOKEN not in str(recorded.lines) and "HIDDEN" not in str(recorded.lines)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "the environment has no HOOK"),
        ("", "env:HOOK is empty"),
        ("ftp://x.example/hidden", "is none"),
        ("hidden", "is none"),
        ("http://user:hidden@x.example/", "is none"),
        ("http://x.example:hidden/", "cannot be read"),
        ("http://x.example/hid den", "holds characters"),
        ("http://x.example/hid\nden", "is not one line"),
        ("http://x.example/hïdden", "is not one line"),
    ],
)
def test_an_address_that_is_none_is_told_without_it(
    value: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv("HOOK", raising=False)
    else:
        monkeypatch.setenv("HOOK", value)
    (told,) = announcer(day_with({"slack": "env:HOOK"})).tell("before")
    assert not told.ok and says in str(told.why)
    assert "hid" not in str(told.why)


def test_a_token_that_would_be_a_second_header_is_refused(well: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "abc\r\nX-Other: hidden")
    (told,) = announcer(day_with({"webhook": well.address, "token": "env:TOKEN"})).tell("before")
    assert not told.ok and "hidden" not in str(told) and not well.asked


# -- receivers that misbehave --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (says(500, "boom"), "it answers 500: boom"),
        (says(500), "it answers 500"),
        (says(404, "<html>\n<b>no\tsuch\x1b[31m page"), "it answers 404: <html> <b>no such?[31m page"),
        (says(418, "x" * 5000), f"it answers 418: {'x' * 80}"),
        (says(302, "", "Location: http://127.0.0.1:9/"), "it sends elsewhere (302), and redirects are not followed"),
        (says(304), "it sends elsewhere (304), and redirects are not followed"),
        (receivers.closes_at_once, "it closed the connection before an answer"),
        (receivers.closes_within, "its answer is no HTTP, or was cut short"),
        (receivers.is_no_http, "its answer is no HTTP, or was cut short"),
    ],
)
def test_what_a_receiver_does_wrong_is_told(behaviour: receivers.Behaviour, why: str) -> None:
    told, lines = told_once(behaviour)
    assert not told.ok and told.why == why
    assert [(line["ok"], line["why"]) for line in lines] == [(False, why)]


@pytest.mark.parametrize("behaviour", [receivers.hangs, receivers.drips, receivers.drips_its_body])
def test_one_that_gives_no_answer_in_time_is_not_ok(behaviour: receivers.Behaviour) -> None:
    told, lines = told_once(behaviour, timeout="300ms")
    assert not told.ok and told.why == "no answer within 300ms"
    assert len(lines) == 1


def test_a_port_that_nobody_listens_on() -> None:
    with receivers.receiver(says(200)) as it:
        address = it.address
    (told,) = announcer(day_with({"webhook": address})).tell("before")
    assert not told.ok and told.why == "it cannot be reached: Connection refused"


def test_a_name_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str, *_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    (told,) = announcer(day_with({"webhook": "http://nobody.invalid/"})).tell("before")
    assert not told.ok and told.why == "its host's name cannot be resolved"


def test_plain_text_where_tls_is_wanted(well: Receiver) -> None:
    (told,) = announcer(day_with({"webhook": well.address.replace("http:", "https:")})).tell("before")
    assert not told.ok and told.why


def test_over_tls_only_one_with_a_certificate_that_holds_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known_by = authority(tmp_path)
    with receivers.receiver(says(200, "ok"), known_by.served) as it:
        day = day_with({"webhook": it.address})
        (stranger,) = announcer(day).tell("before")
        assert not stranger.ok and stranger.why == "its certificate is not trusted" and not it.asked
        for way in ("webhook", "grafana"):
            own = day_with({way: it.address, "ca": "security/ca.pem"}, folder=tmp_path)
            assert [each.ok for each in announcer(own).tell("before")] == [True]
        monkeypatch.setenv("HOOK", it.address)
        assert announcer(day_with({"slack": "env:HOOK", "ca": str(known_by.ca)})).tell("before")[0].ok
        monkeypatch.setenv("SSL_CERT_FILE", str(known_by.ca))
        (known,) = announcer(day).tell("before")
        assert known.ok and len(it.asked) == 4


@pytest.mark.parametrize("ca", ["nowhere.pem", "text.pem", "."])
def test_a_file_of_whom_to_trust_that_is_none_is_not_ok(ca: str, well: Receiver, tmp_path: Path) -> None:
    (tmp_path / "text.pem").write_text("trust me\n")
    address = well.address.replace("http:", "https:")
    (told,) = announcer(day_with({"webhook": address, "ca": ca}, folder=tmp_path)).tell("before")
    assert not told.ok and "as CA certificates" in str(told.why) and not well.asked


def test_whom_to_trust_is_asked_of_tls_only(well: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", f"{well.address}/hidden")
    (told,) = announcer(day_with({"webhook": "env:HOOK", "ca": "ca.pem"}, folder=tmp_path)).tell("before")
    assert not told.ok and told.why == "certificates mean TLS" and not well.asked


@pytest.mark.parametrize("echo", [TOKEN, PATH, PATH[:20], TOKEN[3:14]])
def test_what_an_answer_repeats_of_a_secret_is_not_repeated(echo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    with receivers.receiver(says(403, f"who is {echo}?")) as it:
        monkeypatch.setenv("HOOK", it.address + PATH)
        (told,) = announcer(day_with({"webhook": "env:HOOK", "token": "env:TOKEN"})).tell("before")
    assert told.why == "it answers 403"


def test_a_secret_across_the_cut_of_a_long_answer_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    with receivers.receiver(says(403, f"{'x' * 75}{TOKEN}")) as it:
        (told,) = announcer(day_with({"webhook": it.address, "token": "env:TOKEN"})).tell("before")
    assert told.why == "it answers 403"


# -- at the same time, and later -----------------------------------------------------------------


def test_all_are_told_at_the_same_time() -> None:
    both = threading.Barrier(2)

    def together(_: Receiver, connection: Any) -> None:
        both.wait(10)
        connection.sendall(receivers.answer(200, "ok"))

    with receivers.receiver(together) as one, receivers.receiver(together) as other:
        told = announcer(day_with({"webhook": one.address}, {"webhook": other.address})).tell("before")
    assert [each.ok for each in told] == [True, True]


def test_one_that_fails_keeps_no_other_from_being_told(well: Receiver) -> None:
    with receivers.receiver(says(500)) as bad:
        told = announcer(day_with({"webhook": bad.address}, {"webhook": well.address})).tell("before")
    assert [each.ok for each in told] == [False, True]
    assert len(well.asked) == 1


def test_telling_later_does_not_wait_and_settling_does() -> None:
    release = threading.Event()

    def when_let_go(_: Receiver, connection: Any) -> None:
        release.wait(20)
        connection.sendall(receivers.answer(200, "ok"))

    recorded = Recorded()
    with receivers.receiver(when_let_go) as it:
        told = announcer(day_with({"webhook": it.address, "timeout": "20s"}), recorded)
        told.tell_later("abort", says="A guard.")
        told.tell_later("end", says="Over.")
        assert recorded.lines == []
        release.set()
        assert [each.ok for each in told.settle(20)] == [True, True]
        assert told.settle(20) == []
    assert sorted(line["event"] for line in recorded.lines) == ["abort", "end"]


def test_one_that_hangs_delays_nothing_and_is_told_once() -> None:
    recorded = Recorded()
    with receivers.receiver(receivers.hangs) as it:
        told = announcer(day_with({"webhook": it.address, "timeout": "2h"}), recorded)
        told.tell_later("abort")
        (each,) = told.settle(0)
    assert not each.ok and "nobody waited" in str(each.why)
    assert [line["ok"] for line in recorded.lines] == [False]


def test_a_record_that_breaks_breaks_nothing_else(well: Receiver) -> None:
    def broken(kind: str, **_: Any) -> None:
        raise OSError("disk full")

    (told,) = Announcer(day_with({"webhook": well.address}), STOP, broken).tell("end")
    assert told.ok


def test_facts_that_cannot_even_be_shown_break_nothing(well: Receiver) -> None:
    class Bad:
        def __str__(self) -> str:
            raise ValueError("no")

    (told,) = announcer(day_with({"webhook": well.address})).tell("end", says=Bad(), experiments=3, odd=Bad())
    assert told.ok and well.asked[0].body["says"] == "?"
    assert well.asked[0].body["experiments"] == ["3"]


# -- Grafana -------------------------------------------------------------------------------------


ADDED = '{"message": "Annotation added", "id": 17}'


def test_an_annotation_becomes_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", TOKEN)
    times = iter([100.0, 160.5, 161.0])
    with receivers.receiver(says(200, ADDED)) as it:
        day = day_with({"grafana": f"{it.address}/grafana/", "token": "env:TOKEN", "tags": ["chaos", "staging"]})
        told = Announcer(day, STOP, Recorded(), now=lambda: next(times))
        assert [told.tell(event, says="<b>so</b>")[0].ok for event in ("begin", "abort", "end")] == [True] * 3
    begin, abort, end = it.asked
    assert (begin.method, begin.target) == ("POST", "/grafana/api/annotations")
    assert begin.headers["authorization"] == f"Bearer {TOKEN}"
    assert begin.body["time"] == 100_000 and "timeEnd" not in begin.body
    assert begin.body["tags"] == ["chaos", "staging", "opensearch-chaos", "staging-tuesday", "begin"]
    assert (abort.method, abort.target) == ("PATCH", "/grafana/api/annotations/17")
    assert abort.body["timeEnd"] == 160_500 and "&lt;b&gt;so&lt;/b&gt;" in abort.body["text"]
    assert (end.method, end.body["timeEnd"]) == ("PATCH", 161_000)


def test_other_events_are_annotations_of_a_moment() -> None:
    with receivers.receiver(says(200, ADDED)) as it:
        told = announcer(day_with({"grafana": it.address}))
        assert all(told.tell(event)[0].ok for event in ("before", "refused"))
    assert [(each.method, "timeEnd" in each.body) for each in it.asked] == [("POST", False)] * 2


def test_where_the_beginning_failed_the_end_is_a_region_all_the_same() -> None:
    times, status = iter([100.0, 160.0]), iter([500, 200])

    def first_badly(_: Receiver, connection: Any) -> None:
        connection.sendall(receivers.answer(next(status), ADDED))

    with receivers.receiver(first_badly) as it:
        told = Announcer(day_with({"grafana": it.address}), STOP, Recorded(), now=lambda: next(times))
        assert [told.tell(event)[0].ok for event in ("begin", "end")] == [False, True]
    last = it.asked[-1]
    assert (last.method, last.body["time"], last.body["timeEnd"]) == ("POST", 100_000, 160_000)


@pytest.mark.parametrize("body", ["", "{}", "[]", '{"id": "../../admin"}', '{"id": true}', '{"id": 1.5}', "[" * 9999])
def test_a_beginning_without_an_id_is_not_ok(body: str) -> None:
    with receivers.receiver(says(200, body)) as it:
        told = announcer(day_with({"grafana": it.address}))
        (begin,) = told.tell("begin")
        assert not begin.ok and "no id" in str(begin.why)
        assert told.tell("end")[0].ok
    assert [each.target for each in it.asked] == ["/api/annotations"] * 2


# -- hostile names, and secrets in facts ---------------------------------------------------------

HOSTILE = "@channel <!here> <@U1> ` ``` *b* \x1b[2J\u202e\r\n& {stop} {0} " + "x" * 9000


def test_hostile_names_are_harmless_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with receivers.receiver(says(200, ADDED)) as it:
        monkeypatch.setenv("SLACK", f"{it.address}/slack")
        day = day_with(
            {"slack": "env:SLACK"},
            {"webhook": f"{it.address}/hook"},
            {"grafana": it.address},
            owner=HOSTILE,
            hypothesis=HOSTILE,
        )
        told = announcer(day).tell("begin", says=HOSTILE, experiments=[HOSTILE] * 60, **{"record": HOSTILE})
    assert all(each.ok for each in told)
    by_target = {each.target: each.body for each in it.asked}
    for body in by_target.values():
        text = body["text"]
        assert text.endswith(f"To stop it: {STOP}") and len(text) < 3000
        assert all(letter.isprintable() or letter in "\n\u200b" for letter in text)
    slack = by_target["/slack"]["text"]
    assert "<" not in slack and ">" not in slack and "`" not in slack and "@channel" not in slack
    assert re.search(r"&(?!amp;|lt;|gt;)", slack) is None
    assert "<" not in by_target["/api/annotations"]["text"]
    assert len(json.dumps(by_target["/hook"])) < 30_000


@given(st.text(max_size=60), st.text(max_size=60))
def test_nothing_of_a_name_is_markup_for_slack(owner: str, happened: str) -> None:
    from chaos.gamedays import announce

    day = day_with({"slack": "env:X"}, owner=owner or "x")
    it = announcer(day)
    known = it._facts({"says": happened, "target": happened}, [])
    text = announce._slack(announce._text("begin", day.written.announce[0], known), known["stop"])["text"]
    assert "<" not in text and ">" not in text and "`" not in text
    assert STOP in text
    assert re.search(r"@\w", text.replace(STOP, "")) is None


def test_a_secret_of_the_day_that_came_into_a_fact_is_taken_out(
    well: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "calendar.token").write_text("calendar-hidden\n")
    monkeypatch.setenv("TOKEN", TOKEN)
    day = day_with(
        {"webhook": well.address, "token": "env:TOKEN"},
        folder=tmp_path,
        freezes=[
            {"ics": "https://calendar.example/x.ics", "token": "file:calendar.token"},
            {"ics": "env:CALENDAR"},
        ],
    )
    monkeypatch.setenv("CALENDAR", "https://calendar.example/private-hidden.ics")
    said = f"it said {TOKEN} and calendar-hidden of https://calendar.example/private-hidden.ics"
    announcer(day).tell("end", says=said, odd=[TOKEN])
    body = json.dumps(well.asked[0].body)
    assert TOKEN not in body and "hidden" not in body
    assert well.asked[0].body["says"] == "it said *** and *** of ***"
