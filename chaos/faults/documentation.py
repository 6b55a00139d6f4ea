"""What the catalogue says of itself: for ``opensearch-chaos faults`` and for ``docs/faults.md``, from one source.

Everything here is read from the kinds' classes (docstring, fields, class variables) and from what providers offer of
them. What a lab can do on this machine is asked of the lab's kind, without starting one; it is no part of the
documentation, which is the same everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from chaos.definitions.selectors import LinkSelector, NodeSelector
from chaos.definitions.steps import FaultParams
from chaos.definitions.writing import flow
from chaos.faults.offers import Providers
from chaos.targets.kind import TargetKind
from chaos.targets.labs import kinds as targets
from chaos.targets.protocol import CAPABILITIES

FILE = Path(__file__).parents[2] / "docs" / "faults.md"
COMMAND = "opensearch-chaos faults --markdown"
CLOCKS = (
    "Skew of clocks is left out: OpenSearch's coordination uses monotonic time, and one kernel has one clock "
    "for all nodes of a lab."
)
NOBODY = "none yet, so no target can have it"
EVERY = ("name", "as_")
"""Parameters that every kind takes: said once."""


@dataclass(frozen=True)
class Parameter:
    """One parameter, as a definition writes it. ``default`` is None where it must be given."""

    name: str
    says: str
    required: bool
    default: str | None


@dataclass(frozen=True)
class Way:
    """How one provider carries a kind out."""

    provider: str
    mechanism: str
    undoing: str
    needs: tuple[str, ...]
    proof: str = ""
    """Where it is not the kind's own."""
    differs: str = ""
    """How what it does differs from what the kind says; empty: it is exact."""


@dataclass(frozen=True)
class Described:
    """One kind of fault, described. ``ways``: of its providers, the one that is preferred first."""

    kind: str
    family: str
    says: str
    parameters: tuple[Parameter, ...]
    ways: tuple[Way, ...]
    proof: str
    holding: str
    lasting: bool
    examples: tuple[str, ...]
    example_topology: str

    def to_json(self, reasons: list[str]) -> dict[str, Any]:
        """``reasons``: why it cannot be had here; empty where it can. Of the first way, which there may not be."""
        way = self.ways[0] if self.ways else Way("", "", "", ())
        return {
            "kind": self.kind,
            "family": self.family,
            "says": self.says,
            "parameters": [
                {"name": each.name, "says": each.says, "required": each.required, "default": each.default}
                for each in self.parameters
            ],
            "needs": {need: CAPABILITIES.get(need, need) for need in way.needs},
            "mechanism": way.mechanism,
            "proof": self.proof,
            "holding": self.holding,
            "undo": way.undoing,
            "providers": [way.provider for way in self.ways],
            "lasting": self.lasting,
            "examples": list(self.examples),
            "example_topology": self.example_topology,
            "available": not reasons,
            "reasons": reasons,
        }


def described(fault: type[FaultParams], providers: Providers) -> Described:
    """A kind from its class, with its ways."""
    return Described(
        kind=fault.kind,
        family=fault.family,
        says=" ".join((fault.__doc__ or "").strip().partition("\n\n")[0].split()),
        parameters=tuple(_parameters(fault)),
        ways=tuple(
            Way(offer.provider, offer.mechanism, offer.undoing, offer.needs, offer.proof, offer.differs)
            for offer in providers.of(fault.kind)
        ),
        proof=fault.proof,
        holding=fault.holding,
        lasting=fault.lasting,
        examples=tuple(f"{fault.kind}: {flow(example)}" for example in fault.examples),
        example_topology=fault.example_topology,
    )


def catalogue(providers: Providers) -> dict[str, list[Described]]:
    """Every kind by family, in the catalogue's order."""
    families: dict[str, list[Described]] = {}
    for fault in providers.kinds.values():
        families.setdefault(fault.family, []).append(described(fault, providers))
    return families


# ---- by target -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """Whom a fault is made on, and by whom. ``provider`` None: by any."""

    title: str
    target: TargetKind
    provider: str | None = None


