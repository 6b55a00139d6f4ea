"""A FIS endpoint without a lab: hands and resources that only remember, a small catalogue, and a real boto3 client."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.fis_endpoint.doing import Doing, Failed
from chaos.fis_endpoint.engine import Engine
from chaos.fis_endpoint.journal import Journal
from chaos.fis_endpoint.opening import Opened, Setup, opened
from chaos.fis_endpoint.own import WithOwnActions
from chaos.fis_endpoint.service import Place, Service
from chaos.fis_endpoint.templates import Catalogue, KnownAction, KnownType

PLACE = Place("123456789012", "eu-central-1")
ROLE = "arn:aws:iam::123456789012:role/chaos"
INSTANCE = "aws:ec2:instance"
HAS_SHAPES = importlib.util.find_spec("chaos.aws.shapes") is not None


def arn(number: int) -> str:
    return f"arn:aws:ec2:eu-central-1:123456789012:instance/i-{number:017x}"


def alarm(name: str) -> str:
    return f"arn:aws:cloudwatch:eu-central-1:123456789012:alarm:{name}"


class Shapes:
    """What botocore's own validator finds, where chaos.aws.shapes is not there: neither max nor pattern nor enum."""

    def __init__(self) -> None:
        import botocore.session

        self._model = botocore.session.Session().get_service_model("fis")

    def problems_of_input(self, operation: str, params: dict[str, Any]) -> list[str]:
        return self._problems(params, self._model.operation_model(operation).input_shape)

    def problems_of_output(self, operation: str, answer: dict[str, Any]) -> list[str]:
        return self._problems(answer, self._model.operation_model(operation).output_shape)

    def _problems(self, value: Any, shape: Any) -> list[str]:
        from botocore.validate import ParamValidator

        report = ParamValidator().validate(value, shape)
        return [report.generate_report()] if report.has_errors() else []


def shapes() -> Any:
    """chaos.aws.shapes where it is there."""
    if HAS_SHAPES:
        from chaos.aws.shapes import Model

        return Model("fis")
    return Shapes()


def seconds(text: str) -> float:
    found = re.fullmatch(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?", text)
    if found is None or not any(found.groups()):
        raise ValueError(f"{text} is no duration")
    return sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True))


def _problems(action: str, parameters: Mapping[str, str], targets: Mapping[str, str]) -> list[str]:
    known = ACTIONS.get(action)
    if known is None:
        return [f"nobody knows the action {action}"]
    found = [f"it has no parameter {name}" for name in parameters if name not in known.parameters]
    found += [f"{name} is missing" for name, (_, must) in known.parameters.items() if must and name not in parameters]
    if set(targets) != set(known.targets):
        found.append(f"it takes the targets {', '.join(known.targets) or 'none'}")
    return found


ACTIONS = {
    each.id: each
    for each in (
        KnownAction(
            "aws:ec2:stop-instances",
            "Stop instances",
            {"Instances": INSTANCE},
            {"startInstancesAfterDuration": ("When they are started again", False)},
        ),
        KnownAction("aws:ec2:terminate-instances", "Terminate instances", {"Instances": INSTANCE}),
        KnownAction("aws:fis:wait", "Wait", {}, {"duration": ("How long", True)}),
        KnownAction(
            "aws:cloudwatch:assert-alarm-state",
            "Assert alarms' states",
            {},
            {"alarmArns": ("Alarms", True), "alarmStates": ("States", True)},
        ),
    )
}
CATALOGUE = Catalogue(
    actions=ACTIONS,
    types={INSTANCE: KnownType(INSTANCE, "EC2 instances"), "aws:ec2:subnet": KnownType("aws:ec2:subnet", "Subnets")},
    problems=_problems,
    seconds=seconds,
)


