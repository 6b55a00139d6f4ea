"""Arrivals as a Parquet file: rows in groups of a million, zstd, names as dictionaries.

Written and read by arrow-rs through arro3 (33 MB installed; pyarrow, with which earlier versions wrote the same format,
takes 170).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chaos.base.errors import HistoryError
from chaos.history.format import HISTORY_VERSION

if TYPE_CHECKING:  # they take 0.4 s of a processor and 60 MB, and most that import this file read no arrivals
    import pandas as pd

ROW_GROUP = 1_000_000
"""Arrivals of a row group, and those that are in memory at once while the file is written."""
_VERSION_KEY = "opensearch-chaos.history"
"""Of the metadata of the file's Arrow schema: the format's version."""
_TIMES = ("k", "intended", "start", "end")
"""Columns that grow or hardly change from row to row: differences are small."""
_MAGIC, _FOOTER_LENGTH = b"PAR1", 4
_ARROW_SCHEMA = b"ARROW:schema"
"""The key of a file's metadata under which Arrow keeps the types of its columns."""
_LEAST = 2 * len(_MAGIC) + _FOOTER_LENGTH
"""What a Parquet file begins and ends with, the bytes of its footer's length before that, and so its least size."""


def write(frames: Iterator[pd.DataFrame], target: Path) -> int:
    """Write arrivals, a row group a frame; returns how many. Whatever ``frames`` raises is raised as it was."""
    import arro3.core as arrow
    import arro3.io

    written = 0
    raised: list[BaseException] = []
    first = next(frames)
    schema = _batch(first).schema.with_metadata({_VERSION_KEY: str(HISTORY_VERSION)})

    def batches() -> Iterator[Any]:
        nonlocal written
        frame: pd.DataFrame | None = first
        try:
            while frame is not None:
                written += len(frame)
                yield _batch(frame).with_schema(schema)
                frame = next(frames, None)
        except BaseException as error:
            raised.append(error)
            raise

    try:
        arro3.io.write_parquet(
            arrow.RecordBatchReader.from_batches(schema, batches()),
            target,
            compression="zstd(1)",
            max_row_group_size=ROW_GROUP,
            column_dictionary_enabled=dict.fromkeys(_TIMES, False),
            column_encoding=dict.fromkeys(_TIMES, "delta_binary_packed"),
        )
    except Exception as error:
        raise (raised[0] if raised else HistoryError(f"{target} cannot be written: {error}")) from None
    return written


def count(path: Path) -> int:
    """How many arrivals a file holds, all of which are read. Raises HistoryError where one cannot be."""
    return sum(batch.num_rows for batch in _batches(path, _opened(path, ROW_GROUP)))


def read(path: Path, size: int, names: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """All arrivals of a file, taken over ``size`` rows at a time. ``names``: as :func:`read_batches` takes them."""
    import pandas as pd

    frames = list(read_batches(path, (), size, names))
    if len(frames) == 1:
        return frames[0]
    for name in [name for name in frames[0] if _is_named(frames[0][name])]:
        every = _all((), (each for frame in frames for each in frame[name].cat.categories))
        for frame in frames:
            frame[name] = frame[name].cat.set_categories(every)
    return pd.concat(frames, ignore_index=True)


def read_batches(
    path: Path, columns: Sequence[str], size: int, names: Mapping[str, Sequence[str]]
) -> Iterator[pd.DataFrame]:
    """The rows of a file, at most ``size`` at a time and at least one frame; no ``columns`` are all of them. Those that
    the file lacks are left out.

    ``names``: for each column of names those that are known, which come first among its categories. Raises HistoryError
    for a file that cannot be read, and for one of another version.
    """
    reader = _opened(path, size)
    fields = [(field.name, field.type) for field in reader.schema if not columns or field.name in columns]
    held = {name for name, _ in fields}
    order = [name for name in columns if name in held] or [name for name, _ in fields]
    made = False
    for batch in _batches(path, reader):
        made = True
        yield _frame({name: _series(batch.column(name), names.get(name, ())) for name in order})
    if not made:
        none = {name: _none(type_, names.get(name, ())) for name, type_ in fields}
        yield _frame({name: none[name] for name in order})


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(columns, copy=False)


def _none(type_: Any, names: Sequence[str]) -> Any:
    import arro3.core as arrow
    import pandas as pd

    if any(asked(type_) for asked in (arrow.DataType.is_dictionary, arrow.DataType.is_null, arrow.DataType.is_string)):
        return pd.Categorical.from_codes(np.zeros(0, "i1"), categories=list(names))
    return arrow.Array([], type_).to_numpy()


def _opened(path: Path, size: int) -> Any:
    import arro3.io

    reader: Any
    try:
        _refuse_torn(path)
        with _no_panic():
            reader = arro3.io.read_parquet(path, batch_size=size)
            if any(_holds_no_name(field.type) for field in reader.schema):
                reader = arro3.io.read_parquet(io.BytesIO(_plainly_typed(path)), batch_size=size)
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path} cannot be read: {error}") from error
    version = _metadata(reader.schema).get(_VERSION_KEY)
    if version != str(HISTORY_VERSION):
        raise HistoryError(f"{path} holds history format {version!r}; this version reads {HISTORY_VERSION}")
    return reader


