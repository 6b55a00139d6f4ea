"""The first draft of a game day's file, from a target and experiments.

What only people can decide (owner, window, guards, whom to tell, how to stop it) stands in it as a key without a value,
unless an option says it: until it is filled in, every command refuses the file with that line. So a draft permits
nothing by itself. Nothing is asked of the cluster.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.base.errors import InvalidInput
from chaos.definitions.experiment import Experiment
from chaos.definitions.gameday import FOLDER
from chaos.definitions.selectors import NAME

APPROVERS, OPERATORS = "allowed_signers", "operators"
"""Files beside the day's: who may approve it, and whose consent counts."""
BETWEEN_SECONDS = 300.0
"""Beside each experiment: the gates before it, and the cluster that must be green again (`preflight.within`)."""
ROUNDED_TO = 300.0
SIGNERS = """\
# Who may {what}: a line each, PRINCIPAL KEYTYPE KEY, as ssh-keygen(1) has it under ALLOWED SIGNERS, for example
# alice@example.com ssh-ed25519 AAAA…
# Without one nothing is {done}.
"""


@dataclass(frozen=True)
class Answers:
    """What options said. None: it is left to be filled in."""

    owner: str | None = None
    hypothesis: str | None = None
    ssh: str | None = None
    kubernetes: str | None = None


@dataclass(frozen=True)
class Draft:
    """``text``: the file's. ``open``: keys that a person must fill in. ``files``: beside it, by name."""

    path: Path
    text: str
    open: tuple[str, ...]
    files: dict[str, str]


def draft(
    experiments: Sequence[Experiment],
    files: Sequence[Path],
    target: Path,
    name: str,
    answers: Answers,
    repository: Path,
) -> Draft:
    """A day for the file ``target``, in ``repository``/experiments/gamedays. ``files``: those of the experiments.

    Raises InvalidInput for a name that is none, and for a file outside of the repository, which a checkout elsewhere
    would not have.
    """
    if not re.fullmatch(NAME, name):
        raise InvalidInput(
            f"--name {name!r} cannot name a game day", remedy="use small letters, digits, dashes, dots and underscores"
        )
    folder = repository / FOLDER
    seconds = sum(float(each.guards.max) + BETWEEN_SECONDS for each in experiments)
    minutes = math.ceil(seconds / ROUNDED_TO) * ROUNDED_TO / 60
    stop = f"/run/opensearch-chaos/{name}.stop"
    way = f"kubernetes: {answers.kubernetes}" if answers.kubernetes else f"ssh: {_text(answers.ssh)}"
    lines = [
        "# Drafted by `opensearch-chaos gameday init`. What has no value is yours to decide; until then it is refused.",
        "# Then: opensearch-chaos gameday check FILE. docs/gamedays.md goes through it from zero to a scheduled day.",
        "apiVersion: opensearch-chaos/v1",
        "kind: gameday",
        f"name: {name}",
        f"owner: {_text(answers.owner)}  # who answers for it, for example team-search <search@example.com>",
        f"hypothesis: {_text(answers.hypothesis)}  # what is believed: users notice nothing when a node dies",
        f"target: {_text(_relative(target, folder, repository))}",
        "experiments:  # rung: how far each may reach; a zone takes two approvers, and a node's day before it",
        *(f"  - {{experiment: {_text(_relative(file, folder, repository))}, rung: node}}" for file in files),
        "window:  # by the clock of this zone; a day may begin only so late that `bounds` still fit in",
        "  zone:  # for example Europe/Berlin",
        "  days:  # for example [tue, thu]",
        "  from:  # for example '10:00'",
        "  to:  # for example '12:30'",
        f"approval: {{allowed_signers: {APPROVERS}}}  # their keys; `gameday approve` signs",
        f"consent: {{allowed_signers: {OPERATORS}}}  # the cluster's operators, by keys that the runner has not",
        "ladder: {labs: ../../reports/labs}  # run FILE --out reports/labs: each experiment has passed in a lab first",
        "guards:  # what your users see comes first; its loss of data ends the day",
        "  users:",
        "    counts: outcome",
        "    prometheus:",
        "      url:  # for example http://prometheus.example.com:9090",
        "      query:  # PromQL for one number, for example job:checkout_errors:ratio_rate1m",
        "    above:  # what is bad, for example 1%",
        "announce:",
        "  - slack:  # a reference to a webhook, for example env:SLACK_WEBHOOK; or webhook, or grafana",
        f"bounds: {{day: {minutes:.0f}m, abort: 2m}}  # what the experiments may take, and the waits between",
        f"stop: {{file: {stop}, {way}}}"
        + (
            ""
            if answers.ssh or answers.kubernetes
            else "  # how people reach the runner, for example chaos@runner.example.com"
        ),
    ]
    given = {"owner": answers.owner, "hypothesis": answers.hypothesis, "stop.ssh": answers.ssh or answers.kubernetes}
    left = ("window", "guards.users", "announce")
    signers = {
        APPROVERS: SIGNERS.format(what="approve it", done="approved"),
        OPERATORS: SIGNERS.format(what="consent for the cluster", done="consented to"),
    }
    return Draft(
        folder / f"{name}.yaml",
        "\n".join(lines) + "\n",
        (*(key for key, value in given.items() if not value), *left),
        {name: text for name, text in signers.items() if not (folder / name).exists()},
    )


def write(made: Draft) -> list[Path]:
    """Write it and the files beside it; returns them. Raises InvalidInput where the day's file is there, or it cannot
    be written; nothing that is there is changed."""
    try:
        made.path.parent.mkdir(parents=True, exist_ok=True)
        written = []
        for path, text in [(made.path, made.text), *((made.path.parent / n, t) for n, t in made.files.items())]:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
            written.append(path)
        return written
    except FileExistsError as error:
        raise InvalidInput(
            f"{error.filename} is there already, and is not written over",
            remedy="name another with --name, or move it away",
        ) from None
    except OSError as error:
        raise InvalidInput(f"cannot write {error.filename}: {error.strerror}", remedy="name another folder") from None


def _relative(file: Path, folder: Path, repository: Path) -> str:
    """A file as the day's names it."""
    whole, root = Path(os.path.abspath(file)), Path(os.path.abspath(repository))
    if not whole.is_relative_to(root):
        raise InvalidInput(
            f"{file} is outside of this folder, and a runner's checkout would not have it",
            remedy="go to the root of the repository, and copy it there",
        )
    return os.path.relpath(whole, os.path.abspath(folder))


def _text(value: str | None) -> str:
    """As YAML reads it back; nothing where there is none."""
    return "" if value is None else json.dumps(value, ensure_ascii=False)
