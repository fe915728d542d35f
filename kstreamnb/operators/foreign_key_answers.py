"""The last step of a foreign-key join: an answer is joined with the left table's row, or with a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core.block import Block
from kstreamnb.core.codec import SerializedValue, by_home
from kstreamnb.core.operator import Apart, BindContext, BlockOperator, Forward, TableView
from kstreamnb.core.serde import BytesSerde, Serde
from kstreamnb.core.traits import NO_TRAITS, OperatorTraits, ValueJoiner
from kstreamnb.operators.foreign_key import HASH_BYTES, Response, RowHash, value_hash
from kstreamnb.operators.stream_joins import lent_type
from kstreamnb.operators.tables import NO_ROW, MaterializedView, own_store

_ROW, _NO_ROW, _HEAD = b"\0", b"\x80", 1 + HASH_BYTES

FindRow: TypeAlias = Callable[[object, object], tuple[object, bytes | None]]
"""Returns the value of a key's row, whose wire form may be known, and its hash; both are None without a row."""


@dataclass(frozen=True)
class SubscriptionResolve(BlockOperator):
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

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that make the joined value."""
        drop, serde, view = context.drop, context.value_serde(self.value_serde), self.view
        rows = context.kept_rows(own_store(view), serde)
        copies = not lent_type(self.joiner, with_key=False)
        lines = f"""\
row, other = {{find}}(key, {{no_row}})[0], value[1]
if type(value[0]) is not {{RowHash}} or row is not value[0][0]:
 row, digest = {{get}}(key, row)
 if digest != value[0]:
  {{expired}}(key, value, digest, timestamp)
  {{skip}}
{"if type(row) is CopiedValue: row = row.copy()" * copies}
{"if type(other) is CopiedValue: other = other.copy()" * copies}
value = {{joiner}}(row, other) if other is not None{" or row is not None" * self.left} else None"""

        def expired(key: object, response: Response, current: bytes | None, timestamp: int) -> None:
            hashes = {"answers": response[0], "current": current}
            details = {name: "deleted row" if each is None else bytes(each).hex() for name, each in hashes.items()}
            drop("expired", key, response.foreign_value, timestamp, details)

        objects = {"find": rows.get, "no_row": NO_ROW, "RowHash": RowHash, "get": self._bind_get(context)}
        return Block(lines, {"value"}, {**objects, "expired": expired, "joiner": self.joiner})

    def apart(self, store: str) -> Apart:
        """Return the operators that join answers with a copy of the left table."""
        resolve = CopyResolve(MaterializedView(store), self.joiner, self.left, self.value_serde)
        return Apart(RowSend(self.value_serde, self.view.versioned), RowKeep(store), resolve, RowSerde(), by_home)

    def _bind_get(self, context: BindContext) -> FindRow:
        """Return a function that returns a key's value and its hash, given the value in wire form, if it is known."""
        get, value_bytes = self.view.bind(context), context.value_serde(self.value_serde).serialize

        def find(key: object, wire: object) -> tuple[object, bytes | None]:
            value = (get(key) or NO_ROW)[0]
            if type(wire) is not SerializedValue:  # the store keeps the value itself
                wire = None if value is None else value_bytes(value) or b""
            return value, None if wire is None else value_hash(wire)

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
class RowSend(BlockOperator):
    """Send the left table's rows, with their hashes, to the task of the same partition that joins answers.

    Shape: KTable[K, V] -> stream of (K, Response[V]); a change -> at most 1; store: none; repartition: no.
    Late: a change that is not its key's latest in a versioned table is not sent.

    Source: none; Kafka Streams joins answers in the left table's task.
    """

    value_serde: Serde | None
    versioned: bool

    traits = NO_TRAITS

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that make the answer."""
        lines = f"""\
new, _, is_latest = value
{"if not is_latest: {skip}" * self.versioned}
data = None if new is None else {{value_bytes}}(new) or b""
headers = ()
value = {{make}}({{kind}}, (None if data is None else {{hash}}(data), data, {{partition}}))"""
        objects: dict[str, object] = {"make": tuple.__new__, "kind": Response, "partition": context.partition}
        objects |= {"value_bytes": context.value_serde(self.value_serde).serialize, "hash": value_hash}
        return Block(lines, {"value"}, objects)


@dataclass(frozen=True)
class RowKeep(BlockOperator):
    """Keep the latest row of each key of the left table; forward nothing.

    Shape: stream of (K, bytes) -> nothing; store: key-value.
    Late: never.

    Source: none; it takes the place of the left table's store.
    """

    store: str

    traits = NO_TRAITS

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return the line that puts the row."""
        objects = {"put": context.store(self.store).put, "no_row": _NO_ROW}
        return Block("{put}(key, None if value == {no_row} else value)", frozenset(), objects, ends=True)


@dataclass(frozen=True)
class CopyResolve(SubscriptionResolve):
    """Join each answer with the copy of the left table's row, whose hash is known.

    Shape: as `SubscriptionResolve`; store: the copy.

    Source: none; results are those of `SubscriptionResolve`.
    """

    def _bind_get(self, context: BindContext) -> FindRow:
        get, read = context.store(self.view.stores[0]).get, context.value_serde(self.value_serde).deserialize
        return lambda key, _: (None, None) if (row := get(key)) is None else (read(row[_HEAD:]), row[1:_HEAD])
