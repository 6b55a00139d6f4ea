"""By which code a campaign's runs are made: the commit of a checkout, and what of it was changed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from chaos.campaign import code


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package in a checkout of its own, all of it committed."""
    made = tmp_path / "suite" / "chaos"
    made.mkdir(parents=True)
    (made / "cli.py").write_text("1\n")
    (made.parent / "README.md").write_text("1\n")
    git(made.parent, "init", "-q")
    git(made.parent, "add", ".")
    git(made.parent, "commit", "-q", "-m", "first")
    return made


def test_a_checkout_is_its_commit_and_what_was_changed_of_what_decides(package: Path) -> None:
    root = package.parent
    assert code.checkout(package) == {"commit": git(root, "rev-parse", "HEAD"), "changed": []}
    (root / "README.md").write_text("2\n")
    (root / "notes.txt").write_text("new, and decides nothing\n")
    assert code.checkout(package) == {"commit": git(root, "rev-parse", "HEAD"), "changed": []}
    (package / "cli.py").write_text("2\n")
    (root / "experiments" / "mine").mkdir(parents=True)
    (root / "experiments" / "mine" / "ümlaut.yaml").write_text("new\n")
    found = code.checkout(package)
    assert found is not None and found["changed"] == ["chaos/cli.py", "experiments/mine/ümlaut.yaml"]


def test_nothing_is_written_there(package: Path) -> None:
    """Refreshing the index would make it root's."""
    index = package.parent / ".git" / "index"
    (package / "cli.py").touch()
    before = index.read_bytes(), index.stat().st_mtime_ns
    code.checkout(package)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_what_lies_in_no_checkout_of_its_own_has_no_commit(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = package.parent / ".venv" / "site-packages" / "chaos"
    installed.mkdir(parents=True)
    assert code.checkout(installed) is None
    (tmp_path / "plain").mkdir()
    assert code.checkout(tmp_path / "plain" / "chaos") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code.checkout(package) is None
