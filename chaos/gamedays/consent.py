"""The consent of a cluster's operators: the second party of a game day, which the runner cannot stand in for.

A document on the cluster says which game days may be held until when. Whoever runs game days may write the notes, so
the document alone proves nothing: it is signed by a key of the operators (``consent: {allowed_signers: …}``), over all
that it says and over the cluster's identity, or lies in an index that the runner's user may not write (``consent:
{index: …}``), which needs security. A key that the runner itself has is no second party, nor is an index that it may
write.

What is not shown: that the operators' key is not copied elsewhere on the runner. A signed consent that is taken back
can be put back by anyone who kept it, until its ``until``: what ends it for good is its key's line in the allowed
signers. Of an index only the target's own user is asked: the runner may have credentials of another.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput
from chaos.base.text import listed, printable
from chaos.definitions.existing import Existing
from chaos.definitions.gameday import GameDay
from chaos.gamedays import gates
from chaos.gamedays.approval import Signature, Signers, sign
from chaos.gamedays.board import CONSENT, Board, Doc
from chaos.gamedays.gate import Gate
from chaos.gamedays.record import canonical
from chaos.opensearch.cluster import Cluster

FORMAT = "opensearch-chaos/consent/v1"
NAMESPACE = "opensearch-chaos-consent"
"""What a signature is for: one over an approval is none over a consent."""
SIGNATURE = "signature"
SECONDS = 5.0
MOST_KEYS, LARGEST_KEY = 100, 64 << 10
"""Files of the runner's user that are looked at, and bytes of one."""


def board(day: GameDay, cluster: Cluster, notes: str) -> Board:
    """Where the consent is: an index of the operators' own, or the notes."""
    wanted = day.written.consent
    return Board(cluster, wanted.index if wanted is not None and wanted.index is not None else notes)


def gate(doc: Doc | None, day: GameDay, target: Existing, now: datetime, today: date, board: Board) -> Gate:
    """Whether the cluster's operators consent, and nobody else can have said so. Raises LabError where the cluster does
    not say."""
    found = gates.consent(doc, day, today, board.index)
    if not found.ok:
        return found
    assert doc is not None
    wanted = day.written.consent
    if wanted is None:
        says = "the consent may be the runner's own: the file does not say how it is known to be the operators'"
        return Gate("consent", False, says, "write consent: {allowed_signers: FILE}, or {index: NAME} with security on")
    if wanted.index is not None:
        return _by_role(found, board)
    try:
        signed = verified(doc.source, day, target, now)
    except (ValueError, InvalidInput) as error:
        remedy = f"its operators: opensearch-chaos gameday consent {day.file} --key KEY --until {doc.source['until']}"
        return Gate("consent", False, f"the consent is not its operators': {printable(str(error))}", remedy)
    if signed.key in set(own_keys()):
        says = f"the consent is signed with {signed.key}, a key of the user that runs this: it is no second party"
        return Gate("consent", False, says, "have it signed by a key that the runner does not have")
    return Gate("consent", True, f"{found.says}, signed by {signed.person} ({signed.key})")


def _by_role(found: Gate, board: Board) -> Gate:
    if (why := board.writable(CONSENT)) is not None:
        says = f"{printable(why)}: whose consent is there nobody knows"
        return Gate("consent", False, says, "turn security on, and let only a role of the operators write that index")
    return Gate("consent", True, f"{found.says}, in {board.index}, which the user that runs this may not write")


def statement(gamedays: list[str], until: date, by: str, target: Existing, made: datetime) -> dict[str, Any]:
    """What is signed."""
    identity = target.written.identity
    return {
        "format": FORMAT,
        "gamedays": sorted(set(gamedays)),
        "until": until.isoformat(),
        "by": by,
        "made": made.isoformat(timespec="seconds"),
        "cluster_uuid": identity.cluster_uuid,
        "cluster_name": identity.cluster_name,
    }


def in_words(said: Mapping[str, Any]) -> str:
    """What a person reads before they sign."""
    days = listed([str(each) for each in said["gamedays"]])
    return printable(
        f"{said['by']} consents that the game days {days} be held on {said['cluster_name']} ({said['cluster_uuid']}), "
        f"as their approvals say, until {said['until']}"
    )


def signed(day: GameDay, said: Mapping[str, Any], key: Path, now: datetime) -> dict[str, Any]:
    """The document. ``ssh-keygen`` asks for what it needs. Raises InvalidInput when the key is of no operator."""
    signers = _signers(day, now)
    raw = canonical(said)
    signature = sign(signers.program, key, raw, NAMESPACE)
    try:
        signers.signature(raw, signature)
    except ValueError as error:
        raise InvalidInput(
            f"nothing was consented to: {error}", remedy=f"sign with a key of the operators, in {signers.label}"
        ) from None
    return {**said, SIGNATURE: signature.decode("ascii")}


def verified(source: Mapping[str, Any], day: GameDay, target: Existing, now: datetime) -> Signature:
    """Whose signature a consent has. Raises ValueError, in words: it is of no operator, or over something else."""
    signature = source.get(SIGNATURE)
    if not isinstance(signature, str):
        raise ValueError("it is not signed, and whoever runs this may have written it")
    said = {key: value for key, value in source.items() if key != SIGNATURE}
    if said.get("format") != FORMAT:
        raise ValueError("it is of a form that is not known")
    found = _signers(day, now).signature(canonical(said), signature.encode("ascii", "replace"))
    uuid = target.written.identity.cluster_uuid
    if said.get("cluster_uuid") != uuid:
        raise ValueError(
            f"it is for the cluster {said.get('cluster_name')} ({said.get('cluster_uuid')}), not for {uuid}"
        )
    return found


def _signers(day: GameDay, now: datetime) -> Signers:
    named = None if day.written.consent is None else day.written.consent.allowed_signers
    return Signers(day, now, named, NAMESPACE, "consent")


def own_keys() -> Iterator[str]:
    """Fingerprints of keys that the user who runs this can sign with, as far as can be seen: those in its agent, and
    private keys in its ~/.ssh."""
    program = shutil.which("ssh-add")
    if program is not None:
        yield from _fingerprints([program, "-l"])
    program = shutil.which("ssh-keygen")
    if program is None:
        return
    for path in _private(Path.home() / ".ssh"):
        yield from _fingerprints([program, "-l", "-f", str(path)])


def _private(folder: Path) -> Iterator[Path]:
    """Files that are private keys; known hosts and those who may log in are others'."""
    with suppress(OSError):
        for name in sorted(os.listdir(folder))[:MOST_KEYS]:
            path = folder / name
            with suppress(OSError):
                status = path.stat()
                small = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_KEY
                if small and b"PRIVATE KEY-----" in path.read_bytes()[:64]:
                    yield path


def _fingerprints(command: list[str]) -> list[str]:
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=SECONDS, stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return re.findall(r"^[0-9]+ (SHA256:\S+) ", done.stdout.decode(errors="replace"), re.M)
