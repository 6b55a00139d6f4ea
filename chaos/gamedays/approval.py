"""Approvals of a game day: signatures of people over one statement of what is done to whom, by ``ssh-keygen -Y``.

A statement is canonical JSON of everything that the day comes to on its cluster (:func:`content`), with all that its
file and its target's say (:mod:`.decided`), a nonce, when it was made and until when it holds. Its digest leaves these
three out: it is what must be equal when the content is computed again. In the approvals folder lie
``<digest12>-<nonce>.json``, whose very bytes are signed, and ``<digest12>-<nonce>.<principal>.sig`` of each person. The
names of files are for people; nothing is believed of them.

Who a signer is, and whether their key is valid now, says OpenSSH's file of allowed signers (``ssh-keygen(1)``, ALLOWED
SIGNERS). Facts of ssh-keygen: OpenSSH 9.2.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.paths import fsync_folder, write_atomically
from chaos.base.text import listed, one_line, plural, printable
from chaos.definitions.existing import Existing
from chaos.definitions.gameday import GameDay
from chaos.gamedays import decided
from chaos.gamedays.record import canonical, plain
from chaos.opensearch.rest import UNREADABLE

FORMAT = "opensearch-chaos/approval/v2"
OLD = ("opensearch-chaos/approval/v1",)
"""Forms that cover less than is covered now: no signature over one counts."""
OUTDATED = (
    "was made by an older version and covers too little of the target and of the files that decide: "
    "have it approved anew (opensearch-chaos gameday approve)"
)
NAMESPACE = "opensearch-chaos-gameday"
"""What a signature is for, so that one over anything else is none."""
OF_EACH = ("nonce", "made", "until")
"""Of a statement, and not of its content."""
NONCE = re.compile(r"[0-9a-f]{16,64}")
LARGEST_STATEMENT = 8 << 20
LARGEST_OTHER = 1 << 20
"""Bytes of a signature, and of a file of allowed signers."""
SECONDS = 10.0
"""For ssh-keygen to verify; to sign it may wait for a person."""
SHOWN = 3
"""Approvals of other plans that a refusal names at most: the newest."""
DIFFERENCES = 12
"""Places of two files that differ, of which a refusal tells at most."""


# ---- the statement -------------------------------------------------------------------------------------------


def file_digest(day: GameDay, experiments: Sequence[str]) -> str:
    """SHA-256 of the day's file in normal form and the digests of its experiments, in their order."""
    written = day.written.model_dump(mode="json", by_alias=True)
    return hashlib.sha256(canonical(plain({"gameday": written, "experiments": list(experiments)}))).hexdigest()


def content(
    day: GameDay,
    plans: Sequence[Mapping[str, Any]],
    node_ids: Mapping[str, Mapping[str, str]],
    target: Existing,
) -> dict[str, Any]:
    """What is approved. It reads the files that day and target name, and asks no cluster.

    ``plans``: of each experiment in order, what ``plan --on FILE --json`` says of it, with its ``digest`` and its
    ``files`` (:func:`.decided.of_experiment`). ``node_ids``: name and zone of each node by its persistent id.
    """
    written, window, identity = day.written, day.written.window, target.written.identity
    caps = target.written.caps
    decides = decided.of(day, target)
    for plan in plans:
        decides["files"].update(plan.get("files", {}))
    if len(plans) != len(written.experiments):
        raise ValueError(f"{len(plans)} plans for {len(written.experiments)} experiments")
    made = {
        "format": FORMAT,
        "gameday": day.name,
        "owner": written.owner,
        "hypothesis": written.hypothesis,
        "digest": file_digest(day, [plan["digest"] for plan in plans]),
        "cluster_uuid": identity.cluster_uuid,
        "cluster_name": identity.cluster_name,
        "nodes": {each: {"name": node["name"], "zone": node["zone"]} for each, node in node_ids.items()},
        "window": {
            "zone": window.zone,
            "days": list(window.days),
            "from": f"{window.from_:%H:%M}",
            "to": f"{window.to:%H:%M}",
            "last_start": None if window.last_start is None else f"{window.last_start:%H:%M}",
        },
        "bounds": {"day": written.bounds.day.text, "abort": written.bounds.abort.text},
        "caps": None if caps is None else caps.model_dump(mode="json"),
        "experiments": [
            {
                "name": plan["experiment"],
                "digest": plan["digest"],
                "rung": step.rung,
                "on_weakness": step.on_weakness,
                "needs": plan["rung"],
                "hit": [{key: each[key] for key in ("phase", "hit", "voteless")} for each in plan["reach"]],
                "steps": plan["steps"],
            }
            for step, plan in zip(written.experiments, plans, strict=True)
        ],
        "people": written.people,
        "decides": decides,
    }
    return dict(plain(made))


