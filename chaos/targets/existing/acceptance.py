"""What we believe of AWS FIS, tried on an account: each belief as a claim that its answers bear out or do not.

Nothing here does anything to an instance: experiments have their actions skipped, or wait. What we made is deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.base.errors import ChaosError, FaultError
from chaos.targets.existing.fis import BEGIN_SECONDS, END_SECONDS, OVER, Fis, token
from chaos.targets.existing.rehearsing import rehearsed, swept

NOBODY = "i-0123456789abcdef0"
"""Nobody's instance: an id that EC2 gives to none by chance."""
WAIT = {"targets": {}, "actions": {"wait": {"actionId": "aws:fis:wait", "parameters": {"duration": "PT2M"}}}}
"""The only template here whose action is paid for."""
OWN_OVER = ("completed", "stopped", "failed", "cancelled", "skipped")
"""States in which an action stays (FIS API, ExperimentActionState)."""
MOST_ARNS = 5
"""Of a target (FIS API, ExperimentTemplateTarget)."""


@dataclass(frozen=True)
class Claim:
    """``says``: what we believe. ``well``: whether the answers bear it out. ``seconds``: until that was known."""

    id: str
    says: str
    well: bool
    seen: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "says": self.says,
            "well": self.well,
            "seen": self.seen,
            "seconds": round(self.seconds, 2),
        }


Requests = Sequence[tuple[str, Mapping[str, Any]]]


def claims(fis: Fis, run: str, requests: Requests) -> Iterator[Claim]:
    """Each claim as soon as it is known. ``run``: a rehearsal's name. ``requests``: fault → its template's request.

    Nothing of it is left when the last one has come, or when the caller stops earlier: what could not be deleted is
    told by the last claim.
    """
    tried = Trying(fis, run)
    try:
        for fault, request in requests:
            yield tried.template(fault, request)
        for id, says, look in tried.looks():
            yield _claim(id, says, look)
    finally:
        left = _claim("nothing is left", "what was made can be found by its tags, ended and deleted", tried.clean)
    yield left


def _claim(id: str, says: str, look: Callable[[], tuple[bool, str]]) -> Claim:
    began = time.monotonic()
    try:
        well, seen = look()
    except ChaosError as error:
        well, seen = False, error.message
    except (LookupError, TypeError, ValueError) as error:  # of an answer that lacks what it should have
        well, seen = False, f"an answer that cannot be read: {type(error).__name__} {error}"
    return Claim(id, says, well, seen, time.monotonic() - began)


