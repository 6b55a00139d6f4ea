"""The pages over several runs in a real browser: no console message, no request, hostile text inert, phone width."""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from browser.test_report_in_browser import CHROMIUM, browse

from chaos.report import render
from chaos.report.compare import compare_page, series_page
from chaos.report.suite import suite_page
from chaos.report.trend import trend_page
from chaos.statistics import compare, facts, series, store

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: apt-get install chromium"),
]
PAGES = ("suite", "trend", "compare", "series")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str], Path]]:
    """The address of a server with every page over every story, what was asked of it, and its folder."""
    root = tmp_path_factory.mktemp("overviews")
    runs = []
    for name, make in synthetic.STORIES.items():
        folder = make().write(root / name)
        render(folder)
        runs.append(facts.of_folder(folder))
    suite_page(runs, root / "suite.html")
    trend_page(runs, root / "trend.html")
    hostile = [run for run in runs if run.name == "hostile"]
    evil = hostile[0].experiment["name"]
    compare_page(
        compare.compare(store.group_of(hostile * 5, evil), store.group_of(hostile * 5, evil)), root / "compare.html"
    )
    series_page(series.evaluate(hostile * 5, 5), root / "series.html")
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code: object = "-", size: object = "-") -> None:
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}", asked, root
        httpd.shutdown()


@pytest.mark.parametrize("page", PAGES)
def test_no_console_message_no_request_and_no_code(
    page: str, server: tuple[str, list[str], Path], tmp_path: Path
) -> None:
    address, asked, _ = server
    asked.clear()
    shown = browse(tmp_path / "profile", f"{address}/{page}.html", "--dump-dom")
    assert "CONSOLE" not in shown.stderr, shown.stderr
    assert asked == [f"/{page}.html"]
    title = re.search(r"<title>(.*?)</title>", shown.stdout, re.S)
    assert title is not None and title[1].strip() != "owned"
    assert "<script" not in shown.stdout and "<img" not in shown.stdout
    assert "<h1>" in shown.stdout and "</main>" in shown.stdout


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_wider_than_a_phone(page: str, server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, root = server
    (root / f"phone-{page}.html").write_text(
        f"""<iframe id=f src="{page}.html" style="width:390px;height:800px;border:0"></iframe>
        <p id=said>none</p>
        <script>
          f.onload = () => {{ said.textContent = "wide:" + f.contentDocument.documentElement.scrollWidth }}
        </script>"""
    )
    shown = browse(tmp_path / "profile", f"{address}/phone-{page}.html", "--dump-dom", "--virtual-time-budget=4000")
    wide = re.search(r"wide:(\d+)", shown.stdout)
    assert wide is not None, shown.stdout[-500:]
    assert int(wide[1]) <= 390


def test_they_print(server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, _ = server
    for page in PAGES:
        paper = tmp_path / f"{page}.pdf"
        browse(tmp_path / f"profile-{page}", f"{address}/{page}.html", f"--print-to-pdf={paper}")
        assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 10_000
