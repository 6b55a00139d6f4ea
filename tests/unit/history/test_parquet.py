"""The file of arrivals, held against pyarrow: another implementation, by which all files before were written."""

from __future__ import annotations

import random
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apart import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.base.errors import HistoryError
from chaos.history import parquet

TIMES = ("k", "intended", "start", "end")
NAMES = {
    "op": ["read", "write"],
    "outcome": ["ok", "partial", "x"],
    "client": ["a"],
    "node": ["a-data", "b-data", "c-data"],
}


def frame(rows: int, *, nodes: tuple[str, ...] = ("a-data", "b-data", "c-data"), seed: int = 1) -> pd.DataFrame:
    chance = np.random.default_rng(seed)
    intended = chance.integers(0, 2**62, rows)
    return pd.DataFrame(
        {
            "k": np.arange(rows, dtype="u8"),
            "op": pd.Categorical.from_codes(chance.integers(0, 2, rows).astype("i1"), ["read", "write"]),
            "outcome": pd.Categorical.from_codes(chance.integers(0, 3, rows).astype("i1"), ["ok", "partial", "x"]),
            "status": chance.integers(0, 600, rows).astype("u2"),
            "client": pd.Categorical.from_codes(np.full(rows, -1, "i1"), ["a"]),
            "node": pd.Categorical.from_codes(chance.integers(-1, len(nodes), rows).astype("i1"), list(nodes)),
            "attempts": np.ones(rows, "u1"),
            "intended": intended,
            "start": intended + 1,
            "end": chance.integers(-(2**62), 2**62, rows),
        }
    )


def by_pyarrow(made: pd.DataFrame, path: Path, **said: str) -> Path:
    """As every version before wrote it."""
    schema = pa.Schema.from_pandas(made, preserve_index=False)
    own = {b"opensearch-chaos.history": b"1"} | {key.encode(): value.encode() for key, value in said.items()}
    table = pa.Table.from_pandas(made, schema.with_metadata({**schema.metadata, **own}), preserve_index=False)
    pq.write_table(
        table,
        path,
        compression="zstd",
        row_group_size=300,
        use_dictionary=[name for name in schema.names if name not in TIMES],
        column_encoding=dict.fromkeys(TIMES, "DELTA_BINARY_PACKED"),
    )
    return path


@given(rows=st.integers(0, 1000), size=st.integers(1, 700), seed=st.integers(0, 9), many=st.booleans())
@settings(max_examples=examples(40))
def test_what_pyarrow_wrote_is_read_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, rows: int, size: int, seed: int, many: bool
) -> None:
    names = tuple(f"node-{n}" for n in range(126)) if many else ("a-data", "b-data")
    made = frame(rows, nodes=names, seed=seed)
    path = by_pyarrow(made, tmp_path_factory.mktemp("old") / "arrivals.parquet")
    pd.testing.assert_frame_equal(parquet.read(path, size, NAMES | {"node": names}), made)
    batches = list(parquet.read_batches(path, ("node", "end"), size, NAMES))
    assert [list(batch) for batch in batches] == [["node", "end"]] * len(batches)
    assert [name for batch in batches for name in batch.node.astype(object)] == list(made.node.astype(object))


@given(parts=st.lists(st.integers(0, 700), min_size=1, max_size=4), seed=st.integers(0, 9))
@settings(max_examples=examples(40))
def test_pyarrow_and_we_read_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, parts: list[int], seed: int
) -> None:
    frames = [frame(rows, seed=seed + n) for n, rows in enumerate(parts)]
    path = tmp_path_factory.mktemp("new") / "arrivals.parquet"
    assert parquet.write(iter(frames), path) == sum(parts) == parquet.count(path)
    whole = pd.concat(frames, ignore_index=True)
    pd.testing.assert_frame_equal(parquet.read(path, 256, NAMES), whole)
    table = pq.read_table(path)
    assert table.schema.metadata[b"opensearch-chaos.history"] == b"1"  # by which versions before know their own
    theirs = table.to_pandas()
    for name in whole:
        if isinstance(whole[name].dtype, pd.CategoricalDtype):
            assert isinstance(theirs[name].dtype, pd.CategoricalDtype)
            assert set(theirs[name].cat.categories) <= set(whole[name].cat.categories)
            assert list(theirs[name].astype(object)) == list(whole[name].astype(object))
        else:
            assert theirs[name].dtype == whole[name].dtype and (theirs[name] == whole[name]).all()


