"""Arrow tables into columns of Python values and back; Parquet files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from kstreamnb.core.arguments import expect
from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import TopicRecord
from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError
from kstreamnb.frame_cells import arrow_reader, dicts, timestamps_ms, warn_of_cut
from kstreamnb.samples.columns import JOIN_FILES, Roles, cells_by_role, make_records, missing_file
from kstreamnb.samples.text import parse_cell, stored_cell

if TYPE_CHECKING:  # an optional dependency
    import pyarrow

_MARK = b"kstreamnb.sample"
_HINTS = {package: calls for package, *calls in rows_of(__package__, "time_hints.tsv")}
"""By package of a table, or parquet for a file: calls that set the zone of a column and drop rows without a time."""
_FIRST, _PART = 100, 10_000
_OWN = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def schema_of_table(table: pyarrow.Table) -> tuple[tuple[str, str], ...]:
    """Return names and types of the columns."""
    return tuple((field.name, str(field.type)) for field in table.schema)


def records_of_table(table: pyarrow.Table, roles: Roles, package: str = "parquet") -> tuple[TopicRecord, ...]:
    """Return the rows of an Arrow table as records, in their order; hints name calls of the table's ``package``."""
    roles.check(table.column_names)
    with collector_paused():
        cells = cells_by_role(
            roles,
            table.column_names,
            lambda name: _read(name, table.column(name), partial(_times, name=name, package=package)),
            lambda name: _read(name, table.column(name), partial(_values, as_json=True)),
        )
        return make_records(cells, roles)


def _read(name: str, column: pyarrow.ChunkedArray, read: Callable[[pyarrow.ChunkedArray], list[Any]]) -> list[Any]:
    try:
        return read(column)
    except ConfigError:
        raise
    except (OverflowError, ValueError) as error:  # times after the year 9999, two fields of one name
        fact = f'column "{name}" of type "{column.type}" has a value that Python cannot hold'
        raise ConfigError(fact, detail=str(error), hint="convert the column first, for example to text") from error


