"""Segment replication, when somebody else spoils it: on a real cluster, through a whole run.

Copying is stopped, segment files are changed on a disk, and old answers are served. Each is told for what it is: the
doing of an external actor, wrong content, a stale read where a get promised more, and mere lag where nothing did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusterkit import DATA, Cli, await_event, events, findings, impostors, in_effect, nothing_left, run_folder

from chaos.definitions import load_topology
from chaos.history import configuration
from chaos.observe.proof import problems
from chaos.opensearch.views import administer, newest, views
from chaos.run.options import new_lab_id
from chaos.targets.labs import provisioning
from chaos.targets.labs.local import LocalLab

pytestmark = pytest.mark.full
SEGMENTS, KILLED = DATA / "segments.yaml", DATA / "segments-killed.yaml"
THROTTLE, SLOWEST = "indices.replication.max_bytes_per_sec", "50b"
"""At 50 bytes a second the smallest segment takes more than the minute that a replica may take."""
DAMAGED = "c-all"
CHECK = re.compile(rb'"check":(\d{12,})')
"""In the source of a document, where compression left it alone: a number of 19 digits, or its first ones."""


@pytest.fixture(scope="module")
def copying() -> Iterator[LocalLab]:
    topology = load_topology(DATA / "tiny-segrep.yaml")
    lab = LocalLab.create(topology, provisioning.parts(topology), id=new_lab_id())
    try:
        lab.up()
        yield lab
    finally:
        assert lab.down() == []


def made(running: Cli, out: Path) -> str:
    """The load's index, once it is there as answers are held against it."""
    await_event(running, out, lambda event: event["kind"] == "index.shape")
    return next(event["index"] for event in events(out) if event["kind"] == "index.shape")


def without_primary(lab: LocalLab, index: str) -> str:
    """A node that holds replicas alone."""
    seen = newest(views(lab))
    assert seen is not None
    primaries = {copy.node for copy in seen.copies if copy.index == index and copy.primary}
    return next(node.name for node in lab.topology.data_nodes if node.name not in primaries)


def by_metric(out: Path) -> dict[str, dict[str, Any]]:
    return {finding["metric"]: finding for finding in findings(out)["findings"]}


@pytest.mark.parametrize("lie", ["replay", "late"])
def test_old_answers_are_stale_reads_where_a_get_promised_more_and_lag_where_nothing_did(
    copying: LocalLab, out: Path, lie: str
) -> None:
    """Before a node of replicas alone: gets (``replay``), which OpenSearch would pass on to the primary, and searches
    (``late``), which show what the copy has."""
    with impostors(copying, copying.wiring.clients, lie) as switch:
        running = Cli("run", SEGMENTS, "--out", out, "--on", copying.id)
        await_event(running, out, in_effect)
        node = without_primary(copying, made(running, out))
        new = switch.with_name("lie.new")
        new.write_text(node)
        new.replace(switch)
        code, output = running.end()
    assert problems(copying) == []
    found = by_metric(out)
    counts = {metric: finding["counts_as"] for metric, finding in found.items()}
    if lie == "replay":
        assert code == 1, output
        assert counts["stale.reads"] == "weakness" and set(found["stale.reads"]["evidence"]["nodes"]) == {node}
        assert counts["replicas.visible.p90"] != "weakness"
    else:
        # inconclusive where no processor of this machine was free: then nodes may show late by themselves
        assert counts["replicas.visible.p90"] in ("weakness", "inconclusive") and counts["stale.reads"] == "pass"
        assert code == (1 if counts["replicas.visible.p90"] == "weakness" else 3), output
        assert found["replicas.visible.p90"]["measured"] > 4.0
        nodes = findings(out)["tables"]["data"]["visibility"]["nodes"]
        assert {name for name, row in nodes.items() if row["p50"]["value"] > 4.0} == {node}
    # by the primaries' own word nothing is behind, and primaries show what they have
    assert counts["replication.lag"] == counts["visible.p90"] == counts["replicas.stale"] == "pass", output
    assert counts["cas.violations"] in ("pass", "inconclusive") and counts["acknowledged.lost"] == "pass"


def committed(folder: Path, ending: str) -> list[Path]:
    """The files of segments that the newest commit in a shard's folder names: a node that starts reads no others."""
    commit = max(folder.glob("segments_*"), key=lambda path: int(path.name.removeprefix("segments_"), 36)).read_bytes()
    return [path for path in sorted(folder.glob(f"*{ending}")) if path.stem.encode() in commit]


