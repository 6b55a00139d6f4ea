"""``fis``: preflight, policy, export. AWS FIS on a target that exists, looked at before anything is made there."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chaos.base.errors import ChaosError, Exit, FaultError, InvalidInput
from chaos.base.text import plural
from chaos.commands.common import out

if TYPE_CHECKING:
    from chaos.definitions import Experiment
    from chaos.definitions.existing import Existing
    from chaos.definitions.fis import FisFile
    from chaos.targets.existing.fis import Fis
    from chaos.targets.existing.target import ExistingTarget

On = Annotated[Path, typer.Option("--on", help="The target's file, such as topologies/existing/staging.yaml.")]
Experiments = Annotated[list[Path], typer.Argument(help="Experiments that are to run there.")]


def read(on: Path) -> tuple[Existing, FisFile]:
    """A target, and what its file says of AWS FIS. Raises InvalidInput where that is nothing."""
    from chaos.definitions.existing import load_existing

    target = load_existing(on)
    if target.written.fis is None:
        raise InvalidInput(f"{target.file} says nothing of AWS FIS", remedy="write fis: there, see docs/fis.md")
    return target, target.written.fis


def target_of(on: Path) -> ExistingTarget:
    from chaos.run import recovering_on

    target, _ = read(on)
    return recovering_on.cluster_of(target)


def mapped_on(paths: Sequence[Path], there: ExistingTarget) -> list[Experiment]:
    """The experiments with the cluster's own nodes. Raises InvalidInput where one cannot be mapped."""
    from chaos.registry import load_experiment
    from chaos.targets.existing import mapping
    from chaos.targets.existing.seen import seen_of

    seen = seen_of(there.target)
    made = []
    for path in paths:
        experiment = load_experiment(path)
        mapped = mapping.mapped(experiment.topology, there.target.written, seen)
        if not mapped.known:
            unmet = "; ".join(row.says for row in mapped.unmet)
            raise InvalidInput(f"{path} cannot be had on {there.target.file}: {unmet}", remedy="see: plan --on")
        made.append(experiment.model_copy(update={"topology": mapped.topology}))
    return made


def requests(
    experiment: Experiment,
    there: ExistingTarget,
    *,
    momentary: bool = True,
    elected: str | None = None,
    run: str = "export",
) -> list[tuple[str, dict[str, Any]]]:
    """Fault → the request that would make its template, for those that FIS would carry out; found by GETs alone.

    ``elected``: as if this node were the elected cluster manager; a fault that cannot begin then has none. Raises
    ChaosError where AWS does not say whom they would hit, and without ``elected`` or ``momentary=False`` for a fault of
    which only the moment decides that.
    """
    from chaos.registry import PROVIDERS
    from chaos.run import plan, reaching
    from chaos.targets.existing.target import ExistingTarget

    target = ExistingTarget(there.target, experiment.topology)
    target.fis = there.fis
    assert target.fis is not None
    target.run = run
    offers = reaching.offers_on(PROVIDERS, target.target.written)
    found = []
    for each in plan.faults(experiment):
        if offers.meant(each.params.kind).provider != "fis":
            continue
        try:
            fault = plan.preview(each, experiment, experiment.seed, target.wiring, offers, elected)
        except FaultError:
            if elected is None or not each.params.momentary:
                raise
            continue
        if fault is None and not momentary:
            continue
        if fault is None or fault.read is None:
            raise InvalidInput(
                f"{each.id}: only the moment decides whom it hits", remedy="name a node, such as node c-data"
            )
        for both in fault.read(target):
            if both.move.operation == "fis.template":
                given = both.move.arguments
                found.append((each.id, target.fis.whole(given["run"], each.id, given["template"])))
    return found


