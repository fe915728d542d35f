"""Static inputs: DataFrames, pandas frames and records, converted to one form that Spark can sort.

Rows have no offsets, so their order must be given: ``order_by``, otherwise time and then content. A pandas frame and
records keep their own order. Binary columns hold Kafka's bytes, as Spark's own Kafka reader gives them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kstreamnb.core.arguments import check_arguments
from kstreamnb.core.codec import encoder, to_bytes
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError, EngineError, PartitionError, SerdeError
from kstreamnb.frame_cells import (
    dicts,
    expect_json_type,
    expect_order,
    expect_text_name,
    frame_package,
    pandas_times,
    pandas_values,
    sorting,
    spark_times,
)
from kstreamnb.spark.io.arrow_types import HEADERS
from kstreamnb.spark.jvm.session import move_frame

CUT, FIRST, LAST = "cut", "first", "last"
"""The names of the figures that observations of times have: of timestamps the first one, of numbers the others."""
_ROW = "__row"
_SECOND = "yyyy-MM-dd'T'HH:mm:ss."
_ISO = {"timeZone": "UTC", "timestampFormat": f"{_SECOND}SSSSSS'Z'", "timestampNTZFormat": f"{_SECOND}SSSSSS"}


@dataclass(frozen=True)
class FrameInput:
    """A DataFrame as a topic: the role of each column.

    Args:
        frame: a Spark or pandas DataFrame.
        key: name of the column with keys, or None for records without a key. Default: "key".
        value: name of the column with values, or names of the fields of a dict. Default: the column ``value`` if there
            is one, else a dict of all other columns, the key's among them.
        timestamp: name of the column with event times: timestamps with a time zone, of which whole milliseconds are
            kept, or milliseconds since the epoch. Default: "timestamp".
        partition: name of the column with partitions. Default: None, keys choose.
        headers: name of a Spark column with headers, an array of structs of name and bytes. Default: None.
        order_by: names of the columns that say in which order the rows arrived. Default: Spark rows by time and then
            by content, pandas rows in their own order.

    Example:
        >>> import pandas
        >>> from kstreamnb import StreamsBuilder, run
        >>> builder = StreamsBuilder("rides")
        >>> builder.stream("trips").map_values(lambda trip: trip["km"]).to("lengths")
        >>> trips = pandas.DataFrame({"bike": ["a", "b"], "km": [3, 5], "ended": [60_000, 90_000]})
        >>> result = run(builder.build(), inputs={"trips": FrameInput(trips, key="bike", timestamp="ended")})
        >>> [(record.key, record.value, record.timestamp) for record in result.records("lengths")[0]]
        [('a', 3, 60000), ('b', 5, 90000)]
    """

    frame: Any
    key: str | None = "key"
    value: str | Collection[str] | None = None
    timestamp: str = "timestamp"
    partition: str | None = None
    headers: str | None = None
    order_by: Collection[str] | str = ()

    def __post_init__(self) -> None:
        check_arguments(FrameInput.__init__, vars(self))

    def columns(self) -> tuple[str, ...]:
        """Return the columns that give the order of arrival."""
        return (self.order_by,) if isinstance(self.order_by, str) else tuple(self.order_by)


def uniform(
    spark: SparkSession,
    topic: str,
    given: object,
    *,
    serdes: tuple[Serde, Serde],
    partitions: int,
    cuts: list[tuple[str, Observation]],
) -> DataFrame:
    """Return a topic's rows as columns p, ts, k, v, h if there are headers, and o0, o1, … if an order was given.

    p is -1 if the key chooses the partition. ``cuts`` gets what tells after the run whether times of a column were cut,
    or the first and last of times that are numbers.

    Raises: ConfigError when a column is missing or has a type that cannot serve.
    """
    chosen = given if isinstance(given, FrameInput) else FrameInput(given)
    frame, chosen = _spark_frame(spark, topic, chosen, serdes)
    _check_columns(topic, frame.columns, chosen)
    _check_order(topic, frame, chosen)
    partition = F.lit(-1) if chosen.partition is None else _existing(F.col(chosen.partition), topic, partitions)
    missing = f'column "{chosen.timestamp}" of input "{topic}" has a row without a time\nHint: drop such rows: '
    advice = F.lit(f'{missing}frame.dropna(subset=["{chosen.timestamp}"])')
    times = F.coalesce(spark_times(frame, chosen.timestamp), _failure(EngineError, advice))
    if isinstance(frame.schema[chosen.timestamp].dataType, T.TimestampType):
        cuts.append((chosen.timestamp, Observation()))
        frame = frame.observe(cuts[-1][1], F.bool_or(F.unix_micros(chosen.timestamp) % 1000 != 0).alias(CUT))
    else:
        cuts.append((f'input "{topic}"', Observation()))
        ends = F.min(chosen.timestamp).alias(FIRST), F.max(chosen.timestamp).alias(LAST)
        frame = frame.observe(cuts[-1][1], *ends)
    key = F.lit(None).cast("string") if chosen.key is None else _cell(frame, chosen.key)
    return frame.select(
        partition.cast("int").alias("p"),
        times.alias("ts"),
        key.alias("k", metadata={"column": chosen.key}),
        _value(frame, chosen).alias("v"),
        *(() if chosen.headers is None else (F.col(chosen.headers).alias("h"),)),  # nulls alone cost 20 µs a row
        *(F.col(name).alias(f"o{number}") for number, name in enumerate(chosen.columns())),
    )


def frame_of_records(
    spark: SparkSession, records: Sequence[TopicRecord], serdes: tuple[Serde, Serde], chosen: FrameInput | None = None
) -> FrameInput:
    """Return records as a frame of Kafka's bytes, in their own order; rows of ``chosen`` if it is given."""
    partitioned = all(record.partition >= 0 for record in records) if chosen is None else chosen.partition is not None
    columns = {
        "key": _bytes_of(records, "key", serdes[0], chosen),
        "value": _bytes_of(records, "value", serdes[1], chosen),
        "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        "partition": pa.array([record.partition for record in records], pa.int32()),
        _ROW: pa.array(range(len(records)), pa.int64()),
    }
    headers = any(record.headers for record in records)
    if headers:
        columns["headers"] = pa.array([record.headers for record in records], HEADERS)
    frame = spark.createDataFrame(pa.table(columns))
    partition, headers_name = "partition" if partitioned else None, "headers" if headers else None
    return FrameInput(frame, value="value", partition=partition, headers=headers_name, order_by=_ROW)


