"""``--set load.write.rate=50/s``: single values of an experiment's file, given on the command line.

A path is keys joined by dots, as they stand in the file; a key may have dots of its own (``guards.cluster.red``). An
item of a list is named by its number from 0, by its ``name``, or by a key that it alone has (``expect.read.good``). A
path leads to what is in the file, or to a key that may stand there. Below ``topology`` stand the keys of the file that
the experiment names (``topology.opensearch``). Values are read as YAML and put into the file's
data before that is validated, so they are held to everything that a file is held to.
"""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from chaos.base.errors import InvalidInput
from chaos.definitions.source import Given, Source, read_value, shown

OPTION = "--set"
EXAMPLE = "load.write.rate=50/s"
TOPOLOGY = "topology."
SEED = "seed"
LIKE = 0.6
"""From which likeness (0..1) on a key is near another one, as :func:`difflib.get_close_matches` has it."""
NO_YAML = "><=@`%"
"""What YAML means nothing, or something else, by at the beginning of a value: a comparison (``>= 99%``) is text."""


@dataclass(frozen=True)
class Override:
    """One value. ``path`` and ``text``: as they were written; ``option``: by which it came. ``above``: what was written
    before the path and leads to the file in which it stands."""

    path: str
    text: str
    value: Any
    option: str = OPTION
    above: str = ""

    @property
    def says(self) -> str:
        return f"{self.option} {self.above}{self.path}={self.text}"


def parse(given: Iterable[str], option: str = OPTION) -> tuple[Override, ...]:
    """What the option's values say. Raises :class:`InvalidInput` for one that is no ``PATH=VALUE``, whose value is no
    YAML, or whose path was given before."""
    found: dict[str, Override] = {}
    for each in given:
        path, equals, text = (part.strip() for part in each.partition("="))
        if not equals or not path or not text:
            raise InvalidInput(
                f"{option} {each}: expected a path in the file, = and a value",
                remedy=f"for example {option} {EXAMPLE}",
            )
        if path in found:
            raise InvalidInput(f"{option} {each}: {path} is given twice", remedy="give each value once")
        found[path] = Override(path, text, _read(text, f"{option} {each}"), option)
    return tuple(found.values())


def parted(given: Iterable[Override]) -> tuple[list[Override], list[Override]]:
    """Those of the experiment's own file, and those of its topology's, by their paths in it."""
    own, below = list[Override](), list[Override]()
    for each in given:
        if each.path.startswith(TOPOLOGY):
            below.append(replace(each, path=each.path.removeprefix(TOPOLOGY), above=TOPOLOGY))
        else:
            own.append(each)
    return own, below


def refuse_topology(given: Iterable[Override]) -> None:
    """For a cluster that exists, whose topology no option changes. Raises :class:`InvalidInput`."""
    for each in parted(given)[1]:
        raise InvalidInput(f"{each.says}: a cluster that exists has its own topology", remedy="leave it out")


def refuse_beside(given: Iterable[Override], *options: tuple[str, str, object]) -> None:
    """Raises :class:`InvalidInput` for a value of what another option says as well, of which one would be ignored.

    ``options``: each with its name, the path that it is of, and what was given; None or False: nothing.
    """
    for each in parted(given)[0]:
        for option, path, value in options:
            if value is not None and value is not False and (each.path == path or each.path.startswith(f"{path}.")):
                raise InvalidInput(f"{option} and {each.says} say the same", remedy="leave one of them out")


def _read(text: str, says: str) -> Any:
    if text[0] in NO_YAML:
        return text
    try:
        return read_value(text)
    except InvalidInput as error:
        raise InvalidInput(f"{says}: {error.message}", remedy="put the value in quotes of its own") from None


def override(source: Source, given: Iterable[Override], model: type[BaseModel]) -> None:
    """Put the values into the data of a file. ``model``: of the file, which says what else may stand where.

    Raises :class:`InvalidInput` for a path that leads nowhere, with the nearest that leads somewhere.
    """
    for each in given:
        try:
            loc = tuple(_resolve(source.data, model, each.path))
        except _Astray as astray:
            near = _right(source.data, model, astray.near) or _similar(source.data, each.path)
            right = f"; did you mean {each.above}{near}?" if near else ""
            raise InvalidInput(f"{shown(source.path)}: {each.says}: {astray.says}{right}") from None
        source.put(Given(loc, each.value, each.says))


class _Astray(Exception):
    """A path that leads nowhere. ``near``: the nearest path that leads somewhere, if one is near."""

    def __init__(self, says: str, near: str | None = None) -> None:
        super().__init__(says)
        self.says, self.near = says, near


def _right(data: Any, model: Any, near: str | None) -> str | None:
    """The near path, made right in its later keys too; None where that cannot be."""
    tried: set[str] = set()
    while near is not None and near not in tried:
        tried.add(near)
        try:
            list(_resolve(data, model, near))
        except _Astray as astray:
            near = astray.near
        else:
            return near
    return None


def _similar(data: Any, path: str) -> str | None:
    """The path of the file that is most like another one (``read.rate``: ``load.read.rate``)."""
    return next(iter(difflib.get_close_matches(path, list(_paths(data)), n=1, cutoff=LIKE)), None)


def _paths(data: Any, above: str = "") -> Iterator[str]:
    items = data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        here = f"{above}.{key}" if above else str(key)
        yield here
        yield from _paths(value, here)


def _resolve(data: Any, model: Any, path: str) -> Iterator[str | int]:
    """The parts of a path, one after the other. ``data`` None: nothing is there yet."""
    walked, rest = "", path
    while rest:
        part: str | int
        if isinstance(data, list):
            part, key, rest = _item(data, rest, walked)
            data = data[part]
        else:
            key, rest = _key(data, model, rest, walked)
            part = key
            data = data.get(key) if isinstance(data, Mapping) else None
        model = _below(model, part)
        walked = ".".join(each for each in (walked, key) if each)
        yield part


