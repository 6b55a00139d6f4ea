"""The end of a run, whatever ended it: undo, settle, read back, take the lab away, report."""

from __future__ import annotations

import json
import os
import shutil
import time
from contextlib import suppress
from typing import Any

from chaos.base.errors import Aborted, ChaosError
from chaos.base.paths import write_json
from chaos.checks.instrument import Ends
from chaos.faults.effects import BACK_SECONDS
from chaos.faults.ledger import Entry, registrations
from chaos.faults.lifecycle import undo_entries
from chaos.faults.patience import patiently
from chaos.history import History, compact, seal
from chaos.history.events import LEFT_OUT, AbortUndone, ClusterSettled, LoadCeased, LoadStop, Note, RunEnd
from chaos.history.writer import RESTORED
from chaos.observe import proof, told
from chaos.observe.readback import read_back
from chaos.observe.several import merged
from chaos.observe.written import Written
from chaos.opensearch.views import await_green, newest, views
from chaos.run.asking import Asking
from chaos.run.indices import RunIndex
from chaos.run.options import RunResult, Unreported
from chaos.run.recovery import mend
from chaos.run.restoring import read_back_from_store
from chaos.run.state import DRIVER
from chaos.run.stopping import Unasked
from chaos.targets.labs import sweep, traces
from chaos.targets.labs.processes import wait_until

SETTLE_SECONDS = 240.0
"""How long a cluster may take to be green again after everything has been undone."""
KNOWN_SECONDS = 20.0
"""How long it may take a cluster to be led again and to know which of its nodes are dead, before it is read back."""
HOPELESS_SECONDS = 20.0
"""A cluster with all its nodes, red and with nothing under way for this long, will not get better by itself."""
SCANNED_AFTER = (
    "processes, network namespaces, mounts, loop devices, control groups and folder of the lab; "
    "the run's registry entry"
)
SCANNED_ON_A_LIVING_LAB = (
    "the ledger; every proxy, toxic and neighbour entry; stopped processes; the run's index; the run's registry entry"
)
SCANNED_ON_A_TARGET = "the ledger; its toxics; the run's index, its notes and its registry entry"
SCANNED_AFTER_HOOKS = f"{SCANNED_ON_A_TARGET}; the nodes and links that hooks were at, as others see them"
"""What was looked at before a run was called clean."""
LOOKED_SECONDS = 5.0
"""For what hooks have undone, where it was awaited before; a stop awaits nothing."""


