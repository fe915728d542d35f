"""Type variables of streams and tables, and the types of the functions that users give to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from kstreamnb.core.record import OutputMetadata, Record
from kstreamnb.type_variables import TypeVar as TypeVarWithDefault

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
V3 = TypeVar("V3")
A = TypeVar("A")
_K = TypeVar("_K", contravariant=True)
_V = TypeVar("_V", contravariant=True)
_V2 = TypeVar("_V2", covariant=True)

SK = TypeVarWithDefault("SK", default=Any)  # without serdes, or with their names, types are Any
SV = TypeVarWithDefault("SV", default=Any)

RecordPredicate: TypeAlias = Callable[[K, V], object]
"""``(key, value)``: a true result keeps the record."""

Joiner: TypeAlias = Callable[[V, V2], V3]
"""``(left, right)``: the value of the result."""

KeyedJoiner: TypeAlias = Callable[[K, V, V2], V3]
"""``(key, left, right)``: the value of the result."""

Aggregator: TypeAlias = Callable[[K, V, A], A]
"""``(key, value, aggregate)``: the new aggregate."""

Merger: TypeAlias = Callable[[K, A, A], A]
"""``(key, left, right)``: the aggregate of two sessions that became one."""

TopicChooser: TypeAlias = Callable[[K, V, OutputMetadata], str]
"""``(key, value, metadata)``: the topic of a record."""


class RecordProcessor(Protocol[K, V]):
    """An object that acts as a processor; ``init(context)``, ``close()`` and ``stores()`` are optional."""

    def process(self, record: Record[K, V], /) -> object:
        """Process one record."""


class ValueTransformer(Protocol[_K, _V, _V2]):
    """Makes new values of a table's rows; ``init(context)`` and ``close()`` are optional."""

    def transform(self, key: _K, value: _V, /) -> _V2:
        """Return the new value of a row; called for deleted rows as well, with None."""
