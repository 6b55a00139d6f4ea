"""What a run asks of a cluster before its load begins: of a lab more than of a cluster of others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from chaos.run import loading


@pytest.mark.parametrize(("there", "asked"), [(None, 1), (object(), 0)], ids=["a lab", "a cluster of others"])
def test_only_a_lab_is_told_to_try_again_where_allocation_gave_up(
    there: Any, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[Any, ...]] = []
    monkeypatch.setattr(loading, "administer", lambda *what: requests.append(what))
    run: Any = SimpleNamespace(there=there, lab="lab")
    loading.Loading.allocate_again(run)
    assert requests == [("lab", "POST", "/_cluster/reroute?retry_failed=true&metric=none")] * asked
