"""The experiments that come with this package, by their names: those of its wheel, or of the checkout that it is of."""

from __future__ import annotations

import re
from pathlib import Path

import chaos
from chaos.base.errors import InvalidInput
from chaos.definitions.source import did_you_mean

FOLDER = "experiments"
SUFFIX = ".yaml"
_BESIDE = re.compile(r"(?<![\w./])\./([\w./-]+\.yaml)")
"""A file that another one names by its place beside it, as ``./workloads/x.yaml``."""


def folder() -> Path:
    """Where they are. Raises InvalidInput where this package brings none."""
    package = Path(chaos.__file__).parent
    for place in (package / FOLDER, package.parent / FOLDER):
        if (place / f"no-fault{SUFFIX}").is_file():
            return place
    raise InvalidInput("this installation brings no experiments", remedy="install it from a wheel, or from a checkout")


def files() -> dict[str, Path]:
    """Every experiment by its name, with the folder that it is in: ``no-fault``, ``ab/refresh-interval``."""
    place = folder()
    found = {str(path.relative_to(place).with_suffix("")): path for path in place.rglob(f"*{SUFFIX}")}
    return dict(sorted(found.items(), key=lambda item: ("/" in item[0], item[0])))


def named(name: str) -> Path:
    """The file of a name. Raises InvalidInput, with the nearest, where there is none."""
    known = files()
    bare = name.removeprefix(f"{FOLDER}/").removesuffix(SUFFIX)
    if bare not in known:
        raise InvalidInput(f"there is no shipped experiment {bare}", remedy=did_you_mean(bare, known))
    return known[bare]


def found(given: Path) -> Path:
    """The file that somebody means: this one, else the shipped one of this name, else this one all the same.

    Only a name, or a path below ``experiments/``, can mean a shipped one.
    """
    text = str(given)
    if given.exists() or given.is_absolute() or text.startswith(("~", "..")):
        return given
    if "/" in text and not text.startswith(f"{FOLDER}/") and text.endswith(SUFFIX):
        return given
    try:
        return named(text)
    except InvalidInput:
        return given


def with_companions(path: Path) -> list[Path]:
    """A shipped file, and those that it names beside itself."""
    beside = [path.parent / each for each in _BESIDE.findall(path.read_text(encoding="utf-8"))]
    return [path, *dict.fromkeys(each for each in beside if each.is_file())]
