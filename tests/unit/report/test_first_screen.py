"""Whatever decides an outcome is on the first screen: in headline, page, summary, JUnit and console alike.

Over every cause that a reason can have, and over every mutated history of the negative controls. What to do follows
from what decides, too.
"""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from mutations import Stored
from pages import Page
from rich.console import Console
from screens import flat, in_headline
from synthetic import Chapter, Compared, Story, constant, expect, healthy, mixed
from unit.checks import test_disks, test_ends, test_standing, test_usable
from unit.instruments import test_settings

from chaos.checks import evaluate, summary, validity, verdict
from chaos.checks.reasons import Cause
from chaos.checks.record import Record
from chaos.commands import common
from chaos.history import History
from chaos.history.format import Outcome as Arrival
from chaos.history.seal import Look
from chaos.report import answers, junit, markdown, render_html

Made = Story | Stored | History


def history_of(made: Made) -> Any:
    return made.history() if isinstance(made, Story | Stored) else made


def judged(history: Any) -> dict[str, Any]:
    """findings.json of a history."""
    return dict(json.loads(json.dumps(evaluate(history).to_json())))


def screens(history: Any, findings: dict[str, Any], capture: pytest.MonkeyPatch) -> dict[str, str]:
    """What each first screen says of a run: the text of each, and nothing of what lies below it."""
    record = Record(history)
    shown = findings | {"findings": answers.with_targets(findings, record.plan)}
    found = markdown.summary(shown, answers.answers(record, shown))
    page = Page(render_html(history, findings).partition("Parts of this page")[0]).words
    printed = io.StringIO()
    capture.setattr(common, "out", Console(file=printed, width=10_000, highlight=False))
    common.print_verdict("run", Path("nowhere"), findings, report=False)
    suite = ET.fromstring(junit.junit_xml(findings))
    headline = suite.find(".//property[@name='headline']")
    assert headline is not None
    return {
        "summary.md": flat(found.partition("| expectation")[0]),
        "page": flat(page.partition("Good arrivals, by")[0]),
        "console": flat(printed.getvalue().splitlines()[0]),
        "junit": flat(str(headline.get("value"))),
    }


def named(history: Any, capture: pytest.MonkeyPatch) -> tuple[dict[str, Any], str]:
    """Assert that what decides is named on each first screen; returns the reason that decides, and what to do."""
    findings = judged(history)
    decides, says = in_headline(findings)
    for where, words in screens(history, findings, capture).items():
        assert says[1:400].lower() in words.lower(), (where, says, words)
    return decides, to_do(history, findings)


def to_do(history: Any, findings: dict[str, Any] | None = None) -> str:
    findings, record = findings or judged(history), Record(history)
    shown = findings | {"findings": answers.with_targets(findings, record.plan)}
    return answers.answers(record, shown)[-1].answer


# -- every cause ---------------------------------------------------------------------------------


def changed(story: Story, change: Callable[[Story], None]) -> Story:
    change(story)
    return story


def slow(*expected: dict[str, Any]) -> Story:
    story = synthetic.slow_zone()
    if expected:
        story.expect = list(expected)
    return story


def erring() -> Story:
    story = slow()
    story.chapters[1].event(1.0, "error", says="the lab went away")
    return story


def refused() -> Story:
    story = slow()
    story.chapters[0].read = mixed((3, 3.1, 1.0, Arrival.CLIENT_ERROR, 0.01))
    return story


