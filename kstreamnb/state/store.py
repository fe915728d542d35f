"""The base of every store: one dict of rows, one way to change it, and a journal of the changes.

A store keeps its whole content in ``raw``; content without a key (observed stream time, sequence numbers) is under the
key None. Everything else is derived from ``raw`` and can be rebuilt. So undo, redo, deltas, snapshots and restoring
need only `apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping
from itertools import islice
from typing import Any, Generic, Protocol, TypeAlias

from kstreamnb.closing import Closing
from kstreamnb.core.operator import Details, RecordAccess
from kstreamnb.core.record import Headers, ValueAndTimestamp, ValueTimestampHeaders
from kstreamnb.core.stores import FlushListener, StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.state.codec import RowWithHeaders, headers_in_values, headers_of, key_codec, stamped, value_codec
from kstreamnb.state.custom import rows_of
from kstreamnb.state.disk_rows import DiskRows
from kstreamnb.type_variables import TypeVar

RawKey = TypeVar("RawKey", default=Any)
Row = TypeVar("Row", default=Any)
Item = TypeVar("Item", default=Any)

NO_TIME = -1
"""The time of a row that has none, as in Kafka."""

JournalEntry: TypeAlias = tuple[Hashable, object, object]
"""``(raw_key, old, new)``; None stands for no row."""

ChangelogRecord: TypeAlias = tuple[Hashable, Any, int, Headers]
"""``(raw_key, row, timestamp, headers)``; a row of None is a tombstone."""

ChangelogBytes: TypeAlias = tuple[bytes, bytes | None, int, Headers]
"""Key, value, timestamp and headers of a record of a changelog topic; a value of None is a tombstone."""

ChangeListener: TypeAlias = Callable[[Any, Any, Any], None]


class Journal(Protocol):
    """Records the changes of a store for undo and replay."""

    def append(self, entry: JournalEntry, /) -> None:
        """Record one change."""

    def extend(self, entries: Iterable[JournalEntry], /) -> None:
        """Record changes one after the other."""


class StoreContext(RecordAccess, Protocol):
    """The services that a store needs from its task."""

    def set_record(self, timestamp: int, headers: Headers) -> None:
        """Replace timestamp and headers of the current record while cached entries are flushed."""

    def refuse(self, store: str, key: object, value: object, timestamp: int, details: Details) -> None:
        """Count and report a put that a store refused, because it was too old."""


class Rows(Closing, Iterator[Item]):
    """The result of a range query: an iterator over the store's content at the time of the query.

    It can be used as Java's iterators are (``has_next``, ``peek_next_key``, ``close``, ``with``) and in a for loop; it
    is true if a row is left.
    """

    _ahead: tuple[Item, ...] = ()

    def __init__(self, rows: Iterable[Item]) -> None:
        self._rest = iter(rows)

    def __iter__(self) -> Iterator[Item]:
        return self if self._ahead else self._rest

    def __next__(self) -> Item:
        if not self._ahead:
            return next(self._rest)
        (row,), self._ahead = self._ahead, ()
        return row

    def __len__(self) -> int:
        raise TypeError("the number of rows is not known before they are read: write len(list(rows))")

    def __bool__(self) -> bool:
        return self.has_next()

    def has_next(self) -> bool:
        """Return whether a row is left."""
        if not self._ahead:
            self._ahead = tuple(islice(self._rest, 1))
        return bool(self._ahead)

    def peek_next_key(self) -> object:
        """Return the key of the next row; raises StopIteration if there is none."""
        if not self.has_next():
            raise StopIteration("no row is left")
        return self._ahead[0][0]  # type: ignore[index] # rows of a range are pairs

    def close(self) -> None:
        """Discard the remaining rows."""
        self._ahead, self._rest = (), iter(())

    def map(self, change: Callable[[Item], object]) -> Rows:
        """Return the remaining rows, each changed by a function."""
        return Rows(map(change, self))


class _Hooked:
    """An attribute of a store that its closures depend on."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, store: Store | None, owner: type | None = None) -> Any:
        return self if store is None else getattr(store, self._name)

    def __set__(self, store: Store, wanted: Journal | None) -> None:
        setattr(store, self._name, wanted)
        store.watched[0] = store._recorder()  # noqa: SLF001 - the descriptor is a part of the store


