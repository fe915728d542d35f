"""Serdes of single values, byte for byte Kafka's, and serdes made of a user's functions.

A serde is a frozen value that turns Python values into Kafka's bytes and back. None is None in both directions.
`kstreamnb.core.codec` decides when values are serialized.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self
from uuid import UUID

from kstreamnb.core.signatures import adopt_serde
from kstreamnb.errors import SerdeError
from kstreamnb.type_variables import TypeVar

T = TypeVar("T", default=Any)  # `Serde` without a parameter is a serde of any values


class Serde(Generic[T]):
    """Turns values into Kafka's bytes and back; subclasses are frozen dataclasses, compared by value.

    ``name`` is the serde's name in errors, descriptions and documents. ``plain`` holds the exact types whose
    instances are immutable and survive a round trip unchanged, if `keeps` agrees. ``writes`` are the types that it
    serializes, ``expects`` names them in words, and ``advice`` is the hint for other types. ``width`` is the number of
    bytes if every value has the same. Exceptions of ``_write`` and ``_read`` become a SerdeError; ``unreadable`` is
    Kafka's text for the latter. ``inline_copy`` is a test of the local name ``value``, and an expression for what
    `copy_value` returns if it is true; empty texts for none. A serde around others that may hold None for the
    application's default has ``with_defaults(key_serde, value_serde)``.

    Example:
        >>> class Upper(Serde):
        ...     name = "upper"
        ...     def _write(self, value):
        ...         return value.upper().encode()
        ...     def _read(self, data):
        ...         return data.decode().lower()
        >>> Upper().serialize("shoe"), Upper().deserialize(b"SHOE"), Upper().serialize(None)
        (b'SHOE', 'shoe', None)
    """

    name: str
    plain: ClassVar[frozenset[type]] = frozenset()
    writes: ClassVar[tuple[type, ...]] = (object,)
    expects: ClassVar[str] = "any value"
    advice: ClassVar[str] = "name another serde where the topic or store is declared, or convert the value before"
    unreadable: ClassVar[str | None] = None
    inline_copy: ClassVar[tuple[str, str]] = "", ""
    width: int | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        adopt_serde(cls)

    def serialize(self, value: T | None) -> bytes | None:
        """Return Kafka's bytes of a value; None for None.

        Args:
            value: a value of one of the types in ``writes``, or None.

        Raises: SerdeError for a value that it cannot write.
        """
        if value is None:
            return None
        if not isinstance(value, self.writes):
            raise self._unwritable(value)
        try:
            return self._write(value)
        except SerdeError:
            raise
        except Exception as error:
            raise self._unwritable(value, f"{type(error).__name__}: {error}") from error

    def deserialize(self, data: bytes | None) -> T:
        """Return a new value from bytes; None for None.

        Args:
            data: bytes of a key or value, or None.

        Raises: SerdeError for bytes that it cannot read.
        """
        if data is None:
            return None  # type: ignore[return-value] # None stays None, whatever the type
        try:
            return self._read(data)
        except SerdeError:
            raise
        except Exception as error:
            raise self._unreadable(data, f"{type(error).__name__}: {error}", java=self.unreadable) from error

    def keeps(self, value: T) -> bool:
        """Return whether a value of a plain type would come back from its bytes unchanged.

        Args:
            value: a value whose exact type is in ``plain``.
        """
        return True

    @property
    def is_flat(self) -> Callable[[dict[Any, Any]], bool]:
        """The function that returns whether a dict holds immutable values that its bytes would decode to."""
        return lambda value: False

    def copy_value(self, value: T) -> T | None:
        """Return the value that its bytes would decode to, if known without serializing; otherwise None.

        It is immutable, or a new dict of immutable values.

        Args:
            value: a value that the serde can write.
        """
        return value.copy() if type(value) is dict and self.is_flat(value) else None  # type: ignore[attr-defined, arg-type]

    def portable(self, value: T) -> object:
        """Return a value that files hold and that the serde writes as it writes this one: by default its bytes.

        Args:
            value: an object of a type that files cannot hold.
        """
        return self.serialize(value)

    def _write(self, value: T) -> bytes:
        raise NotImplementedError(f"{type(self).__name__} has no serialize(value)")

    def _read(self, data: bytes) -> T:
        raise NotImplementedError(f"{type(self).__name__} has no deserialize(data)")

    def _unwritable(self, value: object, why: str | None = None, *, hint: str | None = None) -> SerdeError:
        fact, advice = self._fault(value)
        fact = fact or f'a value of type "{type(value).__name__}"'
        detail = f"it writes {self.expects}; {why}" if why else f"it writes {self.expects}"
        hint = hint or advice or self._advice_for(value)
        return SerdeError(f'serde "{self.name}" cannot write {fact}', detail=detail, hint=hint)

    def _fault(self, value: object) -> tuple[str, str]:
        """Return which part of a value cannot be written, and a hint; empty texts if that is the value itself."""
        return "", ""

    def _advice_for(self, value: object) -> str:
        fitting = FITTING.get(type(value), self.name)
        if fitting == self.name or self.advice != Serde.advice:
            return self.advice
        return f'declare the topic or store with key_serde="{fitting}", or value_serde="{fitting}" for its values'

    def _check_size(self, data: bytes, java_name: str) -> None:
        if len(data) != self.width:
            java = f"Size of data received by {java_name}Deserializer is not {self.width}"
            raise self._unreadable(data, f"expected {self.width} bytes", java=java)

    def _unreadable(self, data: bytes, why: str, *, java: str | None = None) -> SerdeError:
        fact = f'serde "{self.name}" cannot read {len(data)} byte{"s" * (len(data) != 1)}'
        detail = f"{why}; it reads {self.expects}"
        return SerdeError(fact, detail=detail, hint="the topic may have been written with another serde", java=java)

    def __str__(self) -> str:
        return self.name


FITTING: dict[type, str] = {
    bool: "boolean", int: "long", float: "double", str: "string", bytes: "bytes", UUID: "uuid",
    **dict.fromkeys((dict, list, tuple), "json"),
}  # fmt: skip
"""The serde to name for values of a type."""


@dataclass(frozen=True)
class FunctionSerde(Serde[T]):
    """A user's pair of functions as a serde.

    ``plain`` are types whose instances the user declares to need no copy in stores and in-process topics: only those
    that cannot be mutated and that survive a round trip.

    Example:
        >>> hexadecimal = FunctionSerde("hex", lambda v: v.to_bytes(2), lambda data: int.from_bytes(data))
        >>> hexadecimal.deserialize(hexadecimal.serialize(258))
        258
    """

    name: str
    writer: Callable[[T], bytes]
    reader: Callable[[bytes], T]
    plain: frozenset[type] = frozenset()  # type: ignore[misc]

    expects: ClassVar[str] = "what its own functions accept"

    def _write(self, value: T) -> bytes:
        data = self.writer(value)
        if not isinstance(data, bytes):
            raise self._unwritable(value, f'its function gave a "{type(data).__name__}" instead of bytes')
        return data

    def _read(self, data: bytes) -> T:
        return self.reader(bytes(data))


def complete(serde: object, key_serde: Serde, value_serde: Serde) -> Any:
    """Return a serde with the application's defaults filled in.

    Serdes around inner ones may hold None and then have a method ``with_defaults(key_serde, value_serde)``.
    """
    with_defaults = getattr(serde, "with_defaults", None)
    return serde if with_defaults is None else with_defaults(key_serde, value_serde)


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class SerdeAround(Serde[T]):
    """A serde around that of values, or with ``of_keys`` of keys; ``inner`` None is the application's default."""

    inner: Serde | None = None

    of_keys: ClassVar[bool] = False

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Self:
        """Return the serde with the application's defaults filled in."""
        default = key_serde if self.of_keys else value_serde
        return replace(self, inner=complete(self.inner or default, key_serde, value_serde))

    @property
    def inner_serde(self) -> Serde:
        """The inner serde; raises SerdeError while the default is not known."""
        if self.inner is None:
            raise SerdeError(f'serde "{self.name}" needs an inner serde')
        return self.inner


