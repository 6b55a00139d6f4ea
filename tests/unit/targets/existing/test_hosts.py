"""Hosts behind ssh: what its answers mean, who a node's process is, and what is begun how often.

``ssh`` is here a program that runs the words on this machine, and ``sudo`` one that answers from a file: the real ones
are those of tests/cluster/test_on_hosts.py.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from chaos.base.errors import ChaosError, FaultError, LabError
from chaos.hosts import oschaos_host
from chaos.targets.existing import hosts
from chaos.targets.existing.hosts import Hosts, digest, unlike

SSH = """#!/bin/sh
while [ "$1" != -- ]; do case "$1" in -O) exit 0;; esac; shift; done
shift; echo "$@" >> {folder}/asked; cat > {folder}/given
shift
case "$1" in
sha256sum) cat {folder}/sum;;
sudo) shift 2; cat {folder}/answer-$2;;
esac
exit $(cat {folder}/code 2>/dev/null || echo 0)
"""


class Played:
    """What the other side says next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ssh").write_text(SSH.format(folder=folder))
        (folder / "ssh").chmod(0o755)
        (folder / "sum").write_text(f"{digest()}  /usr/sbin/oschaos-host\n")

    def answers(self, verb: str, answer: Any) -> None:
        (self.folder / f"answer-{verb}").write_text(answer if isinstance(answer, str) else json.dumps(answer))

    @property
    def asked(self) -> list[str]:
        return (self.folder / "asked").read_text().splitlines()


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Played(tmp_path)


@pytest.fixture
def two(tmp_path: Path) -> Any:
    made = Hosts({"es-1": "host-1", "es-2": "host-2"}, None, tmp_path / "ssh-sockets")
    yield made
    made.close()


def test_the_program_is_the_one_of_this_version(played: Played, two: Hosts) -> None:
    two.verify("es-1")
    assert played.asked == ["host-1 sha256sum /usr/sbin/oschaos-host"]
    (played.folder / "sum").write_text("0" * 64 + "  /usr/sbin/oschaos-host\n")
    with pytest.raises(FaultError, match="on host-1 is another program than this version's"):
        two.verify("es-1")
    (played.folder / "sum").write_text("")
    with pytest.raises(FaultError, match="cannot be read on host-1"):
        two.verify("es-1")
    assert digest() != "" and len(Path(oschaos_host.__file__).read_bytes()) > 0


def test_nothing_is_begun_by_another_program(played: Played, two: Hosts) -> None:
    (played.folder / "sum").write_text("0" * 64 + "  x\n")
    with pytest.raises(FaultError, match="another program"):
        two.begin("es-1", {"id": "x-0"})
    assert not any("begin" in line for line in played.asked)


def test_what_the_program_refuses_is_told_with_its_remedy(played: Played, two: Hosts) -> None:
    played.answers("begin", {"ok": False, "why": "token 3 is older than 5", "remedy": "take the lock again"})
    with pytest.raises(FaultError, match="host-2: token 3 is older than 5") as error:
        two.begin("es-2", {"id": "x-0"})
    assert error.value.remedy == "take the lock again"


@pytest.mark.parametrize(
    ("code", "said", "says", "remedy"),
    [
        (255, "Host key verification failed.", "ssh host-1: Host key verification failed", "whose key it is"),
        (255, "chaos@es-1: Permission denied (publickey).", "Permission denied", "a key that the host takes"),
        (1, "sudo: a password is required", "gave no answer: sudo: a password is required", "adduser USER oschaos"),
        (127, "", "gave no answer: exit code 127", None),
    ],
)
def test_what_ssh_and_sudo_say_is_told(
    played: Played, two: Hosts, code: int, said: str, says: str, remedy: str | None
) -> None:
    played.answers("facts", "")
    (played.folder / "code").write_text(str(code))
    (played.folder / "ssh").write_text(
        (played.folder / "ssh").read_text().replace("shift; echo", f"shift; echo '{said}' >&2; echo")
    )
    with pytest.raises(LabError, match=says) as error:
        two.call("es-1", "facts", {})
    assert (error.value.remedy is None) if remedy is None else (remedy in str(error.value.remedy))


