"""The state of one task in a file of its executor.

Rows of stores that users can name are read where they are, those of buffers when the task is loaded. The file is
written when the next batch begins: only then is it known that Spark committed the last one. So it holds committed state
only, and a failed batch leaves nothing behind. Rows and the head, which names the entry of the state log, are one
transaction. The workers of an executor share the file; each batch reads one snapshot of it.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import StateError
from kstreamnb.runtime.context.task_context import RowsOf
from kstreamnb.runtime.task.task import StateDelta
from kstreamnb.spark.execution.cyclic_task import AnyTask
from kstreamnb.spark.execution.record_merge import Positions
from kstreamnb.spark.execution.state_codec import Attributes, PackedDelta, pack_row, unpack_row
from kstreamnb.state.cache import InCache
from kstreamnb.state.disk_rows import DiskRows, TimedDiskRows

CACHE_KIB = 8_192
_ON_DISK = ("key_value", "timestamped_key_value", "window", "timestamped_window", "session", "versioned")


class FileHead(NamedTuple):
    """The entry of the state log that a file is at, and all that is not a row; ``counts`` are rows by store on disk."""

    seq: int
    token: str
    positions: Positions
    clock_ms: int
    attributes: Attributes
    state_vars: dict[tuple[str, str], Any]
    counts: dict[str, int]


class TaskFile:
    """An open file; ``most_rows`` is how many unchanged rows each of its stores keeps in memory.

    Raises:
        sqlite3.DatabaseError: the file is damaged.
    """

    def __init__(self, path: Path, *, most_rows: int = 50_000, building: bool = False) -> None:
        self.path, self._most_rows = path, most_rows
        self._database = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
        journal = "OFF" if building else "WAL"  # a file that is being built is discarded if its process dies
        for setting in (f"cache_size=-{CACHE_KIB}", f"journal_mode={journal}", "synchronous=OFF"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute("CREATE TABLE IF NOT EXISTS head (content BLOB)")
        columns = "store TEXT, key BLOB, value BLOB, PRIMARY KEY (store, key)"
        self._database.execute(f"CREATE TABLE IF NOT EXISTS loaded ({columns}) WITHOUT ROWID")
        self.tables: dict[str, DiskRows] = {}
        self._pending: dict[str, dict[Any, Any]] = {}
        self._state_vars: dict[tuple[str, str], Any] = {}

    def rows_of(self, *, members: bool) -> RowsOf:
        """Return the factories of stores whose rows are on disk; with ``members`` names contain the task's id."""

        def rows(task_id: str, spec: StoreSpec) -> Callable[[StoreSpec], DiskRows] | None:
            if spec.kind not in _ON_DISK or spec.factory is not None:
                return None
            name = f"{task_id}/{spec.name}" if members else spec.name

            def table(_: StoreSpec) -> DiskRows:
                codec = pack_row, unpack_row
                kind = DiskRows if "key_value" in spec.kind else TimedDiskRows
                quoted = name.replace('"', '""')
                self.tables[name] = created = kind(self._database, f'"rows {quoted}"', codec, most_rows=self._most_rows)
                return created

            return table

        return rows

    def table_bytes(self) -> dict[str, int]:
        """Return an estimate of the bytes of each store on disk: its share of the file is that of its rows."""
        pages, page = (self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        size, rows = pages * page, sum(map(len, self.tables.values()))  # the file may have been replaced meanwhile
        return {name: size * len(table) // max(1, rows) for name, table in self.tables.items()}

    def head(self) -> FileHead | None:
        """Return the head; None if the file was never completed."""
        row = self._database.execute("SELECT content FROM head").fetchone()
        return None if row is None else FileHead(*pickle.loads(row[0]))

    def pin(self) -> FileHead | None:
        """Read the same content until `unpin`, whatever other workers write; return its head."""
        if not self._database.in_transaction:
            self._database.execute("BEGIN")
        return self.head()

    def unpin(self) -> None:
        """End what `pin` began."""
        if self._database.in_transaction:
            self._database.execute("COMMIT")

    def load(self, task: AnyTask, head: FileHead) -> None:
        """Give a new task the content of the file."""
        for rows in self.tables.values():
            rows.discard()  # what a processor's init has put
        self.recount(head)
        clocks = {name: rows.get(None) for name, rows in self.tables.items()}
        saved: dict[str, dict[Any, Any]] = {name: {None: clock} for name, clock in clocks.items() if clock is not None}
        for name, value in self._database.execute("SELECT store, value FROM loaded"):
            raw_key, row = pickle.loads(value)
            saved.setdefault(name, {})[raw_key] = row
        self._state_vars = dict(head.state_vars)
        task.apply_delta(StateDelta(saved, self._state_vars))

    def note(self, delta: StateDelta) -> None:
        """Note changes that the task has made or taken from its log; the next `settle` writes them."""
        self._state_vars.update(delta.state_vars)
        for name, rows in delta.rows.items():
            if name not in self.tables:
                kept = {raw_key: row for raw_key, row in rows.items() if type(raw_key) is not InCache}
                self._pending.setdefault(name, {}).update(kept)

    def recount(self, head: FileHead) -> None:
        """Take over the numbers of rows from a head that another worker wrote."""
        for name, rows in self.tables.items():
            rows.count = head.counts.get(name, 0)

    def settle(self, stores: Mapping[str, Any], head: FileHead) -> None:
        """Write all changes and the head, unless another worker has written them, and pin the file.

        Raises:
            StateError: the file cannot be written, or is ahead: another attempt of this batch has taken over.
        """
        with self._writing():
            stored = self.head()
            if stored is None or stored.seq < head.seq:
                for rows in self.tables.values():
                    rows.write(rows.changes())
                self._write_loaded(stores)
                self._write_head(head)
        for rows in self.tables.values():
            rows.settle()
        self._pending.clear()
        pinned = self.pin()
        if pinned is None or (pinned.seq, pinned.token) != (head.seq, head.token):
            self.close()
            raise StateError("another attempt of the same batch has taken over the state of this task")

    def build(self, stores: Mapping[str, Any], deltas: Iterable[PackedDelta], head: FileHead) -> None:
        """Write the whole state from deltas, and the head; close the file."""
        staging = self.path.with_name(f"{self.path.name}-staging")
        staging.unlink(missing_ok=True)
        self._database.execute("ATTACH ? AS staging", (str(staging),))
        self._database.execute("PRAGMA staging.journal_mode=OFF")
        with self._writing():
            for delta in deltas:
                for name, (raw_keys, packed) in delta.rows.items():
                    if name in self.tables:
                        self.tables[name].stage(raw_keys, packed)
                    else:
                        self.note(StateDelta({name: dict(zip(raw_keys, map(unpack_row, packed), strict=True))}, {}))
                self._state_vars.update(delta.state_vars)
            for rows in self.tables.values():
                rows.take_staged()
            self._write_loaded(stores)
            self._write_head(head)
        self.close()
        staging.unlink()

    def close(self) -> None:
        """Close the file; changes that were not settled are in the state log."""
        self._database.close()

    def _write_loaded(self, stores: Mapping[str, Any]) -> None:
        for name, rows in self._pending.items():
            key_of = stores[name].row_key
            kept = [(raw_key, row) for raw_key, row in rows.items() if row is not None]
            puts = [(name, key_of(entry[0]), pickle.dumps(entry, 5)) for entry in kept]
            gone = [(name, key_of(raw_key)) for raw_key, row in rows.items() if row is None]
            self._database.executemany("REPLACE INTO loaded VALUES (?, ?, ?)", puts)
            self._database.executemany("DELETE FROM loaded WHERE store = ? AND key = ?", gone)

    def _write_head(self, head: FileHead) -> None:
        counts = {name: rows.count for name, rows in self.tables.items()}
        content = pickle.dumps(tuple(head._replace(state_vars=self._state_vars, counts=counts)), 5)
        self._database.execute("DELETE FROM head")
        self._database.execute("INSERT INTO head VALUES (?)", (content,))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            self.unpin()
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            self.close()
            fact = f'a state file in "{self.path.parent}" cannot be written'
            hint = "free disk space or point spark.local.dir to a larger disk, then deploy again"
            raise StateError(fact, detail=str(error), hint=hint) from error