def edited(content: Mapping[str, Any], day: GameDay, target: Existing) -> list[str]:
    """What day, target and the files that they name say otherwise than was approved, in words."""
    now = plain(decided.of(day, target))
    return [printable(each) for each in _changed_decisions(content["decides"], now, whole=False)]


def statement(content: Mapping[str, Any], made: datetime, until: datetime, nonce: str) -> dict[str, Any]:
    """What is signed. ``nonce``: 16 to 64 hexadecimal digits, which no other statement has."""
    if NONCE.fullmatch(nonce) is None:
        raise ValueError(f"a nonce has 16 to 64 hexadecimal digits: {nonce!r}")
    return {**content, "made": _stamp(made), "until": _stamp(until), "nonce": nonce}


def digest_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of a content, or of a statement's."""
    return hashlib.sha256(canonical({k: v for k, v in content.items() if k not in OF_EACH})).hexdigest()


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _moment(said: Any) -> datetime:
    """Raises ValueError."""
    moment = datetime.strptime(str(said), "%Y-%m-%dT%H:%M:%SZ")
    return moment.replace(tzinfo=UTC)


def in_words(statement: Mapping[str, Any]) -> str:
    """What a person reads before they sign."""
    return "\n".join(printable(line) for line in _words(statement)) + "\n"


def _words(said: Mapping[str, Any]) -> Iterator[str]:
    window, bounds = said["window"], said["bounds"]
    yield f"game day {said['gameday']}, for which {said['owner']} answers"
    yield f"believed: {' '.join(said['hypothesis'].split())}"
    yield f"cluster: {said['cluster_name']} ({said['cluster_uuid']})"
    last = f", begun by {window['last_start']}" if window["last_start"] else ""
    yield f"when: {', '.join(window['days'])} from {window['from']} to {window['to']} in {window['zone']}{last}"
    yield f"how long: {bounds['day']} at most, and {bounds['abort']} to undo all once it is stopped"
    yield f"load of its own: {_caps(said['caps'])}"
    yield "nodes:"
    for name, zone, node in sorted((node["name"], node["zone"], each) for each, node in said["nodes"].items()):
        yield f"  {name} in zone {zone}, id {node}"
    for number, each in enumerate(said["experiments"], 1):
        yield f"experiment {number}: {each['name']}"
        yield f"  digest {each['digest']}"
        yield f"  may reach as far as rung {each['rung']}, and needs {each['needs']}"
        yield f"  where the cluster does not keep its promise: {each['on_weakness']}"
        worst = {phase["phase"]: phase for phase in each["hit"]}
        for phase in dict.fromkeys([*worst, *(step["phase"] for step in each["steps"])]):
            yield f"  phase {phase}: {_worst(worst.get(phase, {}))}"
            for step in each["steps"]:
                if step["phase"] == phase:
                    yield from _step(step)
    yield from _decides(said["decides"])
    yield f"signatures: {plural(said['people'], 'person', 'different people')}"
    yield f"made {said['made']}, holds until {said['until']}, for one day only (nonce {said['nonce']})"
    yield f"digest of all this: {digest_of(said)}"


def _decides(decides: Mapping[str, Any]) -> Iterator[str]:
    """All that the files say, place by place: no field of theirs is left out."""
    for key, says in (("target", "the target's file says"), ("gameday", "the game day's file says")):
        yield f"{says}:"
        yield from (f"  {place}: {value}" for place, value in decided.lines(decides[key]))
    yield "files whose content is approved too:"
    found = [f"  {place} ({value})" for place, value in sorted(decides["files"].items())]
    yield from found or ["  none"]
    yield "not covered:"
    yield from (f"  {each}" for each in decided.NOT_COVERED)


