"""Values whose rows become a pandas or Spark DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kstreamnb import hooks
from kstreamnb.core.formatting import clean, format_time, format_value, pluralize, shown_of
from kstreamnb.core.record import (
    AggregationWithHeaders,
    TopicRecord,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
)
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import StateError
from kstreamnb.suggesting import Suggesting

if TYPE_CHECKING:  # frames are optional
    import pandas
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_ROWS = (ValueAndTimestamp, ValueTimestampHeaders, AggregationWithHeaders)
_SHOWN = 10
_DROP = ("step", "task", "node", "reason", "key", "value", "timestamp")
TIMES = ("timestamp", "window_start", "window_end")
"""Columns of times, in ms here and as UTC timestamps in frames."""


class Framed(Suggesting):
    """A value with rows.

    A windowed key becomes the columns ``key``, ``window_start`` and ``window_end``; the end of a session or a sliding
    window is inclusive.
    """

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame, with times as ``datetime64[ms, UTC]``.

        Raises: MissingPackageError without pandas; StateError for a store that can only be asked by key.
        """
        return hooks.current().pandas_frame(_columns(*self._frame_rows()))

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a Spark frame, with times as timestamps and dictionaries as structs.

        Args:
            spark: the session; default: the active one.

        Raises: ConfigError without a session, and for values that have no common type.
        """
        return hooks.current().spark_frame(_columns(*self._frame_rows()), spark)

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        """Return the names of the columns and the rows."""
        raise NotImplementedError


class FramedTable(Tabular, Framed):
    """A value that displays the first rows of its frame as a table, without columns that are empty."""

    __slots__ = ()
    _most: ClassVar[int | None] = None
    """The maximum number of rows to display."""

    @property
    def header(self) -> tuple[str, ...]:
        """The titles of the columns."""
        return tuple(map(heading, self._first()))

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the first rows as text."""
        columns = ([field_text(name, value) for value in values] for name, values in self._first().items())
        return zip(*columns, strict=True)

    def _first(self) -> dict[str, list[object]]:
        names, rows = self._frame_rows()
        return _filled(dict(zip(names, map(list, zip(*islice(rows, self._most), strict=True)), strict=False)))


class _Bounded(FramedTable):
    """A list or tuple that displays its first items as a table, and its length."""

    __slots__ = ()
    _most: ClassVar[int | None] = _SHOWN

    @property
    def title(self: Any) -> str:
        """How many records there are, and how many of them are shown."""
        return shown_of(_SHOWN, len(self), "record")

    def more(self: Any) -> Iterator[str]:
        """Name what shows all items, if some are left out."""
        return iter(["ks.widgets.browse(…) sorts and filters all of them"] if len(self) > _SHOWN else [])

    def __repr__(self: Any) -> str:
        kind = list if isinstance(self, list) else tuple
        return repr(kind(self)) if len(self) <= _SHOWN else f"{kind(self[:_SHOWN])!r} … {_SHOWN} of {len(self):,}"

    _repr_pretty_ = Tabular._repr_pretty_  # IPython takes a class's own __repr__ before what it inherits


class Drops(_Bounded, tuple[T, ...]):
    """Dropped records: a tuple that displays as a table and becomes a frame."""

    __slots__ = ()

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return _DROP, map(attrgetter(*_DROP), self)


class Records(_Bounded, list[TopicRecord]):
    """Records of a topic: a list that displays as a table and becomes a frame."""

    __slots__ = ()
    _noun = "list of records"

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return TopicRecord._fields, self


def heading(name: str) -> str:
    """Return the title of a frame's column in displays."""
    return "time" if name == "timestamp" else name.replace("_", " ")


def field_text(name: str, value: object) -> str:
    """Return a value of a frame's column as text, times in UTC.

    Example:
        >>> field_text("key", "a"), field_text("topic", "orders"), field_text("timestamp", 0)
        ('"a"', 'orders', '0')
    """
    if name in ("key", "value"):
        return format_value(value)
    if not _is_filled(name, [value]):
        return ""
    return format_time(value) if name in TIMES and isinstance(value, int) else clean(str(value))


def columns_of(source: Framed) -> tuple[dict[str, list[object]], list[object]]:
    """Return the columns of a value's frame by name, without empty ones, and its keys as Python has them."""
    names, rows = source._frame_rows()  # noqa: SLF001 - what to_pandas and to_spark read
    rows, at = list(rows), list(names).index("key")
    return _filled(_columns(names, rows)), [row[at] for row in rows]


def _filled(columns: dict[str, list[object]]) -> dict[str, list[object]]:
    """Return the columns of keys and values, and all others that are not empty."""
    return {name: values for name, values in columns.items() if name in ("key", "value") or _is_filled(name, values)}


def _is_filled(name: str, values: list[object]) -> bool:
    """Return whether a column has more than marks of missing values; a record without a partition has -1."""
    return any(value not in (None, "", ()) and (name, value) != ("partition", -1) for value in values)


def _columns(names: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, list[object]]:
    """Return rows by column; parts of windowed keys and of timestamped values become separate columns."""
    columns: dict[str, list[object]] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=False))
    columns = {name: columns.get(name, []) for name in names}
    keys, values = columns["key"], columns["value"]
    if any(isinstance(key, Windowed) for key in keys):
        columns["key"] = [getattr(key, "key", key) for key in keys]
        columns["window_start"] = [getattr(key, "start", None) for key in keys]
        columns["window_end"] = [getattr(key, "end", None) for key in keys]
    parts = next((value._fields for value in values if isinstance(value, _ROWS)), ())
    if parts:
        columns["value"] = [value[0] if isinstance(value, _ROWS) else value for value in values]
        for part in parts[1:]:
            columns[part] = [getattr(value, part, None) for value in values]
    return columns


class TabularRows(FramedTable):
    """A table of a store's first rows, with their times if they have any."""

    name: str

    @property
    def title(self) -> str:
        """The store's name and its number of rows."""
        return f'store "{self.name}": {pluralize(len(self._rows()), "row")}'

    def _first(self) -> dict[str, list[object]]:
        rows = self._rows()[:_SHOWN]
        values = [value[0] if isinstance(value, _ROWS) else value for _, value in rows]
        times = [getattr(value, "timestamp", None) if isinstance(value, _ROWS) else None for _, value in rows]
        return _filled({"key": [key for key, _ in rows], "value": values, "timestamp": times})

    def more(self) -> Iterator[str]:
        """Yield the number of rows if not all are shown."""
        rows = len(self._rows())
        return iter([f"{_SHOWN} of {rows:,}"] if rows > _SHOWN else [])

    def _rows(self) -> list[tuple[Any, Any]]:
        """Return all rows; none of a store that can only look up keys."""
        read = getattr(self, "all", None)
        return [] if read is None else list(read())

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        if not hasattr(self, "all"):
            raise StateError(f'store "{self.name}" has no rows to list', hint="ask it by key, or read its history")
        return ("key", "value"), self._rows()
