"""The report: one HTML page, a JUnit file and findings.json from a run's folder, and from nothing else.

The page is one self-contained file without scripts and without any request: it can be mailed, archived and
printed. It is drawn from what is there; a run that was killed is drawn too, and what is missing is said.
"""

from chaos.report.junit import junit_xml
from chaos.report.page import render, render_html

__all__ = ["junit_xml", "render", "render_html"]