def _caps(caps: Mapping[str, Any] | None) -> str:
    if not caps:
        return "none"
    units = {"requests": "requests per second", "copies": "copies of shards"}
    numbers = {name: int(value) if value == int(value) else value for name, value in sorted(caps.items())}
    return f"{listed([f'{value} {units.get(name, name)}' for name, value in numbers.items()])} at most"


def _worst(phase: Mapping[str, Any]) -> str:
    votes = f", {', '.join(phase['voteless'])} without a vote" if phase.get("voteless") else ""
    return f"hits at worst {', '.join(phase.get('hit') or ()) or 'no node'}{votes}"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    yield f"    {step['step']}"
    for key, says in (
        ("resolved", "whom is decided"),
        ("targets", "whom"),
        ("moves", "change"),
        ("inverse", "undone by"),
    ):
        value = step.get(key)
        for each in (
            [value] if isinstance(value, str) else [", ".join(value)] if key == "targets" and value else value or ()
        ):
            yield f"      {says}: {each}"


# ---- what differs --------------------------------------------------------------------------------------------


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """How what is to be done now (``after``) differs from what a statement says, in words; nothing: not at all.

    The statement may be anybody's.
    """
    if digest_of(before) == digest_of(after):
        return []
    try:
        found = list(_changed(before, after))
    except UNREADABLE:
        found = []
    return [printable(each) for each in found] or ["its content is of another form"]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if _cluster(before) != _cluster(after):
        yield f"it is for another cluster: {_cluster(before)}"
        return
    yield from _changed_nodes(before["nodes"], after["nodes"])
    edited = yield from _changed_experiments(before["experiments"], after["experiments"])
    if before["caps"] != after["caps"]:
        yield f"the load was {_caps(before['caps'])} and is {_caps(after['caps'])}"
    if before["people"] != after["people"]:
        yield f"{after['people']} must sign instead of {before['people']}"
    for key in ("window", "bounds", "owner", "hypothesis"):
        if before[key] != after[key]:
            yield f"its {key} {'are others' if key == 'bounds' else 'is another'}"
            edited = True
    decides = list(_changed_decisions(before["decides"], after["decides"]))
    edited = edited or bool(decides)
    yield from decides
    if before["digest"] != after["digest"] and not edited:
        yield "the game day's file was edited"


TOLD = {"gameday": ("window.", "bounds.", "owner", "hypothesis"), "target": ("caps.", "identity.")}
"""Places that :func:`_changed` tells of in words of their own."""


def _changed_decisions(before: Mapping[str, Any], after: Mapping[str, Any], *, whole: bool = True) -> Iterator[str]:
    """``whole``: files of experiments too, and what :data:`TOLD` leaves to others is left to them."""
    found = []
    for key, whose in (("target", "the target's"), ("gameday", "the game day's")):
        for place, was, now in decided.differs(before[key], after[key]):
            if not (whole and place.startswith(TOLD[key])):
                found.append(f"{whose} {place} is {now or 'not there'} and was {was or 'not there'}")
    was_files, now_files = before["files"], after["files"]
    for place in dict.fromkeys((*was_files, *now_files)):
        if was_files.get(place) != now_files.get(place) and (whole or place.startswith(("gameday.", "target."))):
            state = "is gone" if now_files.get(place, decided.ABSENT) == decided.ABSENT else "has another content"
            found.append(f"the file of {place} {state}")
    yield from found[:DIFFERENCES]
    if len(found) > DIFFERENCES:
        yield f"and {len(found) - DIFFERENCES} more"


