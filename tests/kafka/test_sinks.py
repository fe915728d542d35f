"""Output that does not go to Kafka: functions, DataFrames, Parquet files, tables of a database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import kstreamnb as ks
from tests.kafka.apps import Bench, counting, counts

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_a_function_and_dataframes_get_every_batch(bench: Bench) -> None:
    """S1-07: records with the user's values, or DataFrames, with the batch's number."""
    records = bench.fill("called-in", 20)
    got: list[tuple[int, int]] = []
    bench.run(
        counting("called"),
        sink=ks.spark.FunctionSink(lambda output, batch: got.append((batch, len(output["called-out"])))),
        max_records=8,
    )
    assert 20 == sum(count for _, count in got)
    assert [*range(len(got))] == [batch for batch, _ in got]
    frames: list[Any] = []
    sink = ks.spark.FrameSink(lambda output, batch: frames.extend(output["called-out"].collect()))
    bench.run(counting("called"), "frames", sink=sink)
    assert {**counts(records)} == {row["key"]: row["value"] for row in frames}
    assert "called-out" not in bench.admin.topics()


def test_parquet_files_are_written_once(bench: Bench) -> None:
    """S1-07: one file per batch; a repeated batch leaves the same files."""
    records = bench.fill("files-in", 20)
    folder = bench.folder / "lake"
    query = bench.run(counting("files"), sink=ks.spark.ParquetSink(folder), max_records=8)
    (query.checkpoint / "commits" / "2").unlink()
    (query.checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    bench.run(counting("files"), sink=ks.spark.ParquetSink(folder))
    table = pq.read_table(folder / "files-out").to_pylist()
    assert 20 == len(table)
    assert counts(records) == {row["key"]: row["value"] for row in sorted(table, key=lambda row: row["timestamp"])}


class Failing(sqlite3.Connection):
    """Fails on its third commit."""

    left: int

    def commit(self) -> None:
        """Commit, or not."""
        if Failing.left == 0:
            raise sqlite3.OperationalError("disk is full")
        Failing.left -= 1
        super().commit()


def test_a_table_and_its_position_move_together_or_not_at_all(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """S3-22: the third commit fails: rows and position are those of the second; the next run recovers.

    The database's text, which may quote a row, is in no log, also not in Py4J's.
    """
    Failing.left = 2
    records = bench.fill("rows-in", 40)
    path = bench.folder / "shop.db"
    failing = ks.spark.DatabaseSink(lambda: sqlite3.connect(path, factory=Failing), {"rows-out": "stock"})
    with pytest.raises(ks.errors.EngineError, match=r'the sink of "rows" failed with OperationalError\n') as caught:
        bench.run(counting("rows"), sink=failing, max_records=8)
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    assert "disk is full" == str(caught.value.__cause__)
    assert "disk is full" not in caplog.text
    assert 1 == failing.position()
    assert sum(_stock(path).values()) < 40
    sink = ks.spark.DatabaseSink(lambda: sqlite3.connect(path), {"rows-out": "stock"})
    bench.run(counting("rows"), sink=sink, max_records=8)
    assert counts(records) == _stock(path)
    assert 4 <= sink.position()


def test_a_replayed_batch_changes_no_row(bench: Bench) -> None:
    """S1-07: a batch that the database already has is skipped."""
    bench.fill("same-in", 10)
    path = bench.folder / "shop.db"
    sink = ks.spark.DatabaseSink(lambda: sqlite3.connect(path))
    query = bench.run(counting("same"), sink=sink)
    before = _stock(path, "same-out")
    (query.checkpoint / "commits" / "0").unlink()
    (query.checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    again = bench.run(counting("same"), sink=sink)
    assert [True] == [figures.suppressed for figures in again.recent()]
    assert before == _stock(path, "same-out")


def test_a_table_of_no_name_is_refused() -> None:
    """Names are used in SQL: quotation marks are refused."""
    with pytest.raises(ks.errors.ConfigError, match="cannot be the name of a table"):
        ks.spark.DatabaseSink(lambda: sqlite3.connect(":memory:"), {"a": 'x"; DROP TABLE y'})


def _stock(path: Path, table: str = "stock") -> dict[str, int]:
    with sqlite3.connect(path) as connection:
        return {key: int(value) for key, value in connection.execute(f'SELECT key, value FROM "{table}"')}
