"""The report: one HTML page, a JUnit file, a Markdown summary and findings.json from a run's folder alone.

The page is one self-contained file that makes no request and needs no script: it can be mailed (without names, see
:mod:`.redact`), archived and printed. It is drawn from what is there; a run that was killed is drawn too, and what
is missing is said.
"""

from chaos.report.junit import junit_xml
from chaos.report.markdown import announce
from chaos.report.page import REDACTED, render, render_html

__all__ = ["REDACTED", "announce", "junit_xml", "render", "render_html"]
