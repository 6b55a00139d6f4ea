"""Which process sends what, and several drivers' words as one; nothing is started."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from chaos.base import extras
from chaos.base.errors import MissingPrerequisite
from chaos.definitions.experiment import Load
from chaos.load import drivers
from chaos.load.config import (
    CasConfig,
    ClientConfig,
    ClientHost,
    ClosedConfig,
    DriverConfig,
    HelperConfig,
    OperationConfig,
    Target,
    VisibilityConfig,
)
from chaos.load.record import clients_of, share_of

READ = OperationConfig(name="read", kind="search", rate=10)
WRITE = OperationConfig(name="write", kind="bulk", rate=2, items=10)
BY_ASYNC = WRITE.model_copy(update={"helper": HelperConfig(kind="helpers.async_bulk")})


def config(*operations: OperationConfig, processes: int = 1, **more: object) -> DriverConfig:
    return DriverConfig(
        seed=1,
        out=Path("/run/history"),
        operations=operations,
        clients=(ClientHost(zone="a"),),
        targets=(Target(node="a-data", zone="a", host="127.0.0.1", port=1),),
        client=ClientConfig(kind="opensearch-py"),
        cas=CasConfig(rate=1, keys=1),
        visibility=VisibilityConfig(rate=1),
        processes=processes,
        **more,  # type: ignore[arg-type]
    )


def test_a_load_of_one_process_is_told_what_it_always_was() -> None:
    alone = config(READ, WRITE)
    assert drivers.parts(alone) == (alone,)
    assert not {"part", "processes"} & set(alone.model_dump(mode="json"))


def test_a_helper_in_asyncio_has_a_process_of_its_own_and_checks_on_data_stay_with_the_first() -> None:
    first, second = drivers.parts(config(READ, BY_ASYNC))
    assert (first.part.program, first.part.operations) == ("gevent", (0,))
    assert (second.part.program, second.part.operations) == ("asyncio", (1,))
    assert first.cas is not None and first.visibility is not None and first.out == Path("/run/history")
    assert second.cas is None and second.visibility is None and second.out == Path("/run/history/driver-asyncio")
    assert [share_of(each.part).process for each in (first, second)] == [0, 1]
    assert DriverConfig.model_validate(second.model_dump(mode="json")) == second


def test_processes_share_streams_and_clients_of_closed_loops() -> None:
    shares = drivers.parts(
        config(READ, closed=(ClosedConfig(name="write", kind="bulk", answer="bulk", clients=8, items=5),), processes=3)
    )
    assert [each.part.name for each in shares] == ["", "driver-1", "driver-2"]
    assert [clients_of(share_of(each.part), 1, 8) for each in shares] == [3, 3, 2]
    assert [each.cas is not None for each in shares] == [True, False, False]
    of_both = drivers.parts(config(READ, BY_ASYNC, processes=2))
    assert [(each.part.program, each.part.of) for each in of_both] == [("gevent", 2), ("gevent", 2), ("asyncio", 1)]
    assert {each.part.processes for each in of_both} == {3}


@pytest.mark.parametrize(
    ("kind", "operations", "patience_s", "at_once"),
    [
        ("load-balancer", ((READ, 400), (WRITE, 200)), 5, 3600),
        ("opensearch-py", ((READ, 400), (WRITE, 200)), 20, 4 * 3600),
        ("load-balancer", ((READ, 400), (BY_ASYNC, 200)), 20, 2400 + 4 * 1200),  # a helper has the library's client
        ("opensearch-py", ((READ, 10), (WRITE, 2)), 20, 2000),
    ],
)
def test_there_is_room_for_as_many_requests_as_can_wait_for_all_their_attempts(
    kind: str, operations: tuple[tuple[OperationConfig, float], ...], patience_s: float, at_once: int
) -> None:
    given = config(*(operation.model_copy(update={"rate": float(rate)}) for operation, rate in operations))
    given = given.model_copy(update={"client": ClientConfig.model_validate({"kind": kind, "timeout_s": 5})})
    waits = sum(math.ceil(rate * each.helper.longest_s(each.items)) for each, rate in operations if each.helper)
    assert (given.patience_s, given.at_once) == (patience_s, at_once + waits)
    assert given.model_copy(update={"pool": 7}).at_once == 7 + waits


def said(t: int, ok: int, p99: float | None, lag: float | None, cpu: float) -> dict[str, object]:
    figures = {"ok": ok, "bad": 1, "good": ok, "waiting": 2, "p50_ms": p99, "p99_ms": p99}
    counts = dict.fromkeys(drivers.SUMS, 1)
    return {"t": t, "cpu": cpu, "lag_p99_ms": lag, "in_use": {}, **counts, "operations": {"write": figures}}


def test_counts_of_several_are_added_and_of_the_rest_the_worst_stands() -> None:
    word = drivers.merged([said(5, 10, 3.0, None, 0.2), said(4, 20, None, 7.0, 0.9)])
    assert (word["t"], word["newest"], word["cpu"], word["lag_p99_ms"], word["sent_total"]) == (4, 5, 0.9, 7.0, 2)
    assert word["operations"] == {"write": {"ok": 30, "bad": 2, "good": 30, "waiting": 4, "p50_ms": 3.0, "p99_ms": 3.0}}
    assert drivers.merged([said(5, 10, 3.0, 1.0, 0.2), {}]) == {}  # one has not spoken yet


def test_what_any_of_several_was_told_stands_in_their_words() -> None:
    gone, refused = ["write", 404, "index_not_found_exception", None, 17], ["write", 429, "rejected", None, 3]
    quiet, one, other = (said(t, 10, 3.0, 1.0, 0.2) for t in (5, 6, 7))
    one["errors"], other["errors"] = [gone], [refused]
    assert drivers.merged([quiet, one, other])["errors"] == [gone, refused]
    assert drivers.merged([one, quiet])["errors"] == [gone]
    assert "errors" not in drivers.merged([quiet, quiet])


def test_a_package_that_is_missing_is_said_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    write = {"name": "write", "rate": "1/s", "good_within": "1s", "operation": "bulk", "items": 5}
    plain = Load.model_validate({"write": write})
    load = Load.model_validate({"write": {**write, "client": {"kind": "helpers.async_bulk"}}})
    drivers.need_package(load)
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingPrerequisite, match=r"helper of load\.write needs the Python package aiohttp") as raised:
        drivers.need_package(load)
    assert raised.value.remedy == "pip install 'opensearch-chaos[async]'"
    drivers.need_package(plain)
