"""Sinks that recognize a repeated batch: tables of a database, Parquet files.

Both make the output exactly once without Kafka's transactions: a batch that comes again changes nothing. They store the
query's identity beside its position, because the batches of another checkpoint have the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from kstreamnb.core.arguments import expect
from kstreamnb.core.names import check_resource_name
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.signatures import taking
from kstreamnb.errors import CheckpointError, ConfigError, KStreamError, SinkError, expect_known
from kstreamnb.hints import reason_of
from kstreamnb.kafka.output_batch import Marker, OutputBatch, checksum_of
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.io.sinks import history_of, records_of, tables_of
from kstreamnb.spark.planning.output_topics import output_topics

_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_POSITIONS = "kstreamnb_query_batches"


class Cursor(Protocol):
    """The part of a DB-API cursor that a `DatabaseSink` uses."""

    def execute(self, statement: str, parameters: Sequence[object] = ..., /) -> object:
        """Run a statement.

        Args:
            statement: an SQL statement.
            parameters: values for its placeholders. Default: none.
        """

    def fetchone(self) -> Sequence[object] | None:
        """Return the next row."""


class Connection(Protocol):
    """The part of a DB-API connection that a `DatabaseSink` uses."""

    def cursor(self) -> Cursor:
        """Open a cursor."""

    def commit(self) -> object:
        """Commit the transaction."""

    def rollback(self) -> object:
        """Abort the transaction."""

    def close(self) -> object:
        """Close the connection."""


@dataclass
class DatabaseSink(QuerySink):
    """Upserts each batch into tables by key, and stores the batch's number in the same database transaction.

    A tombstone deletes its row. If the transaction fails, neither rows nor position have moved, and the query ends; its
    restart repeats the batch. A batch that the database already has is skipped. The position belongs to one checkpoint:
    a query with another one is refused, and so are an older copy of the checkpoint and a gap between two batches.

    Args:
        connect: opens a DB-API connection, such as ``lambda: sqlite3.connect("shop.db")``.
        tables: the table of each output topic; other topics have a table of their name. Tables that do not exist are
            created with columns key (primary), value and timestamp. Default: none.
        paramstyle: that of the driver: "qmark" (default), "format" or "pyformat".
        write: called with the cursor, the topic and its records instead of the upsert. Default: None.

    Raises:
        ConfigError: the paramstyle or the name of a table is invalid.

    Example:
        >>> import sqlite3
        >>> sink = DatabaseSink(lambda: sqlite3.connect(":memory:"), {"stock": "on_hand"})
        >>> sink.position()  # no batch yet; ``deploy(…, sink=sink)`` brings them
        -1
    """

    connect: Callable[[], Connection]
    tables: Mapping[str, str] = field(default_factory=dict)
    paramstyle: str = "qmark"
    write: Callable[[Cursor, str, list[TopicRecord]], object] | None = None

    def __post_init__(self) -> None:
        taking(self.connect)
        expect(self.tables, Mapping, "tables")
        expect(self.paramstyle, str, "paramstyle")
        if self.write is not None:
            taking(self.write, "cursor", "topic", "records")
        expect_known("paramstyle", [self.paramstyle], _MARKS, error=ConfigError)
        for table in self.tables.values():
            _quoted(table)

    def open(self) -> None:
        """Refuse to start if the database does not answer, or has batches of another query.

        Raises: SinkError if the database does not answer, CheckpointError if it has batches of another query.
        """
        try:
            self.position()
        except KStreamError:
            raise
        except Exception as error:  # each driver has its own classes of errors
            message = f'the database of "{self.bound.application.id}" failed with {reason_of(error)}'
            raise SinkError(message, hint="check the connection, then deploy again or call query.restart()") from error

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Write rows and the batch's number in one transaction.

        Args:
            batch: output of one batch, with its number.

        Raises: CheckpointError if the database has batches of another query.
        """
        application, count = self.bound.application, batch.output.count()
        with self._cursor() as (connection, cursor):
            if history_of(self, "the database").is_replay(self._last(cursor), batch.number, batch.source):
                return OutputBatch(batch.number, count, suppressed=True)
            for topic, records in records_of(application, batch).items():
                (self.write or self._upsert)(cursor, topic, records)
            mark = _MARKS[self.paramstyle]
            cursor.execute(
                f"INSERT INTO {_POSITIONS} (application, query, batch, source) "
                f"VALUES ({mark}, {mark}, {mark}, {mark}) "
                "ON CONFLICT (application) DO UPDATE SET batch = excluded.batch, source = excluded.source",
                (application.id, self.bound.name, batch.number, checksum_of(batch.source)),
            )
            connection.commit()
        return OutputBatch(batch.number, count)

    def position(self) -> int:
        """Return the number of the last batch in the database, -1 before the first.

        Raises:
            CheckpointError: the database has batches of another query of the application.
        """
        with self._cursor() as (_, cursor):
            last = self._last(cursor)
            return -1 if last is None else last.batch

    @contextmanager
    def _cursor(self) -> Iterator[tuple[Connection, Cursor]]:
        connection = self.connect()
        try:
            yield connection, connection.cursor()
        except BaseException:
            connection.rollback()
            raise
        finally:
            connection.close()

    def _last(self, cursor: Cursor) -> Marker | None:
        columns = "application VARCHAR(255) PRIMARY KEY, query VARCHAR(64), batch BIGINT, source VARCHAR(8)"
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {_POSITIONS} ({columns})")
        if self.deployment is None:
            return None
        id_, mark = self.deployment.application.id, _MARKS[self.paramstyle]
        cursor.execute(f"SELECT query, batch, source FROM {_POSITIONS} WHERE application = {mark}", (id_,))
        row = cursor.fetchone()
        if row is None:
            return None
        last = Marker(str(row[0]), int(str(row[1])), str(row[2]), "")
        way_out = f"empty its tables and DELETE FROM {_POSITIONS} WHERE application = '{id_}'"
        history_of(self, "the database").refuse_foreign(last, way_out)
        return last

    def _upsert(self, cursor: Cursor, topic: str, records: list[TopicRecord]) -> None:
        table, mark = _quoted(self.tables.get(topic, topic)), _MARKS[self.paramstyle]
        columns = "key VARCHAR(1000) PRIMARY KEY, value TEXT, timestamp BIGINT"
        cursor.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
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

    The file of a batch that comes again replaces the first one, with the same content. Columns are partition, timestamp
    (ms), key and value, typed by the topic's serdes; JSON values are text. The files belong to one checkpoint: a query
    with another one is refused, and so are an older copy of the checkpoint and a gap between two batches. Readers of
    Parquet ignore the hidden file that names the query and its last batch.

    Args:
        folder: folder in which a folder for each topic is made.

    Example:
        >>> ParquetSink("lake")
        ParquetSink(folder='lake')
    """

    folder: Path | str

    def __post_init__(self) -> None:
        expect(self.folder, Path | str, "folder")

    def open(self) -> None:
        """Store this query's identity in the folder.

        Raises: CheckpointError if the folder has batches of another query.
        """
        note, last = self._note, _last_of(self._note)
        query = None if last is None else last.query
        if query == self.bound.name:
            return
        topics = ["*"] if query else output_topics(self.bound.application.topology)  # others may share the folder
        name = f"batch-{'[0-9]' * 9}.parquet"
        files = [path for topic in topics for path in Path(self.folder).glob(f"{topic}/{name}")]
        batches = [int(path.stem.removeprefix("batch-")) for path in files]
        batches += [] if last is None or last.batch < 0 else [last.batch]
        if batches:
            way_out = f'remove "{note.name}" and the files of its topics, or choose another folder'
            found = Marker(query or "unknown", max(batches), "", "")
            history_of(self, f'folder "{self.folder}"').refuse_foreign(found, way_out)
        note.parent.mkdir(parents=True, exist_ok=True)
        self._write_note(-1, "")

    def publish(self, batch: QueryBatch) -> OutputBatch:
        """Write whole files, each of which is renamed when it is complete, then the batch's number.

        Args:
            batch: output of one batch, with its number.

        Raises: CheckpointError if the folder's note is damaged, TopologyError for a topic whose name Kafka refuses.
        """
        last = _last_of(self._note)
        last = None if last is None or last.batch < 0 else last
        replay = history_of(self, f'folder "{self.folder}"').is_replay(last, batch.number, batch.source)
        for topic, table in tables_of(self.bound.application, batch).items():
            check_resource_name(topic, "topic name")  # a record may have chosen it: "../x" is outside of the folder
            path = Path(self.folder, topic, f"batch-{batch.number:09d}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            _replace(path, partial(pq.write_table, table))
        if not replay:
            self._write_note(batch.number, checksum_of(batch.source))
        return OutputBatch(batch.number, batch.output.count())

    @property
    def _note(self) -> Path:
        return Path(self.folder, f".{self.bound.application.id}.kstreamnb.json")

    def _write_note(self, batch: int, source: str) -> None:
        content = {"application": self.bound.application.id, "query": self.bound.name, "batch": batch, "source": source}
        _replace(self._note, lambda draft: draft.write_text(json.dumps(content), encoding="utf-8"))


def _last_of(note: Path) -> Marker | None:
    """Return the query that a folder belongs to, and its last batch, -1 before the first; None without a query."""
    try:
        fields = json.loads(note.read_text(encoding="utf-8"))
        return Marker(str(fields["query"]), int(fields["batch"]), str(fields["source"]), "")
    except FileNotFoundError:
        return None
    except (ValueError, LookupError, TypeError) as error:
        raise CheckpointError(f'file "{note}" is damaged', detail=str(error), hint="restore it from a copy") from error


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file completely, or not at all."""
    draft = path.with_name(f".{path.name}.draft")
    write(draft)
    draft.replace(path)


def _quoted(table: str) -> str:
    """Quote a table's name as an SQL identifier."""
    expect(table, str, "name of a table")
    if not table or '"' in table or "\x00" in table:
        raise ConfigError(f"{table!r} cannot be the name of a table")
    return f'"{table}"'


def _text(value: object) -> object:
    """Convert a value for a column: text and numbers unchanged, everything else as JSON or its text."""
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return str(value)
