"""Every request that the provider of AWS FIS makes in the life of a fault, with its answer, written down and replayed.

Stories (:data:`STORIES`) are told by the provider itself: what preflight and export ask, and of each kind that FIS
offers inject, watch and undo; what FIS leaves restored; another machine that ends it by tags. ``policy`` asks nobody.
``python tests/support/fisrecord.py --record`` tells them once to the local endpoint with moto, on a lab that only
remembers, and writes tests/unit/data/fis/requests.json. :func:`replayed` tells them again to botocore's Stubber, which
holds requests and answers against AWS's models: it fails where a request is another one.

Ids become numbers in the order in which they sort, so that what the provider sorts stays sorted; times become one.
Of answers of EC2's and CloudWatch's only members in :data:`KEPT` are written down, and of lists of FIS's only what is
of the story's own run. What is asked again and answered the
same while it is waited for is written down once.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import patch

from fakes import ROOT, topology
from fishands import TinyLab

from chaos.aws.clients import Clients
from chaos.base.errors import FaultError, Lacking
from chaos.definitions.existing import Existing, ExistingFile
from chaos.definitions.fis import FisFile
from chaos.definitions.steps import Scene
from chaos.faults.fault import Fault
from chaos.faults.kind import built
from chaos.fis_endpoint import mirror, standing
from chaos.fis_endpoint.clients import ACCOUNT, REGION, client
from chaos.registry import FAULTS, PROVIDERS, load_experiment
from chaos.targets.existing.fis import POLL_SECONDS, Fis
from chaos.targets.existing.fis import RUN as TAG
from chaos.targets.existing.target import ExistingTarget

FILE = ROOT / "tests" / "unit" / "data" / "fis" / "requests.json"
COMMAND = "python tests/support/fisrecord.py --record"
ALARM = f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{standing.ALARM}"
SCALE = 600.0
NOBODY = "http://127.0.0.1:9"
"""Where a replay's clients would go if they went anywhere."""
REAL_SECONDS = 0.5
"""That a pause of the provider's lasts while it is recorded."""
ONE_TIME = datetime(2026, 1, 1, tzinfo=UTC)
IDS = tuple(
    map(
        re.compile,
        (
            *(rf"\b{kind}-[0-9a-f]{{8,17}}\b" for kind in ("i", "vol", "vpc", "subnet", "acl", "aclassoc", "eni", "r")),
            r"\bEXT[0-9A-Za-z]{10,}\b",
            r"\bEXP[0-9A-Za-z]{10,}\b",
            r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
        ),
    )
)
_ACL = frozenset({"NetworkAcls", "NetworkAclId", "VpcId", "Associations", "SubnetId", "NetworkAclAssociationId"})
KEPT: Mapping[str, frozenset[str]] = {
    "DescribeInstances": frozenset(
        {"Reservations", "Instances", "InstanceId", "State", "Name", "Code", "SubnetId", "VpcId", "PrivateIpAddress"}
        | {"Placement", "AvailabilityZone", "Tags", "Key", "Value"}
    ),
    "DescribeNetworkAcls": _ACL | {"IsDefault", "Tags", "Key", "Value"},
    "GetCallerIdentity": frozenset({"Account", "Arn"}),
    "GetRole": frozenset({"Role", "Path", "RoleName", "RoleId", "Arn", "CreateDate", "AssumeRolePolicyDocument"}),
    "DescribeAlarms": frozenset({"MetricAlarms", "CompositeAlarms", "AlarmName", "AlarmArn", "StateValue"}),
}
"""Operation → the members of its answers that are written down, at any depth; of others all."""


@dataclass(frozen=True)
class Call:
    """One request, and what came back: an answer, or an error (code, message, status)."""

    service: str
    operation: str
    params: dict[str, Any]
    answer: dict[str, Any] | None
    error: tuple[str, str, int] | None = None

    @property
    def asks(self) -> str:
        return f"{self.service} {self.operation} {json.dumps(self.params, sort_keys=True)}"


@dataclass(frozen=True)
class Told:
    """A story: its calls, and what the provider said."""

    calls: tuple[Call, ...]
    says: Any


class Changed(AssertionError):
    """The provider asks for something else than is written down."""


class Ears(Protocol):
    """Who attends to a client's calls. ``paused``: the provider waits before it asks again."""

    def attend(self, service: str, client: Any) -> None: ...

    def paused(self) -> None: ...


