"""What a worker of Dask is told: it means the same runs there, or it is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import campaignkit as kit
import pytest

import chaos
from chaos.base.errors import Exit, InvalidInput
from chaos.campaign import code, dask_worker
from chaos.campaign.dask_order import Answer, Order, Token, Unfit
from chaos.campaign.dask_watch import Watch
from chaos.registry import GRAMMAR


def order(folder: Path, **more: Any) -> Order:
    file = kit.write_campaign(folder, folder / "store", 2, lost=3)
    file.write_text(file.read_text().replace("machines: 9", "machines: 9, wall: 2h, artifacts: 3MiB"))
    matrix = kit.matrix_of(file)
    given = {"store": str(folder / "store"), "token": Token("probes/session-x", "secret"), "session": "x", "out": "out"}
    return Order(replace(matrix, cells=matrix.cells[:2]), **{**given, **more})


def sent(given: Order) -> Any:
    return json.loads(json.dumps(given.to_json()))


def test_an_order_means_the_same_cells_there(tmp_path: Path) -> None:
    made = order(tmp_path, until=17.5, keep=True, expected={"k": 3.0})
    read = Order.from_json(sent(made), GRAMMAR.experiment)
    assert [cell.key for cell in read.cells] == [cell.key for cell in made.cells]
    assert [cell.name for cell in read.cells] == [cell.name for cell in made.cells]
    assert [cell.spec("f").to_json() for cell in read.cells] == [cell.spec("f").to_json() for cell in made.cells]
    assert read.matrix.campaign.file == made.matrix.campaign.file
    assert read.matrix.file.retry == made.matrix.file.retry and read.matrix.file.retry.lost == 3
    assert int(read.matrix.file.budget.artifacts) == 3 * 2**20
    assert read.matrix.file.budget.wall is None  # the client's clock counts: `until`
    assert (read.until, read.keep, read.expected, read.token) == (17.5, True, {"k": 3.0}, made.token)


def test_a_campaign_with_seeds_is_told_too(tmp_path: Path) -> None:
    made = order(tmp_path)
    file = tmp_path / "stand-in.yaml"
    file.write_text(file.read_text().replace("repeats: 2", "seeds: [4, 9]"))
    matrix = kit.matrix_of(file)
    read = Order.from_json(sent(replace(made, matrix=matrix)), GRAMMAR.experiment)
    assert [cell.key for cell in read.cells] == [cell.key for cell in matrix.cells]


def test_another_version_of_the_suite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sent(order(tmp_path))
    monkeypatch.setattr(chaos, "__version__", "0.0.1")
    with pytest.raises(InvalidInput, match=r"opensearch-chaos is another there: .* this one's 0\.0\.1 with rules"):
        Order.from_json(data, GRAMMAR.experiment)


def test_other_code_of_the_same_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = sent(order(tmp_path))
    monkeypatch.setattr(code, "digest", lambda: "0123456789abcdef")
    with pytest.raises(InvalidInput, match=r"another there: .* this one's .* and the code 0123456789abcdef"):
        Order.from_json(data, GRAMMAR.experiment)


def test_the_watch_asks_for_all_workers() -> None:
    """By default some versions of Dask tell of five: the others would be given nothing, and not be stopped."""
    asked: list[int] = []

    class Client:
        def scheduler_info(self, n_workers: int = 5) -> Any:
            asked.append(n_workers)
            names = [f"tcp://10.0.0.{number}:1" for number in range(9)]
            found = names if n_workers == -1 else names[:n_workers]
            return {"workers": {name: {"resources": {"lab": 1}} for name in found}}

        def processing(self) -> Any:
            return {}

    assert len(Watch(cast(Any, Client())).labs) == 9 and asked == [-1]


def test_a_cell_that_means_another_run_there_is_refused(tmp_path: Path) -> None:
    data = sent(order(tmp_path))
    data["cells"][1]["spec"]["seed"] += 1
    with pytest.raises(InvalidInput, match=r"seed 2 has the key \w{8} there, and \w{8} here"):
        Order.from_json(data, GRAMMAR.experiment)


def test_answers_are_read_back() -> None:
    for answer in (
        Answer("w", ("a",), ("b",), 1, 2),
        Answer("w", unfit=Unfit("dirty", Exit.DIRTY)),
        Answer("w", failed_store="full"),
    ):
        assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer


def test_a_worker_proves_that_it_sees_the_clients_store(tmp_path: Path) -> None:
    made = order(tmp_path)
    kit.records_at(made.store).store.create(made.token.name, made.token.content.encode())
    assert dask_worker.see_store(made).store.address == made.store
    for wrong in (
        replace(made, store=str(tmp_path / "elsewhere")),
        replace(made, token=Token(made.token.name, "another")),
        replace(made, token=Token("probes/session-y", "secret")),
    ):
        with pytest.raises(InvalidInput, match=r"does not see the client's store .*use a folder that all machines"):
            dask_worker.see_store(wrong)


def test_what_a_worker_says_of_itself(tmp_path: Path) -> None:
    made = order(tmp_path)
    assert dask_worker.examine(sent(made), GRAMMAR.experiment, lambda order: None) == {
        "why": str(_refused(made)),
        "code": Exit.USAGE,
        "everywhere": True,
    }
    kit.records_at(made.store).store.create(made.token.name, made.token.content.encode())
    assert dask_worker.examine(sent(made), GRAMMAR.experiment, lambda order: None) is None

    def lacks(order: Order) -> None:
        raise InvalidInput("no root")

    found = dask_worker.examine(sent(made), GRAMMAR.experiment, lacks)
    assert found == {"why": "no root", "code": Exit.USAGE, "everywhere": False}


def _refused(made: Order) -> InvalidInput:
    with pytest.raises(InvalidInput) as refused:
        dask_worker.see_store(made)
    return refused.value