def priced(experiment: Experiment, target: Existing) -> str | None:
    """What AWS would ask for an experiment's faults by FIS at most, whichever node is elected; None: none is FIS's.
    Sends no request."""
    from chaos.aws.price import Price, price, total
    from chaos.run import plan
    from chaos.targets.existing.fis import Fis, Instance
    from chaos.targets.existing.target import ExistingTarget

    if target.written.fis is None:
        return None

    class Pretended(Fis):
        """Instances and subnets that are as many as there are nodes and zones."""

        def instances(self, ask: Any, nodes: Any) -> dict[str, Instance]:
            return {each: Instance(each, each, f"arn:of:{each}", "running", "", "", (each,)) for each in nodes}

        def subnets(self, ask: Any, inside: Any, every: Any) -> dict[str, str]:
            return {"subnet": "arn:of:subnet"}

        def acls(self, subnets: Any) -> dict[str, str]:
            return {}

        def agents(self, ids: Any) -> set[str]:
            return set(ids)

        def begun(self, ids: Any, documents: Any) -> list[str]:
            return []

    there = ExistingTarget(target, experiment.topology)
    there.fis = Pretended(target.written.fis, target.written.name)
    momentary = any(each.params.momentary for each in plan.faults(experiment))
    ways: list[str | None] = [node.name for node in experiment.topology.cluster_managers] if momentary else [None]
    dearest: dict[str, Price] = {}
    for elected in ways:
        for fault, request in requests(experiment, there, momentary=False, elected=elected):
            asked = price(request, target.written.fis.region)
            dearest[fault] = max(dearest.get(fault, asked), asked, key=lambda each: each.action_minutes)
    return f"{total(dearest.values()).text} at most" if dearest else None


def fis_export(
    experiments: Experiments,
    on: On,
    into: Annotated[Path | None, typer.Option("--out", help="A folder for a file each; default all on stdout.")] = None,
) -> None:
    """Print the templates that faults by AWS FIS would have, as JSON for `aws fis create-experiment-template`.

    Asks the cluster and AWS by reading alone whom they would hit. Each is held against FIS's own model. Never run on
    AWS.
    With --out each file, and without it the one template that is printed, is for `--cli-input-json file://FILE`;
    several on stdout are a map by name. A template that you create so keeps every run from beginning until you delete
    it.
    """
    from chaos.aws.shapes import Model
    from chaos.targets.existing.fis import EXPORT

    there, model = target_of(on), Model("fis")
    printed: dict[str, Any] = {}
    for experiment in mapped_on(experiments, there):
        run = f"{EXPORT}-{secrets.token_hex(4)}"  # so that its client tokens are no other experiment's or export's
        for fault, request in requests(experiment, there, run=run):
            if wrong := model.problems_of_input("CreateExperimentTemplate", request):
                raise ChaosError(f"{fault}: a template that FIS would refuse: {'; '.join(wrong)}")
            printed[f"{experiment.name}-{fault}"] = request
    if not printed:
        raise InvalidInput("none of these faults would be AWS FIS's there", remedy="see: opensearch-chaos plan --on")
    if into is None:
        print(json.dumps(next(iter(printed.values())) if len(printed) == 1 else printed, indent=2))
        return
    into.mkdir(parents=True, exist_ok=True)
    for name, request in printed.items():
        file = into / f"{''.join(c if c.isalnum() or c in '.-_' else '-' for c in name)}.json"
        file.write_text(json.dumps(request, indent=2) + "\n")
        out.print(str(file), markup=False)


def fis_policy(
    on: On,
    experiments: Annotated[
        list[Path] | None, typer.Argument(help="Experiments; default every fault that FIS offers.")
    ] = None,
) -> None:
    """Print what IAM must allow for exactly these experiments: whom FIS's role trusts, that role, and the runner's.

    Asks nobody. The instances and subnets that may be touched have the tag chaos = allowed.
    """
    from chaos.aws import policy

    target, file = read(on)
    kinds = kinds_of(experiments) if experiments else sorted(policy.ACTIONS)
    wanted = policy.wanted_for(file, target.written.name, kinds)
    makers: dict[str, Callable[[policy.Wanted], dict[str, Any]]] = {
        "trust": policy.trust,
        "experiment_role": policy.experiment_role,
        "runner_role": policy.runner_role,
    }
    print(json.dumps({name: make(wanted) for name, make in makers.items()}, indent=2))
    typer.echo(f"for {', '.join(kinds)}; {file.says}", err=True)