def columns(providers: Providers) -> list[Column]:
    """Our labs, and a cluster that exists by each provider that it may have."""
    local, docker, existing = (targets.named(name) for name in ("local", "docker", "existing"))
    names = [*existing.order, *(each.name for each in providers.all if each.of_others)]
    return [
        Column("local lab", local),
        Column("docker lab", docker),
        *(Column(f"`{name}`", existing, name) for name in dict.fromkeys(names)),
    ]


def fidelity(kind: str, column: Column, providers: Providers) -> str:
    """``exact`` or ``approximate``, in labs with the provider that is taken; ``not`` where nobody can.

    Of what such a target can have at most: on a machine that has everything, with a file that names everything.
    """
    if kind in column.target.refused:
        return "not"
    found = [
        offer
        for offer in providers.of(kind, column.target.order)
        if column.provider in (None, offer.provider) and not column.target.never & set(offer.needs)
    ]
    if not found:
        return "not"
    best = min(found, key=lambda offer: bool(offer.differs))
    by = f" (`{best.provider}`)" if column.provider is None else ""
    return ("approximate" if best.differs else "exact") + by


def _parameters(model: type[BaseModel], prefix: str = "") -> Iterator[Parameter]:
    for name, field in model.model_fields.items():
        if name in EVERY and not prefix:
            continue
        written = f"{prefix}{field.alias or name}"
        yield Parameter(written, _says(field), field.is_required(), _default(field))
        for part in _models(field.annotation):
            yield from _parameters(part, f"{written}.")


def _says(field: FieldInfo) -> str:
    return field.description or ""


