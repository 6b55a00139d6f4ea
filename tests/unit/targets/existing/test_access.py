"""How a cluster that is not ours is spoken to: by one access, whose TLS context is made once."""

from __future__ import annotations

import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.base.access import Access, Whose
from chaos.base.addresses import Address
from chaos.targets.existing.target import ExistingTarget


def test_all_connections_share_one_access_and_its_context(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each context reads the system's CA certificates, which took longer than the question it was made for."""
    made: list[ssl.SSLContext] = []
    really = ssl.create_default_context

    def counted(*given: Any, **more: Any) -> ssl.SSLContext:
        made.append(really(*given, **more))
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    target = object.__new__(ExistingTarget)
    target.target = SimpleNamespace(bound=Access(tls=True, whose=Whose("u", "n")))  # type: ignore[assignment]
    target._addresses = dict.fromkeys("ab", Address(True, "127.0.0.1", 9200))
    contexts = {id(target.access_to(node).context) for node in ("a", "b", "door", "a")} | {id(target.access.context)}
    assert len(contexts) == len(made) == 1
    assert [target.access_to(node).whose for node in ("a", "door")] == [Whose("u", "n", "a"), Whose("u", "n")]
