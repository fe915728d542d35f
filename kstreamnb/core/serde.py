"""What a serde is, and serdes made of a user's own functions.

A serde is a frozen value that turns Python values into Kafka's bytes and back. No value is no bytes, on both
ways. `kstreamnb.core.wire` decides when bytes are made at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from kstreamnb.errors import SerdeError


class Serde:
    """Turns values into Kafka's bytes and back; subclasses are frozen dataclasses, compared by value.

    ``name`` is the serde's word in errors, descriptions and documents. ``plain`` holds the exact types whose
    instances are immutable and survive a round trip unchanged, as far as `keeps` agrees. ``expects`` says in
    words what it writes. ``width`` is the number of bytes where every value has the same.
    A serde around others that may hold None for the application's default has
    ``with_defaults(key_serde, value_serde)``.

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
    expects: ClassVar[str] = "any value"
    width: ClassVar[int | None] = None

    def serialize(self, value: Any) -> bytes | None:
        """Kafka's bytes of a value; None for None; raises SerdeError for a value that it does not write."""
        return None if value is None else self._write(value)

    def deserialize(self, data: bytes | None) -> Any:
        """A new value from bytes; None for None; raises SerdeError for bytes that it does not read."""
        return None if data is None else self._read(data)

    def keeps(self, value: Any) -> bool:
        """Whether a value of a plain type would come back from its bytes unchanged."""
        return True

    def partition_bytes(self, value: Any) -> bytes | None:
        """The bytes that choose a key's partition: its own, or those of the inner key of a windowed one."""
        return self.serialize(value)

    def _write(self, value: Any) -> bytes:
        raise NotImplementedError(f"{type(self).__name__} writes nothing")

    def _read(self, data: bytes) -> Any:
        raise NotImplementedError(f"{type(self).__name__} reads nothing")

    def _unwritable(self, value: Any, why: str | None = None, *, hint: str | None = None) -> SerdeError:
        kind = type(value).__name__
        detail = f"it writes {self.expects}"
        return SerdeError(
            f'serde "{self.name}" cannot write a value of type "{kind}"',
            detail=f"{detail}; {why}" if why else detail,
            hint=hint or "name another serde where the topic or store is declared, or convert the value before",
        )

    def _check_size(self, data: bytes, size: int) -> None:
        if len(data) != size:
            word = type(self).__name__.replace("Serde", "Deserializer")
            java = f"Size of data received by {word} is not {size}"
            raise self._unreadable(data, f"that takes {size} bytes", java=java)

    def _unreadable(self, data: bytes, why: str, *, java: str | None = None) -> SerdeError:
        return SerdeError(
            f'serde "{self.name}" cannot read {len(data)} bytes',
            detail=f"it reads {self.expects}; {why}",
            hint="the topic may hold data of another serde",
            java=java,
        )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FunctionSerde(Serde):
    """A user's pair of functions as a serde.

    ``immutable`` names types whose instances need no copy in stores and in-process topics: only those that no
    one can change and that come back from their bytes as they were.

    Example:
        >>> hexadecimal = FunctionSerde("hex", lambda v: v.to_bytes(2), lambda data: int.from_bytes(data))
        >>> hexadecimal.deserialize(hexadecimal.serialize(258))
        258
    """

    name: str
    writer: Callable[[Any], bytes]
    reader: Callable[[bytes], Any]
    immutable: frozenset[type] = frozenset()

    expects: ClassVar[str] = "what its own functions accept"

    @property
    def plain(self) -> frozenset[type]:  # type: ignore[override]
        """The user's word on which types need no copy."""
        return self.immutable

    def _write(self, value: Any) -> bytes:
        try:
            data = self.writer(value)
        except Exception as error:
            raise self._unwritable(value, f"its function raised {type(error).__name__}: {error}") from error
        if not isinstance(data, bytes):
            raise self._unwritable(value, f'its function gave a "{type(data).__name__}" instead of bytes')
        return data

    def _read(self, data: bytes) -> Any:
        try:
            return self.reader(bytes(data))
        except Exception as error:
            raise self._unreadable(data, f"its function raised {type(error).__name__}: {error}") from error


def complete(serde: Any, key_serde: Serde, value_serde: Serde) -> Any:
    """A serde with the application's defaults in the places that it leaves open.

    Serdes around inner ones may hold None and then have a method ``with_defaults(key_serde, value_serde)``.
    """
    with_defaults = getattr(serde, "with_defaults", None)
    return serde if with_defaults is None else with_defaults(key_serde, value_serde)
