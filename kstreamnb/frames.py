"""Values whose rows become a pandas or Spark DataFrame: records of a topic, and rows of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kstreamnb import hooks
from kstreamnb.core.formatting import format_time, format_value, pluralize
from kstreamnb.core.record import (
    AggregationWithHeaders,
    TopicRecord,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    Windowed,
)
from kstreamnb.core.tables import Tabular
from kstreamnb.errors import EngineError, StateError

if TYPE_CHECKING:  # frames are optional
    import pandas
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
_ROWS = (ValueAndTimestamp, ValueTimestampHeaders, AggregationWithHeaders)
_SHOWN = 10
TIMES = ("timestamp", "window_start", "window_end")
"""Columns of times, in ms here and as UTC timestamps in frames."""


class Framed:
    """A value with rows.

    A windowed key becomes the columns ``key``, ``window_start`` and ``window_end``; the end of a session or a sliding
    window is inclusive.
    """

    __slots__ = ()

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame, with times as ``datetime64[ms, UTC]``.

        Raises: MissingPackageError without pandas; StateError for a store that can only be asked by key.
        """
        frame: pandas.DataFrame = _hook("pandas_frame")(_columns(*self._frame_rows()))
        return frame

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return the rows as a Spark frame, with times as timestamps and dictionaries as structs.

        Args:
            spark: the session; default: the active one.

        Raises: ConfigError without a session, and for values that have no common type.
        """
        frame: DataFrame = _hook("spark_frame")(_columns(*self._frame_rows()), spark)
        return frame

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        """Return the names of the columns and the rows."""
        raise NotImplementedError


class _Bounded:
    """Displays the first items of a list or tuple, and its length."""

    __slots__ = ()

    def __repr__(self: Any) -> str:
        kind = list if isinstance(self, list) else tuple
        return repr(kind(self)) if len(self) <= _SHOWN else f"{kind(self[:_SHOWN])!r} … {_SHOWN} of {len(self):,}"

    def _repr_pretty_(self: Any, printer: Any, cycle: bool) -> None:
        """Print the first items as IPython prints those of a list."""
        kind = list if isinstance(self, list) else tuple
        printer.pretty(kind(self[:_SHOWN]))
        if len(self) > _SHOWN:
            printer.text(f" … {_SHOWN} of {len(self):,}")


class BoundedTuple(_Bounded, tuple[T, ...]):
    """A tuple that displays its first items and its length."""

    __slots__ = ()


class Records(_Bounded, list[TopicRecord], Framed):
    """Records of a topic: a list that becomes a frame, too."""

    __slots__ = ()

    def _frame_rows(self) -> tuple[Sequence[str], Iterable[Sequence[object]]]:
        return TopicRecord._fields, self


def _hook(name: str) -> Any:
    found = getattr(hooks.current(), name)
    if found is None:
        raise EngineError("no frames are available", hint="import kstreamnb first")
    return found


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


class TabularRows(Tabular, Framed):
    """A table of a store's first rows."""

    name: str
    header = ("key", "value", "time")

    @property
    def title(self) -> str:
        """The store's name and its number of rows."""
        return f'store "{self.name}": {pluralize(len(self._rows()), "row")}'

    def table(self) -> Iterator[tuple[str, ...]]:
        """Yield the first rows as text."""
        for key, value in self._rows()[:_SHOWN]:
            known, time = isinstance(value, _ROWS), getattr(value, "timestamp", None)
            yield (
                format_value(key),
                format_value(value[0] if known else value),
                format_time(time) if known and time is not None else "",
            )

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
