"""Which files of a run's folder a campaign keeps, within its budget of bytes."""

from __future__ import annotations

from pathlib import Path

from chaos.base.errors import ChaosError


class TooLarge(ChaosError):
    """What a verdict is made of is more than a cell may keep. ``bytes``: so much."""

    def __init__(self, message: str, bytes: int) -> None:
        super().__init__(message, remedy="raise budget.artifacts in the campaign's file")
        self.bytes = bytes


LOGS = "logs/"
"""What may be left out: a seal does not cover it, and no verdict is made of it."""


def chosen(folder: Path, most: int) -> tuple[list[str], list[str]]:
    """(files to keep, logs that are left out), relative to the run's folder. ``most``: bytes.

    Raises TooLarge where what a verdict is made of is more than that.
    """
    sizes = {
        str(file.relative_to(folder)): file.stat().st_size
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.is_symlink() and not file.name.startswith(".")
    }
    total, left_out = sum(sizes.values()), []
    for name in sorted((each for each in sizes if each.startswith(LOGS)), key=lambda each: -sizes[each]):
        if total <= most:
            break
        left_out.append(name)
        total -= sizes[name]
    if total > most:
        raise TooLarge(f"its record is {total:,} bytes without its logs, and a cell may keep {most:,}", total)
    return [name for name in sizes if name not in left_out], left_out