def _bytes_of(records: Sequence[TopicRecord], role: str, serde: Serde, chosen: FrameInput | None) -> pa.Array:
    """Return Kafka's bytes of keys or values; an error names the record, which of a frame is a row and a column."""
    write, data = encoder(serde), list[bytes | None]()
    try:
        for each in map(attrgetter(role), records):
            data.append(to_bytes(serde, write(each)))
    except SerdeError as error:
        topic, _, number, *_ = records[len(data)]
        within = f', column "{column}"' if isinstance(column := getattr(chosen, role, None), str) else ""
        place = f'{"offset" if chosen is None else "row"} {number} of input "{topic}"{within}'
        error.add_note(f"Detail: it is the {role} at {place}")
        raise
    return pa.array(data, pa.binary())


def _spark_frame(
    spark: SparkSession, topic: str, chosen: FrameInput, serdes: tuple[Serde, Serde]
) -> tuple[DataFrame, FrameInput]:
    package = frame_package(chosen.frame)
    if package == "pyspark":
        if chosen.frame.isStreaming:
            fact = f'expected a static DataFrame for input "{topic}", got a streaming one'
            raise ConfigError(fact, hint="read it with spark.read; ks.deploy processes topics continuously")
        return move_frame(chosen.frame, spark), chosen  # read with that session's settings
    if package == "pandas":
        _check_columns(topic, list(chosen.frame.columns), chosen, chosen.frame.index.names)
        records = list(_pandas_records(topic, chosen))
        own = frame_of_records(spark, records, serdes, chosen)
        return own.frame, own
    hint = "give a Spark or pandas DataFrame, or ks.spark.FrameInput(frame, key=…, value=…, timestamp=…)"
    if hasattr(type(chosen.frame), "content_hash"):  # a sample, whose records name their topics
        hint = "a sample names its topics: inputs=sample; join samples of several topics with first + second"
    raise ConfigError(f'expected a DataFrame for input "{topic}", got type "{type(chosen.frame).__name__}"', hint=hint)


def _pandas_records(topic: str, chosen: FrameInput) -> Iterator[TopicRecord]:
    order = list(chosen.columns())
    frame = chosen.frame.reset_index(drop=True)
    with sorting(order):
        frame = frame.sort_values(order, kind="stable") if order else frame
    names = _value_names(list(frame.columns), chosen)
    read = cache(lambda name: pandas_values(frame[name], partial(expect_order, name)))
    count = len(frame)
    keys = [None] * count if chosen.key is None else read(chosen.key)
    values = read(names) if isinstance(names, str) else dicts(names, [read(name) for name in names], count)
    times = pandas_times(frame[chosen.timestamp], chosen.timestamp)
    numbers = [-1] * count if chosen.partition is None else read(chosen.partition)
    for row, key, value, timestamp, partition in zip(frame.index, keys, values, times, numbers, strict=True):
        yield TopicRecord(topic, partition, row, timestamp, key, value)