def strangers(content: Mapping[str, Any], node_ids: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Nodes that are there and were not approved, in words. One that is away, as a fault may have it, is none."""
    found = _changed_nodes(content["nodes"], node_ids)
    return [printable(each) for each in found if not each.endswith("is not there any more")]


def _cluster(said: Mapping[str, Any]) -> str:
    return f"{said['cluster_name']} ({said['cluster_uuid']})"


def _changed_nodes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old = {node["name"]: (each, node["zone"]) for each, node in before.items()}
    new = {node["name"]: (each, node["zone"]) for each, node in after.items()}
    for name in sorted({*old, *new}):
        if name not in new:
            yield f"node {name} is not there any more"
        elif name not in old:
            yield f"node {name} is new"
        elif old[name][0] != new[name][0]:
            yield f"node {name} was replaced: its id is {new[name][0]} and was {old[name][0]}"
        elif old[name] != new[name]:
            yield f"node {name} is in zone {new[name][1]} and was in {old[name][1]}"


def _changed_experiments(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Generator[str, None, bool]:
    """Returns whether that explains another digest."""
    old, new = [each["name"] for each in before], [each["name"] for each in after]
    if old != new:
        yield f"the experiments are {listed(new)} and were {listed(old)}"
        return True
    edited = False
    for was, now in zip(before, after, strict=True):
        name = now["name"]
        if was["digest"] != now["digest"]:
            edited = True
            yield f"experiment {name} was edited"
        for key, says in (
            ("rung", "may reach rung"),
            ("needs", "needs rung"),
            ("on_weakness", "after a weakness will"),
        ):
            if was[key] != now[key]:
                edited = edited or key != "needs"
                yield f"experiment {name} {says} {now[key]} instead of {was[key]}"
        hits = {phase["phase"]: phase for phase in was["hit"]}
        for phase in now["hit"]:
            if (then := hits.pop(phase["phase"], {})) != phase:
                yield f"experiment {name} {_worst(phase)} in phase {phase['phase']}, and {_worst(then)} before"
        for phase_name in hits:
            yield f"experiment {name} has no phase {phase_name} any more"
        if was["steps"] != now["steps"]:
            phases = dict.fromkeys(step["phase"] for step in (*was["steps"], *now["steps"]))
            other = [each for each in phases if _steps(was, each) != _steps(now, each)]
            where = f" in phase {listed(other)}" if other else " in another order"
            yield f"experiment {name} makes other moves{where}"
    return edited


def _steps(experiment: Mapping[str, Any], phase: str) -> list[Any]:
    return [step for step in experiment["steps"] if step["phase"] == phase]


# ---- files ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    """A statement as it lies in the folder. ``name``: of its file."""

    name: str
    raw: bytes
    data: Mapping[str, Any]
    made: datetime
    until: datetime
    digest: str

    @property
    def nonce(self) -> str:
        return str(self.data["nonce"])


def _bytes(path: Path, most: int) -> bytes:
    """Raises OSError, also for what is no file or too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most} bytes")
    return data


def _read(path: Path) -> _Read:
    """Raises ValueError, in words that follow the file's name."""
    try:
        raw = _bytes(path, LARGEST_STATEMENT)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror or error}") from None
    old = False
    try:
        data = json.loads(raw)
        old = isinstance(data, dict) and data.get("format") in OLD
        if not isinstance(data, dict) or data["format"] != FORMAT or NONCE.fullmatch(data["nonce"]) is None:
            raise ValueError
        made, until, same = _moment(data["made"]), _moment(data["until"]), canonical(data) == raw
    except UNREADABLE:
        raise ValueError(OUTDATED if old else "is no statement of a game day") from None
    if not same:
        raise ValueError("is not as it was made: it was edited")
    return _Read(path.name, raw, data, made, until, digest_of(data))


def _listed_in(folder: Path) -> tuple[list[_Read], list[str]]:
    """Its statements, the newest first, and what is wrong with others. Raises OSError."""
    found, wrong = [], []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            try:
                found.append(_read(folder / name))
            except ValueError as error:
                wrong.append(f"{printable(name)} {error}")
    return sorted(found, key=lambda each: each.made, reverse=True), wrong


def _put(path: Path, data: bytes) -> None:
    """Make a file that is not there yet. Raises OSError, and nothing is left then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        fsync_folder(path.parent)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


# ---- signatures ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Signature:
    """``names``: the principals that the key stands for; ``key``: its fingerprint, of a certificate the key's own."""

    names: tuple[str, ...]
    key: str

    @property
    def person(self) -> str:
        return self.names[0]

    def same(self, other: Signature) -> str | None:
        """Why both count as one person; None: they are two."""
        if {name.casefold() for name in self.names} & {name.casefold() for name in other.names}:
            return f"{self.person} signed twice, and one person counts once"
        if self.key == other.key:
            return f"{self.person} signed with the key of {other.person}, and one key counts once"
        return None


