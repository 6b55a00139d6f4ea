"""One YAML file with the position of everything in it, and the errors that point there.

The file is composed into YAML's own tree of nodes, which carries a line and a column for every key
and value. Plain Python data is made from it for pydantic, and an error's location, given as a path of
keys, is walked through the same tree to find where a person has to look.
"""

from __future__ import annotations

import difflib
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from chaos.base.errors import InvalidInput

_TAG = "tag:yaml.org,2002:"
_TYPED = {f"{_TAG}int": "a whole number", f"{_TAG}float": "a number", f"{_TAG}bool": "true or false"}
SHOWN = 40
"""Letters of a value that cannot be read that its error shows, at most."""
_TEXT = {f"{_TAG}{name}" for name in ("str", "timestamp")}

LEVELS = 100
"""Mappings and lists inside each other, at most."""
_TOO_DEEP = f"more than {LEVELS} levels of mappings and lists: expected fewer"

Loc = tuple[str | int, ...]
"""A path of keys and indices into a file."""


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, and what with what was expected. ``at_key`` points to the key."""

    loc: Loc
    says: str
    at_key: bool = False


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """``did you mean "x"?`` for the nearest known word, else the list of all."""
    known = list(known)
    near = difflib.get_close_matches(wrong, known, n=1, cutoff=0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"expected {'one of ' if len(known) > 1 else ''}{', '.join(known) or 'none here'}"


def shown(path: Path) -> str:
    """A path as short as a person would write it: relative to here when it is below."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def beside(folder: Path, file: str) -> Path:
    """A file that is named from a folder. ``~`` means a home where there is that one, and else itself."""
    return folder / os.path.expanduser(file)


@dataclass(frozen=True)
class Given:
    """A value that an option put into the place of a file's. ``says``: the option as it was written."""

    loc: Loc
    value: Any
    says: str


@lru_cache(maxsize=64)
def _composed(text: str) -> Node | None:
    """YAML's tree of a text, which nobody changes: a run reads its topology's file several times."""
    root: Node | None = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    return root


