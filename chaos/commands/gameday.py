"""``gameday``: init, validate, check, plan, approve, consent, run, status, stop, resume, history, schedule, forget."""

from __future__ import annotations

import getpass
import json
import secrets
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from chaos.base.errors import SEVERITY, ChaosError, Exit, InvalidInput
from chaos.base.text import plural
from chaos.commands.common import out, say

if TYPE_CHECKING:
    from chaos.commands.gameday_hands import TargetHands
    from chaos.definitions.gameday import GameDay
    from chaos.gamedays.board import Board
    from chaos.kubernetes.rights import Right

File = Annotated[Path, typer.Argument(help="A game day's file, such as experiments/gamedays/staging.yaml.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for the record.", prompt=False)]
NEXT = 10
"""Firings that ``validate`` shows."""


def _hands(day: GameDay, out_folder: Path, *, quiet: bool = True) -> TargetHands:
    from chaos.commands.gameday_hands import TargetHands

    return TargetHands(day, out_folder, quiet)


def _board(day: GameDay) -> Board:
    return _board_of(day.target)


def _board_of(file: Path) -> Board:
    """Of the target in ``file``. Raises InvalidInput where it names no index for notes."""
    from chaos.definitions.existing import load_existing
    from chaos.gamedays.board import Board
    from chaos.run.recovering_on import cluster_of

    target = load_existing(file)
    if target.written.notes is None:
        raise InvalidInput(f"{target.file} names no index for notes", remedy="write notes: .opensearch-chaos there")
    return Board(cluster_of(target), target.written.notes)


def _now() -> datetime:
    return datetime.now(UTC)


def _who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


# ---- before it -----------------------------------------------------------------------------------------


def gameday_init(
    target: Annotated[Path, typer.Argument(help="A target's file, such as topologies/existing/staging.yaml.")],
    experiments: Annotated[list[Path], typer.Argument(help="Experiments, in the order in which they are held.")],
    name: Annotated[str | None, typer.Option("--name", help="Of the day; default the target's.")] = None,
    owner: Annotated[str | None, typer.Option("--owner", help="Who answers for it.")] = None,
    hypothesis: Annotated[str | None, typer.Option("--hypothesis", help="What is believed.")] = None,
    ssh: Annotated[str | None, typer.Option("--ssh", help="How people reach the runner, to stop it.")] = None,
    kubernetes: Annotated[
        str | None, typer.Option("--kubernetes", help="Instead: the namespace in which it runs as a CronJob.")
    ] = None,
) -> None:
    """Write a game day's file for a target and experiments, in experiments/gamedays. Asks no cluster.

    What only people can decide stands in it without a value: it is refused until that is filled in.
    """
    from chaos.commands import gameday_draft
    from chaos.definitions.existing import load_existing, today
    from chaos.registry import load_experiment

    if ssh and kubernetes:
        raise InvalidInput("a runner is a host or a pod", remedy="give --ssh or --kubernetes")
    there = load_existing(target)
    loaded = [load_experiment(file) for file in experiments]
    answers = gameday_draft.Answers(owner, hypothesis, ssh, kubernetes)
    named = name or there.written.name
    made = gameday_draft.draft(loaded, experiments, target, named, answers, Path("."))
    for path in gameday_draft.write(made):
        say(f"wrote {path}")
    say(f"to fill in: {', '.join(made.open)}")
    if (rung := there.rung_on(today())) not in ("node", "zone"):
        say(f"{there.file} allows {rung}: a day wants its rung to be node at least")
    if there.written.notes is None:
        say(f"{there.file} names no index for notes: write notes: .opensearch-chaos")
    say(f"next: edit it, then opensearch-chaos gameday check {made.path}")


