"""The commands of campaigns and the scorecard, on made-up runs in a store, without a lab."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import campaignkit as kit
import pytest
import synthetic
from shipped import ROOT
from unit.statistics.test_commands import Cli, checked, cli  # noqa: F401

from chaos.base.errors import Exit
from chaos.campaign.records import Ended

OLD, NEW = "2.19.6", "3.8.0"
EXPERIMENTS = {
    "zone-network-slowdown": "default",
    "zone-network-slowdown-tuned": "tuned",
    "planted-data-loss": "control",
}


def campaign(folder: Path, repeats: int, names: tuple[str, ...] = tuple(EXPERIMENTS)) -> Path:
    files = {name: next((ROOT / "experiments").rglob(f"{name}.yaml")) for name in names}
    entries = [
        f"{{file: {file}, of: zone-network-slowdown, profile: tuned}}" if name.endswith("-tuned") else str(file)
        for name, file in files.items()
    ]
    file = folder / "stand-in.yaml"
    file.write_text(
        f"apiVersion: opensearch-chaos/v1\nkind: campaign\nname: stand-in\nstore: {folder / 'store'}\n"
        f"matrix:\n  experiments: [{', '.join(entries)}]\n  versions: [{OLD}, {NEW}]\nrepeats: {repeats}\n"
    )
    return file


def story_of(cell: Any, worse: bool = True) -> synthetic.Story:
    """Zones slow down harmlessly, but for the newer version's stock settings; the control loses writes."""
    if "control" in cell.experiment.tags:
        made = synthetic.lost_writes()
    else:
        made = synthetic.slow_zone()
        if worse and cell.version == NEW and cell.profile == "default":
            made.chapters[2].read = synthetic.healthy(late=0.05)
    made.name = cell.experiment.name
    return made


Filled = Callable[..., Path]


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Filled:
    """A campaign with its store; ``skip``: cells that are not committed."""
    monkeypatch.setenv("OPENSEARCH_CHAOS_CACHE", str(tmp_path / "cache"))

    def fill(repeats: int = 1, skip: Callable[[Any], bool] = lambda cell: False, **given: Any) -> Path:
        file = campaign(tmp_path, repeats, **given)
        records = kit.records_at(tmp_path / "store")
        machine = {"processors": 2, "memory_gb": 25, "architecture": "x86_64"}
        for cell in kit.matrix_of(file).cells:
            if not skip(cell):
                versions = {"opensearch": cell.version, "kernel": "6.18.4-x"}
                plan = {"versions": versions, "machine": machine, "hash": cell.to_json()["hash"]}
                kit.commit_story(records, cell, tmp_path / "made", story_of(cell), **plan)
        return file

    return fill


def test_validate_knows_campaigns(cli: Cli, filled: Filled) -> None:  # noqa: F811
    code, out, _ = cli("validate", campaign(filled().parent, 3))
    assert code == 0 and "valid campaign stand-in of 18 cells" in out