def shard_folders(lab: LocalLab) -> list[Path]:
    """Of the node that is damaged, in the order of their shards; of the load's index, the only one."""
    data = lab.folder / "data" / DAMAGED
    return sorted(path for path in data.glob("nodes/*/indices/*/*/index") if path.parent.name.isdecimal())


def overwrite(file: Path, at: int, new: bytes) -> None:
    with file.open("r+b") as opened:
        opened.seek(at)
        opened.write(new)


def change_a_source(folder: Path) -> Path:
    """Change a digit of a stored document; the file in which it is."""
    files = [*committed(folder, ".cfs"), *committed(folder, ".fdt")]
    for file in files:
        if (found := CHECK.search(data := file.read_bytes())) is not None:
            at = found.start(1) + 5
            overwrite(file, at, b"1" if data[at : at + 1] != b"1" else b"2")
            return file
    raise AssertionError(f"no source of a document in {files}, of {sorted(folder.iterdir())}")


def change_a_description(folder: Path) -> tuple[Path, bytes]:
    """Change a byte in the description of a segment (``.si``), which has a checksum that is verified when a segment
    is opened; which file, and what was in it."""
    file = committed(folder, ".si")[0]
    before = file.read_bytes()
    middle = len(before) // 2
    overwrite(file, middle, bytes([before[middle] ^ 1]))
    return file, before


def test_a_segment_file_of_a_replica_that_was_changed_on_disk(copying: LocalLab, out: Path) -> None:
    """While its node was down. What OpenSearch verifies when it opens a segment it copies anew, with all files of that
    shard. What it does not verify the replica serves, and is told the same as its primary by the checksum that stands
    in the file: only the read-back finds it."""
    running = Cli("run", KILLED, "--out", out, "--on", copying.id)
    index = made(running, out)
    await_event(running, out, lambda event: event["kind"] == "phase.start")
    assert administer(copying, "POST", f"/{index}/_flush?force=true")[0] == 200
    await_event(running, out, in_effect)
    source, description = shard_folders(copying)
    cfs = change_a_source(source)
    changed = cfs.read_bytes()
    file, before = change_a_description(description)
    await_event(running, out, lambda event: event["kind"] == "load.stop")
    assert file.read_bytes() == before and cfs.read_bytes() == changed
    code, output = running.end()
    assert code == 1, output
    log = (run_folder(out) / "logs" / f"{DAMAGED}.log").read_text()
    assert "recovering as if there are none" in log and "CorruptIndexException" in log  # of the description, at once
    found = by_metric(out)
    lost, others = found["acknowledged.lost"], {node.name for node in copying.topology.nodes} - {DAMAGED}
    assert lost["counts_as"] == "weakness" and found["replicas.stale"]["counts_as"] == "pass"
    wrong = lost["evidence"]["wrong_source"]  # of a document behind it compression may have taken what was changed
    assert wrong and all(each["on"] == [DAMAGED] and set(each["right_on"]) == others for each in wrong), lost
    assert lost["measured"] == len(wrong) and not lost["evidence"]["wrong_index"], lost
    assert problems(copying) == []


def test_an_external_actor_who_stops_copying_is_named_and_replicas_that_stay_behind_are_none_of_the_cluster_s(
    copying: LocalLab, out: Path
) -> None:
    running = Cli("run", SEGMENTS, "--out", out, "--on", copying.id)
    await_event(running, out, in_effect)
    assert administer(copying, "PUT", "/_cluster/settings", body={"transient": {THROTTLE: SLOWEST}})[0] == 200
    try:
        code, output = running.end()
    finally:
        assert administer(copying, "PUT", "/_cluster/settings", body={"transient": {THROTTLE: None}})[0] == 200
    assert code == 3, output
    assert f"omebody else changed the cluster's setting {THROTTLE} from unset to {SLOWEST}, between " in output
    assert len([event for event in events(out) if event["kind"] == configuration.CHANGED]) == 1
    found = by_metric(out)
    stale, lost = found["replicas.stale"], found["acknowledged.lost"]
    assert stale["counts_as"] == "inconclusive" and THROTTLE in stale["because"], stale
    assert stale["measured"] == len(stale["evidence"]["stale"]) >= 1, stale  # they were seen to be behind
    # how fast segments are copied loses nothing: what is open of it is so because the run was cut
    assert lost["measured"] == 0 and THROTTLE not in (lost["because"] or ""), lost
    assert problems(copying) == [] and nothing_left() == []