@dataclass
class Recorder:
    """Writes down what goes through clients."""

    calls: list[Call] = field(default_factory=list)
    _asked: dict[str, Any] = field(default_factory=dict)
    _since: int = 0

    def attend(self, service: str, client: Any) -> None:
        client.meta.events.register_first("provide-client-params", self._ask)
        client.meta.events.register("after-call", partial(self._answered, service))

    def _ask(self, params: Mapping[str, Any], **_: Any) -> None:
        self._asked = deepcopy(dict(params))

    def _answered(self, service: str, http_response: Any, parsed: dict[str, Any], model: Any, **_: Any) -> None:
        told = parsed.get("Error")
        error = None if told is None else (told.get("Code", ""), told.get("Message", ""), http_response.status_code)
        said = {name: deepcopy(value) for name, value in parsed.items() if name != "ResponseMetadata"}
        if model.name == "GetRole" and error is None:  # as it was sent: botocore decodes it before anybody sees it
            said["Role"]["AssumeRolePolicyDocument"] = json.dumps(said["Role"]["AssumeRolePolicyDocument"])
            said["Role"]["RoleId"] = "AROA" + "0" * 17
        answer = None if error else _kept(said, KEPT.get(model.name))
        self.calls.append(Call(service, model.name, self._asked, answer, error))

    def paused(self) -> None:
        """What was asked since the last pause goes, where it is what was asked right before that, answers too."""
        asked = self.calls[self._since :]
        before = self.calls[max(0, self._since - len(asked)) : self._since]
        if asked and asked == before:
            del self.calls[self._since :]
        self._since = len(self.calls)
        time.sleep(REAL_SECONDS)


def _kept(value: Any, names: frozenset[str] | None) -> Any:
    if names is None:
        return value
    if isinstance(value, dict):
        return {name: _kept(each, names) for name, each in value.items() if name in names}
    return [_kept(each, names) for each in value] if isinstance(value, list) else value


