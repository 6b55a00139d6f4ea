"""Renders a workload of OpenSearch Benchmark: the program that :mod:`chaos.load.importing.rendering` starts.

It imports nothing of chaos, for it has to start quickly. Templates are programs that somebody else wrote. They run in
Jinja's sandbox, in this process, which has bounds on processor time and memory, may write no file, and reads files
below the folders that it was told alone. It reads one JSON object on standard input and writes one on standard output.
"""

from __future__ import annotations

import datetime
import glob as globbing
import json
import os
import re
import resource
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jinja2
import jinja2.exceptions
import jinja2.sandbox

MOST_BYTES = 4 * 2**20
"""Of one file, of all that are collected into one, and of what is rendered."""
MEMORY = 512 * 2**20
LEVELS = 100
INCLUDED = 16
"""Files in files, at most."""
MOST_FILES = 500
COLLECT = re.compile(r"""{{-?\s*benchmark\.collect\(\s*parts\s*=\s*["']([^"']+)["']\s*\)\s*-?}}""")
HELPERS = """
{%- macro collect(parts) -%}
  {%- set comma = joiner() -%}
  {%- for part in glob(parts) -%}{{ comma() }}{% include part %}{%- endfor -%}
{%- endmacro -%}
{%- macro exists_set_param(setting_name, value, default_value=None, comma=True) -%}
  {%- if value is defined or default_value is not none -%}
    {%- if comma -%},{%- endif -%}
    "{{ setting_name }}":
    {%- if default_value is not none %} {{ value | default(default_value) | tojson }}
    {%- else %} {{ value | tojson }}{%- endif -%}
  {%- endif -%}
{%- endmacro -%}
"""


class Refused(Exception):
    """It cannot be rendered: what is wrong, and what to do."""

    def __init__(self, says: str, remedy: str = "") -> None:
        super().__init__(says)
        self.remedy = remedy


