"""A minimal task for a store, users' own stores, and everything that can be read from a store."""

from __future__ import annotations

import pickle
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kstreamnb.core.record import Headers, RecordMetadata, Windowed
from kstreamnb.core.serde import complete
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.state.cache import CacheBudget
from kstreamnb.state.disk_rows import DiskRows, TimedDiskRows
from kstreamnb.state.make import make_store

__all__ = [
    "KINDS",
    "OwnKeyValueStore",
    "OwnSessionStore",
    "OwnWindowStore",
    "StoreTask",
    "implementations",
    "on_disk",
    "seen",
]


class StoreTask:
    """The part of the task that a store uses, and what it recorded."""

    keeps_copies = False

    def __init__(self) -> None:
        self.now, self.record_headers = 0, ()
        self.place: RecordMetadata | None = None
        self.dropped: list[tuple[str, Any, Any, int, dict[str, Any] | None]] = []

    def timestamp(self) -> int:
        return self.now

    def headers(self) -> Headers:
        return self.record_headers

    def set_record(self, timestamp: int, headers: Headers) -> None:
        self.now, self.record_headers = timestamp, headers

    def metadata(self) -> RecordMetadata:
        return self.place or RecordMetadata("in", 0, 7)

    def resume(self, metadata: RecordMetadata | None) -> RecordMetadata | None:
        before, self.place = self.place, metadata
        return before

    def refuse(self, store: str, key: Any, value: Any, timestamp: int, details: dict[str, Any]) -> None:
        self.dropped.append((store, key, value, timestamp, details))

    def key_serde(self, serde: Any = None) -> Any:
        return complete(serde or Serdes.string(), Serdes.string(), Serdes.json())

    def value_serde(self, serde: Any = None) -> Any:
        return complete(serde or Serdes.json(), Serdes.string(), Serdes.json())

    def make(self, kind: str, budget: CacheBudget | None = None, **options: Any) -> Any:
        """A store of this task."""
        return make_store(StoreSpec("s", kind, **options), self, budget)  # type: ignore[arg-type]


class OwnKeyValueStore:
    """A user's own key-value store: a list of pairs, in the order of arrival."""

    def __init__(self, spec: StoreSpec) -> None:
        self.name, self.pairs = spec.name, []

    def get(self, key: Any) -> Any:
        return dict(self.pairs).get(key)

    def put(self, key: Any, value: Any) -> None:
        self.pairs = [pair for pair in self.pairs if pair[0] != key] + ([] if value is None else [(key, value)])

    def all(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.pairs)

    def busiest(self) -> str:
        """A method that no other store has."""
        return f"{len(self.pairs)} rows"


class OwnWindowStore(OwnKeyValueStore):
    """A user's own window store."""

    def fetch(self, key: Any, at: int) -> Any:
        return self.get((key, at))

    def put(self, key: Any, value: Any, window_start: int) -> None:  # type: ignore[override]
        super().put((key, window_start), value)

    def all(self) -> Iterator[tuple[Any, Any]]:
        return ((Windowed(key, start, start + 1), row) for (key, start), row in self.pairs)


class OwnSessionStore(OwnKeyValueStore):
    """A user's own session store."""

    def fetch_session(self, key: Any, start: int, end: int) -> Any:
        return self.get(Windowed(key, start, end))

    def remove(self, session: Windowed) -> None:
        self.put(session, None)

    def fetch(self, key: Any) -> Iterator[tuple[Any, Any]]:
        return iter(self.pairs)


OWN: dict[str, Callable[[StoreSpec], Any]] = {
    "key_value": OwnKeyValueStore,
    "timestamped_key_value": OwnKeyValueStore,
    "versioned": OwnKeyValueStore,
    "window": OwnWindowStore,
    "timestamped_window": OwnWindowStore,
    "session": OwnSessionStore,
}

KINDS: dict[str, dict[str, Any]] = {
    "key_value": {},
    "timestamped_key_value": {},
    "versioned": {"history_ms": 20},
    "window": {"retention_ms": 30, "window_size_ms": 10},
    "timestamped_window": {"retention_ms": 30, "window_size_ms": 10},
    "session": {"retention_ms": 30},
}


def on_disk(spec: StoreSpec) -> DiskRows:
    """Return the rows of a store in a file, no more than four of them in memory."""
    database = sqlite3.connect("", isolation_level=None)
    kind = DiskRows if "key_value" in spec.kind else TimedDiskRows
    rows = kind(database, "rows", (pickle.dumps, pickle.loads), most_rows=4)
    weakref.finalize(rows, database.close)  # from 3.13 on, Python warns of a database that nobody closes
    return rows


def implementations(*kinds: str) -> list[Any]:
    """Return specs of every implementation of these kinds of stores, for ``pytest.mark.parametrize``."""
    specs = []
    for kind in kinds:
        plain = StoreSpec("s", kind, **KINDS[kind])  # type: ignore[arg-type]
        specs += [plain, replace(plain, factory=OWN[kind])]
        if kind != "versioned":
            specs += [replace(spec, persistent=False) for spec in specs[-2:]]
            specs += [replace(spec, cached=True) for spec in specs[-4:]]
            specs += [replace(spec, factory=on_disk) for spec in specs[-8:] if spec.factory is None]
        else:
            specs += [replace(plain, factory=on_disk)]
        if kind in ("timestamped_key_value", "timestamped_window", "session"):
            specs += [replace(plain, headers="kept"), replace(plain, headers="kept", cached=True)]
            specs += [replace(plain, headers="kept", factory=OWN[kind])]
        if kind == "window":
            specs += [replace(plain, retain_duplicates=True), replace(plain, retain_duplicates=True, persistent=False)]
            specs += [replace(plain, retain_duplicates=True, factory=factory) for factory in (OwnWindowStore, on_disk)]
            specs += [replace(plain, extra={"time_ordered": True})]
            specs += [replace(plain, extra={"time_ordered": True}, factory=on_disk)]
    return specs


def title(spec: StoreSpec) -> str:
    """Describe a spec, as the id of a test."""
    words = [spec.kind, "persistent" if spec.persistent else "memory"]
    words += ["headers"] * (spec.headers == "kept")
    words += ["cached"] * spec.cached + ["disk" if spec.factory is on_disk else "own"] * (spec.factory is not None)
    return "-".join(words + ["duplicates"] * spec.retain_duplicates + ["time-ordered"] * bool(spec.extra))


def seen(store: Any, keys: tuple[Any, ...] = ("a", "ab", "b", "B"), last: int = 64) -> dict[str, Any]:
    """Return everything that can be read from a store."""
    kind = store.spec.kind
    if kind == "versioned":
        found = {key: list(store.history(key)) for key in keys}
        times = range(0, last, 3)
        return {"history": found, "as of": {key: [store.get(key, at) for at in times] for key in keys}}
    if kind in ("window", "timestamped_window"):
        by_key = {
            key: (list(store.fetch_between(key, 0, last)), list(store.backward_fetch(key, 0, last))) for key in keys
        }
        points = {key: [store.fetch(key, at) for at in range(last)] for key in keys}
        return {"all": list(store.all()), "back": list(store.backward_all()), "keys": by_key, "points": points}
    if kind == "session":
        by_key = {key: (list(store.fetch(key)), list(store.backward_fetch(key))) for key in keys}
        return {"all": list(store.fetch(None, None)), "back": list(store.backward_fetch(None, None)), "keys": by_key}
    return {
        "all": list(store.all()),
        "back": list(store.reverse_all()),
        "rows": {key: store.get(key) for key in keys},
        "range": list(store.range("ab", "b")),
        "prefix": list(store.prefix_scan("a")),
    }
