"""Which items of bulks update or delete an earlier document: ``history/changes.bin``, written before they are sent.

One row for each such item: its own number (uint64, as documents are numbered, :mod:`chaos.base.ids`), the number of
the document that it changes (uint64) and its :class:`~chaos.history.format.Action` (one byte), little-endian. What
became of it stands in ``items.bin`` under its own number. The content that an update of document ``m`` by item ``n``
writes is that of document ``n``, which no item creates; so it follows from the two numbers.

The driver has one change of a document under way at most, and begins another only after it was acknowledged. So of the
rows of one document all but the last are acknowledged, whatever of their outcomes a killed driver did not write down.
A document is changed by the process that wrote it alone, so this holds of each process's file and of all together.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chaos.history.format import Action

ROW = struct.Struct("<QQB")
_DTYPE = np.dtype([("item", "<u8"), ("document", "<u8"), ("action", "u1")])
assert _DTYPE.itemsize == ROW.size

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Changes:
    """All changes in the order in which they were sent: the item's number, the document's, the action."""

    item: Numbers
    document: Numbers
    action: npt.NDArray[np.uint8]

    @classmethod
    def read(cls, *paths: Path) -> Changes:
        """Those of all files; none of one that is not there. What a killed driver left of a row is left out."""
        found = []
        for path in paths:
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                data = b""
            found.append(np.frombuffer(data[: len(data) // ROW.size * ROW.size], _DTYPE))
        rows = np.concatenate(found)
        return cls(rows["item"].astype(np.int64), rows["document"].astype(np.int64), rows["action"].copy())

    @classmethod
    def of(cls, *rows: tuple[int, int, Action]) -> Changes:
        """From (item, document, action), for tests."""
        columns = [[row[place] for row in rows] for place in range(3)]
        return cls(np.array(columns[0], np.int64), np.array(columns[1], np.int64), np.array(columns[2], np.uint8))

    def only(self, arrivals: Numbers, stride: int) -> Changes:
        """Those whose items are of these arrivals. ``stride``: how documents are numbered."""
        own = np.isin(self.item // stride, arrivals)
        return Changes(self.item[own], self.document[own], self.action[own])

    def __len__(self) -> int:
        return len(self.item)

    @property
    def last(self) -> Numbers:
        """The places of those after which no other change of the same document was sent, by document."""
        backwards = np.unique(self.document[::-1], return_index=True)[1]
        return len(self) - 1 - backwards
