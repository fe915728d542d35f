"""A sink's position belongs to one checkpoint: batches of another one have the same numbers but other content."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError, DataLossError, SinkError, TopologyError
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.contracts import QueryBatch, QuerySink
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.execution.record_batch import OrderKey, RecordBatch
from kstreamnb.spark.planning.deployment import Deployment
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from tests.spark.memory_sink import MemorySink

Make = Callable[[Path], QuerySink]
MAKERS: dict[str, Make] = {
    "database": lambda folder: ks.spark.DatabaseSink(lambda: sqlite3.connect(folder / "shop.db")),
    "parquet": lambda folder: ks.spark.ParquetSink(folder / "lake"),
}


def query(name: str, application: str = "shop") -> Deployment:
    """The deployment of a query identified by ``name``."""
    builder = ks.StreamsBuilder(application)
    builder.stream("in", value_serde="long").to("out", value_serde="long")
    return plan_deployment(name, [plan_application(builder.build(), Config(), {"in": 1}, direct=True)], 1)


def batch(number: int, value: int, topic: str = "out") -> QueryBatch:
    """A batch of one record."""
    one = np.zeros(1, np.int64)
    records = RecordBatch(topic, 0, OrderKey(one, one, one, one), one, ["k"], [value])
    return QueryBatch(number, f"offsets {number}", {}, 0, BatchOutput({(0, topic): [(0, 0, records)]}))


def started(make: Make, folder: Path, deployment: Deployment) -> QuerySink:
    """The sink of a query that starts or restarts."""
    sink = make(folder)
    none: Any = None
    sink.attach(deployment, none)
    sink.open()
    return sink


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_query_with_another_checkpoint_is_refused(tmp_path: Path, make: Make) -> None:
    """It would skip its first batches as known, or overwrite some of the files and leave others."""
    first = started(make, tmp_path, query("one"))
    for number in range(3):
        first.publish(batch(number, number))
    with pytest.raises(CheckpointError, match='application "shop" belongs to another checkpoint') as caught:
        started(make, tmp_path, query("two"))
    assert "has batch 2 of query one; this one is query two" in (caught.value.detail or "")
    assert caught.value.hint
    again = started(make, tmp_path, query("one"))
    again.publish(batch(2, 2))
    again.publish(batch(3, 3))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_gap_between_two_batches_is_refused(tmp_path: Path, make: Make) -> None:
    """The database or folder was restored from an older copy: rows of the batches in between are lost."""
    sink = started(make, tmp_path, query("one"))
    sink.publish(batch(0, 1))
    with pytest.raises(DataLossError, match='batches 1 to 6 of "shop" are missing'):
        sink.publish(batch(7, 7))
    sink.without_output = {1}
    with pytest.raises(DataLossError, match='batches 2 to 6 of "shop" are missing'):
        sink.publish(batch(7, 7))
    sink.publish(batch(2, 2))
    with pytest.raises(DataLossError, match='batch 3 of "shop" is missing'):
        started(make, tmp_path, query("one")).publish(batch(4, 4))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_emptied_destination_does_not_continue_in_the_middle(tmp_path: Path, make: Make) -> None:
    """Batch 3 is not the first one of its query."""
    with pytest.raises(DataLossError, match='batch 3 of "shop" follows no earlier batch'):
        started(make, tmp_path, query("one")).publish(batch(3, 3))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_older_copy_of_the_checkpoint_is_refused(tmp_path: Path, make: Make) -> None:
    """Its batches have known numbers and other input; skipping them would lose records."""
    sink = started(make, tmp_path, query("one"))
    for number in range(4):
        sink.publish(batch(number, number))
    with pytest.raises(CheckpointError, match=r"came after batch 3 was published to .*"):
        sink.publish(batch(1, 9))
    other = replace(batch(3, 9), source="other offsets")
    with pytest.raises(CheckpointError, match="was published with different input"):
        sink.publish(other)
    sink.again = {1: batch(1, 1).source}  # its state was rolled back
    sink.publish(batch(1, 1))
    sink.publish(batch(3, 3))
    sink.publish(batch(4, 4))


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_query_that_wrote_nothing_leaves_the_place_to_another(tmp_path: Path, make: Make) -> None:
    """A first attempt that failed before its first batch does not block the next one."""
    started(make, tmp_path, query("one"))
    started(make, tmp_path, query("two")).publish(batch(0, 7))
    with pytest.raises(CheckpointError):
        started(make, tmp_path, query("one"))


def test_a_database_refuses_batches_of_another_query_while_both_run(tmp_path: Path) -> None:
    """The first to publish keeps the sink; nothing of the other is written."""
    make = MAKERS["database"]
    first, second = (started(make, tmp_path, query(name)) for name in ("one", "two"))
    first.publish(batch(0, 1))
    with pytest.raises(CheckpointError):
        second.publish(batch(0, 2))
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        assert [("k", "1")] == [(key, str(value)) for key, value in connection.execute("SELECT key, value FROM out")]


def test_files_without_a_known_query_are_left_alone(tmp_path: Path) -> None:
    """Another program may have written them; other topics' files may be present."""
    (tmp_path / "lake" / "others").mkdir(parents=True)
    (tmp_path / "lake" / "others" / "batch-000000005.parquet").write_bytes(b"")
    started(MAKERS["parquet"], tmp_path, query("one")).publish(batch(0, 1))
    (tmp_path / "lake" / ".shop.kstreamnb.json").unlink()
    with pytest.raises(CheckpointError, match="another checkpoint") as caught:
        started(MAKERS["parquet"], tmp_path, query("one"))
    assert "batch 0 of query unknown" in (caught.value.detail or "")
    assert [1] == pq.read_table(tmp_path / "lake" / "out").to_pydict()["value"]


