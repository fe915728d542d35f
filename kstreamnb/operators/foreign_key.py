"""The first three steps of a foreign-key join: subscribe, keep the subscription, answer it.

The left table's task sends each row's subscription to a foreign key to the task that owns the key. There subscriptions
are stored, and answered now and with each change of the right table's row. An answer carries the hash of its left
value, so that the left table's task recognizes answers to outdated values. Bytes are those of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Any, ClassVar, NamedTuple

from kstreamnb.core.block import Block
from kstreamnb.core.codec import ByText, CopiedValue, StreamPartitioner
from kstreamnb.core.operator import BindContext, BlockOperator, Forward, TableView
from kstreamnb.core.serde import Serde, SerdeAround, StringSerde
from kstreamnb.core.signatures import only_reads
from kstreamnb.core.traits import NO_TRAITS, JoinTraits, OperatorTraits, ValueMapper
from kstreamnb.errors import EngineError
from kstreamnb.operators.tables import NO_ROW, own_store


class Instruction(IntEnum):
    """Instructions to the foreign key's task for a subscription; the numbers are those on the wire."""

    DELETE_KEY_NO_PROPAGATE = 0
    DELETE_KEY_AND_PROPAGATE = 1
    PROPAGATE_NULL_IF_NO_FK_VAL_AVAILABLE = 2
    PROPAGATE_ONLY_IF_FK_VAL_AVAILABLE = 3


