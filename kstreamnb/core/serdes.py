"""`Serdes`: every built-in serde under the name that Java gives it; JSON, lists, and keys within windows."""

from __future__ import annotations

import builtins
import json
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from math import isfinite
from typing import Any, ClassVar, TypeAlias

from kstreamnb.core import serde as scalars
from kstreamnb.core.arguments import expect
from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import FITTING, SCALARS, STRING, FunctionSerde, Serde, SerdeAround, T, json_fault
from kstreamnb.core.signatures import taking
from kstreamnb.core.time import duration_ms
from kstreamnb.errors import ConfigError, SerdeError
from kstreamnb.hints import did_you_mean, from_java
from kstreamnb.java_texts import LIST_NOT_FIXED
from kstreamnb.suggesting import Suggesting


def _encoder(*, sort_keys: bool) -> Callable[[Any], str]:
    """Return a function from value to text; the standard encoder rebuilds its fast path for every value."""
    make, quote = json.encoder.c_make_encoder, json.encoder.encode_basestring  # type: ignore[attr-defined]
    fast = make(None, json.JSONEncoder().default, quote, None, ":", ",", sort_keys, False, False)  # noqa: FBT003
    return lambda value: "".join(fast(value, 0))


_encode, _encode_sorted = _encoder(sort_keys=False), _encoder(sort_keys=True)


def _finite(text: str) -> float:
    """Return a number; refuse NaN, and 1e999, which would be read as infinity and could never be written again."""
    if isfinite(number := float(text)):
        return number
    raise ValueError(f"{text} is not a finite number")


_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
_scan = _DECODER.scan_once  # type: ignore[attr-defined] # typeshed lacks it


def _decode(text: str) -> Any:
    """Decode a text; the standard decoder looks for whitespace around every value, which rarely exists."""
    try:
        value, end = _scan(text, 0)
    except StopIteration:  # it begins with whitespace, or with no value
        end = -1
    return value if end == len(text) else _DECODER.decode(text)


_NUMBERS = frozenset({int, float})
_CONSTANTS = frozenset({bool, type(None)})
_SCALARS = _NUMBERS | _CONSTANTS | {str}


def _is_flat(value: dict[Any, Any]) -> bool:
    """Return whether JSON would restore a dict of immutable values; calling a function is cheaper than a method."""
    for name, item in value.items():
        kind = type(item)
        kept = item.isascii() if kind is str else _MIN <= item <= _MAX if kind in _NUMBERS else kind in _CONSTANTS
        if not kept or type(name) is not str or not name.isascii():
            return False
    return True


@dataclass(frozen=True)
class JsonSerde(Serde):
    """JSON without whitespace, with names in the dict's order or sorted.

    Values that would not survive a round trip are refused: names that are not text, NaN, and objects of other types. A
    tuple is written as a list and comes back as one. Sorted names give equal dicts equal bytes.

    Example:
        >>> JsonSerde().serialize({"sku": "shoe", "sizes": (38, 39)})
        b'{"sku":"shoe","sizes":[38,39]}'
    """

    name: str = "json"
    sort_keys: bool = False

    plain: ClassVar[frozenset[type]] = frozenset({str, int, float, bool})
    expects: ClassVar[str] = "dict with text as names, list, tuple, str, int, float, bool or None"
    advice: ClassVar[str] = "convert it to text or numbers before, or make a serde with Serdes.serde_from"
    _fault = staticmethod(json_fault)

    def keeps(self, value: object) -> bool:
        """Keep all values except NaN, infinity and lone surrogates, which JSON cannot represent."""
        return isfinite(value) if type(value) is float else type(value) is not str or STRING.keeps(value)

    @property
    def is_flat(self) -> Callable[[dict[Any, Any]], bool]:
        """The function that returns whether a dict holds immutable values that its bytes would decode to."""
        return _is_flat if type(self) is JsonSerde and not self.sort_keys else super().is_flat

    def _write(self, value: object) -> bytes:
        self._check(value)
        return (_encode_sorted if self.sort_keys else _encode)(value).encode()

    def _check(self, value: object) -> None:
        """Refuse values that the encoder would write as something else."""
        if isinstance(value, dict):
            for name, item in value.items():
                if type(name) is not str:
                    raise TypeError("a name is not text")
                if type(item) not in _SCALARS:
                    self._check(item)
        elif isinstance(value, (list, tuple)) and type(value) in (list, tuple):
            for item in value:
                if type(item) not in _SCALARS:
                    self._check(item)
        elif type(value) not in _SCALARS:
            raise TypeError(f'found a value of type "{type(value).__name__}"')

    def _read(self, data: bytes) -> Any:
        text = data.decode()
        value = _decode(text)
        if "\\u" in text:  # an escape may be half of a surrogate pair, which UTF-8 cannot represent
            _encode(value).encode()
        return value


