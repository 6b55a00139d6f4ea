"""Requests and answers held against botocore's own models of AWS's services, more strictly than botocore does.

botocore's ParamValidator checks required members, types, unknown members and least lengths. Here the greatest lengths,
counts and values, patterns and enumerations are checked too, at every depth, and answers as well as requests.

Patterns are regular expressions of Java or ECMAScript. What Python writes otherwise is rewritten (:func:`compiled`). A
value must match as a whole, except that a pattern with ``^`` before and no ``$`` is of a beginning. Where a pattern
cannot be compiled, each value that it is for is a problem: nothing passes unchecked.

``python -m chaos.aws.shapes`` says which operations have another shape in the installed botocore than the recorded
one; ``--record`` records them anew in chaos/aws/shapes.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from chaos.base.errors import InvalidInput, MissingPrerequisite
from chaos.base.extras import AWS

FILE = Path(__file__).with_name("shapes.json")
COMMAND = "python -m chaos.aws.shapes --record"
RELIED_ON: Mapping[str, tuple[str, ...]] = {
    "fis": (
        "CreateExperimentTemplate",
        "CreateTargetAccountConfiguration",
        "DeleteExperimentTemplate",
        "DeleteTargetAccountConfiguration",
        "GetAction",
        "GetExperiment",
        "GetExperimentTargetAccountConfiguration",
        "GetExperimentTemplate",
        "GetSafetyLever",
        "GetTargetAccountConfiguration",
        "GetTargetResourceType",
        "ListActions",
        "ListExperimentResolvedTargets",
        "ListExperimentTargetAccountConfigurations",
        "ListExperimentTemplates",
        "ListExperiments",
        "ListTagsForResource",
        "ListTargetAccountConfigurations",
        "ListTargetResourceTypes",
        "StartExperiment",
        "StopExperiment",
        "TagResource",
        "UntagResource",
        "UpdateExperimentTemplate",
        "UpdateSafetyLeverState",
        "UpdateTargetAccountConfiguration",
    ),
    "ec2": (
        "DeleteNetworkAcl",
        "DescribeInstances",
        "DescribeNetworkAcls",
        "DescribeSubnets",
        "DescribeVolumes",
        "ReplaceNetworkAclAssociation",
        "StartInstances",
    ),
    "ssm": (
        "CancelCommand",
        "DescribeInstanceInformation",
        "ListCommandInvocations",
        "ListCommands",
        "SendCommand",
    ),
    "sts": ("GetCallerIdentity",),
    "cloudwatch": ("DescribeAlarms",),
    "iam": ("GetRole", "SimulatePrincipalPolicy"),
    "opensearch": (
        "DescribeDomain",
        "DescribeDomainHealth",
        "DescribeDomainNodes",
        "ListDomainMaintenances",
        "StartDomainMaintenance",
    ),
}
"""Service → the operations whose shapes we rely on. FIS's are all that it has."""

_LETTER = re.compile(r"[A-Z][a-z]?")
_POSIX = {"XDigit": "0-9A-Fa-f"}
"""Java's classes of US-ASCII (java.util.regex.Pattern), of those that the models have."""
_SHORTHANDS = frozenset("wWdDsS")
_RANGES = {"integer": (-(2**31), 2**31 - 1), "long": (-(2**63), 2**63 - 1)}
_WORDS = {
    "structure": "an object",
    "map": "an object",
    "list": "a list",
    "string": "text",
    "integer": "a whole number",
    "long": "a whole number",
    "float": "a number",
    "double": "a number",
    "boolean": "true or false",
    "blob": "bytes",
    "timestamp": "a time",
}
_OF_AN_ANSWER = "ResponseMetadata"
"""What botocore adds to each answer, outside its shape."""


# ---- patterns -------------------------------------------------------------------------------------------


