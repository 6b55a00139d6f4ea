"""What became of each document of bulks, as it stands on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from chaos.history.format import ACKNOWLEDGED_ITEMS, ItemOutcome
from chaos.history.items import Items, entry

BULKS = st.dictionaries(
    st.integers(0, 2**40), st.lists(st.sampled_from([int(each) for each in ItemOutcome]), min_size=1, max_size=9)
)


@given(BULKS, st.integers(0, 12))
def test_what_was_written_is_read_whatever_the_last_entry_lacks(
    tmp_path_factory, bulks: dict[int, list[int]], lacking: int
) -> None:
    file: Path = tmp_path_factory.mktemp("items") / "items.bin"
    torn = entry(2**41, [0] * 5)
    file.write_bytes(b"".join(entry(k, each) for k, each in bulks.items()) + torn[: max(0, len(torn) - 1 - lacking)])
    items = Items.read(file)
    each = np.split(items.outcome, items.first[1:-1]) if bulks else []
    assert [(k, list(some)) for k, some in zip(items.k.tolist(), each, strict=True)] == sorted(bulks.items())
    assert items.numbers(10).tolist() == [k * 10 + place for k in sorted(bulks) for place in range(len(bulks[k]))]
    everything = [each for k in sorted(bulks) for each in bulks[k]]
    assert items.acknowledged.tolist() == [each in ACKNOWLEDGED_ITEMS for each in everything]
    assert sum(items.counts().values()) == len(everything)


def test_where_no_bulk_was_answered_there_is_none(tmp_path: Path) -> None:
    items = Items.read(tmp_path / "items.bin")
    assert len(items) == 0 and items.counts() == {} and items.numbers(500).size == 0 and not items.acknowledged.any()


def test_documents_of_some_bulks_are_counted_alone(tmp_path: Path) -> None:
    file = tmp_path / "items.bin"
    file.write_bytes(entry(4, [0, 0, 3]) + entry(9, [0, 5]))
    items = Items.read(file)
    assert items.counts() == {"created": 3, "rejected": 1, "conflict": 1}
    assert items.counts(items.k[:1]) == {"created": 2, "rejected": 1}
