"""Templates that show nothing but text: others had a say in most of what a page shows."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment

from chaos.base import text


def keep_clean(environment: Environment) -> Environment:
    """Let :func:`chaos.base.text.clean` pass whatever an expression shows, in a script's data too."""
    environment.finalize = lambda value: text.clean(value) if type(value) is str else value
    environment.policies["json.dumps_function"] = _json
    return environment


def _json(value: Any, **given: Any) -> str:
    return text.clean(json.dumps(value, ensure_ascii=False, **given))
