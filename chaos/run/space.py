"""Room on disks: what a run will need is reckoned from its plan and looked for before anything starts.

Bytes are those of real runs (``reports/sample``, a run of ``data-promises``' load against the stub, labs of six nodes),
times the longest that the plan allows, times ``MARGIN``. It is an upper bound and no forecast: most runs end long
before their deadlines. What is kept aside for the end of a run is here too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.base import paths
from chaos.base.errors import InvalidInput
from chaos.checks import instruments
from chaos.definitions import Experiment, Topology
from chaos.load import workloads
from chaos.observe.disks import FOR_RECORD
from chaos.run import commanding
from chaos.targets.labs import kinds, watermarks

MIB = 2**20
MARGIN = 2
"""A run gets room for so many times what runs of its kind were seen to write: errors are longer than good news."""
STEP_SECONDS = 60
"""For what a phase begins with: proof of an effect, and of an end, may outlast the phase's own time."""
BEFORE_SECONDS = 60 + 60
"""Of load before the first phase: it may be a minute until it is steady; getting ready is counted as one more."""
AFTER_SECONDS = 240 + 60
"""Of load after the last phase: undo, and the time that a cluster gets to be green again (``SETTLE_SECONDS``)."""

ARRIVAL_BYTES = 40 + 17 + 12
"""A row of outcome and one of schedule, which go when the Parquet file is whole: 7.5 were seen, 12 are promised."""
STALE_BYTES = 120
"""A read that was answered in full and lacked something; any of them may be one (96 seen)."""
ITEMS_HEAD = 12
"""What a bulk's entry begins with; each of its documents is one byte more."""
MOST_CLOSED = 5000.0
"""Documents per second that a closed loop is given room for: what two cores index of the smallest ones, and more."""
CAS_BYTES = 600
"""A compare-and-set attempt: four lines (544 seen)."""
PROBE_BYTES = 200
"""What a probe of visibility says of itself …"""
PROBE_NODE_BYTES = 400
"""… and of each data node: a get, a search, and what they found (981 seen for three nodes)."""
SECOND_BYTES = 1000
"""A second of the driver's own figures (520 seen), of the echo's (150), of events that do not grow with the nodes …"""
SECOND_NODE_BYTES = 100
"""… and of those that do (393 seen for six nodes)."""
LOG_NODE_BYTES = 2000
"""A second of a node's log and its Toxiproxy's (7.5 kB/s seen for six nodes, one zone decommissioned for a while)."""
COMMAND_BYTES = commanding.LOG_BYTES
"""What a command that a phase waits for may print."""
FIXED_BYTES = 4 * MIB
"""Plan, ledger, evidence, audit, findings, the page (0.4 MB seen) and its redacted twin."""
DOCUMENT_BYTES = 1000
"""A usual document on one node: translog, stored fields, index, and a merge that holds both old and new …"""
USUAL_SIZE = 200
"""… which is at most so many bytes as it is sent; …"""
GROWTH = 4
"""… and for each byte more, reckoned and not seen: translog, stored fields, index with doc values, and a merge."""
NODE_BYTES = 8 * MIB
"""A node's configuration, cluster state, empty index and log of its start (13 MB seen for six nodes)."""
RECORD_FILES = 100
NODE_FILES = 1000
"""Files of a record, and of a node with its segments (768 seen for six nodes)."""
FOR_UNDO = 1 * MIB
"""Set free when the record breaks or the undo begins: ledger rows and events of an end are some 100 KiB."""
FOR_REPORT = 8 * MIB
"""Set free before judging: findings, summary and page are 0.5 to 2 MiB, and logs are copied before them."""


_PREFIX = ".room-for-"


