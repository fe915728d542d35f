"""`Suppressed` and `BufferConfig`: how long changes are held back, and what happens when there are too many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from kstreamnb.core.durations import Duration, duration_ms
from kstreamnb.dsl.options import Copying, LoggedOptions, Options
from kstreamnb.errors import ConfigError


@dataclass(frozen=True)
class BufferConfig(LoggedOptions):
    """Limits of a suppression's buffer: records, bytes, and whether a full one lets the oldest go or fails.

    Units: records; bytes as Kafka estimates them.

    Example:
        >>> buffer = BufferConfig.max_records(1000).emit_early_when_full()
        >>> buffer.records_limit, buffer.bytes_limit, buffer.emit_early
        (1000, None, True)
    """

    records_limit: int | None = None
    bytes_limit: int | None = None
    emit_early: bool = False
    logged: bool = True
    log_config: Mapping[str, str] = field(default_factory=dict)

    with_max_records = Copying("records_limit")
    with_max_bytes = Copying("bytes_limit")
    emit_early_when_full = Copying("emit_early", to=True)
    shut_down_when_full = Copying("emit_early", to=False)

    def with_no_bound(self) -> Self:
        """Give a copy without limits."""
        return replace(self, records_limit=None, bytes_limit=None, emit_early=False)

    @classmethod
    def unbounded(cls) -> Self:
        """No limit."""
        return cls()

    @classmethod
    def max_records(cls, records: int) -> Self:
        """At most so many records; then the oldest goes out early."""
        return cls(records_limit=records, emit_early=True)

    @classmethod
    def max_bytes(cls, size: int) -> Self:
        """At most so many bytes; then the oldest goes out early."""
        return cls(bytes_limit=size, emit_early=True)


@dataclass(frozen=True)
class Suppressed(Options):
    """When held-back changes come out.

    Units: ``wait_ms`` is stream time after the first change that is held back.

    Example:
        >>> Suppressed.until_time_limit("5m", BufferConfig.max_records(1000)).wait_ms
        300000
    """

    buffer: BufferConfig = BufferConfig()
    wait_ms: int = 0
    until_close: bool = False
    name: str | None = None

    with_name = Copying("name")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.until_close and self.buffer.emit_early:
            raise ConfigError(
                "a buffer that lets records go early cannot wait for windows to close",
                hint="use BufferConfig.unbounded(), or shut_down_when_full()",
            )

    @classmethod
    def until_time_limit(cls, wait: Duration, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold each key's changes back for a while after the first; the last one comes out."""
        return cls(buffer or BufferConfig(), duration_ms(wait, "wait"), False, name)  # noqa: FBT003

    @classmethod
    def until_window_closes(cls, buffer: BufferConfig | None = None, *, name: str | None = None) -> Self:
        """Hold each window's changes back until it has closed; its final result comes out."""
        return cls(buffer or BufferConfig(), 0, True, name)  # noqa: FBT003