def test_no_ssh_is_said(monkeypatch: pytest.MonkeyPatch, two: Hosts, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(LabError, match="ssh is not here"):
        two.call("es-1", "facts", {})


def test_a_token_is_above_all_that_were_seen_and_each_host_sees_it(played: Played, two: Hosts) -> None:
    played.answers("facts", {"ok": True, "token": 9 << 16})
    played.answers("extend", {"ok": False, "why": "this id is not active"})
    two.take("20261126T000235Z-kill-and-more-words-than-fit-6ca4")
    assert two.token > (9 << 16) + 0xFFFF  # of a version that drew 16 bits
    played.answers("facts", {"ok": True, "token": 9 << 40})
    two.take("20261126T000235Z-kill-and-more-words-than-fit-6ca4")
    assert (two.run, two.token >> 40) == ("000235z-kill-and-more-words-than-fit-6ca4"[-40:], 10)
    shown = [line for line in played.asked if "extend" in line][2:]
    assert sorted(line.split()[0] for line in shown) == ["host-1", "host-2"]
    assert json.loads((played.folder / "given").read_text())["token"] == two.token
    played.answers("extend", {"ok": False, "why": "token 655360 is older than 720896: somebody else has the lock"})
    with pytest.raises(FaultError, match="somebody else has the lock"):
        two.take("run-1")


def test_what_is_made_again_has_an_id_of_its_own_and_all_of_it_is_undone(played: Played, two: Hosts) -> None:
    played.answers("begin", {"ok": True})
    played.answers("undo", {"ok": True, "steps": [{"gone": "x"}]})
    for _ in range(2):
        two.begin("es-1", {"id": "x-0"})
        given = json.loads((played.folder / "given").read_text())
        two.undo("es-1", "run-1", "x-0")
    assert given["id"] == "x-0-x2" and json.loads((played.folder / "given").read_text())["id"] == "x-0-x2"
    other = Hosts({"es-1": "host-1"}, None, played.folder / "other")
    played.answers("state", {"ok": True, "active": [{"id": "x-0-x2"}, {"id": "x-00"}]})
    before = len(played.asked)
    other.undo("es-1", "run-1", "x-0")
    other.close()
    assert [line.split()[-1] for line in played.asked[before:]] == ["undo", "state", "undo"]


def test_a_run_that_lost_the_cluster_begins_nothing(played: Played, two: Hosts) -> None:
    def lost() -> None:
        raise FaultError("no run holds the cluster now")

    two.may_begin = lost
    with pytest.raises(FaultError, match="no run holds"):
        two.begin("es-1", {"id": "x-0"})
    assert not (played.folder / "asked").exists()


def test_who_undoes_for_another_process_lets_the_host_take_nothing_more_of_that(two: Hosts) -> None:
    """Else one that was stopped, and goes on, begins again what comes and goes, under an id that was not undone."""
    asked: list[tuple[str, Any]] = []

    def call(node: str, verb: str, given: Any, *, within: float = 0.0) -> dict[str, Any]:
        asked.append((verb, given.get("token", given.get("id"))))
        return {"ok": True, "active": []}

    two.call = call  # type: ignore[method-assign,assignment]
    two.outrank("es-1", 9 << 40)
    for _ in range(2):
        two.undo("es-1", "run-1", "x-0")
    assert asked == [("undo", "x-0"), ("extend", (9 << 40) + 1), ("state", None), ("undo", "x-0"), ("state", None)]


@pytest.mark.parametrize("why", ["token 5 is older than 7: somebody else has the lock", "/var/lib is full"])
def test_a_host_that_takes_no_token_is_undone_all_the_same(played: Played, two: Hosts, why: str) -> None:
    played.answers("undo", {"ok": True, "steps": [{"gone": "x"}]})
    played.answers("extend", {"ok": False, "why": why})
    played.answers("state", {"ok": True, "active": [{"id": "x-0-x2"}]})
    two.outrank("es-1", 4)
    two.undo("es-1", "run-1", "x-0")
    assert [line.split()[-1] for line in played.asked] == ["undo", "extend", "state", "undo"]


def test_a_fault_is_told_to_end_before_anything_is_asked(played: Played, two: Hosts) -> None:
    """A question that nobody answers must not keep it."""
    played.answers("undo", {"ok": True, "steps": [{"gone": "x"}]})
    played.answers("state", "no answer")
    with pytest.raises(ChaosError):
        two.undo("es-1", "run-1", "x-0")
    assert [line.split()[-1] for line in played.asked] == ["undo", "state"]


def test_what_others_changed_is_left_and_told(played: Played, two: Hosts) -> None:
    played.answers("state", {"ok": True, "active": []})
    played.answers("undo", {"ok": True, "steps": [{"left": "somebody else changed the queueing"}]})
    with pytest.raises(FaultError, match="host-1: somebody else changed the queueing"):
        two.undo("es-1", "run-1", "x-0")


def test_processes_are_asked_once_for_a_moment(played: Played, two: Hosts) -> None:
    played.answers("state", {"ok": True, "active": [], "nodes": {"es-1": {"pid": 7, "start": 1, "state": "S"}}})
    assert [two.process("es-1"), two.process("es-1")] == [{"pid": 7, "start": 1, "state": "S"}] * 2
    assert len(played.asked) == 1
    two.forget("es-1")
    two.process("es-1")
    assert len(played.asked) == 2
    with pytest.raises(FaultError, match="names no node es-2"):
        two.process("es-2")


PROCESS = {"process": {"pid": 7, "age": 1_000.0}}


@pytest.mark.parametrize(
    ("told", "pid", "uptime", "ahead", "says"),
    [
        (PROCESS, 7, 997_000, 0, None),
        (PROCESS, 7, 997_000, -900_000, None),  # kept for a second; of a clock that was set on they are made anew
        (PROCESS, 8, 997_000, 0, "is process 7, and the cluster says that it is 8"),
        (PROCESS, 7, 1_200_000, 0, "began at another time"),
        (PROCESS, 7, 997_000, 7_200_000, "its statistics stand still for 7200 s more"),
        ({"process": None}, 7, 997_000, 0, "no process of es-1 runs there"),
        ({"process": None, "why": "the pid file names another's"}, 7, 997_000, 0, "the pid file names another's"),
    ],
)
def test_a_host_proves_that_the_node_is_on_it(told: Any, pid: int, uptime: int, ahead: int, says: str | None) -> None:
    now = 1_795_683_199_536
    jvm = {"uptime_in_millis": uptime, "timestamp": now + ahead}
    found = unlike("es-1", told, {"process": {"id": pid}, "timestamp": now, "jvm": jvm})
    assert found == says if says is None else says in str(found)


def test_a_long_path_is_no_socket_s(tmp_path: Path, played: Played) -> None:
    played.answers("facts", {"ok": True})
    deep = Hosts({"es-1": "host-1"}, None, tmp_path / ("x" * hosts.LONGEST_SOCKET))
    deep.call("es-1", "facts", {})
    assert deep._folder is not None and deep._folder.exists() and "oschaos-ssh-" in deep._folder.name
    folder = deep._folder
    deep.close()
    assert not folder.exists()
