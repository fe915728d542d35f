"""Serdes of single values, byte for byte those of Kafka's serializers."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from kstreamnb.core.serde import Serde


@dataclass(frozen=True)
class StringSerde(Serde):
    """Text as UTF-8."""

    name: str = "string"

    plain: ClassVar[frozenset[type]] = frozenset({str})
    expects: ClassVar[str] = "str"

    def keeps(self, value: Any) -> bool:
        """All text but lone surrogates, which UTF-8 has no bytes for."""
        return bool(value.isascii()) or _encodable(value)

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise self._unwritable(value)
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise self._unwritable(value, str(error)) from error

    def _read(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise self._unreadable(data, str(error)) from error


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class WholeSerde(Serde):
    """Whole numbers of a fixed width, big-endian two's complement."""

    name: str

    plain: ClassVar[frozenset[type]] = frozenset({int})
    width: ClassVar[int] = 8

    def keeps(self, value: Any) -> bool:
        """All numbers of the width."""
        return bool(-(1 << 8 * self.width - 1) <= value < 1 << 8 * self.width - 1)

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, int) or type(value) is bool:
            raise self._unwritable(value)
        if not self.keeps(value):
            raise self._unwritable(value, "the value is out of range")
        return int(value).to_bytes(self.width, "big", signed=True)

    def _read(self, data: bytes) -> int:
        self._check_size(data, self.width)
        return int.from_bytes(data, "big", signed=True)


@dataclass(frozen=True)
class LongSerde(WholeSerde):
    """Whole numbers of 64 bits."""

    name: str = "long"

    expects: ClassVar[str] = "int from -2**63 to 2**63 - 1"


@dataclass(frozen=True)
class IntegerSerde(WholeSerde):
    """Whole numbers of 32 bits."""

    name: str = "integer"

    width: ClassVar[int] = 4
    expects: ClassVar[str] = "int from -2**31 to 2**31 - 1"


@dataclass(frozen=True)
class ShortSerde(WholeSerde):
    """Whole numbers of 16 bits."""

    name: str = "short"

    width: ClassVar[int] = 2
    expects: ClassVar[str] = "int from -2**15 to 2**15 - 1"


@dataclass(frozen=True)
class _FloatingSerde(Serde):
    """IEEE 754 numbers, big-endian."""

    name: str

    form: ClassVar[struct.Struct] = struct.Struct(">d")
    expects: ClassVar[str] = "float, or an int that one holds exactly"

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, (float, int)) or isinstance(value, bool):
            raise self._unwritable(value)
        try:
            if isinstance(value, int) and int(float(value)) != value:
                raise self._unwritable(value, "the whole number has too many digits")
            return self.form.pack(value)
        except OverflowError as error:
            raise self._unwritable(value, "the value is out of range") from error

    def _read(self, data: bytes) -> float:
        self._check_size(data, self.form.size)
        number: float = self.form.unpack(data)[0]
        return number


@dataclass(frozen=True)
class DoubleSerde(_FloatingSerde):
    """Numbers of double precision: Python's float."""

    name: str = "double"

    plain: ClassVar[frozenset[type]] = frozenset({float})
    width: ClassVar[int] = 8

    def keeps(self, value: Any) -> bool:
        """All but the not-a-numbers, which differ from themselves."""
        return not math.isnan(value)


@dataclass(frozen=True)
class FloatSerde(_FloatingSerde):
    """Numbers of single precision; what comes back is rounded to it."""

    name: str = "float"

    form: ClassVar[struct.Struct] = struct.Struct(">f")
    width: ClassVar[int] = 4


@dataclass(frozen=True)
class BooleanSerde(Serde):
    """True and False as one byte."""

    name: str = "boolean"

    plain: ClassVar[frozenset[type]] = frozenset({bool})
    expects: ClassVar[str] = "bool"

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, bool):
            raise self._unwritable(value)
        return b"\x01" if value else b"\x00"

    def _read(self, data: bytes) -> bool:
        if data not in (b"\x00", b"\x01"):
            raise self._unreadable(data, "that takes one byte, 00 or 01")
        return data == b"\x01"


@dataclass(frozen=True)
class UuidSerde(Serde):
    """A UUID as its text of 36 characters."""

    name: str = "uuid"

    plain: ClassVar[frozenset[type]] = frozenset({UUID})
    expects: ClassVar[str] = "uuid.UUID"
    width: ClassVar[int] = 36

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, UUID):
            raise self._unwritable(value)
        return str(value).encode()

    def _read(self, data: bytes) -> UUID:
        try:
            return UUID(data.decode())
        except ValueError as error:
            raise self._unreadable(data, str(error)) from error


@dataclass(frozen=True)
class BytesSerde(Serde):
    """Bytes as they are."""

    name: str = "bytes"

    plain: ClassVar[frozenset[type]] = frozenset({bytes})
    expects: ClassVar[str] = "bytes, bytearray or memoryview"

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise self._unwritable(value)
        return bytes(value)

    def _read(self, data: bytes) -> bytes:
        return bytes(data)


@dataclass(frozen=True)
class VoidSerde(Serde):
    """Nothing: for keys or values that are always None."""

    name: str = "void"

    expects: ClassVar[str] = "None only"

    def _write(self, value: Any) -> bytes:
        raise self._unwritable(value)

    def _read(self, data: bytes) -> Any:
        java = "Data should be null for a VoidDeserializer."
        raise self._unreadable(data, "there should be none", java=java)


_NUMBERS = (LongSerde(), IntegerSerde(), ShortSerde(), FloatSerde(), DoubleSerde())
SCALARS: tuple[Serde, ...] = (StringSerde(), *_NUMBERS, BooleanSerde(), UuidSerde(), BytesSerde(), VoidSerde())
