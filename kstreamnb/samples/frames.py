"""pandas and Spark DataFrames into records. Rows have no offsets: their order and their partitions must be given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any, NoReturn

from kstreamnb.core.heap import collector_paused
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Instant, instant_ms
from kstreamnb.errors import ConfigError, extra
from kstreamnb.frame_cells import (
    expect_json_type,
    expect_order,
    frame_package,
    pandas_times,
    pandas_values,
    sorting,
    spark_times,
)
from kstreamnb.frames import TIMES
from kstreamnb.samples.arrow import records_of_table, schema_of_table
from kstreamnb.samples.columns import Roles, cells_by_role, make_records, number_offsets
from kstreamnb.samples.text import format_cell

Schema = tuple[tuple[str, str], ...]


def frame_kind(frame: object) -> str:
    """Return ``pandas``, ``spark``, or ``arrow`` for another frame that exports Arrow data; else raise ConfigError."""
    package = frame_package(frame)
    if package in ("pandas", "pyspark") and hasattr(frame, "columns"):
        if getattr(frame.columns, "nlevels", 1) > 1:  # as after agg() with several functions
            hint = 'join their names: frame.columns = ["_".join(filter(None, name)) for name in frame.columns]'
            raise ConfigError("columns of the frame have names of several levels", hint=hint)
        return "spark" if package == "pyspark" else "pandas"
    if hasattr(frame, "__arrow_c_stream__") and (hasattr(frame, "columns") or hasattr(frame, "schema")):
        return "arrow"
    hint = "pass a DataFrame of pandas, Polars or Spark, or a table of pyarrow"
    hint = "run the lazy query: pass frame.collect()" if hasattr(frame, "collect") else hint
    if isinstance(frame, list | dict | str | PathLike):
        hint = "make one: pandas.DataFrame(rows), or pandas.read_csv(path) for a file"
    raise ConfigError(f'expected a DataFrame, got type "{type(frame).__name__}"', hint=hint)


def records_of_pandas(frame: Any, roles: Roles) -> tuple[tuple[TopicRecord, ...], Schema]:
    """Return the rows of a pandas frame in its own order, or sorted by columns."""
    schema = tuple((str(name), str(kind)) for name, kind in frame.dtypes.items())
    for name in (*roles.named().values(), *roles.order_by):
        if name not in frame.columns and name in frame.index.names:
            raise ConfigError(f'"{name}" is the index of the frame', hint="pass frame.reset_index()")
    roles.check(list(frame.columns), roles.order_by)
    if roles.order_by:
        with sorting(roles.order_by):
            frame = frame.sort_values(list(roles.order_by), kind="stable")
    with collector_paused():
        cells = cells_by_role(
            roles,
            list(frame.columns),
            lambda name: pandas_times(frame[name], name),
            lambda name: pandas_values(frame[name], partial(_refuse_value, name)),
        )
        return make_records(cells, roles), schema


def records_of_arrow(frame: Any, roles: Roles) -> tuple[tuple[TopicRecord, ...], Schema]:
    """Return the rows of a Polars frame or an Arrow table in its own order, or sorted by columns."""
    import pyarrow

    kinds = schema if isinstance(schema := getattr(frame, "schema", None), Mapping) else {}  # Polars has a mapping
    # Arrow gets the addresses of objects in memory.
    for name in (name for name, kind in kinds.items() if str(kind) in ("Object", "Int128", "UInt128")):
        hint = f'convert it first, for example to text, or leave it out: frame.drop("{name}")'
        raise ConfigError(f'column "{name}" has type "{kinds[name]}", which a sample cannot hold', hint=hint)
    table = pyarrow.table(frame)
    roles.check(table.column_names, roles.order_by)
    records = records_of_table(table, roles, frame_package(frame).strip("_"))
    if roles.order_by:  # not by Arrow, which cannot sort the texts of Polars
        cells = zip(*(table.column(name).to_pylist() for name in roles.order_by), strict=True)
        ranks = [[(1, 0) if cell is None or cell != cell else (0, cell) for cell in row] for row in cells]
        with sorting(roles.order_by):
            records = number_offsets(records[row] for row in sorted(range(len(ranks)), key=ranks.__getitem__))
    return records, schema_of_table(table)


def _refuse_value(name: str, value: object) -> NoReturn:
    expect_order(name, value)
    fact = f'column "{name}" has a value of type "{type(value).__name__}", which a sample cannot hold'
    raise ConfigError(fact, hint=f'convert it first, for example to text: frame["{name}"] = frame["{name}"].map(str)')


def records_of_spark(
    frame: Any,
    roles: Roles,
    *,
    between: tuple[Instant, Instant] | None = None,
    key_share: float | None = None,
    limit: int = 100_000,
) -> tuple[tuple[TopicRecord, ...], Schema]:
    """Draw a bounded number of records from a Spark frame, the same ones on every run.

    ``between`` keeps a range of times, ``key_share`` all rows of that share of the keys, by their hash. A draw of more
    than ``limit`` rows is refused: which rows come first would be arbitrary. Without columns to sort by the rows are
    ordered by time and then by content.
    """
    from pyspark.sql import functions as F

    roles.check(frame.columns)
    schema = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    for name in roles.read(frame.columns):
        expect_json_type(name, frame.schema[name].dataType)
    drawn, times = frame, spark_times(frame, roles.timestamp)
    if between is not None:
        low, high = (instant_ms(each, "end of the draw") for each in between)
        drawn = drawn.where((times >= low) & (times < high))
    if key_share is not None:
        if roles.key is None or not 0 < key_share <= 1:
            raise ConfigError(f"key_share= needs a key column and must be above 0 and at most 1, got {key_share}")
        drawn = drawn.where(F.pmod(F.xxhash64(roles.key), F.lit(1 << 20)) < int(key_share * (1 << 20)))
    if roles.order_by:
        drawn = drawn.orderBy(*roles.order_by)
    table = drawn.limit(limit + 1).toArrow()
    if table.num_rows > limit:
        fact = f"more than {limit:,} rows were selected"
        raise ConfigError(fact, hint="narrow it with between= or key_share=, or raise limit=")
    records = records_of_table(table, roles, "pyspark")
    if not roles.order_by:
        by_content = sorted(records, key=lambda each: (each.timestamp, format_cell(each.key), format_cell(each.value)))
        records = number_offsets(by_content)
    return records, schema


@extra("samples")
def pandas_frame(columns: dict[str, list[object]]) -> Any:
    """Return columns as a pandas frame, with times as ``datetime64[ms, UTC]``."""
    import numpy
    import pandas

    cells = pandas.DataFrame({name: pandas.Series(column, dtype=object) for name, column in columns.items()})
    frame = cells.infer_objects()
    for name in frame.select_dtypes("float"):
        if any(type(cell) is int and int(float(cell)) != cell for cell in columns[str(name)]):
            frame[name] = cells[name]  # a gap makes floats of whole numbers, which would change large ones
    for name in _times(columns):
        frame[name] = pandas.Series(numpy.array(columns[name], "datetime64[ms]")).dt.tz_localize("UTC")
    return frame


@extra("samples")
def spark_frame(columns: dict[str, list[object]], spark: Any) -> Any:
    """Return columns as a Spark frame of a session, or of the active one; headers as Spark's Kafka source has them."""
    import pyarrow
    from pyspark.sql import SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ConfigError("no Spark session is active", hint="pass one: to_spark(ks.spark.spark_session())")
    kinds = dict.fromkeys(_times(columns), pyarrow.timestamp("ms", "UTC"))
    kinds["headers"] = pyarrow.list_(pyarrow.struct({"key": pyarrow.string(), "value": pyarrow.binary()}))
    arrays = {}
    for name, column in columns.items():
        try:
            array = pyarrow.array(column, kinds.get(name))
            arrays[name] = array.cast(pyarrow.string()) if array.null_count == len(array) else array
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            fact = f'column "{name}" has values that share no Spark type'
            raise ConfigError(fact, detail=str(error), hint="use to_pandas()") from error
    return session.createDataFrame(pyarrow.table(arrays))


def _times(columns: dict[str, list[object]]) -> list[str]:
    return [name for name in TIMES if name in columns]
