"""The last step of a foreign-key join: an answer is joined with the left table's row, or with a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.codec import CopiedValue, SerializedValue
from kstreamnb.core.operator import Apart, BindContext, Forward, Operator, Process, TableView
from kstreamnb.core.record import Change, Headers
from kstreamnb.core.serde import BytesSerde, Serde
from kstreamnb.core.traits import NO_TRAITS, OperatorTraits, ValueJoiner
from kstreamnb.operators.foreign_key import HASH_BYTES, Response, ResponsePartitioner, RowHash, value_hash
from kstreamnb.operators.tables import NO_ROW, MaterializedView

_ROW, _NO_ROW, _HEAD = b"\0", b"\x80", 1 + HASH_BYTES

FindRow: TypeAlias = Callable[[object, bytes | RowHash | None], tuple[object, bytes | RowHash | None]]
"""Finds the value of a key's row and its hash, or an equal one that is given; both are None without a row."""


@dataclass(frozen=True)
class SubscriptionResolve(Operator):
    """Join each answer with the left table's current row; an answer to an older row is dropped.

    Shape: stream of (K, Response[VO]), KTable[K, V] -> stream of (K, VR or None); 1 -> at most 1; store: the
        left table's; repartition: no.
    Late: an answer whose hash is not that of the current left value is dropped as "expired".

    Args:
        value_serde: the left table's value serde; None is the application's default.

    Source: Kafka Streams `ResponseJoinProcessorSupplier`; differences: none.
    """

    view: TableView
    joiner: ValueJoiner
    left: bool = False
    value_serde: Serde | None = None

    traits = OperatorTraits("match", reads_global=True)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        find, drop, left, joiner = self._bind_find(context), context.drop, self.left, self.joiner

        def resolve(key: object, response: Response, timestamp: int, headers: Headers) -> None:
            value, digest = find(key, response[0])
            if digest is not response[0] and digest != response[0]:
                hashes = {"answers": response[0], "current": digest}
                details = {name: "deleted row" if each is None else bytes(each).hex() for name, each in hashes.items()}
                drop("expired", key, response.foreign_value, timestamp, details)
                return
            foreign = response[1]
            foreign = foreign.copy() if type(foreign) is CopiedValue else foreign
            joined = joiner(value, foreign) if foreign is not None or (left and value is not None) else None
            forward(key, joined, timestamp, headers)

        return resolve

    def apart(self, store: str) -> Apart:
        """Return the operators that join answers with a copy of the left table."""
        resolve = CopyResolve(MaterializedView(store), self.joiner, self.left, self.value_serde)
        send = RowSend(self.value_serde, self.view.versioned)
        return Apart(send, RowKeep(store), resolve, RowSerde(), ResponsePartitioner())

    def _bind_find(self, context: BindContext) -> FindRow:
        view, serde = self.view, context.value_serde(self.value_serde)
        rows = context.kept_rows(view.store if isinstance(view, MaterializedView) else None, serde)
        get, value_bytes = view.bind(context), serde.serialize

        def find(key: object, expected: bytes | RowHash | None) -> tuple[object, bytes | RowHash | None]:
            data = rows.get(key, NO_ROW)[0] if rows else None
            if type(data) is CopiedValue and type(expected) is RowHash and data is expected.wire:
                return data.copy(), expected
            value = (get(key) or NO_ROW)[0]
            if type(data) is not SerializedValue:  # the store keeps the value itself
                data = None if value is None else value_bytes(value) or b""
            return value, None if data is None else value_hash(data)

        return find


class RowSerde(BytesSerde):
    """A left table's row, sent as an answer with the bytes of its value; received and kept unread, as all its bytes."""

    writes: ClassVar[tuple[type, ...]] = (bytes, Response)

    def _write(self, value: Any) -> bytes:
        if type(value) is bytes:
            return value
        digest, data, _ = value
        return _NO_ROW if digest is None else _ROW + digest + data


@dataclass(frozen=True)
class RowSend(Operator):
    """Send the left table's rows, with their hashes, to the task of the same partition that joins answers.

    Shape: KTable[K, V] -> stream of (K, Response[V]); a change -> at most 1; store: none; repartition: no.
    Late: a change that is not its key's latest in a versioned table is not sent.

    Source: none; Kafka Streams joins answers in the left table's task.
    """

    value_serde: Serde | None
    versioned: bool

    traits = NO_TRAITS

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        value_bytes, partition = context.value_serde(self.value_serde).serialize, context.partition
        versioned = self.versioned

        def send(key: object, change: Change, timestamp: int, headers: Headers) -> None:
            new, _, is_latest = change
            if is_latest or not versioned:
                data = None if new is None else value_bytes(new) or b""
                forward(key, Response(None if data is None else value_hash(data), data, partition), timestamp, ())

        return send


@dataclass(frozen=True)
class RowKeep(Operator):
    """Keep the latest row of each key of the left table; forward nothing.

    Shape: stream of (K, bytes) -> nothing; store: key-value.
    Late: never.

    Source: none; it takes the place of the left table's store.
    """

    store: str

    traits = NO_TRAITS

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        put = context.store(self.store).put
        return lambda key, row, timestamp, headers: put(key, None if row == _NO_ROW else row)


@dataclass(frozen=True)
class CopyResolve(SubscriptionResolve):
    """Join each answer with the copy of the left table's row, whose hash is known.

    Shape: as `SubscriptionResolve`; store: the copy.

    Source: none; results are those of `SubscriptionResolve`.
    """

    def _bind_find(self, context: BindContext) -> FindRow:
        get, read = context.store(self.view.stores[0]).get, context.value_serde(self.value_serde).deserialize
        return lambda key, _: (None, None) if (row := get(key)) is None else (read(row[_HEAD:]), row[1:_HEAD])