def gameday_validate(
    file: File,
    at: Annotated[
        datetime | None, typer.Option("--at", help="As if it were then, in UTC.", formats=["%Y-%m-%dT%H:%M"])
    ] = None,
) -> None:
    """Check a game day's file, and show its next ten firings and what would block each. Asks no cluster.

    Times are in the window's zone and in UTC, across the next clock changes.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays import announce, asking, freezes, gates, windows

    day, now = load_gameday(file), at.replace(tzinfo=UTC) if at is not None else _now()
    written = day.written
    hands = _hands(day, Path("reports"))
    target = hands.target()
    hands.experiments()
    if wrong := announce.wrong_templates(day):
        raise InvalidInput("\n".join(f"{day.file}: {each}" for each in wrong), remedy="see docs/gamedays.md")
    if wrong := asking.wrong_authorities(day):
        raise InvalidInput("\n".join(f"{day.file}: {each}" for each in wrong), remedy="name PEM files that fit")
    say(f"game day {day.name} ({day.file}) on {target.written.name}: {written.description or written.hypothesis}")
    for number, step in enumerate(written.experiments, 1):
        say(f"  {number}. {step.experiment} (rung {step.rung})")
    say(f"window: {', '.join(written.window.days)} {written.window.from_:%H:%M} to {written.window.to:%H:%M} "
        f"{written.window.zone}")  # fmt: skip
    calendars = [freezes.read(day, each, _now()) for each in written.freezes]  # they answer now, whatever is asked
    firings, free = windows.firings(written.window, now, NEXT), 0
    for firing in firings:
        if firing.at is None or firing.closes is None:
            say(f"  {firing.day} {firing.says}")
            continue
        blocked = [why for freezes_it in calendars if (why := freezes_it(firing.at, firing.closes)) is not None]
        held = windows.held(written.window, written.bounds, firing.at)
        blocked += [] if held.ok else [held.why or "outside of its window"]
        allowed = gates.allowed(target, written.experiments, firing.at.astimezone(UTC).date())
        blocked += [] if allowed.ok else [allowed.says]
        free += not blocked
        said = f"blocked: {'; '.join(blocked)}" if blocked else "nothing that is known today blocks it"
        special = f"  ({firing.says})" if firing.says else ""
        say(f"  {firing.at:%a %Y-%m-%d %H:%M %Z} = {firing.at.astimezone(UTC):%H:%M} UTC  {said}{special}")
    for change in windows.changes(written.window.zone, now, 2):
        say(f"  {written.window.zone}: {change.says}")
    now_held = windows.held(written.window, written.bounds, now)
    say(f"now: {now_held.why or 'its window is open'}")
    if written.consent is None:
        raise InvalidInput(
            f"{day.file} names no consent of the cluster's operators, so each firing is refused",
            remedy="write consent: {allowed_signers: FILE}, see docs/gamedays.md",
        )
    if not free:
        raise InvalidInput(
            f"{day.file}: each of its next {len(firings)} firings is blocked", remedy="the lines above say by what"
        )
    say("validate: OK")


def gameday_check(
    file: File,
    change: Annotated[str | None, typer.Option("--change", help="The change ticket's number, for its address.")] = None,
) -> None:
    """Ask every gate of a firing now, and list them all. Nothing is recorded, announced, held or changed.

    Where the window is shut, calendars, plans and approval are asked as of its next opening. Exit codes as of a firing:
    0 nothing refuses it now, or it was held already; 2 refused; 7 held.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays.check import check, code_of

    day = load_gameday(file)
    found, already = check(day, _hands(day, Path("reports")), _now, change)
    for gate in found:
        say(f"{'ok      ' if gate.ok else 'REFUSED '} {gate}")
    if already is not None:
        say(f"already held: {already}")
    refused = sum(not gate.ok for gate in found)
    code = code_of(found, already)
    said = f"{refused} of {plural(len(found), 'gate')} refuse it now" if refused else "nothing refuses it now"
    say(f"check: {'held by a person, ' if code is Exit.HELD else ''}{said}")
    raise typer.Exit(int(code))