class Signers:
    """Those who may sign, at one moment. Raises InvalidInput when they cannot be read, or ssh-keygen is not there."""

    def __init__(
        self, day: GameDay, now: datetime, named: str | None, namespace: str = NAMESPACE, under: str = "approval"
    ) -> None:
        """``named``: the file, beside the day's. ``namespace``: what signatures are for. ``under``: where it stands."""
        if named is None:
            raise InvalidInput(
                f"nobody may sign {day.name}: its file names no allowed_signers", remedy=f"name them under {under}"
            )
        self.label, self._now, self._namespace = named, now, namespace
        program = shutil.which("ssh-keygen")
        if program is None:
            raise MissingPrerequisite(
                "there is no ssh-keygen, without which no signature is made or verified",
                remedy="install openssh-client",
            )
        self.program = program
        try:
            self._allowed = _bytes(day.beside(named), LARGEST_OTHER)
        except OSError as error:
            raise InvalidInput(
                f"the allowed signers {named} cannot be read: {error.strerror or error}",
                remedy="put the file beside the game day's",
            ) from error

    def signature(self, raw: bytes, signed: bytes) -> Signature:
        """Whose signature over ``raw`` it is. Raises ValueError, in words: it is nobody's who may sign now."""
        with tempfile.TemporaryDirectory(prefix="oschaos-approval-") as folder:
            allowed, file = os.path.join(folder, "allowed_signers"), os.path.join(folder, "sig")
            Path(allowed).write_bytes(self._allowed)
            Path(file).write_bytes(signed)
            of = ["-n", self._namespace, "-s", file]
            code, out, error = self._ask(raw, "check-novalidate", *of)
            key = re.search(r" key (SHA256:\S+)\s*$", out)
            if code != 0 or key is None:
                raise ValueError(f"the signature does not verify ({_last(error)})")
            # by the local clock, as the times in the file are; ssh-keygen knows others since 9.1 only
            at = f"-Overify-time={self._now.astimezone():%Y%m%d%H%M%S}"
            code, out, error = self._ask(raw, "find-principals", at, "-f", allowed, "-s", file)
            names = tuple(printable(name) for name in out.splitlines() if name.strip())
            if code != 0 or not names:
                if "expired" in error or "not yet valid" in error:
                    raise ValueError(f"the key {key[1]} is not valid at this time, says {self.label}")
                raise ValueError(f"a stranger signed: the key {key[1]} is of nobody in {self.label}")
            code, out, error = self._ask(raw, "verify", at, "-f", allowed, "-I", names[0], *of)
            same = re.search(r" key (SHA256:\S+)\s*$", out)
            if code != 0 or same is None or same[1] != key[1]:
                raise ValueError(f"the signature of {names[0]} does not verify ({_last(error)})")
            return Signature(names, key[1])

    def _ask(self, raw: bytes, *arguments: str) -> tuple[int, str, str]:
        """Exit code and what it says. Raises ValueError when it does not answer."""
        try:
            done = subprocess.run(
                [self.program, "-Y", *arguments],
                input=raw,
                capture_output=True,
                timeout=SECONDS,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"ssh-keygen gave no answer within {SECONDS:g} s") from None
        except OSError as error:
            raise ValueError(f"ssh-keygen cannot be run: {error.strerror or error}") from None
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def over(self, folder: Path, each: _Read) -> tuple[list[Signature], list[str]]:
        """Those who signed a statement, each person and each key once, and what is wrong with other signatures."""
        counted: list[Signature] = []
        wrong: list[str] = []
        stem = each.name.removesuffix(".json")
        try:
            names = sorted(n for n in os.listdir(folder) if n.startswith(f"{stem}.") and n.endswith(".sig"))
        except OSError as error:
            return [], [f"the folder cannot be read: {error.strerror or error}"]
        for name in names:
            try:
                found = self.signature(each.raw, _bytes(folder / name, LARGEST_OTHER))
            except OSError as error:
                wrong.append(f"{printable(name)}: it cannot be read: {error.strerror or error}")
                continue
            except ValueError as error:
                wrong.append(f"{printable(name)}: {error}")
                continue
            if why := next((why for other in counted if (why := found.same(other))), None):
                wrong.append(f"{printable(name)}: {why}")
            else:
                counted.append(found)
        return counted, wrong


def _signers(day: GameDay, now: datetime) -> Signers:
    return Signers(day, now, day.written.approval.allowed_signers)


def _last(said: str) -> str:
    """The last line of what ssh-keygen says that says something."""
    lines = [line for line in said.splitlines() if line.strip() and line.strip() != "Could not verify signature."]
    return one_line(lines[-1]) if lines else "without a reason"


