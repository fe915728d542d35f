"""Cells of data frames as values that JSON can hold, and as times."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from math import floor
from typing import Any, NamedTuple, SupportsIndex, cast
from uuid import UUID

from kstreamnb.core.formatting import join_list
from kstreamnb.core.record import Windowed
from kstreamnb.core.time import MAX_TIME_MS, instant_ms, time_ms
from kstreamnb.errors import ConfigError
from kstreamnb.source_location import user_origin

_KEPT = (str, bool, int, bytes, UUID, Windowed)
_MISSING = ("NaTType", "NAType")  # by name: pandas is optional, and its NaT claims to be a datetime
_TEXTS = ("Period", "Interval")
_DAY_OR_MONTH = re.compile(r'"\s*\d{1,2}[^\w:]\d{1,2}[^\w:]\d+')
"""The beginning of a quoted time such as 02/01/2026, whose day or month is first."""


def plain_value(value: object, other: Callable[[object], Any] = lambda value: value) -> Any:
    """Return a frame's value as JSON can hold it; ``other`` gets a value of a type that is not known.

    Times, decimals, periods and intervals become text, durations seconds, arrays lists, and NaN None. Intervals of
    months, days and nanoseconds, such as DuckDB's, have no fixed length: they become ISO 8601 text.

    Example:
        >>> plain_value({"price": Decimal("1.50"), "wait": timedelta(minutes=1), "rate": float("nan")})
        {'price': '1.50', 'wait': 60.0, 'rate': None}
    """
    kind = type(value).__name__
    if type(value).__module__.partition(".")[0] == "numpy":  # before Python's types: some of NumPy's are subclasses
        return _numpy_value(value, other)
    if value is None or isinstance(value, _KEPT):
        return value
    if kind in _MISSING:
        return None
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else _utc_text(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal) or kind in _TEXTS:
        return str(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(item, other) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return _interval_text(*value) if kind == "MonthDayNano" else [plain_value(item, other) for item in value]
    return other(value)


def _interval_text(months: int, days: int, nanoseconds: int) -> str:
    date_part = "".join(f"{count}{unit}" for count, unit in ((months, "M"), (days, "D")) if count)
    seconds = f"T{Decimal(nanoseconds) / 1_000_000_000:f}S" if nanoseconds or not date_part else ""
    return f"P{date_part}{seconds}"


def frame_package(frame: object) -> str:
    """Return the package of a frame's class: "pandas" also for its subclasses, such as those of GeoPandas."""
    packages = [kind.__module__.partition(".")[0] for kind in type(frame).__mro__]
    return "pandas" if "pandas" in packages else packages[0]


def arrow_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that converts Python values of an Arrow type to plain ones, and maps (lists of pairs) to dicts.

    Decimals of a type without fractions, such as the sums of DuckDB, are whole numbers.

    Args:
        kind: a type of Arrow.
    """
    if hasattr(kind, "item_type"):
        item = arrow_reader(kind.item_type)
        return lambda pairs: None if pairs is None else _of_pairs([(str(name), item(value)) for name, value in pairs])
    if hasattr(kind, "value_field"):  # any kind of list
        item = arrow_reader(kind.value_type)
        return lambda items: None if items is None else list(map(item, items))
    if hasattr(kind, "get_all_field_indices"):  # a struct
        fields = {field.name: arrow_reader(field.type) for field in kind}
        return lambda row: None if row is None else {name: fields[name](cell) for name, cell in row.items()}
    if getattr(kind, "scale", None) == 0:
        return lambda number: None if number is None else int(number)
    return plain_value


def python_values(column: Any) -> list[Any]:
    """Return the values of an Arrow column from Spark, where most types are plain already."""
    cells: list[Any] = column.to_pylist()
    plain = not any(kind in str(column.type) for kind in ("map<", "decimal"))
    return cells if plain else list(map(arrow_reader(column.type), cells))


def _of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(made := dict(pairs)) < len(pairs):
        raise ValueError("names of a map are not unique")
    return made


def _utc_text(instant: datetime) -> str:
    """Return a datetime with a zone as ISO text in UTC, with a fraction of a second only if there is one."""
    local = instant.astimezone(UTC).replace(tzinfo=None)
    finer = instant.microsecond % 1000 or getattr(instant, "nanosecond", 0)  # pandas has nanoseconds
    return local.isoformat(timespec="auto" if finer else "milliseconds").removesuffix(".000") + "Z"


def expect_order(name: str, value: object) -> object:
    """Return a value of a column; raise ConfigError for a set, whose order changes from process to process."""
    if isinstance(value, set | frozenset):
        fact = f'column "{name}" has a value of type "{type(value).__name__}", which has no order'
        raise ConfigError(fact, hint=f'make lists of the sets: frame["{name}"] = frame["{name}"].map(sorted)')
    return value


@contextmanager
def sorting(columns: Sequence[str]) -> Iterator[None]:
    """Raise ConfigError if values of columns cannot be compared, such as dicts, or numbers and text."""
    try:
        yield
    except TypeError as error:
        fact = "rows cannot be sorted by " + join_list([f'"{name}"' for name in columns])
        hint = "sort by columns of one type, or pass a sorted frame"
        raise ConfigError(fact, detail=str(error), hint=hint) from error


def _numpy_value(value: Any, other: Callable[[object], Any]) -> Any:
    if value.ndim:
        return [plain_value(item, other) for item in value]
    if value.dtype.kind in "mM":  # as nanoseconds they would become whole numbers
        value = value.astype(f"{value.dtype.kind}8[us]")
    item = value.tolist()  # None if it is masked
    return other(value) if type(item) is type(value) else plain_value(item, other)


def aware_ms(instant: datetime) -> int:
    """Return a datetime with a zone as whole milliseconds since the epoch, rounded down."""
    return floor(instant.timestamp()) * 1000 + instant.microsecond // 1000


def pandas_values(series: Any, other: Callable[[object], Any]) -> list[Any]:
    """Return the cells of a pandas column as JSON can hold them; numbers without gaps by a fast path."""
    if series.dtype.kind in "iub" and not hasattr(series.dtype, "na_value"):
        return cast("list[Any]", series.tolist())
    if series.dtype.kind == "f" and not hasattr(series.dtype, "na_value"):
        return [None if value != value else value for value in series.tolist()]
    kind = getattr(series.dtype, "pyarrow_dtype", None)
    read = partial(plain_value, other=other) if kind is None else arrow_reader(kind)
    return list(map(read, without_gaps(series)))


def whole_with_gaps(frame: Any, columns: list[str]) -> list[str]:
    """Return those of a pandas frame's columns that were whole numbers before a gap made floats of them."""
    floats = frame[columns].select_dtypes("float").dropna(axis=1, how="all")
    gaps = [(name, cells) for name, cells in floats.items() if cells.hasnans and not hasattr(cells.dtype, "na_value")]
    return [name for name, cells in gaps if (cells.dropna() % 1 == 0).all()]


