"""Asking a Prometheus: what counts as a value, and everything that does not. The servers are real, on loopback."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from promlike import Promlike, error, promlike, vector

from chaos.base.errors import InvalidInput
from chaos.definitions import load_topology
from chaos.definitions.experiment import Experiment
from chaos.definitions.slis import Sli
from chaos.history.reader import History
from chaos.instruments.slis import Slis, refuse_unready
from chaos.opensearch.prometheus import Answer, Asker, read
from chaos.registry import load_experiment
from chaos.targets import security
from chaos.targets.labs.processes import wait_until
from chaos.targets.wiring import Wiring

HERE = Path()
EXPERIMENT = """\
apiVersion: opensearch-chaos/v1
name: with-slis
topology: 3az-standby
load: {read: {rate: 10/s, good: ok within 1s}}
slis: {errors: {prometheus: 'URL', query: q, every: 1s, oldest: 30s MORE}}
phases: {healthy: {for: 30s}}
expect: [{sli.errors.max: "< 1%"}]
guards: {GUARD max: 8m}
"""


def sli(url: str, **more: Any) -> Sli:
    return Sli.model_validate({"prometheus": url, "query": "q", "every": "1s", **more})


def asked(server: Promlike, **more: Any) -> Answer:
    asker = Asker(sli(server.url, **more), HERE)
    try:
        return asker.ask()
    finally:
        asker.close()


def experiment(url: str, tmp_path: Path, more: str = "", guard: str = "") -> Experiment:
    file = tmp_path / "with-slis.yaml"
    file.write_text(EXPERIMENT.replace("URL", url).replace("MORE", more).replace("GUARD", guard))
    return load_experiment(file)


GUARD = "sli: {errors: {above: 5%, for: 10s}},"


def of(kind: str, result: Any, **more: Any) -> tuple[int, Any]:
    return 200, {"status": "success", "data": {"resultType": kind, "result": result}, **more}


# ------------------------------------------------------------------------------------------ one answer


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (of("scalar", [1700000000.5, "0.25"]), 0.25),
        (vector(0.5, at=1700000000.5), 0.5),
        (of("scalar", [1700000000.5, "-3"]), -3.0),
        (of("scalar", [1700000000.5, "1"], warnings=["PromQL info: metric might not be a counter"]), 1.0),
        (of("scalar", [1700000000.5, "1"], infos=["PromQL info: metric might not be a counter"]), 1.0),
    ],
)
def test_one_number_counts(reply: tuple[int, Any], value: float) -> None:
    found = read(*reply)
    assert (found.value, found.at, found.why) == (value, 1700000000.5, None)


@pytest.mark.parametrize(
    ("reply", "why", "wrong"),
    [
        (vector(), "no series", False),
        (vector(1, 2), "the answer has 2 series, and one number was expected", True),
        (of("string", [1.0, "abc"]), "the answer is a string: expected a scalar", True),
        (of("matrix", [{"metric": {}, "values": []}]), "the answer is a matrix", True),
        (of("vector", [{"metric": {}, "histogram": [1.0, {}]}]), "the answer is a histogram", True),
        (of("scalar", [1.0, "NaN"]), "the value is NaN", False),
        (of("scalar", [1.0, "+Inf"]), "the value is +Inf", False),
        (of("scalar", [1.0, "much"]), "its answer cannot be read", False),
        (of("scalar", "0.25"), "its answer cannot be read", False),
        (of("scalar", [1.0, "1"], warnings=["a store did not answer"]), "it warns that the answer may not be", False),
        (error(400, "parse error"), "the query is refused", True),
        (error(422, "many-to-many matching"), "the query is refused", True),
        (error(401, "who?"), "this user is refused (401)", False),
        (error(503, "query timed out"), "it answers 503", False),
        ((302, "elsewhere"), "it sends elsewhere (302)", False),
        ((200, {"status": "error", "error": "no"}), "it answers with an error", False),
        ((200, {}), "its answer cannot be read", False),
        ((200, None), "its answer cannot be read", False),
        ((200, [1]), "its answer cannot be read", False),
        ((500, None), "it answers 500", False),
    ],
)
def test_everything_else_is_no_data_and_says_why(reply: tuple[int, Any], why: str, wrong: bool) -> None:
    found = read(*reply)
    assert found.value is None and found.why is not None and found.why.startswith(why)
    assert found.wrong is wrong


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.sampled_from(["success", "vector", "scalar", "NaN", "1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "value", "metric"]), inner)
    ),
    max_leaves=12,
)


@given(st.sampled_from([200, 204, 302, 400, 404, 500]), anything)
def test_whatever_comes_is_a_finite_number_or_a_reason(status: int, body: Any) -> None:
    found = read(status, body)
    assert (found.value is None) is (found.why is not None)


# --------------------------------------------------------------------------------------------- servers


def test_it_is_told_how_far_to_look_back_and_when_to_give_up() -> None:
    with promlike(lambda it, params: vector(0.5)) as server:
        found = asked(server, oldest="30s", prometheus=f"{server.url}/mimir")
    assert found.value == 0.5
    path, params, _ = server.asked[0]
    assert (path, params["query"], params["lookback_delta"]) == ("/mimir/api/v1/query", "q", "30")
    assert 0 < float(params["timeout"]) <= 1


def test_one_that_ignores_how_far_to_look_back_must_be_asked_how_old_its_data_is() -> None:
    def reply(it: Promlike, params: dict[str, str]) -> tuple[int, Any]:
        return vector({"q": 0.5, "young": 4, "old": 61, "nan": "NaN"}[params["query"]])

    with promlike(reply, looks_back=False) as server:
        assert asked(server).why == "nobody knows how old its data is: it goes by no lookback_delta"
        assert asked(server, fresh="young").value == 0.5
        stale = asked(server, fresh="old")
        assert (stale.value, stale.why, stale.said) == (None, "its data is older than 1m", "61 s")
        assert asked(server, fresh="nan").why == "nobody knows how old its data is: the value is NaN"
    with promlike(reply) as server:  # and where it is asked for, it counts anyhow
        assert asked(server).value == 0.5
        assert asked(server, fresh="old").value is None


@pytest.mark.parametrize(
    ("off", "why"),
    [
        (-60.0, None),
        (-61.0, "it was evaluated 61 s ago: its clock or ours is wrong, or a cache answers"),
        (60.0, None),
        (61.0, "it was evaluated 61 s from now: its clock or ours is wrong, or a cache answers"),
    ],
)
def test_an_answer_is_of_now_by_the_server_s_own_clock(off: float, why: str | None) -> None:
    with promlike(lambda it, params: vector(0.5, at=1700000000.0 + off)) as server:
        asker = Asker(sli(server.url), HERE, clock=lambda: 1700000000.0)
        found = asker.ask()
        asker.close()
    assert (found.value, found.why) == ((0.5, None) if why is None else (None, why))


def test_a_guard_s_prometheus_of_another_time_is_refused_before_the_run(tmp_path: Path) -> None:
    with (
        promlike(lambda it, params: vector(0.5, at=time.time() - 3600)) as server,
        pytest.raises(InvalidInput, match=r"it was evaluated 36.* a guard that has no data cannot be evaluated"),
    ):
        refuse_unready(experiment(server.url, tmp_path, guard=GUARD))


def test_the_same_answer_again_is_none() -> None:
    with promlike(lambda it, params: vector(0.5, at=1700000000.0)) as server:
        asker = Asker(sli(server.url), HERE, clock=lambda: 1700000030.0)
        assert asker.ask().value == 0.5
        assert asker.ask().why == "the same answer as before, evaluated at the same moment"
        asker.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (lambda it, params: (200, None), "no answer in time"),
        (lambda it, params: (200, b"<html>"), "its answer is no JSON of a Prometheus"),
        (lambda it, params: (200, b"[]"), "its answer is no JSON of a Prometheus"),
        (lambda it, params: (302, b""), "it sends elsewhere (302), and redirects are not followed"),
    ],
)
def test_a_server_that_is_slow_or_no_prometheus_gives_no_data(reply: Any, why: str) -> None:
    with promlike(reply) as server:
        assert asked(server).why == why


def test_a_dead_server_gives_no_data() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    asker = Asker(sli(url), HERE)
    found = asker.ask()
    asker.close()
    assert found.value is None and found.why == "it cannot be reached" and "refused" in str(found.said)


def test_it_says_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROM_TOKEN", "s3cret")
    (tmp_path / "password").write_text("pass\n")
    with promlike(lambda it, params: vector(1)) as server:
        for access in ({"token": "env:PROM_TOKEN"}, {"user": "me", "password": "file:password"}):
            Asker(sli(server.url, access=access), tmp_path).ask()
        assert server.asked[0][2]["authorization"] == "Bearer s3cret"
        assert server.asked[-1][2]["authorization"] == "Basic bWU6cGFzcw=="
        monkeypatch.delenv("PROM_TOKEN")
        with pytest.raises(InvalidInput, match="the environment has no PROM_TOKEN"):
            Asker(sli(server.url, access={"token": "env:PROM_TOKEN"}), tmp_path)


def test_over_tls_it_is_asked_only_where_its_certificate_holds(tmp_path: Path) -> None:
    topology = load_topology("3az-secure")
    security.make(tmp_path, Wiring.of("t", topology.nodes, topology.zones))
    folder = tmp_path / security.FOLDER
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "c-data" / "node.pem", folder / "c-data" / "node-key.pem")
    with promlike(lambda it, params: vector(0.5), tls=context) as server:
        asker = Asker(sli(server.url, access={"ca": "ca.pem"}), folder)
        assert asker.ask().value == 0.5
        asker.close()
        stranger = asked(server)
        assert stranger.value is None and stranger.why == "its certificate is not trusted"
    with pytest.raises(InvalidInput, match=r"cannot use .*nowhere\.pem as CA certificates"):
        Asker(sli(server.url, access={"ca": "nowhere.pem"}), folder)


# ---------------------------------------------------------------------------------- before the start


@pytest.mark.parametrize(
    ("reply", "looks_back", "says"),
    [
        (lambda it, params: error(400, 'parse error: unclosed "("'), True, "the query is refused: parse error: unclo"),
        (lambda it, params: vector(1, 2), True, "the answer has 2 series, and one number was expected"),
        (lambda it, params: of("string", [1.0, "x"]), True, "the answer is a string"),
        (lambda it, params: (200, None), True, "no answer in time"),
        (lambda it, params: error(403, "no"), True, "this user is refused (403)"),
        (lambda it, params: vector(1), False, "it goes by no lookback_delta, so nobody knows how old its data is"),
    ],
)
def test_what_cannot_be_had_is_refused_before_anything_is_started(
    reply: Any, looks_back: bool, says: str, tmp_path: Path
) -> None:
    with promlike(reply, looks_back=looks_back) as server, pytest.raises(InvalidInput) as caught:
        refuse_unready(experiment(server.url, tmp_path))
    assert f"the SLI errors ({server.url}): {says}" in str(caught.value)
    assert int(caught.value.exit_code) == 2


def test_no_data_yet_is_said_and_refused_where_a_guard_needs_it(tmp_path: Path) -> None:
    lines: list[str] = []

    class Says:
        line = staticmethod(lines.append)

    with promlike(lambda it, params: vector()) as server:
        refuse_unready(experiment(server.url, tmp_path), Says())  # type: ignore[arg-type]
        assert lines == ["no data yet for the SLI errors: no series"]
        with pytest.raises(InvalidInput, match="a guard that has no data cannot be evaluated"):
            refuse_unready(experiment(server.url, tmp_path, guard=GUARD))


def test_one_that_answers_is_taken(tmp_path: Path) -> None:
    with promlike(lambda it, params: vector(0.001)) as server:
        refuse_unready(experiment(server.url, tmp_path, guard=GUARD))
    with promlike(lambda it, params: vector(0.001), looks_back=False) as server:
        refuse_unready(experiment(server.url, tmp_path, more=", fresh: age"))


# ---------------------------------------------------------------------------------------- the sampler


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return History(folder).lines("slis.jsonl")


def test_every_answer_is_written_with_its_moments_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROM_TOKEN", "s3cret")
    replies: list[Callable[[], tuple[int, Any]]] = [lambda: vector(0.5), vector]
    with promlike(lambda it, params: replies.pop(0)() if replies else vector(0.25)) as server:
        given_ = experiment(server.url, tmp_path, more=", access: {token: 'env:PROM_TOKEN'}")
        slis = Slis(given_, tmp_path / "history", lambda says: None)
        slis.start()
        assert wait_until(lambda: (slis.said("errors") or Answer()).value == 0.25, 20.0)
        slis.stop()
        slis.stop()
    first, second, third = lines_of(tmp_path)[:3]
    assert (first["kind"], first["name"], first["value"]) == ("sli", "errors", 0.5)
    assert isinstance(first["at"], float) and first["took_ms"] >= 0
    assert second["value"] is None and second["why"] == "no series" and second["said"] is None
    assert third["value"] == 0.25 and third["t"] > second["t"] > first["t"]
    assert "s3cret" not in (tmp_path / "history" / "slis.jsonl").read_text() + json.dumps(given_.to_json())


def test_a_failure_of_ours_is_no_data_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asker, "ask", lambda self: 1 / 0)
    slis = Slis(experiment("http://127.0.0.1:1", tmp_path), tmp_path / "history", lambda says: None)
    slis.start()
    assert wait_until(lambda: slis.said("errors") is not None, 20.0)
    slis.stop()
    assert lines_of(tmp_path)[0]["why"] == "asking failed: ZeroDivisionError"


def test_an_answer_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "slis.jsonl").symlink_to("/dev/full")
    told: list[str] = []
    with promlike(lambda it, params: vector(1)) as server:
        slis = Slis(experiment(server.url, tmp_path), tmp_path / "history", told.append)
        slis.start()
        assert wait_until(lambda: bool(told), 20.0)
        slis.stop()
    assert "slis.jsonl" in told[0]


def test_without_slis_nobody_is_asked_and_nothing_is_written(tmp_path: Path) -> None:
    given_ = experiment("http://127.0.0.1:1", tmp_path).model_copy(update={"slis": {}})
    slis = Slis(given_, tmp_path / "history", lambda says: None)
    slis.start()
    slis.stop()
    refuse_unready(given_)
    assert not (tmp_path / "history").exists()
