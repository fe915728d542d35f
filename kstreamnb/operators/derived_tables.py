"""Tables made of tables: filtered, mapped, transformed row by row, or regrouped and aggregated; views of rows.

A regrouped change leaves its old group and enters its new one, in one record if both are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.operator import BindContext, Forward, GetRow, Operator, Process
from kstreamnb.core.processor import ProcessorContext, ProcessorSupplier, start
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.serde import SerdeAround
from kstreamnb.core.traits import NO_TRAITS, Condition, KeyValueMapper, OperatorTraits, RowUse, ValueMapper
from kstreamnb.errors import ProcessingError, SerdeError
from kstreamnb.operators.folding import Adder, Initializer, folding
from kstreamnb.operators.stateless import check_pair
from kstreamnb.operators.tables import NO_ROW, KeepsRows, ViewOfParent, bind_get, bind_update

Compute: TypeAlias = Callable[[Any, Any], Any]
"""``compute(key, value)``: the new value of a row; None means no row, as an argument and as a result."""


@dataclass(frozen=True, kw_only=True)
class DerivedTable(KeepsRows, Operator):
    """An operator that computes each row's value from another table's; subclasses are frozen and implement `computing`.

    New values are computed from new ones and old values from old ones; if the rows are kept in ``store``, the old value
    comes from there.

    Shape: table[K, V] -> table[K, V2]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTableFilter`, `KTableMapValues`, `KTableTransformValues`; differences: none.
    """

    store: str | None = None
    send_old: bool = False

    @property
    def skips(self) -> bool:
        """Whether a change from nothing to nothing is dropped here."""
        return False

    def computing(self, context: BindContext) -> Compute:
        """Return ``compute(key, value)`` for one task."""
        raise NotImplementedError(f"{type(self).__name__} does not transform values")

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        compute, send_old, skips = self.computing(context), self.send_old, self.skips
        get = None if self.store is None else bind_get(context.store(self.store))
        update = bind_update(context, self.store, forward, send_old=send_old)

        def derive(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            new, old = compute(key, change[0]), None
            if send_old:
                old = compute(key, change[1]) if get is None else (get(key) or NO_ROW)[0]
            if skips and new is None and old is None:
                return
            if get is None:
                forward(key, Change(new, old, change[2]), timestamp, headers)
            else:
                update(key, new, old, timestamp, headers)

        return derive


@dataclass(frozen=True)
class DerivedView(ViewOfParent):
    """The rows of another table, each with what an operator makes of its value; a value of None means no row.

    Source: Kafka Streams `KTableFilterValueGetter`, `KTableMapValuesValueGetter`, `KTableTransformValuesGetter`.
    """

    operator: DerivedTable

    def bind(self, context: BindContext) -> GetRow:
        """Return a function that computes the row from the parent's, now or as of a time."""
        get_parent, compute = self.parent.bind(context), self.operator.computing(context)
        asks = self.operator.traits.user_code

        def get(key: object, *as_of_ms: int) -> tuple[object, int] | None:
            row = get_parent(key, *as_of_ms) or NO_ROW
            with context.reading_row(row[1], getattr(row, "headers", ())) if asks else nullcontext():
                value = compute(key, row[0])
            return None if value is None else (value, row[1])

        return get


@dataclass(frozen=True)
class TableFilter(DerivedTable):
    """Forwards changes with the values for which ``predicate(key, value)`` does not hold taken away.

    A row that no longer passes is deleted downstream. With ``send_old`` nothing is forwarded if neither the old nor the
    new value passes; without it every miss is a tombstone, even of a key that was never seen. The same holds for a
    ``versioned`` parent, whose old values may differ from those downstream.

    Shape: table[K, V] -> table[K, V]; 1 -> 0..1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#filter`, `KTable#filterNot`.
    """

    predicate: KeyValueMapper
    negate: bool = False
    versioned: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """One predicate decides about every row."""
        return replace(super().traits, condition=Condition(self.predicate, self.negate))

    @property
    def skips(self) -> bool:
        """Return whether downstream has nothing to delete if neither value is kept."""
        return self.send_old and not self.versioned

    def computing(self, context: BindContext) -> Compute:
        """Return the value if its row passes; nulls never reach the predicate."""
        predicate, negate = self.predicate, self.negate

        def keep(key: object, value: object) -> object:
            return None if value is None or bool(predicate(key, value)) == negate else value

        return keep


@dataclass(frozen=True)
class TableMapValues(DerivedTable):
    """Forwards changes with ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the values.

    A deleted row stays deleted: the mapper is not called. Every update is forwarded, equal results too.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#mapValues`.
    """

    mapper: ValueMapper
    with_key: bool = False

    def computing(self, context: BindContext) -> Compute:
        """Return the mapped value; None stays None."""
        mapper = self.mapper
        if self.with_key:
            return lambda key, value: None if value is None else mapper(key, value)
        return lambda key, value: None if value is None else mapper(value)


def _may_not_forward(key: object, value: object, timestamp: int, headers: Headers) -> None:
    java = "ProcessorContext#forward() not supported."
    raise ProcessingError("a transformer of values may not forward records; it returns the new value", java=java)


class TransformerContext(ProcessorContext):
    """The context of a transformer of values, with the timestamp and headers of the record, which it does not get."""

    def timestamp(self) -> int:
        """Return the timestamp of the current record in epoch milliseconds."""
        return self._context.timestamp()

    def headers(self) -> Headers:
        """Return the headers of the current record."""
        return self._context.headers()


@dataclass(frozen=True)
class TableTransformValues(DerivedTable):
    """Forwards changes with a transformer's results in place of the values; deleted rows reach it, too.

    ``supplier()`` creates a transformer for each task: an object with ``transform(key, value)`` and optionally
    ``init(context)`` and ``close()``, or a function. Without a store the old value is computed again.

    Shape: table[K, V] -> table[K, V2]; 1 -> 1; key, time and headers kept; store: key-value, or none.
    Source: Kafka Streams `KTable#transformValues`.
    """

    supplier: ProcessorSupplier

    @property
    def traits(self) -> OperatorTraits:
        """Runs a user's transformer."""
        return replace(super().traits, row_use="any", user_code=True)

    def computing(self, context: BindContext) -> Compute:
        """Create and initialize a user's transformer."""
        transformer = self.supplier()
        transform: Compute = getattr(transformer, "transform", None) or transformer
        if transform is not transformer:  # otherwise it is a plain function
            context.on_start(partial(start, transformer, context, TransformerContext(context, _may_not_forward)))
        return transform