@cache
def _categories() -> Mapping[str, str]:
    """Unicode's general categories, and their first letters, → what stands for them within a class of characters.

    By Python's version of Unicode, which may know a few characters more or fewer than AWS's.
    """
    found: dict[str, list[list[int]]] = {}
    for point in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(point))
        for name in (category, category[0]):
            spans = found.setdefault(name, [])
            if spans and spans[-1][1] == point - 1:
                spans[-1][1] = point
            else:
                spans.append([point, point])
    return {name: "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in spans) for name, spans in found.items()}


def _rewritten(pattern: str) -> str:
    r"""In Python's words: ``\p{L}`` and its like as ranges, a hyphen beside ``\w`` in a class as a hyphen.

    Raises re.error for classes within classes, on which Java and ECMAScript differ, and for unknown categories.
    """
    out: list[str] = []
    at, within, set_before = 0, False, False
    while at < len(pattern):
        char, set_now = pattern[at], False
        if char == "\\" and at + 1 < len(pattern):
            follows = pattern[at + 1]
            at += 2
            if follows in "pP":
                if pattern[at : at + 1] == "{":
                    name, _, _ = pattern[at + 1 :].partition("}")
                    at += len(name) + 2
                else:
                    name = pattern[at : at + 1]
                    at += 1
                ranges = _POSIX.get(name) or (_categories().get(name) if _LETTER.fullmatch(name) else None)
                if ranges is None or (follows == "P" and within):
                    raise re.error(f"\\{follows}{{{name}}} is not known here")
                out.append(ranges if within else f"[{'^' if follows == 'P' else ''}{ranges}]")
                set_now = within
            else:
                out.append(f"\\{follows}")
                set_now = within and follows in _SHORTHANDS
        elif not within:
            within = char == "["
            out.append(char)
            at += 1
            if within:
                negated = pattern[at : at + 1] == "^"
                out.append("^" if negated else "")
                at += negated
        else:
            if char == "[" or pattern.startswith("&&", at):
                raise re.error("a class within a class")
            beside = set_before or (
                pattern[at + 1 : at + 2] == "\\" and pattern[at + 2 : at + 3] in ("w", "d", "s", "p")
            )
            out.append("\\-" if char == "-" and beside else char)
            within = char != "]"
            at += 1
        set_before = set_now
    return "".join(out)


ANYWHERE = ("ExperimentTemplateActionParameter", "ExperimentActionParameter")
"""Shapes whose pattern is not held against a value as a whole: AWS's own guide has spaces in documentParameters."""


@cache
def compiled(pattern: str) -> re.Pattern[str] | None:
    r"""A pattern of AWS's models as Python reads it; None where that cannot be done.

    ``\w``, ``\d`` and ``\s`` are ASCII's, as in Java and ECMAScript.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(_rewritten(pattern), re.ASCII)
    except (re.error, Warning, OverflowError, RecursionError):
        return None


def _matches(pattern: str, value: str, *, anywhere: bool = False) -> bool | None:
    """None where the pattern cannot be read."""
    found = compiled(pattern)
    if found is None:
        return None
    if anywhere:
        return found.search(value) is not None
    of_a_beginning = pattern.startswith("^") and "$" not in pattern
    return (found.match(value) if of_a_beginning else found.fullmatch(value)) is not None


# ---- values ---------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = json.dumps(value, default=lambda other: type(other).__name__)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True)
class _Walk:
    """One value against its shape. ``answer``: from AWS, otherwise to it. ``times``: whether times are text there."""

    answer: bool
    times: bool

    def problems(self, shape: Any, value: Any, path: str, hidden: bool = False) -> Iterator[str]:
        """``hidden``: the model says that the value, or what it is in, is sensitive, so that it is not repeated."""
        hidden = hidden or bool(shape.metadata.get("sensitive"))
        kind = shape.type_name
        if kind == "structure" and shape.is_document_type:
            return
        if not self._fits(kind, value):
            yield f"{path}: is {_name(value)}, not {_WORDS[kind]}"
        elif kind == "structure":
            yield from self._structure(shape, value, path, hidden)
        elif kind == "map":
            yield from self._sized(shape, len(value), "entries", path)
            for key, each in value.items():
                yield from self.problems(shape.key, key, f"{path}, key {_shown(key)}", hidden)
                yield from self.problems(shape.value, each, f"{path}[{_shown(key)}]", hidden)
        elif kind == "list":
            yield from self._sized(shape, len(value), "items", path)
            for at, each in enumerate(value):
                yield from self.problems(shape.member, each, f"{path}[{at}]", hidden)
        elif kind == "string":
            yield from self._string(shape, value, path, hidden)
        elif kind == "blob" and not hasattr(value, "read"):
            yield from self._sized(shape, len(value.encode() if isinstance(value, str) else value), "bytes", path)
        elif kind in ("integer", "long", "float", "double"):
            lowest, highest = _RANGES.get(kind, (-math.inf, math.inf))
            lowest = max(lowest, shape.metadata.get("min", lowest))
            highest = min(highest, shape.metadata.get("max", highest))
            if not lowest <= value <= highest:
                what = "a value" if hidden else str(value)
                yield f"{path}: is {what}, not within {lowest} and {highest}"

    def _fits(self, kind: str, value: Any) -> bool:
        if kind in ("structure", "map"):
            return isinstance(value, Mapping)
        if kind == "list":
            return isinstance(value, list | tuple)
        if kind == "string":
            return isinstance(value, str)
        if kind in ("integer", "long"):
            return isinstance(value, int) and not isinstance(value, bool)
        if kind in ("float", "double"):
            return _is_number(value)
        if kind == "boolean":
            return isinstance(value, bool)
        if kind == "blob":
            return isinstance(value, bytes | bytearray | str) or (not self.answer and hasattr(value, "read"))
        if kind == "timestamp":
            return self._is_time(value)
        return False

    def _is_time(self, value: Any) -> bool:
        if isinstance(value, datetime):
            return True
        if _is_number(value):
            return math.isfinite(value)
        if not isinstance(value, str) or (self.answer and not self.times):
            return False
        try:
            datetime.fromisoformat(value)
        except ValueError:
            return False
        return True

    def _structure(self, shape: Any, value: Mapping[str, Any], path: str, hidden: bool) -> Iterator[str]:
        for name in shape.required_members:
            if name not in value:
                yield f"{path}: lacks {name}"
        if shape.is_tagged_union and len(value) != 1:
            yield f"{path}: has {len(value)} members, not exactly one of {', '.join(shape.members)}"
        for name, each in value.items():
            member = shape.members.get(name)
            if member is None:
                yield f"{path}: has {_shown(name)}, which is not known there"
                continue
            below = f"{path}.{name}"
            if each == "" and member.serialization.get("location") == "uri":
                yield f"{below}: is empty, and stands in the address of the request"
            yield from self.problems(member, each, below, hidden)

    def _string(self, shape: Any, value: str, path: str, hidden: bool) -> Iterator[str]:
        yield from self._sized(shape, len(value), "characters", path)
        shown = "is a value" if hidden else f"is {_shown(value)}"
        enum = shape.metadata.get("enum")
        if enum is not None and value not in enum:
            listed = ", ".join(enum) if len(enum) <= 12 else f"{', '.join(enum[:12])} and {len(enum) - 12} more"
            yield f"{path}: {shown}, none of {listed}"
        pattern = shape.metadata.get("pattern")
        if pattern is not None:
            matches = _matches(pattern, value, anywhere=shape.name in ANYWHERE)
            if matches is None:
                yield f"{path}: cannot be checked, Python cannot read its pattern {pattern}"
            elif not matches:
                yield f"{path}: {shown}, which is not of the pattern {pattern}"

    def _sized(self, shape: Any, size: int, what: str, path: str) -> Iterator[str]:
        lowest, highest = shape.metadata.get("min"), shape.metadata.get("max")
        if lowest is not None and size < lowest:
            yield f"{path}: has {size} {what}, at least {lowest}"
        if highest is not None and size > highest:
            yield f"{path}: has {size} {what}, at most {highest}"


def _name(value: Any) -> str:
    """The kind of a value, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    for types, words in ((str, "text"), (Mapping, "an object"), (list | tuple, "a list"), (int, "a whole number")):
        if isinstance(value, types):
            return words
    return "a number" if isinstance(value, float) else type(value).__name__


# ---- models ---------------------------------------------------------------------------------------------


@cache
def _service(name: str) -> Any:
    """By botocore's loader alone: whatever the user's configuration says of profiles does not matter."""
    try:
        from botocore.exceptions import UnknownServiceError
        from botocore.loaders import create_loader
        from botocore.model import ServiceModel
    except ImportError:
        raise MissingPrerequisite(
            "models of AWS's services need the Python package boto3", remedy=AWS.install
        ) from None
    try:
        return ServiceModel(create_loader().load_service_model(name, "service-2"), name)
    except UnknownServiceError:
        raise InvalidInput(f"botocore knows no service {name} of AWS", remedy="install a newer boto3") from None


@dataclass(frozen=True)
class Model:
    """A service of AWS as botocore models it: ``fis``, ``ec2`` …

    All raise MissingPrerequisite without boto3, and InvalidInput for a service or an operation that it does not know.
    """

    service: str

    @property
    def operations(self) -> tuple[str, ...]:
        """The names of all operations."""
        return tuple(_service(self.service).operation_names)

    def problems_of_input(self, operation: str, params: Any) -> list[str]:
        """What is wrong with the parameters of a request, by the names that boto3 takes; each with its path.

        A token that botocore would make up is missing here: ours is to be ours.
        """
        return self._problems(self._operation(operation).input_shape, params, "the request", answer=False)

    def problems_of_output(self, operation: str, answer: Any) -> list[str]:
        """What is wrong with an answer, as boto3 gives it or as its JSON says it. A new value of an enumeration is a
        problem too, though AWS may add one any day."""
        if isinstance(answer, Mapping):
            answer = {name: value for name, value in answer.items() if name != _OF_AN_ANSWER}
        return self._problems(self._operation(operation).output_shape, answer, "the answer", answer=True)

    def digest(self, operation: str) -> str:
        """A hash of everything that a request and its answer consist of: names and types of members, on the wire too,
        what is required, limits, patterns, enumerations; method, path and errors. Not of words that explain it."""
        model = self._operation(operation)
        known: dict[str, int] = {}
        described: list[Any] = []

        def reference(shape: Any) -> Any:
            """A shape where it is used; what it consists of is told once, so that shapes may contain themselves."""
            if shape is None:
                return None
            if shape.name not in known:
                known[shape.name] = len(known)
                described.append(None)
                described[known[shape.name]] = parts(shape)
            return [known[shape.name], shape.type_name, _sorted(shape.metadata), _sorted(shape.serialization)]

        def parts(shape: Any) -> Any:
            if shape.type_name == "structure":
                return {name: reference(shape.members[name]) for name in sorted(shape.members)}
            if shape.type_name == "map":
                return [reference(shape.key), reference(shape.value)]
            return [reference(shape.member)] if shape.type_name == "list" else []

        whole = {
            "http": _sorted(model.http),
            "input": reference(model.input_shape),
            "output": reference(model.output_shape),
            "errors": [[error.name, reference(error)] for error in sorted(model.error_shapes, key=lambda e: e.name)],
            "shapes": described,
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def _operation(self, name: str) -> Any:
        service = _service(self.service)
        if name not in service.operation_names:
            raise InvalidInput(f"botocore knows no {name} of AWS's {self.service}", remedy="install a newer boto3")
        return service.operation_model(name)

    def _problems(self, shape: Any, value: Any, path: str, *, answer: bool) -> list[str]:
        if shape is None:
            return [] if value == {} else [f"{path}: takes nothing, and has {_name(value)}"]
        times = _service(self.service).metadata.get("protocol") in ("query", "ec2", "rest-xml")
        return list(_Walk(answer, times).problems(shape, value, path))


def _sorted(traits: Mapping[str, Any]) -> dict[str, Any]:
    """Without regard to the order in which a model lists what has none."""
    return {
        name: sorted(value) if name in ("enum", "required") and isinstance(value, Sequence) else value
        for name, value in traits.items()
    }


# ---- what we rely on ------------------------------------------------------------------------------------


def current() -> dict[str, dict[str, str]]:
    """Service → operation → digest, of the installed botocore."""
    return {
        service: {operation: Model(service).digest(operation) for operation in operations}
        for service, operations in RELIED_ON.items()
    }


def changed() -> list[str]:
    """How the installed botocore differs from what is recorded, an operation a line, with the command that records."""
    recorded = json.loads(FILE.read_text())["digests"]
    now = current()
    lines = []
    for service in sorted({*recorded, *now}):
        then, today = recorded.get(service, {}), now.get(service, {})
        for operation in sorted({*then, *today}):
            if then.get(operation) != today.get(operation):
                what = "is not recorded" if operation not in then else "has another shape"
                what = "is recorded, and not relied on" if operation not in today else what
                lines.append(f"{service} {operation} {what}: read what changed, then run {COMMAND}")
    return lines


def record() -> None:
    """Write the digests of the installed botocore."""
    import botocore

    written = {"botocore": botocore.__version__, "digests": current()}
    FILE.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")


def main() -> int:
    """Returns 1 where something differs."""
    options = argparse.ArgumentParser(prog="python -m chaos.aws.shapes", description="Shapes of AWS's operations.")
    options.add_argument("--record", action="store_true", help="record those of the installed botocore")
    if options.parse_args().record:
        record()
        print(FILE)
        return 0
    lines = changed()
    print("\n".join(lines) or "as recorded")
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
