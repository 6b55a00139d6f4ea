"""The life of experiments: one state machine each, turned by one thread; what takes time is done by others.

A turn does all that is due and waits for nothing. Whatever may take time (resolving, asking alarms, what hands do) is
spawned, and its result is taken at the next turn. A test turns the engine itself, spawns inline and moves the clock.
"""

from __future__ import annotations

import copy
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.base.text import printable
from chaos.fis_endpoint.doing import Doing, Failed, Hands, Resources
from chaos.fis_endpoint.journal import Document, Journal, JournalBroken
from chaos.fis_endpoint.own import AlarmState
from chaos.fis_endpoint.targets import Resolve, resolved

LOG = logging.getLogger(__name__)
TERMINAL = frozenset({"completed", "stopped", "failed", "cancelled"})
OVER = TERMINAL | {"skipped"}
EXPERIMENT_MOVES: Mapping[str, frozenset[str]] = {
    "pending": frozenset({"initiating", "cancelled", "stopping", "failed"}),
    "initiating": frozenset({"running", "stopping", "failed"}),
    "running": frozenset({"completed", "stopping", "failed"}),
    "stopping": frozenset({"stopped", "failed"}),
}
"""From which state of an experiment to which. ``failed`` from anywhere: the endpoint died meanwhile."""
ACTION_MOVES: Mapping[str, frozenset[str]] = {
    "pending": frozenset({"initiating", "cancelled", "skipped", "failed"}),
    "initiating": frozenset({"running", "stopping", "failed"}),
    "running": frozenset({"completed", "stopping", "failed"}),
    "stopping": frozenset({"stopped", "failed"}),
}
DURATIONS = ("duration", "maxDuration", "startInstancesAfterDuration", "durationBeforeInterruption")
"""The parameters by which an action says how long it lasts; no action has two of them."""
EVERY = 1.0
"""Seconds by the wall between two looks at a running action and at an alarm; no time scale divides them."""
_LONGEST = 512
"""Characters of a reason, by FIS's model."""


def spawned(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="fis-endpoint-hands", daemon=True).start()


def new_states(actions: Mapping[str, Document]) -> dict[str, Document]:
    """Actions of a template as actions of an experiment that has not begun."""
    return {name: {**action, "state": {"status": "pending"}} for name, action in actions.items()}


def is_over(experiment: Document) -> bool:
    return experiment["state"]["status"] in TERMINAL


@dataclass
class _Work:
    """What the engine knows of an action beside the experiment's own document."""

    doing: Doing
    busy: str | None = None
    """The call of hands that is under way."""
    ended: bool = False
    due: float | None = None
    """When it is over, by the monotonic clock; None while it is not running."""
    look: float = 0.0


@dataclass
class _Run:
    document: Document
    work: dict[str, _Work] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)
    results: deque[tuple[str, str, Any]] = field(default_factory=deque)
    preparing: bool = False
    asking: bool = False
    ask: float = 0.0
    stopping: str | None = None
    cancelled: bool = False
    failing: tuple[str, str] | None = None

    @property
    def status(self) -> str:
        return str(self.document["state"]["status"])

    def state_of(self, action: str) -> str:
        return str(self.document["actions"][action]["state"]["status"])


@dataclass(frozen=True)
class _Prepared:
    """``alarm``: why the experiment must not start. ``unable``: action → why the lab cannot do it."""

    targets: dict[str, list[str]] = field(default_factory=dict)
    alarm: str | None = None
    unable: dict[str, str] = field(default_factory=dict)
    work: dict[str, Doing] = field(default_factory=dict)