@dataclass(frozen=True)
class StringSerde(Serde[str]):
    """Text as UTF-8."""

    name: str = "string"

    plain: ClassVar[frozenset[type]] = frozenset({str})
    writes: ClassVar[tuple[type, ...]] = (str,)
    expects: ClassVar[str] = "str"

    def _advice_for(self, value: object) -> str:
        text = ", or convert it to text with str(…)" if isinstance(value, int | float) else ""
        return super()._advice_for(value) + text

    def keeps(self, value: str) -> bool:
        """Keep all text except lone surrogates, which UTF-8 cannot represent."""
        return value.isascii() or not _LONE_SURROGATE.search(value)

    def _write(self, value: str) -> bytes:
        return value.encode()

    def _read(self, data: bytes) -> str:
        return data.decode()


@dataclass(frozen=True)
class WholeSerde(Serde[int]):
    """Whole numbers of a fixed width, big-endian two's complement."""

    name: str
    width: int

    plain: ClassVar[frozenset[type]] = frozenset({int})
    writes: ClassVar[tuple[type, ...]] = (int,)

    @property
    def expects(self) -> str:  # type: ignore[override]
        """The numbers of the width."""
        return f"int from -2**{8 * self.width - 1} to 2**{8 * self.width - 1} - 1"

    def keeps(self, value: int) -> bool:
        """Keep all numbers of the width."""
        return -(1 << 8 * self.width - 1) <= value < 1 << 8 * self.width - 1

    def _write(self, value: int) -> bytes:
        if type(value) is bool:
            raise self._unwritable(value)
        if not self.keeps(value):
            raise self._unwritable(value, "the value is out of range")
        return int(value).to_bytes(self.width, "big", signed=True)

    def _read(self, data: bytes) -> int:
        self._check_size(data, self.name.capitalize())
        return int.from_bytes(data, "big", signed=True)


