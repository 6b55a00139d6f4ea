"""More attempts at gates, where a module of its own holds them: windows, calendars, signatures, tickets, guards, locks.

Signatures are made by ssh-keygen with real keys, calendars are real files; a ticket's answer is handed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import signkit
from documents import INDEX, WithDocuments

from chaos.definitions.gameday import Bounds, Guard, Ticket, Window
from chaos.gamedays import approval, consent, freezes, gates, tickets, windows
from chaos.gamedays.board import CONSENT, LOCK, Board, Busy, Lock
from chaos.gamedays.gate import Gate
from chaos.gamedays.outside import Answer, Watched

NOW = datetime(2026, 11, 26, 10, 0, tzinfo=UTC)
Make = Callable[[Path], Sequence[Gate]]
THURSDAY = {"zone": "Europe/Berlin", "days": ["thu"], "from": "10:00", "to": "13:00", "last_start": "11:30"}


def window(at: str, **changes: Any) -> Make:
    held = windows.held(
        Window.model_validate({**THURSDAY, **changes}),
        Bounds.model_validate({"day": "60m", "abort": "2m"}),
        datetime.fromisoformat(at),
    )
    return lambda folder: [Gate("window", held.ok, held.why or "it is open")]


def freeze(text: str | None, name: str = "freezes.yaml") -> Make:
    def make(folder: Path) -> Sequence[Gate]:
        day = signkit.day_in(folder, freezes=[{"ics" if name.endswith("ics") else "yaml": name}])
        if text is not None:
            (folder / name).write_text(text)
        return gates.frozen(freezes.frozen_by(day, NOW, NOW + timedelta(hours=2), NOW))

    return make


def ics(*lines: str) -> str:
    return "\r\n".join(
        ("BEGIN:VCALENDAR", "VERSION:2.0", "BEGIN:VEVENT", "UID:1", *lines, "END:VEVENT", "END:VCALENDAR", "")
    )


def signed(
    *people: str,
    rung: str = "node",
    made: datetime = NOW,
    used: bool = False,
    strangers: Sequence[str] = (),
    now_wanted: Callable[[Any], dict[str, Any]] = signkit.wanted,
    edit: tuple[str, str] | None = None,
) -> Make:
    """Approved by these, ``made`` then; asked now for ``now_wanted``. ``strangers``: who are not allowed any more."""

    def make(folder: Path) -> Sequence[Gate]:
        names = sorted({*people, "ann", "bob"})
        keys = {name: signkit.key(folder, name) for name in names}
        known = "".join(f"{name}@example.com {signkit.public(keys[name])}\n" for name in names)
        (folder / "allowed_signers").write_text(known)
        day = signkit.day_in(folder, rung=rung)
        for name in people:
            approval.approve(day, approval.to_sign(day, signkit.wanted(day), made), keys[name], made)
        kept = "".join(line for line in known.splitlines(True) if line.partition("@")[0] not in strangers)
        (folder / "allowed_signers").write_text(kept)
        files = list((folder / "approvals").glob("*.json"))
        if edit is not None:
            files[0].write_text(files[0].read_text().replace(*edit))
        nonces = [json.loads(each.read_text())["nonce"] for each in files] if used else []
        found = approval.standing(day, now_wanted(day), NOW, nonces)
        if isinstance(found, approval.Approved):
            return [Gate("approval", True, f"{', '.join(found.people)} approved exactly this")]
        said = "; ".join(found)
        for each in files:
            said = re.sub(r"-[0-9a-f]{8}\.sig|SHA256:[A-Za-z0-9+/]+", "…", said.replace(each.stem, "NAME"))
        return [Gate("approval", False, said)]

    return make


def consented(
    *,
    by: str = "ops",
    known: str = "ops",
    unsigned: bool = False,
    wanted: Any = None,
    uuid: str = "uuid-staging",
    **edit: Any,
) -> Make:
    """A consent on the cluster ``uuid``, signed ``by`` a key; the file knows another. ``edit``: edited since."""

    def make(folder: Path) -> Sequence[Gate]:
        keys = {name: signkit.key(folder, name) for name in {by, known}}
        (folder / "operators").write_text(f"{by}@example.com {signkit.public(keys[by])}\n")
        day = signkit.day_in(folder, consent=wanted or {"allowed_signers": "operators"})
        target = signkit.target_in(folder)
        of = signkit.target_in(folder, uuid=uuid)
        said = consent.statement([day.name], date(2027, 1, 31), "team-platform", of, NOW)
        signed = signkit.day_in(folder, consent={"allowed_signers": "operators"})
        source = said if unsigned else consent.signed(signed, said, keys[by], NOW)
        (folder / "operators").write_text(f"{known}@example.com {signkit.public(keys[known])}\n")
        cluster: Any = WithDocuments()
        board = Board(cluster, INDEX)
        board.make()
        board.put(CONSENT, {**source, **edit})
        found = consent.gate(board.get(CONSENT), day, target, NOW, NOW.date(), board)
        return [replace(found, says=re.sub(r"SHA256:[A-Za-z0-9+/]+", "…", found.says))]

    return make


DIGEST = "0123456789abcdef" * 4
CHANGE = {"state": "implement", "from": "2026-11-26T08:00:00Z", "to": "2026-11-26T14:00:00Z", "text": f"plan {DIGEST}"}
TICKET = Ticket(
    url="https://change.example/{change}",
    state="/state",
    approved=("implement",),
    begins="/from",
    ends="/to",
    digest="/text",
)


def ticket(**changes: Any) -> Make:
    def make(folder: Path) -> Sequence[Gate]:
        said = {key: value for key, value in {**CHANGE, **changes}.items() if value is not None}
        try:
            says, _ = tickets.judged(TICKET, said, DIGEST, NOW, NOW + timedelta(hours=2))
        except tickets.Refused as error:
            return [Gate("ticket", False, f"the change {error}")]
        return [Gate("ticket", True, f"the change {says}")]

    return make


def guard(*answers: str, times: int = 2, silent: float = 0.0) -> Make:
    """Answers in a row, ten seconds apart; ``silent``: seconds since then."""

    def make(folder: Path) -> Sequence[Gate]:
        at = [1000.0]
        made = Guard.model_validate({"counts": "outcome", "program": {"run": ["x"]}, "times": times})
        watched = Watched("users", made, lambda *given, **fields: None, lambda: at[0])
        watched.begin()
        for state in answers:
            at[0] += 10.0
            why = {"good": None, "bad": "7 % errors", "none": "no answer in time"}[state]
            watched.hear(Answer(state, None, why))  # type: ignore[arg-type]
        why = watched.tripped(at[0] + silent)
        return [Gate("guard", why is None, why or "it is good")]

    return make


def lock(what: str) -> Make:
    def make(folder: Path) -> Sequence[Gate]:
        cluster: Any = WithDocuments()
        at = [1000.0]

        def wait(seconds: float) -> None:
            at[0] += seconds
            if what == "alive":
                other.renew()

        other = Lock(Board(cluster, INDEX), "other", clock=lambda: at[0])
        mine = Lock(Board(cluster, INDEX), "staging", clock=lambda: at[0])
        if what in ("alive", "dead"):
            other.take(wait=wait)
        try:
            mine.take(wait=wait)
        except Busy as error:
            return [Gate("lock", False, error.message.replace(other.who.rsplit("-", 2)[0], "HOST"))]
        if what == "taken":
            cluster._keep(LOCK, {"who": "another"})
        if what == "frozen":
            at[0] += 100.0
        if what == "unreadable":
            cluster.lies = lambda method, path: (503, {}) if method == "GET" else None
        why = mine.held()
        return [Gate("lock", why is None, why or "it is ours")]

    return make


MORE: list[tuple[str, str, Make, str | None]] = [
    ("window", "on a Thursday at 10:30 in Berlin", window("2026-11-26T09:30:00+00:00"), None),
    ("window", "on a Friday", window("2026-11-27T09:30:00+00:00"), "the window is on thu"),
    ("window", "an hour before it opens", window("2026-11-26T08:00:00+00:00"), "it opens next on"),
    ("window", "after last_start", window("2026-11-26T10:31:00+00:00"), "11:30"),
    ("window", "too late for the day and an abort", window("2026-11-26T11:00:00+00:00", last_start=None), "11:58"),
    (
        "window",
        "after midnight in a window of Thursday night",
        window("2026-11-26T23:30:00+00:00", **{"from": "23:00", "to": "03:00", "last_start": "01:00"}),
        None,
    ),
    (
        "window",
        "a Sunday on which 02:30 does not exist",
        window("2026-03-29T01:30:00+00:00", days=["sun"], **{"from": "02:30", "to": "06:00", "last_start": None}),
        "does not exist",
    ),
    (
        "freeze",
        "a file of ours with another day",
        freeze("freezes: [{from: 2026-12-18, to: 2027-01-04, why: end of year}]\n"),
        None,
    ),
    (
        "freeze",
        "a file of ours with this day",
        freeze("freezes: [{from: 2026-11-26, to: 2026-11-26, why: black week}]\n"),
        "black week",
    ),
    (
        "freeze",
        "a file of ours with a mistake",
        freeze("freezes: [{from: 2026-13-01, to: 2027-01-04, why: x}]\n"),
        "nobody can say whether it freezes",
    ),
    ("freeze", "no file", freeze(None), "nobody can say whether it freezes"),
    ("freeze", "an empty file", freeze(""), "nobody can say whether it freezes"),
    (
        "freeze",
        "an event of this day",
        freeze(ics("SUMMARY:release", "DTSTART;VALUE=DATE:20261126"), "x.ics"),
        "release",
    ),
    ("freeze", "an event of last year", freeze(ics("SUMMARY:release", "DTSTART;VALUE=DATE:20251126"), "x.ics"), None),
    (
        "freeze",
        "every Thursday",
        freeze(
            ics("SUMMARY:payday", "DTSTART:20260101T100000Z", "DTEND:20260101T120000Z", "RRULE:FREQ=WEEKLY"), "x.ics"
        ),
        "payday",
    ),
    (
        "freeze",
        "an event in a zone that nobody knows",
        freeze(ics("SUMMARY:x", "DTSTART;TZID=Mars/Olympus:20261126T100000"), "x.ics"),
        "nobody can say whether it freezes",
    ),
    (
        "freeze",
        "a calendar that is cut off",
        freeze(ics("SUMMARY:x", "DTSTART;VALUE=DATE:20251126")[:-20], "x.ics"),
        "nobody can say whether it freezes",
    ),
    (
        "freeze",
        "a page that asks for a password",
        freeze("<html>log in</html>", "x.ics"),
        "nobody can say whether it freezes",
    ),
    ("approval", "one person, a node", signed("ann"), None),
    ("approval", "two people, a zone", signed("ann", "bob", rung="zone"), None),
    ("approval", "nobody", signed(), "nobody has approved it"),
    (
        "approval",
        "one person, a zone",
        signed("ann", rung="zone"),
        "2 different people must sign, and only ann@example.com did",
    ),
    (
        "approval",
        "signed by somebody who may not any more",
        signed("ann", strangers=["ann"]),
        "allowed_signers has another content",
    ),
    ("approval", "eight days ago", signed("ann", made=NOW - timedelta(days=8)), "it expired at"),
    ("approval", "signed tomorrow", signed("ann", made=NOW + timedelta(days=1)), "which is yet to come"),
    ("approval", "used on another day", signed("ann", used=True), "it was used already"),
    ("approval", "the statement was edited afterwards", signed("ann", edit=("es-b-1", "es-c-1")), "NAME"),
    (
        "approval",
        "a node was replaced since",
        signed(
            "ann",
            now_wanted=lambda day: signkit.wanted(day, nodes={**signkit.NODES, "id-b-2": signkit.NODES["id-b-1"]}),
        ),
        "es-b-1",
    ),
    (
        "approval",
        "the experiment was edited since",
        signed("ann", now_wanted=lambda day: signkit.wanted(day, signkit.plan(digest="e" * 64))),
        "was edited",
    ),
    (
        "approval",
        "it hits another node now",
        signed(
            "ann",
            now_wanted=lambda day: signkit.wanted(
                day, signkit.plan(reach=[{"phase": "dark", "hit": ["es-c-1"], "voteless": []}])
            ),
        ),
        "es-c-1",
    ),
    (
        "approval",
        "other moves",
        signed("ann", now_wanted=lambda day: signkit.wanted(day, signkit.plan(steps=[]))),
        "makes other moves",
    ),
    (
        "approval",
        "for another cluster",
        signed("ann", now_wanted=lambda day: signkit.wanted(day, uuid="uuid-other")),
        "it is for another cluster",
    ),
    (
        "approval",
        "the target's file leads elsewhere since",
        signed("ann", now_wanted=lambda day: signkit.wanted(day, target=signkit.target_in(day.folder, prefix="shop-"))),
        "the target's prefix is shop- and was oschaos-",
    ),
    (
        "approval",
        "higher caps",
        signed("ann", now_wanted=lambda day: signkit.wanted(day, caps={**signkit.CAPS, "requests": "2000/s"})),
        "the load was",
    ),
    ("consent", "signed by its operators", consented(), None),
    ("consent", "written by the runner's own user", consented(unsigned=True), "it is not signed"),
    ("consent", "signed by somebody else", consented(by="mallory"), "a stranger signed"),
    ("consent", "its end was edited since", consented(until="2099-12-31"), "does not verify"),
    ("consent", "of another cluster", consented(uuid="uuid-other"), "not for uuid-staging"),
    (
        "consent",
        "in an index of the operators that the runner may write",
        consented(wanted={"index": INDEX}),
        "may write .opensearch-chaos: whose consent is there nobody knows",
    ),
    ("ticket", "approved for now, with the digest", ticket(), None),
    ("ticket", "not yet approved", ticket(state="assess"), "is in state 'assess'"),
    ("ticket", "closed meanwhile", ticket(state="closed"), "is in state 'closed'"),
    ("ticket", "it begins later", ticket(**{"from": "2026-11-26T11:00:00Z"}), "begins at"),
    ("ticket", "it ended", ticket(to="2026-11-26T09:00:00Z"), "ended at"),
    ("ticket", "it ends before the window", ticket(to="2026-11-26T11:00:00Z"), "before the window does"),
    ("ticket", "it holds another plan's digest", ticket(text="e" * 64), "is for another plan"),
    ("ticket", "it holds half of the digest", ticket(text=DIGEST[:32]), "does not hold the plan's digest"),
    ("ticket", "it has no state", ticket(state=None), "has nothing at /state"),
    ("ticket", "its state is a number", ticket(state=-1), "has no text at /state"),
    ("ticket", "its end is no time", ticket(to="soon"), "/to"),
    ("guard", "good", guard("good", "good"), None),
    ("guard", "bad once, of two that are allowed", guard("good", "bad"), None),
    ("guard", "bad, good, bad: it flaps", guard("bad", "good", "bad"), None),
    ("guard", "bad twice in a row", guard("good", "bad", "bad"), "was bad 2 times in a row (7 % errors)"),
    ("guard", "bad, no answer, bad", guard("bad", "none", "bad"), "was bad 2 times in a row"),
    ("guard", "no answer twice", guard("good", "none", "none"), None),
    ("guard", "no answer three times", guard("good", "none", "none", "none"), "said nothing 3 times in a row"),
    ("guard", "nothing is heard of it", guard("good", silent=41.0), "nothing was heard of users for 40 s"),
    ("guard", "it never said a word", guard(silent=41.0), "nothing was heard of users for 40 s"),
    ("lock", "nobody has it", lock("free"), None),
    ("lock", "somebody who died has it", lock("dead"), None),
    ("lock", "somebody alive has it", lock("alive"), "is under way on this cluster"),
    ("lock", "it was taken from us", lock("taken"), "somebody else has taken the lock"),
    ("lock", "we were frozen for 100 seconds", lock("frozen"), "could not be renewed for 90 s"),
    ("lock", "it cannot be read", lock("unreadable"), "cannot be read"),
]
