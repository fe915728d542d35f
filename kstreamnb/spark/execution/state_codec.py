"""The binary form of state in checkpoints: MessagePack, which executes no code when it is read.

Format 3 is a byte with the version, then MessagePack. Tuples are arrays; other types that MessagePack does not know
have extension types. Only objects of a user's own class, which a serde may keep in stores unserialized, need pickle; a
reader unpickles them only if it trusts the checkpoint.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from struct import Struct
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import cloudpickle
import msgpack

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.record import Change, RecordMetadata, ValueAndTimestamp, Windowed
from kstreamnb.errors import CheckpointError
from kstreamnb.hints import reason_of
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.state.cache import CacheEntry, InCache
from kstreamnb.state.codec import EncodedRow, RowWithHeaders, ValueWithHeaders

Attributes: TypeAlias = dict[tuple[str, str], dict[str, bytes]]
"""Attributes of users' processors by task and node, each pickled."""

_VERSION = b"\x03"
_SURROGATES = "surrogatepass"
_FORM: dict[str, Any] = {"use_list": False, "strict_map_key": False, "unicode_errors": _SURROGATES}
_SERIALIZED, _DECIMAL, _UUID, _ROW, _OBJECT, _BIG_INT = 1, 2, 3, 4, 5, 6
_MAX_INT64 = (1 << 63) - 1
_TIME = Struct(">q")
_extension = partial(tuple.__new__, msgpack.ExtType)  # without its checks, for what each row of a window needs
_TUPLES: dict[int, type[tuple[Any, ...]]] = {
    16: Windowed,
    17: RecordMetadata,
    18: ValueAndTimestamp,
    19: Change,
    20: InCache,
    21: CacheEntry,
    22: RowWithHeaders,
    23: ValueWithHeaders,
}
_CODES = {kind: code for code, kind in _TUPLES.items()}


class LogHead(NamedTuple):
    """The head of a state log: numbers of its last and first entry, and its bytes in all."""

    last: int
    first: int
    size: int


class PackedDelta(NamedTuple):
    """A delta with raw keys and the bytes of their rows by store."""

    rows: dict[str, tuple[list[Any], list[bytes]]]
    state_vars: dict[tuple[str, str], Any]


class LogEntry(NamedTuple):
    """An entry of a state log; ``delta`` and the compaction's ``part`` are packed, each attribute is pickled."""

    delta: bytes
    positions: Positions
    clock_ms: int
    attributes: Attributes
    part: bytes | None

    @property
    def deltas(self) -> list[bytes]:
        """The packed deltas to apply, one after the other: a part's clock must not precede the rows that it expires."""
        return [self.delta] if self.part is None else [self.delta, self.part]


def pack(value: object) -> bytes:
    """Serialize plain values: None, numbers, text, bytes, tuples, dicts, and the kit's own value classes.

    Example:
        >>> unpack(pack(("a", 1 << 80, {("b", 2): None})))
        ('a', 1208925819614629174706176, {('b', 2): None})
    """
    return _VERSION + _packer.pack(value)


def unpack(data: bytes, *, trust: bool = False) -> Any:
    """Deserialize what `pack` returned; ``trust`` allows unpickling objects of users' classes in it.

    Raises:
        CheckpointError: the data is damaged, has another version, or contains such objects and is not trusted.
    """
    _check_version(data)
    with _parsing():
        return msgpack.unpackb(memoryview(data)[1:], ext_hook=_read_trusted if trust else _read, **_FORM)


def _check_version(data: bytes) -> None:
    if data[:1] != _VERSION:
        fact = "state in the checkpoint has an unknown format"
        detail = f"expected version {_VERSION[0]}, got {data[0] if data else 'nothing'}"
        raise CheckpointError(fact, detail=detail, hint="read it with the version of kstreamnb that wrote it")


@contextmanager
def _parsing() -> Iterator[None]:
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:  # whatever a parser makes of damaged bytes
        raise CheckpointError("state in the checkpoint is damaged", detail=reason_of(error)) from error


def pack_row(row: Any) -> bytes:
    """Serialize a row of a store as it is within a delta; None if it is deleted.

    Example:
        >>> unpack_row(pack_row(("a", 1)))
        ('a', 1)
    """
    return bytes(_packer.pack(row))


def unpack_row(data: bytes) -> Any:
    """Deserialize what `pack_row` returned; the data must come from this process or one like it."""
    return msgpack.unpackb(data, ext_hook=_read_trusted, **_FORM)


