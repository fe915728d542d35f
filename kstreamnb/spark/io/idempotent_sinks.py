"""Sinks that know by themselves whether they have a batch already: tables of a database, Parquet files.

Both make the output exactly once without Kafka's transactions: a batch that comes again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from kstreamnb.core.record import TopicRecord
from kstreamnb.errors import ApplicationStateError, ConfigError
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.io.sinks import records_of, tables_of
from kstreamnb.spark.planning.deployment import Application

__all__ = ["DatabaseSink", "ParquetSink"]

_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


@dataclass
class DatabaseSink(QuerySink):
    """Upserts each batch into tables by key, and notes the batch in the same database transaction.

    A tombstone deletes its row. When the transaction fails, neither rows nor position have moved, and the query ends;
    its restart brings the batch again. A batch that the database has is passed over.

    Args:
        connect: opens a DB-API connection, such as ``lambda: sqlite3.connect("shop.db")``.
        tables: the table of each output topic; a topic that is not named has a table of its own name. Tables that do
            not exist are created with columns key (primary), value and timestamp.
        paramstyle: that of the driver: "qmark", "format" or "pyformat".
        write: instead of the upsert: called with the cursor, the topic and its records.

    Example:
        >>> import sqlite3
        >>> sink = DatabaseSink(lambda: sqlite3.connect(":memory:"), {"stock": "on_hand"})
        >>> sink.position()  # no batch yet; ``deploy(…, sink=sink)`` brings them
        -1
    """

    connect: Callable[[], Any]
    tables: Mapping[str, str] = field(default_factory=dict)
    paramstyle: str = "qmark"
    write: Callable[[Any, str, list[TopicRecord]], Any] | None = None
    application: Application | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.paramstyle not in _MARKS:
            raise ConfigError(f'there is no paramstyle "{self.paramstyle}" here', hint=f"take {' or '.join(_MARKS)}")
        for table in self.tables.values():
            _quoted(table)

    def attach(self, application: Application, spark: Any) -> None:
        """Take note of whose output it is."""
        self.application = application

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """One transaction: rows, then the batch's number."""
        if self.application is None:
            raise ApplicationStateError("the sink belongs to no query yet", hint="give it to deploy(…, sink=…)")
        connection = self.connect()
        try:
            cursor, count = connection.cursor(), batch.output.count()
            if batch.number <= self._position(cursor):
                return OutputBatch(batch.number, count, suppressed=True)
            for topic, records in records_of(self.application, batch).items():
                (self.write or self._upsert)(cursor, topic, records)
            self._note(cursor, batch.number)
            connection.commit()
            return OutputBatch(batch.number, count)
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()

    def position(self) -> int:
        """The last batch that the database has, -1 before the first."""
        connection = self.connect()
        try:
            return self._position(connection.cursor())
        finally:
            connection.close()

    def _position(self, cursor: Any) -> int:
        columns = "application VARCHAR(255) PRIMARY KEY, batch BIGINT"
        cursor.execute(f"CREATE TABLE IF NOT EXISTS kstreamnb_positions ({columns})")
        mark = _MARKS[self.paramstyle]
        cursor.execute(f"SELECT batch FROM kstreamnb_positions WHERE application = {mark}", (self._name(),))
        row = cursor.fetchone()
        return -1 if row is None else int(row[0])

    def _note(self, cursor: Any, batch: int) -> None:
        mark = _MARKS[self.paramstyle]
        cursor.execute(
            f"INSERT INTO kstreamnb_positions (application, batch) VALUES ({mark}, {mark}) "
            "ON CONFLICT (application) DO UPDATE SET batch = excluded.batch",
            (self._name(), batch),
        )

    def _name(self) -> str:
        return "" if self.application is None else self.application.id

    def _upsert(self, cursor: Any, topic: str, records: list[TopicRecord]) -> None:
        table, mark = _quoted(self.tables.get(topic, topic)), _MARKS[self.paramstyle]
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (key VARCHAR(1000) PRIMARY KEY, value TEXT, timestamp BIGINT)"
        )
        upsert = (
            f"INSERT INTO {table} (key, value, timestamp) VALUES ({mark}, {mark}, {mark}) "
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value, timestamp = excluded.timestamp"
        )
        for record in records:
            if record.value is None:
                cursor.execute(f"DELETE FROM {table} WHERE key = {mark}", (_text(record.key),))
            else:
                cursor.execute(upsert, (_text(record.key), _text(record.value), record.timestamp))


@dataclass
class ParquetSink(QuerySink):
    """Writes one Parquet file a batch and topic: ``folder/topic/batch-000000012.parquet``.

    The file of a batch that comes again takes the place of the first one, with the same content. Columns are
    partition, timestamp (ms), key and value, typed by the topic's serdes; JSON values are text.

    Example:
        >>> ParquetSink("lake")
        ParquetSink(folder='lake')
    """

    folder: Path | str
    application: Application | None = field(default=None, repr=False)

    def attach(self, application: Application, spark: Any) -> None:
        """Take note of whose output it is."""
        self.application = application

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Write whole files or none: each is renamed when it is complete."""
        if self.application is None:
            raise ApplicationStateError("the sink belongs to no query yet", hint="give it to deploy(…, sink=…)")
        for topic, table in tables_of(self.application, batch).items():
            path = Path(self.folder, topic, f"batch-{batch.number:09d}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.draft")
            pq.write_table(table, draft)
            draft.replace(path)
        return OutputBatch(batch.number, batch.output.count())


def _quoted(table: str) -> str:
    """A table's name as an SQL identifier."""
    if not table or '"' in table or "\x00" in table:
        raise ConfigError(f"{table!r} cannot be the name of a table")
    return f'"{table}"'


def _text(value: Any) -> Any:
    """A value as a column takes it: text and numbers as they are, everything else as JSON or its text."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)