NO_ANSWER = ("no answer in time from", "nobody takes a connection at", "does not say whose account")
"""Of an endpoint that hangs or is not there: what comes after is not asked, or each look would take minutes."""


def kinds_of(paths: Sequence[Path]) -> list[str]:
    """The kinds of faults of these experiments that FIS offers. Raises InvalidInput where there is none."""
    from chaos.aws.policy import ACTIONS
    from chaos.registry import load_experiment
    from chaos.run import plan

    found = sorted({each.params.kind for path in paths for each in plan.faults(load_experiment(path))} & set(ACTIONS))
    if not found:
        raise InvalidInput("FIS offers none of these experiments' faults", remedy="see: opensearch-chaos faults")
    return found


def fis_preflight(
    on: On,
    experiments: Annotated[list[Path] | None, typer.Argument(help="Experiments that are to run there.")] = None,
) -> None:
    """Ask AWS, by reading alone, whether faults by FIS could be made now: exit code 0, or 2 with every reason.

    Account, safety lever, alarms, the instance of each node and its tag chaos = allowed, agents of Systems
    Manager, FIS's role (whether FIS may take it, and IAM's simulation of what it may do for these experiments), what
    was left before. A warning is what could not be looked at. Never run on AWS.
    """
    there = target_of(on)
    assert there.fis is not None
    seen: list[bool | None] = []
    for what, says, well in looks(there, there.fis, kinds_of(experiments) if experiments else None):
        out.print(f"  {SIGNS[well]}  {what}: {says}", markup=False)
        seen.append(well)
    wrong, unknown = seen.count(False), seen.count(None)
    for experiment in mapped_on(experiments or [], there):
        for fault, request in requests(experiment, there):
            out.print(f"  {experiment.name}, {fault}: {_priced(request, there.fis)}", markup=False)
    out.print(there.fis.file.says, markup=False)
    verdict = f"REFUSED  {plural(wrong, 'reason')}" if wrong else "OK" if not unknown else ""
    if unknown:
        verdict += f"{'; ' if verdict else 'nothing refuses it, and '}{plural(unknown, 'warning')}"
    out.print(f"preflight: {verdict}", markup=False)
    raise typer.Exit(int(Exit.USAGE if wrong else Exit.PASS))


def _priced(request: dict[str, Any], fis: Fis) -> str:
    from chaos.aws.price import price

    found = price(request, fis.file.region)
    names = sorted({each["actionId"] for each in request["actions"].values()})
    return f"{', '.join(names)}; {found.text}"


SIGNS = {True: "ok     ", False: "REFUSED", None: "WARNING"}
DENIED = ("AccessDenied", "not authorized")
"""What AWS says to who may not ask."""


