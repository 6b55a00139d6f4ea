"""``gameday init``: a draft permits nothing by itself, and becomes a day once its open lines are filled in."""

from __future__ import annotations

from pathlib import Path

import pytest
from daykit import EXPERIMENT, TARGET
from ruamel.yaml import YAML

from chaos.base.errors import InvalidInput
from chaos.commands.gameday import gameday_init
from chaos.definitions.gameday import FOLDER, load_gameday

FILLED = {
    "owner:": "owner: team-search",
    "hypothesis:": "hypothesis: users notice nothing",
    "  zone:": "  zone: Europe/Berlin",
    "  days:": "  days: [tue, thu]",
    "  from:": "  from: '10:00'",
    "  to:": "  to: '12:30'",
    "      url:": "      url: http://127.0.0.1:9090",
    "      query:": "      query: up",
    "    above:": "    above: 1%",
    "  - slack:": "  - slack: env:SLACK",
    "stop:": "stop: {file: /run/opensearch-chaos/staging.stop, ssh: chaos@runner}",
}
"""Beginnings of the lines that a person fills in."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for file, text in (
        ("existing/staging.yaml", TARGET),
        ("experiments/node.yaml", EXPERIMENT.replace("NAME", "node")),
    ):
        path = tmp_path / ("topologies" if "existing" in file else ".") / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def init(**more: object) -> Path:
    given = {"target": Path("topologies/existing/staging.yaml"), "experiments": [Path("experiments/node.yaml")]}
    gameday_init(**{**given, **more})  # type: ignore[arg-type]
    return FOLDER / f"{more.get('name') or 'staging'}.yaml"


def test_a_draft_is_refused_at_each_line_that_a_person_must_fill_in(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = init()
    text = file.read_text()
    assert str(repository) not in text
    output = capsys.readouterr().out
    assert "to fill in: owner, hypothesis, stop.ssh, window, guards.users, announce" in output
    open_lines = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith(tuple(FILLED))]
    assert len(open_lines) == len(FILLED)
    with pytest.raises(InvalidInput) as caught:
        load_gameday(file)
    refused = str(caught.value)
    for number in open_lines:
        assert f"{file}:{number}:" in refused or "stop:" in text.splitlines()[number - 1], (number, refused)


def test_it_is_a_day_once_they_are_filled_in(repository: Path) -> None:
    file = init()
    lines = [
        next((filled for begin, filled in FILLED.items() if line.startswith(begin)), line)
        for line in file.read_text().splitlines()
    ]
    file.write_text("\n".join(lines) + "\n")
    day = load_gameday(file)
    assert day.target == repository / FOLDER / "../../topologies/existing/staging.yaml"
    assert [step.rung for step in day.written.experiments] == ["node"]
    assert float(day.written.bounds.day) == 15 * 60  # ten minutes by its guard, five between
    assert day.written.consent is not None and day.written.people == 1
    for name in ("allowed_signers", "operators"):
        assert all(line.startswith("#") for line in (file.parent / name).read_text().splitlines())


def test_options_fill_lines_in(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = init(name="tuesday", owner="a: b <c@d>", hypothesis='it "holds"', kubernetes="search")
    data = YAML(typ="safe", pure=True).load(file.read_text())
    assert (data["owner"], data["hypothesis"]) == ("a: b <c@d>", 'it "holds"')
    assert data["stop"] == {"file": "/run/opensearch-chaos/tuesday.stop", "kubernetes": "search"}
    assert "to fill in: window, guards.users, announce" in capsys.readouterr().out


def test_nothing_that_is_there_is_changed(repository: Path) -> None:
    (repository / FOLDER).mkdir(parents=True)
    (repository / FOLDER / "allowed_signers").write_text("alice ssh-ed25519 AAAA\n")
    file = init()
    before = file.read_text()
    with pytest.raises(InvalidInput, match="is there already"):
        init(owner="another")
    assert file.read_text() == before
    assert (file.parent / "allowed_signers").read_text() == "alice ssh-ed25519 AAAA\n"


def test_what_cannot_be_a_day_is_refused_and_nothing_is_written(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "node.yaml"
    elsewhere.write_text((repository / "experiments" / "node.yaml").read_text())
    for wrong, says in (
        ({"experiments": [elsewhere]}, "outside of this folder"),
        ({"experiments": [Path("experiments/none.yaml")]}, "none.yaml"),
        ({"target": Path("topologies/existing/none.yaml")}, "none.yaml"),
        ({"name": "a/b"}, "cannot name a game day"),
        ({"ssh": "a@b", "kubernetes": "search"}, "a host or a pod"),
    ):
        with pytest.raises(InvalidInput, match=says):
            init(**wrong)
    assert not (repository / FOLDER).exists()


def test_a_target_that_allows_too_little_is_told(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = repository / "topologies" / "existing" / "staging.yaml"
    text = TARGET.replace("rung: zone", "rung: observe").replace("until: 2099-12-31\n", "")
    target.write_text(text.replace("notes: .opensearch-chaos\n", ""))
    init()
    output = " ".join(capsys.readouterr().out.split())
    assert "allows observe" in output and "names no index for notes" in output