class RowHash(tuple[CopiedValue, Callable[[Any], bytes | None]]):
    """The hash of a value, computed when needed; an answer that finds the same copy in the store needs none.

    Its items are the copy of the value in the store of its table, and the function that writes the value.
    """

    __slots__ = ()

    def __bytes__(self) -> bytes:
        return value_hash(self[1](self[0].copy()) or b"")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (bytes, RowHash)) and bytes(self) == bytes(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return bytes(self).__hash__()

    def __repr__(self) -> str:
        return repr(bytes(self))

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        return bytes, (bytes(self),)


class Subscription(NamedTuple):
    """A left row's subscription to a foreign key: hash of its value (None: deleted), key, home partition."""

    value_hash: bytes | RowHash | None
    instruction: Instruction
    primary_key: object
    primary_partition: int


class Response(NamedTuple):
    """The foreign row for one subscriber; its home partition is not part of its bytes."""

    value_hash: bytes | RowHash | None
    foreign_value: object
    primary_partition: int | None = None


_FORGET, _FORGET_AND_TELL, _TELL, _TELL_IF_FOUND = _INSTRUCTIONS = tuple(Instruction)
_OBJECTS = {"make": tuple.__new__, "forget": _FORGET, "forget_and_tell": _FORGET_AND_TELL, "tell": _TELL}
_OBJECTS |= {"tell_if_found": _TELL_IF_FOUND}


@dataclass(frozen=True)
class SubscriptionSend(BlockOperator):
    """Turn each change of the left table into subscriptions, keyed by foreign key.

    Shape: KTable[K, V] -> stream of (KO, Subscription[K]); a change -> 0, 1 or 2; store: none; repartition:
        by KO.
    Late: a change that is not its key's latest in a versioned table is dropped. An inner join drops a null foreign key,
    a left join requests an answer without a row.

    Args:
        foreign_key: the extractor, of ``(value)`` or with_key ``(key, value)``; needs old values of the left
            table.
        foreign_key_serde: the right table's key serde; None is the application's default.
        value_serde: the left table's value serde; None is the application's default.
        versioned: whether the left table is versioned.
        rows: the left table's store; None if it has none.

    Source: Kafka Streams `SubscriptionSendProcessorSupplier`, KIP-213, KIP-914; differences: none.
    """

    foreign_key: ValueMapper
    with_key: bool = False
    left: bool = False
    foreign_key_serde: Serde | None = None
    value_serde: Serde | None = None
    versioned: bool = False
    rows: str | None = None

    traits = NO_TRAITS

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that make a change's last subscription, after one that forgets an old foreign key."""
        serde, extract = context.value_serde(self.value_serde), "{extract}(key, " if self.with_key else "{extract}("
        lines = f"""\
{_NOT_LATEST * self.versioned}before = None if old is None else {extract}old)
after = None if new is None else {extract}new)
moved = before is not None and not (type(before) is str and before == after) and {{write}}(before) != {{write}}(after)
instruction = {{tell}} if moved else {{usual}}
if {not self.left} and after is None:
 if new is not None: {{drop}}("null foreign key", key, new, timestamp)
 if before is None: {{skip}}
 moved, after, instruction = False, before, {{forget_and_tell}}
elif new is None and old is None: {{skip}}
row = {{find}}(key, {{no_row}})[0]
same = new is not None and type(row) is CopiedValue and (row is new or row == new)
if same: digest = {{make}}({{RowHash}}, (row, {{bytes}}))
else: digest = None if new is None else {{hash}}({{bytes}}(new) or b"")
if moved: {{forward}}(before, {{make}}({{kind}}, (digest, {{forget}}, key, {{partition}})), timestamp, headers)
key, value = after, {{make}}({{kind}}, (digest, instruction, key, {{partition}}))"""
        objects = {"extract": self.foreign_key, "partition": context.partition, "bytes": serde.serialize}
        objects |= {"usual": _TELL if self.left else _TELL_IF_FOUND, "kind": Subscription, "RowHash": RowHash}
        objects |= {"find": context.kept_rows(self.rows, serde).get, "no_row": NO_ROW, "hash": value_hash}
        objects["write"] = context.key_serde(self.foreign_key_serde).serialize
        facts = {"writes": {"key", "value"}, "only_reads": only_reads(self.foreign_key, self.with_key)}
        return _block_of_change(context, get_forward(), lines, objects, **facts)


_NOT_LATEST = 'if not is_latest:\n {drop}("out of order", key, new, timestamp)\n {skip}\n'


def _block_of_change(
    context: BindContext, forward: Forward, lines: str, objects: Mapping[str, object], **facts: Any
) -> Block:
    """Return a block of lines over the parts of a change, which may drop and forward."""
    objects = {"drop": context.drop, "forward": forward, **_OBJECTS, **objects}
    parts = "new, old, is_latest = value, {old}, True\n" + lines
    return Block("new, old, is_latest = value\n" + lines, of_parts=parts, objects=objects, **facts)


@dataclass(frozen=True)
class SubscriptionReceive(BlockOperator):
    """Store or delete each subscription, then forward it under (foreign key, primary key).

    Shape: stream of (KO, Subscription[K]) -> stream of ((KO, K), Subscription[K]); 1 -> 1; store:
        subscriptions.
    Late: never. A null foreign key is dropped unless an answer without a row is requested.

    Source: Kafka Streams `SubscriptionReceiveProcessorSupplier`; differences: none.
    """

    store: str
    foreign_key_serde: Serde | None = None
    primary_key_serde: Serde | None = None

    @property
    def traits(self) -> OperatorTraits:
        """Keeps subscriptions."""
        return OperatorTraits("replace", self.store)

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that put the subscription."""
        foreign, primary = context.key_serde(self.foreign_key_serde), context.key_serde(self.primary_key_serde)
        store: Any = context.store(self.store)
        rows, watched = store.in_place() or ({}, [None])
        kept = SubscriptionSerde(primary).inline_copy[0] or None
        lines = f"""\
instruction = value[1]
if key is not None:
 row = None if instruction is {{forget}} or instruction is {{forget_and_tell}} else (value, timestamp)
 at = {_prefix_of("key")} + ({{bytes}}[value[2]] if type(value[2]) is str else {{write}}(value[2]) or b"")
 if row and {kept} and len({{rows}}) < {store.values.most} and not {{watched}}[0]: {{rows}}[at] = row
 else: {{put}}(at, row)
elif instruction is not {{tell}}:
 {{drop}}("null foreign key", key, value, timestamp)
 {{skip}}
key = key, value[2]"""
        objects = {"put": store.put, "rows": rows, "watched": watched, "drop": context.drop, **_OBJECTS}
        objects |= {"bytes": ByText(lambda key: primary.serialize(key) or b""), "write": primary.serialize}
        objects |= _prefixes(foreign)
        return Block(lines, {"key"}, objects)


@dataclass(frozen=True)
class SubscriptionJoin(BlockOperator):
    """Answer each subscription with the right table's row of its foreign key.

    Shape: stream of ((KO, K), Subscription[K]), KTable[KO, VO] -> stream of (K, Response[VO]); 1 -> at most
        1;
        store: the right table's; repartition: by K.
    Late: never.

    Args:
        value_serde: the right table's value serde; None is the application's default.

    Source: Kafka Streams `SubscriptionJoinProcessorSupplier`; differences: none.
    """

    view: TableView
    value_serde: Serde | None = None

    @property
    def traits(self) -> OperatorTraits:
        """Joins a subscription with the row of its foreign key."""
        return OperatorTraits("match", join=JoinTraits("answer", self.view.stores[-1]), reads_global=True)

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that make the answer."""
        lines = """\
foreign, instruction = key[0], value[1]
row = None if foreign is None else {find}(foreign)
if row is None or type(row[0]) is not CopiedValue: row = None if foreign is None else {get}(foreign)
if row is not None and row[1] > timestamp: timestamp = row[1]
if instruction is {forget} or (instruction is {tell_if_found} and row is None): {skip}
key = key[1]
value = {make}({kind}, (value[0], None if row is None or instruction is {forget_and_tell} else row[0], value[3]))"""
        rows = context.kept_rows(own_store(self.view), context.value_serde(self.value_serde))
        objects = {"find": rows.get, "get": self.view.bind(context), "kind": Response, **_OBJECTS}
        return Block(lines, {"key", "value", "timestamp"}, objects)


@dataclass(frozen=True)
class ForeignTableJoin(BlockOperator):
    """Notify every subscriber of a foreign key of each change of the right table's row.

    Shape: KTable[KO, VO] -> stream of (K, Response[VO]); a change -> one for each subscriber, in the order of
        the primary keys' bytes; store: subscriptions; repartition: by K.
    Late: a change that is not its key's latest in a versioned table is dropped. A null key is dropped.

    Args:
        rows: the right table's store; None if it has none.
        value_serde: the right table's value serde; None is the application's default.

    Source: Kafka Streams `ForeignTableJoinProcessorSupplier`, KIP-914; differences: none.
    """

    store: str
    foreign_key_serde: Serde | None = None
    primary_key_serde: Serde | None = None
    versioned: bool = False
    rows: str | None = None
    value_serde: Serde | None = None

    @property
    def traits(self) -> OperatorTraits:
        """Joins a row with the subscriptions to its key."""
        return OperatorTraits("match", join=JoinTraits("notify", self.store))

    def bind_block(self, context: BindContext, get_forward: Callable[[], Forward]) -> Block:
        """Return lines that forward the answers, which share one copy of the row if the store has it."""
        lines = f"""\
if key is None:
 {{drop}}("null key", key, new, timestamp)
 {{skip}}
{_NOT_LATEST * self.versioned}row = {{find}}(key, {{no_row}})
if type(row[0]) is CopiedValue and row[0] == new: new = row[0]
for _, (message, _) in {{scan}}({_prefix_of("key")}):
 {{forward}}(message[2], {{make}}({{kind}}, (message[0], new, message[3])), timestamp, headers)"""
        rows = context.kept_rows(self.rows, context.value_serde(self.value_serde))
        objects = {"find": rows.get, "no_row": NO_ROW, "scan": context.store(self.store).prefix_scan, "kind": Response}
        objects |= _prefixes(context.key_serde(self.foreign_key_serde))
        return _block_of_change(context, get_forward(), lines, objects, ends=True)


_NO_HASH = 0x80


class SubscriptionSerde(SerdeAround[Subscription]):
    """Bytes of a subscription: version 1 and a flag, instruction, hash if any, primary key, partition."""

    of_keys = True
    name: ClassVar[str] = "foreign-key subscription"  # type: ignore[misc]
    expects: ClassVar[str] = "subscriptions of a foreign-key join"

    def copy_value(self, value: Subscription) -> Subscription | None:
        """Return the subscription itself, which is immutable, if its key is."""
        key, inner = value[2], self.inner
        return value if inner is not None and type(key) in inner.plain and inner.keeps(key) else None

    @property
    def inline_copy(self) -> tuple[str, str]:  # type: ignore[override]
        """The value itself, if its key is ASCII text."""
        return ("type(value[2]) is str and value[2].isascii()" if type(self.inner) is StringSerde else ""), "value"

    def _write(self, value: Subscription) -> bytes:
        key = self.inner_serde.serialize(value.primary_key) or b""
        flag = 1 if value.value_hash is not None else 1 | _NO_HASH
        head = bytes((flag, value.instruction)) + bytes(value.value_hash or b"")
        return head + key + value.primary_partition.to_bytes(4, signed=True)

    def _read(self, data: bytes) -> Subscription:
        at = 2 if data[0] & _NO_HASH else 2 + HASH_BYTES
        key = self.inner_serde.deserialize(data[at:-4])
        return Subscription(data[2:at] or None, _INSTRUCTIONS[data[1]], key, int.from_bytes(data[-4:], signed=True))


class ResponseSerde(SerdeAround[Response]):
    """Bytes of an answer: version 0 and a flag, hash if any, foreign value if any."""

    name: ClassVar[str] = "foreign-key response"  # type: ignore[misc]
    expects: ClassVar[str] = "responses of a foreign-key join"
    inline_copy = "type(value[1]) is CopiedValue", "tuple.__new__(type(value), (value[0], value[1], None))"

    def copy_value(self, value: Response) -> Response | None:
        """Return the response with a copy of the foreign value, unless the value may have no bytes, as None has."""
        digest, foreign, _ = value
        if foreign is not None and type(foreign) is not CopiedValue:
            inner = self.inner_serde
            has_bytes = inner.width is not None or (type(inner) is StringSerde and foreign != "")
            if type(foreign) is dict and inner.is_flat(foreign):
                foreign = CopiedValue(foreign)
            elif not has_bytes or type(foreign) not in inner.plain or not inner.keeps(foreign):
                return None
        return tuple.__new__(Response, (digest, foreign, None))

    def _write(self, value: Response) -> bytes:
        data = self.inner_serde.serialize(value.foreign_value) or b""
        return (bytes(1) + bytes(value.value_hash) if value.value_hash is not None else bytes((_NO_HASH,))) + data

    def _read(self, data: bytes) -> Response:
        at = 1 if data[0] & _NO_HASH else 1 + HASH_BYTES
        return Response(data[1:at] or None, self.inner_serde.deserialize(data[at:] or None))


def _prefix_of(name: str) -> str:
    """Return the expression for the prefix of the store keys of a foreign key; those of text are cached."""
    return f"({{prefixes}}[{name}] if type({name}) is str else {{prefix_of}}({name}))"


def _prefixes(serde: Serde) -> dict[str, object]:
    """Return the objects that `_prefix_of` names."""
    write = serde.serialize
    prefix_of: Callable[[Any], bytes] = lambda key: subscription_prefix(write(key) or b"")  # noqa: E731
    return {"prefixes": ByText(prefix_of), "prefix_of": prefix_of}


def subscription_prefix(foreign_key: bytes) -> bytes:
    """Return the prefix of the store keys of all subscriptions to a foreign key; the primary key's bytes follow.

    Example:
        >>> subscription_prefix(b"ab").hex()
        '000000026162'
    """
    return len(foreign_key).to_bytes(4) + foreign_key


@dataclass(frozen=True)
class TablePartitioner:
    """Sends a subscription or an answer to its key's partition; ``partitioner`` is that of the table which gets it."""

    partitioner: StreamPartitioner

    def __call__(self, topic: str, key: object, value: object, partitions: int, /) -> int | None:
        """Return the one partition that the user's partitioner chose; zero or several are an error for a row."""
        chosen = self.partitioner(topic, key, None, partitions)
        several = (chosen,) if chosen is None or isinstance(chosen, int) else tuple(chosen)
        if len(several) == 1:
            return several[0]
        fact = f"a partitioner of a foreign-key join chose {len(several)} partitions for one key"
        java = "The partitions returned by StreamPartitioner#partitions method when used for FK join should be"
        java = f"{java} a singleton set"
        raise EngineError(fact, hint="choose exactly one partition, or None for the default", java=java)


HASH_BYTES = 16
_SEED = 104_729
_MASK = 0xFFFF_FFFF_FFFF_FFFF
_C1, _C2 = 0x87C3_7B91_1142_53D5, 0x4CF5_AD43_2745_937F
_BLOCK, _RESULT = Struct("<QQ"), Struct(">QQ")


def value_hash(data: bytes) -> bytes:
    """Return the 16 bytes of Murmur3 (x64, 128 bits), high half first.

    Example:
        >>> value_hash(b"").hex() != value_hash(b"a").hex()
        True
    """
    return _remembered_hash(data) if len(data) <= _MOST_REMEMBERED else _murmur3(data)


def _murmur3(data: bytes) -> bytes:
    h1 = h2 = _SEED
    size, whole = len(data), len(data) & ~15
    for k1, k2 in _BLOCK.iter_unpack(data[:whole]):  # bits above the lowest 64 do not matter before a mask
        k1, k2 = k1 * _C1 & _MASK, k2 * _C2 & _MASK
        h1 ^= (k1 << 31 | k1 >> 33) * _C2 & _MASK
        h1 = ((h1 << 27 | h1 >> 37) + h2) * 5 + 0x52DC_E729 & _MASK
        h2 ^= (k2 << 33 | k2 >> 31) * _C1 & _MASK
        h2 = ((h2 << 31 | h2 >> 33) + h1) * 5 + 0x3849_5AB5 & _MASK
    if size > whole:
        k1, k2 = _BLOCK.unpack(data[whole:].ljust(16, b"\0"))
        k1, k2 = k1 * _C1 & _MASK, k2 * _C2 & _MASK
        h1 ^= (k1 << 31 | k1 >> 33) * _C2 & _MASK
        h2 ^= (k2 << 33 | k2 >> 31) * _C1 & _MASK
    h1 = (h1 ^ size) + (h2 ^ size) & _MASK
    h1, h2 = _finish(h1), _finish((h2 ^ size) + h1 & _MASK)
    h1 = h1 + h2 & _MASK
    return _RESULT.pack(h1, h2 + h1 & _MASK)


_MOST_REMEMBERED = 1024
_remembered_hash = lru_cache(maxsize=1024)(_murmur3)
"""A row is usually hashed again soon, when the answer to its subscription arrives."""


def _finish(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51_AFD7_ED55_8CCD & _MASK
    h = (h ^ h >> 33) * 0xC4CE_B9FE_1A85_EC53 & _MASK
    return h ^ h >> 33
