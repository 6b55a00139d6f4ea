"""``python -m chaos.report`` prints docs/findings.md: what findings mean, and what helps."""

from chaos.report.meanings import markdown

print(markdown(), end="")
