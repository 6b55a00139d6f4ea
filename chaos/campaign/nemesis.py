"""The random mode: faults drawn from a weighted list, with a seed and a rate, as an ordinary experiment.

Pure: the same options give the same experiment to the byte. Faults begin at random moments (exponential gaps) and hold
for a random time; they may overlap, but two never hold the same, never more than a limit are active at once, and
what is hit leaves a majority of cluster managers and a copy of every shard alone, unless that is allowed. Parameters
come from each kind's examples; the zones and nodes in their selectors are drawn anew. The moments of begin and end
become phases: a phase undoes, injects and holds until the next moment.
"""

from __future__ import annotations

import itertools
import random
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chaos.base.errors import ChaosError, InvalidInput
from chaos.base.operations import USUAL
from chaos.base.units import Duration, Rate
from chaos.definitions import Topology, load_topology
from chaos.definitions.expectations import Comparison, Expectation
from chaos.definitions.experiment import Experiment, Guards, Load, Operation, Phase, Until
from chaos.definitions.selectors import HostSelector, LinkSelector, NodeSelector
from chaos.definitions.source import did_you_mean
from chaos.definitions.steps import FaultParams, Scene
from chaos.definitions.topology import NodeSpec
from chaos.faults.kind import built
from chaos.faults.offers import Offers
from chaos.targets.wiring import Wiring

HEALTHY_SECONDS = 20
"""How long the cluster is watched before the first fault."""
SETTLING_SECONDS = 20.0
"""A node counts as hit for this long after its fault has ended: it starts again, joins, and its copies catch up."""
RECOVERED_WITHIN = Duration(180)
STABLE = Duration(10)
HOLD = (Duration(10), Duration(30))
LOAD = Rate(50)
TRIES = 40
"""How many draws a moment has to find a fault that may begin then; after that it passes without one."""
PLANTED = ("settings", "query")
"""The families of planted weaknesses, and of queries that hold all search threads. They break the promises that the
plan expects to be kept, so only weights that are given draw them."""


@dataclass(frozen=True)
class Limits:
    """What is never exceeded. ``active``: faults at once."""

    active: int = 2
    quorum_loss: bool = False
    """True allows a majority of cluster managers to be hit at once."""
    all_copies: bool = False
    """True allows every copy of a shard to be hit at once."""


