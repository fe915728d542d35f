"""How a running query ends when its dependencies disappear: its topics, its checkpoint, disk space."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

import kstreamnb as ks
from tests.kafka.apps import PATIENCE_S, Bench, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def ended(query: Any) -> ks.KStreamError:
    """Wait until the query has ended and return the reason."""
    with pytest.raises(ks.KStreamError) as caught:
        assert query.await_termination(PATIENCE_S)
    return caught.value


def running(bench: Bench, name: str, **options: Any) -> Any:
    """A query that has read its 20 records and waits for more."""
    bench.fill(f"{name}-in", 20, 2)
    query = bench.deploy(counting(name), **options)
    assert query.await_input(PATIENCE_S)
    return query


def test_a_query_says_which_of_its_topics_is_gone(bench: Bench) -> None:
    """Even if no record arrives; an output topic is created by the next deployment, an input topic is not."""
    query = running(bench, "taken")
    bench.admin.delete_topics("taken-out")
    error = ended(query)
    assert 'output topic "taken-out" of "taken" no longer exists' == str(error)
    assert "deploy the application again, which creates it" == error.hint
    records = bench.fill("taken-in", 5, 2, begin=20)
    query = bench.deploy(counting("taken"))
    assert query.await_input(PATIENCE_S)
    assert 5 == len(bench.read("taken-out"))
    assert {record.key for record in records} == final(bench.read("taken-out")).keys()
    bench.admin.delete_topics("taken-in")
    error = ended(query)
    assert 'input topic "taken-in" of "taken" no longer exists' == str(error)
    assert "fail_on_loss=False" in str(error.hint)
    assert "failed" == query.status().state


def test_a_query_without_its_markers_ends_and_starts_again_only_after_a_reset(bench: Bench) -> None:
    """Even if no record arrives: nothing else says which batches Kafka has. After a reset, all records are counted."""
    query = running(bench, "unmarked")
    bench.admin.delete_topics("unmarked-commits")
    error = ended(query)
    assert isinstance(error, ks.errors.DataLossError)
    assert 'topic "unmarked-commits" of "unmarked" no longer exists' == str(error)
    with pytest.raises(ks.errors.DataLossError, match='of "unmarked" follows no earlier batch in Kafka') as caught:
        bench.deploy(counting("unmarked"))
    assert "reset the application, or give it a new id and checkpoint" == caught.value.hint
    assert f"if it was deleted, {caught.value.hint}" in (error.hint or "")
    before = bench.read("unmarked-out")
    ks.kafka.reset(bench.servers, "unmarked", checkpoint=bench.folder / "checkpoint")
    bench.run(counting("unmarked"))
    outputs = bench.read("unmarked-out")
    assert (20, 40) == (len(before), len(outputs))
    assert final(before) == final(outputs)


def test_a_topic_that_was_created_anew_is_not_taken_for_the_old_one(bench: Bench) -> None:
    """Although it has grown past the query's position: refused while running and at the start, unless loss is
    allowed.
    """
    query = running(bench, "anew")
    bench.admin.delete_topics("anew-in")
    bench.admin.create_topic("anew-in", partitions=2)
    error = ended(query)
    assert 'topic "anew-in"' in str(error)
    assert "deleted and created a" in f"{error} {error.detail}"  # either check may be first: ids, or offsets
    bench.fill("anew-in", 30, 2)
    with pytest.raises(ks.errors.DataLossError, match="was deleted and created again"):
        bench.deploy(counting("anew"))
    assert 20 == len(bench.read("anew-out"))
    query = bench.deploy(counting("anew"), fail_on_loss=False)
    assert query.await_input(PATIENCE_S)
    assert 30 == len(bench.read("anew-out"))  # records before its position
    query.stop()
    bench.fill("anew-in", 4, 2, begin=30)
    bench.run(counting("anew"))  # the new topic is now the query's own
    assert 34 == len(bench.read("anew-out"))


def test_gaps_of_a_topic_that_was_created_again_are_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """The query goes back to the end of the new topic, whose offsets are below those of the gap before."""

    def continues() -> None:
        query.restart()
        assert query.await_input(PATIENCE_S)
        query.stop()

    def removed(first: int) -> None:
        place = TopicPartition("gaps-in", 0, first)
        bench.admin.client.delete_records([place])[place].result(10)

    bench.fill("gaps-in", 20)
    query = bench.deploy(counting("gaps"), fail_on_loss=False)
    assert query.await_input(PATIENCE_S)
    query.stop()
    bench.fill("gaps-in", 10, begin=20)
    removed(25)
    continues()
    bench.admin.delete_topics("gaps-in")
    bench.fill("gaps-in", 5)
    continues()
    bench.fill("gaps-in", 10)
    removed(9)
    continues()
    told = [each.partition("partition 0, ")[2] for each in caplog.messages if "offsets skipped" in each]
    assert ["first 20, after 25)", "first 5, after 9)"] == told


def test_a_query_whose_checkpoint_is_moved_ends_and_publishes_nothing(bench: Bench, name: str) -> None:
    """At its new place the folder continues with every record once; at the old place, nothing is created."""
    records = bench.fill(f"{name}-in", 20, 2)
    query = bench.deploy(counting(name))
    assert query.await_input(PATIENCE_S)
    moved = query.checkpoint.rename(bench.folder / "moved")
    records += bench.fill(f"{name}-in", 5, 2, begin=20)
    error = ended(query)
    assert f'checkpoint "{query.checkpoint}" of "{name}" no longer exists' == str(error)
    assert 20 == len(bench.read(f"{name}-out"))
    with pytest.raises(ks.errors.CheckpointError, match="no longer exists"):
        query.restart()
    again = bench.run(counting(name), moved.name)
    assert 25 == len(bench.read(f"{name}-out"))
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(again.store("counts").all())


ORPHANED = """
import json, os, signal, sys
import kstreamnb as ks
from tests.kafka.apps import PATIENCE_S, counting
from tests.kafka.deployed import SETTINGS