# ---- what stands, and signing --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Approved:
    """An approval that stands. ``people``: who signed; ``keys``: their fingerprints; ``nonce``: for its single use."""

    people: tuple[str, ...]
    keys: tuple[str, ...]
    digest: str
    made: datetime
    until: datetime
    nonce: str
    file: str


def standing(
    day: GameDay, content: Mapping[str, Any], now: datetime, used: Collection[str] = ()
) -> Approved | list[str]:
    """The approval of this content, or why there is none: a sentence for each reason, at least one.

    ``used``: nonces of approvals that a day was begun with. Never raises what files may cause.
    """
    named, wanted = day.written.approval.folder, digest_of(content)
    folder = day.beside(named)
    try:
        signers = _signers(day, now)
        statements, wrong = _listed_in(folder)
    except InvalidInput as error:
        return [str(error)]
    except FileNotFoundError:
        return [f"nobody has approved it: there is no folder {named}"]
    except OSError as error:
        return [f"the folder {named} cannot be read: {error.strerror or error}"]
    reasons: list[str] = []
    for each in statements:
        if each.digest == wanted:
            judged = _judged(day, each, signers, now, used)
            if isinstance(judged, Approved):
                return judged
            reasons += [f"{printable(each.name)}: {why}" for why in judged]
    if not reasons:
        others = [each for each in statements if each.data.get("gameday") == day.name]
        reasons = [f"{printable(each.name)} is not for this: {_differs(each, content)}" for each in others[:SHOWN]]
    return [*reasons, *wrong] or [f"nobody has approved it: there is no statement of {day.name} in {named}"]


def _differs(each: _Read, content: Mapping[str, Any]) -> str:
    return "; ".join(changed(each.data, content))


def _judged(day: GameDay, each: _Read, signers: Signers, now: datetime, used: Collection[str]) -> Approved | list[str]:
    """Of a statement of what is to be done."""
    if untimely := list(_untimely(day, each, now, used)):
        return untimely
    counted, wrong = signers.over(day.beside(day.written.approval.folder), each)
    people = tuple(one.person for one in counted)
    needed = max(1, day.written.people)
    if len(counted) >= needed:
        keys = tuple(one.key for one in counted)
        return Approved(people, keys, each.digest, each.made, each.until, each.nonce, each.name)
    who = f"only {listed(list(people))}" if people else "nobody"
    return [*wrong, f"{plural(needed, 'person', 'different people')} must sign, and {who} did"]


def _untimely(day: GameDay, each: _Read, now: datetime, used: Collection[str]) -> Iterator[str]:
    if each.nonce in used:
        yield "it was used already, and holds for one day only"
    if each.made > now:
        yield f"it says that it was made at {_stamp(each.made)}, which is yet to come"
    if each.until <= now:
        yield f"it expired at {_stamp(each.until)}"
    valid = day.written.approval.valid
    if each.until - each.made > timedelta(seconds=float(valid)):
        yield f"it holds until {_stamp(each.until)}, which is longer than the {valid.text} of the game day's file"


@dataclass(frozen=True)
class Offer:
    """What a person is to sign. ``signed``: who has already. ``file``: where it lies, or will."""

    statement: Mapping[str, Any]
    file: Path
    signed: tuple[str, ...]


def to_sign(
    day: GameDay,
    content: Mapping[str, Any],
    now: datetime,
    used: Collection[str] = (),
    nonce: str | None = None,
) -> Offer:
    """The statement of this content that still holds and that most have signed, or a new one; nothing is written.

    ``nonce``: of a new one; default drawn. Raises InvalidInput when nobody may sign, or the folder cannot be read.
    """
    signers, folder = _signers(day, now), day.beside(day.written.approval.folder)
    try:
        statements, _ = _listed_in(folder)
    except FileNotFoundError:
        statements = []
    except OSError as error:
        raise _unusable(day, error) from error
    wanted = digest_of(content)
    open_ = [each for each in statements if each.digest == wanted and not list(_untimely(day, each, now, used))]
    signed = [(each, signers.over(folder, each)[0]) for each in open_]
    if signed:
        each, people = max(signed, key=lambda pair: len(pair[1]))
        return Offer(each.data, folder / each.name, tuple(one.person for one in people))
    nonce = nonce or secrets.token_hex(16)
    made = now.replace(microsecond=0)
    new = statement(content, made, made + timedelta(seconds=float(day.written.approval.valid)), nonce)
    return Offer(new, folder / f"{wanted[:12]}-{nonce}.json", ())