@dataclass(frozen=True)
class Options:
    """What a plan is drawn from. ``duration`` and ``hold`` (shortest, longest) in seconds, ``rate`` per second.

    ``named``: the topology as the definition names it. ``weights``: kind → weight; None: every kind alike.
    ``load``: reads and writes per second, each. ``name``: the experiment's; None: from topology and seed.
    ``good``: objectives as :func:`chaos.definitions.objectives.parse` gives them; the definition states them.
    """

    topology: Topology
    named: str
    seed: int
    duration: Duration
    rate: Rate
    hold: tuple[Duration, Duration] = HOLD
    weights: Mapping[str, float] | None = None
    limits: Limits = field(default_factory=Limits)
    load: Rate = LOAD
    name: str | None = None
    good: Mapping[str, Duration] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The command that draws the same again."""
        options = ["--seed", str(self.seed), "--for", self.duration.text, "--rate", per_minute(self.rate)]
        if self.hold != HOLD:
            options += ["--hold", f"{self.hold[0].text}..{self.hold[1].text}"]
        if self.weights is not None:
            options += ["--weights", ",".join(f"{kind}={weight:g}" for kind, weight in self.weights.items())]
        if self.limits.active != Limits.active:
            options += ["--max-active", str(self.limits.active)]
        options += ["--allow-quorum-loss"] if self.limits.quorum_loss else []
        options += ["--allow-all-copies"] if self.limits.all_copies else []
        if self.load != LOAD:
            options += ["--load", self.load.text]
        if self.name is not None:
            options += ["--name", self.name]
        for operation, within in self.good.items():
            options += ["--objective", f"{operation}={within.text}" if operation else within.text]
        return shlex.join(["opensearch-chaos", "nemesis", self.named, *options])


def per_minute(rate: Rate) -> str:
    """Where it is a whole number of them; else per second."""
    minute = round(float(rate) * 60)
    return f"{minute}/min" if abs(minute - float(rate) * 60) < 1e-9 else rate.text


# ---- what a fault may hit ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hit:
    """What a fault touches, as far as it can be told: nodes, links between nodes, and what it holds.

    ``pairs``: every directed link, those of clients too.
    """

    nodes: frozenset[str]
    links: frozenset[frozenset[str]]
    claims: frozenset[str]
    pairs: frozenset[tuple[str, str]] = frozenset()

    def touches(self, nodes: frozenset[str]) -> bool:
        """True when one of these nodes, or a link between one of them and another node, is hit."""
        return bool(self.nodes & nodes) or any(link & nodes for link in self.links)


def hits(params: FaultParams, topology: Topology, offers: Offers) -> tuple[Hit, ...]:
    """One hit for each cluster manager that may be elected, where that decides it; else one.

    Raises InvalidInput when it matches nothing on this topology.
    """
    wiring = Wiring.of_topology("plan", topology)
    offer = offers.meant(params.kind)
    names = {node.name for node in topology.nodes}
    found = []
    for elected in [node.name for node in topology.cluster_managers] if params.momentary else [None]:
        scene = Scene.of(topology, 0, "", elected)
        try:
            fault = built(params, "plan", scene, wiring, offer)
        except InvalidInput:
            raise
        except ChaosError:  # whoever is elected does not match the other terms: then the fault does not begin
            continue
        links = frozenset(frozenset(link) for link in fault.links if names.issuperset(link))
        found.append(Hit(frozenset(fault.targets) & names, links, fault.claims, frozenset(fault.links)))
    if not found:
        raise InvalidInput(f"{params.describe()} matches nothing on topology {topology.name}")
    return tuple(found)


@dataclass(frozen=True)
class Drawn:
    """A fault on the timeline: whole seconds since the first fault may begin, and what it may hit."""

    begin: int
    end: int
    params: FaultParams
    hits: tuple[Hit, ...]

    def overlaps(self, other: Drawn) -> bool:
        return self.begin < other.end and other.begin < self.end


def spared(topology: Topology, hit: Sequence[Hit], limits: Limits) -> bool:
    """True when some nodes that no hit touches, and that all reach each other, are enough to go on.

    Enough is a majority of the cluster managers, and with them so many data nodes that a copy of every shard is
    among them, wherever the copies are.
    """
    down = frozenset().union(*(each.nodes for each in hit))
    cut = frozenset().union(*(each.links for each in hit))
    if not down and not cut:
        return True
    alone = [node for node in topology.nodes if node.name not in down]
    # only nodes with a cut link need to be chosen among; without any they are all together
    return any(_enough(topology, frozenset(group), limits) for group in _together([n.name for n in alone], cut))


def _together(names: Sequence[str], cut: frozenset[frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Sets of nodes without a cut link among them, the largest that leave out few: brute force, labs are small."""
    torn = [name for name in names if any(name in pair and pair <= set(names) for pair in cut)]
    whole = tuple(name for name in names if name not in torn)
    for size in range(len(torn), -1, -1):
        for chosen in itertools.combinations(torn, size):
            if not any(frozenset(pair) in cut for pair in itertools.combinations(chosen, 2)):
                yield (*whole, *chosen)


def _enough(topology: Topology, group: frozenset[str], limits: Limits) -> bool:
    managers = topology.cluster_managers
    left = sum(node.name in group for node in managers)
    if not limits.quorum_loss and 2 * left <= len(managers):
        return False
    return limits.all_copies or _a_copy_of_everything(topology, group)


def _a_copy_of_everything(topology: Topology, group: frozenset[str]) -> bool:
    lost = [node for node in topology.data_nodes if node.name not in group]
    copies = topology.replicas + 1
    if len(lost) < copies:
        return True
    # with awareness the copies are spread over the zones: nodes of fewer zones than have copies cannot hold them all
    zones = {node.zone for node in topology.data_nodes}
    return bool(topology.awareness()) and len({node.zone for node in lost}) < min(copies, len(zones))


# ---- parameters, with their targets drawn anew ---------------------------------------------------------