def split_delta(data: bytes) -> PackedDelta:
    """Deserialize a trusted delta except for its rows, whose bytes are copied, in two thirds of the time."""
    _check_version(data)
    with _parsing():
        parser = msgpack.Unpacker(ext_hook=_read_trusted, max_buffer_size=len(data), **_FORM)
        parser.feed(memoryview(data)[1:])
        parse, skip, tell = parser.unpack, parser.skip, parser.tell
        parser.read_array_header()
        rows: dict[str, tuple[list[Any], list[bytes]]] = {}
        for _ in range(parser.read_map_header()):
            raw_keys, packed = rows[parse()] = [], []
            for _ in range(parser.read_map_header()):
                raw_keys.append(parse())
                begin = tell() + 1
                skip()
                packed.append(data[begin : tell() + 1])
        state_vars = parse()
    return PackedDelta(rows, state_vars)


def pack_delta(delta: StateDelta) -> bytes:
    """Serialize a delta."""
    last_keys = [next(reversed(rows), None) for rows in delta.rows.values()]
    return _VERSION + (_big_packer if any(map(_ends_with_big_int, last_keys)) else _packer).pack(tuple(delta))


def unpack_delta(data: bytes, *, trust: bool = False) -> StateDelta:
    """Deserialize a delta; see `unpack`."""
    return StateDelta(*unpack(data, trust=trust))


def unpack_head(data: bytes) -> LogHead:
    """Deserialize the head of a log."""
    return LogHead(*unpack(data))


def unpack_entry(data: bytes) -> LogEntry:
    """Deserialize an entry of a log; its deltas and attributes stay packed."""
    return LogEntry(*unpack(data))


def _write_big(value: int) -> object:
    """Return the form of a number beyond 64 bits."""
    return _extension((_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, signed=True)))


def _ends_with_big_int(value: Any) -> bool:
    """Return whether a value is a tuple that ends with a number beyond 64 bits, as the key of a join's row does."""
    return type(value) is tuple and len(value) > 0 and type(value[-1]) is int and value[-1] > _MAX_INT64


def _write_join_key(value: Any) -> object:
    """Return what `_write` does, but test the last number first: the exception of MessagePack takes longer."""
    return [*value[:-1], _write_big(value[-1])] if _ends_with_big_int(value) else _write(value)


def _write(value: Any) -> object:
    """Return the form of values that MessagePack does not know; tuples arrive here too, because of `strict_types`."""
    kind: type = type(value)
    if kind is tuple:
        return list(value)
    if kind is SerializedValue:
        return _extension((_SERIALIZED, bytes(value)))
    if kind is EncodedRow:
        return _extension((_ROW, _TIME.pack(value[1]) + value[0]))
    if kind in _CODES:
        parts = value.__reduce__()[1] if kind is RowWithHeaders else value
        return msgpack.ExtType(_CODES[kind], _packer_of().pack(list(parts)))
    if kind is int:
        return _write_big(value)
    if isinstance(value, UUID):
        return msgpack.ExtType(_UUID, value.bytes)
    return msgpack.ExtType(_OBJECT, cloudpickle.dumps(value, 5))


def _reader(*, trust: bool) -> Callable[[int, bytes], object]:
    def read(code: int, data: bytes) -> object:
        if code == _SERIALIZED:
            return SerializedValue(data)
        if code == _ROW:
            return EncodedRow((SerializedValue(data[8:]), *_TIME.unpack_from(data)))
        if code in _TUPLES:
            return _TUPLES[code](*msgpack.unpackb(data, ext_hook=read, **_FORM))
        if code == _BIG_INT:
            return int.from_bytes(data, signed=True)
        if code == _DECIMAL:  # a big number as earlier versions wrote it
            return int(data)
        if code == _UUID:
            return UUID(bytes=data)
        if code == _OBJECT and trust:
            return pickle.loads(data)
        if code == _OBJECT:
            fact = "the checkpoint contains objects of a user's class, which only pickle can read"
            detail = "unpickling runs whatever code the checkpoint contains"
            raise CheckpointError(fact, detail=detail, hint="pass trust=True if you know who wrote the checkpoint")
        raise ValueError(f"extension type {code}")

    return read


_packer_of: Callable[..., Any] = partial(msgpack.Packer, default=_write, strict_types=True, unicode_errors=_SURROGATES)
_packer = _packer_of()  # one for all: a packer keeps its buffer between calls
_big_packer = _packer_of(default=_write_join_key)
_read, _read_trusted = _reader(trust=False), _reader(trust=True)
