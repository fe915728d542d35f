"""Serdes around an inner serde: lists, and keys within windows; byte for byte those of Kafka."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kstreamnb.core.record import Windowed
from kstreamnb.core.serde import Serde
from kstreamnb.errors import ConfigError, SerdeError

_MAX = 2**63 - 1
_FIXED, _VARIABLE = 0, 1


@dataclass(frozen=True)
class ListSerde(Serde):
    """A list of what the inner serde writes; None may be among the items."""

    inner: Serde

    @property
    def name(self) -> str:  # type: ignore[override]
        """``list<inner>``."""
        return f"list<{self.inner.name}>"

    @property
    def expects(self) -> str:  # type: ignore[override]
        """A list, and what may be in it."""
        return f"list of {self.inner.expects}"

    def _write(self, value: Any) -> bytes:
        if not isinstance(value, (list, tuple)):
            raise self._unwritable(value)
        items = [self.inner.serialize(item) for item in value]
        if self.inner.width is None:
            parts = [struct.pack(">bi", _VARIABLE, len(items))]
            parts += [b"\xff" * 4 if item is None else len(item).to_bytes(4) + item for item in items]
        else:
            nulls = [index for index, item in enumerate(items) if item is None]
            parts = [struct.pack(f">bi{len(nulls)}ii", _FIXED, len(nulls), *nulls, len(items))]
            parts += [item for item in items if item is not None]
        return b"".join(parts)

    def _read(self, data: bytes) -> list[Any]:
        try:
            if data[0] == _VARIABLE:
                return self._read_variable(data)
            if data[0] == _FIXED and self.inner.width is not None:
                return self._read_fixed(data, self.inner.width)
        except (struct.error, IndexError) as error:
            raise self._unreadable(data, f"they end too early: {error}") from error
        raise self._unreadable(data, f"the first byte is {data[0]:02x}")

    def _read_variable(self, data: bytes) -> list[Any]:
        items: list[Any] = []
        (size,), at = struct.unpack_from(">i", data, 1), 5
        for _ in range(size):
            (length,) = struct.unpack_from(">i", data, at)
            end = at + 4 + max(length, 0)
            if end > len(data):
                raise IndexError(f"an item ends at {end}")
            items.append(None if length < 0 else self.inner.deserialize(data[at + 4 : end]))
            at = end
        return items

    def _read_fixed(self, data: bytes, width: int) -> list[Any]:
        (count,) = struct.unpack_from(">i", data, 1)
        *nulls, size = struct.unpack_from(f">{count}ii", data, 5)
        items: list[Any] = []
        at = 9 + 4 * count
        for index in range(size):
            if index in nulls:
                items.append(None)
                continue
            items.append(self.inner.deserialize(data[at : at + width]))
            at += width
        return items


@dataclass(frozen=True)
class WindowedSerde(Serde):
    """Keys within windows; the partition follows the inner key alone.

    ``inner`` None stands for the application's default key serde until `with_defaults` fills it in.
    """

    inner: Any

    plain: ClassVar[frozenset[type]] = frozenset({Windowed})
    kind: ClassVar[str]

    @property
    def name(self) -> str:  # type: ignore[override]
        """``windowed<inner> time`` or ``windowed<inner> session``."""
        return f"windowed<{self.inner.name if self.inner else 'default'}> {self.kind}"

    @property
    def expects(self) -> str:  # type: ignore[override]
        """A windowed key, and what its key may be."""
        return f"Windowed with a key of {self.inner.expects}"

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Self:
        """The same serde around the default key serde, where it has no inner one of its own."""
        return replace(self, inner=key_serde) if self.inner is None else self

    def keeps(self, value: Any) -> bool:
        """A key that the inner serde keeps."""
        return type(value.key) in self.inner.plain and self.inner.keeps(value.key)

    def partition_bytes(self, value: Any) -> bytes | None:
        """The bytes of the inner key."""
        data: bytes | None = None if value is None else self.inner.serialize(value.key)
        return data

    def _inner_bytes(self, value: Any) -> bytes:
        if not isinstance(value, Windowed):
            raise self._unwritable(value, hint="take the key out of its window first, or give a windowed key")
        return self.inner.serialize(value.key) or b""


@dataclass(frozen=True)
class TimeWindowedSerde(WindowedSerde):
    """Keys within windows of one size: the bytes hold the start only.

    Units: ``size_ms`` is the window's size in ms; without it, windows that are read end at the end of time.
    """

    size_ms: int | None = None

    kind: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        if self.size_ms is not None and self.size_ms <= 0:
            raise ConfigError(f"window size {self.size_ms} ms of a windowed serde is not positive")

    def keeps(self, value: Any) -> bool:
        """Windows of the size, of keys that the inner serde keeps."""
        return bool(value.end == self._end(value.start)) and super().keeps(value)

    def _end(self, start: int) -> int:
        return _MAX if self.size_ms is None else min(start + self.size_ms, _MAX)

    def _write(self, value: Any) -> bytes:
        return self._inner_bytes(value) + struct.pack(">q", value.start)

    def _read(self, data: bytes) -> Windowed:
        if len(data) < 8:
            raise self._unreadable(data, "a window start takes 8 bytes")
        start = int.from_bytes(data[-8:], signed=True)
        return Windowed(_inner_key(self.inner, data[:-8]), start, self._end(start))


@dataclass(frozen=True)
class SessionWindowedSerde(WindowedSerde):
    """Keys within sessions: the bytes hold end and start."""

    kind: ClassVar[str] = "session"

    def _write(self, value: Any) -> bytes:
        return self._inner_bytes(value) + struct.pack(">qq", value.end, value.start)

    def _read(self, data: bytes) -> Windowed:
        if len(data) < 16:
            raise self._unreadable(data, "start and end of a session take 16 bytes")
        end, start = struct.unpack_from(">qq", data, len(data) - 16)
        return Windowed(_inner_key(self.inner, data[:-16]), start, end)


def _inner_key(inner: Serde, data: bytes) -> Any:
    try:
        return inner.deserialize(data)
    except SerdeError as error:
        error.add_note("Detail: the bytes are those of a key within a window.")
        raise