def _value_names(columns: Sequence[str], chosen: FrameInput) -> str | list[str]:
    if isinstance(chosen.value, str):
        return chosen.value
    if chosen.value is not None:
        return list(chosen.value)
    if "value" in columns:
        return "value"
    taken = {chosen.timestamp, chosen.partition, chosen.headers}
    return [name for name in columns if name not in taken]


def _value(frame: DataFrame, chosen: FrameInput) -> Column:
    names = _value_names(frame.columns, chosen)
    if isinstance(names, str):
        return _cell(frame, names)
    return F.struct(*(_cell(frame, name).alias(name) for name in names))


def _cell(frame: DataFrame, name: str) -> Column:
    kind = frame.schema[name].dataType
    expect_json_type(name, kind)
    return _plain(F.col(name), kind)


def _plain(cell: Column, kind: T.DataType) -> Column:
    """Return a column as JSON can hold it, also within others, the same as in a sample.

    Times and decimals with fractions become text, intervals of days seconds, and NaN null; a column without such is
    returned itself.
    """
    if isinstance(kind, (T.TimestampType, T.TimestampNTZType)):
        text = F.regexp_replace(F.to_csv(F.struct(cell), _ISO), r"\.0+(?=Z?$)", "")
        text = F.regexp_replace(text, r"(?<=\.\d{3})000(?=Z$)", "")
        return F.when(cell.isNotNull(), text)
    if isinstance(kind, T.DateType) or (isinstance(kind, T.DecimalType) and kind.scale):
        return cell.cast("string")
    if isinstance(kind, T.TimeType):
        return F.regexp_replace(F.date_format(cell, "HH:mm:ss.SSSSSS"), r"\.0+$", "")
    if isinstance(kind, (T.DoubleType, T.FloatType)):
        return F.nanvl(cell, F.lit(None).cast(kind))
    if isinstance(kind, T.DayTimeIntervalType):
        parts = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
        return sum((F.extract(F.lit(part), cell) * size for part, size in parts.items()), F.lit(0)).cast("double")
    if isinstance(kind, T.StructType) and any(map(_changes, (field.dataType for field in kind))):
        fields = (_plain(cell[field.name], field.dataType).alias(field.name) for field in kind)
        return F.when(cell.isNotNull(), F.struct(*fields))
    if isinstance(kind, T.ArrayType) and _changes(kind.elementType):
        return F.transform(cell, lambda item: _plain(item, kind.elementType))
    if isinstance(kind, T.MapType) and _changes(kind.valueType):
        return F.transform_values(cell, lambda _, item: _plain(item, kind.valueType))
    return cell


def _changes(kind: T.DataType) -> bool:
    cell = F.lit(None)
    return _plain(cell, kind) is not cell


def _check_columns(topic: str, columns: list[str], chosen: FrameInput, index: Sequence[object] = ()) -> None:
    single = [chosen.key, chosen.timestamp, chosen.partition, chosen.headers]
    names = _value_names(columns, chosen)
    wanted = [*single, *((names,) if isinstance(names, str) else names), *chosen.columns()]
    for name in wanted:
        if name is not None and name not in columns:
            fact = f'input "{topic}" has no column "{name}"'
            hint = "name the columns: ks.spark.FrameInput(frame, key=…, value=…, timestamp=…)"
            hint = "it is the index: pass frame.reset_index()" if name in index else hint
            raise ConfigError(fact, detail=f"its columns are {', '.join(map(str, columns)) or 'none'}", hint=hint)
        if name is not None:
            expect_text_name(name)
            if columns.count(name) > 1:
                raise ConfigError(f'column name "{name}" of input "{topic}" is not unique', hint="rename a column")


def _check_order(topic: str, frame: DataFrame, chosen: FrameInput) -> None:
    for name in chosen.columns():
        if isinstance(kind := frame.schema[name].dataType, (T.StructType, T.ArrayType, T.MapType, T.VariantType)):
            fact = f'column "{name}" of input "{topic}" has type "{kind.simpleString()}" and cannot order rows'
            raise ConfigError(fact, hint="order by its parts: select them as columns")


def _existing(number: Column, topic: str, partitions: int) -> Column:
    """Return a column of partitions that fails with a PartitionError if a partition does not exist."""
    begin = F.lit(f'input "{topic}" has a row for partition ')
    shown = F.coalesce(number.cast("string"), F.lit("NULL"))
    failure = _failure(PartitionError, begin, shown, F.lit(f", expected 0 to {partitions - 1}"))
    return F.when(number.between(0, partitions - 1), number).otherwise(failure)


def _failure(kind: type[EngineError], *parts: Column) -> Column:
    """Return a column that fails with an error of a kind, whose text consists of columns."""
    return F.raise_error(F.concat(F.lit(f"\n{kind.__module__}.{kind.__name__}: "), *parts, F.lit("\n")))