def _default(field: FieldInfo) -> str | None:
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True, validated_data={})
    return None if value is None else flow(value)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models with parameters of their own that a field may hold; selectors are sentences and have none."""
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel) and not issubclass(annotation, NodeSelector | LinkSelector):
            yield annotation
        return
    for part in get_args(annotation):
        yield from _models(part)


# ---- as text -------------------------------------------------------------------------------------------


def text(
    unavailable: Mapping[str, list[str]], providers: Providers, chosen: Container[str] | None = None
) -> Iterator[str]:
    """Lines for people. ``unavailable``: kind → why it cannot be had here, for those that cannot; ``chosen``: the kinds
    that are asked about, with their examples; None: all."""
    for family, every in catalogue(providers).items():
        kinds = [each for each in every if chosen is None or each.kind in chosen]
        if not kinds:
            continue
        yield family
        for kind in kinds:
            why = unavailable.get(kind.kind)
            yield f"  {kind.kind}   {kind.says}"
            for each in kind.parameters:
                yield f"    {each.name}{_must(each)}: {each.says}"
            yield f"    proof: {kind.proof}"
            yield f"    until its undo: {kind.holding}"
            for way in kind.ways:
                yield f"    provider: {way.provider}"
                yield f"    mechanism: {way.mechanism}"
                if way.differs and way.differs not in way.mechanism:
                    yield f"    approximate: {way.differs}"
                if way.proof:
                    yield f"    its proof: {way.proof}"
                yield f"    undo: {way.undoing}{'; what it does to data stays' if kind.lasting else ''}"
                yield f"    needs: {_needs(way)}"
            if not kind.ways:
                yield f"    provider: {NOBODY}"
            for example in kind.examples if chosen is not None else ():
                yield f"    example: {example}"
            yield f"    here: {'not available: ' + '; '.join(why) if why else 'available'}"
        yield ""
    yield f"Every kind takes name: {_says(FaultParams.model_fields['name'])}."
    yield f"And as: {_says(FaultParams.model_fields['as_'])}."
    if chosen is None:
        yield CLOCKS


def _must(parameter: Parameter) -> str:
    if parameter.required:
        return " (required)"
    return f" (default {parameter.default})" if parameter.default is not None else ""


def _needs(way: Way) -> str:
    return "; ".join(f"{need} ({CAPABILITIES.get(need, need)})" for need in way.needs) or "a cluster that answers"


# ---- as the page ---------------------------------------------------------------------------------------


def markdown(providers: Providers) -> str:
    """The content of docs/faults.md."""
    return "\n".join(_page(providers)) + "\n"


def _page(providers: Providers) -> Iterator[str]:
    families = catalogue(providers)
    yield "# The catalogue of faults"
    yield ""
    yield f"Made by `{COMMAND}` from the code; a test fails when it is not current."
    yield "What this machine can do of it: `opensearch-chaos faults`."
    yield ""
    yield f"Every kind takes `name`: {_says(FaultParams.model_fields['name'])}."
    yield f"And `as`: {_says(FaultParams.model_fields['as_'])}."
    yield ""
    yield CLOCKS
    yield ""
    yield "| family | kinds |"
    yield "|---|---|"
    for family, kinds in families.items():
        anchors = {kind.kind: kind.kind.replace(".", "") for kind in kinds}
        yield f"| {family} | {', '.join(f'[{name}](#{anchor})' for name, anchor in anchors.items())} |"
    yield ""
    yield "## By provider"
    yield ""
    yield "What labs can have, and a cluster that exists (`--on FILE`) by each provider, at most: on a machine that has"
    yield "what it needs, with a file that names what it needs. *Exact*: what the kind says. *Approximate*: how it"
    yield "differs stands with the kind below. *Not*: nobody can, or it is not offered; [why not by FIS](fis.md)."
    yield ""
    shown = columns(providers)
    yield f"| kind | {' | '.join(each.title for each in shown)} |"
    yield f"|---|{'---|' * len(shown)}"
    for kinds in families.values():
        for kind in kinds:
            cells = [fidelity(kind.kind, each, providers) for each in shown]
            yield f"| {kind.kind} | {' | '.join(cells)} |"
    yield ""
    yield "What each provider is:"
    yield ""
    for provider in providers.all:
        yield f"* `{provider.name}`: {provider.says}"
    for family, kinds in families.items():
        yield ""
        yield f"## {family[:1].upper()}{family[1:]}"
        for kind in kinds:
            yield ""
            yield from _section(kind)


def _section(kind: Described) -> Iterator[str]:
    yield f"### {kind.kind}"
    yield ""
    yield kind.says
    yield ""
    yield "| parameter | what | default |"
    yield "|---|---|---|"
    for each in kind.parameters:
        default = "required" if each.required else f"`{each.default}`" if each.default is not None else ""
        yield f"| `{each.name}` | {_cell(each.says)} | {_cell(default)} |"
    yield ""
    yield f"- Proof: {kind.proof}"
    yield f"- Until its undo: {kind.holding}"
    for way in kind.ways:
        yield f"- Provider `{way.provider}`"
        yield f"    - Mechanism: {way.mechanism}"
        if way.differs and way.differs not in way.mechanism:
            yield f"    - Approximate: {way.differs}"
        if way.proof:
            yield f"    - Its proof: {way.proof}"
        yield f"    - Undo: {way.undoing}{'. What it does to data stays.' if kind.lasting else ''}"
        yield f"    - Needs: {_needs(way)}"
    if not kind.ways:
        yield f"- Provider: {NOBODY}"
    yield ""
    yield f"Examples, on the topology {kind.example_topology}:"
    yield ""
    yield "```yaml"
    yield from kind.examples
    yield "```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def as_json(
    topology: str | None,
    unavailable: Mapping[str, list[str]],
    providers: Providers,
    chosen: Container[str] | None = None,
) -> str:
    """The catalogue with its availability, as JSON. ``chosen``: the kinds that are asked about; None: all."""
    every = [kind for family in catalogue(providers).values() for kind in family]
    kinds = [kind for kind in every if chosen is None or kind.kind in chosen]
    listed = [kind.to_json(unavailable.get(kind.kind, [])) for kind in kinds]
    return json.dumps({"topology": topology, "faults": listed, "left_out": [CLOCKS]}, indent=1, ensure_ascii=False)