class Closing(Asking):
    """Every step is tried, whatever became of the one before."""

    def close_down(self) -> None:
        """Undo, settle, take the lab away. Every step is tried; only what stays behind in the end is dirt."""
        self.for_undo.release()
        for closing in (self.undo, self.settle_and_read_back, self.read_back_from_store, self.lab_away):
            try:
                closing()
            except Aborted as error:  # a signal while closing down: what is left of the order is the tail alone
                self.aborted(error)
            except Exception as error:  # one clean-up that fails must not stop the next
                self.keep_traceback(closing.__name__)
                if closing == self.lab_away:
                    self.dirt.append(f"{closing.__name__}: {type(error).__name__}: {error}")
                self.failed(f"{closing.__name__}: {type(error).__name__}: {error}")
        if self.stop.failure is not None and self.outcome != "error":  # it broke while something else ended the run
            self.failed(self.stop.failure)

    def undo(self) -> None:
        self.stage("undo")
        held = [fault.id for fault in self.lifecycle.active]
        self.end_instruments(Ends.UNDO)  # else they would do again what is taken back
        if self.there is not None and self.outcome != "finished":
            self.cease()  # first of all no more load on a cluster that is not ours
            if self.ceased_at is not None:
                self.note(LoadCeased(), t=self.ceased_at)
        if held:
            self.reporter.line("undoing what is still in effect")
        gone = self.lifecycle.undo_all(look=self.outcome == "finished")
        if not gone:
            self.reporter.line("not every fault is proven to be gone")
        back, left = self.lifecycle.taken_back, []
        prepared, self.prepared = self.prepared, None
        if prepared is not None:
            with suppress(Exception):  # what stays open is looked for once more than needed
                self.lifecycle.drop(prepared[1])
        remaining = self.remaining()
        if remaining:
            if undo_entries(self.lab, self.ledger, remaining):
                self.mend()
                left = undo_entries(self.lab, self.ledger, self.remaining())  # and once more when the lab is left
            back = time.monotonic_ns()
        self.say_latency(held, gone, back, left, actions=len({entry.fault for entry in remaining} - set(held)))
        self.check_late_stop()

    def remaining(self) -> list[Entry]:
        """What the ledger still has that can be taken back, but for the run's own indices and its load."""
        own = ("index", "notes", DRIVER)
        return [e for e in self.ledger.standing() if e.inverse is not None and e.fault not in own]

    def mend(self) -> None:
        """Start anew what does not do as told, as ``recover`` would: what it holds goes with it, and so do connections.

        Nothing that failed to be undone counts as proven to be gone, whatever becomes of it here.
        """
        mended, failed = mend(self.lab)
        for says in failed:
            self.note(Note(says=says))
        for what in mended:
            says = f"{what} did not take back what it was told to, and was started anew: its connections were cut"
            self.note(Note(says=says))
            self.reporter.line(says)

    def say_latency(self, held: list[str], gone: bool, back: int | None, left: list[str], *, actions: int = 0) -> None:
        """How long it took from the stop being asked for until nothing was in effect any more, and proven so.

        ``back``: when everything had been tried. ``left``: what could not be taken back by then. ``actions``: how many
        there were to take back beside the faults ``held``.
        """
        asked = self.stop.at
        if asked is None:
            return
        now = time.monotonic_ns()
        seconds = max(0, back - asked) / 1e9 if back is not None else 0.0
        undone = AbortUndone(
            asked=asked,
            faults=held,
            seconds=round(seconds, 6),
            complete=not left,
            proven=gone,
            proven_seconds=round((now - asked) / 1e9, 6) if held else None,
            actions=actions or LEFT_OUT,
        )
        self.note(undone)
        if left:
            self.reporter.line(f"not everything could be undone: {left[0]}")
        elif held or actions:
            self.reporter.line(f"everything was undone {seconds:.1f} s after the stop was asked for")

    def check_late_stop(self) -> None:
        """A stop that comes after the phases ends the run as aborted too. Raises Aborted.

        A process that ends unasked after them is said, and ends nothing but the waiting; one of ours that failed is an
        error as ever.
        """
        if self.outcome != "finished":
            return
        if self.stop.asked or self.stop.failed:
            self.stop.check()
        elif self.stop.ended is not None and not self.early:
            self.ended_early(Unasked(self.stop.ended))

    def settle_and_read_back(self) -> None:
        """Green again under load, then load off, then every acknowledged document from every copy.

        Where a process ended unasked nothing is waited for: it will not come back, and what is there is read.
        """
        if self.driver is None:
            return
        if self.outcome == "finished" and self.stop.ended is None:
            self.stage("settle")
            over = self.stop.is_over
            until = time.monotonic() + SETTLE_SECONDS

            def waiting() -> bool:
                left = max(0.0, until - time.monotonic())
                self.reporter.status(f"settling: waiting for green, at most {left:.0f} s   {self.instruments.word()}")
                return over()

            settled = patiently(
                lambda: await_green(
                    self.lab, SETTLE_SECONDS, stopped=waiting, hopeless=HOPELESS_SECONDS, counted=self.counted
                ),
                over,
                0.0,
            )
            if settled is not None and not over():
                ClusterSettled(green=settled[0], seconds=round(settled[1], 3)).write(self.events)
            patiently(self.instruments.settled, over, 0.0)
        self.note(LoadStop())
        self.reporter.status("load off")
        if not self.driver.stop():
            self.note(Note(says=f"the load driver did not end in order: {self.driver.error}"))
        self.instruments.stop(Ends.LOAD)
        self.check_late_stop()
        if self.outcome == "finished":
            self.stage("read-back")
            if self.stop.ended is not None:
                patiently(self.await_known_dead, self.stop.was_asked, 0.0)
            history = History.open(self.folder)
            results = {each.index: self.read_back_of(each, history) for each in self.indices}
            result = merged(results) if len(results) > 1 else results[self.index]
            write_json(self.folder / "history" / "readback.json", result)
            if self.stop.ended is None and not self.early:  # else the cluster has not settled
                self.ask_commands()

    def read_back_from_store(self) -> None:
        """Of an experiment tagged durable: empty the cluster, restore it from the store alone, and read it back again.

        Where the run ended early nothing of it could count.
        """
        if self.driver is None or not self.experiment.durable or self.outcome != "finished" or self.early:
            return
        self.stage("restore from the store")
        self.end_instruments(Ends.LAST)  # what they watch is ended here
        history = History.open(self.folder)
        found = read_back_from_store(
            self.lab,
            list(self.indices),
            lambda index: self.read_back_of(index, history),
            self.reporter.status,
            self.stop.was_asked,
        )
        write_json(self.folder / "history" / RESTORED, found)
        self.check_late_stop()

    def read_back_of(self, index: RunIndex, history: History) -> dict[str, Any]:
        """What is in an index at the end, against what the load wrote into it. Raises Aborted after a stop."""
        load = self.experiment.load
        first = index.place is None
        written = Written.of(
            history,
            documents=index.documents,
            keys=self.cas_keys if first else 0,
            writers={each.name: each.items for each in load.writers if each.index == index.place},
            stride=load.stride,
            alone=not self.indices.others,
            probes=first,
        )
        result = patiently(
            lambda: read_back(
                self.lab,
                index.index,
                written,
                self.reporter.status,
                seed=self.seed,
                workload=index.workload,
                automatic=load.automatic(index.place),
                told=told.heard(history, load.stride) if any(each.client for each in load.every) else None,
                rolled=index.rolled.rolled is not None,
                segments=index.shape.segments,
                stopped=self.nothing_to_copy_from,
            ),
            self.stop.was_asked,
            0.0,
        )
        self.check_late_stop()
        assert result is not None  # it is given up after a stop alone
        return result

    def nothing_to_copy_from(self) -> bool:
        """Whether replicas are awaited no longer: the run is to stop, or the store that they copy from has ended."""
        store = self.lab.topology.remote_store
        ended = store is not None and store.service in proof.services_ended(self.lab)
        return ended or self.stop.was_asked()

    def await_known_dead(self) -> None:
        """Until the cluster is led and knows which nodes are gone: what they held cannot be read."""
        dead = {node.name for node in self.lab.topology.nodes if self.lab.process_state(node.name) is None}

        def known() -> bool:
            seen = newest(views(self.lab))
            return seen is not None and not seen.nodes & dead

        wait_until(known, KNOWN_SECONDS, every=0.25)

    def lab_away(self) -> None:
        self.stage("lab away")
        self.end_instruments(Ends.LAST)
        if self.identity is not None:  # until the load is off: what comes after asks before each change
            self.identity.stop()
        if self.driver is not None:
            self.driver.kill()
            alive = [each.pid for each in self.driver.processes if each.alive]
            self.dirt += [f"the load driver (process {pid}) does not die" for pid in alive]
        self.end_instruments(Ends.LOAD)
        self.lab.write_logs()
        self.keep_logs()
        if self.own_lab:
            self.reporter.status("taking the lab away")
            self.dirt += self.lab.down()
            shutil.rmtree(sweep.logs() / self.lab.id, ignore_errors=True)  # the run folder has them
            self.dirt += [f"{trace} is still here" for trace in traces.of(self.lab.id)]
        else:
            if self.there is not None:
                self.there.undone()
            self.dirt += undo_entries(self.lab, self.ledger, self.ledger.standing())
            self.dirt += [] if self.there is None else self.there.end_helpers()
            self.dirt += proof.marks(self.lab) if self.there is None else self.there.marks()
            if self.there is not None and self.there.by_hooks():
                self.reporter.status("looking whether what hooks have undone is back")
                self.dirt += self.there.not_back(LOOKED_SECONDS if self.outcome == "finished" else BACK_SECONDS)
            for each in self.indices:
                there = proof.index_there if each.rolled.rolled is None else proof.name_there
                self.dirt += there(self.lab, each.index)
            if self.there is not None and (says := self.there.end(clean=not self.dirt)):
                self.note(Note(says=says))
                self.reporter.line(says)
        if not self.dirt:
            self.registration.remove()
            left = [each for each in registrations() if each.run == self.registration.run]
            self.dirt += [f"registry entry {each.file} is still here" for each in left]

    def end_instruments(self, *ends: Ends) -> None:
        """Whatever comes of it, the lab goes away."""
        try:
            self.instruments.stop(*ends, patient=self.outcome == "finished")
        except Exception as error:
            self.keep_traceback("instruments")
            self.failed(f"an instrument did not end in order: {type(error).__name__}: {error}")

    def keep_logs(self) -> None:
        """The nodes' logs go with the run; a reused lab's are cut where the run began."""
        for file in sorted((self.lab.folder / "logs").glob("*.log")):
            with suppress(OSError):
                shutil.copy(file, self.folder / "logs" / file.name)
                os.chown(self.folder / "logs" / file.name, os.geteuid(), os.getegid())

    def stop_recording(self) -> None:
        """Nothing is written any more but the end. A record that was lost after the run had ended is an error too."""
        known = self.recording.says
        self.recording.stop()
        if self.recording.says is not None and (known is None or self.outcome != "error"):
            self.failed(self.recording.says)

    def withdraw(self) -> None:
        """Of a run that was refused before it changed anything nothing is left, nor a folder."""
        self.recording.stop()
        self.for_report.release()
        self.events.close()
        self.ledger.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.reporter.close()

    def report(self) -> RunResult:
        from chaos.report import promises, render

        clean = not self.dirt
        self.for_report.release()
        try:
            scanned = SCANNED_AFTER if self.own_lab else SCANNED_ON_A_LIVING_LAB
            if self.there is not None:
                scanned = SCANNED_AFTER_HOOKS if self.there.by_hooks() else SCANNED_ON_A_TARGET
            self.stop_recording()
            stays = self.there.stays() if self.there is not None else []
            state = {"clean": clean, "detail": self.dirt, "scanned": scanned, "stays": stays}
            write_json(self.folder / "clean.json", state)
            self.note(RunEnd(reason=self.outcome))
            self.reporter.status("judging")
            with suppress(ChaosError, OSError):  # rows can be judged as they are
                compact(self.folder)
            self.events.close()
            self.ledger.close()
            seal.write(self.folder, "run", f"the run ended: {self.outcome}")
            with suppress(OSError):  # then the report says that there was no run before
                promises.remember(self.folder, self.experiment.name)
            page = render(self.folder)
            findings = json.loads((page.parent / "findings.json").read_text())
        except (ChaosError, OSError) as error:
            raise Unreported(self.folder, error, self.dirt, self.stop.failure) from error
        finally:
            self.events.close()
            self.ledger.close()
            self.reporter.close()
        return RunResult(self.folder, findings, clean, self.stop.signalled)