def told(call):
    try:
        call()
    except ks.KStreamError as error:
        return str(error)

servers, checkpoint = sys.argv[1:]
options = {"bootstrap_servers": servers, "checkpoint": checkpoint}
first = ks.spark.spark_session("orphaned", settings=SETTINGS)
query = ks.deploy(counting("orphaned"), spark=first, **options)
assert query.await_input(PATIENCE_S)
query.restart()
os.kill(first.sparkContext._gateway.proc.pid, signal.SIGKILL)
calls = {
    "end": lambda: query.await_termination(PATIENCE_S), "store": lambda: query.store("counts"), "status": query.status,
    "metrics": query.metrics, "restart": query.restart, "stop": query.stop,
    "deploy": lambda: ks.deploy(counting("orphaned"), spark=first, **options),
}
said = {name: told(call) for name, call in calls.items()}
shown = query._repr_mimebundle_()
again = ks.deploy(counting("orphaned"), spark=ks.spark.spark_session("again", settings=SETTINGS), **options)
assert again.await_input(PATIENCE_S)
print(json.dumps([said, shown, dict(again.store("counts").all())]))
again.stop()
"""


def test_a_jvm_that_dies_leaves_handles_that_answer_and_another_one_goes_on(bench: Bench, tmp_path: Path) -> None:
    """The error is the kit's alone, with nothing on the terminal; a new session in the same process continues."""
    records = bench.fill("orphaned-in", 20, 2)
    command = [sys.executable, "-c", ORPHANED, bench.servers, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
    said, shown, found = json.loads(done.stdout)
    assert "last error: the JVM of the Spark session is gone" in shown["text/plain"]
    assert re.search("0_1 .*orphaned-in-1 .*counts", shown["text/plain"])
    assert ("<table>" in shown["text/html"], "in 20 records, " in shown["text/html"]) == (True, True)
    dead = "the JVM of the Spark session is gone"
    assert 'the JVM that "orphaned" ran in is gone' == said["end"]
    assert [dead] * 3 == [said[name] for name in ("store", "restart", "deploy")]
    assert [None] * 3 == [said[name] for name in ("status", "metrics", "stop")]
    assert counts(records) == found == final(bench.read("orphaned-out"))
    assert 20 == len(bench.read("orphaned-out"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system of a few MB; mounting it needs privileges."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        done = False
    if not done:
        pytest.skip("this user may not mount a disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_up(disk: Path) -> Path:
    """A file that fills the file system."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    assert 0 == os.statvfs(disk).f_bavail
    return ballast


def test_a_disk_that_is_full_ends_a_query_which_goes_on_when_there_is_room(bench: Bench, small_disk: Path) -> None:
    """One clear error, nothing lost or duplicated; a start meanwhile is refused with the same error."""
    records = bench.fill("full-in", 20, 2)
    query = bench.deploy(counting("full"), str(small_disk / "checkpoint"))
    assert query.await_input(PATIENCE_S)
    ballast = fill_up(small_disk)
    records += bench.fill("full-in", 20, 2, begin=20)
    error = ended(query)
    assert 'the query of "full" failed: its files cannot be written' == str(error)
    assert "the system says: No space left on device" == error.detail
    with pytest.raises(ks.errors.StorageError, match="cannot be written"):
        bench.deploy(counting("full"), str(small_disk / "checkpoint"))
    ballast.unlink()
    again = bench.run(counting("full"), str(small_disk / "checkpoint"))
    assert 40 == len(bench.read("full-out"))
    assert counts(records) == final(bench.read("full-out")) == dict(again.store("counts").all())


def test_a_disk_that_becomes_read_only_ends_a_query_likewise(bench: Bench, small_disk: Path) -> None:
    """While it runs, and for each start meanwhile; with the system's message, and nothing lost or duplicated."""
    records = bench.fill("locked-in", 20, 2)
    query = bench.deploy(counting("locked"), str(small_disk / "checkpoint"))
    assert query.await_input(PATIENCE_S)
    remount(small_disk, "ro")
    records += bench.fill("locked-in", 20, 2, begin=20)
    error = ended(query)
    assert 'the query of "locked" failed: its files cannot be written' == str(error)
    assert "the system says: Read-only file system" == error.detail
    for start in (query.restart, lambda: bench.deploy(counting("locked"), str(small_disk / "checkpoint"))):
        with pytest.raises(ks.errors.StorageError, match="cannot be written") as caught:
            start()
        assert "the system says: Read-only file system" == caught.value.detail
    remount(small_disk, "rw")
    query.restart()
    assert query.await_input(PATIENCE_S)
    assert 40 == len(bench.read("locked-out"))
    assert counts(records) == final(bench.read("locked-out")) == dict(query.store("counts").all())


def remount(disk: Path, how: str) -> None:
    """Wait until no file is being written in the folder."""
    end = time.monotonic() + PATIENCE_S
    while subprocess.run(["mount", "-o", f"remount,{how}", str(disk)], capture_output=True, check=False).returncode:
        assert time.monotonic() < end
        time.sleep(0.02)