@dataclass(frozen=True)
class _Renaming:
    """Zones, groups and nodes of an example's topology → drawn ones of the plan's, alike in their roles."""

    zones: Mapping[str, str]
    groups: Mapping[str, str]
    nodes: Mapping[str, str]

    @classmethod
    def draw(cls, example: Topology, topology: Topology, rng: random.Random) -> _Renaming:
        mixed = rng.sample(topology.zones, len(topology.zones))
        zones = {zone: mixed[index % len(mixed)] for index, zone in enumerate(example.zones)}
        groups: dict[str, str] = {}
        nodes: dict[str, str] = {}
        for node in example.nodes:
            alike = [each for each in topology.nodes if _alike(each, node)]
            near = [each for each in alike if each.zone == zones[node.zone]] or alike
            free = [each for each in near if each.name not in nodes.values()] or near
            if free:
                nodes[node.name] = rng.choice(free).name
                groups.setdefault(node.group, next(each.group for each in near))
        return cls(zones, groups, nodes)

    def __call__(self, text: str) -> str:
        """A selector's sentence with the drawn names in it; what has no counterpart stays."""
        for word, names in (("zone", self.zones), ("group", self.groups), ("node", self.nodes)):
            text = re.sub(rf"\b{word} (\S+?)(?=[\s)]|$)", lambda m: f"{m[0].split()[0]} {names.get(m[1], m[1])}", text)  # noqa: B023
        return text


def _alike(one: NodeSpec, other: NodeSpec) -> bool:
    return (one.is_data, one.is_cluster_manager) == (other.is_data, other.is_cluster_manager)


def _renamed(example: Mapping[str, Any], kind: type[FaultParams], renaming: _Renaming) -> dict[str, Any]:
    """An example's parameters with drawn names. Fields called ``zone`` or ``node`` hold a bare name."""
    given = kind.model_validate(dict(example))
    made = dict(example)
    for name, selector in given.selectors.items():
        made[name] = renaming(selector.text)
    for name, names in (("zone", renaming.zones), ("node", renaming.nodes)):
        if isinstance(made.get(name), str) and name not in given.selectors:
            made[name] = names.get(made[name], made[name])
    return made


def _settled(params: FaultParams, topology: Topology, rng: random.Random) -> FaultParams:
    """With its picks drawn now: a plan says whom it hits, but for who will be elected."""
    drawn: dict[str, Any] = {}
    for name, selector in params.selectors.items():
        if isinstance(selector, NodeSelector):
            drawn[name] = _picked(selector, topology, rng)
        else:
            sides = [_side(side, topology, rng) for side in selector.sides]
            drawn[name] = LinkSelector(kind=selector.kind, a=sides[0], b=sides[1] if len(sides) > 1 else None)
    return _with(params, drawn)


def _with(params: FaultParams, changed: Mapping[str, Any]) -> FaultParams:
    """The same with some fields changed; what was not given stays not given."""
    given = {name: getattr(params, name) for name in type(params).model_fields if name in params.model_fields_set}
    return type(params).model_validate({**given, **changed})


def _picked(selector: NodeSelector, topology: Topology, rng: random.Random) -> NodeSelector:
    if selector.pick != 1 or selector.elected:
        return selector
    (node,) = Scene(topology, rng).nodes(selector)
    return NodeSelector(node=node)


def _side(side: HostSelector, topology: Topology, rng: random.Random) -> HostSelector:
    return side if side.nodes is None else HostSelector(kind="nodes", nodes=_picked(side.nodes, topology, rng))


# ---- drawing -------------------------------------------------------------------------------------------


def default_weights(offers: Offers) -> dict[str, float]:
    """Every kind that somebody can carry out there, alike, but for planted weaknesses."""
    return {
        kind: 1.0 for kind, fault in offers.kinds.items() if fault.family not in PLANTED and not offers.reasons(kind)
    }