def pandas_times(series: Any, name: str) -> list[int]:
    """Return a pandas column of times in ms since the epoch; warns if something of them is cut.

    Raises: ConfigError for times without a zone, and for missing ones.
    """
    if series.dtype.kind == "i" and not hasattr(series.dtype, "na_value"):
        return cast("list[int]", series.tolist())
    if series.dtype.kind == "M" and series.dt.tz is None:
        detail = "the same time means a different instant in each zone"
        hint = f'name the zone: frame["{name}"] = frame["{name}"].dt.tz_localize("UTC")'
        raise ConfigError(f'column "{name}" has times without a time zone', detail=detail, hint=hint)
    if series.dtype.kind == "M":
        if gaps := int(series.isna().sum()):
            fact = f'column "{name}" has no time in {gaps:,} of {len(series):,} rows'
            raise ConfigError(fact, hint=f'drop them: frame = frame.dropna(subset=["{name}"])')
        cut = series.dt.as_unit("ms")
        if (cut != series).any():
            warn_of_cut(name)
        return cast("list[int]", cut.astype("int64").tolist())
    try:
        return timestamps_ms(without_gaps(series), name)
    except ConfigError as error:
        if not error.message.endswith(("is not an instant", "has no time zone")):
            raise
        # By default pandas reads 02/01/2026 as February, even if other rows begin with the day.
        days = _DAY_OR_MONTH.search(error.message)
        order, other = ("dayfirst=True, ", "  # dayfirst=False if the month is first") if days else ("", "")
        call = f'frame["{name}"] = pandas.to_datetime(frame["{name}"], {order}utc=True)'
        hint = f"convert the column first: {call}{other}"
        raise ConfigError(error.message, detail=error.detail, hint=hint) from None


def spark_times(frame: Any, name: str) -> Any:
    """Return a column of times of a Spark frame, as whole milliseconds since the epoch.

    Raises: ConfigError for another type.
    """
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    kind = frame.schema[name].dataType
    if isinstance(kind, T.TimestampType):
        return F.unix_millis(name)
    if isinstance(kind, (T.LongType, T.IntegerType)):
        return F.col(name).cast("bigint")
    hint = "name a column with timestamps that have a time zone, or with whole milliseconds since the epoch"
    raise ConfigError(f'expected event times in column "{name}", got type "{kind.simpleString()}"', hint=hint)


def expect_json_type(name: str, kind: Any) -> None:
    """Raise ConfigError if JSON can hold no value of the type of a Spark frame's column, or of a part of it."""
    from pyspark.sql import types as T

    if isinstance(kind, (T.YearMonthIntervalType, T.CalendarIntervalType, T.VariantType)):
        fact = f'column "{name}" has type "{kind.simpleString()}", which JSON cannot represent'
        raise ConfigError(fact, hint="convert it to text or a number first; Spark's to_json makes a variant text")
    parts = [getattr(kind, part) for part in ("keyType", "valueType", "elementType") if hasattr(kind, part)]
    for part in [field.dataType for field in kind] if isinstance(kind, T.StructType) else parts:
        expect_json_type(name, part)


