"""``opensearch-chaos workload``: what is said of a workload before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fakes import ROOT
from typer.testing import CliRunner
from unit.definitions.test_workload_files import TEAM, WORKLOAD, template, written

from chaos.base.errors import InvalidInput
from chaos.cli import app
from chaos.commands.workloads import checked, said
from chaos.load import workloads


def ran(*words: str) -> Any:
    return CliRunner().invoke(app, ["workload", *words])


def test_a_file_is_checked_and_its_promises_are_said(tmp_path: Path) -> None:
    path = written(tmp_path)
    done = ran("check", str(path))
    assert done.exit_code == 0, done.output
    found = json.loads(ran("check", str(path), "--json").output)
    assert found["workload"] == "orders" and found["settings"] == {"codec": "best_compression"}
    workload = workloads.of("orders", workloads_definition(path))
    assert found["document"] == workload.content("w-7") and found["bytes"] == workload.size
    assert [(each["name"], each["share"]) for each in found["queries"]] == [("mine", 0.75), ("late", 0.25)]
    mine, late = found["queries"]
    assert "as many are found as have that customer" in mine["judged"]
    assert "how many must be found is not known" in late["judged"]
    assert mine["example"]["query"]["term"]["customer"].startswith("c-")
    assert any("inverted index" in each for each in found["not_verified"])
    text = done.output
    for part in ("a document has", "the read-back compares", "it does not compare", "mine, 75.0% of searches"):
        assert part in text


def workloads_definition(path: Path) -> Any:
    from chaos.definitions.loading import load_workload

    return load_workload(path)


def test_what_a_template_says_and_is_not_taken_is_said(tmp_path: Path) -> None:
    found = checked(str(template(tmp_path, TEAM)))
    assert found["notes"] == [
        "index_patterns of the template means nothing here: the index is made by its name",
        "priority of the template means nothing here: the index is made by its name",
    ]
    assert "note: priority of the template" in "\n".join(said(found))


def test_one_without_queries_says_so(tmp_path: Path) -> None:
    found = checked(str(written(tmp_path, WORKLOAD[: WORKLOAD.index("queries:")])))
    assert "no queries: a read of it can only get documents by id" in said(found)


@pytest.mark.parametrize("name", workloads.declared())
def test_each_that_is_shipped_passes(name: str) -> None:
    found = checked(name)
    assert found["document"]["seq"] == 7 and found["queries"]
    assert "its whole source" in " ".join(found["verified"])


def test_a_mistake_is_refused_with_its_line(tmp_path: Path) -> None:
    done = ran("check", str(written(tmp_path, WORKLOAD.replace("pool: 50", "pol: 50"))))
    assert isinstance(done.exception, InvalidInput) and "orders.yaml:7:29: unknown key" in str(done.exception)
    with pytest.raises(InvalidInput, match="there is no workload 'lgs'"):
        checked("lgs")
    with pytest.raises(InvalidInput, match="there is no such file"):
        checked(str(tmp_path / "none.yaml"))


def test_they_are_listed() -> None:
    found = json.loads(ran("list", "--json").output)
    assert list(found) == list(workloads.declared()) and found["logs"].startswith("Rows of logs")
    assert all(found.values())


def test_the_page_has_the_table_of_those_that_are_shipped() -> None:
    page = (ROOT / "docs" / "workloads.md").read_text()
    table = ran("list", "--markdown").output
    assert table in page, "docs/workloads.md: put in what `opensearch-chaos workload list --markdown` prints"
    assert all(f"| `{name}` |" in page for name in workloads.FILES)
