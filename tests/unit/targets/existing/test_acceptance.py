"""What we believe of AWS FIS is tried without a fault: claims that an endpoint bears out, and each lie that it tells.

The endpoint, moto and boto3 are real; the lab behind them only remembers what was done to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fishands import TinyLab, needs_moto
from fistamper import Times, elsewhere, tampering

from chaos.aws.recording import Recorder
from chaos.definitions.fis import FisFile
from chaos.fis_endpoint import standing
from chaos.fis_endpoint.clients import ACCOUNT, REGION
from chaos.fis_endpoint.opening import Setup
from chaos.providers.fis import Draft, disrupt, kill_process, stop_instances
from chaos.targets.existing import acceptance, rehearsing
from chaos.targets.existing.acceptance import Claim
from chaos.targets.existing.fis import Fis

NODE, ZONE_C = "c-data", ["c-cm", "c-data"]


@dataclass
class There:
    lab: TinyLab
    fis: Fis
    times: Times

    def request(self, draft: Draft, run: str = "plan-1", fault: str = "f1") -> dict[str, Any]:
        drafted = draft(self.fis.file, self.fis, self.lab)  # type: ignore[arg-type]
        return self.fis.whole(run, fault, drafted.template)

    def claims(self, draft: Draft) -> dict[str, Claim]:
        run = rehearsing.named(rehearsing.ACCEPTANCE)
        return {each.id: each for each in acceptance.claims(self.fis, run, [("f1", self.request(draft, run))])}


def stood(folder: Any, times: Times, **changed: Any) -> Iterator[There]:
    needs_moto()
    lab = TinyLab("fis-of-a-claim")

    def spoilt(setup: Setup) -> Setup:
        return replace(setup, serve=tampering(times), **{name: make(setup) for name, make in changed.items()})

    with standing.standing(lab, time_scale=20.0, folder=folder, changed=spoilt) as stands:
        written = stands.fis | {"longest": "12h", "alarms": []}
        yield There(lab, Fis(FisFile.model_validate(written), "staging"), times)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[There]:
    yield from stood(tmp_path_factory.mktemp("honest"), Times("deny", frozenset(), left=0))


@pytest.fixture
def there(honest: There) -> Iterator[There]:
    honest.times.left = 0
    yield honest
    honest.times.left = 0
    rehearsing.swept(honest.fis)


@pytest.mark.parametrize(
    "draft",
    [stop_instances([NODE]), kill_process([NODE], "SIGKILL"), disrupt(ZONE_C, "all")],
    ids=["stop", "kill", "cut"],
)
def test_a_fault_is_rehearsed_and_nobody_is_hit(there: There, draft: Draft) -> None:
    run = rehearsing.named(rehearsing.PLAN)
    found = rehearsing.rehearsed(there.fis, run, "f1", there.request(draft, run))
    assert found.well, found.says
    assert not there.lab.effects and there.fis.left() == []
    assert {each["state"]["status"] for each in there.fis.experiments(run)} == {"completed"}


def test_what_we_believe_holds_of_an_honest_endpoint(there: There) -> None:
    recorder = Recorder()
    recorder.watch(there.fis.clients, ("fis", "ec2"))
    found = there.claims(stop_instances([NODE]))
    assert {each.id: each.seen for each in found.values() if not each.well} == {}
    assert not there.lab.effects and there.fis.left() == []
    calls = {each.operation for each in recorder.calls}
    assert {"CreateExperimentTemplate", "StartExperiment", "StopExperiment", "DescribeInstances"} <= calls
    assert [each.unlike for each in recorder.calls if each.unlike] == []
    assert all((each.answer is None) == (each.service != "fis") for each in recorder.calls)


@pytest.mark.parametrize("operation", ["CreateExperimentTemplate", "StartExperiment", "StopExperiment"])
def test_what_may_not_be_asked_is_a_claim_that_does_not_hold(there: There, operation: str) -> None:
    there.times.what, there.times.operations, there.times.left = "deny", frozenset({operation}), 1000
    found = there.claims(stop_instances([NODE]))
    wrong = {each.id: each.seen for each in found.values() if not each.well}
    assert any("AccessDenied" in seen for seen in wrong.values()), wrong
    there.times.left = 0
    rehearsing.swept(there.fis)
    assert not there.lab.effects and there.fis.left() == []


def test_whoever_stops_to_ask_leaves_nothing(there: There) -> None:
    run = rehearsing.named(rehearsing.ACCEPTANCE)
    asked = acceptance.claims(there.fis, run, [])
    for claim in asked:
        if claim.id == "runs":
            break
    assert there.fis.left(run)
    asked.close()  # type: ignore[attr-defined]
    assert there.fis.left(run) == []


def test_a_stop_that_does_nothing_is_told(there: There) -> None:
    there.times.what, there.times.operations, there.times.left = "idle stop", frozenset({"StopExperiment"}), 1000
    assert not there.claims(stop_instances([NODE]))["stops"].well


def test_what_a_rehearsal_left_is_swept_and_a_run_s_own_is_not(there: There) -> None:
    draft = stop_instances([NODE])
    for run in ("plan-dead", "run-alive"):
        request = there.request(draft, run)
        there.fis.make_template(run, "f1", {key: request[key] for key in ("targets", "actions")})
    assert rehearsing.swept(there.fis) == ["plan-dead"]
    assert there.fis.templates("plan-dead") == [] and len(there.fis.templates("run-alive")) == 1
    there.fis.drop_template("run-alive", "f1")


def test_an_endpoint_that_chooses_others_is_found_out(tmp_path: Any) -> None:
    other = f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-{1:017x}"
    for there in stood(tmp_path, Times("deny", frozenset(), left=0), resolve=lambda setup: elsewhere(other)):
        found = rehearsing.rehearsed(there.fis, "plan-1", "f1", there.request(stop_instances([NODE])))
        assert not found.well and "other targets" in found.says
        assert there.fis.left() == []
