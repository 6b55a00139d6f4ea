"""Faults by programs of a cluster's owners, on a lab that is taken for their cluster: honest ones, and such as lie.

Whatever they say, only what the cluster shows is proven, no call is waited for beyond its deadline, and what is left is
told.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from cluster.test_on_existing import FOREVER, OVER, STANDBY, There, taken_for_theirs
from clusterkit import await_event, cli, events, findings, in_effect, keepers_of, recovered_elsewhere, run_folder
from hookkit import Owners

from chaos.base.paths import ProcessIdentity
from chaos.opensearch.views import await_green
from chaos.targets.labs.local import LocalLab
from chaos.targets.labs.processes import wait_until

pytestmark = pytest.mark.full
NODE = "c-data"
KILL = "  healthy: {for: 3s}\n  dead: {inject: {node.kill: {target: node c-data}}, for: %s}\n"
WITHIN = 4.0
"""Seconds for each call of one that hangs."""
KINDS = ("node.kill", "node.pause", "network.drop")


class Theirs:
    def __init__(self, there: There) -> None:
        self.there, self.lab, self.out = there, there.lab, there.out
        self.owners = Owners(there.lab, there.file.parent)
        self._text = there.text
        self.allow()

    def allow(self, **given: str) -> None:
        self.there.text = self._text + self.owners.written(*KINDS, **given)
        self.there.write(FOREVER)

    def alive(self) -> bool:
        return self.lab.process_state(NODE) not in (None, "T", "Z")

    def stages(self) -> dict[str, bool]:
        """Stage → whether it was proven, of the only fault."""
        return {event["stage"]: event["proven"] for event in events(self.out) if event["kind"] == "fault.evidence"}

    def words(self, stage: str) -> list[str]:
        """What its own word was at a stage, the last time."""
        told = [e for e in events(self.out) if e["kind"] == "fault.evidence" and e["stage"] == stage][-1]
        return [each["measured"] for each in told["probes"] if each["what"].startswith("reported by the hook")]

    def mended(self) -> None:
        """Every node runs, and nothing of the run is left."""
        self.owners.does()
        for node in self.lab.topology.nodes:
            if self.lab.process_state(node.name) in ("T", "t"):
                self.lab.resume_node(node.name)
            self.lab.start_node(node.name)
        code, output = cli("recover")
        assert code == 0, output
        assert await_green(self.lab, 180)[0]


@pytest.fixture
def theirs(playground: LocalLab, tmp_path: Path) -> Iterator[Theirs]:
    with taken_for_theirs(playground, tmp_path, STANDBY) as there:
        made = Theirs(there)
        try:
            yield made
        finally:
            made.mended()


def not_green(theirs: Theirs, code: int, output: str) -> None:
    """It is no pass, and no weakness of the cluster either; no call outlasted its deadline, none left anything."""
    assert code not in (0, 1), output
    found = findings(theirs.out)
    assert found["outcome"] in ("inconclusive", "error", "aborted"), found["headline"]
    assert [fault["proven"] for fault in found["faults"]] == [False]
    log = (run_folder(theirs.out) / "logs" / "hooks.log").read_text()
    took = [float(seconds) for seconds in re.findall(r" after ([0-9.]+) s$", log, re.MULTILINE)]
    assert took and max(took) < 30.0, log
    ours = [each for each in psutil.process_iter(["cmdline"]) if "hooks/hook" in " ".join(each.info["cmdline"] or [])]
    assert ours == []


@pytest.mark.parametrize(
    ("phases", "nodes", "links"),
    [
        (KILL % "6s", ["c-data"], 0),
        ("  healthy: {for: 3s}\n  still: {inject: {node.pause: {target: node c-data}}, for: 6s}\n", ["c-data"], 0),
        ("  healthy: {for: 3s}\n  cut: {inject: {network.drop: {links: between node c-cm and node c-data}}, for: 6s}\n",
         [], 2),
    ],
    ids=["kill", "pause", "drop"],
)  # fmt: skip
def test_an_honest_program_is_proven_by_its_effect(theirs: Theirs, phases: str, nodes: list[str], links: int) -> None:
    code, output = theirs.there.run(phases + OVER)
    assert code in (0, 3), output  # a busy machine may send late
    found = findings(theirs.out)
    assert found["clean"] is True and found["outcome"] in ("pass", "inconclusive"), found["reasons"]
    assert [fault["proven"] for fault in found["faults"]] == [True], found["faults"]
    assert theirs.stages() == {"before": True, "effect": True, "held": True, "gone": True}
    assert [theirs.words(stage) for stage in theirs.stages()] == [["no"], ["yes"], ["yes"], ["yes"]]
    (command,) = [event for event in events(theirs.out) if event["kind"] == "fault.command"]
    assert (command["provider"], command["grade"], command["targets"]) == ("hooks", "effect", nodes)
    assert len(command["links"]) == links
    assert theirs.owners.calls.count("inject") == theirs.owners.calls.count("undo") == 1
    assert theirs.there.as_before()
    plan = json.loads((run_folder(theirs.out) / "plan.json").read_text())
    assert plan["lab"]["accepts"] == ["effect"]
    assert "as others see them" in json.loads((run_folder(theirs.out) / "clean.json").read_text())["scanned"]


@pytest.mark.parametrize(
    "instead",
    [
        {"inject": "yes"},
        {"inject": "yes", "in_effect": "once made"},
        {"in_effect": "yes"},
        {"in_effect": "no"},
        {"in_effect": "fails"},
        {"inject": "later"},
    ],
    ids=["makes nothing", "makes nothing and says so", "always yes", "always no", "fails", "forks and leaves"],
)
def test_one_that_lies_about_making_it_is_inconclusive_and_clean(theirs: Theirs, instead: dict[str, str]) -> None:
    theirs.owners.does(**instead)
    code, output = theirs.there.run(KILL % "6s" + OVER)
    not_green(theirs, code, output)
    assert code == 3, output
    assert findings(theirs.out)["clean"] is True and theirs.alive() and theirs.there.as_before()
    assert theirs.stages()["effect"] is False and theirs.owners.calls.count("undo") == 1


def test_one_that_hangs_while_it_makes_it_is_ended_and_undone(theirs: Theirs) -> None:
    theirs.allow(within=f"{WITHIN:g}s")
    theirs.owners.does(inject="half done")
    code, output = theirs.there.run(KILL % "6s" + OVER)
    not_green(theirs, code, output)
    assert code == 5 and "not over within 4 s" in output, output
    assert findings(theirs.out)["clean"] is True and wait_until(theirs.alive, 60)


def test_one_that_hangs_when_it_is_asked_is_not_waited_for(theirs: Theirs) -> None:
    theirs.allow(within=f"{WITHIN:g}s")
    theirs.owners.does(in_effect="hangs")
    code, output = theirs.there.run(KILL % "6s" + OVER)
    not_green(theirs, code, output)
    assert code == 3 and theirs.words("effect") == ["it failed, not over within 4 s, and was ended"], output


def stopped(theirs: Theirs, **instead: str) -> tuple[int, str]:
    """A run that is stopped while its fault holds, by when the program does otherwise."""
    running = theirs.there.begin(KILL % "3m" + OVER)
    await_event(running, theirs.out, in_effect)
    theirs.owners.does(**instead)
    running.signal(signal.SIGINT)
    code, output = running.end(400)
    return code, output


@pytest.mark.parametrize(
    "instead", [{"undo": "yes"}, {"undo": "yes", "gone": "yes"}], ids=["undo lies", "undo and gone lie"]
)
def test_one_that_says_undone_and_is_not_leaves_the_run_dirty(theirs: Theirs, instead: dict[str, str]) -> None:
    code, output = stopped(theirs, **instead)
    not_green(theirs, code, output)
    said = " ".join(output.split())
    assert code == 6 and f"undone by its hook, and {NODE} is not back" in said, output
    found = findings(theirs.out)
    assert found["clean"] is False and theirs.stages()["gone"] is False and not theirs.alive()


def test_one_that_says_gone_before_it_is_proves_nothing(theirs: Theirs) -> None:
    """A whole run to its end: nothing but what the cluster shows is waited for."""
    theirs.owners.does(undo="yes", gone="yes")
    code, output = theirs.there.begin(KILL % "6s" + OVER).end(900)
    not_green(theirs, code, output)
    assert code == 6 and theirs.stages() == {"before": True, "effect": True, "held": True, "gone": False}, output
    assert theirs.words("gone") == ["yes"] and not theirs.alive()


def test_one_that_denies_its_end_is_inconclusive_and_clean(theirs: Theirs) -> None:
    theirs.owners.does(gone="no")
    code, output = theirs.there.run(KILL % "6s" + OVER)
    not_green(theirs, code, output)
    assert code == 3 and findings(theirs.out)["clean"] is True and theirs.alive(), output
    assert theirs.words("gone") == ["no"] and theirs.stages()["gone"] is False


def test_one_that_hangs_when_it_is_to_undo_leaves_it_to_the_keeper(theirs: Theirs) -> None:
    theirs.allow(within=f"{WITHIN:g}s")
    code, output = stopped(theirs, undo="hangs")
    not_green(theirs, code, output)
    assert code == 6 and "did not undo: not over within 4 s" in " ".join(output.split()), output
    assert not theirs.alive()
    theirs.owners.does()
    assert wait_until(theirs.alive, 120)  # the keeper has tried again


def test_one_whose_word_turns_meanwhile_ends_the_run(theirs: Theirs) -> None:
    running = theirs.there.begin(KILL % "3m" + OVER)
    await_event(running, theirs.out, in_effect)
    theirs.owners.does(in_effect="no")
    code, output = running.end(300)
    not_green(theirs, code, output)
    assert code == 3 and theirs.stages()["held"] is False, output
    assert findings(theirs.out)["clean"] is True and theirs.alive()


def test_a_node_that_its_owners_bring_back_early_ends_the_run(theirs: Theirs) -> None:
    """As a program does when its ttl is over, whatever it says of itself."""
    theirs.owners.does(in_effect="once made")
    running = theirs.there.begin(KILL % "3m" + OVER)
    await_event(running, theirs.out, in_effect)
    theirs.lab.start_node(NODE)
    code, output = running.end(300)
    not_green(theirs, code, output)
    assert code == 3 and theirs.stages()["held"] is False, output


@pytest.mark.parametrize("both", [False, True], ids=["runner", "runner and keeper"])
def test_what_a_dead_runner_made_is_undone_by_the_program(theirs: Theirs, tmp_path: Path, both: bool) -> None:
    running = theirs.there.begin(KILL % "3m" + OVER)
    await_event(running, theirs.out, in_effect)
    assert not theirs.alive()
    if both:
        for child in keepers_of(running.process.pid):
            child.send_signal(signal.SIGKILL)
    running.process.kill()
    running.process.wait()
    if both:
        code, output = recovered_elsewhere(theirs.there.file, tmp_path)
        assert code == 0 and "hook.inject" in output, output
    assert wait_until(theirs.alive, 90) and await_green(theirs.lab, 180)[0]
    assert wait_until(theirs.there.as_before, 60)


def test_a_program_that_a_dead_runner_left_at_work_makes_nothing_after_its_undo(theirs: Theirs) -> None:
    theirs.owners.does(inject="half done")
    running = theirs.there.begin(KILL % "3m" + OVER)
    assert wait_until(lambda: "inject" in theirs.owners.calls, 120)
    assert wait_until(lambda: not theirs.alive(), 30)
    working = [p.pid for p in psutil.process_iter(["cmdline"]) if "hooks/hook" in " ".join(p.info["cmdline"] or [])]
    left = [ProcessIdentity.of(pid) for pid in working]
    running.process.kill()
    running.process.wait()
    assert left and wait_until(lambda: not any(each.alive() for each in left), 60)
    assert wait_until(theirs.alive, 90) and wait_until(theirs.there.as_before, 90)


def test_a_program_that_is_not_there_is_told_before_anything_is_done(theirs: Theirs) -> None:
    (theirs.owners.folder / "hook").chmod(0o644)
    code, output = cli("target", "check", theirs.there.file)
    assert code == 2 and "there is no program ./hooks/hook that may be executed" in " ".join(output.split()), output
    code, output = theirs.there.run(KILL % "6s" + OVER)
    assert code == 2 and "no program ./hooks/hook" in " ".join(output.split()), output
    assert theirs.there.as_before() and not theirs.out.exists() and theirs.owners.calls == []
    (theirs.owners.folder / "hook").chmod(0o755)
    theirs.allow(ttl="30s")
    code, output = theirs.there.run(KILL % "29s" + OVER)
    assert code == 2 and "its hook undoes it after 30s" in " ".join(output.split()), output
    assert not theirs.out.exists() and theirs.owners.calls == []