def test_times_are_written_by_their_differences_and_names_once(tmp_path: Path) -> None:
    rows = 20_000
    made = frame(rows).assign(intended=np.arange(rows) * 10_000_000)
    made["start"] = made["intended"] + 1_000
    made["end"] = made["intended"] + np.random.default_rng(2).integers(0, 2_000_000, rows)
    path = tmp_path / "arrivals.parquet"
    parquet.write(iter([made]), path)
    old = by_pyarrow(made, tmp_path / "old.parquet")
    assert path.stat().st_size < 1.1 * old.stat().st_size
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(n).path_in_schema: group.column(n) for n in range(group.num_columns)}
    assert all("DELTA_BINARY_PACKED" in columns[name].encodings for name in TIMES)
    assert {column.compression for column in columns.values()} == {"ZSTD"}


@pytest.mark.parametrize("rows", [0, 5, 400])
def test_a_column_of_names_of_which_there_were_none(tmp_path: Path, rows: int) -> None:
    """pyarrow made dictionaries of nulls of them, at which arrow-rs ends the whole process."""
    made = frame(rows).assign(client=pd.Categorical.from_codes(np.full(rows, -1, "i1"), []))
    old = by_pyarrow(made, tmp_path / "old.parquet")
    assert pq.read_schema(old).field("client").type == pa.null()
    code = (
        "from pathlib import Path; from chaos.history import parquet; import sys; "
        "frame = parquet.read(Path(sys.argv[1]), 128, {}); print(len(frame), frame.client.isna().all())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(old)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.split()[:2] == [str(rows), "True"], done.stderr
    new = tmp_path / "new.parquet"
    parquet.write(iter([made]), new)
    for read in (parquet.read(old, 128, {}), parquet.read(new, 128, {})):
        assert list(read.client.cat.categories) == [] and len(read) == rows
        assert list(read.op.astype(object)) == list(made.op.astype(object))
        assert (read.end == made.end).all() and (read.status == made.status).all()


def test_what_the_frames_raise_is_raised_as_it_was(tmp_path: Path) -> None:
    def broken() -> Iterator[pd.DataFrame]:
        yield frame(10)
        raise HistoryError("the rows are damaged there")

    with pytest.raises(HistoryError, match="the rows are damaged there"):
        parquet.write(broken(), tmp_path / "arrivals.parquet")
    with pytest.raises(HistoryError, match="cannot be written"):
        parquet.write(iter([frame(10)]), tmp_path / "nowhere" / "arrivals.parquet")


def test_files_that_are_none_or_torn_are_one_error(tmp_path: Path) -> None:
    whole = by_pyarrow(frame(500), tmp_path / "whole.parquet").read_bytes()
    path = tmp_path / "arrivals.parquet"
    for content in (b"", b"PAR1", b"PAR1PAR1", b"x" * 200, whole[:-1], whole[:300], whole[:-8] + b"\xff" * 4 + b"PAR1"):
        path.write_bytes(content)
        with pytest.raises(HistoryError, match="cannot be read"):
            parquet.read(path, 100, NAMES)
    with pytest.raises(HistoryError, match="cannot be read"):
        parquet.read(tmp_path / "none", 100, NAMES)
    by_pyarrow(frame(5), path, **{"opensearch-chaos.history": "9"})
    with pytest.raises(HistoryError, match="holds history format '9'"):
        parquet.read(path, 100, NAMES)


def test_damage_within_never_ends_the_process_and_is_no_error_but_ours(tmp_path: Path) -> None:
    """Bits that turned over. Whether the content is as it was is the seal's to say."""
    whole = by_pyarrow(frame(500), tmp_path / "whole.parquet").read_bytes()
    path = tmp_path / "arrivals.parquet"
    refused = 0
    for seed in range(150):
        chance, damaged = random.Random(seed), bytearray(whole)
        for _ in range(chance.choice([1, 3, 20])):
            damaged[chance.randrange(8, len(damaged) - 8)] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            parquet.read(path, 100, NAMES)
        except HistoryError:
            refused += 1
    assert refused > 20


@pytest.mark.full
def test_writing_needs_the_memory_of_some_row_groups(tmp_path: Path) -> None:
    def frames() -> Iterator[pd.DataFrame]:
        for n in range(12):
            yield frame(parquet.ROW_GROUP, seed=n)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "arrivals.parquet"
    assert parquet.write(frames(), path) == 12 * parquet.ROW_GROUP == parquet.count(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000  # KiB; all rows have 600 MB