def gameday_plan(
    file: File,
    as_json: Annotated[bool, typer.Option("--json", help="The statement that is approved, as JSON.")] = False,
) -> None:
    """Print everything that the day comes to on its cluster, with the digest that is approved. Sends GETs only.

    Exit code 2 where an experiment's plan is refused now.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays import approval, gates
    from chaos.gamedays.day import content_of

    day = load_gameday(file)
    hands = _hands(day, Path("reports"))
    plans = hands.plans()
    content = content_of(day, hands, plans)
    bad = [gate for gate in [*gates.plans(plans), *gates.rungs(plans, day.written.experiments)] if not gate.ok]
    if as_json:
        print(json.dumps({"digest": approval.digest_of(content), "content": content}, indent=1, ensure_ascii=False))
    else:
        say(approval.in_words(approval.statement(content, _now(), _until(day), "0" * 16)))
        for gate in bad:
            say(f"  REFUSED  {gate}")
        say(f"digest: {approval.digest_of(content)}")
    raise typer.Exit(int(Exit.USAGE if bad else Exit.PASS))


def _until(day: GameDay) -> datetime:
    from datetime import timedelta

    return _now() + timedelta(seconds=float(day.written.approval.valid))


def gameday_approve(
    file: File,
    key: Annotated[Path, typer.Option("--key", help="A key that ssh-keygen signs with; its .pub for an agent's.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; what is approved is shown all the same.")] = False,
) -> None:
    """Sign exactly what the day comes to now. It is shown in words first. Sends GETs only."""
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays import approval
    from chaos.gamedays.board import used_id
    from chaos.gamedays.day import content_of

    day = load_gameday(file)
    hands = _hands(day, Path("reports"))
    board = _board(day)
    used = [id.removeprefix(used_id("")) for id in board.every(used_id(""))] if board.exists() else []
    offer = approval.to_sign(day, content_of(day, hands, hands.plans()), _now(), used)
    say(approval.in_words(offer.statement))
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("nobody can be asked here", remedy="add --yes where the words above were read")
        if not typer.confirm("approve this"):
            say("not approved")
            raise typer.Exit(int(Exit.USAGE))
    signed = approval.approve(day, offer, key, _now())
    say(f"approved by {signed.person}: {signed.signature}")
    more = f"{plural(signed.missing, 'more person', 'more people')} must sign" if signed.missing else "it is approved"
    say(f"{more}; commit {signed.statement.parent} so that the runner finds it")


def gameday_consent(
    file: File,
    key: Annotated[Path, typer.Option("--key", help="A key of the operators, which the runner does not have.")],
    until: Annotated[datetime, typer.Option("--until", help="The last day, in UTC.", formats=["%Y-%m-%d"])],
    by: Annotated[str | None, typer.Option("--by", help="Who consents, such as team-platform; default you.")] = None,
    others: Annotated[
        list[str] | None, typer.Option("--for", help="Game days beside this one, by name; repeat it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; what is consented to is shown all the same.")] = False,
) -> None:
    """Of the cluster's operators: sign that the day may be held on it, and write that on the cluster.

    The notes index is made where it is not there. A consent that stands is replaced. To take it back: delete the
    document gameday-consent, and the key's line from the allowed signers.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays import consent
    from chaos.gamedays.board import CONSENT

    day = load_gameday(file)
    wanted = day.written.consent
    if wanted is None or wanted.allowed_signers is None:
        why = "names no consent" if wanted is None else f"knows consent by who may write {wanted.index}"
        raise InvalidInput(f"{day.file} {why}", remedy="consent: {allowed_signers: FILE} is for signed ones")
    target, board = _hands(day, Path("reports")).target(), _board(day)
    who = by or _who()
    said = consent.statement([day.name, *(others or [])], until.date(), who, target, _now())
    say(consent.in_words(said))
    if not yes:
        if not sys.stdin.isatty():
            raise InvalidInput("nobody can be asked here", remedy="add --yes where the words above were read")
        if not typer.confirm("consent to this"):
            say("not consented to")
            raise typer.Exit(int(Exit.USAGE))
    document = consent.signed(day, said, key, _now())
    board.make()
    if (wrong := board.unfit()) is not None:
        raise InvalidInput(wrong, remedy="mend it, then consent again")
    board.put(CONSENT, document)
    say(f"{who} consents until {said['until']}: written to {board.index}")


# ---- the day --------------------------------------------------------------------------------------------


