"""Files by their SHA-256: fetched once, in parallel, resumable, and never trusted unverified.

The store is ``<cache>/files/<sha256>-<name>``. A transfer that breaks leaves ``….part``, which the
next try continues with an HTTP range; one at a time writes it. A stored file is hashed again each
time it is taken, so one that rotted, or was cut short, is said in one line and fetched anew.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from chaos.base import paths
from chaos.base.errors import ProvisionError
from chaos.provision.say import Transfer, say

THREADS = 8
CHUNK = 1 << 17
CONNECT_TIMEOUT_S = 15
READ_TIMEOUT_S = 60
TRIES = 3
PAUSE_S = 1.0


@dataclass(frozen=True)
class Wanted:
    """One file: its name, its hash, its size in bytes, and where it may come from."""

    name: str
    sha256: str
    size: int
    addresses: Callable[[], Sequence[str]]
    local: Callable[[], Path | None] = lambda: None


def store() -> Path:
    return paths.cache() / "files"


def stored(wanted: Wanted) -> Path:
    """Where the file lies once it is here."""
    return store() / f"{wanted.sha256}-{wanted.name}"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """Translate errors of the file system (a full disk above all) while doing ``what``."""
    try:
        yield
    except requests.RequestException:
        raise  # it is an OSError too
    except OSError as error:
        where = error.filename or paths.cache()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ProvisionError(
                f"no space left on the disk of {paths.cache()} while {what}",
                remedy="free some space there (1 GB is enough), or set OPENSEARCH_CHAOS_CACHE to another disk",
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise ProvisionError(
                f"cannot write {where} while {what}: {error.strerror}",
                remedy="set OPENSEARCH_CHAOS_CACHE to a folder that you may write",
            ) from error
        raise ProvisionError(f"{what} failed at {where}: {error.strerror or error}") from error


def fetch_all(title: str, files: Sequence[Wanted], *, progress: bool = True) -> None:
    """Bring every file into the store, verified. Raises :class:`ProvisionError`; keeps ``.part`` files."""
    with disk_errors(f"preparing {store()}"):
        open_folder(store())
    with disk_errors("checking the stored files"):
        missing = [wanted for wanted in files if not _usable(wanted)]
    if not missing:
        return
    with (
        Transfer(title, sum(wanted.size for wanted in missing), shown=progress) as transfer,
        ThreadPoolExecutor(THREADS, thread_name_prefix="fetch") as pool,
    ):
        futures = [pool.submit(_fetch, wanted, transfer) for wanted in missing]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _usable(wanted: Wanted) -> bool:
    path = stored(wanted)
    if not path.exists():
        return False
    if path.stat().st_size == wanted.size and sha256(path) == wanted.sha256:
        return True
    say(f"{wanted.name} in the cache is damaged (its SHA-256 differs); it is fetched anew")
    path.unlink(missing_ok=True)
    return False


def _fetch(wanted: Wanted, transfer: Transfer) -> None:
    part = stored(wanted).with_name(stored(wanted).name + ".part")
    with disk_errors(f"storing {wanted.name}"), paths.locked(part.with_suffix(".lock"), stays=False):
        if _usable(wanted):  # another process may have fetched it meanwhile
            transfer.advance(wanted.size)
        else:
            _fetch_into(part, wanted, transfer)


def _fetch_into(part: Path, wanted: Wanted, transfer: Transfer) -> None:
    """From the first place that has it. Raises :class:`ProvisionError`."""
    problems: list[str] = []
    with disk_errors(f"storing {wanted.name}"):
        local = wanted.local()
        if local and local.stat().st_size == wanted.size and sha256(local) == wanted.sha256:
            part.write_bytes(local.read_bytes())
            transfer.advance(wanted.size)
            _accept(wanted, part)
            return
        for address in wanted.addresses():
            for attempt in range(TRIES):
                time.sleep(attempt * PAUSE_S)
                try:
                    _transfer(address, part, wanted, transfer)
                except requests.RequestException as error:
                    problems.append(_in_words(error))
                    status = error.response.status_code if error.response is not None else None
                    if status == 416:  # the server has fewer bytes than we do
                        part.unlink(missing_ok=True)
                    elif status is not None and status < 500:
                        break  # asking again changes nothing; the next repository may have it
                    continue
                if sha256(part) == wanted.sha256:
                    _accept(wanted, part)
                    return
                problems.append("what came has another SHA-256 than the lock file says")
                transfer.advance(-part.stat().st_size)
                part.unlink()
    raise ProvisionError(
        f"{wanted.name} could not be fetched: {problems[-1] if problems else 'no repository is configured'}",
        remedy="check the network or set a mirror in jgo's settings file ([repositories], central = …); "
        "what was fetched so far is kept and the next try goes on from there",
    )


def _accept(wanted: Wanted, part: Path) -> None:
    part.chmod(0o644)
    os.replace(part, stored(wanted))


def _transfer(address: str, part: Path, wanted: Wanted, transfer: Transfer) -> None:
    """One GET that continues ``part``. Raises ``requests.RequestException`` for anything of the network."""
    have = part.stat().st_size if part.exists() else 0
    if have > wanted.size:
        have = 0
    if have == wanted.size > 0:
        transfer.advance(have)
        return
    # identity: a length and a range count bytes of the file, not of a compressed transfer of it
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with requests.get(address, headers=headers, stream=True, timeout=(CONNECT_TIMEOUT_S, READ_TIMEOUT_S)) as response:
        response.raise_for_status()
        resumed = have > 0 and response.status_code == 206
        before = have if resumed else 0
        transfer.advance(before)
        got = before
        try:
            with part.open("ab" if resumed else "wb") as file:
                for chunk in response.iter_content(CHUNK):
                    file.write(chunk)
                    got += len(chunk)
                    transfer.advance(len(chunk))
        except BaseException:
            transfer.advance(-got)
            raise
    if got < wanted.size:
        transfer.advance(-got)
        raise requests.ConnectionError(f"the connection ended after {got} of {wanted.size} bytes")


def _in_words(error: requests.RequestException) -> str:
    if error.response is not None:
        return f"HTTP {error.response.status_code} {error.response.reason}"
    if isinstance(error, requests.Timeout):
        return "the server did not answer in time"
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if len(text) < 200 else f"{type(error).__name__}: {text[:160]}…"


def open_folder(path: Path) -> Path:
    """Make ``path`` with every new folder on the way readable by an unprivileged uid (0755)."""
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        if not folder.exists():
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
    return path
