"""``python -m chaos.report.exported`` prints docs/export.md."""

from chaos.report.exported.page import text

if __name__ == "__main__":
    print(text(), end="")
