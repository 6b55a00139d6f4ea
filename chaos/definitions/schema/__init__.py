"""The published JSON Schema of each kind of definition, for editors and other tools.

It is made from the models and committed beside this file; ``python -m chaos.registry``
writes it anew, and a test fails when it is not current. It accepts what the models accept; what only
a whole experiment with its topology can tell (unknown phases, zones, …) is left to loading.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from chaos.definitions.campaign import CampaignFile
from chaos.definitions.existing import ExistingFile
from chaos.definitions.gameday import GameDayFile
from chaos.definitions.grammar import Grammar
from chaos.definitions.topology import TopologyFile
from chaos.definitions.upstream import CaseFile
from chaos.definitions.workload import WorkloadFile

FOLDER = Path(__file__).parent
KINDS = ("experiment", "topology", "upstream", "existing", "gameday", "workload", "campaign")


def path_of(kind: str) -> Path:
    """Where the committed schema of a kind is."""
    return FOLDER / f"{kind}.v1.schema.json"


def schema_of(kind: str, grammar: Grammar) -> dict[str, Any]:
    """The schema of one of KINDS, made from its model. ``grammar``: what a file may name."""
    others: dict[str, type[BaseModel]] = {
        "topology": TopologyFile,
        "upstream": CaseFile,
        "existing": ExistingFile,
        "gameday": GameDayFile,
        "workload": WorkloadFile,
        "campaign": CampaignFile,
    }
    model = grammar.experiment_file if kind == "experiment" else others[kind]
    made = _tidy(model.model_json_schema(schema_generator=_Generate))
    assert isinstance(made, dict)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "title": f"opensearch-chaos {kind}, v1",
    }


def text_of(kind: str, grammar: Grammar) -> str:
    """The schema as its file holds it."""
    return json.dumps(schema_of(kind, grammar), indent=1, ensure_ascii=False) + "\n"


def write(grammar: Grammar) -> list[Path]:
    """Write all files; returns their paths."""
    for kind in KINDS:
        path_of(kind).write_text(text_of(kind, grammar), encoding="utf-8")
    return [path_of(kind) for kind in KINDS]


class _Generate(GenerateJsonSchema):
    """Writes defaults as a person would: ``15m``, not 900.0, which their own pattern would refuse."""

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        default = super().get_default_value(schema)
        return getattr(default, "text", default)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _tidy(part: Any) -> Any:
    """A key that may be left out is optional, and never null: a key without a value is an error."""
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    part = {key: _tidy(item) for key, item in part.items() if not (key == "default" and item is None)}
    if "patternProperties" in part:  # a mapping's keys: what does not match is refused, as loading does
        part.setdefault("additionalProperties", False)
    options = part.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        rest = [option for option in options if option != {"type": "null"}]
        del part["anyOf"]
        part = {**rest[0], **part} if len(rest) == 1 else {**part, "anyOf": rest}
    return part