def timeline(options: Options, offers: Offers) -> list[Drawn]:
    """The faults in the order in which they begin. Raises InvalidInput when there is nothing to draw."""
    weights = dict(options.weights) if options.weights is not None else default_weights(offers)
    for kind, weight in weights.items():
        if weight > 0 and (reasons := offers.reasons(kind)):
            raise InvalidInput(f"{kind} cannot be drawn: {reasons[0]}")
    kinds = [kind for kind, weight in weights.items() if weight > 0]
    if not kinds:
        raise InvalidInput("there is no kind of fault to draw: every weight is 0")
    rng = random.Random(f"nemesis:{options.seed}")
    shares = [weights[kind] for kind in kinds]
    examples = {name: load_topology(name) for name in {offers.kinds[kind].example_topology for kind in kinds}}
    made: list[Drawn] = []
    moment = 0.0
    while True:
        moment += rng.expovariate(float(options.rate))
        if moment >= float(options.duration):
            break
        begin = int(moment)
        for _ in range(TRIES):
            (kind,) = rng.choices(kinds, shares)
            end = begin + max(1, round(rng.uniform(float(options.hold[0]), float(options.hold[1]))))
            fault = offers.kinds[kind]
            if (drawn := _draw(fault, examples[fault.example_topology], options.topology, rng, offers)) is None:
                continue
            new = Drawn(begin, end, *drawn)
            if may_begin(made, new, options.topology, options.limits):
                made.append(replace(new, params=_with(new.params, {"name": f"n{len(made) + 1}"})))
                break
    if not made:
        raise InvalidInput(
            f"nothing was drawn in {options.duration.text} at {per_minute(options.rate)}: "
            "expected a longer time, a higher rate or another seed"
        )
    return made


def _draw(
    kind: type[FaultParams], made_for: Topology, topology: Topology, rng: random.Random, offers: Offers
) -> tuple[FaultParams, tuple[Hit, ...]] | None:
    """One of the kind's examples on this topology, with what it may hit, or None when it means nothing there."""
    example = rng.choice(kind.examples)
    renaming = _Renaming.draw(made_for, topology, rng)
    try:
        params = _settled(kind.model_validate(_renamed(example, kind, renaming)), topology, rng)
        return None if params.check(topology) else (params, hits(params, topology, offers))
    except (ChaosError, ValueError):  # pydantic's error is one
        return None


def may_begin(made: Sequence[Drawn], new: Drawn, topology: Topology, limits: Limits) -> bool:
    """Whether ``new``, which begins last, can be there beside the others for as long as it holds."""
    beside = [each for each in made if each.overlaps(new)]
    moments = [new.begin, *(each.begin for each in beside if each.begin > new.begin)]
    if any(sum(each.begin <= at < each.end for each in beside) >= limits.active for at in moments):
        return False
    held = frozenset().union(*(hit.claims for each in beside for hit in each.hits))
    if any(hit.claims & held for hit in new.hits):
        return False
    # what a fault took from the disks stays taken, and a node that comes back is not at once what it was
    settling = [each for each in made if each.params.lasting or each.end + SETTLING_SECONDS > new.begin]
    if not _provable(new, beside, settling, topology):
        return False
    cases = itertools.product(new.hits, *(each.hits for each in settling))
    return all(spared(topology, case, limits) for case in cases)


def _provable(new: Drawn, beside: Sequence[Drawn], settling: Sequence[Drawn], topology: Topology) -> bool:
    """Whether what the other faults do leaves something to prove each one's begin, hold and end on.

    What is not on links alone is looked at through a cluster with its manager before it begins; a node that comes
    back must reach the managers; and a link fault needs a link that nobody else holds and that no dead node ends.
    """
    managers = frozenset(node.name for node in topology.cluster_managers)
    if not all(hit.pairs for hit in new.hits):
        before = [each for each in settling if each.begin < new.begin]
        if any(hit.touches(managers) for each in before for hit in each.hits):
            return False
    for one, other in [*((new, each) for each in beside), *((each, new) for each in beside)]:
        if other.begin < one.end <= other.end and _cut_off(one, other, managers):
            return False
    begun = [each for each in beside if each.begin == new.begin]  # what begins together is looked at together
    every = (*beside, new)
    if not all(_has_a_free_link(one, [each for each in every if each is not one]) for one in (new, *begun)):
        return False
    # and each is looked at again right before its end
    return all(
        _has_a_free_link(one, [other for other in every if other is not one and other.begin < one.end <= other.end])
        for one in every
    )


def _has_a_free_link(one: Drawn, others: Sequence[Drawn]) -> bool:
    """True as well where it is on no links at all."""
    down = frozenset().union(*(hit.nodes for each in others for hit in each.hits))
    held = frozenset().union(*(hit.pairs for each in others for hit in each.hits))
    held |= {(b, a) for a, b in held}
    return all(
        not hit.pairs or any(pair not in held and not down & set(pair) for pair in hit.pairs) for hit in one.hits
    )


