"""``python -m chaos.report.exported`` prints docs/export.md."""

from chaos.report.exported.page import text

print(text(), end="")