_MIN, _MAX, _FIXED, _VARIABLE, _NO_ITEM = 1 - 2**63, 2**63 - 1, 0, 1, 2**32 - 1
_Size: TypeAlias = timedelta | str | int | None


@dataclass(frozen=True)
class ListSerde(Serde[list[T | None]]):
    """A list of items of the inner serde; None is allowed among them."""

    inner: Serde[T]

    writes: ClassVar[tuple[type, ...]] = (list, tuple)
    unreadable: ClassVar[str | None] = "Unable to deserialize into a List"

    @property
    def name(self) -> str:  # type: ignore[override]
        """``list<inner>``."""
        return f"list<{self.inner.name}>"

    @property
    def expects(self) -> str:  # type: ignore[override]
        """A list, and what may be in it."""
        return f"list of {self.inner.expects}"

    def _write(self, value: list[T | None]) -> bytes:
        items = [self.inner.serialize(item) for item in value]
        if self.inner.width is None:
            parts = [struct.pack(">bi", _VARIABLE, len(items))]
            parts += [b"\xff" * 4 if item is None else len(item).to_bytes(4) + item for item in items]
        else:
            nulls = [index for index, item in enumerate(items) if item is None]
            parts = [struct.pack(f">bi{len(nulls)}ii", _FIXED, len(nulls), *nulls, len(items))]
            parts += [item for item in items if item is not None]
        return b"".join(parts)

    def _read(self, data: bytes) -> list[T | None]:
        if data[0] == _VARIABLE:
            return self._read_variable(data)
        if data[0] == _FIXED and self.inner.width is not None:
            return self._read_fixed(data, self.inner.width)
        java = LIST_NOT_FIXED if data[0] == _FIXED else "Invalid serialization strategy flag value"
        raise self._unreadable(data, f"the first byte is {data[0]:02x}", java=java)

    def _read_variable(self, data: bytes) -> list[T | None]:
        items: list[T | None] = []
        (size,), at = struct.unpack_from(">I", data, 1), 5
        for _ in range(size):
            (length,) = struct.unpack_from(">I", data, at)
            end = at + 4 + (0 if length == _NO_ITEM else length)
            if end > len(data):
                raise IndexError(f"an item ends at {end}")
            items.append(None if length == _NO_ITEM else self.inner.deserialize(data[at + 4 : end]))
            at = end
        return items

    def _read_fixed(self, data: bytes, width: int) -> list[T | None]:
        (missing,) = struct.unpack_from(">i", data, 1)
        *nulls, size = struct.unpack_from(f">{missing}iI", data, 5)
        items, missing_at = (data[at : at + width] for at in count(9 + 4 * missing, width)), frozenset(nulls)
        return [None if index in missing_at else self.inner.deserialize(next(items)) for index in range(size)]