def _times(column: pyarrow.ChunkedArray, name: str, package: str) -> list[int]:
    import pyarrow as pa

    zone, drop = (hint.format(name) for hint in _HINTS.get(package, _HINTS["pyarrow"]))

    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            fact = f'column "{name}" has times without a time zone'
            detail = f"its type is {column.type}; the same time means a different instant in each zone"
            raise ConfigError(fact, detail=detail, hint=f"name the zone: {zone}")
        if column.null_count:
            fact = f'column "{name}" has no time in {column.null_count:,} of {len(column):,} rows'
            raise ConfigError(fact, hint=f"drop them: {drop}")
        finer = {"us": 1_000, "ns": 1_000_000}.get(column.type.unit, 1)
        kind = pa.timestamp("ms", column.type.tz) if finer == 1 else column.type
        exact = column.cast(kind).cast(pa.int64()).to_numpy()
        if (exact % finer).any():
            warn_of_cut(name)
        return cast("list[int]", (exact // finer).tolist())
    if pa.types.is_signed_integer(column.type) and not column.null_count:
        return cast("list[int]", column.to_numpy().tolist())
    return timestamps_ms(column.to_pylist(), name)


def _values(column: pyarrow.ChunkedArray, *, as_json: bool = False) -> list[Any]:
    """Return Python values, numbers without gaps by a fast path; ``as_json`` is for columns that no sample wrote."""
    import pyarrow as pa

    kind = column.type
    floating = pa.types.is_floating(kind)
    if floating or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        plain = cast("list[Any]", column.to_pylist() if column.null_count else column.to_numpy().tolist())
        return [v if v == v else None for v in plain] if floating and as_json else plain
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.to_numpy(zero_copy_only=False).tolist() if column.num_chunks else []
    if pa.types.is_dictionary(kind):  # not cast: Arrow cannot cast the words of a Polars column
        read = partial(_values, as_json=as_json)
        words = (dict(enumerate(read(pa.chunked_array([chunk.dictionary])))) for chunk in column.chunks)
        return [word for chunk in column.chunks for word in map(next(words).get, chunk.indices.to_pylist())]
    if pa.types.is_struct(kind) and not column.null_count:
        names = [field.name for field in kind]
        if len(set(names)) < len(names):
            raise ValueError(f"its fields {', '.join(names)} are not unique")
        return dicts(names, [_values(part, as_json=as_json) for part in column.flatten()], len(column))
    return list(map(arrow_reader(kind), column.to_pylist())) if as_json else column.to_pylist()


def write_parquet(records: Sequence[TopicRecord], path: Path | str, metadata: dict[str, Any]) -> None:
    """Write records to a Parquet file with one column per field.

    Keys and values keep their types if Arrow returns them unchanged; otherwise they are text cells.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {name: [getattr(record, name) for record in records] for name in _OWN[:4]}
    cells = []
    for name in ("key", "value"):
        values = [getattr(record, name) for record in records]
        array = _typed(values)
        if array is None:
            cells.append(name)
            array = pa.array([None if value is None else stored_cell(value) for value in values], pa.string())
        columns[name] = array
    pairs = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    columns["headers"] = pa.array([record.headers for record in records], pairs)
    table = pa.table(columns)
    mark = json.dumps({**metadata, "cells": cells})
    pq.write_table(table.replace_schema_metadata({_MARK: mark.encode()}), path, compression="zstd")


def _typed(values: list[Any]) -> pyarrow.Array | None:
    """Return the values as an Arrow array if a file of it returns equal values of the same types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(values) > _FIRST and _typed(values[:_FIRST]) is None:  # each name of a map would become a column
        return None
    try:
        array = pa.array(values)
        if pa.types.is_struct(array.type):  # before version 24 Arrow sorted the names of fields
            first = next(value for value in values if value is not None)
            array = pa.array(values, pa.struct([array.type.field(name) for name in first]))
        pq.write_table(pa.table({"_": array}), file := pa.BufferOutputStream())
        back = _values(pq.read_table(pa.BufferReader(file.getvalue())).column("_"))
    except (OSError, ValueError, TypeError, NotImplementedError, OverflowError):  # Arrow's are subclasses of these
        return None
    parts = range(0, max(len(back), len(values)), _PART)  # one text of all values would be long
    return array if all(repr(back[at : at + _PART]) == repr(values[at : at + _PART]) for at in parts) else None


def read_parquet(
    path: Path | str, roles: Roles | None
) -> tuple[tuple[TopicRecord, ...], tuple[tuple[str, str], ...], dict[str, Any]]:
    """Read records, schema and metadata of a Parquet file; without ``roles`` it must be one that a sample wrote."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    expect(path, str | Path, "path")
    # Each file of a sample has its own offsets, and says which cells are text.
    if roles is None and Path(path).is_dir():
        hint = f"name the columns with topic=, key= and timestamp=; of files of to_parquet {JOIN_FILES}"
        raise ConfigError(f'"{path}" is a folder', hint=hint)
    try:
        table = pq.read_table(path)
    except (OSError, ValueError, NotImplementedError) as error:  # the last one: the files have other types
        is_pattern = "*" in str(path) and not Path(path).exists()  # Windows has another error for such a name
        if is_pattern or isinstance(error, FileNotFoundError):
            raise missing_file(path) from error
        foreign = isinstance(error, pa.ArrowInvalid)
        fact = f'file "{Path(path).name}" {"is not a Parquet file" if foreign else "cannot be read"}'
        hint = "read it with pandas, and pass the frame to Sample.from_dataframe()"
        raise ConfigError(fact, detail=str(error), hint=hint if foreign else None) from error
    if not table.column_names and Path(path).is_dir():
        raise ConfigError(f'folder "{path}" has no Parquet file')
    # pandas writes the index of rows that were filtered or sorted as such columns
    named, names = roles.read(()) if roles else [], table.column_names
    table = table.select([name for name in names if name in named or not name.startswith("__index_level_")])
    mark = (table.schema.metadata or {}).get(_MARK)
    if roles is not None:
        return records_of_table(table, roles), schema_of_table(table), {}
    if mark is None:
        fact = f'file "{Path(path).name}" was not written by Sample.to_parquet'
        detail = f"its columns are {', '.join(table.column_names)}"
        raise ConfigError(fact, detail=detail, hint="name its columns with topic=, key= and timestamp=")
    metadata = json.loads(mark)
    with collector_paused():
        columns = {name: _values(table.column(name)) for name in _OWN[:6]}
        for name in metadata["cells"]:
            columns[name] = [None if cell is None else parse_cell(cell) for cell in columns[name]]
        rows = zip(*(columns[name] for name in _OWN[:6]), _headers(table.column("headers")), strict=True)
        return tuple(map(TopicRecord._make, rows)), schema_of_table(table), metadata


def _headers(column: pyarrow.ChunkedArray) -> list[Any]:
    import pyarrow.compute as pc

    if not pc.sum(pc.list_value_length(column)).as_py():
        return [()] * len(column)
    return [tuple((pair["name"], pair["value"]) for pair in pairs) for pairs in column.to_pylist()]