def stopped() -> Story:
    story = synthetic.aborted()
    made = story.mutate

    def by_hand(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        events = made(events) if made else events
        return [event for event in events if event["kind"] != "guard.tripped"]

    story.mutate = by_hand
    return story


def missing_step() -> Story:
    story = slow()
    story.chapters[2].do.append({"kind": "reroute"})
    return story


def never_good() -> Story:
    story = slow(expect("write.good", "<", 0.1, ("slow",)))
    for chapter in story.chapters:
        chapter.write = constant(Arrival.SERVER_ERROR)
    return story


def never_shown() -> Story:
    story = slow(expect("acknowledged.lost", "==", 0), expect("read.good", ">=", 0.9, ("healthy",)))
    story.cas = Compared(change=lambda lines: [])
    return story


def too_little() -> Story:
    return Story(
        chapters=[Chapter("healthy", 20)], rate=2.0, expect=[expect("acknowledged.lost", "==", 0)], name="little"
    )


def pushed() -> Any:
    return test_standing.left("b-data", ("b-data", 3.0, 9.0))


def late_driver() -> Story:
    return changed(slow(), lambda story: setattr(story, "lag", 0.4))


def unsteady() -> Story:
    """Reads that somebody makes late before anything is done, while processors are free."""
    story = slow()
    story.chapters[0].read = mixed((3, 15, 1.0, Arrival.OK, 3.0))
    return story


def starved_and_unsteady() -> Story:
    return changed(unsteady(), lambda story: setattr(story, "starved", ((3.0, 15.0),)))


def unexpected() -> Story:
    story = slow(expect("read.good", ">=", 0.9, ("healthy",)))
    assert story.readback is not None
    story.readback |= {"unexpected": ["x-1", "x-2", "x-3"], "unexpected_count": 3}
    return story


def moved() -> Story:
    story = slow(expect("shards.moved", "==", 0, ("slow",)))
    story.chapters[1].event(20.0, "cluster.shard_moved", index="chaos", shard=1, node="a-data")
    return story


def edited() -> History:
    """A passing run whose read-back somebody changed after its end."""
    history = slow().history()
    says = "history/readback.json is not what the run wrote (SHA-256 differs)"
    history.__dict__["seal"] = Look(True, (says,))
    return history


def full_there() -> Any:
    stored = test_disks.blocked(test_disks.made())
    stored.plan["lab"]["kind"] = "existing"
    return stored.history()


CAUSES: dict[str, tuple[Cause, Callable[[], Any], str]] = {
    "a record that was changed": (Cause.RECORD, edited, "Put the run's folder back"),
    "an error of ours": (Cause.ERROR, erring, "Look at what failed"),
    "the runner died": (Cause.RUNNER_DIED, synthetic.killed, "Look at what failed"),
    "the load was wrong": (Cause.REFUSED, refused, "Correct the load"),
    "a guard": (Cause.GUARD, synthetic.aborted, "what stopped it"),
    "somebody stopped it": (Cause.ABORTED, stopped, "to its end"),
    "a node ended by itself": (
        Cause.PROCESS,
        lambda: test_ends.story(test_ends.fact(**test_ends.ITSELF)),
        "Read what node a-data said last",
    ),
    "a node was ended": (
        Cause.PROCESS,
        lambda: test_ends.story(test_ends.fact()),
        "find out who ended it",
    ),
    "a disk that somebody filled": (
        Cause.DISK,
        lambda: test_disks.made(test_disks.FILLED).history(),
        "Make room on the disk that is named",
    ),
    "a run that was held to one processor": (Cause.USERS, lambda: test_usable.made().history(), "no taskset"),
    "a full disk of a cluster that exists": (Cause.DISK, full_there, "Make room on the cluster's disks"),
    "somebody changed settings": (
        Cause.SETTINGS,
        lambda: test_settings.recorded(test_settings.changed),
        "who else works on the cluster",
    ),
    "nobody watched settings": (
        Cause.SETTINGS,
        lambda: test_settings.recorded(watched=False),
        "why nobody watched the cluster's settings",
    ),
    "a fault that nobody proved": (Cause.FAULT, synthetic.unproven, "why the fault is not proven"),
    "a fault that ended early": (Cause.FAULT, synthetic.vanished, "who changed the fault"),
    "a step that never ran": (Cause.STEP, missing_step, "why this step did not happen"),
    "writes were never good": (Cause.NEVER_GOOD, never_good, "why this was never good"),
    "no answer to a check on data": (Cause.NEVER_SHOWN, never_shown, "were not answered"),
    "too few writes": (Cause.TOO_LITTLE, too_little, "longer phases or more load"),
    "a node that this machine pushed out": (Cause.PUSHED, pushed, "quieter or larger machine"),
    "a driver that was late": (Cause.INSTRUMENT, late_driver, "quieter or larger machine"),
    "reads that were late before any fault": (
        Cause.INSTRUMENT,
        unsteady,
        "what made reads bad before anything was done",
    ),
    "a busy machine before any fault": (Cause.INSTRUMENT, starved_and_unsteady, "quieter or larger machine"),
    "lost writes": (Cause.DATA, lambda: changed(synthetic.lost_writes(), _tidy), "Stop and keep the evidence"),
    "documents that nobody wrote": (Cause.DOCUMENTS, unexpected, "Stop and keep the evidence"),
    "reads and writes": (Cause.USERS, lambda: _without(synthetic.black_hole(), "shards.moved"), "Detect dead nodes"),
    "a fault that did not bite": (Cause.USERS, lambda: _harmless(), "less than the experiment expects"),
    "shards that moved": (Cause.FINDING, moved, ""),
    "a note that is gone": (
        Cause.NOTE,
        lambda: slow(expect("write.good", ">=", 0.999, ("healthy",), known="issue 17")),
        "Clear its note before the next release",
    ),
    "nothing is expected": (Cause.NOTHING_EXPECTED, lambda: Story(chapters=[Chapter("healthy", 20)]), "“expect”"),
    "nothing was read back": (
        Cause.NO_READBACK,
        lambda: changed(slow(expect("read.good", ">=", 0.9, ("healthy",))), lambda s: setattr(s, "readback", None)),
        "why nothing was read back",
    ),
}


def _tidy(story: Story) -> None:
    story.clean = {"clean": True, "detail": []}


def _without(story: Story, metric: str) -> Story:
    story.expect = [each for each in story.expect if each["metric"] != metric]
    return story


def _harmless() -> Story:
    story = slow(expect("write.good", "<", 0.1, ("slow",)))
    story.chapters[1].write = healthy(13)
    return story


@pytest.mark.parametrize("what", CAUSES)
def test_what_decides_is_named_everywhere_and_what_to_do_follows(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cause, make, do = CAUSES[what]
    decides, todo = named(history_of(make()), monkeypatch)
    assert decides["cause"] == cause and do in todo, (decides, todo)


def test_a_broken_check_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("no windows")

    monkeypatch.setattr(verdict, "_measure", broken)
    decides, todo = named(slow().history(), monkeypatch)
    assert decides["cause"] == Cause.CHECK_BROKEN and "Report it" in todo


def test_no_cause_is_left_out() -> None:
    assert {cause for cause, _, _ in CAUSES.values()} | {Cause.CHECK_BROKEN} == set(Cause)


# -- the test itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["documents that nobody wrote", "somebody changed settings", "lost writes"])
def test_a_headline_that_tells_something_else_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "told", lambda *_: ("Reads and writes held.", "No acknowledged write was lost."))
    with pytest.raises(AssertionError):
        named(history_of(CAUSES[what][1]()), monkeypatch)


# -- plain words ---------------------------------------------------------------------------------


@pytest.mark.parametrize("what", CAUSES)
def test_a_headline_is_plain(what: str) -> None:
    findings = evaluate(history_of(CAUSES[what][1]()))
    first = findings.headline
    assert not re.search(r"[<>]=|==", first) and "does not count" not in first
    assert not re.search(r"\b(?:read|write|recovery|shards|acknowledged|documents|visible)\.[a-z]", first)
    assert not re.search(r"percentile|quantile|\blags?\b|\bticks?\b|the limit is", first)


def test_users_who_bore_much_are_told_what_helps_though_all_was_as_expected() -> None:
    story = _without(synthetic.black_hole(), "")
    story.expect = [expect("acknowledged.lost", "==", 0)]
    said = to_do(story.history())
    assert said.startswith("It held as was asked. Users bore 6") and "detect dead nodes sooner" in said


def audited(story: Story, *ids: str) -> History:
    history = story.history()
    rows = [{"id": id, "status": "fail", "title": f"Row {id}", "value": f"{id} is 62 s"} for id in ids]
    history.__dict__["audit"] = {"rows": [{"id": "zones", "status": "ok", "title": "Zones"}, *rows]}
    return history


def last_answer(history: History) -> answers.Answer:
    record, findings = Record(history), judged(history)
    shown = findings | {"findings": answers.with_targets(findings, record.plan)}
    return answers.answers(record, shown)[-1]


def test_a_checklist_that_failed_is_something_to_do_and_what_bears_on_the_faults_comes_first() -> None:
    said = to_do(audited(slow(), "managers.size", "protection.search", "detection"))
    assert said == "It held. Now mend what fails on the checklist: “Row detection” (detection is 62 s)"


def test_how_small_a_lab_is_is_nothing_to_mend_and_what_is_too_small_elsewhere_is() -> None:
    assert "checklist" not in to_do(audited(slow(), "managers.size", "storage"))
    theirs = audited(slow(), "managers.size")
    theirs.plan["lab"] = {**theirs.plan["lab"], "shares_processors": False}
    assert "“Row managers.size”" in to_do(theirs)


def test_a_weakness_names_what_fails_on_the_checklist_too() -> None:
    links = last_answer(audited(synthetic.black_hole(), "detection")).links
    assert "1 row of the checklist failed" in [link.text for link in links]


def test_a_checklist_that_nobody_read_is_told() -> None:
    story = slow(expect("acknowledged.lost", "==", 0))
    for chapter in story.chapters:
        chapter.write = chapter.read
    said = last_answer(story.history())
    assert said.answer.startswith("Nothing.") and said.details == ("The checklist of the cluster was not read",)


@pytest.mark.parametrize(("clean", "says"), [({"clean": False, "detail": ["x"]}, "Clean up first"), (None, "Nobody")])
def test_a_clean_up_that_failed_or_that_nobody_knows_of_comes_before_anything_else(
    clean: dict[str, Any] | None, says: str
) -> None:
    story = slow()
    story.clean = clean
    assert to_do(story.history()).startswith(says)


def test_every_condition_on_the_instruments_has_plain_words() -> None:
    story = slow()
    story.controllers = ("a", "b", "c")
    known = {each.id.partition(".")[0] for each in validity.conditions(Record(story.history()))}
    assert known <= set(validity.PLAINLY) and {"lag", "cpu", "machine", "pulse", "runner", "steady"} <= known
    for words in validity.PLAINLY.values():
        assert (not re.search(r"percentile|\blags?\b|[<>=]", words) and words[0].islower()) or words.startswith("{op}")