def looks(
    there: ExistingTarget, fis: Fis, kinds: Sequence[str] | None = None
) -> Iterator[tuple[str, str, bool | None]]:
    """(what, what was seen, whether it is well), each asked by itself: one that cannot be read hides no other.

    ``kinds``: of the faults that are to be made; default all that FIS offers, and then what the role lacks is no more
    than a warning: None, as where the role may not be looked at.
    """
    from chaos.aws.policy import ACTIONS, TAG, wanted_for
    from chaos.opensearch.views import administer
    from chaos.targets.existing import fis_role

    def ask(path: str) -> tuple[int, Any]:
        return administer(there, "GET", path)

    def tags() -> tuple[str, bool]:
        found = fis.instances(ask, [node.name for node in there.topology.nodes]).values()
        without = [f"{each.id} of {each.node}" for each in found if TAG not in each.tags]
        wanted = f"the tag {TAG[0]} = {TAG[1]} that the printed roles need"
        return (f"{', '.join(without)} has not {wanted}", False) if without else (f"all have {wanted}", True)

    def account() -> tuple[str, bool]:
        who = fis.call("sts", "get_caller_identity")
        return f"{who['Arn']}, expected {fis.file.account}", who["Account"] == fis.file.account

    def lever() -> tuple[str, bool]:
        state = fis.lever()["status"]
        return state, state == "disengaged"

    def alarms() -> tuple[str, bool]:
        found = fis.alarms()
        states = [f"{each['AlarmName']} {each['StateValue']}" for each in found]
        none = "none: nothing of AWS's own ends a fault but its duration"
        return ", ".join(states) or none, all(each["StateValue"] == "OK" for each in found)

    def instances() -> tuple[str, bool]:
        found = fis.instances(ask, [node.name for node in there.topology.nodes]).values()
        says = ", ".join(f"{each.node} is {each.id} in {each.zone}" for each in found)
        idle = [f"{each.id} is {each.state}" for each in found if each.state != "running"]
        return f"{says}{'; ' + ', '.join(idle) if idle else ''}", not idle

    def agents() -> tuple[str, bool]:
        ids = {each.id: each.node for each in fis.instances(ask, [n.name for n in there.topology.nodes]).values()}
        online = fis.agents(list(ids))
        silent = [f"{id} of {node}" for id, node in ids.items() if id not in online]
        return f"offline on {', '.join(silent)}" if silent else f"online on all {len(ids)}", not silent

    def left() -> tuple[str, bool]:
        found = fis.left()
        return "; ".join(found) or "nothing", not found

    def readable(look: Callable[[], tuple[str, bool | None]]) -> tuple[str, bool | None]:
        try:
            return look()
        except ChaosError as error:
            if not any(words in error.message for words in DENIED):
                raise
            return f"not looked at, so it is not known: {error.message}", None

    def trust() -> tuple[str, bool | None]:
        return readable(lambda: fis_role.trust(fis))

    def rights() -> tuple[str, bool | None]:
        def look() -> tuple[str, bool | None]:
            found = list(fis.instances(ask, [node.name for node in there.topology.nodes]).values())
            wanted = wanted_for(fis.file, fis.target, kinds or sorted(ACTIONS))
            lacks = fis_role.lacking(fis, wanted, found)
            some = "these experiments" if kinds else "every fault that FIS offers"
            if not lacks:
                return f"all that `fis policy` prints for {some}, by IAM's simulation", True
            return f"for {some} it lacks {', '.join(lacks)} (see: fis policy)", False if kinds else None

        return readable(look)

    asked: dict[str, Callable[[], tuple[str, bool | None]]] = {
        "account": account,
        "safety lever": lever,
        "alarms": alarms,
        "instances": instances,
        "tags of instances": tags,
        "agents of Systems Manager (faults by its documents need them)": agents,
        "FIS's role": trust,
        "what FIS's role may do": rights,
        "left of earlier runs": left,
    }
    unanswered: str | None = None
    for what, look in asked.items():
        if unanswered is not None:
            yield what, f"not asked: {unanswered}", False
            continue
        try:
            says, well = look()
        except ChaosError as error:
            says, well = error.message, False
            unanswered = says if any(words in says for words in NO_ANSWER) else None
        yield what, says, well


BEGIN, END = "<!-- made by python -m chaos.commands.fis -->", "<!-- end -->"


def table() -> str:
    """Every kind of fault that is no request to the cluster itself, with what FIS can have of it."""
    from chaos.providers.fis import INTENTS

    rows = [f"| `{kind}` | {each.verdict} | {each.how} |" for kind, each in sorted(INTENTS.items())]
    return "\n".join([BEGIN, "| kind | FIS | how |", "|---|---|---|", *rows, END])


COMMANDS: dict[str, Callable[..., None]] = {"preflight": fis_preflight, "policy": fis_policy, "export": fis_export}

if __name__ == "__main__":
    print(table())