@dataclass
class Trying:
    """The claims that need no fault of anybody's."""

    fis: Fis
    run: str
    experiment: str | None = None

    def template(self, fault: str, request: Mapping[str, Any]) -> Claim:
        began = time.monotonic()
        found = rehearsed(self.fis, self.run, fault, request)
        actions = ", ".join(sorted({each["actionId"] for each in request["actions"].values()}))
        says = f"FIS takes the template of {actions} and chooses exactly whom it should, with its actions skipped"
        return Claim(f"template {fault}", says, found.well, found.says, time.monotonic() - began)

    def looks(self) -> Iterator[tuple[str, str, Callable[[], tuple[bool, str]]]]:
        yield "nobody", "a target that is nobody's ends the experiment, and is not passed over", self.nobody
        yield "six ARNs", "a target of six ARNs is refused", self.six
        yield "template twice", "a template that is asked for twice with one token is made once", self.twice
        yield "start twice", "an experiment that is started twice with one token runs once", self.started_twice
        yield "runs", "a waiting experiment comes to run, with its action", self.runs
        yield "stops", "StopExperiment ends it, and it is told as stopped", self.stops
        yield "stopped twice", "to stop what is over does no harm", self.stopped_twice

    def _arn(self, id: str) -> str:
        file = self.fis.file
        return f"arn:{file.partition}:ec2:{file.region}:{file.account}:instance/{id}"

    def _stopping(self, arns: Sequence[str]) -> dict[str, Any]:
        nodes = {"resourceType": "aws:ec2:instance", "resourceArns": list(arns), "selectionMode": "ALL"}
        stop = {
            "actionId": "aws:ec2:stop-instances",
            "parameters": {"startInstancesAfterDuration": "PT1M"},
            "targets": {"Instances": "nodes"},
        }
        return {"targets": {"nodes": nodes}, "actions": {"stop": stop}}

    def nobody(self) -> tuple[bool, str]:
        """With its actions skipped, so that nothing is done whatever FIS makes of it."""
        self.fis.make_template(self.run, "nobody", self._stopping([self._arn(NOBODY)]))
        try:
            return False, self.fis.rehearse(self.run, "nobody", {"nodes": [self._arn(NOBODY)]})
        except FaultError as error:
            return "failed" in error.message, error.message

    def six(self) -> tuple[bool, str]:
        arns = [self._arn(f"i-0123456789abcde{n:02x}") for n in range(MOST_ARNS + 1)]
        try:
            self.fis.make_template(self.run, "six", self._stopping(arns))
        except FaultError as error:
            return "Validation" in error.message, error.message
        return False, "it was taken"

    def twice(self) -> tuple[bool, str]:
        for _ in range(2):
            self.fis.make_template(self.run, "wait", WAIT)
        made = [each["id"] for each in self.fis.templates(self.run, "wait")]
        return len(made) == 1, f"templates: {', '.join(made) or 'none'}"

    def started_twice(self) -> tuple[bool, str]:
        made = [each["id"] for each in self.fis.templates(self.run, "wait")]
        if not made:
            raise FaultError("no template was made")
        asked = {"clientToken": token(self.run, "wait", "start"), "experimentTemplateId": made[0]}
        tags = self.fis.tags(self.run, "wait")
        ids = [self.fis.call("fis", "start_experiment", **asked, tags=tags)["experiment"]["id"] for _ in range(2)]
        self.experiment = ids[0]
        found = [each["id"] for each in self.fis.experiments(self.run, "wait")]
        return ids[0] == ids[1] and found == ids[:1], f"answered {', '.join(ids)}; listed {', '.join(found) or 'none'}"

    def _begun(self) -> str:
        if self.experiment is None:
            raise FaultError("no experiment was started")
        return self.experiment

    def _states(self, seconds: float, wanted: Sequence[str]) -> list[str]:
        """The states that the experiment passes, one after another, until one of ``wanted`` or the time is over."""
        id, end = self._begun(), time.monotonic() + seconds
        seen = list[str]()
        while True:
            found = self.fis.call("fis", "get_experiment", id=id)["experiment"]
            own = found["actions"]["wait"]["state"]["status"]
            state = f"{found['state']['status']}, its action {own}"
            if not seen or seen[-1] != state:
                seen.append(state)
            if state in wanted or time.monotonic() >= end:
                return seen
            time.sleep(self.fis.every)

    def runs(self) -> tuple[bool, str]:
        wanted = "running, its action running"
        seen = self._states(BEGIN_SECONDS, [wanted])
        return seen[-1] == wanted, "; ".join(seen)

    def stops(self) -> tuple[bool, str]:
        self.fis.call("fis", "stop_experiment", id=self._begun())
        seen = self._states(END_SECONDS, [f"{state}, its action {own}" for state in OVER for own in OWN_OVER])
        return seen[-1].startswith("stopped, "), "; ".join(seen)

    def stopped_twice(self) -> tuple[bool, str]:
        id = self._begun()
        try:
            self.fis.call("fis", "stop_experiment", id=id)
            answered = "it was taken"
        except FaultError as error:
            answered = error.message
        state = self.fis.call("fis", "get_experiment", id=id)["experiment"]["state"]["status"]
        return state == "stopped", f"{answered}; then {state}"

    def clean(self) -> tuple[bool, str]:
        swept(self.fis, self.run)
        left = self.fis.left(self.run)
        return not left, "; ".join(left) or "nothing"
