"""The operations of FIS: templates, experiments, catalogue, safety lever, tags. It knows no HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import string
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from chaos.fis_endpoint import templates
from chaos.fis_endpoint.engine import TERMINAL, Engine, new_states
from chaos.fis_endpoint.journal import Document, Journal, JournalBroken
from chaos.fis_endpoint.routing import Refused
from chaos.fis_endpoint.templates import Catalogue, KnownAction, KnownType, Quotas

LEVER = "default"
PAGE = 20
"""Entries of a page where the client does not say. AWS's number is unknown; a small one shows who reads one page."""
MOST_OF_A_PAGE = 100
_MOMENTS = frozenset({"creationTime", "lastUpdateTime", "startTime", "endTime"})
_OWN = frozenset({"sequence", "resolved"})
"""Members of our documents that are no part of FIS's shapes."""
_UPDATABLE = ("description", "stopConditions", "targets", "actions", "roleArn")


def new_id(prefix: str) -> str:
    """As AWS's look: ``EXT``, ``EXP`` and fifteen letters and digits."""
    letters = string.ascii_letters + string.digits
    return prefix + "".join(secrets.choice(letters) for _ in range(15))


@dataclass(frozen=True)
class Place:
    """Where the endpoint pretends to be."""

    account: str
    region: str

    def arn(self, kind: str, name: str) -> str:
        """Of FIS: ``experiment-template``, ``experiment``, ``action``, ``safety-lever``."""
        return f"arn:aws:fis:{self.region}:{self.account}:{kind}/{name}"


