"""Look at the records of a stream: in passing (`Peek`), at its end (`Foreach`), or as text (`Print`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.operator import BindContext, Forward, FusedStep, Process, Stateless
from kstreamnb.core.record import Headers


@dataclass(frozen=True)
class Peek(Stateless):
    """Calls ``action(key, value)`` and then forwards the record unchanged.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 1; everything kept.
    Source: Kafka Streams `KStream#peek`.
    """

    action: Callable[[Any, Any], Any]

    def fused(self) -> FusedStep:
        """One line."""
        return FusedStep("{f}(key, value)", self.action)


@dataclass(frozen=True)
class Foreach:
    """Calls ``action(key, value)``; the stream ends here.

    Shape: stream[K, V] -> nothing; 1 -> 0.
    Source: Kafka Streams `KStream#foreach`.
    """

    action: Callable[[Any, Any], Any]

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        action = self.action

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            action(key, value)

        return process


@dataclass(frozen=True)
class Print:
    """Writes ``[label]: key, value`` for each record; the stream ends here.

    ``mapper(key, value)`` makes another text of a record; ``write`` takes the line without its end.

    Shape: stream[K, V] -> text; 1 -> 0.
    Source: Kafka Streams `KStream#print`, `Printed`.
    """

    label: str
    write: Callable[[str], Any] = print
    mapper: Callable[[Any, Any], Any] | None = None

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        write, text, prefix = self.write, self.mapper or _pair, f"[{self.label}]: "

        def process(key: Any, value: Any, timestamp: int, headers: Headers) -> None:
            write(f"{prefix}{text(key, value)}")

        return process


def _pair(key: Any, value: Any) -> str:
    return f"{key}, {value}"