class Replayer:
    """Answers what was written down, by botocore's Stubber, as long as what is asked is what was asked then."""

    def __init__(self, story: str, calls: tuple[Call, ...]) -> None:
        self.story, self._left, self._at = story, list(calls), 0
        self.changed: str | None = None

    def attend(self, service: str, client: Any) -> None:
        from botocore.stub import Stubber

        stubber = Stubber(client)
        client.meta.events.register_first("provide-client-params", partial(self._ask, service, stubber))
        stubber.activate()

    def _ask(self, service: str, stubber: Any, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        now = Call(service, model.name, dict(params), None)
        then = self._left.pop(0) if self._left and self.changed is None else None
        self._at += 1
        if then is None or then.asks != now.asks:
            self._note(f"asks {now.asks}", "nothing more" if then is None else then.asks, differing(then, now))
            raise Changed(self.changed)
        from botocore import xform_name
        from botocore.exceptions import ParamValidationError

        method = xform_name(model.name)
        if then.error is not None:
            code, message, status = then.error
            stubber.add_client_error(method, code, message, status, expected_params=then.params)
            return
        try:
            stubber.add_response(method, deepcopy(then.answer), expected_params=then.params)
        except ParamValidationError as error:
            self._note(f"asks {now.asks}", f"an answer that botocore's models do not know: {error}")
            raise Changed(self.changed) from None

    def paused(self) -> None:
        return

    def ended(self) -> None:
        """Raises Changed where something else was asked, or not all."""
        if self.changed is None and self._left:
            self._note("asks nothing more", self._left[0].asks)
        if self.changed is not None:
            raise Changed(self.changed)

    def _note(self, now: str, then: str, differs: str = "") -> None:
        self.changed = self.changed or (
            f"{self.story}, request {self._at}: {differs}the provider {now}\nwritten down is: {then}\n"
            f"where that is meant, write it down again: {COMMAND}"
        )


def differing(then: Call | None, now: Call) -> str:
    """Which members of the parameters are others, where it is the same operation."""
    if then is None or (then.service, then.operation) != (now.service, now.operation):
        return ""
    before, after = dict(_leaves(then.params)), dict(_leaves(now.params))
    others = [path for path in sorted({*before, *after}) if before.get(path) != after.get(path)]
    return f"{', '.join(others)} changed: "


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    else:
        yield path, value


# ---- stories --------------------------------------------------------------------------------------------


class Listened(Clients):
    """Clients that somebody attends to."""

    def __init__(self, file: FisFile, ears: Ears) -> None:
        super().__init__(file.region, endpoint=file.endpoint, account=file.account)
        self._ears, self._attended = ears, set[str]()

    def _client(self, service: str, *, once: bool = False) -> Any:
        made = super()._client(service, once=once)
        if service not in self._attended:
            self._attended.add(service)
            self._ears.attend(service, made)
        return made


@dataclass(frozen=True)
class Teller:
    """Tells a story on a target, in a run of its own. ``world``: what others do meanwhile in moto, None in a replay."""

    run: str
    endpoint: str
    ears: Ears
    world: World | None

    def there(self) -> ExistingTarget:
        """The target as a process of its own has it: nothing is known of what was asked before."""
        shape = topology()
        file = ExistingFile.model_validate(
            {
                "apiVersion": "opensearch-chaos/v1",
                "kind": "existing",
                "name": "staging",
                "endpoints": [NOBODY],
                "identity": {"cluster_uuid": "c" * 22, "cluster_name": "shop"},
                "opensearch": shape.version,
                "zones": {"names": {zone: zone for zone in shape.zones}},
                "nodes": {
                    node.name: {"zone": node.zone, "roles": list(node.roles), "url": NOBODY} for node in shape.nodes
                },
                "fis": {
                    "region": REGION,
                    "account": ACCOUNT,
                    "role": standing.ROLE,
                    "instances": {"tag": mirror.NODE},
                    "longest": "2h",
                    "alarms": [ALARM],
                    "endpoint": self.endpoint,
                    "time_scale": f"{SCALE:g}x",
                },
                "notes": standing.NOTES,
                "rung": "zone",
                "until": "2099-12-31",
            }
        )
        made = ExistingTarget(Existing(file="staging.yaml", folder=Path(), written=file), shape)
        assert file.fis is not None
        made.fis = Fis(file.fis, file.name)
        made.fis.clients = Listened(file.fis, self.ears)
        made.run = self.run
        return made

    def others(self, does: Callable[[World, dict[str, Any]], None], snapshot: dict[str, Any]) -> None:
        if self.world is not None:
            does(self.world, snapshot)


@dataclass(frozen=True)
class World:
    """What is behind the endpoint."""

    lab: TinyLab
    moto: str

    @property
    def ec2(self) -> Any:
        return client("ec2", self.moto)

    def stop_again(self, snapshot: dict[str, Any]) -> None:
        """As AWS leaves an instance whose start it could not bring about."""
        self.ec2.stop_instances(InstanceIds=list(snapshot["instances"]))

    def clone_again(self, snapshot: dict[str, Any]) -> None:
        """As AWS leaves subnets whose network ACL it could not put back."""
        for subnet in snapshot["acls"]:
            found = self.ec2.describe_network_acls(Filters=[{"Name": "association.subnet-id", "Values": [subnet]}])
            (acl,) = found["NetworkAcls"]
            (mine,) = (each for each in acl["Associations"] if each["SubnetId"] == subnet)
            tags = [{"ResourceType": "network-acl", "Tags": [{"Key": "managedByFIS", "Value": "true"}]}]
            clone = self.ec2.create_network_acl(VpcId=acl["VpcId"], TagSpecifications=tags)["NetworkAcl"]
            self.ec2.replace_network_acl_association(
                AssociationId=mine["NetworkAclAssociationId"], NetworkAclId=clone["NetworkAclId"]
            )


ID = "f1"


def fault(kind: str, there: ExistingTarget) -> Fault:
    """The first of a kind's own examples that FIS takes."""
    offers = PROVIDERS.on(order=("fis",))
    for example in FAULTS[kind].examples:
        scene = Scene.of(there.topology, 1, ID, there.topology.cluster_managers[0].name)
        try:
            return built(FAULTS[kind](**example), ID, scene, there.wiring, offers.meant(kind))
        except Lacking:
            continue
    raise AssertionError(f"FIS offers {kind}, and takes none of its examples")


def offered() -> list[str]:
    """The kinds that FIS carries out."""
    return [kind for kind in FAULTS if any(offer.provider == "fis" for offer in PROVIDERS.of(kind))]


def begun(there: ExistingTarget, kind: str, found: list[Any]) -> None:
    """Inject; ``found``: what is about to be done, with how it is taken back."""
    made = fault(kind, there)
    assert made.read is not None
    for both in made.read(there):
        found.append(both)
        both.move.apply(there)


def undone(there: ExistingTarget, found: list[Any]) -> None:
    for both in reversed(found):
        if both.inverse is not None:
            both.inverse.apply(there)


def looked(there: ExistingTarget) -> Any:
    assert there.fis is not None
    word = there.fis.word(there.run, ID)
    return [word.says, word.running, word.over, there.fis.ended_early(), there.fis.left()]


def life(kind: str, teller: Teller) -> Any:
    """From nothing to nothing; of what the lab behind the endpoint has no counterpart for, how it fails."""
    there = teller.there()
    found = list[Any]()
    try:
        begun(there, kind, found)
        during = looked(there)
    except FaultError as error:
        during = str(error)
    undone(there, found)
    return [during, looked(there)]


def preflight(teller: Teller) -> Any:
    from chaos.commands.fis import looks

    there = teller.there()
    assert there.fis is not None

    def nobody(path: str) -> tuple[int, Any]:
        raise AssertionError("by tags the cluster is not asked")

    names = [node.name for node in there.topology.nodes]
    return [[list(each) for each in looks(there, there.fis)], there.fis.not_ready(nobody, names)]


def export(teller: Teller) -> Any:
    from chaos.commands.fis import requests

    found = requests(load_experiment(ROOT / "experiments" / "fis" / "instance-stopped.yaml"), teller.there())
    return [[fault, request] for fault, request in found]


def restored(kind: str, does: Callable[[World, dict[str, Any]], None], teller: Teller) -> Any:
    """FIS's end left something: what ends it once more puts it back."""
    there = teller.there()
    found = list[Any]()
    begun(there, kind, found)
    undone(there, found)
    teller.others(does, found[1].inverse.arguments["snapshot"])
    undone(there, found)
    return looked(there)


def by_tags(teller: Teller) -> Any:
    """The runner is dead; another machine has what the ledger says."""
    found = list[Any]()
    begun(teller.there(), "node.stop", found)
    there = teller.there()
    assert there.fis is not None
    before = there.fis.left(there.run)
    undone(there, found)
    return [before, there.fis.left(there.run)]


def stories() -> dict[str, Callable[[Teller], Any]]:
    return {
        "preflight": preflight,
        "export": export,
        **{f"life of {kind}": partial(life, kind) for kind in offered()},
        "instances that FIS leaves stopped": partial(restored, "node.stop", World.stop_again),
        "network ACLs that FIS leaves": partial(restored, "zone.isolation", World.clone_again),
        "another machine ends it by its tags": by_tags,
    }


STORIES = stories()


@contextmanager
def paced(ears: Ears) -> Iterator[None]:
    """No time passes for the provider but in its pauses, each of which is longer than what it knows stays fresh."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += max(seconds, POLL_SECONDS)
        ears.paused()

    with patch("chaos.targets.existing.fis.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)):
        yield


# ---- recorded and replayed --------------------------------------------------------------------------------


@contextmanager
def stood(folder: Path) -> Iterator[tuple[str, World]]:
    """The endpoint with moto, for a lab that only remembers."""
    lab: Any = TinyLab("fis-recorded")
    with standing.standing(lab, time_scale=SCALE, folder=folder) as stands:
        yield stands.url, World(lab, stands.moto)


def _run(story: str) -> str:
    return re.sub(r"[^a-z]+", "-", story.lower())


def recorded(story: str, url: str, world: World) -> Told:
    """One story as the endpoint answers it now, with its ids."""
    recorder = Recorder()
    with paced(recorder):
        says = STORIES[story](Teller(_run(story), url, recorder, world))
    return Told(tuple(replace(call, answer=_own(call.answer, _run(story))) for call in recorder.calls), says)


def _own(answer: dict[str, Any] | None, run: str) -> dict[str, Any] | None:
    """Without experiments and templates of the stories that were told before."""
    listed = {"experiments", "experimentTemplates"} & set(answer or {})
    mine = {name: [each for each in (answer or {})[name] if each["tags"][TAG] == run] for name in listed}
    return answer if answer is None else {**answer, **mine}


def replayed(story: str, told: Told) -> Any:
    """What the provider says when it gets what was written down. Raises Changed where it asks for something else."""
    replayer = Replayer(story, told.calls)
    try:
        with paced(replayer):
            says = STORIES[story](Teller(_run(story), NOBODY, replayer, None))
    except Exception:
        if replayer.changed is not None:
            raise Changed(replayer.changed) from None
        raise
    replayer.ended()
    return json.loads(json.dumps(says))


def written() -> dict[str, Told]:
    """What tests/unit/data/fis/requests.json holds."""
    data = json.loads(FILE.read_text(), object_hook=_timed)
    return {
        story: Told(tuple(Call(**{**call, "error": _error(call.get("error"))}) for call in each["calls"]), each["says"])
        for story, each in data["stories"].items()
    }


def _error(value: Any) -> tuple[str, str, int] | None:
    return None if value is None else (value[0], value[1], value[2])


def _timed(found: dict[str, Any]) -> Any:
    return datetime.fromisoformat(found["$time"]) if found.keys() == {"$time"} else found


def plain(told: Told) -> Told:
    """Ids numbered, times made one."""

    def spell(value: Any) -> Any:
        if isinstance(value, datetime):
            return {"$time": ONE_TIME.isoformat()}
        raise TypeError(type(value).__name__)

    calls = [vars(call) for call in told.calls]
    text = json.dumps({"calls": calls, "says": told.says}, default=spell)
    for pattern in IDS:
        real = sorted(set(pattern.findall(text)))
        names = {id: _numbered(id, number) for number, id in enumerate(real, 1)}
        text = pattern.sub(partial(_named, names), text)
    data = json.loads(text, object_hook=_timed)
    found = tuple(Call(**{**call, "error": _error(call["error"])}) for call in data["calls"])
    return Told(found, data["says"])


def _named(names: Mapping[str, str], match: re.Match[str]) -> str:
    return names[match.group()]


def _numbered(id: str, number: int) -> str:
    """An id of the same kind and length."""
    head = id[:3] if id.startswith(("EXT", "EXP")) else id[: id.index("-") + 1] if id.count("-") == 1 else ""
    if not head:
        return f"00000000-0000-4000-8000-{number:012x}"
    return f"{head}{number:0{len(id) - len(head)}x}"


def write(stories: Mapping[str, Told]) -> None:
    """One call a line."""
    import botocore

    def spell(value: Any) -> Any:
        return {"$time": value.isoformat()}

    def line(call: Call) -> str:
        given = {name: value for name, value in vars(call).items() if name != "error" or value is not None}
        return json.dumps(given, default=spell)

    lines = []
    for name, told in stories.items():
        calls = ",\n".join(line(call) for call in told.calls)
        lines.append(f'{json.dumps(name)}: {{"says": {json.dumps(told.says)},\n"calls": [\n{calls}\n]}}')
    head = json.dumps({"made by": COMMAND, "botocore": botocore.__version__})[1:-1]
    FILE.parent.mkdir(parents=True, exist_ok=True)
    body = ",\n".join(lines)
    FILE.write_text(f'{{{head}, "stories": {{\n{body}\n}}}}\n')


def record() -> None:
    """Tell every story to the endpoint, and write them down once each has been replayed."""
    made = {}
    with TemporaryDirectory() as folder, stood(Path(folder)) as (url, world):
        for story in STORIES:
            made[story] = plain(recorded(story, url, world))
            print(f"{story}: {len(made[story].calls)} requests", flush=True)
    for story, told in made.items():
        if replayed(story, told) != told.says:
            raise SystemExit(f"{story}: replayed, the provider says something else")
    write(made)
    print(FILE.relative_to(ROOT))


def blurred(calls: tuple[Call, ...]) -> list[str]:
    """Requests in order without ids, what is asked again and again once: to compare two tellings."""
    found: list[str] = []
    for call in calls:
        text = call.asks
        for pattern in IDS:
            text = pattern.sub("*", text)
        if found[-1:] != [text]:
            found.append(text)
    return found


def main() -> int:
    options = argparse.ArgumentParser(prog="python tests/support/fisrecord.py", description=__doc__)
    options.add_argument("--record", action="store_true", required=True, help="write the requests down again")
    options.parse_args()
    record()
    return 0


if __name__ == "__main__":
    sys.exit(main())
