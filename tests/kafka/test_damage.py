"""State that was damaged on its disk."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.state.checkpoint_recovery import finish, roll_back
from tests.kafka.apps import Bench, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

REPAIRS = """
import os, signal, sys
from pathlib import Path
from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.state.checkpoint_recovery import roll_back

left, rename = int(sys.argv[2]), Path.rename


def rename_or_die(path, target):
    global left
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return rename(path, target)


Path.rename = rename_or_die
roll_back(LocalFiles(Path(sys.argv[1])))
"""
RUNS_AGAIN = """
import os, signal, sys
import kstreamnb as ks
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from tests.kafka.apps import counting

publish = TransactionalWriter.publish


def publish_or_die(*arguments):
    done = publish(*arguments)
    if done.suppressed:
        os.kill(os.getpid(), signal.SIGKILL)
    return done


TransactionalWriter.publish = publish_or_die
options = {"bootstrap_servers": sys.argv[2], "checkpoint": sys.argv[3], "available_now": True, "max_records": 10}
ks.deploy(counting(sys.argv[1]), **options).await_termination(900)
"""


def damage(path: Path) -> None:
    """Flip a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def newest(store: Path) -> Path:
    """The last change of a store."""
    return max(store.glob("*.changelog"), key=lambda path: int(path.name.partition("_")[0]))


def as_a_new_process(bench: Bench) -> None:
    """Clear the stores from memory."""
    bench.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


@pytest.mark.parametrize("how_much", ["the last change", "every change", "the last change is lost"])
def test_damaged_state_is_rebuilt(bench: Bench, name: str, how_much: str, caplog: pytest.LogCaptureFixture) -> None:
    """S4-47, S3-12: a checksum detects it; the state is rolled back, its batches run again, and nothing is published
    twice.
    """
    records = bench.fill(f"{name}-in", 40, 2)
    query = bench.run(counting(name), max_records=10)
    last = query.status(lag=False).batch
    stores = [path for path in (query.checkpoint / "state" / "0").glob("*") if path.name.isdigit()]
    chosen = [p for s in stores for p in s.glob("*.*g")] if how_much == "every change" else [newest(stores[0])]
    for path in chosen:
        (Path.unlink if how_much.endswith("lost") else damage)(path)
    as_a_new_process(bench)
    records += bench.fill(f"{name}-in", 10, 2, begin=40)
    with caplog.at_level("WARNING", "kstreamnb.query"):
        again = bench.run(counting(name), max_records=10)
    first = 0 if how_much == "every change" else last
    assert f"rebuilds damaged state (batches {first} to {last + 1})" in caplog.text
    assert "replay differs" not in caplog.text
    batches = [(figures.number, figures.suppressed) for figures in again.recent()]
    assert [(number, True) for number in range(first, last + 1)] == batches[: last + 1 - first]
    assert [(last + 1, False)] == batches[last + 1 - first :]
    assert 50 == len(bench.read(f"{name}-out"))
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(again.store("counts").all())
    lost = how_much.endswith("lost")
    assert lost or len(chosen) <= sum(1 for _ in (query.checkpoint / "damaged").rglob("*.changelog"))