def gameday_run(
    file: File,
    change: Annotated[str | None, typer.Option("--change", help="The change ticket's number, for its address.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only verdicts.")] = False,
) -> None:
    """Hold the day: every gate, then its experiments. Whoever fires it, late or twice, holds it once.

    Exit codes: 0 kept its promises, or held already; 1 weakness; 2 refused before the first change; 3 inconclusive;
    4 stopped; 5 error; 6 dirty; 7 held: it was stopped, or a person must let it go on first.
    """
    from chaos.base.paths import make_folder
    from chaos.commands.gameday_page import begun, finish
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays.announce import Announcer, stop_line
    from chaos.gamedays.day import Day
    from chaos.gamedays.record import FILE, Record

    day = load_gameday(file)
    folder = Path(day.written.record) / day.name / f"{_now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
    try:
        make_folder(folder)
    except OSError as error:
        raise InvalidInput(f"cannot make {folder}: {error.strerror}", remedy="name another folder: record") from None
    broken: list[str] = []
    with Record(folder / FILE, broken=broken.append) as record:
        command = f"opensearch-chaos gameday run {shlex.quote(day.file)}" + (f" --change {change}" if change else "")
        stop = stop_line(day, socket.gethostname())
        announcer = Announcer(day, stop, record.add)
        hands = _hands(day, folder / "runs", quiet=quiet)
        say(f"game day {day.name}: to stop it from anywhere: {stop}")
        made = Day(day, hands, record, announcer, say, change)
        made.begun = lambda: begun(day, _now().timestamp())
        code = made.go(command)
    finish(day, folder, code, on_hold=made.on_hold)
    if broken:
        hole = ChaosError(f"the record of the day has a hole: {broken[0]}")
        hole.exit_code = min(code, Exit.ERROR, key=SEVERITY.index)
        raise hole
    say(f"record: {folder / FILE}")
    say(f"page: {folder / 'gameday.html'}")
    raise typer.Exit(int(code))


def gameday_status(file: File) -> None:
    """What the cluster knows of this game day: lock, holds, wishes to stop, days that were held. Sends no change."""
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays.board import CONSENT, LOCK, STOP, day_id, days_of, hold_id
    from chaos.gamedays.consent import SIGNATURE

    day = load_gameday(file)
    board = _board(day)
    if not board.exists():
        say(f"{day.name}: the cluster knows of no game day")
        return
    if (wrong := board.unfit()) is not None:
        say(f"notes: {wrong}")
    for what, id in (("lock", LOCK), ("hold", hold_id(day.name)), ("stop", STOP), ("consent", CONSENT)):
        doc = board.get(id)
        shown = {} if doc is None else {key: value for key, value in doc.source.items() if key != SIGNATURE}
        said = ", ".join(f"{key} {value}" for key, value in sorted(shown.items())) or "none"
        say(f"{what}: {said}")
    for id, source in sorted(days_of(board, day.name).items()):
        day_of = id.removeprefix(day_id(day.name, ""))
        say(f"day {day_of}: {source.get('outcome') or source.get('state')} on {source.get('host')}")


def gameday_stop(file: File, reason: Reason) -> None:
    """Stop the day that is under way, from any machine that reaches the cluster. Nothing begins until ``resume``.

    A file that is wrong elsewhere stops nobody from stopping: only its target is needed. Where the cluster is out of
    reach: the stop file on the runner, or its ConfigMap, as each announcement says.
    """
    from chaos.definitions.gameday import load_gameday, target_of
    from chaos.gamedays.announce import stop_line
    from chaos.gamedays.board import STOP

    elsewhere = "the line that each announcement carries"
    try:
        day = load_gameday(file)
        target, elsewhere = day.target, stop_line(day, "RUNNER")
    except InvalidInput as error:
        named = target_of(file)
        if named is None:
            raise
        target = named
        say(f"{error}\nthat keeps nobody from stopping it")
    try:
        board = _board_of(target)
        board.make()
        board.put(STOP, {"by": _who(), "why": reason[:300], "at": _now().isoformat(timespec="seconds")})
    except InvalidInput:
        raise
    except ChaosError as error:
        raise ChaosError(
            f"the cluster did not take the wish to stop: {error.message}", remedy=f"stop it without: {elsewhere}"
        ) from error
    say(f"{file.stem}: asked to stop; see: opensearch-chaos gameday status {file}")


def gameday_resume(file: File, reason: Reason) -> None:
    """Clear a hold, a wish to stop and what dead days left, with the reason why days may begin again.

    The reason is on record before anything is cleared. Exit code 2 where it cannot be, or where nothing is on hold.
    """
    from chaos.commands.gameday_page import resumed
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays.board import STOP, Lock, hold_id

    day = load_gameday(file)
    board = _board(day)
    with ExitStack() as stack:
        found: list[tuple[str, Callable[[], object]]] = []
        if board.exists():
            found += _of_dead(day, board)
            if found:  # whether they are dead is seen by the lock
                lock = Lock(board, day.name)
                lock.take(say)
                stack.callback(lock.release)
            for what, id in (("hold", hold_id(day.name)), ("stop", STOP)):
                if (doc := board.get(id)) is not None:
                    found.append((f"{what} ({doc.source.get('why')})", partial(board.remove, id, doc)))
        if not found:
            raise InvalidInput(f"{day.name}: nothing is on hold", remedy="see: opensearch-chaos gameday status FILE")
        cleared = [says for says, _ in found]
        _on_record(day, reason, cleared)
        for _, clear in found:
            clear()
    resumed(day)
    say(f"{day.name}: cleared {' and '.join(cleared)}")