@dataclass(frozen=True)
class WindowedSerde(SerdeAround[Windowed[object]]):
    """Keys within windows."""

    of_keys: ClassVar[bool] = True
    plain: ClassVar[frozenset[type]] = frozenset({Windowed})
    writes: ClassVar[tuple[type, ...]] = (Windowed,)
    advice: ClassVar[str] = "take the key out of its window first, or give a windowed key"
    kind: ClassVar[str]
    wrong_end: ClassVar[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        """``windowed<inner> time`` or ``windowed<inner> session``."""
        return f"windowed<{self.inner.name if self.inner else 'default'}> {self.kind}"

    @property
    def expects(self) -> str:  # type: ignore[override]
        """A windowed key, and what its key may be."""
        return f"Windowed with a key of {self.inner_serde.expects}"

    def deserialize(self, data: bytes | None) -> Windowed[object]:
        """Return a windowed key from its bytes; None for no bytes and for empty ones, as in Kafka."""
        return super().deserialize(data or None)

    def keeps(self, value: Windowed[object]) -> bool:
        """Keep a key that the inner serde keeps."""
        return type(value.key) in (inner := self.inner_serde).plain and inner.keeps(value.key)

    def _inner_bytes(self, value: Windowed[object]) -> bytes:
        if (key := self.inner_serde.serialize(value.key)) is None:
            raise self._unwritable(value, "its key has no bytes")
        return key

    def _within(self, data: bytes, key: bytes, start: int, end: int, *, least_ms: int) -> Windowed[object]:
        """Return the key from its part of the bytes, in a window that Kafka could have made."""
        if start < 0 or end - start < least_ms:
            java = self.wrong_end if start >= 0 else "Window startMs time cannot be negative."
            raise self._unreadable(data, f"a window cannot reach from {start} to {end} ms", java=java)
        try:
            return Windowed(self.inner_serde.deserialize(key), start, end)
        except SerdeError as error:
            error.add_note("Detail: the bytes are those of a key within a window.")
            raise


@dataclass(frozen=True)
class TimeWindowedSerde(WindowedSerde):
    """Keys within windows of one size: the bytes hold the start only.

    Units: ``size_ms`` is the window's size in ms; without it, deserialized windows have no end.
    """

    size_ms: int | None = None

    kind: ClassVar[str] = "time"
    wrong_end: ClassVar[str] = "Window endMs must be greater than window startMs."

    def __post_init__(self) -> None:
        if self.size_ms is not None and self.size_ms <= 0:
            raise ConfigError(f"window size of a windowed serde must be positive, got {self.size_ms} ms")

    def keeps(self, value: Windowed[object]) -> bool:
        """Keep windows of the size, with keys that the inner serde keeps."""
        return value.end == self._end(value.start) and super().keeps(value)

    def _end(self, start: int) -> int:
        return _MAX if self.size_ms is None else min(start + self.size_ms, _MAX)

    def _write(self, value: Windowed[object]) -> bytes:
        return self._inner_bytes(value) + struct.pack(">q", value.start)

    def _read(self, data: bytes) -> Windowed[object]:
        if len(data) < 8:
            raise self._unreadable(data, "expected 8 bytes or more, of which the last 8 are the window start")
        start = int.from_bytes(data[-8:], signed=True)
        return self._within(data, data[:-8], start, self._end(start), least_ms=1)


@dataclass(frozen=True)
class SessionWindowedSerde(WindowedSerde):
    """Keys within sessions: the bytes hold end and start."""

    kind: ClassVar[str] = "session"
    wrong_end: ClassVar[str] = "Window endMs time cannot be smaller than window startMs time."

    def _write(self, value: Windowed[object]) -> bytes:
        return self._inner_bytes(value) + struct.pack(">qq", value.end, value.start)

    def _read(self, data: bytes) -> Windowed[object]:
        if len(data) < 16:
            raise self._unreadable(data, "start and end of a session take 16 bytes")
        end, start = struct.unpack_from(">qq", data, len(data) - 16)
        return self._within(data, data[:-16], start, end, least_ms=0)


_NAMED: dict[str, Serde] = {serde.name: serde for serde in (*SCALARS, JsonSerde())}
_OWN_SERDE = "make a serde of two functions: ks.Serdes.serde_from(serialize, deserialize)"
_ALIASES = {"str": "string", "int": "integer", "bool": "boolean", "byte_array": "bytes", "byte_buffer": "bytes"}


def _built_in(serde: Serde[T], doc: str) -> staticmethod[[], Serde[T]]:
    """Make a method of `Serdes` that returns a built-in serde."""

    def made() -> Serde[T]:
        return serde

    made.__name__, made.__qualname__, made.__doc__ = serde.name, f"Serdes.{serde.name}", doc
    return staticmethod(made)


class Serdes(Suggesting):
    """The built-in serdes, and constructors for custom ones.

    Example:
        >>> Serdes.long().serialize(258).hex()
        '0000000000000102'
        >>> Serdes.list_serde(Serdes.string()).name
        'list<string>'
    """

    string = _built_in(scalars.STRING, "Text as UTF-8; the default for keys.")
    long = _built_in(scalars.LONG, "Whole numbers of 64 bits.")
    integer = _built_in(scalars.INTEGER, "Whole numbers of 32 bits.")
    short = _built_in(scalars.SHORT, "Whole numbers of 16 bits.")
    float = _built_in(scalars.FLOAT, "Numbers of single precision; Python's float is `double`.")
    double = _built_in(scalars.DOUBLE, "Numbers of double precision, as Python's float.")
    boolean = _built_in(scalars.BOOLEAN, "True and False.")
    uuid = _built_in(scalars.UUID_TEXT, "UUIDs, as their text.")
    bytes = byte_array = byte_buffer = _built_in(scalars.BYTES, "Bytes as they are.")
    void = _built_in(scalars.VOID, "Only None.")

    @staticmethod
    def json(*, sort_keys: bool = False) -> Serde:
        """Write JSON as compact UTF-8; the default for values. For keys, sort the names.

        Args:
            sort_keys: write the names of an object in alphabetical order, so that equal objects have equal bytes.
                Default: False.
        """
        return JsonSerde(sort_keys=sort_keys)

    @staticmethod
    def list_serde(inner: Serde[T] | str) -> Serde[list[T | None]]:
        """Write lists of items of the ``inner`` serde.

        Args:
            inner: serde of the elements, or its name.
        """
        return ListSerde(serde_of(inner))

    @staticmethod
    def time_windowed(inner: Serde | str | None = None, size: _Size = None) -> Serde[Windowed[object]]:
        """Write keys with windows of one size; without the size, windows that are read have no end.

        A number of milliseconds is accepted too, as in Java's serde. Without ``inner`` the key uses the application's
        default serde.

        Args:
            inner: serde of the key in the window, or its name. Default: the application's ``default.key.serde``.
            size: size of the windows, such as "5m", or a number of milliseconds. Default: None; windows that are read
                have no end.
        """
        size_ms = size if size is None or type(size) is int else duration_ms(size, "window size")
        return TimeWindowedSerde(serde_or_none(inner), size_ms)

    @staticmethod
    def session_windowed(inner: Serde | str | None = None) -> Serde[Windowed[object]]:
        """Write keys with sessions; without ``inner`` the key uses the application's default serde.

        Args:
            inner: serde of the key in the session, or its name. Default: the application's ``default.key.serde``.
        """
        return SessionWindowedSerde(serde_or_none(inner))

    @staticmethod
    def serde_from(
        serializer: Callable[[T], builtins.bytes],
        deserializer: Callable[[builtins.bytes], T],
        *,
        name: str = "custom",
        immutable: Iterable[type] = (),
    ) -> Serde[T]:
        """Make a serde from two functions, value to bytes and bytes to value; neither is called with None.

        Args:
            serializer: function ``(value) -> bytes``.
            deserializer: function ``(data) -> value``.
            name: name of the serde in errors and descriptions. Default: "custom".
            immutable: types whose instances cannot be mutated and survive a round trip; they are not copied. Default:
                none.
        """
        taking(serializer, "value", hint="leave out the topic: write it as lambda value: …")
        taking(deserializer, "data", hint="leave out the topic: write it as lambda data: …")
        expect(immutable, Iterable, "immutable")
        for kind in immutable:
            expect(kind, type, "each of immutable")
        return FunctionSerde(name, serializer, deserializer, frozenset(immutable))

    @staticmethod
    def named(name: str) -> Serde:
        """Return the built-in serde of that name, such as ``long`` or ``list<string>``.

        Args:
            name: the name, in which inner serdes are in angle brackets.
        """
        return serde_named(name)


class NamesSerdes:
    """A frozen value whose serdes may be given by the names of built-in ones."""

    def __post_init__(self) -> None:
        for name, value in list(vars(self).items()):
            if name.endswith("serde"):
                object.__setattr__(self, name, serde_or_none(value))


def serde_of(value: object) -> Serde:
    """Return a serde as it is, or the built-in one of a name; raise ConfigError for anything else."""
    if isinstance(value, str):
        return serde_named(value)
    fitting = FITTING.get(value, "long") if isinstance(value, type) else "long"
    hint = _OWN_SERDE if hasattr(value, "serialize") else f'write for example "{fitting}", or Serdes.{fitting}()'
    expect(value, Serde, "a serde", hint=hint)
    assert isinstance(value, Serde)
    return value


def serde_or_none(value: Serde | str | None) -> Serde | None:
    """Return what `serde_of` makes of a value; None for None."""
    return None if value is None else serde_of(value)


def serde_named(name: str) -> Serde:
    """Return the built-in serde of a name, the inverse of ``serde.name``; raises ConfigError for unknown names.

    Example:
        >>> serde_named("list<long>") == Serdes.list_serde(Serdes.long())
        True
    """
    expect(name, str, "name of a serde")
    word = name.strip()
    if inner := re.fullmatch(r"list<(.+)>", word):
        return ListSerde(serde_named(inner[1]))
    if inner := re.fullmatch(r"windowed<(.+)> (time|session)", word):
        return (TimeWindowedSerde if inner[2] == "time" else SessionWindowedSerde)(serde_named(inner[1]))
    word = _ALIASES.get(word, word)
    if word not in _NAMED:
        detail = f"the built-in serdes are {', '.join(_NAMED)}, list<…>, windowed<…> time and windowed<…> session"
        registered = re.search("avro|json_?schema|protobuf", word, re.IGNORECASE)
        hint = did_you_mean(word, _NAMED) or (from_java("Avro", ()) if registered else _OWN_SERDE)
        raise ConfigError(f'no built-in serde is called "{name}"', detail=detail, hint=hint)
    return _NAMED[word]