@dataclass(frozen=True)
class FloatSerde(Serde[float]):
    """IEEE 754 numbers, big-endian; values are rounded to single precision."""

    name: str = "float"
    width: int = 4

    form: ClassVar[str] = ">f"
    writes: ClassVar[tuple[type, ...]] = (float, int)
    expects: ClassVar[str] = "float, or an int that one holds exactly"

    def _write(self, value: float) -> bytes:
        if type(value) is bool:
            raise self._unwritable(value)
        if isinstance(value, int) and int(float(value)) != value:
            raise self._unwritable(value, "the whole number has too many digits")
        return struct.pack(self.form, value)

    def _read(self, data: bytes) -> float:
        self._check_size(data, "")  # as it is in Java, for both
        return float(struct.unpack(self.form, data)[0])


@dataclass(frozen=True)
class DoubleSerde(FloatSerde):
    """Numbers of double precision: Python's float."""

    name: str = "double"
    width: int = 8

    form: ClassVar[str] = ">d"
    plain: ClassVar[frozenset[type]] = frozenset({float})

    def keeps(self, value: float) -> bool:
        """Keep all numbers except NaNs, which are not equal to themselves."""
        return not math.isnan(value)

    def _write(self, value: float) -> bytes:
        return super()._write(math.nan if value != value else value)  # Java writes one canonical NaN