def _cut_off(one: Drawn, other: Drawn, managers: frozenset[str]) -> bool:
    """Whether links between a node of the one and a cluster manager may be hit by the other."""
    nodes = frozenset().union(*(hit.nodes for hit in one.hits))
    return any(link & nodes and link & managers for hit in other.hits for link in hit.links)


# ---- the plan as an experiment -------------------------------------------------------------------------


def phases(faults: Sequence[Drawn]) -> list[Phase]:
    """Consecutive phases from moments of begin and end; the last one undoes what ends last and waits for green."""
    moments = sorted({each.begin for each in faults} | {each.end for each in faults})
    made = [Phase(name="healthy", duration=Duration(HEALTHY_SECONDS + moments[0]))]
    for number, (at, until) in enumerate(itertools.pairwise(moments), 1):
        made.append(Phase(name=f"p{number}", duration=Duration(until - at), **_steps(faults, at)))
    waiting = Until(stable=STABLE, within=RECOVERED_WITHIN)
    return [*made, Phase(name="recovered", until=waiting, **_steps(faults, moments[-1]))]


def _steps(faults: Sequence[Drawn], at: int) -> dict[str, Any]:
    return {
        "undo": tuple(each.params.label for each in faults if each.end == at),
        "inject": tuple(each.params for each in faults if each.begin == at),
    }


def draw(options: Options, offers: Offers) -> Experiment:
    """The experiment that these options mean. Raises InvalidInput when there is nothing to draw."""
    faults = timeline(options, offers)
    planned = phases(faults)
    good = Duration.parse("1s")  # docs/objectives.md
    operations = tuple(
        Operation(
            name=kind.name,
            rate=options.load,
            good_within=options.good.get(kind.name, options.good.get("", good)),
            operation=kind.usual,
            writes=kind.writes,
        )
        for kind in USUAL
    )
    held = sum(float(phase.longest) for phase in planned)
    return Experiment(
        name=options.name or f"nemesis-{options.topology.name}-{options.seed}",
        description=f"{len(faults)} faults drawn with seed {options.seed}: nothing acknowledged may be lost, "
        "and the cluster must recover",
        tags=("nemesis",),
        seed=options.seed,
        file=Path("nemesis.yaml"),
        topology=options.topology,
        load=Load(operations=operations),
        phases=tuple(planned),
        expect=(
            _expected("cluster.recovered", "duration", f"<= {RECOVERED_WITHIN.text}", ("recovered",)),
            _expected("acknowledged.lost", "count", "0", ()),
        ),
        # proving each begin and end takes time that no phase counts
        guards=Guards(max=Duration(60 * (int(held + 60 * len(faults)) // 60 + 1))),
    )


def _expected(metric: str, unit: Any, wanted: str, where: tuple[str, ...]) -> Expectation:
    given = Comparison.parse(wanted, unit)
    return Expectation(
        metric=metric,
        op=None,
        quantity=metric,
        unit=unit,
        phases=where,
        comparison=given.comparison,
        value=given.value,
        text=f"{metric} {given.text}",
    )


def parse_weights(text: str, kinds: Mapping[str, type[FaultParams]]) -> dict[str, float]:
    """``node.kill=2,network.drop=1``. Raises InvalidInput."""
    weights: dict[str, float] = {}
    for part in text.split(","):
        kind, _, amount = part.strip().partition("=")
        if kind not in kinds:
            raise InvalidInput(f"--weights: there is no fault '{kind}': {did_you_mean(kind, kinds)}")
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", amount):
            raise InvalidInput(f"--weights: cannot read '{part}': expected for example {kind}=2")
        weights[kind] = float(amount)
    return weights


def parse_hold(text: str) -> tuple[Duration, Duration]:
    """``10s..30s``: how long a fault holds, at least and at most. Raises InvalidInput."""
    shortest, dots, longest = text.partition("..")
    both = Duration.parse(shortest), Duration.parse(longest if dots else shortest)
    if not 0 < both[0] <= both[1]:
        raise InvalidInput(f"--hold {text}: expected a time above 0, or two such as 10s..30s")
    return both


def text(options: Options, offers: Offers) -> str:
    """The definition, with the command that draws it again; the same options give the same bytes."""
    from chaos.definitions import writing

    comments = [f"drawn by: {options.command}", "run it:   opensearch-chaos run THIS_FILE"]
    return writing.experiment(draw(options, offers), options.named, comments)