@dataclass(frozen=True)
class Signed:
    """``people``: all who have signed now; ``missing``: how many must still."""

    person: str
    statement: Path
    signature: Path
    people: tuple[str, ...]
    missing: int


def approve(day: GameDay, offer: Offer, key: Path, now: datetime) -> Signed:
    """Have ssh-keygen sign what is offered, and put it into the folder. The terminal stays ssh-keygen's meanwhile.

    ``key``: as ``ssh-keygen -f`` takes it, also a public key whose other half an agent or a device has. Raises
    InvalidInput, with nothing written, when the key is of nobody who may sign, who signed already, or did not sign.
    """
    signers, folder = _signers(day, now), offer.file.parent
    raw = canonical(offer.statement)
    each = _Read(
        offer.file.name,
        raw,
        offer.statement,
        _moment(offer.statement["made"]),
        _moment(offer.statement["until"]),
        digest_of(offer.statement),
    )
    if untimely := list(_untimely(day, each, now, ())):
        raise InvalidInput(
            f"{offer.file.name}: {untimely[0]}", remedy="approve again: opensearch-chaos gameday approve"
        )
    try:
        there = _bytes(offer.file, LARGEST_STATEMENT)
    except FileNotFoundError:
        there = None
    except OSError as error:
        raise _unusable(day, error) from error
    if there not in (None, raw):
        raise InvalidInput(f"{offer.file.name} was changed meanwhile", remedy="read it again before you sign")
    signed = sign(signers.program, key, raw, NAMESPACE)
    try:
        mine = signers.signature(raw, signed)
    except ValueError as error:
        raise InvalidInput(
            f"nothing was approved: {error}",
            remedy=f"sign with a key that is in {signers.label}, or have yours put there by a change that is reviewed",
        ) from None
    others = signers.over(folder, each)[0] if there is not None else []
    if why := next((why for other in others if (why := mine.same(other))), None):
        raise InvalidInput(f"nothing was approved: {why}", remedy="have somebody else sign")
    signature = folder / f"{offer.file.name.removesuffix('.json')}.{_slug(mine)}.sig"
    try:
        if there is None:
            _put(offer.file, raw)
        write_atomically(signature, signed)  # one that was there did not verify
    except OSError as error:
        raise _unusable(day, error) from error
    people = tuple(one.person for one in (*others, mine))
    return Signed(mine.person, offer.file, signature, people, max(0, max(1, day.written.people) - len(people)))


def _unusable(day: GameDay, error: OSError) -> InvalidInput:
    named = day.written.approval.folder
    return InvalidInput(
        f"the folder {named} cannot be used: {error.strerror or error}", remedy="make it a folder that you may write"
    )


def sign(program: str, key: Path, raw: bytes, namespace: str) -> bytes:
    """The signature, by ``program`` (ssh-keygen), for ``namespace``. Raises InvalidInput."""
    key = key.expanduser()
    if not key.is_file():
        raise InvalidInput(f"there is no key {key}", remedy="name a private key, or the public key of one in an agent")
    with tempfile.TemporaryDirectory(prefix="oschaos-approval-") as folder:
        file = Path(folder) / "statement"
        file.write_bytes(raw)
        try:
            code = subprocess.call([program, "-Y", "sign", "-n", namespace, "-f", str(key), str(file)])
            if code == 0:
                return _bytes(file.with_name("statement.sig"), LARGEST_OTHER)
        except OSError as error:
            raise InvalidInput(
                f"ssh-keygen did not sign: {error.strerror or error}", remedy="try it by hand"
            ) from error
    raise InvalidInput(
        f"ssh-keygen did not sign with {key} (exit code {code})", remedy="it said why; an agent's keys: ssh-add -l"
    )


def _slug(signature: Signature) -> str:
    """A file's name for a person; with a piece of a hash, so that two people never have the same."""
    name = re.sub(r"[^a-z0-9]+", "-", signature.person.lower()).strip("-")[:40]
    return f"{name or 'key'}-{hashlib.sha256((signature.person + signature.key).encode()).hexdigest()[:8]}"
