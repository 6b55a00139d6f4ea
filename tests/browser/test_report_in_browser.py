"""The report in a real browser: no console message, no request, hostile text inert, nothing wider than a phone."""

from __future__ import annotations

import functools
import html
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic

from chaos.report import render

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), ""
)

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine: apt-get install chromium"),
]


def browse(profile: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        CHROMIUM,
        "--headless",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--enable-logging=stderr",
        f"--user-data-dir={profile}",
        *options,
        url,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str], Path]]:
    """The address of a server with every story's page, the paths that were asked of it, and its folder."""
    root = tmp_path_factory.mktemp("pages")
    for name, make in synthetic.STORIES.items():
        render(make().write(root / name))
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_request(self, code: object = "-", size: object = "-") -> None:
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{httpd.server_port}", asked, root
        httpd.shutdown()


@pytest.mark.parametrize("story", ["slow_zone", "killed", "hostile"])
def test_no_console_message_no_request_and_no_code(
    story: str, server: tuple[str, list[str], Path], tmp_path: Path
) -> None:
    address, asked, _ = server
    asked.clear()
    shown = browse(tmp_path / "profile", f"{address}/{story}/report.html", "--dump-dom")
    assert "CONSOLE" not in shown.stderr, shown.stderr
    assert asked == [f"/{story}/report.html"]
    dom = shown.stdout
    title = re.search(r"<title>(.*?)</title>", dom, re.S)
    assert title is not None and title[1].strip() != "owned"
    assert "<img" not in dom
    assert len(re.findall(r"<script>", dom)) == 1 and "<h1>" in dom and "</main>" in dom
    figures = dom.count("<figure data-chart")
    assert dom.count('<script type="application/json">') == figures
    assert len(re.findall(r'class="layer"', dom)) == figures  # our script ran: nothing else made these


PROBE = """
<iframe id=f src="{story}/report.html" style="width:{width}px;height:900px;border:0"></iframe><p id=said>none</p>
<script>
  f.onload = () => {{
    const inside = f.contentDocument, layer = inside.querySelector(".layer"), key = name =>
      layer.dispatchEvent(new KeyboardEvent("keydown", {{key: name, bubbles: true}}))
    const found = {{}}
    key("Home"); key("ArrowRight"); found.moved = inside.querySelector(".readout").textContent
    key("+"); found.zoomed = inside.querySelectorAll(".zoomed canvas").length
    found.button = inside.querySelectorAll(".zoomed button").length
    found.wide = inside.documentElement.scrollWidth
    key("Escape"); found.whole = inside.querySelectorAll(".zoomed").length
    inside.location.hash = "#help-failure-detection"
    setTimeout(() => {{
      const help = inside.getElementById("help-failure-detection")
      found.open = help && help.open
      said.textContent = "found:" + JSON.stringify(found)
    }}, 200)
  }}
</script>"""


@pytest.mark.parametrize("width", [1280, 390])
def test_hover_zoom_and_links_work_by_keyboard(width: int, server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, root = server
    (root / "probe.html").write_text(PROBE.format(story="black_hole", width=width))
    shown = browse(tmp_path / "profile", f"{address}/probe.html", "--dump-dom", "--virtual-time-budget=6000")
    assert "CONSOLE" not in shown.stderr, shown.stderr
    said = re.search(r"found:(\{.*?\})<", shown.stdout)
    assert said is not None, shown.stdout[-500:]
    found = json.loads(html.unescape(said[1]))
    assert re.match(r"\d+(\.\d)? s: [\d.]+/s good", found["moved"])
    assert found["zoomed"] == 4 and found["button"] == 2 and found["whole"] == 0
    assert found["wide"] <= width
    assert found["open"] is True


def test_without_scripts_every_figure_is_there(server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, root = server
    page = (root / "black_hole" / "report.html").read_text()
    (root / "bare.html").write_text(re.sub("sha256-.{4}", "sha256-AAAA", page, count=1))
    dom = browse(tmp_path / "profile", f"{address}/bare.html", "--dump-dom").stdout
    assert 'class="layer"' not in dom
    figures = page.count('role="img"')
    assert figures >= 3 and dom.count('role="img"') == dom.count("The same as a table") == figures


@pytest.mark.parametrize("story", ["slow_zone", "lost_writes", "hostile"])
def test_nothing_is_wider_than_a_phone(story: str, server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, root = server
    (root / f"{story}.html").write_text(
        f"""<iframe id=f src="{story}/report.html" style="width:390px;height:800px;border:0"></iframe>
        <p id=said>none</p>
        <script>
          f.onload = () => {{ said.textContent = "wide:" + f.contentDocument.documentElement.scrollWidth }}
        </script>"""
    )
    shown = browse(tmp_path / "profile", f"{address}/{story}.html", "--dump-dom", "--virtual-time-budget=4000")
    wide = re.search(r"wide:(\d+)", shown.stdout)
    assert wide is not None, shown.stdout[-500:]
    assert int(wide[1]) <= 390


def test_it_prints(server: tuple[str, list[str], Path], tmp_path: Path) -> None:
    address, _, _ = server
    paper = tmp_path / "report.pdf"
    browse(tmp_path / "profile", f"{address}/black_hole/report.html", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 20_000