def test_state_that_was_damaged_after_a_rescaling_is_rebuilt(
    bench: Bench, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Folders of the partitions that were given up remain in the checkpoint, and count as neither read nor damaged."""
    records = bench.fill(f"{name}-in", 20, 2)
    query = bench.run(counting(name), spark_partitions=3)
    ks.spark.rescale(query.checkpoint, 1, spark=bench.spark)
    records += bench.fill(f"{name}-in", 20, 2, begin=20)
    last = bench.run(counting(name), max_records=10).status(lag=False).batch
    damage(newest(query.checkpoint / "state" / "0" / "0"))
    as_a_new_process(bench)
    records += bench.fill(f"{name}-in", 10, 2, begin=40)
    with caplog.at_level("WARNING", "kstreamnb.query"):
        again = bench.run(counting(name), max_records=10)
    assert f"rebuilds damaged state (batches {last} to {last + 1})" in caplog.text
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(again.store("counts").all())


def killed(program: str, *arguments: object) -> None:
    """Run a program that is killed."""
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, check=False)
    assert -signal.SIGKILL == done.returncode, done.stderr.decode()


def content(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_repair_that_was_killed_at_any_file_comes_to_its_end(bench: Bench, name: str, tmp_path: Path) -> None:
    """S4-47, S0-23: wherever the repair was killed, the checkpoint is finally the same as after a complete repair."""
    bench.fill(f"{name}-in", 40, 2)
    query = bench.run(counting(name), max_records=10)
    for path in (query.checkpoint / "state").glob("*/0/*.changelog"):
        damage(path)
    whole = tmp_path / "whole"
    shutil.copytree(query.checkpoint, whole)
    assert roll_back(LocalFiles(whole)) == range(query.status(lag=False).batch + 1)
    moved = [path for path in (whole / "damaged").rglob("*") if path.is_file()]
    assert len(moved) > 20
    kept = {file: data for file, data in content(whole).items() if not file.startswith("damaged")}
    for files in (0, 1, len(moved) // 2, len(moved) - 1):
        part = tmp_path / f"after {files}"
        shutil.copytree(query.checkpoint, part)
        killed(REPAIRS, part, files)
        assert files == sum(path.is_file() for path in (part / "damaged").rglob("*"))
        finish(LocalFiles(part))
        assert kept == {file: data for file, data in content(part).items() if not file.startswith("damaged")}
        assert roll_back(LocalFiles(part)) is None


def test_a_query_that_was_killed_while_its_batches_ran_again_goes_on(bench: Bench, name: str) -> None:
    """S4-47, S0-23: killed during the repair, then after the first repeated batch, it loses and duplicates nothing."""
    records = bench.fill(f"{name}-in", 40, 2)
    query = bench.run(counting(name), max_records=10)
    for path in (query.checkpoint / "state").glob("*/*/*.changelog"):
        damage(path)
    killed(REPAIRS, query.checkpoint, 7)
    killed(RUNS_AGAIN, name, bench.servers, query.checkpoint)
    as_a_new_process(bench)
    records += bench.fill(f"{name}-in", 10, 2, begin=40)
    again = bench.run(counting(name), max_records=10)
    last = query.status(lag=False).batch
    batches = [(figures.number, figures.suppressed) for figures in again.recent()]
    assert [(number, number <= last) for number in range(last + 2)] == batches
    assert 50 == len(bench.read(f"{name}-out"))
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(again.store("counts").all())


def test_state_that_cannot_be_rebuilt_is_never_counted_with(bench: Bench) -> None:
    """S4-47: without the log of offsets the query ends with a clear error, nothing wrong is published; a copy
    continues.
    """
    records = bench.fill("damaged-in", 40, 2)
    bench.run(counting("damaged"), max_records=10)
    checkpoint, copy = bench.folder / "checkpoint", bench.folder / "copy"
    shutil.copytree(checkpoint, copy)
    for path in (checkpoint / "state" / "0").glob("*/*.changelog"):
        damage(path)
    (checkpoint / "offsets" / "1").unlink()  # Spark keeps the last hundred
    as_a_new_process(bench)
    records += bench.fill("damaged-in", 10, 2, begin=40)
    with pytest.raises(ks.errors.EngineError) as caught:
        bench.run(counting("damaged"))
    assert "ChecksumException: Checksum error" in (caught.value.detail or "")
    assert "restore the checkpoint from a copy, or reset the application" == caught.value.hint
    assert 40 == len(bench.read("damaged-out"))
    bench.run(counting("damaged"), "copy")
    assert 50 == len(bench.read("damaged-out"))
    assert counts(records) == final(bench.read("damaged-out"))