class Files:
    """Reads files below some folders, wherever links lead. ``root``: that of the workload."""

    def __init__(self, root: str, also: list[str]) -> None:
        self.root = os.path.realpath(root)
        self._allowed = [self.root, *map(os.path.realpath, also)]
        self._read = 0

    def shown(self, path: str) -> str:
        return os.path.relpath(path, self.root)

    def within(self, path: str) -> str:
        """The real path of a file. Raises Refused for one outside."""
        real = os.path.realpath(path)
        if not any(real == each or real.startswith(each.rstrip("/") + "/") for each in self._allowed):
            says = f"it reads {self.shown(path)}, which is outside its folder"
            if real != os.path.normpath(path):
                says += f" (a link to {real})"
            raise Refused(says, "name that folder with --also-read FOLDER if you trust all files in it")
        return real

    def text(self, path: str) -> str:
        real = self.within(path)
        self._read += 1
        if self._read > MOST_FILES:
            raise Refused(f"it reads more than {MOST_FILES} files")
        try:
            descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would keep us waiting
            with os.fdopen(descriptor, "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    raise Refused(f"{self.shown(path)} is no file")
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise Refused(f"{self.shown(path)}: {error.strerror}") from None
        if len(content) > MOST_BYTES:
            raise Refused(f"{self.shown(path)} has more than {MOST_BYTES >> 20} MiB")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise Refused(f"{self.shown(path)} is not UTF-8 text") from None

    def matching(self, pattern: str) -> list[str]:
        """Files of a pattern. Raises Refused for one that looks outside: names of files are no template's business."""
        fixed = pattern
        while globbing.has_magic(fixed):
            fixed = os.path.dirname(fixed)
        self.within(fixed)
        found = sorted(globbing.glob(pattern))
        for each in found:
            self.within(each)
        return found


def collected(files: Files, path: str, above: tuple[str, ...] = ()) -> str:
    """A file with all that it collects, as OpenSearch Benchmark puts it together: text first, templates then."""
    real = files.within(path)
    if real in above or len(above) > INCLUDED:
        raise Refused(
            f"{files.shown(path)} collects itself" if real in above else "it collects files in files in files"
        )
    text, folder = files.text(path), os.path.dirname(path)
    size = len(text)

    def part(match: re.Match[str]) -> str:
        nonlocal size
        pattern = os.path.join(folder, match[1])
        found = files.matching(pattern)
        if not found and not globbing.has_magic(pattern):
            files.within(pattern)
            raise Refused(f"{files.shown(path)} collects {match[1]}, and there is no such file")
        text = ",\n".join(collected(files, each, (*above, real)) for each in found)
        size += len(text)
        if size > MOST_BYTES:
            raise Refused(f"{files.shown(path)} has more than {MOST_BYTES >> 20} MiB with all that it collects")
        return text

    return COLLECT.sub(part, text)


class Confined(jinja2.BaseLoader):
    """What templates include and import: helpers, and files of the folder."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        if template == "benchmark.helpers":
            return HELPERS, template, lambda: True
        path = os.path.join(self._files.root, template)
        return collected(self._files, path), path, lambda: True


class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(("**", "*"))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """A product or a power that would fill the memory is refused where it is asked for."""
        if isinstance(left, int) and isinstance(right, int):
            if operator == "**" and abs(right) * max(1, left.bit_length()) > 4096:
                raise Refused(f"a number to the power of {right} in a template")
            return super().call_binop(context, operator, left, right)
        for sized, times in ((left, right), (right, left)):
            if hasattr(sized, "__len__") and isinstance(times, int) and len(sized) * times > MOST_BYTES:
                raise Refused(f"a text or list {times} times in a template")
        return super().call_binop(context, operator, left, right)


def days_ago(day: str, now: datetime.datetime) -> int:
    """Days since ``dd-mm-yyyy``."""
    try:
        return (now - datetime.datetime.strptime(day, "%d-%m-%Y").replace(tzinfo=datetime.UTC)).days
    except (TypeError, ValueError):
        raise Refused(f"days_ago takes a day such as 31-01-2026, and not {day!r}") from None


def environment(files: Files, parameters: dict[str, Any]) -> Environment:
    made = Environment(loader=Confined(files))
    for name in ("lipsum", "cycler"):
        made.globals.pop(name, None)

    def relative(pattern: str) -> list[str]:
        return [os.path.relpath(each, files.root) for each in files.matching(os.path.join(files.root, str(pattern)))]

    made.globals.update(parameters)
    made.globals.update(now=datetime.datetime.now(datetime.UTC), glob=relative)
    made.filters["days_ago"] = days_ago
    return made


def rendered(files: Files, made: Environment, path: str) -> Any:
    """The JSON of a template."""
    shown = files.shown(path)
    try:
        template, parts, size = made.from_string(collected(files, path)), [], 0
        for part in template.generate():
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                raise Refused(f"{shown} renders to more than {MOST_BYTES >> 20} MiB")
    except jinja2.TemplateSyntaxError as error:
        raise Refused(f"{shown}: line {error.lineno} with what it collects: {error.message}") from None
    except jinja2.exceptions.SecurityError as error:
        raise Refused(f"{shown}: a template asks for what no template needs: {error}") from None
    except jinja2.UndefinedError as error:
        raise Refused(f"{shown}: {error}", "give it with --workload-params NAME:VALUE") from None
    except jinja2.TemplateError as error:
        raise Refused(f"{shown}: {error or type(error).__name__}") from None
    except RecursionError:
        raise Refused(f"{shown}: too many levels in a template") from None
    except (Refused, MemoryError):
        raise
    except Exception as error:  # whatever a template computes
        raise Refused(f"{shown}: a template failed: {type(error).__name__}: {error}") from None
    text = "".join(parts)
    try:
        found = json.loads(text, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        line = (text.splitlines() or [""])[error.lineno - 1 : error.lineno]
        near = f", near {line[0].strip()[:60]!r}" if line else ""
        raise Refused(f"{shown} renders to text that is not JSON: {error.msg}{near}") from None
    except RecursionError:
        raise Refused(f"{shown} renders to JSON of more than {LEVELS} levels") from None
    except ValueError as error:
        raise Refused(f"{shown} renders to text that is not JSON: {error}") from None
    if any(level > LEVELS for level in _levels(found)):
        raise Refused(f"{shown} renders to JSON of more than {LEVELS} levels")
    return found


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _levels(value: Any) -> Iterator[int]:
    waiting = [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        yield level
        if level <= LEVELS and isinstance(each, dict | list):
            waiting.extend((it, level + 1) for it in (each.values() if isinstance(each, dict) else each))


BODIES = ("indices", "templates", "composable-templates")


def whole(told: dict[str, Any]) -> dict[str, Any]:
    """The workload and the bodies of its indices and templates, rendered."""
    files = Files(told["root"], told["also"])
    made = environment(files, told["parameters"])
    found = rendered(files, made, os.path.join(files.root, told["file"]))
    if not isinstance(found, dict):
        raise Refused(f"{told['file']} renders to no JSON object")
    bodies: dict[str, Any] = {}
    for kind in BODIES:
        listed = found.get(kind)
        for each in listed if isinstance(listed, list) else []:
            name = (each.get("body") or each.get("template")) if isinstance(each, dict) else None
            if isinstance(name, str) and name not in bodies:
                bodies[name] = rendered(files, made, os.path.join(files.root, name))
    return {"workload": found, "bodies": bodies}


def main() -> None:
    told = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends us in the middle of whatever C does
    signal.setitimer(signal.ITIMER_PROF, told["seconds"])
    answer: dict[str, Any]
    try:
        answer = {"made": whole(told)}
    except Refused as refused:
        answer = {"error": str(refused), "remedy": refused.remedy}
    except (MemoryError, RecursionError):
        answer = {"error": f"rendering takes more than {MEMORY >> 20} MiB of memory or too many levels", "remedy": ""}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