def _batches(path: Path, reader: Any) -> Iterator[Any]:
    while True:
        try:
            with _no_panic():
                batch = next(reader, None)
        except (OSError, ValueError) as error:
            raise HistoryError(f"{path} cannot be read: {error}") from error
        if batch is None:
            return
        yield batch


def _holds_no_name(type_: Any) -> bool:
    """Whether a column is a dictionary of nulls, as pyarrow makes one of names of which there are none."""
    import arro3.core as arrow

    return bool(arrow.DataType.is_dictionary(type_)) and arrow.DataType.is_null(type_.value_type)


def _plainly_typed(path: Path) -> bytes:
    """A file whose columns have the types that Parquet says, not those of its Arrow schema.

    arrow-rs ends the process where it meets a dictionary of nulls, and reads the same column as plain nulls.
    """
    whole = path.read_bytes()
    at = whole.rindex(_ARROW_SCHEMA)
    return whole[:at] + _ARROW_SCHEMA.lower() + whole[at + len(_ARROW_SCHEMA) :]


@contextmanager
def _no_panic() -> Iterator[None]:
    """Whatever the library raises is a ValueError or OSError; its own panics are no Exception of Python's."""
    try:
        yield
    except (OSError, ValueError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(str(error)) from error


def _refuse_torn(path: Path) -> None:
    """Raise ValueError for a file that does not begin and end as Parquet does: the library would panic."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < _LEAST or file.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it is no Parquet file")
        file.seek(size - len(_MAGIC) - _FOOTER_LENGTH)
        footer = int.from_bytes(file.read(_FOOTER_LENGTH), "little")
        if file.read() != _MAGIC or footer > size - _LEAST:
            raise ValueError("it is no whole Parquet file")


def _metadata(schema: Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in schema.metadata.items()}


# ------------------------------------------------------------------------------- columns and categoricals


def _is_named(column: pd.Series) -> bool:
    import pandas as pd

    return isinstance(column.dtype, pd.CategoricalDtype)


def _batch(frame: pd.DataFrame) -> Any:
    import arro3.core as arrow

    return arrow.RecordBatch.from_pydict(
        {
            str(name): _dictionary(frame[name]) if _is_named(frame[name]) else arrow.Array.from_numpy(_plain(column))
            for name, column in frame.items()
        }
    )


def _plain(column: pd.Series) -> np.ndarray:
    return np.ascontiguousarray(column.to_numpy())


def _dictionary(column: pd.Series) -> Any:
    """A categorical as a dictionary of names; what has no name is null."""
    import arro3.core as arrow

    codes = column.cat.codes.to_numpy()
    names: list[str | None] = [str(each) for each in column.cat.categories]
    index = arrow.Array.from_numpy(codes[:0]).type
    pool = arrow.Array([*names, None], arrow.DataType.large_utf8())
    rows = np.where(codes < 0, len(names), codes).astype("u4")
    return pool.cast(arrow.DataType.dictionary(index, arrow.DataType.large_utf8())).take(arrow.Array.from_numpy(rows))


def _series(column: Any, names: Sequence[str]) -> Any:
    """An Arrow array as what a frame holds: numbers, or a categorical."""
    import arro3.core as arrow
    import pandas as pd

    if arrow.DataType.is_null(column.type):
        return pd.Categorical.from_codes(np.full(len(column), -1, "i1"), categories=list(names))
    if arrow.DataType.is_string(column.type):
        texts = column.to_pylist()
        return pd.Categorical(texts, categories=_all(names, (text for text in texts if text is not None)))
    if not arrow.DataType.is_dictionary(column.type):
        return column.to_numpy()
    found = arrow.dictionary_dictionary(column).to_pylist()
    named = pd.Categorical.from_codes(_codes(arrow.dictionary_indices(column)), categories=found)
    return named.set_categories(_all(names, found))


def _all(known: Iterable[str], found: Iterable[str]) -> list[str]:
    return list(dict.fromkeys([*known, *found]))


def _codes(indices: Any) -> np.ndarray:
    """Numbers of names, -1 where there is none."""
    import nanoarrow

    if not indices.null_count:
        found: np.ndarray = indices.to_numpy()
        return found
    view = nanoarrow.c_array(indices).view()
    part = slice(view.offset, view.offset + len(indices))
    named = np.unpackbits(np.asarray(view.buffer(0)).view("u1"), bitorder="little")[part].astype(bool)
    return np.where(named, np.asarray(view.buffer(1))[part], -1)