class Service:
    """FIS in one account and region. Thread-safe. ``call`` raises Refused for what AWS answers with an error."""

    def __init__(
        self,
        *,
        engine: Engine,
        journal: Journal,
        catalogue: Catalogue,
        place: Place,
        now: Callable[[], float],
        quotas: Quotas = templates.AWS,
        make_id: Callable[[str], str] = new_id,
    ) -> None:
        self._engine, self._journal, self._catalogue = engine, journal, catalogue
        self._place, self._now, self._quotas, self._make_id = place, now, quotas, make_id
        self._lock = threading.RLock()
        past = journal.past
        numbers = [int(each["sequence"]) for each in (*past.templates.values(), *past.experiments.values())]
        self._sequence = max(numbers, default=0)
        self._operations: Mapping[str, Callable[[Document], Document]] = {
            "CreateExperimentTemplate": self._create_template,
            "GetExperimentTemplate": lambda p: {"experimentTemplate": _shown(self._template(p["id"]))},
            "ListExperimentTemplates": self._list_templates,
            "UpdateExperimentTemplate": self._update_template,
            "DeleteExperimentTemplate": self._delete_template,
            "StartExperiment": self._start,
            "GetExperiment": lambda p: {"experiment": _shown(self._experiment(p["id"]))},
            "ListExperiments": self._list_experiments,
            "StopExperiment": self._stop,
            "ListExperimentResolvedTargets": self._resolved_targets,
            "GetAction": self._get_action,
            "ListActions": self._list_actions,
            "GetTargetResourceType": self._get_type,
            "ListTargetResourceTypes": self._list_types,
            "GetSafetyLever": self._get_lever,
            "UpdateSafetyLeverState": self._update_lever,
            "ListTagsForResource": lambda p: {"tags": self._tags(p["resourceArn"])[1]},
            "TagResource": self._tag,
            "UntagResource": self._untag,
        }

    def call(self, operation: str, params: Document) -> Document:
        """An answer of FIS, moments as datetimes. ``params`` fit the input shape. Raises Refused."""
        do = self._operations.get(operation)
        if do is None:
            says = f"{operation} is not supported by the local endpoint: it has no target account configurations"
            raise Refused("ValidationException", says)
        try:
            return do(params)
        except JournalBroken as error:
            raise Refused("InternalServerException", str(error)) from error

    # templates

    def _create_template(self, params: Document) -> Document:
        with self._lock:
            made = self._made_before("CreateExperimentTemplate", params)
            if made is not None:
                if made not in self._journal.past.templates:
                    raise Refused("ConflictException", "clientToken made a template that was deleted meanwhile")
                return {"experimentTemplate": _shown(self._template(made))}
            given = {name: value for name, value in params.items() if name != "clientToken"}
            options = {"accountTargeting": "single-account", "emptyTargetResolutionMode": "fail"}
            given["experimentOptions"] = {**options, **given.get("experimentOptions", {})}
            self._check(given)
            if len(self._journal.past.templates) >= self._quotas.templates:
                says = f"{self._quotas.templates} experiment templates, and the quota is as many"
                raise Refused("ServiceQuotaExceededException", says)
            name, at = self._make_id("EXT"), self._now()
            head = {"id": name, "arn": self._place.arn("experiment-template", name)}
            tail = {"creationTime": at, "lastUpdateTime": at, "sequence": self._next()}
            template = {**head, "targets": {}, "tags": {}, **given, **tail}
            self._journal.write(
                {"kind": "template", "template": template, **_token("CreateExperimentTemplate", params)}
            )
            return {"experimentTemplate": _shown(template)}

    def _update_template(self, params: Document) -> Document:
        with self._lock:
            template = dict(self._template(params["id"]))
            template.update({name: params[name] for name in _UPDATABLE if name in params})
            template["experimentOptions"] = {**template["experimentOptions"], **params.get("experimentOptions", {})}
            self._check({**template, **{name: params[name] for name in templates.NOT_HERE if name in params}})
            template["lastUpdateTime"] = self._now()
            self._journal.write({"kind": "template", "template": template})
            return {"experimentTemplate": _shown(template)}

    def _delete_template(self, params: Document) -> Document:
        with self._lock:
            template = self._template(params["id"])
            self._journal.write({"kind": "template deleted", "id": params["id"]})
            return {"experimentTemplate": _shown(template)}

    def _list_templates(self, params: Document) -> Document:
        with self._lock:
            found = sorted(self._journal.past.templates.values(), key=lambda each: int(each["sequence"]))
        members = ("id", "arn", "description", "creationTime", "lastUpdateTime", "tags")
        rows = [(int(each["sequence"]), _shown(each, members)) for each in found]
        return _page("experimentTemplates", rows, params)

    def _template(self, name: str) -> Document:
        found = self._journal.past.templates.get(name)
        if found is None:
            raise Refused("ResourceNotFoundException", f"there is no experiment template {name}")
        return found

    def _check(self, template: Document) -> None:
        problems = templates.problems(template, self._catalogue, self._place.account)
        if problems:
            raise Refused("ValidationException", "; ".join(problems))
        exceeded = templates.over_quota(template, self._quotas, self._catalogue.seconds)
        if exceeded is not None:
            raise Refused("ServiceQuotaExceededException", exceeded)

    # experiments

    def _start(self, params: Document) -> Document:
        with self._lock:
            made = self._made_before("StartExperiment", params)
            if made is not None:
                return {"experiment": _shown(self._experiment(made))}
            template = self._template(params["experimentTemplateId"])
            problems = templates.tag_problems(params.get("tags", {}))
            if problems:
                raise Refused("ValidationException", "; ".join(problems))
            if self._engine.active() >= self._quotas.experiments:
                says = f"{self._engine.active()} experiments are active, and the quota is {self._quotas.experiments}"
                raise Refused("ServiceQuotaExceededException", says)
            name = self._make_id("EXP")
            options = {**template["experimentOptions"], "actionsMode": "run-all", **params.get("experimentOptions", {})}
            experiment = {
                "id": name,
                "arn": self._place.arn("experiment", name),
                "experimentTemplateId": template["id"],
                "roleArn": template["roleArn"],
                "state": {"status": "pending"},
                "targets": template["targets"],
                "actions": new_states(template["actions"]),
                "stopConditions": template["stopConditions"],
                "creationTime": self._now(),
                "tags": params.get("tags", {}),
                "experimentOptions": options,
                "resolved": [],
                "sequence": self._next(),
            }
            self._journal.write({"kind": "experiment", "experiment": experiment, **_token("StartExperiment", params)})
            engaged = self._lever()["status"] == "engaged"
            self._engine.add(experiment, cancelled="The safety lever is engaged" if engaged else None)
            return {"experiment": _shown(experiment)}

    def _stop(self, params: Document) -> Document:
        name = params["id"]
        if self._experiment(name)["state"]["status"] in TERMINAL:
            raise Refused("ValidationException", f"experiment {name} is over and cannot be stopped")
        self._engine.stop(name, "Experiment was stopped by StopExperiment")
        return {"experiment": _shown(self._experiment(name))}

    def _list_experiments(self, params: Document) -> Document:
        wanted = params.get("experimentTemplateId")
        found = [
            each for each in self._engine.experiments() if wanted is None or each["experimentTemplateId"] == wanted
        ]
        members = ("id", "arn", "experimentTemplateId", "state", "creationTime", "tags", "experimentOptions")
        return _page("experiments", [(int(each["sequence"]), _shown(each, members)) for each in found], params)

    def _resolved_targets(self, params: Document) -> Document:
        experiment = self._experiment(params["experimentId"])
        wanted = params.get("targetName")
        if wanted is not None and wanted not in experiment["targets"]:
            raise Refused("ResourceNotFoundException", f"experiment {experiment['id']} has no target {wanted}")
        rows = [
            (n, {**_without(each, "arn"), "targetInformation": {"arn": each["arn"]}})
            for n, each in enumerate(experiment["resolved"], 1)
            if wanted is None or each["targetName"] == wanted
        ]
        return _page("resolvedTargets", rows, params)

    def _experiment(self, name: str) -> Document:
        found = self._engine.experiment(name)
        if found is None:
            raise Refused("ResourceNotFoundException", f"there is no experiment {name}")
        return found

    # catalogue

    def _get_action(self, params: Document) -> Document:
        known = self._catalogue.actions.get(params["id"])
        if known is None:
            raise Refused("ResourceNotFoundException", f"there is no action {params['id']}")
        parameters = {name: {"description": says, "required": must} for name, (says, must) in known.parameters.items()}
        return {"action": {**self._summary(known), "parameters": parameters}}

    def _list_actions(self, params: Document) -> Document:
        known = sorted(self._catalogue.actions.values(), key=lambda each: each.id)
        return _page("actions", [(n, self._summary(each)) for n, each in enumerate(known, 1)], params)

    def _summary(self, known: KnownAction) -> Document:
        targets = {key: {"resourceType": kind} for key, kind in known.targets.items()}
        arn = self._place.arn("action", known.id)
        return {"id": known.id, "arn": arn, "description": known.description, "targets": targets, "tags": {}}

    def _get_type(self, params: Document) -> Document:
        known = self._catalogue.types.get(params["resourceType"])
        if known is None:
            raise Refused("ResourceNotFoundException", f"there is no target resource type {params['resourceType']}")
        parameters = {name: {"description": says, "required": must} for name, (says, must) in known.parameters.items()}
        return {"targetResourceType": {**_type(known), "parameters": parameters}}

    def _list_types(self, params: Document) -> Document:
        known = sorted(self._catalogue.types.values(), key=lambda each: each.id)
        return _page("targetResourceTypes", [(n, _type(each)) for n, each in enumerate(known, 1)], params)

    # safety lever

    def _lever(self) -> Document:
        return self._journal.past.lever or {"status": "disengaged", "reason": "It was never engaged"}

    def _get_lever(self, params: Document) -> Document:
        if params["id"] not in (LEVER, self._place.arn("safety-lever", LEVER)):
            raise Refused("ResourceNotFoundException", f"there is no safety lever {params['id']}")
        with self._lock:
            state = dict(self._lever())
            if state["status"] == "engaged" and self._engine.active():
                state["status"] = "engaging"
        return {"safetyLever": {"id": LEVER, "arn": self._place.arn("safety-lever", LEVER), "state": state}}

    def _update_lever(self, params: Document) -> Document:
        with self._lock:
            before = self._get_lever(params)["safetyLever"]["state"]["status"]
            state = params["state"]
            if before == "engaging":
                raise Refused("ConflictException", "the safety lever is engaging: experiments are being stopped")
            self._journal.write({"kind": "lever", "status": state["status"], "reason": state["reason"]})
            if state["status"] == "engaged":
                self._engine.stop_all("The safety lever was engaged")
            return self._get_lever(params)

    # tags

    def _tags(self, arn: str) -> tuple[tuple[str, str], dict[str, str]]:
        """What an ARN names, and its tags. Raises Refused with ResourceNotFoundException."""
        kind, _, name = arn.removeprefix(self._place.arn("", "").removesuffix("/")).partition("/")
        if arn == self._place.arn(kind, name):
            found = self._journal.past.templates.get(name) if kind == "experiment-template" else None
            found = self._engine.experiment(name) if kind == "experiment" else found
            if found is not None:
                return (kind, name), dict(found["tags"])
        raise Refused("ResourceNotFoundException", f"there is no {arn}")

    def _tag(self, params: Document) -> Document:
        with self._lock:
            what, tags = self._tags(params["resourceArn"])
            problems = templates.tag_problems({**tags, **params["tags"]})
            if problems:
                raise Refused("ValidationException", "; ".join(problems))
            return self._retag(what, {**tags, **params["tags"]})

    def _untag(self, params: Document) -> Document:
        with self._lock:
            what, tags = self._tags(params["resourceArn"])
            return self._retag(
                what, {key: each for key, each in tags.items() if key not in params.get("tagKeys", tags)}
            )

    def _retag(self, what: tuple[str, str], tags: dict[str, str]) -> Document:
        kind, name = what
        if kind == "experiment":
            self._engine.tag(name, tags)
        else:
            self._journal.write({"kind": "template", "template": {**self._template(name), "tags": tags}})
        return {}

    # tokens

    def _made_before(self, operation: str, params: Document) -> str | None:
        """The id of what this token made. Raises Refused with ConflictException where it came with something else."""
        known = self._journal.past.tokens.get(params["clientToken"])
        if known is None:
            return None
        if (known.operation, known.content) != (operation, _content(params)):
            raise Refused("ConflictException", "clientToken was used before with another operation or other parameters")
        return known.made

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def _content(params: Document) -> str:
    rest = {name: value for name, value in params.items() if name != "clientToken"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _token(operation: str, params: Document) -> Document:
    return {"token": params["clientToken"], "operation": operation, "content": _content(params)}


def _without(document: Document, *names: str) -> Document:
    return {name: value for name, value in document.items() if name not in names}


def _shown(document: Document, members: Sequence[str] | None = None) -> Document:
    """A document of ours as FIS shows it."""
    shown: Document = {
        name: datetime.fromtimestamp(value, UTC) if name in _MOMENTS else value
        for name, value in document.items()
        if name not in _OWN and (members is None or name in members)
    }
    if "state" in shown and "actions" in shown:
        shown["actions"] = {name: _shown(action) for name, action in shown["actions"].items()}
    return shown


def _type(known: KnownType) -> Document:
    return {"resourceType": known.id, "description": known.description}


def _page(member: str, rows: Sequence[tuple[int, Document]], params: Document) -> Document:
    """One page: of rows by their ascending numbers, those after the one that ``nextToken`` names.

    A row that comes or goes between two pages moves no other.
    """
    after = 0
    if "nextToken" in params:
        try:
            after = int(base64.urlsafe_b64decode(params["nextToken"].encode()).decode().removeprefix(f"{member}:"))
        except ValueError:
            raise Refused("ValidationException", f"nextToken is none of ours: {params['nextToken']}") from None
    left = [row for row in rows if row[0] > after]
    size = min(params.get("maxResults", PAGE), MOST_OF_A_PAGE)
    answer: dict[str, Any] = {member: [each for _, each in left[:size]]}
    if len(left) > size:
        answer["nextToken"] = base64.urlsafe_b64encode(f"{member}:{left[size - 1][0]}".encode()).decode()
    return answer