class Engine:
    """All experiments of an endpoint. Thread-safe.

    ``seconds``: an ISO 8601 duration in seconds, unscaled. ``time_scale`` divides it. ``most_by_tag``: the quota of
    resources of a target that is not given by ARNs.
    """

    def __init__(
        self,
        *,
        hands: Hands,
        resources: Resources,
        journal: Journal,
        alarm_state: AlarmState,
        seconds: Callable[[str], float],
        time_scale: float = 1.0,
        most_by_tag: int = 5,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        spawn: Callable[[Callable[[], None]], None] = spawned,
        resolve: Resolve = resolved,
    ) -> None:
        self._hands, self._resources, self._journal = hands, resources, journal
        self._alarm_state, self._seconds, self._scale = alarm_state, seconds, time_scale
        self._most_by_tag, self._monotonic, self._now = most_by_tag, monotonic, now
        self._spawn, self._resolve = spawn, resolve
        self._changed = threading.Condition(threading.RLock())
        self._wake = threading.Event()
        self._runs: dict[str, _Run] = {}
        self._over: dict[str, Document] = dict(journal.past.experiments)
        self._closed = False
        self._thread: threading.Thread | None = None

    # what the service asks

    def add(self, experiment: Document, *, cancelled: str | None = None) -> None:
        """Take an experiment that the journal has. ``cancelled``: why it ends before it begins."""
        with self._changed:
            run = _Run(copy.deepcopy(experiment), cancelled=cancelled is not None, stopping=cancelled)
            self._runs[str(experiment["id"])] = run
        self._wake.set()

    def experiments(self) -> list[Document]:
        """All of them, in the order in which they were started; copies."""
        with self._changed:
            every = [*self._over.values(), *(run.document for run in self._runs.values())]
            return sorted(map(copy.deepcopy, every), key=lambda each: int(each["sequence"]))

    def experiment(self, name: str) -> Document | None:
        with self._changed:
            run = self._runs.get(name)
            found = self._over.get(name) if run is None else run.document
            return copy.deepcopy(found)

    def active(self) -> int:
        with self._changed:
            return len(self._runs)

    def stop(self, name: str, reason: str) -> None:
        """Have an experiment stopped; one that is over stays as it is."""
        with self._changed:
            run = self._runs.get(name)
            if run is not None and run.stopping is None:
                run.stopping = reason
                self._stopping(run)
        self._wake.set()

    def stop_all(self, reason: str) -> None:
        with self._changed:
            for name in list(self._runs):
                self.stop(name, reason)

    def tag(self, name: str, tags: Mapping[str, str]) -> None:
        """Give an experiment these tags in place of those that it has. Raises JournalBroken."""
        with self._changed:
            run = self._runs.get(name)
            document = self._over[name] if run is None else run.document
            self._journal.write({"kind": "experiment", "experiment": {**document, "tags": dict(tags)}})
            document["tags"] = dict(tags)

    def wait(self, name: str, until: Callable[[Document], bool] = is_over, seconds: float = 60) -> Document:
        """The experiment, once it is so. Raises TimeoutError."""
        found: list[Document] = []

        def there() -> bool:
            document = self.experiment(name)
            if document is None or not until(document):
                return False
            found.append(document)
            return True

        with self._changed:
            if not self._changed.wait_for(there, seconds):
                raise TimeoutError(f"{name} is {self.experiment(name)}")
        return found[0]

    # its own thread

    def start(self) -> None:
        self._thread = threading.Thread(target=self._drive, name="fis-endpoint-engine", daemon=True)
        self._thread.start()

    def close(self, seconds: float = 120) -> list[str]:
        """Stop all experiments and end what began, and what would not end before. Returns what is still not ended."""
        self.stop_all("The endpoint was shut down")
        with self._changed:
            self._changed.wait_for(lambda: not self._runs, seconds if self._thread else 0)
            hanging = [f"{name}: it is still being stopped" for name in self._runs]
            self._closed = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)
        return hanging or end_all(self._journal, self._hands)

    def _drive(self) -> None:
        while not self._closed:
            self._wake.clear()
            due = self.turn()
            self._wake.wait(None if due is None else max(0.0, due - self._monotonic()))

    def turn(self) -> float | None:
        """Do all that is due. Returns when the next thing is, by the monotonic clock; None: when something happens."""
        with self._changed:
            for name, run in list(self._runs.items()):
                try:
                    while self._step(run):
                        pass
                except Exception as error:
                    self._broke(run, f"{type(error).__name__}: {error}")
                if run.status in TERMINAL:
                    del self._runs[name]
                    self._over[name] = run.document
            self._changed.notify_all()
            return min((each for run in self._runs.values() for each in self._times(run)), default=None)

    def _times(self, run: _Run) -> list[float]:
        if run.status != "running":
            return []
        running = [work for name, work in run.work.items() if run.state_of(name) == "running" and work.busy is None]
        times = [time for work in running if work.due is not None for time in (work.due, work.look)]
        return times if run.asking or not self._alarms(run) else [*times, run.ask]

    # one step

    def _step(self, run: _Run) -> bool:
        """Do one thing that is due. False when there is none."""
        if run.status in TERMINAL:
            return False
        if run.results:
            self._take(run, *run.results.popleft())
            return True
        if run.status == "pending":
            return self._pending(run)
        if run.status == "initiating":
            return self._initiating(run)
        return self._running(run) if run.status == "running" else self._undoing(run)

    def _pending(self, run: _Run) -> bool:
        if run.cancelled:
            self._finish(run, "cancelled", run.stopping or "")
        elif run.stopping is not None:
            self._stopping(run)
        else:
            run.document["startTime"] = self._now()
            self._to(run, "initiating", "Experiment is initiating")
            run.preparing = True
            document = copy.deepcopy(run.document)
            self._send(run, "prepared", "", lambda: self._prepare(document))
        return True

    def _initiating(self, run: _Run) -> bool:
        if run.preparing:
            return False
        if run.failing is not None:
            self._finish(run, "failed", run.failing[1], code=run.failing[0])
        elif run.stopping is not None:
            self._stopping(run)
        else:
            self._to(run, "running", "Experiment is running")
        return True

    def _running(self, run: _Run) -> bool:
        if run.failing is not None or run.stopping is not None:
            self._stopping(run)
            return True
        if run.document["experimentOptions"]["actionsMode"] == "skip-all":
            for name in run.document["actions"]:
                self._action_to(run, name, "skipped", "Actions are skipped in this experiment")
        statuses = {name: run.state_of(name) for name in run.document["actions"]}
        if all(status in OVER for status in statuses.values()):
            self._finish(run, "completed", "Experiment completed")
            return True
        now, moved = self._monotonic(), False
        for name, status in statuses.items():
            if run.failing is not None:
                return True
            after = run.document["actions"][name].get("startAfter", ())
            if status == "pending" and all(statuses[each] in ("completed", "skipped") for each in after):
                self._begin(run, name)
                moved = True
            elif status == "running":
                moved = self._watch(run, name, now) or moved
        if self._alarms(run) and not run.asking and now >= run.ask:
            run.asking, run.ask = True, now + EVERY
            alarms = self._alarms(run)
            self._send(run, "asked", "", lambda: self._alarming(alarms, ("ALARM",)))
            moved = True
        return moved

    def _begin(self, run: _Run, name: str) -> None:
        work = run.work[name]
        if any(not arns for arns in work.doing.targets.values()):
            self._action_to(run, name, "skipped", "No resource was found for its target")
            return
        run.document["actions"][name]["startTime"] = self._now()
        self._action_to(run, name, "initiating", "Action is initiating")
        if run.failing is not None:
            self._action_to(run, name, "failed", run.failing[1])
            return
        work.busy = "begin"
        run.begun.append(name)
        self._send(run, "begun", name, lambda: self._begun(work.doing))

    def _watch(self, run: _Run, name: str, now: float) -> bool:
        work = run.work[name]
        if work.busy is not None or work.due is None:
            return False
        if now >= work.due:
            self._end(run, name)
        elif now >= work.look:
            work.busy, work.look = "still", now + EVERY
            self._send(run, "looked", name, lambda: self._hands.still(work.doing))
        else:
            return False
        return True

    def _undoing(self, run: _Run) -> bool:
        """Take back all that began, last first, one after the other."""
        if any(work.busy is not None for work in run.work.values()):
            return False
        for name in reversed(run.begun):
            if not run.work[name].ended:
                if run.state_of(name) in ("initiating", "running"):
                    self._action_to(run, name, "stopping", "Action is stopping")
                self._end(run, name)
                return True
        if run.failing is not None:
            self._finish(run, "failed", run.failing[1], code=run.failing[0])
        else:
            self._finish(run, "stopped", run.stopping or "")
        return True

    def _end(self, run: _Run, name: str) -> None:
        work = run.work[name]
        work.busy = "end"
        self._send(run, "ended", name, lambda: self._ended(work.doing))

    def _stopping(self, run: _Run) -> None:
        """What a request to stop shows at once."""
        if run.cancelled or run.status not in ("pending", "initiating", "running"):
            return
        says = run.failing[1] if run.failing is not None else run.stopping or ""
        self._to(run, "stopping", says, save=False)
        for name in run.document["actions"]:
            status = run.state_of(name)
            if status == "pending":
                self._action_to(run, name, "cancelled", "Action was cancelled: the experiment ended before", save=False)
            elif status in ("initiating", "running") and run.work[name].busy != "end":
                self._action_to(run, name, "stopping", "Action is stopping", save=False)
        self._save(run)

    def _broke(self, run: _Run, says: str) -> None:
        """An error of the engine's own: what began must not stay. It is ended here and now, and that is told."""
        LOG.error("experiment %s: %s", run.document["id"], says)
        for doing in self._journal.unended():
            if doing.experiment == run.document["id"]:
                try:
                    end(self._journal, self._hands, doing)
                except Exception as error:
                    LOG.error("%s could not be ended: %s", doing.id, error)
        run.document["endTime"] = self._now()
        run.document["state"] = {**_said(says), "status": "failed", "error": {"code": "InternalFailure"}}
        self._save(run)

    # results

    def _take(self, run: _Run, kind: str, name: str, result: Any) -> None:
        failed = result if isinstance(result, Failed) else None
        if kind == "prepared":
            run.preparing = False
            if failed is not None:
                self._fails(run, failed.code, failed.reason)
            else:
                self._take_prepared(run, result)
        elif kind == "asked":
            run.asking = False
            says = failed.reason if failed is not None else result
            if says is not None and run.stopping is None:
                run.stopping = says
        else:
            self._take_action(run, kind, name, result, failed)

    def _take_prepared(self, run: _Run, prepared: _Prepared) -> None:
        types = run.document["targets"]
        run.document["resolved"] = [
            {"targetName": name, "resourceType": types[name]["resourceType"], "arn": arn}
            for name, arns in prepared.targets.items()
            for arn in arns
        ]
        run.work = {name: _Work(doing) for name, doing in prepared.work.items()}
        if prepared.alarm is not None:
            self._fails(run, "ConfigurationFailure", prepared.alarm)
        if run.status == "stopping":
            return
        for name, says in prepared.unable.items():
            self._action_to(run, name, "failed", says)
            self._fails(run, "ConfigurationFailure", f"Action {name} cannot be done here: {says}")

    def _take_action(self, run: _Run, kind: str, name: str, result: Any, failed: Failed | None) -> None:
        work, status = run.work[name], run.state_of(name)
        work.busy = None
        if kind == "begun" and not self._journal.has_begun(work.doing):
            run.begun.remove(name)
        if kind == "ended":
            work.ended = True
            if failed is not None:
                if status not in OVER:
                    self._action_to(run, name, "failed", failed.reason)
                self._fails(run, failed.code, f"Action {name} could not be ended: {failed.reason}")
            elif status == "running":
                self._action_to(run, name, "completed", "Action was completed")
            elif status == "stopping":
                self._action_to(run, name, "stopped", "Action was stopped")
            return
        if failed is None and isinstance(result, str):
            failed = Failed("DependentServiceFailure", result)
        if failed is not None:
            if status not in OVER:
                self._action_to(run, name, "failed", failed.reason)
            self._fails(run, failed.code, f"Action {name} failed: {failed.reason}")
        elif kind == "begun" and status == "initiating":
            now = self._monotonic()
            work.due, work.look = now + (work.doing.seconds or 0.0), now + EVERY
            self._action_to(run, name, "running", "Action is running")

    def _fails(self, run: _Run, code: str, reason: str) -> None:
        """The first failure is the experiment's."""
        if run.failing is None:
            run.failing = (code, reason)

    # what is spawned

    def _send(self, run: _Run, kind: str, name: str, work: Callable[[], Any]) -> None:
        def done() -> None:
            try:
                result = work()
            except Failed as failed:
                result = failed
            except Exception as error:
                result = Failed("InternalFailure", f"{type(error).__name__}: {error}")
            with self._changed:
                run.results.append((kind, name, result))
            self._wake.set()

        self._spawn(done)

    def _prepare(self, document: Document) -> _Prepared:
        alarm = self._alarming(self._alarms_of(document), ("ALARM", "INSUFFICIENT_DATA"))
        if alarm is not None:
            return _Prepared(alarm=f"Experiment cannot start: {alarm}")
        options = document["experimentOptions"]
        skip = options["emptyTargetResolutionMode"] == "skip"
        found = self._resolve(document["targets"], self._resources, skip=skip, most=self._most_by_tag)
        work = {name: self._doing(document, name, found) for name in document["actions"]}
        unable = {}
        if options["actionsMode"] == "run-all":
            asked = {name: doing for name, doing in work.items() if all(doing.targets.values())}
            unable = {name: says for name, doing in asked.items() if (says := self._hands.unable(doing)) is not None}
        return _Prepared(found, None, unable, work)

    def _doing(self, document: Document, name: str, found: Mapping[str, list[str]]) -> Doing:
        action = document["actions"][name]
        parameters = dict(action.get("parameters", {}))
        lasts = next((parameters[each] for each in DURATIONS if each in parameters), None)
        return Doing(
            id=f"{document['id']}/{name}",
            experiment=str(document["id"]),
            action=str(action["actionId"]),
            parameters=parameters,
            targets={key: tuple(found[target]) for key, target in action.get("targets", {}).items()},
            seconds=None if lasts is None else self._seconds(lasts) / self._scale,
        )

    def _begun(self, doing: Doing) -> None:
        self._journal.begins(doing)
        self._hands.begin(doing)

    def _ended(self, doing: Doing) -> None:
        end(self._journal, self._hands, doing)

    def _alarms(self, run: _Run) -> list[str]:
        return self._alarms_of(run.document)

    @staticmethod
    def _alarms_of(document: Document) -> list[str]:
        return [each["value"] for each in document["stopConditions"] if each["source"] != "none"]

    def _alarming(self, alarms: list[str], states: tuple[str, ...]) -> str | None:
        """Which alarm is in one of these states, or cannot be asked; None where there is none such."""
        for arn in alarms:
            try:
                state = self._alarm_state(arn)
            except Exception as error:
                return f"the stop condition {arn} cannot be asked ({type(error).__name__}: {error})"
            if state in states or state not in ("OK", "ALARM", "INSUFFICIENT_DATA"):
                return f"the stop condition {arn} is in {state}"
        return None

    # states

    def _to(self, run: _Run, status: str, reason: str, *, code: str | None = None, save: bool = True) -> None:
        if status not in EXPERIMENT_MOVES[run.status]:
            raise AssertionError(f"an experiment that is {run.status} does not become {status}")
        run.document["state"] = {"status": status, **_said(reason)}
        if code is not None:
            run.document["state"]["error"] = {"code": code}
        if save:
            self._save(run)

    def _action_to(self, run: _Run, name: str, status: str, reason: str, *, save: bool = True) -> None:
        action = run.document["actions"][name]
        if status not in ACTION_MOVES[action["state"]["status"]]:
            raise AssertionError(f"an action that is {action['state']['status']} does not become {status}")
        action["state"] = {"status": status, **_said(reason)}
        if status in OVER:
            action["endTime"] = self._now()
        if save:
            self._save(run)

    def _finish(self, run: _Run, status: str, reason: str, code: str | None = None) -> None:
        """The last step. On disk before anybody sees it: the lock is held."""
        for name in run.document["actions"]:
            if run.state_of(name) == "pending":
                self._action_to(run, name, "cancelled", "Action was cancelled: the experiment ended before", save=False)
        run.document["endTime"] = self._now()
        self._to(run, status, reason, code=code)

    def _save(self, run: _Run) -> None:
        try:
            self._journal.write({"kind": "experiment", "experiment": copy.deepcopy(run.document)})
        except JournalBroken as error:
            self._fails(run, "InternalFailure", str(error))
            if run.status in TERMINAL:
                run.document["state"] = {**_said(str(error)), "status": "failed", "error": {"code": "InternalFailure"}}