_NO_PAIR: tuple[None, None] = (None, None)


@dataclass(frozen=True)
class TableGroupBy(Operator):
    """Forwards a change as a subtraction from the group it leaves and an addition to the group it enters.

    ``selector(key, value)`` gives the pair ``(group, value)``. If both groups are the same there is one record with
    both values, otherwise the subtraction comes first. A pair without a group or without a value is left out.

    Shape: table[K, V] -> changes[K2, V2]; 1 -> 0..2; key changed; time and headers kept.
    Late: of a ``versioned`` table, a change that is not the latest of its row changes no group. A null key is an error.
    Source: Kafka Streams `KTable#groupBy`, KIP-904, KIP-914.
    """

    selector: Callable[[Any, Any], tuple[object, object] | None]
    versioned: bool = False

    traits = NO_TRAITS

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        selector, versioned = self.selector, self.versioned

        def select(key: object, value: object) -> tuple[object, object]:
            pair = selector(key, value) or _NO_PAIR
            if type(pair) is not tuple or len(pair) != 2:
                check_pair("group_by", pair)
            return pair

        def process(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                java = "Record key for the grouping KTable should not be null."
                raise ProcessingError("a row of a grouped table has no key", java=java)
            new, old, is_latest = change
            if versioned and not is_latest:
                return
            to_group, added = _NO_PAIR if new is None else select(key, new)
            from_group, taken = _NO_PAIR if old is None else select(key, old)
            adds = to_group is not None and added is not None
            takes = from_group is not None and taken is not None
            if adds and takes and to_group == from_group:
                forward(to_group, Change(added, taken), timestamp, headers)
                return
            if takes:
                forward(from_group, Change(None, taken), timestamp, headers)
            if adds:
                forward(to_group, Change(added), timestamp, headers)

        return process


@dataclass(frozen=True)
class TableAggregate(KeepsRows, Operator):
    """Subtracts the old value from its group's aggregate, then adds the new one, and forwards the change.

    ``adder`` and ``subtractor`` are called with ``(key, value, aggregate)``. Nothing is subtracted from a group without
    an aggregate; ``initializer()`` starts one before the first addition. Without an initializer both are reducers
    ``(aggregate, value)``, and the first value becomes the aggregate.

    Shape: changes[K, V] -> table[K, A]; 1 -> 1; key and headers kept; time: the later of record and row;
    store: key-value.
    Source: Kafka Streams `KGroupedTable#aggregate`, `#reduce`, `#count`.
    """

    store: str
    initializer: Initializer | None
    adder: Adder
    subtractor: Adder
    send_old: bool = False
    row_use: ClassVar[RowUse] = "fold"

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        initializer, adder = folding(self.initializer, self.adder)
        _, subtractor = folding(self.initializer, self.subtractor)
        name, word = self.store, "reduce" if self.initializer is None else "aggregate"
        get = bind_get(context.store(self.store))
        update = bind_update(context, self.store, forward, send_old=self.send_old)

        def process(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            if key is None:
                java = f"Record key for KTable {word} operator with state {name} should not be null."
                raise ProcessingError(f'a change of the grouped table "{name}" has no key', java=java)
            row = get(key) or NO_ROW
            old = aggregate = row[0]
            if change[1] is not None and aggregate is not None:
                aggregate = subtractor(key, change[1], aggregate)
            if change[0] is not None:
                aggregate = adder(key, change[0], initializer() if aggregate is None else aggregate)
            update(key, aggregate, old, max(timestamp, row[1]), headers)

        return process


_OLD, _NEW, _BOTH = 0, 1, 2


@dataclass(frozen=True)
class ChangeSerde(SerdeAround[Change]):
    r"""Writes the new value, the old value or both, and a last byte that says which.

    ``inner`` is the serde of the values, None for the application's default. Whether a change was the latest of
    its row is not written.

    Example:
        >>> from kstreamnb.core.serdes import Serdes
        >>> ChangeSerde(Serdes.string()).serialize(Change("new", "old"))
        b'\x06newold\x02'

    Source: Kafka Streams `ChangedSerializer`, `ChangedDeserializer`, KIP-904.
    """

    plain: ClassVar[frozenset[type]] = frozenset({Change})
    expects: ClassVar[str] = "changes of a table with an old value, a new value or both"

    @property
    def name(self) -> str:  # type: ignore[override]
        """``change<inner>``."""
        return f"change<{'default' if self.inner is None else self.inner.name}>"

    def keeps(self, value: Change) -> bool:
        """Return whether both values would survive a round trip unchanged."""
        inner = self.inner_serde
        kept = [type(each) in inner.plain and inner.keeps(each) for each in value[:2] if each is not None]
        return value[2] and bool(kept) and all(kept)

    def _write(self, value: Change) -> bytes:
        inner = self.inner_serde
        new, old = inner.serialize(value[0]), inner.serialize(value[1])
        if new is not None and old is not None:
            return b"%b%b%b%c" % (_varint(2 * len(new)), new, old, _BOTH)  # zigzag: an even number is not negative
        if new is not None:
            return b"%b%c" % (new, _NEW)
        if old is not None:
            return b"%b%c" % (old, _OLD)
        java = "Both old and new values are null in ChangeSerializer, which is not allowed."
        raise SerdeError("a change of a grouped table has neither an old nor a new value", java=java)

    def _read(self, data: bytes) -> Change:
        inner = self.inner_serde
        kind, body = data[-1] if data else -1, data[:-1]
        if kind == _NEW:
            return Change(inner.deserialize(body))
        if kind == _OLD:
            return Change(None, inner.deserialize(body))
        if kind != _BOTH:
            java = f"Encountered unknown byte value `{kind}` for oldNewFlag in ChangedDeserializer."
            raise self._unreadable(data, f"their last byte is {kind}", java=java)
        number, at = _read_varint(body)
        end = at + number // 2
        return Change(inner.deserialize(body[at:end]), inner.deserialize(body[end:]))


def _varint(number: int) -> bytes:
    """Encode a number in base 128, least group first."""
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)


def _read_varint(data: bytes) -> tuple[int, int]:
    """Return the number and the number of bytes that it took."""
    number = 0
    for at, group in enumerate(data[:5]):  # Kafka's are no longer
        number |= (group & 0x7F) << 7 * at
        if group < 0x80:
            return number, at + 1
    raise SerdeError("the length of a table's change is truncated or too long")
