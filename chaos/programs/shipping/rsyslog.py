"""rsyslog, unpacked from its Debian packages or installed: where it is, what it is told, and its process.

Its output ``omelasticsearch`` sends bulks. Everything of one process lies in one folder: what it is told
(``rsyslog.conf``), what it says itself (``messages``), its counters once a second (``stats``), what it gave up
(``errors``) and the socket to which lines are written (``lines``).

Sources: rsyslog's documentation of ``omelasticsearch`` (``errorfile``, ``retryfailures``, ``retryruleset``,
``writeoperation``, ``bulkid``), of ``imptcp``, of ``impstats``, and rsyslogd(8).
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import ChaosError, InvalidInput

PACKAGES = ("rsyslog", "rsyslog-elasticsearch", "libestr0", "libfastjson4")
"""Of Debian 12; what else they need is on a Debian machine that has curl."""
MODULE = "rsyslog/omelasticsearch.so"
CONF, MESSAGES, STATS, ERRORS, LINES = "rsyslog.conf", "messages", "stats", "errors", "lines"
DEFAULTS, RETRYING = "defaults", "retrying"
SETTINGS = (DEFAULTS, RETRYING)
BEGIN_SECONDS = 20.0
END_SECONDS = 20.0

_CONF = """\
global(workDirectory="{folder}")
module(load="impstats" interval="1" format="json" log.file="{folder}/{stats}" log.syslog="off")
module(load="imptcp")
module(load="mmjsonparse")
module(load="omelasticsearch")
template(name="document" type="string" string="%$!all-json%")
template(name="id" type="string" string="%$!line%")
action(type="omfile" file="{folder}/{messages}")
ruleset(name="arriving") {{
  action(type="mmjsonparse" cookie="")
  call shipping
}}
ruleset(name="shipping") {{
{before}  action(type="omelasticsearch" server=[{servers}] searchIndex="{index}" searchType="" bulkmode="on"
    template="document" errorfile="{folder}/{errors}"{more})
}}
input(type="imptcp" path="{lines}" unlink="on" ruleset="arriving")
"""
_BEFORE = """\
  # what comes back by retryruleset says in $.omes how it went
  if strlen($.omes!status) > 0 then {
    if $.omes!status == 200 or $.omes!status == 201 or $.omes!status == 409 then { stop }
  }
"""
_MORE = """
    writeoperation="create" bulkid="id" dynbulkid="on" retryfailures="on" retryruleset="shipping"
    ratelimit.interval="0" action.resumeRetryCount="-1\""""


@dataclass(frozen=True)
class Installed:
    """Where it is: its program, its modules, and the folder of its libraries where they are unpacked."""

    program: Path
    modules: Path
    libraries: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        more = {} if self.libraries is None else {"LD_LIBRARY_PATH": str(self.libraries)}
        return {**os.environ, **more}


def unpacked() -> Path:
    """The folder into which its packages are unpacked."""
    return paths.cache() / "rsyslog"


def how_to_get() -> str:
    """One line of shell that unpacks it, and installs and starts nothing."""
    folder = shlex.quote(str(unpacked()))
    return (
        f"mkdir -p {folder} && cd {folder} && apt-get download {' '.join(PACKAGES)} && "
        "for package in *.deb; do dpkg -x $package .; done"
    )


def installed() -> Installed:
    """It, unpacked before installed. Raises InvalidInput with the command that gets it where it is not there."""
    for root in (unpacked(), Path("/")):
        for libraries in sorted(root.glob("usr/lib/*-linux-gnu*")):
            program = root / "usr/sbin/rsyslogd"
            if program.is_file() and (libraries / MODULE).is_file():
                return Installed(program, (libraries / MODULE).parent, libraries if root != Path("/") else None)
    raise InvalidInput("rsyslog with omelasticsearch is not on this machine", remedy=f"unpack it: {how_to_get()}")