def warn_of_cut(name: str) -> None:
    """Warn that a column has times between two milliseconds, at the user's line."""
    warn_of_times(f'times of column "{name}" are cut to whole milliseconds, which is what Kafka keeps')


def warn_of_times(text: str) -> None:
    """Warn of a column's times at the user's line."""
    origin = user_origin()
    warnings.warn_explicit(text, UserWarning, origin.file, origin.line)


class WrongUnit(NamedTuple):
    """A unit that times may have, what they are as milliseconds, and how to convert them."""

    unit: str
    means: str
    remedy: str


def wrong_unit(first: int, last: int) -> WrongUnit | None:
    """Return the unit that times probably have if they are improbable as milliseconds.

    Args:
        first: the earliest time.
        last: the latest.
    """
    if 10**9 <= first and last < 10**10:
        remedy = 'multiply them by 1000, such as frame["time"] * 1000'
        return WrongUnit("seconds", "within January to April of 1970", remedy)
    factor = 1000 if first < 10**17 else 1_000_000
    remedy = f'divide them by {factor}, such as frame["time"] // {factor}'
    return WrongUnit("microseconds or nanoseconds", "after the year 5000", remedy) if first >= 10**14 else None


def warn_of_unit(first: int, last: int, what: str, *, example: bool = True) -> None:
    """Warn at the user's line if times, of which these are the earliest and the latest, are improbable as milliseconds.

    Args:
        first: the earliest time.
        last: the latest.
        what: a description of what has the times.
        example: show how to convert a frame. Default: True.
    """
    if wrong := wrong_unit(first, last):
        warn_of_times(
            f"times of {what} are {wrong.means}; whole numbers are milliseconds since the epoch: "
            f"if these are {wrong.unit}, {wrong.remedy if example else wrong.remedy.partition(',')[0]}"
        )


def without_gaps(series: Any) -> list[Any]:
    """Return the cells of a pandas column as Python objects, with None for missing values."""
    return cast("list[Any]", series.astype(object).where(series.notna(), None).tolist())


def dicts(names: Sequence[str], columns: Sequence[Iterable[Any]], count: int) -> list[dict[str, Any]]:
    """Return columns as one dict per row.

    The dict display is written out for the number of columns, which makes rows twice as fast as zipping names.
    """
    if not names:
        return [{} for _ in range(count)]
    cells = ", ".join(f"c{at}" for at in range(len(names)))
    display = ", ".join(f"n{at}: c{at}" for at in range(len(names)))
    source = f"lambda rows, {', '.join(f'n{at}' for at in range(len(names)))}: [{{{display}}} for {cells}, in rows]"
    make = eval(source, {})
    return cast("list[dict[str, Any]]", make(zip(*columns, strict=True), *names))


def expect_text_name(name: object) -> None:
    """Raise ConfigError for a column whose name is not text: values have texts as names."""
    if not isinstance(name, str):
        hint = "rename it: frame.columns = frame.columns.map(str)"
        raise ConfigError(f"column {name!r} has a name that is not text", hint=hint)


def timestamps_ms(values: Iterable[object], column: str) -> list[int]:
    """Convert a column of ms, ISO texts or aware datetimes to ms; raise ConfigError for a row without a time.

    Warns if a time is between two milliseconds, and cuts it.
    """
    cells = [_finer(value) for value in values]
    if any(isinstance(cell, datetime) and cell.microsecond % 1000 for cell in cells):
        warn_of_cut(column)
        cells = [aware_ms(cell) if isinstance(cell, datetime) and cell.tzinfo else cell for cell in cells]
    return [timestamp_ms(cell, f'row {row} of column "{column}"') for row, cell in enumerate(cells)]


def _finer(value: object) -> object:
    """Return ISO text with a fraction finer than milliseconds and a zone as a datetime, any other value unchanged."""
    if isinstance(value, str) and "." in value:
        with suppress(ValueError):  # `timestamp_ms` reports it with its row
            moment = datetime.fromisoformat(value.strip())
            return moment if moment.tzinfo is not None and moment.microsecond % 1000 else value
    return value


def timestamp_ms(value: object, what: str) -> int:
    """Convert ms, ISO text or an aware datetime to ms; raise ConfigError if it is missing or no 64-bit number.

    Example:
        >>> timestamp_ms(5.0, "line 2"), timestamp_ms("1970-01-01T00:00:01Z", "line 3")
        (5, 1000)
    """
    if type(value) is int and -MAX_TIME_MS <= value <= MAX_TIME_MS:
        return value
    if value is None or value != value or value == "":
        raise ConfigError(f"{what} has no time", hint="drop such rows, or fill in a time")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    convert = time_ms if isinstance(value, SupportsIndex | float) else instant_ms
    return convert(value, f"{what}: time")