def _on_record(day: GameDay, reason: str, cleared: list[str]) -> None:
    """Raises InvalidInput where it cannot be written; nothing is left then."""
    from chaos.gamedays.record import FILE, Record

    name = f"{_now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}-resumed"
    folder = Path(day.written.record) / day.name / name
    try:
        with Record(folder / FILE) as record:
            record.add("resumed", gameday=day.name, by=_who(), reason=reason, cleared=cleared)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidInput(
            f"nothing was cleared: {folder / FILE} cannot be written: {error.strerror}", remedy="make room for it"
        ) from error


def _of_dead(day: GameDay, board: Board) -> list[tuple[str, Callable[[], object]]]:
    """What days left that never ended, in words, and how it is cleared once it is seen that the lock is free: that
    they are over is said of them, and what a drill of theirs left is taken away."""
    from chaos.gamedays import drill
    from chaos.gamedays.board import day_id, days_of
    from chaos.gamedays.gates import OVER, UNDER_WAY
    from chaos.gamedays.switches import FileSwitch, MapSwitch, Switch

    target = _hands(day, Path("reports")).target()
    held, stop_map = drill.lock_of(target), MapSwitch.of(day, target)
    switches: list[Switch] = [FileSwitch(day), *([stop_map] if stop_map is not None else [])]
    found: list[tuple[str, Callable[[], object]]] = []
    for id, source in sorted(days_of(board, day.name).items()):
        if source.get("state") == UNDER_WAY:
            over = {**source, "state": OVER, "outcome": "error", "says": "its runner died"}
            says = f"day {id.removeprefix(day_id(day.name, ''))}, which never ended"
            found.append((says, partial(board.put, id, over)))
    for switch in switches:
        if (whose := switch.left()) is not None and whose.lock == held:
            found.append((f"the {switch.says}, which {whose} left", partial(switch.dead_taken_away, held)))
    return found


