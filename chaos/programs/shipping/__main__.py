"""``ready``, ``ship`` and ``judge``: what an experiment's ``programs`` and ``expect`` name."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from chaos.base.errors import ChaosError, InvalidInput
from chaos.programs.checking import FAILS, HOLDS, Asked, Unknown, answer
from chaos.programs.shipping import rsyslog
from chaos.programs.shipping.account import Account
from chaos.programs.shipping.rsyslog import Rsyslog

FOLDER = "shipper"
"""In the run's folder: all that is of the shipper."""
PAGE = 1000
"""Lines that are looked for by one search."""
QUIET_SECONDS = 3.0
"""For so long nothing may have come into its queue before it is told to end."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos.programs.shipping", description=__doc__)
    does = parser.add_subparsers(dest="does", required=True)
    does.add_parser("ready", help="whether rsyslog is here and takes what it will be told")
    ship = does.add_parser("ship", help="hand lines to rsyslog until SIGTERM, then look for them")
    ship.add_argument("index", help="the index that they go to; it must be there")
    ship.add_argument("--settings", choices=rsyslog.SETTINGS, default=rsyslog.DEFAULTS)
    ship.add_argument("--rate", type=float, default=20.0, help="lines per second")
    ship.add_argument("--drain", type=float, default=60.0, help="how long its queue may take to be empty, in seconds")
    judge = does.add_parser("judge", help="whether every line is there, as a check of a run")
    judge.add_argument("--least", type=int, default=500, help="lines that must have been shipped to say anything")
    given = parser.parse_args(arguments)
    if given.does == "judge":
        answer(lambda asked: Account.read(asked.folder / FOLDER).judged(given.least))
    try:
        if given.does == "ready":
            ready()
        else:
            shipped(Asked.of_environment(), given.index, given.settings, given.rate, given.drain)
    except InvalidInput as error:
        print(f"{error.message}; {error.remedy}")
        return FAILS
    except (Unknown, ChaosError, OSError) as error:
        print(error)
        return FAILS
    return HOLDS


def ready() -> None:
    """Raises ChaosError where rsyslog is not here, or would not run."""
    it = rsyslog.installed()
    for settings in rsyslog.SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            conf = Path(folder) / rsyslog.CONF
            conf.write_text(rsyslog.configuration(Path(folder), "lines", ["http://127.0.0.1:9200"], settings))
            if (why := rsyslog.check(it, conf)) is not None:
                raise ChaosError(f"rsyslog ({it.program}) does not take its configuration: {why}")


def shipped(asked: Asked, index: str, settings: str, rate: float, drain: float) -> None:
    """Until SIGTERM; then the account is in the run's folder. Raises ChaosError where rsyslog or the cluster fails."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    servers = [asked.nodes[name] for name in data_nodes(asked)]
    if any(not url.startswith("http://") for url in servers):
        raise ChaosError("lines are shipped without TLS alone: use a topology without security")
    folder = asked.folder / FOLDER
    folder.mkdir()
    await_index(asked, index, over)
    shipper = Rsyslog(rsyslog.installed(), folder, rsyslog.configuration(folder, index, servers, settings))
    try:
        sent = hand_out(shipper, rate, over)
        print(f"{sent} lines handed to rsyslog", flush=True)
        done = drained(shipper, sent, drain)
    finally:
        shipper.stop()
    account = Account.of(index, settings, sent, documents(asked, index, sent), shipper.gave_up(), done)
    account.write(folder)
    print(account.says(), flush=True)


def data_nodes(asked: Asked) -> list[str]:
    """The nodes of the cluster that hold data, of those that are reached."""
    roles = {row["name"]: row["node.role"] for row in asked.get("/_cat/nodes?format=json&h=name,node.role")}
    return [name for name in asked.nodes if "d" in roles.get(name, "")] or list(asked.nodes)


def await_index(asked: Asked, index: str, over: threading.Event) -> None:
    """Until the experiment has made the index: rsyslog would make another. Raises ChaosError after SIGTERM."""
    while index not in [row["index"] for row in asked.get("/_cat/indices?format=json&h=index")]:
        if over.wait(0.5):
            raise ChaosError(f"there was no index {index} to ship to")


def hand_out(shipper: Rsyslog, rate: float, over: threading.Event) -> int:
    """Numbered lines at this rate until ``over``. How many."""
    began, sent = time.monotonic(), 0
    while not over.is_set():
        shipper.hand({"line": sent, "says": f"line {sent} of a program that logs"})
        sent += 1
        over.wait(max(0.0, began + sent / rate - time.monotonic()))
    return sent


def drained(shipper: Rsyslog, sent: int, seconds: float) -> bool:
    """Wait until rsyslog has read all lines, and for a while nothing waited in its queue and nothing came there."""
    end, quiet, seen = time.monotonic() + seconds, time.monotonic(), shipper.queue
    while time.monotonic() < end:
        if not shipper.lives:
            raise ChaosError(f"rsyslog has ended: {shipper.said()}")
        before, seen = seen, shipper.queue
        if shipper.received < sent or seen is None or seen[0] or seen != before:
            quiet = time.monotonic()
        elif time.monotonic() - quiet >= QUIET_SECONDS:
            return True
        time.sleep(0.2)
    return False


def documents(asked: Asked, index: str, sent: int) -> Iterator[int]:
    """The line of each document of the index, whole answers alone. Raises Unknown where there is none."""
    asked.get(f"/{index}/_refresh")
    for first in range(0, sent, PAGE):
        what = quote(f"line:[{first} TO {first + PAGE - 1}]")
        answer = asked.get(
            f"/{index}/_search?q={what}&size=10000&_source_includes=line&allow_partial_search_results=false"
        )
        if answer["timed_out"] or answer["_shards"]["failed"] or answer["hits"]["total"]["relation"] != "eq":
            raise Unknown(f"a search for lines from {first} on was not answered whole")
        hits = answer["hits"]["hits"]
        if len(hits) != answer["hits"]["total"]["value"]:
            raise Unknown(f"from line {first} on there are more documents than one answer holds")
        yield from (int(hit["_source"]["line"]) for hit in hits)


if __name__ == "__main__":
    sys.exit(main())