def test_other_files_beside_those_of_batches_are_left_alone(tmp_path: Path) -> None:
    """A file whose name only begins like that of a batch is the user's."""
    notes = tmp_path / "lake" / "out" / "batch-notes.parquet"
    notes.parent.mkdir(parents=True)
    notes.write_bytes(b"kept")
    started(MAKERS["parquet"], tmp_path, query("one")).publish(batch(0, 1))
    assert {"batch-000000000.parquet", "batch-notes.parquet"} == {path.name for path in notes.parent.iterdir()}


def test_topics_that_functions_choose_belong_to_their_query_too(tmp_path: Path) -> None:
    """The topology does not determine them."""
    started(MAKERS["parquet"], tmp_path, query("one")).publish(batch(0, 1, "chosen"))
    with pytest.raises(CheckpointError):
        started(MAKERS["parquet"], tmp_path, query("two"))


def test_a_database_that_does_not_answer_is_named_before_the_query_starts(tmp_path: Path) -> None:
    """The driver's own error is the cause."""
    with pytest.raises(SinkError, match='the database of "shop" failed with OperationalError') as caught:
        started(MAKERS["database"], tmp_path / "no-such-folder", query("one"))
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)


def test_a_damaged_note_is_an_error(tmp_path: Path) -> None:
    """It is not mistaken for a folder without a query."""
    started(MAKERS["parquet"], tmp_path, query("one")).publish(batch(0, 1))
    (tmp_path / "lake" / ".shop.kstreamnb.json").write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        started(MAKERS["parquet"], tmp_path, query("one"))


def test_memory_keeps_the_output_of_one_query() -> None:
    """A sink passed to a second query would skip its batches."""
    sink = MemorySink()
    session: Any = None
    sink.attach(query("one"), session)
    sink.publish(batch(0, 1))
    sink.attach(query("one"), session)
    with pytest.raises(CheckpointError, match="another checkpoint"):
        sink.attach(query("two"), session)


def chosen_per_record() -> Deployment:
    """A query in which each record chooses its topic."""
    builder = ks.StreamsBuilder("shop")
    builder.stream("in", value_serde="long").to(lambda key, value, context: str(key), value_serde="long")
    return plan_deployment("one", [plan_application(builder.build(), Config(), {"in": 1}, direct=True)], 1)


@pytest.mark.parametrize("outside", ["../outside", "..", ".", "a/../../outside", "{}/outside", "", "a\x00b"])
def test_a_topic_that_a_record_chose_is_no_path(tmp_path: Path, outside: str) -> None:
    """A record of a stranger writes no file outside of the folder; a broker refuses such names, too."""
    sink = started(MAKERS["parquet"], tmp_path, chosen_per_record())
    sink.publish(batch(0, 1, "legal.name-1"))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(TopologyError, match="topic name"):
        sink.publish(batch(1, 1, outside.format(tmp_path)))
    assert before == sorted(tmp_path.rglob("*"))