@dataclass
class RecordingHands:
    """``calls``: what was asked of them, in order. The dictionaries: action's id → how it goes wrong."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    effect: dict[str, Doing] = field(default_factory=dict)
    cannot: dict[str, str] = field(default_factory=dict)
    begin_fails: dict[str, Failed] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    end_fails: dict[str, Failed] = field(default_factory=dict)
    hold: threading.Event | None = None
    """Where set, ``begin`` returns once it is set."""

    def unable(self, doing: Doing) -> str | None:
        return self.cannot.get(_name(doing))

    def begin(self, doing: Doing) -> None:
        self.calls.append(("begin", _name(doing)))
        self.effect[doing.id] = doing
        if self.hold is not None:
            assert self.hold.wait(60)
        if _name(doing) in self.begin_fails:
            raise self.begin_fails[_name(doing)]

    def still(self, doing: Doing) -> str | None:
        self.calls.append(("still", _name(doing)))
        return self.broken.get(_name(doing))

    def end(self, doing: Doing) -> None:
        self.calls.append(("end", _name(doing)))
        if _name(doing) in self.end_fails:
            raise self.end_fails[_name(doing)]
        self.effect.pop(doing.id, None)

    def of(self, kind: str) -> list[str]:
        return [name for each, name in self.calls if each == kind]


def _name(doing: Doing) -> str:
    return doing.id.partition("/")[2]


@dataclass
class ListedResources:
    """``there``: ARN → tags. ``asked``: how often."""

    there: dict[str, dict[str, str]] = field(default_factory=lambda: {arn(n): {"chaos": "allowed"} for n in range(5)})
    asked: int = 0

    def find(
        self,
        kind: str,
        *,
        arns: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        filters: Sequence[Mapping[str, Any]] = (),
        parameters: Mapping[str, str] | None = None,
    ) -> list[str]:
        self.asked += 1
        if arns:
            return [each for each in arns if each in self.there]
        wanted = (tags or {}).items()
        return [each for each, has in self.there.items() if all(has.get(key) == value for key, value in wanted)]


@dataclass
class ListedAlarms:
    states: dict[str, str] = field(default_factory=dict)

    def __call__(self, name: str) -> str:
        return self.states[name]


@dataclass
class World:
    hands: RecordingHands = field(default_factory=RecordingHands)
    resources: ListedResources = field(default_factory=ListedResources)
    alarms: ListedAlarms = field(default_factory=ListedAlarms)

    def setup(self, journal: Path, **given: Any) -> Setup:
        known: dict[str, Any] = {"hands": self.hands, "resources": self.resources, "alarm_state": self.alarms}
        fixed = {"journal": journal, "place": PLACE, "shapes": shapes(), "catalogue": CATALOGUE}
        return Setup(**{**fixed, **known, **given})

    @contextmanager
    def open(self, journal: Path, **given: Any) -> Iterator[Opened]:
        with opened(self.setup(journal, **given)) as there:
            yield there


def client(url: str, service: str = "fis", *, attempts: int = 1, **config: Any) -> Any:
    """A real client of boto3 that reaches nothing but ``url``."""
    import boto3
    from botocore.config import Config

    return boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=PLACE.region).client(
        service,
        endpoint_url=url,
        config=Config(
            retries={"total_max_attempts": attempts, "mode": "standard"},
            ignore_configured_endpoint_urls=True,
            proxies={},
            **config,
        ),
    )


def stop_action(target: str = "nodes", lasts: str | None = "PT1H", after: Sequence[str] = ()) -> dict[str, Any]:
    made: dict[str, Any] = {"actionId": "aws:ec2:stop-instances", "targets": {"Instances": target}}
    if lasts is not None:
        made["parameters"] = {"startInstancesAfterDuration": lasts}
    return {**made, "startAfter": list(after)} if after else made


def wait_action(lasts: str = "PT1H", after: Sequence[str] = ()) -> dict[str, Any]:
    made = {"actionId": "aws:fis:wait", "parameters": {"duration": lasts}}
    return {**made, "startAfter": list(after)} if after else made


def template(token: str = "t", **given: Any) -> dict[str, Any]:
    """Parameters of CreateExperimentTemplate: one instance, by ARN, stopped for an hour."""
    target = {"resourceType": INSTANCE, "resourceArns": [arn(0)], "selectionMode": "ALL"}
    return {
        "clientToken": token,
        "description": "one node stops",
        "roleArn": ROLE,
        "stopConditions": [{"source": "none"}],
        "targets": {"nodes": target},
        "actions": {"stop": stop_action()},
        "tags": {"run": "r1"},
        **given,
    }


def underway(experiment: Mapping[str, Any]) -> bool:
    """All its actions have begun, and none has ended."""
    return {action["state"]["status"] for action in experiment["actions"].values()} == {"running"}


def code_of(error: Any) -> tuple[str, int]:
    """Of a ClientError: its code and its HTTP status."""
    return error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]


@dataclass
class Clock:
    time: float = 1000.0

    def __call__(self) -> float:
        return self.time


class Stepped:
    """An engine and a service over a journal, turned by the test: nothing happens by itself, and no time passes.

    ``later``: what was spawned waits until ``run_spawned``; else it is done at once.
    """

    def __init__(self, journal: Any, world: World, *, later: bool = False, **given: Any) -> None:
        self.world, self.journal, self.clock = world, journal, Clock()
        self.spawned: list[Callable[[], None]] = []
        self.engine = Engine(
            hands=WithOwnActions(world.hands, world.alarms),
            resources=world.resources,
            journal=journal,
            alarm_state=world.alarms,
            seconds=seconds,
            monotonic=self.clock,
            now=self.clock,
            spawn=self.spawned.append if later else lambda work: work(),
            **given,
        )
        self.service = Service(engine=self.engine, journal=journal, catalogue=CATALOGUE, place=PLACE, now=self.clock)

    def start(self, token: str = "start", options: Mapping[str, str] | None = None, **given: Any) -> str:
        """The id of an experiment of a new template; nothing of it was done yet."""
        made = self.service.call("CreateExperimentTemplate", template(f"of {token}", **given))
        params = {"clientToken": token, "experimentTemplateId": made["experimentTemplate"]["id"]}
        if options is not None:
            params["experimentOptions"] = dict(options)
        return str(self.service.call("StartExperiment", params)["experiment"]["id"])

    def advance(self, by: float = 0.0) -> None:
        """So many seconds pass, and all that is due meanwhile is done when it is due."""
        until = self.clock.time + by
        while True:
            due = self.engine.turn()
            if due is None or due > until:
                break
            self.clock.time = max(self.clock.time, due)
        self.clock.time = until
        self.engine.turn()

    def status(self, name: str) -> str:
        return str(self.document(name)["state"]["status"])

    def document(self, name: str) -> dict[str, Any]:
        found = self.engine.experiment(name)
        assert found is not None
        return found

    def actions(self, name: str) -> dict[str, str]:
        return {each: action["state"]["status"] for each, action in self.document(name)["actions"].items()}


def journal_in(folder: Path) -> Journal:
    return Journal(folder / "journal.jsonl", account=PLACE.account, region=PLACE.region)


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