def end(journal: Journal, hands: Hands, doing: Doing) -> None:
    """End what began, and write that down. Raises what hands raise; then it is still known as not ended."""
    try:
        hands.end(doing)
    except Exception as error:
        journal.write({"kind": "not ended", "id": doing.id, "says": _short(f"{type(error).__name__}: {error}")})
        raise
    journal.ended(doing)


def end_all(journal: Journal, hands: Hands) -> list[str]:
    """End all that began and has not ended, last first. Returns what would not end, and why."""
    left = []
    for doing in journal.unended():
        try:
            end(journal, hands, doing)
        except Exception as error:
            left.append(f"{doing.id} ({doing.action}): {_short(f'{type(error).__name__}: {error}')}")
    return left


def recover(journal: Journal, hands: Hands, now: Callable[[], float] = time.time) -> list[str]:
    """After the endpoint died: end what began, then tell the experiments that were under way as failed.

    To be called before the first request is answered. Returns what would not end, and why; it is tried again when the
    endpoint is shut down and at its next start.
    """
    begun = {doing.id for doing in journal.unended()}
    left = end_all(journal, hands)
    lost = {doing.id for doing in journal.unended()}
    for experiment in list(journal.past.experiments.values()):
        if not is_over(experiment):
            journal.write({"kind": "experiment", "experiment": _failed(experiment, begun, lost, now())})
    return left


def _failed(experiment: Document, begun: set[str], lost: set[str], at: float) -> Document:
    told = copy.deepcopy(experiment)
    not_ended = []
    for name, action in told["actions"].items():
        mine = f"{told['id']}/{name}"
        if mine in lost:
            not_ended.append(name)
        if action["state"]["status"] in OVER:
            continue
        if mine in lost:
            state = {
                "status": "failed",
                "reason": "The endpoint died while it was under way, and it could not be ended",
            }
        elif mine in begun:
            state = {
                "status": "failed",
                "reason": "The endpoint died while it was under way; it was ended at the restart",
            }
        elif action["state"]["status"] == "pending":
            state = {"status": "cancelled", "reason": "The endpoint died before it began"}
        else:
            state = {"status": "failed", "reason": "The endpoint died while it was under way"}
        action["state"], action["endTime"] = state, at
    says = "The endpoint died while the experiment was under way"
    says += f"; not ended: {', '.join(not_ended)}" if not_ended else "; what had begun was ended at its restart"
    told["state"] = {"status": "failed", **_said(says), "error": {"code": "InternalFailure"}}
    told["endTime"] = at
    return told


def _short(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _said(reason: str) -> Document:
    return {"reason": _short(reason)} if reason else {}
