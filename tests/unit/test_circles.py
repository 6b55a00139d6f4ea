"""No file of the package leads back to itself; and a circle would be found."""

from __future__ import annotations

from pathlib import Path

import circles
import pytest


def test_no_circle_of_files_is_left() -> None:
    edges = circles.graph(circles.PACKAGE)
    assert len(edges) > 400 and circles.circles(edges) == []


def test_a_folder_without_files_is_no_package_without_circles(tmp_path: Path) -> None:
    assert circles.main(tmp_path) == circles.main(tmp_path / "nowhere") == 2


def package(folder: Path, **files: str) -> Path:
    root = folder / "pack"
    for name, text in {"__init__": "", **files}.items():
        path = root / f"{name.replace('__in__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"a": "from pack import b", "b": "import pack.a"}, [["pack.a", "pack.b"]]),
        ({"a": "from pack.b import x", "b": "def f():\n    from pack.a import y"}, [["pack.a", "pack.b"]]),
        (
            {
                "a": "from pack.b import x",
                "b": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pack.a",
            },
            [["pack.a", "pack.b"]],
        ),
        ({"a": "import pack.b", "b": "import pack.c", "c": "import pack.a"}, [["pack.a", "pack.b", "pack.c"]]),
        ({"a": "from . import b", "b": "from .a import x"}, [["pack.a", "pack.b"]]),
        ({"r__in____init__": "from pack.r import a", "r__in__a": "from . import x"}, [["pack.r", "pack.r.a"]]),
        ({"a": "from pack import b, c", "b": "from pack import c", "c": "import os.path"}, []),
    ],
)
def test_a_circle_is_found_wherever_its_imports_stand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], files: dict[str, str], found: list[list[str]]
) -> None:
    root = package(tmp_path, **files)
    assert circles.circles(circles.graph(root)) == found
    assert circles.main(root) == bool(found)
    assert capsys.readouterr().out.endswith(f"circles of files in pack/: {len(found)}\n")