class Reserve:
    """Room that a run takes at its beginning and gives back for its end.

    A disk that somebody fills up ends the run as an error; without room of its own, the run could neither write down
    what it takes back nor say in its report why it ended.
    """

    def __init__(self, folder: Path, purpose: str, size: int) -> None:
        """Take ``size`` bytes in ``folder``. Raises OSError when they are not there; nothing is then left."""
        self._file = folder / f"{_PREFIX}{purpose}"
        try:
            with open(self._file, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """Give it back; idempotent, and never raises."""
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


def release(folder: Path) -> None:
    """Give back whatever was kept aside in a run's folder, also by a runner that died."""
    for file in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            file.unlink()


@dataclass(frozen=True)
class Need:
    """Bytes and files that a file system must still have."""

    bytes: int = 0
    files: int = 0

    def __add__(self, other: Need) -> Need:
        return Need(self.bytes + other.bytes, self.files + other.files)

    def __mul__(self, times: int) -> Need:
        return Need(self.bytes * times, self.files * times)


def longest_seconds(experiment: Experiment) -> float:
    """How long the load may be on at most. An experiment in Python has no phases here: its guard bounds it."""
    phases = sum(
        float(phase.longest) + STEP_SECONDS * bool(phase.undo or phase.inject or phase.do or phase.during)
        for phase in experiment.phases
    )
    phases += sum(float(program.within) for program in experiment.programs.values())
    most = float(experiment.guards.max)
    return BEFORE_SECONDS + (min(phases, most) if experiment.phases else most) + AFTER_SECONDS


def of_record(experiment: Experiment) -> Need:
    """What one run's folder needs, at its largest."""
    load, nodes = experiment.load, len(experiment.topology.nodes)
    data = len(experiment.topology.data_nodes)
    arrivals = sum(each.most * (ARRIVAL_BYTES + STALE_BYTES * (not each.writes)) for each in load.operations)
    arrivals += sum(
        (each.documents + each.most * ITEMS_HEAD) * (1 if each.client is None else 2)  # what it told, too
        for each in load.operations
        if each.items > 1
    )
    arrivals += sum(MOST_CLOSED / each.items * (ARRIVAL_BYTES + ITEMS_HEAD) + MOST_CLOSED for each in load.closed)
    cas = float(load.cas.rate) * CAS_BYTES if load.cas else 0.0
    probes = float(load.visibility.rate) * (PROBE_BYTES + PROBE_NODE_BYTES * data) if load.visibility else 0.0
    own: float = SECOND_BYTES + (SECOND_NODE_BYTES + LOG_NODE_BYTES) * nodes
    own += sum(each.room(experiment) for each in instruments.every())
    seen = FIXED_BYTES + longest_seconds(experiment) * (arrivals + cas + probes + own)
    commands = sum(phase.during is not None for phase in experiment.phases)
    commands += len(experiment.programs)
    printed = COMMAND_BYTES * (commands + sum(line.command is not None for line in experiment.expect))
    return Need(round(MARGIN * seen) + printed + FOR_UNDO + FOR_REPORT, RECORD_FILES)


def of_topology(topology: Topology, kind: str = kinds.DEFAULT) -> Need:
    """What a lab needs in the state folder when it starts."""
    disks = int(topology.disks.size) * len(topology.nodes) if topology.disks else 0  # allocated at once
    disks += sum(int(size) for size in topology.service_disks.values())
    if not kinds.named(kind).keeps_data:
        return Need(disks)
    aside = watermarks.needed(topology, _size(paths.labs()))
    return Need(MARGIN * NODE_BYTES * len(topology.nodes) + disks + aside, NODE_FILES * len(topology.nodes))


def _size(folder: Path) -> int:
    """Bytes of the file system on which a folder is, or will be."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        found = os.statvfs(place)
    except OSError:
        return 0
    return found.f_blocks * found.f_frsize


def of_lab(experiment: Experiment, kind: str = kinds.DEFAULT) -> Need:
    """What a lab of its own needs there while the run lasts."""
    if not kinds.named(kind).keeps_data:
        return of_topology(experiment.topology, kind)
    return of_topology(experiment.topology) + _growth(experiment)


def of_engine(experiment: Experiment, total: int) -> Need:
    """What its nodes need where their data is not in the state folder but in a folder of an engine's, on a disk of
    ``total`` bytes; a lab with disks of its own has these in the state folder."""
    topology = experiment.topology
    if topology.disks is not None:
        return Need()
    nodes = Need(MARGIN * NODE_BYTES * len(topology.nodes) + watermarks.needed(topology, total))
    return nodes + _growth(experiment)


def _growth(experiment: Experiment) -> Need:
    """What documents and logs add while the run lasts."""
    topology, load = experiment.topology, experiment.load
    seconds = longest_seconds(experiment)
    written = sum(each.documents for each in load.operations)
    written += float(load.cas.rate) if load.cas else 0.0
    written += float(load.visibility.rate) if load.visibility else 0.0
    copies = len(topology.data_nodes)  # none has more than one of a shard
    # of larger documents a closed loop writes fewer: what bounds it is bytes
    closed = MOST_CLOSED * DOCUMENT_BYTES * sum(each.writes for each in load.closed)
    before = load.documents + sum(each.documents for each in load.indices)
    one_copy = (before + written * seconds) * document_bytes(experiment) + closed * seconds
    documents = 0.0 if topology.disks else one_copy * copies
    logs = LOG_NODE_BYTES * len(topology.nodes) * seconds
    return Need(round(MARGIN * (documents + logs)))


def document_bytes(experiment: Experiment) -> int:
    """What one document of its workloads takes on a node, at most."""
    size = max(workloads.of(*each).size for each in experiment.load.datasets)
    return DOCUMENT_BYTES + GROWTH * max(0, size - USUAL_SIZE)


@dataclass(frozen=True)
class Wanted:
    """``need`` in ``folder``, which need not be there yet. ``what`` and ``remedy``: for the one line of an error."""

    what: str
    folder: Path
    need: Need
    remedy: str


def wanted(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    kind: str = kinds.DEFAULT,
    own_lab: bool = True,
    times: int = 1,
) -> list[Wanted]:
    """What these runs, each made ``times``, need: records stay and add up, labs are there one after the other.

    A lab that is used again loses each run's index with the run.
    """
    records = sum((of_record(each) for each in experiments), Need()) * times
    runs = len(experiments) * times
    what = "the run's record" if runs == 1 else f"the records of {runs} runs"
    found = [Wanted(what, out, records, "make room, or choose another folder with --out")]
    if own_lab and experiments:
        each_lab = [of_lab(each, kind) for each in experiments]
        largest = Need(max(each.bytes for each in each_lab), max(each.files for each in each_lab))
        lab = "its lab" if runs == 1 else "a lab"
        found.append(in_state(lab, largest))
        target = kinds.named(kind)
        if not target.keeps_data and (data := target.data_folder()) is not None:
            most = max(of_engine(each, _size(data)).bytes for each in experiments)
            found.append(Wanted(f"data of {lab}", data, Need(most), "make room there: it is the Docker engine's"))
    return found


def temporary() -> Wanted:
    """What must be free for temporary files, of this process and of nodes."""
    return Wanted("temporary files", Path(tempfile.gettempdir()), Need(FOR_RECORD), "make room, or set $TMPDIR")


def in_state(what: str, need: Need) -> Wanted:
    """What the state folder must have."""
    remedy = f"make room there, or name another state folder with {paths.STATE_VARIABLE}"
    return Wanted(what, paths.state(), need, remedy)


def refuse_scarce(all_wanted: Sequence[Wanted]) -> None:
    """Raises InvalidInput when a file system has less than what is wanted of it, or a folder cannot be made there."""
    by_device: dict[int, list[tuple[Wanted, Path]]] = {}
    for each in all_wanted:
        where = _existing(each)
        by_device.setdefault(where.stat().st_dev, []).append((each, where))
    for together in by_device.values():
        need = sum((each.need for each, _ in together), Need())
        folder, remedy = together[0][0].folder, together[0][0].remedy
        free = os.statvfs(together[0][1])
        what = " and ".join(f"{each.what} ({size(each.need.bytes)})" for each, _ in together)
        room = free.f_bavail * free.f_frsize
        if room < need.bytes:
            raise InvalidInput(
                f"{what} may need {size(need.bytes)} on the disk of {folder}, and {size(room)} are free", remedy=remedy
            )
        if free.f_files and free.f_favail < need.files:  # some file systems count none
            raise InvalidInput(
                f"{what} may need {need.files} files on the disk of {folder}, and {free.f_favail} are free",
                remedy=remedy,
            )


def _existing(wanted: Wanted) -> Path:
    """The folder, or where it will be made. Raises InvalidInput when it cannot be."""
    place = wanted.folder.absolute()
    try:
        while not place.exists() and place != place.parent:
            place = place.parent
        made, may = place.is_dir(), os.access(place, os.W_OK | os.X_OK)
    except OSError as error:
        raise InvalidInput(f"{wanted.what} cannot be put in {wanted.folder}: {error.strerror}") from error
    if not made or not may:
        why = "is no folder" if not made else "may not be written"
        raise InvalidInput(f"{wanted.what} cannot be put in {wanted.folder}: {place} {why}", remedy=wanted.remedy)
    return place


def size(count: int) -> str:
    """Bytes for people: 640 KiB, 42 MiB, 1.5 GiB."""
    for unit, worth in (("GiB", 2**30), ("MiB", MIB)):
        if count >= worth:
            return f"{count / worth:.1f} {unit}" if count < 10 * worth else f"{count / worth:.0f} {unit}"
    return f"{count / 1024:.0f} KiB"
