"""All that decides what a game day may touch, by whom and how far: the whole of its models, and files by content.

An approval is made of this. A field is in it because its model has it, and never because a list names it:
:func:`data` takes each field of each model. What is left out stands in :data:`LEFT_OUT`, with the reason.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chaos.definitions.existing import AccessFile, Existing, HostsFile
from chaos.definitions.experiment import Experiment, GuardCommand
from chaos.definitions.gameday import (
    Announcement,
    Approval,
    Consent,
    Freeze,
    GameDay,
    HttpGuard,
    ProgramGuard,
    PrometheusGuard,
    Ticket,
)
from chaos.definitions.hooks import Hook
from chaos.definitions.slis import SliAccess
from chaos.gamedays.record import plain

LEFT_OUT: Mapping[tuple[type[BaseModel], str], str] = {
    (GameDay, "file"): "how people name the file; what it says is in",
    (GameDay, "folder"): "where the file lies: it is approved on one machine and carried out on another",
    (Existing, "file"): "how people name the file; what it says is in",
    (Existing, "folder"): "where the file lies: it is approved on one machine and carried out on another",
}
"""Fields that are in no approval, each with the reason."""
NOT_COVERED = (
    "the values of secrets (env:NAME, file:PATH), and addresses that are secrets: the references are covered",
    "keys and certificates with which the runner shows who it is: their names are covered",
    "a kubeconfig, which has the runner's credentials: its name is covered, and so are the uids of the Kubernetes that "
    "it must lead to",
    "what a calendar at an address says, or in a file that is renewed (oldest): its address or name is covered",
    "programs of the operating system, and what a program itself reads: names and arguments are covered",
    "ssh's own configuration of the runner's user, where hosts.config names none; in that file, where keys and known "
    "hosts lie, and files that it includes",
)
"""What no signature is over, in words: the page that people sign ends with it."""
CONTENT: Mapping[tuple[type[BaseModel], str], str] = {
    (Freeze, "yaml"): "file",
    (Freeze, "ics"): "calendar",
    (Freeze, "ca"): "file",
    (Ticket, "ca"): "file",
    (HttpGuard, "ca"): "file",
    (PrometheusGuard, "rules"): "file",
    (Announcement, "ca"): "file",
    (SliAccess, "ca"): "file",
    (AccessFile, "ca"): "file",
    (Approval, "allowed_signers"): "file",
    (Consent, "allowed_signers"): "file",
    (HostsFile, "config"): "ssh",
    (ProgramGuard, "run"): "program",
    (GuardCommand, "run"): "program",
    (Hook, "inject"): "program beside",
    (Hook, "in_effect"): "program beside",
    (Hook, "undo"): "program beside",
    (Hook, "gone"): "program beside",
}
"""Fields that name files whose content decides. ``ssh``: without :data:`OF_THE_RUNNER`. ``program``: started in the
working folder; ``program beside``: in the folder of the file in which it stands. A test holds that each field of text
is here or known to name no such file."""
OF_THE_RUNNER = frozenset(
    ("identityfile", "certificatefile", "identityagent", "controlpath", "userknownhostsfile", "globalknownhostsfile")
)
"""Keywords of ssh's configuration that name files of the runner's own, which lie elsewhere on each machine. Where ssh
leads, as whom, and whether it looks at who answers, is all the rest."""
SYSTEM = ("/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/lib/", "/lib/")
"""Where the operating system's programs are: other bytes on each machine, and only root changes them."""
ABSENT = "not there"
_PIECE = 1 << 20


def data(model: BaseModel) -> dict[str, Any]:
    """Every field of a model and of all in it, by its name in YAML, quantities as people write them. None is left out:
    it is what a field that is not there comes to."""
    found = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if value is not None and (type(model), name) not in LEFT_OUT:
            found[field.alias or name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return data(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(each) for each in value), key=str)
    if isinstance(text := getattr(value, "text", None), str):
        return text
    if isinstance(value, time):
        return f"{value:%H:%M}" if not (value.second or value.microsecond) else value.isoformat()
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, str | bool | int | float):
        return plain(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"no form for {type(value).__name__}, which an approval would have to cover")


# ---- files by their content -----------------------------------------------------------------------------------------