def gameday_forget(file: File) -> None:
    """Take away what game days keep on the cluster: days held, holds, used approvals that have expired.

    The consent stays, and so does each used approval until it expires: it is for one day only. Refused while a day is
    under way. After it, a day could be held twice, with another approval.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays.board import LOCK

    board = _board(load_gameday(file))
    if board.exists() and board.get(LOCK) is not None:
        raise InvalidInput("a game day is under way there", remedy="wait for its end, or stop it")
    gone, kept = board.forget(_now())
    say(f"{plural(gone, 'document')} taken away")
    if kept:
        say(f"{plural(kept, 'used approval')} left until the signatures expire: each is for one day only")


# ---- after it, and around it ---------------------------------------------------------------------------


def gameday_history(
    what: Annotated[Path, typer.Argument(help="A game day's file, a day's folder, or a record.")],
    verify: Annotated[bool, typer.Option("--verify", help="Check each record's chain of hashes.")] = False,
    head: Annotated[
        str | None, typer.Option("--head", help="A head that was announced: a record that lacks it is broken.")
    ] = None,
) -> None:
    """The days that were held, and whether their records are as they were written. Exit code 1 where one is not."""
    from chaos.gamedays import record

    files = _records(what)
    if not files:
        raise InvalidInput(f"{what}: no record of a day is there", remedy="name the folder that record names")
    wrong = False
    of_head = [
        file for file in files if head is not None and not record.verify(file) and record.after(file, head) is not None
    ]
    for file in files:
        expected = head if not of_head or file in of_head else None  # of several days one has it
        problems = record.verify(file, expected) if verify or head else []
        lines = record.read(file) if not problems else []
        end = next((line for line in reversed(lines) if line["kind"] in ("day.end", "resumed")), None)
        said = _said(end) if end else "no end is on record" if lines else "not as written"
        say(f"{file.parent.name}  {said}")
        for each in problems:
            say(f"  BROKEN  {each}")
        if verify and not problems:
            say(f"  verified, head {record.head_of(file)}")
        if head is not None and file in of_head:
            later = record.after(file, head) or []
            kinds = ", ".join(dict.fromkeys(later))
            after = f"{plural(len(later), 'line')} came after that line ({kinds})" if later else "of its last line"
            say(f"  the head that was kept is of this record: {after}")
        wrong = wrong or bool(problems)
    raise typer.Exit(int(Exit.WEAKNESS if wrong else Exit.PASS))


def _said(end: Mapping[str, object]) -> str:
    if end["kind"] == "resumed":
        return f"resumed by {end['by']}: {end['reason']}"
    return f"{end['outcome']}: {end['says']}"


def _records(what: Path) -> list[Path]:
    from chaos.definitions.gameday import load_gameday

    if what.suffix == ".jsonl":
        return [what]
    if what.is_dir():
        return sorted(what.glob("**/record.jsonl"))
    day = load_gameday(what)
    return sorted((Path(day.written.record) / day.name).glob("*/record.jsonl"))


def gameday_schedule(
    file: File,
    kind: Annotated[str, typer.Option("--for", help="systemd, cron, kubernetes or github.")],
    write: Annotated[Path | None, typer.Option("--write", help="Write the files there instead of printing.")] = None,
    user: Annotated[str, typer.Option("--user", help="As whom it runs.")] = "chaos",
    working: Annotated[str, typer.Option("--in", help="The folder that it runs in; of GitHub below the checkout.")] = (
        "/srv/chaos"
    ),
    program: Annotated[str, typer.Option("--program", help="Where opensearch-chaos is there.")] = (
        "/srv/chaos/.venv/bin/opensearch-chaos"
    ),
    image: Annotated[
        str | None, typer.Option("--image", help="For Kubernetes: an image with opensearch-chaos.")
    ] = None,
) -> None:
    """Print what fires the day: a systemd timer, a crontab, a Kubernetes CronJob or a GitHub workflow.

    Nothing is installed. Whatever fires it, and however often: `gameday run` holds all gates itself.
    """
    from chaos.definitions.gameday import load_gameday
    from chaos.gamedays import schedule

    day = load_gameday(file)
    known = next((each for each in schedule.KINDS if each == kind), None)
    if known is None:
        raise InvalidInput(f"--for {kind}: expected {', '.join(schedule.KINDS)}")
    pods = _pods_of(day) if known == "kubernetes" else None
    files = schedule.printed(
        day, known, command=[program], working=working, user=user, image=image or schedule.IMAGE, pods=pods
    )
    for name, text in files.items():
        if write is not None:
            write.mkdir(parents=True, exist_ok=True)
            (write / name).write_text(text, encoding="utf-8")
            say(f"written: {write / name}")
        else:
            out.print(f"# ---- {name}", markup=False)
            print(text, end="" if text.endswith("\n") else "\n")


def _pods_of(day: GameDay) -> tuple[str, tuple[Right, ...]] | None:
    """The namespace of OpenSearch's pods, and what the day needs there; None where its target is in no Kubernetes.
    Raises InvalidInput where a pod could not use the target's file."""
    from chaos.commands.kubernetes import needed_by
    from chaos.definitions.existing import load_existing

    target = load_existing(day.target)
    pods = target.written.kubernetes
    if pods is None:
        return None
    if pods.context is not None or target.kubeconfig is not None:
        raise InvalidInput(
            f"{target.file} names a context or a kubeconfig, and a pod uses its own account",
            remedy="leave kubernetes.context and kubernetes.kubeconfig out; from elsewhere the current context is used",
        )
    return pods.namespace, tuple(needed_by(target, _hands(day, Path("reports")).experiments()))


COMMANDS: dict[str, Callable[..., None]] = {
    "init": gameday_init,
    "validate": gameday_validate,
    "check": gameday_check,
    "plan": gameday_plan,
    "approve": gameday_approve,
    "consent": gameday_consent,
    "run": gameday_run,
    "status": gameday_status,
    "stop": gameday_stop,
    "resume": gameday_resume,
    "history": gameday_history,
    "schedule": gameday_schedule,
    "forget": gameday_forget,
}
"""By name, in the order in which ``--help`` lists them."""
