"""Bytes of a table change in a repartition topic: the old and the new value in one record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from kstreamnb.core.record import Change
from kstreamnb.core.serde import Serde
from kstreamnb.errors import SerdeError

_OLD, _NEW, _BOTH = 0, 1, 2


@dataclass(frozen=True)
class ChangeSerde(Serde):
    r"""Writes the new value, the old value or both, and a last byte that says which.

    ``inner`` is the serde of the values, None for the application's default. Whether a change was the latest of
    its row is not written.

    Example:
        >>> from kstreamnb.core.serdes import Serdes
        >>> ChangeSerde(Serdes.string()).serialize(Change("new", "old"))
        b'\x06newold\x02'

    Source: Kafka Streams `ChangedSerializer`, `ChangedDeserializer`, KIP-904.
    """

    inner: Serde | None = None

    plain: ClassVar[frozenset[type]] = frozenset({Change})
    expects: ClassVar[str] = "changes of a table with an old value, a new value or both"

    @property
    def name(self) -> str:  # type: ignore[override]
        """``change<inner>``."""
        return f"change<{'default' if self.inner is None else self.inner.name}>"

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Self:
        """The same with the application's value serde where none was named."""
        return self if self.inner is not None else replace(self, inner=value_serde)

    def keeps(self, value: Any) -> bool:
        """Whether both values would come back unchanged."""
        new, old, is_latest = value
        return (
            is_latest
            and (new is not None or old is not None)
            and (new is None or self._inner_keeps(new))
            and (old is None or self._inner_keeps(old))
        )

    def _inner_keeps(self, value: Any) -> bool:
        inner = self._serde()
        return type(value) in inner.plain and inner.keeps(value)

    def _serde(self) -> Serde:
        if self.inner is None:
            raise SerdeError("the serde of a table's changes has no serde for the values")
        return self.inner

    def _write(self, value: Any) -> bytes:
        inner = self._serde()
        new, old = inner.serialize(value[0]), inner.serialize(value[1])
        if new is not None and old is not None:
            return b"%b%b%b%c" % (_varint(len(new)), new, old, _BOTH)
        if new is not None:
            return b"%b%c" % (new, _NEW)
        if old is not None:
            return b"%b%c" % (old, _OLD)
        java = "Both old and new values are null in ChangeSerializer, which is not allowed."
        raise SerdeError("a change of a grouped table has neither an old nor a new value", java=java)

    def _read(self, data: bytes) -> Change:
        inner = self._serde()
        kind, body = data[-1] if data else -1, data[:-1]
        if kind == _NEW:
            return Change(inner.deserialize(body))
        if kind == _OLD:
            return Change(None, inner.deserialize(body))
        if kind != _BOTH:
            java = f"Encountered unknown byte value `{kind}` for oldNewFlag in ChangedDeserializer."
            raise self._unreadable(data, f"their last byte is {kind}", java=java)
        length, at = _read_varint(body)
        return Change(inner.deserialize(body[at : at + length]), inner.deserialize(body[at + length :]))


def _varint(number: int) -> bytes:
    """Zigzag and base 128, least group first; ``number`` is not negative."""
    number *= 2
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def _read_varint(data: bytes) -> tuple[int, int]:
    """The number and how many bytes it took."""
    number = 0
    for at, group in enumerate(data):
        number |= (group & 0x7F) << 7 * at
        if group < 0x80:
            return number >> 1, at + 1
    raise SerdeError("the length in a change of a table ends too early")