@dataclass
class Source:
    """A parsed file: ``data`` as plain Python, and where each part of it stands."""

    path: Path
    data: dict[str, Any]
    root: Node
    problems: list[Problem] = field(default_factory=list)
    lines: list[tuple[int, int, str]] = field(default_factory=list)
    given: list[Given] = field(default_factory=list)
    nulls: bool = False
    """A key without a value counts as left out, as in files that are not of ours."""

    @classmethod
    def read(cls, path: Path, *, nulls: bool = False) -> Source:
        """Parse a file. Raises :class:`InvalidInput` with every problem that keeps it from being
        a mapping of text keys without duplicates and (but with ``nulls``) without empty values."""
        name = shown(path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InvalidInput(f"{name}: there is no such file{_neighbours(path)}") from None
        except IsADirectoryError:
            raise InvalidInput(f"{name}: this is a folder, and a YAML file was expected") from None
        except UnicodeDecodeError as error:
            raise InvalidInput(f"{name}: not UTF-8 text (byte {error.start}), and a YAML file was expected") from None
        except OSError as error:
            raise InvalidInput(f"{name}: cannot be read: {os.strerror(error.errno or 0)}") from None
        except ValueError:
            raise InvalidInput(f"{name}: no file can have this name, and a YAML file was expected") from None
        if (other := _other_version(text)) is not None:
            line, says = other
            raise InvalidInput(f"{name}:{line}:1: {says}")
        try:
            root = _composed(text)
        except MarkedYAMLError as error:
            raise InvalidInput(_syntax(name, text, error)) from None
        except YAMLError as error:  # a character that YAML does not allow has no mark
            raise InvalidInput(f"{name}:1:1: not YAML: {' '.join(str(error).split())}") from None
        except RecursionError:
            line, column = _too_deep(text)
            raise InvalidInput(f"{name}:{line}:{column}: {_TOO_DEEP}") from None
        if root is None:
            raise InvalidInput(f"{name}:1:1: the file is empty, and a mapping of keys was expected")
        if not isinstance(root, MappingNode):
            line, column = _mark(root)
            raise InvalidInput(f"{name}:{line}:{column}: this is {_shape(root)}, and a mapping of keys was expected")
        source = cls(path, {}, root, nulls=nulls)
        source.data = source._plain(root, ())
        source.raise_if_wrong()
        return source

    # ------------------------------------------------------------------------------ plain data

    def _plain(self, node: Node, above: tuple[Node, ...]) -> Any:
        if any(node is other for other in above):
            self._wrong(node, "this anchor contains itself, and a value that ends was expected")
            return None
        if len(above) >= LEVELS and not isinstance(node, ScalarNode):
            self._wrong(node, _TOO_DEEP)
            return None
        above = (*above, node)
        if isinstance(node, SequenceNode):
            return [self._plain(item, above) for item in node.value]
        if isinstance(node, MappingNode):
            return self._mapping(node, above)
        assert isinstance(node, ScalarNode)
        if node.tag in _TYPED:
            try:
                return _constructed(node.tag, node.value)
            except (IndexError, KeyError, ValueError):
                given = node.value if len(node.value) <= SHOWN else f"{node.value[:SHOWN]}…"
                self._wrong(node, f"cannot read {given!r} as {_TYPED[node.tag]}: expected one, or text in quotes")
                return None
        if node.tag in _TEXT:
            return node.value
        if node.tag == f"{_TAG}null":
            if not self.nulls:
                self._wrong(node, "nothing is given here, and a value was expected")
            return None
        tag = str(node.tag).replace(_TAG, "!!")
        self._wrong(node, f"the tag {tag} means nothing here, and plain YAML was expected")
        return None

    def _mapping(self, node: MappingNode, above: tuple[Node, ...]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                continue
            if not isinstance(key, ScalarNode) or key.tag not in _TEXT:
                what = key.value if isinstance(key, ScalarNode) else _shape(key)
                self._wrong(key, f"the key {what} is not text, and a name was expected (put it in quotes)")
            elif key.value in first:
                line, _ = _mark(first[key.value])
                self._wrong(key, f'the key "{key.value}" is already in line {line}, and each may stand once')
            else:
                first[key.value] = key
                if isinstance(value, ScalarNode) and value.tag == f"{_TAG}null":
                    if not self.nulls:
                        self._wrong(key, f'"{key.value}" has no value: expected one, or the key left out')
                else:
                    data[key.value] = self._plain(value, above)
        for merged in _merged(node):
            if not isinstance(merged, MappingNode):
                self._wrong(merged, f"<< takes in {_shape(merged)}, and a mapping was expected")
            elif any(merged is other for other in above):
                self._wrong(merged, "this anchor contains itself, and a value that ends was expected")
            elif len(above) >= LEVELS:
                self._wrong(merged, _TOO_DEEP)
            else:
                for key, value in self._mapping(merged, (*above, merged)).items():
                    data.setdefault(key, value)
        return data

    # -------------------------------------------------------------------------------- problems

    def _wrong(self, node: Node, says: str) -> None:
        self.lines.append((*_mark(node), says))

    def add(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            if (option := self._given_at(problem.loc)) is not None:
                self.lines.append((*_NOWHERE, f"{option.says}: {problem.says}"))
            else:
                self.lines.append((*self.position(problem.loc, at_key=problem.at_key), problem.says))

    def put(self, given: Given) -> None:
        """Put a value that an option gave into its place, whose mappings are made where they are missing. Problems of
        it are then told of the option, and of no line of the file."""
        *above, last = given.loc
        below: Any = self.data
        for part in above:
            below = below.setdefault(part, {}) if isinstance(below, dict) else below[part]
        below[last] = given.value
        self.given.append(given)

    def _given_at(self, loc: Loc) -> Given | None:
        """The option that gave the value at ``loc``, or one above it."""
        inside = self._inside(loc)
        for each in reversed(self.given):
            if inside[: len(each.loc)] == each.loc and self._value(each.loc) is each.value:
                return each
        return None

    def _inside(self, loc: Loc) -> Loc:
        """Those parts of a path that lead through the data: pydantic puts tags of its own between them."""
        found: list[str | int] = []
        below: Any = self.data
        for part in loc:
            if _has(below, part):
                below = below[part]
                found.append(part)
        return tuple(found)

    def _value(self, loc: Loc) -> Any:
        below: Any = self.data
        for part in loc:
            if not _has(below, part):
                return None
            below = below[part]
        return below

    def position(self, loc: Sequence[str | int], *, at_key: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of the value at ``loc`` (or of its key). Parts of the path that
        are not in the file, such as a missing key or pydantic's own tags, are skipped."""
        node: Node = self.root
        key: Node = self.root
        for part in loc:
            if (found := _child(node, part)) is not None:
                key, node = found
        return _mark(key if at_key else node)

    def errors(self) -> list[str]:
        """Every problem as ``file:line:column: …``, in the file's order, each once."""
        ordered = dict.fromkeys(sorted(self.lines, key=lambda entry: entry[:2]))
        return [
            f"{shown(self.path)}{'' if (line, column) == _NOWHERE else f':{line}:{column}'}: {says}"
            for line, column, says in ordered
        ]

    def raise_if_wrong(self) -> None:
        if self.lines:
            raise InvalidInput("\n".join(self.errors()))


_NOWHERE = (0, 0)
"""The position of what is in no file: what an option gave."""


def _has(below: Any, part: str | int) -> bool:
    if isinstance(below, list):
        return isinstance(part, int) and 0 <= part < len(below)
    return isinstance(below, dict) and part in below


def read_value(text: str) -> Any:
    """A value as it would be read in a file. Raises :class:`InvalidInput`, whose message has no position."""
    if (other := _other_version(text)) is not None:
        raise InvalidInput(other[1])
    try:
        root = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    except YAMLError as error:
        problem = getattr(error, "problem", None) or error
        raise InvalidInput(f"not YAML: {' '.join(str(problem).split())}") from None
    except RecursionError:
        raise InvalidInput(_TOO_DEEP) from None
    if root is None:
        raise InvalidInput("nothing is given here, and a value was expected")
    source = Source(Path(), {}, root)
    value = source._plain(root, ())
    if source.lines:
        raise InvalidInput("; ".join(says for _, _, says in source.lines))
    return value


_VERSION = re.compile(r"\A\ufeff?(?:[ \t]*(?:#.*)?\r?\n|%(?!YAML).*\n)*%YAML[ \t]+(\S+)")
"""A directive with the version of YAML; only comments and other directives may stand before it."""


def _other_version(text: str) -> tuple[int, str] | None:
    """The line of a directive by which values are read otherwise than everywhere else, and what is said of it; None
    where there is none."""
    found = _VERSION.match(text)
    if found is None or found[1] == "1.2":
        return None
    line = text.count("\n", 0, found.start(1)) + 1
    return line, f"%YAML {found[1][:SHOWN]} gives values another meaning: expected YAML 1.2, or no such line"


@lru_cache(maxsize=1024)
def _constructed(tag: Any, value: str) -> Any:
    """The number or truth value that a scalar stands for."""
    return YAML(typ="safe", pure=True).constructor.construct_object(ScalarNode(tag, value))


def _too_deep(text: str) -> tuple[int, int]:
    """Line and column of the first mapping or list below too many others."""
    levels = 0
    for event in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
        levels += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if levels > LEVELS:
            return event.start_mark.line + 1, event.start_mark.column + 1
    return 1, 1


def _merged(node: MappingNode) -> Iterator[Node]:
    for key, value in node.value:
        if key.tag == f"{_TAG}merge":
            yield from value.value if isinstance(value, SequenceNode) else [value]


def _child(node: Node, part: str | int) -> tuple[Node, Node] | None:
    """The key node and the value node below ``node``; for a list item both are the item."""
    if isinstance(node, SequenceNode):
        if isinstance(part, int) and 0 <= part < len(node.value):
            return node.value[part], node.value[part]
        return None
    if not isinstance(node, MappingNode):
        return None
    for key, value in node.value:
        if isinstance(key, ScalarNode) and key.tag != f"{_TAG}merge" and key.value == part:
            return key, value
    for merged in _merged(node):
        if (found := _child(merged, part)) is not None:
            return found
    return None


def _mark(node: Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _shape(node: Node) -> str:
    if isinstance(node, MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, SequenceNode) else "a single value"


def _syntax(name: str, text: str, error: MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    problem = " ".join(str(error.problem or error.context or "it cannot be parsed").split())
    context = " ".join(str(error.context or "").split())
    source = text.splitlines()[line - 1] if 0 < line <= len(text.splitlines()) else ""
    hint = "well-formed YAML was expected"
    if ">" in source[max(0, column - 2) : column]:
        hint = 'a comparison was perhaps meant: put it in quotes, as in ">= 99.9%"'
    elif "\t" in source[:column]:
        hint = "indentation with spaces was expected"
    where = f" {context}" if context and context != problem else ""
    return f"{name}:{line}:{column}: not YAML:{where + ':' if where else ''} {problem}; {hint}"


def _neighbours(path: Path) -> str:
    if not path.parent.is_dir():
        return f", nor a folder {shown(path.parent)}"
    names = {file.stem: file.name for file in sorted(path.parent.glob("*.yaml"))}
    near = difflib.get_close_matches(path.stem, names, n=1)
    if near:
        return f"; did you mean {shown(path.parent / names[near[0]])}?"
    return f"; in {shown(path.parent)} there {_is_or_are(names.values())}" if names else ""


def _is_or_are(names: Iterable[str]) -> str:
    names = list(names)
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(names)}"