def test_a_wrong_campaign_is_refused_with_its_place(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    file = campaign(tmp_path, 1)
    file.write_text(file.read_text() + "retries: 3\n")
    for command in (("validate",), ("campaign", "plan"), ("campaign", "run"), ("scorecard",)):
        code, _, err = cli(*command, file)
        assert code == Exit.USAGE and re.search(r"stand-in.yaml:9:1: .*retries", err), err
    assert not (tmp_path / "store").exists()


def test_plan_says_what_is_committed_and_how_long_the_rest_takes(cli: Cli, filled: Filled) -> None:  # noqa: F811
    file = filled(2, skip=lambda cell: cell.repeat == 1)
    code, out, _ = cli("campaign", "plan", file)
    assert code == 0 and "12 cells" in out and "6 of 12 cells committed (6 pass); 6 not made yet" in out
    assert "left: 6 cells, 0.2 h on one machine" in out  # 6 of 120 s each, as earlier runs took
    assert "zone-network-slowdown-tuned (tuned of zone-network-slowdown) on 3az-tuned, OpenSearch 3.8.0" in out


def test_status_tells_of_every_cell(cli: Cli, filled: Filled) -> None:  # noqa: F811
    file = filled(1, skip=lambda cell: cell.version == NEW)
    code, out, _ = cli("campaign", "status", file, "--json")
    cells = json.loads(out)["cells"]
    assert code == 0 and [each["state"] for each in cells] == ["committed", "not made yet"] * 3
    code, out, _ = cli("campaign", "status", file, "--cells")
    assert out.count("committed: pass") == 3 and cells[0]["key"][:12] in out


def test_verify_finds_what_was_changed(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled()
    code, out, _ = cli("campaign", "verify", file)
    assert (
        code == 0 and out.startswith("6 committed runs with ") and out.endswith("none differ from what was committed\n")
    )
    next((tmp_path / "store").rglob("plan.json")).write_text("{}")
    code, out, _ = cli("campaign", "verify", file)
    assert code == Exit.ERROR and "plan.json: it is not what was committed" in out and "1 differ" in out


def test_nothing_committed_is_nothing_verified(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    """As with a store that was named wrongly."""
    file = filled()
    code, out, err = cli("campaign", "verify", file, "--store", tmp_path / "mistyped")
    assert code == Exit.USAGE and "differ" not in out
    assert f"committed yet in {tmp_path / 'mistyped'}" in err and "--store" in err


def test_commits_of_before_a_change_are_counted(cli: Cli, filled: Filled) -> None:  # noqa: F811
    file = filled(2)
    file.write_text(file.read_text().replace("repeats: 2", "repeats: 1"))
    for command in ("plan", "status", "verify"):
        code, out, _ = cli("campaign", command, file)
        assert code == 0 and "6 other commits in this store: of another version of the suite" in out


def test_report_draws_suite_trend_and_the_scorecard_that_scorecard_makes(
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    file = filled(skip=lambda cell: (cell.version, cell.profile) == (NEW, "tuned"))
    code, out, _ = cli("campaign", "report", file, "-o", tmp_path / "all.html")
    assert code in (Exit.WEAKNESS, Exit.DIRTY) and out.count("5 of 6 cells") == 2  # the controls fail
    assert (tmp_path / "all.html").is_file() and (tmp_path / "all-trend.html").is_file()
    page, alone = tmp_path / "all-scorecard.html", tmp_path / "alone.html"
    checked(page)
    scored, told, _ = cli("scorecard", file, "-o", alone)
    assert out.endswith(told.replace(str(tmp_path / "alone"), str(tmp_path / "all-scorecard")))
    assert page.read_text() == alone.read_text() and f"opensearch-chaos scorecard {file}" in page.read_text()
    data = json.loads(page.with_suffix(".json").read_text())
    assert data == json.loads(alone.with_suffix(".json").read_text()) and len(data["runs"]) == 5
    assert Exit[data["outcome"].upper()] == scored


def test_the_scorecard_of_a_report_is_of_the_store_that_is_given(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled(names=("zone-network-slowdown",))
    file.write_text(file.read_text().replace(f"store: {tmp_path}/store", f"store: {tmp_path}/nowhere"))
    cli("campaign", "report", file, "--store", tmp_path / "store", "-o", tmp_path / "all.html")
    page = (tmp_path / "all-scorecard.html").read_text()
    assert f"opensearch-chaos scorecard {file} --store {tmp_path}/store</code>" in page


@pytest.mark.parametrize(
    ("names", "has"),
    [
        (("zone-network-slowdown", "planted-data-loss"), False),
        (("zone-network-slowdown", "zone-network-slowdown-tuned"), True),
    ],
)
def test_report_says_why_there_is_no_scorecard_where_nothing_is_compared(
    names: tuple[str, ...],
    has: bool,
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    """One version: of two experiments, and of one with stock and tuned settings."""
    file = filled(names=names, skip=lambda cell: cell.version == OLD)
    file.write_text(file.read_text().replace(f"[{OLD}, {NEW}]", f"[{NEW}]"))
    code, out, err = cli("campaign", "report", file, "-o", tmp_path / "all.html")
    worst, _, _ = cli("suite", tmp_path / "store", "-o", tmp_path / "suite.html")
    assert code == worst and not err and (tmp_path / "all-trend.html").is_file()
    assert [(tmp_path / f"all-scorecard.{kind}").is_file() for kind in ("html", "json")] == [has, has]
    why = "no scorecard: each experiment of this campaign has one version, one topology and one profile"
    instead = f"of this alone it is made by: opensearch-chaos scorecard {file}\n"
    assert [why in out, out.endswith(instead)] == [not has, not has]


def test_nothing_committed_is_no_page(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled(skip=lambda cell: True)
    for command in (("campaign", "report"), ("scorecard",)):
        code, _, err = cli(*command, file, "-o", tmp_path / "page.html")
        assert code == Exit.USAGE and "committed yet" in err and not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("arguments", [("--shard", "3/2"), ("--shard", "2/2"), ("--shard", "x")])
def test_shards_beyond_the_budget_are_refused(
    arguments: tuple[str, ...],
    cli: Cli,  # noqa: F811
    filled: Filled,
) -> None:
    code, _, err = cli("campaign", "work", filled(skip=lambda cell: True), *arguments)
    assert code == Exit.USAGE and "--shard" in err


def test_the_scorecard_names_the_regression_first(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled(5, skip=lambda cell: (cell.version, cell.profile, cell.seed) == (NEW, "tuned", 3))
    page = tmp_path / "scorecard.html"
    code, out, _ = cli("scorecard", file, "-o", page)
    assert code == Exit.WEAKNESS
    assert "scorecard: WEAKNESS  1 promise that 2.19.6 kept is broken. OpenSearch 3.8.0:" in out
    assert "regression: zone-network-slowdown on 3az-standby: read.good" in out
    checked(page)
    html = " ".join(re.sub("<[^>]+>", " ", page.read_text().split("</style>")[1]).split())
    first = html[: html.index("Promises and runs")]
    assert (
        "Kept before, broken now: 1" in first
        and "in 5 of 5 of 3.8.0; were both broken as often, it would come to this in 0.4%" in first
    )
    for said in (
        "show, in 80% of cases, that a promise which was never broken is broken in",
        "planted-data-loss end as a weakness 2.19.6 5 of 5",
        "seed 3: not run: not made yet",
        "opensearch-chaos campaign rerun stand-in.yaml",
        "All runs were made on machines of one class: x86_64, 2 processors, 25 GB, kernel 6.18",
        "small heaps",
    ):
        assert said in html, said
    data = json.loads(page.with_suffix(".json").read_text())
    assert data["outcome"] == "weakness" and len(data["runs"]) == 29
    assert {run["run"] for run in data["runs"]} == {f"run-{run['cell'][:12]}" for run in data["runs"]}
    assert data["changes"][0]["change"] == "regression"
    assert all(each["plan_hash"] and each["record_hash"] for each in data["runs"])


def test_a_cell_that_two_campaigns_have_counts_once(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    """The second has three more seeds of the same cells, in a store of its own, and one of the first's seeds again."""
    one = filled(5, names=("zone-network-slowdown",))
    (tmp_path / "more").mkdir()
    two = tmp_path / "more" / "stand-in.yaml"
    two.write_text(
        one.read_text().replace("repeats: 5", "seeds: [5, 6, 7, 8]").replace(f"{tmp_path}/store", f"{tmp_path}/other")
    )
    records = kit.records_at(tmp_path / "other")
    for cell in kit.matrix_of(two).cells:
        if cell.seed != 8:
            plan = {"versions": {"opensearch": cell.version}, "hash": cell.to_json()["hash"]}
            kit.commit_story(records, cell, tmp_path / "again", story_of(cell), **plan)
    page = tmp_path / "card.html"
    cli("scorecard", one, two, one, "-o", page)
    data = json.loads(page.with_suffix(".json").read_text())
    assert len(data["runs"]) == 14 == len({run["cell"] for run in data["runs"]})  # seeds 1 to 7 of two versions
    assert [(each["runs"], each["missing"]) for each in data["tallies"]] == [(7, 1), (7, 1)]
    (reads,) = [each for each in data["promises"] if each["id"] == "read.good@slow"]
    assert {sum(each[key] for key in ("kept", "broken", "open")) for each in reads["by_version"].values()} == {7}
    why = [each["why"] for each in data["left_out"]]
    assert sum("is committed in another campaign's store" in each for each in why) == 2
    assert sum(each.startswith("not run") for each in why) == 2


def test_two_experiments_of_one_name_in_two_campaigns_are_refused(
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    one = filled(1, names=("zone-network-slowdown",))
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "zone-network-slowdown.yaml"
    other.write_text((ROOT / "experiments" / other.name).read_text().replace("rate: ", "rate: 1", 1))
    two = tmp_path / "more" / "stand-in.yaml"
    two.write_text(one.read_text().replace(str(ROOT / "experiments" / other.name), str(other)))
    code, _, err = cli("scorecard", one, two, "-o", tmp_path / "card.html")
    assert code == Exit.USAGE and "is another experiment in each of these campaigns" in err


def test_two_experiments_of_one_name_in_versions_of_their_own_are_refused(
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    """One campaign has the older version of one, the other the newer version of the other: nothing was broken since."""
    one = filled(1, names=("zone-network-slowdown",))
    (tmp_path / "more").mkdir()
    other = tmp_path / "more" / "zone-network-slowdown.yaml"
    text = (ROOT / "experiments" / other.name).read_text()
    other.write_text(text)
    two = tmp_path / "more" / "stand-in.yaml"
    both = f"[{OLD}, {NEW}]"
    two.write_text(
        one.read_text().replace(str(ROOT / "experiments" / other.name), str(other)).replace(both, f"[{NEW}]")
    )
    one.write_text(one.read_text().replace(both, f"[{OLD}]"))
    code, out, _ = cli("scorecard", one, two, "-o", tmp_path / "card.html")
    assert code != Exit.USAGE and f"OpenSearch {NEW}:" in out
    other.write_text(text.replace("rate: ", "rate: 1", 1))
    code, _, err = cli("scorecard", one, two, "-o", tmp_path / "card.html")
    assert code == Exit.USAGE and "is another experiment in each of these campaigns" in err


def test_a_record_that_was_too_large_is_told_as_given_up(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled(1, skip=lambda cell: cell.version == NEW, names=("zone-network-slowdown",))
    records = kit.records_at(tmp_path / "store")
    (cell,) = [each for each in kit.matrix_of(file).cells if each.version == NEW]
    records.end(cell.key, records.begin(cell, {}, 60.0), Ended.TOO_LARGE, "it is 2 GiB", 2**31)
    assert "given up; it is 2 GiB" in cli("campaign", "status", file)[1]
    page = tmp_path / "card.html"
    cli("scorecard", file, "-o", page)
    (why,) = [
        each["why"] for each in json.loads(page.with_suffix(".json").read_text())["left_out"] if NEW in each["what"]
    ]
    assert why == "no run is kept: given up: it is 2 GiB"
    file.write_text(file.read_text() + "budget: {artifacts: 3GiB}\n")
    assert "1 not made yet" in cli("campaign", "status", file)[1]


def test_the_page_says_the_command_that_makes_it_again(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file = filled()
    file.write_text(file.read_text().replace(f"store: {tmp_path}/store", f"store: {tmp_path}/nowhere"))
    (tmp_path / "cases").mkdir()
    page, given = tmp_path / "card.html", ("--store", tmp_path / "store", "--cases", tmp_path / "cases")
    cli("scorecard", file, *given, "-o", page)
    assert f"--store {tmp_path}/store --cases {tmp_path}/cases</code>" in page.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--by", "target", "--store", "s"), "--store beside --by target"),
        (("--by", "target", "--cases", "c", "--results", "r"), "--cases and --results beside --by target"),
        (("--valid-days", "3"), "--valid-days beside --by version"),
        (("--cases", "nowhere"), "--cases nowhere: there is no such folder"),
        (("--results", "nowhere"), "--results nowhere: there is no such folder"),
    ],
)
def test_options_that_mean_nothing_there_are_refused(
    options: tuple[str, ...],
    says: str,
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    page = tmp_path / "card.html"
    code, _, err = cli("scorecard", filled(), *options, "-o", page)
    assert code == Exit.USAGE and says in err and not page.exists()


def test_a_recorded_attempt_that_cannot_be_read_is_named(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    file, broken = filled(), tmp_path / "results" / "case" / "x-upstream.json"
    broken.parent.mkdir(parents=True)
    for text, why in (("{", "Expecting property name"), ("{}", "it lacks steps_hash")):
        broken.write_text(text)
        code, _, err = cli(
            "scorecard", file, "--results", tmp_path / "results", "--cases", tmp_path, "-o", tmp_path / "card.html"
        )
        assert code == Exit.USAGE and f"{broken} is no recorded attempt" in err and why in err


def test_a_cell_is_not_run_again_beside_a_campaigns_run(cli: Cli, filled: Filled) -> None:  # noqa: F811
    from chaos.base import paths
    from chaos.campaign.machine import LOCK

    file = filled(skip=lambda cell: True)
    key = kit.matrix_of(file).cells[0].key
    with paths.locked(paths.state() / LOCK):
        code, _, err = cli("campaign", "rerun", file, key)
    assert code == Exit.USAGE and "a run of a campaign is under way on this machine; wait for its end" in err


def test_surplus_is_never_read(cli: Cli, filled: Filled, tmp_path: Path) -> None:  # noqa: F811
    """Another attempt lies beside each committed one, as a worker that came second leaves it; it is no run at all."""
    file = filled()
    for attempt in list((tmp_path / "store" / "attempts").glob("*/*")):
        other = attempt.parent / "20261128T000000Z-surplus" / "run" / "plan.json"
        other.parent.mkdir(parents=True)
        other.write_text("not even JSON")
    for command in (("campaign", "verify"), ("campaign", "status")):
        assert cli(*command, file)[0] == 0
    assert cli("scorecard", file, "-o", tmp_path / "page.html")[0] in (Exit.WEAKNESS, Exit.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("laid", "says"),
    [
        ({"hash": "another"}, "its hash is another"),
        ({"seed": 77}, "its seed is 77"),
        ({"versions": {"opensearch": "1.0.0"}}, "1.0.0"),
    ],
)
def test_a_run_that_was_committed_for_another_cell_is_refused(
    laid: dict[str, Any],
    says: str,
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
) -> None:
    file = filled(1, skip=lambda cell: True, names=("zone-network-slowdown",))
    cell = kit.matrix_of(file).cells[0]
    plan = {"hash": cell.to_json()["hash"], "versions": {"opensearch": cell.version}} | laid
    kit.commit_story(kit.records_at(tmp_path / "store"), cell, tmp_path / "made", story_of(cell), **plan)
    for command in (("scorecard",), ("campaign", "report")):
        code, _, err = cli(*command, file, "-o", tmp_path / "page.html")
        assert code == Exit.ERROR and says in err and not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--scheduler", "tls://10.0.0.1:8786", "--tls-ca", "ca.pem"), "needs --tls-cert, --tls-key too"),
        (("--scheduler", "tcp://10.0.0.1:8786"), "is not encrypted"),
        (("--scheduler", "10.0.0.1"), "expected tls://HOST:PORT, tcp://HOST:PORT or none"),
        (("--tls-ca", "ca.pem"), "--tls-ca is for a scheduler that runs elsewhere"),
        (("--scheduler", "none", "--no-tls"), "--no-tls is for a scheduler that runs elsewhere"),
    ],
)
def test_schedulers_that_are_half_given_are_refused(
    options: tuple[str, ...],
    says: str,
    cli: Cli,  # noqa: F811
    filled: Filled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chaos.commands.campaign._refuse_unfit", lambda matrix, out: None)
    file = filled(skip=lambda cell: True)
    code, _, err = cli("campaign", "run", file, *options)
    assert code == Exit.USAGE and says in err
    assert not (file.parent / "store").exists()


def test_without_dask_a_campaign_runs_here_and_a_scheduler_is_refused(
    cli: Cli,  # noqa: F811
    filled: Filled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[Any] = []

    def here(*given: Any) -> Exit:
        worked.append(given)
        return Exit.PASS

    monkeypatch.setattr("chaos.commands.campaign._worked", here)
    file = filled(skip=lambda cell: True)
    assert cli("campaign", "run", file, "--scheduler", "none")[0] == 0 and len(worked) == 1
    monkeypatch.setattr("chaos.base.extras.find_spec", lambda name: None)
    assert cli("campaign", "run", file)[0] == 0 and len(worked) == 2
    code, _, err = cli("campaign", "run", file, "--scheduler", "tcp://127.0.0.1:8786")
    assert code == Exit.USAGE and "pip install 'opensearch-chaos[dask]'" in err and len(worked) == 2


@pytest.mark.parametrize(
    ("store", "says"),
    [
        ("afile", "store afile: afile is a file, and a folder was expected"),
        ("afile/below", "store afile/below: afile is a file"),
        ("http://host/x", "only folders and s3:// can be proven to refuse a second create; name a folder"),
    ],
)
def test_a_store_that_cannot_be_one_is_told_with_its_place(
    store: str,
    says: str,
    cli: Cli,  # noqa: F811
    filled: Filled,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the file names it; an option has no place."""
    file = filled(skip=lambda cell: True, names=("zone-network-slowdown",))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").touch()
    code, _, err = cli("campaign", "status", file, "--store", store)
    assert code == Exit.USAGE and err.startswith(f"opensearch-chaos: {says}" if "http" not in store else "")
    file.write_text(file.read_text().replace(f"store: {tmp_path}/store", f"store: {store}"))
    for command in (("campaign", "plan"), ("campaign", "report"), ("scorecard",)):
        code, _, err = cli(*command, file)
        assert code == Exit.USAGE and "stand-in.yaml:4:8: store" in err and says in err, err
    code, _, err = cli("campaign", "plan", file, "--store", "")
    assert code == Exit.USAGE and "--store is empty" in err


def test_a_shipped_campaign_is_found_by_every_command(
    cli: Cli,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As from a wheel, where there is no folder of experiments."""
    monkeypatch.chdir(tmp_path)
    name = "experiments/campaigns/no-fault.yaml"
    for command in (("campaign", "report"), ("scorecard",)):
        code, _, err = cli(*command, name)
        assert code == Exit.USAGE and f"{name}: the one that comes with opensearch-chaos" in err
        assert "is committed yet" in err and "campaign run" in err


def test_a_key_of_no_cell_names_the_command_that_lists_them(cli: Cli, filled: Filled) -> None:  # noqa: F811
    file = filled(skip=lambda cell: True, names=("zone-network-slowdown",))
    code, _, err = cli("campaign", "rerun", file, "zzz")
    assert code == Exit.USAGE and f"list them with: opensearch-chaos campaign status {file} --cells" in err
