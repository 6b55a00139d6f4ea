"""Prints what each intent does on a host, for docs/hosts.md: ``python -m chaos.hosts``."""

from __future__ import annotations

from chaos.hosts.oschaos_host import INTENTS

BEGIN, END = "<!-- made by python -m chaos.hosts -->", "<!-- end -->"


def table() -> str:
    rows = ["| intent | takes | on the host | undo | needs |", "|---|---|---|---|---|"]
    for name, intent in INTENTS.items():
        fields = [f"`{field}`" for field in intent.needed] + [f"[`{field}`]" for field in intent.optional]
        needs = ", ".join([*intent.tools, *intent.kernel])
        rows.append(f"| `{name}` | {', '.join(fields)} | {intent.does} | {intent.undone} | {needs} |")
    return "\n".join([BEGIN, *rows, END])


if __name__ == "__main__":
    print(table())
