"""What every model of a definition shares: immutable, strict about unknown keys, and short to write."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler
from pydantic_core import core_schema

API_VERSION = "opensearch-chaos/v1"


class Strict(BaseModel):
    """Frozen; an unknown key is an error; fields may be given by their YAML alias or Python name."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


def replaced(handler: GetJsonSchemaHandler, schema: core_schema.CoreSchema, by: dict[str, Any]) -> dict[str, Any]:
    """Publish ``by`` as a model's JSON Schema, under the one name that all its uses refer to."""
    reference = handler(schema)
    target = handler.resolve_ref_schema(reference)
    target.clear()
    target.update(by)
    return reference


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class _OneOrMoreSchema:
    """Publishes "a T, or a list of T" instead of pydantic's "a list of T"."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        listed = handler(schema)
        return {"anyOf": [listed["items"], {"type": "array", "items": listed["items"], "minItems": 1}]}


T = TypeVar("T")
OneOrMore = Annotated[tuple[T, ...], BeforeValidator(_as_list), _OneOrMoreSchema]
"""``x`` or ``[x, y]`` in YAML, always a tuple in Python."""
Setting = Annotated[str, Field(pattern=r"^[a-z][a-zA-Z0-9_.-]*$")]
"""The full name of one setting, such as cluster.routing.allocation.enable."""