def files(model: BaseModel, folder: Path, where: str) -> dict[str, str]:
    """Place in the model and name, as written → SHA-256 of the content, :data:`ABSENT`, or why it cannot be read.

    ``folder``: beside which its files are. ``where``: how the places begin.
    """
    return dict(_files(model, folder, where))


def _files(value: Any, folder: Path, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            each, place = getattr(value, name), f"{where}.{field.alias or name}"
            kind = CONTENT.get((type(value), name))
            if kind is None:
                yield from _files(each, folder, place)
            elif each is not None:
                yield from _of_kind(kind, value, each, folder, place)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _files(each, folder, f"{where}.{key}")
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _files(each, folder, f"{where}.{number}")


def _of_kind(kind: str, model: BaseModel, value: Any, folder: Path, place: str) -> Iterator[tuple[str, str]]:
    if kind == "calendar":
        assert isinstance(model, Freeze)
        if model.remote or model.oldest is not None:
            return
    if kind.startswith("program"):
        at = folder if kind == "program beside" else Path.cwd()
        yield from ((f"{place}: {word}", said) for word, said in _program([str(word) for word in value], at))
    else:
        said = (_ssh if kind == "ssh" else content_of)(folder / Path(str(value)).expanduser())
        yield f"{place}: {value}", said


def _program(words: Sequence[str], at: Path) -> Iterator[tuple[str, str]]:
    """The files of a command line that is started in ``at``: its program, and arguments that are files there."""
    program = words[0]
    if "/" in program:
        path: Path | None = at / Path(program).expanduser()
    else:
        found = shutil.which(program)
        path = None if found is None else Path(found)
    if path is not None and not os.path.realpath(path).startswith(SYSTEM):
        yield program, content_of(path)
    for word in words[1:]:
        for part in dict.fromkeys((word, word.partition("=")[2])):
            if part and _is_file(at / part):
                yield word, content_of(at / part)


def _ssh(path: Path) -> str:
    """SHA-256 of a configuration of ssh, without comments and :data:`OF_THE_RUNNER`; of another file as
    :func:`content_of` has it."""
    said = content_of(path)
    if not re.fullmatch(r"[0-9a-f]{64}", said):
        return said
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    kept = [line for line in lines if re.split(r"[\s=]", line, maxsplit=1)[0].lower() not in OF_THE_RUNNER]
    return hashlib.sha256("\n".join(kept).encode(errors="surrogateescape")).hexdigest()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def content_of(path: Path) -> str:
    """SHA-256 of a regular file's content; else what it is instead."""
    made = hashlib.sha256()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "no regular file"
            while piece := file.read(_PIECE):
                made.update(piece)
    except FileNotFoundError:
        return ABSENT
    except (OSError, ValueError) as error:
        return f"cannot be read ({getattr(error, 'strerror', None) or type(error).__name__})"
    return made.hexdigest()


# ---- all of a day ---------------------------------------------------------------------------------------------------


def of(day: GameDay, target: Existing) -> dict[str, Any]:
    """What a day and its target decide, as JSON: both whole, and the files that they name by content."""
    return {
        "gameday": data(day)["written"],
        "target": data(target)["written"],
        "files": {
            **files(day.written, day.folder, "gameday"),
            **files(target.written, target.folder, "target"),
        },
    }


def of_experiment(experiment: Experiment) -> dict[str, str]:
    """The files of an experiment whose content decides. What else it says is in its plan's digest."""
    return files(experiment, experiment.file.parent, f"experiment {experiment.name}")


# ---- in words -------------------------------------------------------------------------------------------------------


def lines(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Each place and what stands there, sorted by place: ``nodes.es-a.url``, ``https://…``."""
    if isinstance(value, Mapping) and value:
        for key in sorted(value, key=str):
            yield from lines(value[key], f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in value):
        for number, each in enumerate(value):
            yield from lines(each, f"{where}.{number}")
    elif isinstance(value, list | tuple):
        yield where, ", ".join(_word(each) for each in value) or "none"
    elif isinstance(value, Mapping):
        yield where, "as it is by default"
    else:
        yield where, _word(value)


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else " ".join(str(value).split()) or "nothing"


def differs(before: Any, after: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Place, what stood there and what does now; None: nothing."""
    was, now = dict(lines(before)), dict(lines(after))
    for place in dict.fromkeys((*was, *now)):
        if was.get(place) != now.get(place):
            yield place, was.get(place), now.get(place)