class Store(Generic[RawKey, Row]):
    """A store of any kind: rows, journal, changelog, snapshot.

    ``journal`` is a list that gets ``(raw_key, old, new)`` for every change, or None without a reader.
    ``changes`` is a list that gets ``(raw_key, row, timestamp, headers)`` for every write of a logged store, refused
    ones included as in Kafka; setting it to None saves the work. ``watched`` is a cell with the function to call at
    each change, or None. ``timestamped``: rows are ``(value, timestamp)``, or `RowWithHeaders` if ``keeps_headers``.
    """

    expired: int | None = None
    """The number of rows that the store's clock has removed; None if the journal has each of them."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self.spec, self.name, self.context = spec, spec.name, context
        self.timestamped = spec.kind.startswith("timestamped")
        self._forgets_times, self._written_ms = bool(spec.extra.get("forgets_times")), 0
        self.keeps_headers, self._logs_headers = spec.headers == "kept", spec.headers in ("kept", "logged")
        self.raw: MutableMapping[RawKey | None, Any] = rows_of(spec)
        if type(self)._row is Store._row:  # noqa: SLF001 - its own method
            self._row = self.raw.get  # type: ignore[method-assign,assignment] # one call less
        self._key_serde, self._value_serde = context.key_serde(spec.key_serde), context.value_serde(spec.value_serde)
        copies = self.raw if context.keeps_copies and spec.factory is None else None
        self.keys, self.values = key_codec(self._key_serde), value_codec(self._value_serde, copies)
        if self.keeps_headers and not self.timestamped:
            self.values = headers_in_values(self.values)
        if isinstance(self.raw, DiskRows):
            self._bind_disk(self.raw)
        self._journal: Journal | None = None
        self._changes: list[ChangelogRecord] | None = [] if spec.logged else None
        self.watched = [self._recorder()]

    journal = _Hooked("_journal")
    changes = _Hooked("_changes")

    def _bind_disk(self, rows: Any) -> None:
        rows.bind(self.keys.to_bytes, self._key_from)

    def in_place(self) -> tuple[dict[RawKey | None, Any], list[ChangeListener | None]] | None:
        """Return the rows and a list with the listener to notify, if an operator may replace rows directly; else None.

        It may put ``(whole number, timestamp)`` if it found a row under the key itself, or under ``(key, window
        start)``, and the number is within ``values.small``. None if shortcuts are never correct.
        """
        plain = self.timestamped and not (self.spec.cached or self.spec.retain_duplicates or self._forgets_times)
        if plain and type(self.raw) is dict and self.keys.direct:
            return self.raw, self.watched
        return None

    def _recorder(self) -> ChangeListener | None:
        journal, changes = self._journal, self._changes
        if changes is None:
            if journal is None:
                return None
            return getattr(journal, "record", self._note)  # it may receive the parts of a change, without a tuple

        def record(raw_key: RawKey | None, old: Row | None, row: Row | None) -> None:
            self._note(raw_key, old, row)
            if raw_key is not None:
                self._log(raw_key, row)

        return record

    def _note(self, raw_key: Hashable, old: object, row: object) -> None:
        """Record a change that the changelog does not need: expiry, observed time."""
        if self._journal is not None:
            self._journal.append((raw_key, old, row))

    def _log(self, raw_key: Hashable, row: Any) -> None:
        """Record a write for the changelog, which includes writes that the store itself refused."""
        if self._changes is not None:
            time = row[1] if self.timestamped and row is not None else self.context.timestamp()
            time = self._written_ms if self._forgets_times and time == NO_TIME else time
            self._changes.append((raw_key, row, time, self._logged_headers(row) if self._logs_headers else ()))

    def _logged_headers(self, row: object) -> Headers:
        """Return the headers of a changelog record: those of the row, or of the current record."""
        return headers_of(row) if self.keeps_headers and row is not None else self.context.headers()

    def _shown(self, row: Any) -> Any:
        """Convert a row for operators; None for none."""
        if row is None or (type(row) is tuple and self.timestamped):
            return row
        if not self.timestamped:
            return self.values.decode(row)
        shown = self.values.decode(row[0]), row[1]
        return RowWithHeaders(*shown, row.headers) if type(row) is RowWithHeaders else shown

    def _kept(self, value: Any) -> Any:
        """Convert an operator's row to the stored form; None for none."""
        if value is None or not self.timestamped:
            return self.values.encode(value)
        if not isinstance(value, tuple) or len(value) < 2:
            hint = "put ks.ValueAndTimestamp(value, record.timestamp), or declare a store without timestamps"
            raise StateError(f'store "{self.name}" is timestamped, got type "{type(value).__name__}"', hint=hint)
        row, headers = stamped(self.values.encode(value[0]), value[1]), headers_of(value)
        if row is None or not headers:
            return row
        if not self.keeps_headers:
            hint = "write Stores.persistent_timestamped_…_store_with_headers"
            raise StateError(f'store "{self.name}" keeps no headers, got {value}', hint=hint)
        return RowWithHeaders(*row, headers)

    def write(self, raw_key: RawKey | None, row: Any) -> None:
        """Change one row and note it; None deletes."""
        old = self.raw.get(raw_key)
        if self._forgets_times and row is not None:
            self._written_ms, row = row[1], stamped(row[0], NO_TIME)
        self.apply(raw_key, row)
        record = self.watched[0]
        if record is not None:
            record(raw_key, old, row)

    def _update(self, raw_key: RawKey | None, row: Any) -> None:
        """Change one row and note it for the journal, but not for the changelog; None deletes."""
        self._note(raw_key, self.raw.get(raw_key), row)
        self.apply(raw_key, row)

    def apply(self, raw_key: RawKey | None, row: Row | None) -> None:
        """Change one row silently, as undo, redo, deltas and restoring do; None deletes."""
        came_or_went = (raw_key in self.raw) == (row is None)
        if row is None:
            self.raw.pop(raw_key, None)
        else:
            self.raw[raw_key] = row
        if came_or_went:
            self._index(raw_key, gone=row is None)

    def _index(self, raw_key: RawKey | None, *, gone: bool) -> None:
        """Update the index after a row was added or removed."""

    def _rows(self, raw_keys: list[RawKey]) -> Rows:
        """Return the rows of a range."""
        rows = [self._row(raw_key) for raw_key in raw_keys]
        return Rows(zip(map(self._user_key, raw_keys), map(self._shown, rows), strict=True))

    def _row(self, raw_key: RawKey) -> Row | None:
        """Return the row of a key without counting as a use of it."""
        return self.raw.get(raw_key)

    def _user_key(self, raw_key: RawKey) -> object:
        return self.keys.decode(raw_key)

    @property
    def user_key(self) -> Callable[[RawKey], object]:
        """The function that returns the user's key of a row."""
        return self._user_key

    def snapshot(self) -> dict[Hashable, Any]:
        """Copy all rows; they are immutable, so the copy never changes."""
        return dict(self.raw.items())

    def restore(self, rows: Mapping[Any, Any]) -> None:
        """Replace all rows, silently."""
        for raw_key in list(self.raw):
            self.apply(raw_key, None)
        for raw_key, row in rows.items():
            self.apply(raw_key, row)

    def begin_with(self, rows: Mapping[Any, Any]) -> None:
        """Replace all rows; the journal records them, the changelog does not."""
        self.restore(rows)
        for raw_key, row in rows.items():
            self._note(raw_key, None, row)

    def changelog_entry(self, raw_key: RawKey, row: Row | None) -> tuple[bytes, bytes | None]:
        """Return Kafka's changelog bytes of a row; a timestamped row's time is the record's timestamp, not in the
        bytes.
        """
        return self._key_bytes(raw_key), None if row is None else self._row_bytes(raw_key, row)

    def _wire_value(self, row: Any) -> Any:
        """Return the value of a row without its timestamp."""
        return row[0] if self.timestamped and row is not None else row

    def _row_bytes(self, raw_key: RawKey, row: Any) -> bytes | None:
        return self.values.to_bytes(self._wire_value(row))

    def _bytes_of(self, key: object) -> bytes:
        """Return the serialized bytes of a user's key."""
        return self.keys.to_bytes(self.keys.encode(key))

    def _key_bytes(self, raw_key: RawKey) -> bytes:
        return self.keys.to_bytes(raw_key)

    def row_key(self, raw_key: RawKey | None) -> bytes:
        """Return bytes that are different for each row; b"" for content without a key."""
        return b"" if raw_key is None else self._key_bytes(raw_key)

    @property
    def index_bytes(self) -> int:
        """Return an estimate of the memory that indexes of rows take, in bytes."""
        return 0

    def changelog_snapshot(self, timestamp: int) -> Iterator[ChangelogRecord]:
        """Yield the changelog records from which the rows are restored; rows without a time get ``timestamp`` (ms)."""
        for raw_key, row in self._snapshot_rows():
            if raw_key is not None:
                headers = headers_of(row) if self.keeps_headers else ()
                yield raw_key, row, self._row_time(raw_key, row, timestamp), headers

    def _snapshot_rows(self) -> Iterable[tuple[Any, Any]]:
        return self.raw.items()

    def _row_time(self, raw_key: RawKey, row: Any, timestamp: int) -> int:
        """Return the time of a row, ``timestamp`` if it has none."""
        return int(row[1]) if self.timestamped and row[1] != NO_TIME else timestamp

    def restore_changelog(self, entries: Iterable[ChangelogBytes]) -> None:
        """Replay records of the changelog into the store, silently."""
        for key, value, timestamp, headers in entries:
            self._replay(key, value, timestamp, headers)

    def _replay(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        raw_key = self._key_from(key)
        self.apply(raw_key, None if value is None else self._row_from(value, timestamp, headers))

    def _key_from(self, data: bytes) -> RawKey:
        return self.keys.encode(self._key_serde.deserialize(data))  # type: ignore[return-value] # others override it

    def _row_from(self, data: bytes, timestamp: int, headers: Headers) -> Row:
        row = self.values.from_bytes(data)
        if self.timestamped:
            row = stamped(row, NO_TIME if self._forgets_times else timestamp)
            if row is not None and headers and self.keeps_headers:
                row = RowWithHeaders(*row, headers)
        return row  # type: ignore[return-value] # what `_kept` gives

    def flush(self) -> None:
        """Write cached entries; a store without a cache has none."""

    def set_flush_listener(self, listener: FlushListener, *, send_old: bool = True) -> bool:
        """Have cached changes reported to ``listener(key, new, old, timestamp, headers)``; False without a cache."""
        return False

    @property
    def for_user(self) -> object:
        """The store as a user's processor gets it: rows with a timestamp are `ValueAndTimestamp`, or
        `ValueTimestampHeaders` if the store keeps headers.
        """
        return TimestampedStoreForUser(self) if self.timestamped else self

    @property
    def implementation(self) -> object:
        """The object that the spec's factory made, or None."""
        return getattr(self.raw, "store", None)


class StoreForUser:
    """A store whose rows `_shown` converts; everything else is the store's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        attribute = getattr(self._store, name)
        if not callable(attribute):
            return attribute

        def call(*args: object, **options: object) -> object:
            return self._shown(attribute(*args, **options))

        self.__dict__[name] = call
        return call

    def _shown(self, result: object) -> object:
        raise NotImplementedError(f"{type(self).__name__} does not convert rows")


class TimestampedStoreForUser(StoreForUser):
    """A timestamped store whose rows are `ValueAndTimestamp` or `ValueTimestampHeaders`, otherwise the store itself."""

    def _shown(self, result: Any) -> object:
        named = with_headers if self._store.keeps_headers else ValueAndTimestamp._make
        if isinstance(result, tuple):
            return named(result)
        return result.map(lambda row: (row[0], row[1] and named(row[1]))) if isinstance(result, Rows) else result


def with_headers(row: tuple[object, int] | None) -> ValueTimestampHeaders | None:
    """Return a timestamped row with its headers as users see it."""
    return None if row is None else ValueTimestampHeaders(*row, headers_of(row))
