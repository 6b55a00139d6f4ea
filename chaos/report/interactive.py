"""Zoom and hover on top of the drawn figures: the only script of the page, and the leave that it needs.

The script is ours and constant: uPlot (vendored, see ``vendor/README.md``) and ``templates/report.js``. The page
allows exactly this text by its hash (Content-Security-Policy), so nothing else that a name from a run might smuggle
in could run. Without scripts nothing is lost but zoom and hover.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from markupsafe import Markup

from chaos.base.errors import ChaosError

UPLOT = "1.6.32"
VENDORED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
"""SHA-256 of the vendored files."""
_HERE = Path(__file__).parent


def _vendored(name: str) -> str:
    data = (_HERE / "vendor" / name).read_bytes()
    if hashlib.sha256(data).hexdigest() != VENDORED[name]:
        raise ChaosError(f"{name} is not the file of uPlot {UPLOT} that belongs to this package")
    return data.decode()


@cache
def script() -> Markup:
    """The page's script. Marked as safe because it is a constant of this package: nothing of a run is in it."""
    own = (_HERE / "templates" / "report.js").read_text()
    return Markup(f"{_vendored('uPlot.iife.min.js')}\n{own}")


@cache
def style() -> Markup:
    """uPlot's style sheet, a constant as well."""
    return Markup(_vendored("uPlot.min.css"))


@cache
def policy() -> str:
    """The page's Content-Security-Policy: no request at all, and no script but ours."""
    digest = base64.b64encode(hashlib.sha256(str(script()).encode()).digest()).decode()
    return f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data:"