def _key(data: Any, model: Any, rest: str, walked: str) -> tuple[str, str]:
    """The next key below a mapping, and what of the path is left behind it."""
    known = list(dict.fromkeys([*(data if isinstance(data, Mapping) else ()), *_keys(model)]))
    if data is not None and not isinstance(data, Mapping):
        raise _Astray(f"{walked} is a single value ({data}), and no key stands below it")
    fits = [key for key in known if rest == key or rest.startswith(f"{key}.")]
    if fits:
        key = max(fits, key=len)
        return key, rest.removeprefix(key).removeprefix(".")
    if _free(model):
        return rest, ""
    at = f"in {walked}" if walked else "in the file"
    if not known:
        raise _Astray(f"{walked} has no keys")
    near = _nearest(rest, known)
    what = rest.split(".")[0] if near is None else rest
    others = "" if near else f": expected one of {', '.join(known)}"
    raise _Astray(f'there is no "{what}" {at}{others}', near and (f"{walked}.{near}" if walked else near))


def _item(data: list[Any], rest: str, walked: str) -> tuple[int, str, str]:
    """The next item of a list: its number, what the path calls it, and what is left of the path behind it.

    An item that is called by a key of its own leaves that key in the path.
    """
    number, _, left = rest.partition(".")
    if number.isdecimal():
        if int(number) < len(data):
            return int(number), number, left
        raise _Astray(f"{walked} has {len(data)} items, counted from 0, and no {number}", f"{walked}.{len(data) - 1}")
    calls = [
        (index, name, left)
        for index, each in enumerate(data)
        if isinstance(each, Mapping)
        for name, left in _calls(each, rest)
    ]
    if len(calls) == 1:
        return calls[0]
    if calls:
        numbers = " and ".join(f"{walked}.{index}" for index, _, _ in calls)
        raise _Astray(f"{walked} has several of that name: name one by its number, {numbers}")
    names = [str(each.get("name") or key) for each in data if isinstance(each, Mapping) for key in each]
    near = _nearest(rest, names)
    raise _Astray(f'there is no "{rest}" in {walked}, a list of {len(data)}', near and f"{walked}.{near}")


def _calls(item: Mapping[str, Any], rest: str) -> Iterator[tuple[str, str]]:
    """How the path calls this item, if it does, and what of the path is left behind that."""
    name = item.get("name")
    if isinstance(name, str) and (rest == name or rest.startswith(f"{name}.")):
        yield name, rest.removeprefix(name).removeprefix(".")
        return
    if any(rest == key or rest.startswith(f"{key}.") for key in item):
        yield "", rest


def _nearest(rest: str, known: Iterable[str]) -> str | None:
    """The known key that is most like the beginning of what is left of a path, with what is left behind that."""
    parts, best, near = rest.split("."), LIKE, None
    for key in known:
        count = key.count(".") + 1
        like = difflib.SequenceMatcher(None, ".".join(parts[:count]), key).ratio()
        if like > best:
            best, near = like, ".".join([key, *parts[count:]])
    return near


# -------------------------------------------------------------------- what a model says of its keys


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that may stand here: through Optional, Annotated, unions, and lists of which one item may stand
    alone; not through mappings."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if _origin(annotation) in (dict, Mapping):
        return []
    return [each for inner in typing.get_args(annotation) for each in _models(inner)]


def _containers(annotation: Any) -> list[Any]:
    """The mappings and lists that may stand here, as annotations."""
    if _origin(annotation) in (dict, list, tuple, Mapping):
        return [annotation]
    return [each for inner in typing.get_args(annotation) for each in _containers(inner)]


def _origin(annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    return Mapping if isinstance(origin, type) and origin is not dict and issubclass(origin, Mapping) else origin


def _keys(annotation: Any) -> list[str]:
    """The keys that may stand in a mapping."""
    return [info.alias or name for each in _models(annotation) for name, info in each.model_fields.items()]


def _below(annotation: Any, part: str | int) -> Any:
    """What may stand at a key, or item, of what may stand here; None: nothing is known of it."""
    for model in _models(annotation):
        for name, info in model.model_fields.items():
            if part == (info.alias or name):
                return typing.Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    for container in _containers(annotation):
        inner = typing.get_args(container)
        return inner[1] if _origin(container) in (dict, Mapping) else inner[0]
    return None


def _free(annotation: Any) -> bool:
    """Whether any key may stand here: in a mapping of plain values (``rates``), not of things (``phases``)."""
    return any(
        _origin(each) in (dict, Mapping) and not _models(typing.get_args(each)[1]) for each in _containers(annotation)
    )


def written(given: Iterable[Override]) -> dict[str, str]:
    """Path to value, as they were written, for a plan."""
    return {each.path: each.text for each in given}


def of_topology(given: Mapping[str, str]) -> dict[str, str]:
    """Those of the topology's file. ``given``: as a plan has it."""
    return {path: text for path, text in given.items() if path.startswith(TOPOLOGY)}


def options(given: Mapping[str, str]) -> list[str]:
    """The option's values that make an experiment of its file again, beside ``--seed``. ``given``: as a plan has it."""
    return [f"{path}={text}" for path, text in given.items() if path != SEED]


def sentences(given: Mapping[str, str]) -> list[str]:
    """For people: what the command line says instead of the file. ``given``: as a plan has it."""
    return [
        f"{path} is {text}: given on the command line, instead of what the file says" for path, text in given.items()
    ]
