"""Counts circles of files: those that import each other, straight or by way of others. ``make lint`` wants 0.

    python tests/circles.py [FOLDER]

Every import counts, also one inside a function and one for types alone: a reader of either file must read both. An
import of a file counts for that file, and not for the ``__init__.py`` above it, which gathers files for those outside.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "chaos"


def modules(package: Path) -> dict[str, Path]:
    """Module → file, of every file below a package's folder."""
    found = {}
    for file in sorted(package.rglob("*.py")):
        parts = file.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """The names that a file imports, absolute. ``from a import b`` gives ``a.b``, which may be no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                up = parts[: len(parts) - node.level + is_package]
                base = ".".join([*up, *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def graph(package: Path) -> dict[str, set[str]]:
    """Module → the modules of the same package that it imports. Raises SyntaxError for a file that is no Python."""
    known = modules(package)

    def owner(name: str) -> str | None:
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name or None

    found = {}
    for module, file in known.items():
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        targets = {owner(name) for name in imported(tree, module, file.name == "__init__.py")}
        found[module] = {name for name in targets if name is not None and name != module}
    return found


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which leads to each other one (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for target in sorted(edges[module]):
            if target not in number:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], number[target])
        if lowest[module] == number[module]:
            at = stack.index(module)
            group = sorted(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for module in sorted(edges):
        if module not in number:
            visit(module)
    return found


def main(package: Path) -> int:
    edges = graph(package)
    if not edges:
        print(f"{package}: there is no Python file", file=sys.stderr)
        return 2
    found = circles(edges)
    for group in found:
        print(f"a circle of {len(group)} files:")
        for module in group:
            print(f"  {module} imports {', '.join(sorted(edges[module] & set(group)))}")
    print(f"circles of files in {package.name}/: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE))
