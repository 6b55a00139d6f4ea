"""Answers that somebody saved with the script of :mod:`.script`, for a cluster that no tool of ours may speak to.

``NAME.json`` is the body of an answer, ``NAME.status`` its HTTP status. Without the second file an answer is
believed to be 200, or what its body says of an error.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from chaos.base.errors import InvalidInput
from chaos.definitions.topology import ZONE_ATTRIBUTE
from chaos.opensearch.rest import Garbled
from chaos.programs.audit import cluster
from chaos.programs.audit.facts import Sheet
from chaos.programs.audit.questions import VERSION, Question
from chaos.programs.audit.script import COMMAND


def read(folder: Path, zone_attribute: str = ZONE_ATTRIBUTE) -> Sheet:
    """The facts in a folder of answers. Raises InvalidInput where it is none."""
    if not folder.is_dir():
        raise InvalidInput(f"{folder}: there is no such folder", remedy=f"collect answers with {COMMAND}")
    if not (folder / f"{VERSION.name}.json").is_file():
        raise InvalidInput(
            f"{folder} holds no answers: it has no {VERSION.name}.json", remedy=f"collect them with {COMMAND}"
        )
    return cluster.read(lambda question: _answer(folder, question), f"answers in {folder}", zone_attribute)


def _answer(folder: Path, question: Question) -> tuple[int, Any]:
    file = folder / f"{question.name}.json"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise HTTPError(f"{file.name} was not saved") from None
    except (OSError, UnicodeDecodeError) as error:
        raise Garbled(f"{file.name}: {error}") from None
    body, is_json = _decoded(text)
    status = _status(folder / f"{question.name}.status", body)
    if status == 0:
        raise HTTPError(f"{file.name}: no answer came when it was saved")
    if status == 200 and not is_json:
        raise Garbled(f"{file.name} is no JSON", status)
    return status, body


def _decoded(text: str) -> tuple[Any, bool]:
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return text, False


def _status(file: Path, body: Any) -> int:
    """0: no answer came."""
    try:
        return int(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        said = body.get("status") if isinstance(body, dict) and "error" in body else 200
        return said if isinstance(said, int) else 200
    except (OSError, ValueError):
        raise Garbled(f"{file.name} holds no HTTP status") from None