def configuration(folder: Path, index: str, servers: Iterable[str], settings: str) -> str:
    """What it is told. ``servers``: URLs; ``settings``: one of :data:`SETTINGS`.

    By its defaults a document that the cluster refuses is written into the error file, and is not sent again.
    ``retrying`` sends it again until it is taken, under an id of its own, so that what is sent twice is there once;
    without ``ratelimit.interval="0"`` it gives up after 20,000 retries in ten minutes, and it pauses between none.
    """
    retrying = settings == RETRYING
    return _CONF.format(
        folder=folder,
        stats=STATS,
        messages=MESSAGES,
        errors=ERRORS,
        lines=LINES,
        index=index,
        servers=", ".join(json.dumps(url) for url in servers),
        before=_BEFORE if retrying else "",
        more=_MORE if retrying else "",
    )


def check(it: Installed, conf: Path) -> str | None:
    """Why it would not run with this configuration, in its own last words; None: it would. Raises OSError."""
    done = subprocess.run(
        [it.program, "-N1", "-f", conf, "-M", it.modules],
        env=it.environment,
        capture_output=True,
        text=True,
        timeout=20,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return None if done.returncode == 0 else (said[-1] if said else f"exit code {done.returncode}")


class Rsyslog:
    """One process, from its making to :meth:`stop`. Raises ChaosError where it does not begin."""

    def __init__(self, it: Installed, folder: Path, conf: str) -> None:
        """``folder`` is there, and empty."""
        self._folder = folder
        (folder / CONF).write_text(conf)
        arguments: Sequence[str | Path] = ["-n", "-C", "-i", "NONE", "-f", folder / CONF, "-M", it.modules]
        self._process = subprocess.Popen(
            [it.program, *arguments], cwd=folder, env=it.environment, stdin=subprocess.DEVNULL
        )
        end = time.monotonic() + BEGIN_SECONDS
        while True:
            try:
                self._lines = self._connected()
                return
            except OSError as error:
                if self._process.poll() is not None or time.monotonic() > end:
                    self.stop()
                    raise ChaosError(f"rsyslog takes no lines: {self.said() or error}") from error
                time.sleep(0.1)

    def _connected(self) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            # by the folder's descriptor: a socket's path has at most 107 bytes
            folder = os.open(self._folder, os.O_PATH)
            try:
                made.connect(f"/proc/self/fd/{folder}/{LINES}")
            finally:
                os.close(folder)
        except OSError:
            made.close()
            raise
        return made

    def hand(self, line: dict[str, object]) -> None:
        """One line, as syslog has it. Waits while rsyslog takes none. Raises ChaosError when it is gone."""
        text = f"<14>{time.strftime('%b %d %H:%M:%S')} here shipper: {json.dumps(line)}\n"
        try:
            self._lines.sendall(text.encode())
        except OSError as error:
            raise ChaosError(f"rsyslog takes no more lines: {self.said() or error.strerror}") from error

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    def counters(self) -> dict[str, dict[str, object]]:
        """Its newest counters by name, for example ``main Q``; nothing before the first second."""
        found: dict[str, dict[str, object]] = {}
        with suppress(OSError):
            for line in (self._folder / STATS).read_text(errors="replace").splitlines()[-64:]:
                with suppress(ValueError):
                    row = json.loads(line[line.index("{") :])
                    found[str(row["name"])] = row
        return found

    @property
    def received(self) -> int:
        """Lines that it has read from the socket."""
        return sum(
            int(str(row["submitted"]))
            for row in self.counters().values()
            if row.get("origin") == "imptcp" and "submitted" in row
        )

    @property
    def queue(self) -> tuple[int, int] | None:
        """Messages that wait in its queue, and how many ever came there, retries too; None: it has not said yet."""
        row = self.counters().get("main Q")
        return None if row is None else (int(str(row["size"])), int(str(row["enqueued"])))

    def said(self) -> str:
        """The last line that it says of itself."""
        with suppress(OSError, IndexError):
            return (self._folder / MESSAGES).read_text(errors="replace").splitlines()[-1]
        return ""

    def gave_up(self) -> int:
        """How many documents it has written into its error file."""
        count = 0
        with suppress(OSError):
            for line in (self._folder / ERRORS).read_text(errors="replace").splitlines():
                with suppress(ValueError, KeyError, TypeError):
                    count += json.loads(line)["request"]["postdata"].count("\n") // 2
        return count

    def stop(self) -> None:
        """Idempotent. It writes out what it has, and is killed where that takes longer than its deadline."""
        with suppress(AttributeError, OSError):
            self._lines.close()
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