@dataclass(frozen=True)
class BooleanSerde(Serde[bool]):
    """True and False as one byte."""

    name: str = "boolean"

    plain: ClassVar[frozenset[type]] = frozenset({bool})
    writes: ClassVar[tuple[type, ...]] = (bool,)
    expects: ClassVar[str] = "bool"

    def _write(self, value: bool) -> bytes:
        return b"\x01" if value else b"\x00"

    def _read(self, data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            java = "Size of data received by BooleanDeserializer is not 1"
            if len(data) == 1:
                java = f"Unexpected byte received by BooleanDeserializer: {int.from_bytes(data, signed=True)}"
            raise self._unreadable(data, "expected one byte, 00 or 01", java=java)
        return data == b"\x01"


_UUID = re.compile(rb"\+?([0-9a-f]+)" + rb"-\+?([0-9a-f]+)" * 4, re.IGNORECASE)


@dataclass(frozen=True)
class UuidSerde(Serde[UUID]):
    """A UUID as its text of 36 characters; as in Java, groups without their leading zeros are read, too."""

    name: str = "uuid"
    width: int = 36

    plain: ClassVar[frozenset[type]] = frozenset({UUID})
    writes: ClassVar[tuple[type, ...]] = (UUID,)
    expects: ClassVar[str] = "uuid.UUID"
    unreadable: ClassVar[str | None] = "Error parsing data into UUID"

    def _write(self, value: UUID) -> bytes:
        return str(value).encode()

    def _read(self, data: bytes) -> UUID:
        groups = _UUID.fullmatch(data) if len(data) <= 36 else None
        if groups is None:
            raise ValueError("expected five groups of hexadecimal digits, with hyphens between them")
        digits = (group[-n:].zfill(n) for group, n in zip(groups.groups(), (8, 4, 4, 4, 12), strict=True))
        return UUID(b"".join(digits).decode())


@dataclass(frozen=True)
class BytesSerde(Serde[bytes]):
    """Bytes as they are."""

    name: str = "bytes"

    plain: ClassVar[frozenset[type]] = frozenset({bytes})
    writes: ClassVar[tuple[type, ...]] = (bytes, bytearray, memoryview)
    expects: ClassVar[str] = "bytes, bytearray or memoryview"

    def _write(self, value: bytes | bytearray | memoryview) -> bytes:
        return bytes(value)

    def _read(self, data: bytes) -> bytes:
        return bytes(data)


@dataclass(frozen=True)
class VoidSerde(Serde[None]):
    """Nothing: for keys or values that are always None."""

    name: str = "void"

    writes: ClassVar[tuple[type, ...]] = ()
    expects: ClassVar[str] = "None only"

    def _read(self, data: bytes) -> None:
        raise self._unreadable(data, "expected none", java="Data should be null for a VoidDeserializer.")


STRING, LONG, INTEGER, SHORT = StringSerde(), WholeSerde("long", 8), WholeSerde("integer", 4), WholeSerde("short", 2)
FLOAT, DOUBLE, BOOLEAN, UUID_TEXT, BYTES, VOID = (
    FloatSerde(), DoubleSerde(), BooleanSerde(), UuidSerde(), BytesSerde(), VoidSerde(),
)  # fmt: skip
SCALARS: tuple[Serde, ...] = (STRING, LONG, INTEGER, SHORT, FLOAT, DOUBLE, BOOLEAN, UUID_TEXT, BYTES, VOID)


def _json_faults(value: object) -> Iterator[tuple[str, str, str]]:
    """Yield the path, the fact and a hint for each part that is not JSON, as the serde of JSON refuses it."""
    seen, ahead = set(), [("", value)]
    for path, part in ahead:
        if isinstance(part, (dict, list, tuple)):
            if id(part) in seen:  # it contains itself
                continue
            seen.add(id(part))
        if isinstance(part, dict):
            yield from ((path, fact, advice) for name in part for fact, advice in _name_faults(name))
            ahead += [(f"{path}.{name}" if path else str(name), item) for name, item in part.items()]
        elif isinstance(part, (list, tuple)) and type(part) in (list, tuple):
            ahead += [(f"{path}[{index}]", item) for index, item in enumerate(part)]
        else:
            yield from ((path, fact, advice) for fact, advice in _scalar_faults(part))


def json_fault(value: object) -> tuple[str, str]:
    """Return the first part that is not JSON with the path of its field, and a hint; empty texts without one."""
    path, fact, advice = next(_json_faults(value), ("", "", ""))
    return (f'{fact} in field "{path}"' if path else fact), advice


def _name_faults(name: object) -> Iterator[tuple[str, str]]:
    if type(name) is not str:
        yield f'a name of type "{type(name).__name__}"', "make the names text, such as str(name)"
    elif not STRING.keeps(name):
        yield "a name with half of a surrogate pair", "correct the text where it is read"


def _scalar_faults(value: object) -> Iterator[tuple[str, str]]:
    kind = type(value)
    if type(value) is float and not math.isfinite(value):
        yield "NaN" if value != value else "infinity", "write None instead, or filter such records out first"
    elif type(value) is str and not STRING.keeps(value):
        yield "text with half of a surrogate pair", "correct it where it is read"
    elif kind not in (str, int, float, bool, type(None)):
        advice = "convert it with float(…), int(…) or .item()" if kind.__module__ == "numpy" else ""
        advice = "make it a list in a fixed order: sorted(…)" if kind in (set, frozenset) else advice
        yield f'a value of type "{kind.__name__}"', advice
