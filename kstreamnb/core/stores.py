"""State stores as contracts: what a store is declared with, and what each kind can do.

A `StoreSpec` is a frozen description; `kstreamnb.state` builds stores from it. Iterators go in the byte order
of the serialised key, as in Kafka Streams. What a store returns is what was put, whatever happens to the object
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from kstreamnb.core.record import ValueAndTimestamp, Windowed
from kstreamnb.core.serdes import name_serdes

StoreKind: TypeAlias = Literal[
    "key_value", "timestamped_key_value", "versioned", "window", "timestamped_window", "session", "lru", "internal"
]


@dataclass(frozen=True)
class StoreSpec:
    """How one store is made; a serde may be given by its name.

    Units: ``retention_ms``, ``window_size_ms``, ``history_ms`` and ``segment_ms`` are milliseconds of stream time.
    ``persistent`` chooses between the expiry rules of Kafka's RocksDB stores (whole segments) and of its in-memory
    stores (exact); both are held in memory here. ``extra`` belongs to kinds that need more (``lru``: ``max_entries``).
    ``factory`` is a user's own implementation; it gets the spec and returns an object of the kind's protocol.

    Example:
        >>> spec = StoreSpec("counts", "key_value", key_serde="string", value_serde="long")
        >>> spec.value_serde.name, spec.logged, spec.cached
        ('long', True, False)
    """

    name: str
    kind: StoreKind
    key_serde: Any = None
    value_serde: Any = None
    retention_ms: int | None = None
    window_size_ms: int | None = None
    retain_duplicates: bool = False
    history_ms: int | None = None
    segment_ms: int | None = None
    max_entries: int | None = None
    persistent: bool = True
    logged: bool = True
    cached: bool = False
    changelog_topic: str | None = None
    log_config: tuple[tuple[str, str], ...] = ()
    factory: Callable[[StoreSpec], Any] | None = field(default=None, compare=False)
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        name_serdes(self)


class KeyValueStore(Protocol):
    """Rows by key. A timestamped store holds `ValueAndTimestamp` values."""

    name: str

    def get(self, key: Any) -> Any: ...
    def put(self, key: Any, value: Any) -> None: ...
    def put_if_absent(self, key: Any, value: Any) -> Any: ...
    def put_all(self, entries: list[tuple[Any, Any]]) -> None: ...
    def delete(self, key: Any) -> Any: ...
    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]: ...
    def reverse_range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]: ...
    def all(self) -> Iterator[tuple[Any, Any]]: ...
    def reverse_all(self) -> Iterator[tuple[Any, Any]]: ...
    def prefix_scan(self, prefix: Any) -> Iterator[tuple[Any, Any]]: ...
    def approximate_num_entries(self) -> int: ...


class WindowStore(Protocol):
    """Rows by key and window start (ms). Ranges of time are inclusive and refer to window starts."""

    name: str

    def put(self, key: Any, value: Any, window_start: int) -> None: ...
    def fetch(self, key: Any, at: int) -> Any: ...
    def fetch_between(self, key: Any, from_: int, to: int) -> Iterator[tuple[int, Any]]: ...
    def backward_fetch(self, key: Any, from_: int, to: int) -> Iterator[tuple[int, Any]]: ...
    def fetch_keys(self, from_key: Any, to_key: Any, from_: int, to: int) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_fetch_keys(
        self, from_key: Any, to_key: Any, from_: int, to: int
    ) -> Iterator[tuple[Windowed, Any]]: ...
    def fetch_all(self, from_: int, to: int) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_fetch_all(self, from_: int, to: int) -> Iterator[tuple[Windowed, Any]]: ...
    def all(self) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_all(self) -> Iterator[tuple[Windowed, Any]]: ...


class SessionStore(Protocol):
    """Aggregates by session: key, start and end (ms, both inclusive)."""

    name: str

    def put(self, session: Windowed, aggregate: Any) -> None: ...
    def remove(self, session: Windowed) -> None: ...
    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed, Any]]: ...
    def find_sessions_between(
        self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_find_sessions_between(
        self, from_key: Any, to_key: Any, earliest_end: int, latest_start: int
    ) -> Iterator[tuple[Windowed, Any]]: ...
    def fetch_session(self, key: Any, start: int, end: int) -> Any: ...
    def fetch(self, key: Any, to_key: Any = None) -> Iterator[tuple[Windowed, Any]]: ...
    def backward_fetch(self, key: Any, to_key: Any = None) -> Iterator[tuple[Windowed, Any]]: ...


@dataclass(frozen=True)
class VersionedRecord:
    """A value with the half-open time ``[timestamp, valid_to)`` (ms) it is valid in; ``valid_to`` None is open.

    Example:
        >>> VersionedRecord("gold", 10, valid_to=20)
        VersionedRecord(value='gold', timestamp=10, valid_to=20)
    """

    value: Any
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(Protocol):
    """Rows by key with their history."""

    name: str

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        """Gives valid_to of the put version, -1 when it is the latest, -2**63 when it is too old to be kept."""

    def delete(self, key: Any, timestamp: int) -> VersionedRecord | None: ...
    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord | None: ...
    def history(
        self, key: Any, from_: int | None = None, to: int | None = None, *, ascending: bool = True
    ) -> Iterator[VersionedRecord]: ...


Row: TypeAlias = "Any | ValueAndTimestamp"
