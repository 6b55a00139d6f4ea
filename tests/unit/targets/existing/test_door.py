"""One address for the whole cluster: a node's own questions, as any other node may be asked them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from chaos.base.access import PLAIN
from chaos.base.netsock import Endpoint
from chaos.opensearch import counters, views
from chaos.opensearch.rest import NodeClient
from chaos.targets.existing.door import PATIENCE, DoorClient, asked_of


@pytest.mark.parametrize(
    "path, asked",
    [
        (counters.PROCESS, counters.PROCESS.replace("_local", "es-1")),
        ("/_nodes/_local", "/_nodes/es-1"),
        ("/_nodes/_local?filter_path=x", "/_nodes/es-1?filter_path=x"),
        (
            "/load/_search?preference=_shards:3%7C_only_local&size=1",
            "/load/_search?preference=_shards:3%7C_only_nodes:es-1&size=1",
        ),
        ("/load/_search?size=1&preference=_only_local", "/load/_search?size=1&preference=_only_nodes:es-1"),
        (views.STATE, views.STATE.replace("local=true", PATIENCE)),
        ("/_cluster/health?level=shards&local=true", f"/_cluster/health?level=shards&{PATIENCE}"),
    ],
)
def test_what_a_node_would_say_of_itself_is_asked_for_by_its_name(path: str, asked: str) -> None:
    assert asked_of("es-1", path) == asked


@pytest.mark.parametrize(
    "path", ["/_locals/_doc/1", "/load/_doc/_only_local", "/_nodes/_locally", "/x?not_local=true", "/x?local=trueish"]
)
def test_what_only_looks_like_it_is_left_alone(path: str) -> None:
    assert asked_of("es-1", path) == path


def test_a_name_cannot_change_the_question() -> None:
    assert asked_of("a/../_cluster?x=1&y", "/_nodes/_local/stats?z=2") == (
        "/_nodes/a%2F..%2F_cluster%3Fx%3D1%26y/stats?z=2"
    )


@given(st.text(alphabet=st.characters(codec="ascii", exclude_characters="_?&=|"), max_size=30))
def test_a_path_that_means_no_one_is_as_it_was(path: str) -> None:
    assert asked_of("es-1", f"/{path}") == f"/{path}"


@pytest.mark.parametrize("ask", [NodeClient.request, NodeClient.fetch], ids=["request", "fetch"])
def test_a_client_asks_so_whether_the_answer_is_decoded_or_not(monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    """The read-back decodes answers itself, and reads the copy of the node that it means."""
    sent: list[str] = []

    def answer(self: Any, method: str, path: str, **_: Any) -> Any:
        sent.append(path)
        return SimpleNamespace(status=200, data=b"{}")

    monkeypatch.setattr(urllib3.HTTPConnectionPool, "request", answer)
    client = DoorClient(Endpoint("127.0.0.1", 9200), "es-1", access=PLAIN, timeout=1)
    method = getattr(client, ask.__name__)
    assert method("POST", "/load/_search?preference=_shards:3%7C_only_local", body={})[0] == 200
    assert sent == ["/load/_search?preference=_shards:3%7C_only_nodes:es-1"]
