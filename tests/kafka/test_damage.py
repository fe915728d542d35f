"""State that was damaged on its disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kstreamnb as ks
from tests.kafka.apps import Bench, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def damage(path: Path) -> None:
    """Turn over a byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


def newest(store: Path) -> Path:
    """The last change of a store."""
    return max(store.glob("*.changelog"), key=lambda path: int(path.name.partition("_")[0]))


def as_a_new_process(bench: Bench) -> None:
    """Forget what is in memory of the stores."""
    bench.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


@pytest.mark.parametrize("how_much", ["the last change", "every change"])
def test_damaged_state_is_rebuilt(bench: Bench, name: str, how_much: str, caplog: pytest.LogCaptureFixture) -> None:
    """S4-47, S3-12: a checksum finds it; the state goes back, its batches run again, and nothing is published twice."""
    records = bench.fill(f"{name}-in", 40, 2)
    query = bench.run(counting(name), max_records=10)
    last = query.status(lag=False).batch
    stores = [path for path in (query.checkpoint / "state" / "0").glob("*") if path.name.isdigit()]
    chosen = [newest(stores[0])] if how_much == "the last change" else [p for s in stores for p in s.glob("*.*g")]
    for path in chosen:
        damage(path)
    as_a_new_process(bench)
    records += bench.fill(f"{name}-in", 10, 2, begin=40)
    with caplog.at_level("WARNING", "kstreamnb.query"):
        again = bench.run(counting(name), max_records=10)
    first = last if how_much == "the last change" else 0
    assert f"rebuilds damaged state (batches {first} to {last + 1})" in caplog.text
    assert "replay differs" not in caplog.text
    batches = [(figures.number, figures.suppressed) for figures in again.recent()]
    assert [(number, True) for number in range(first, last + 1)] == batches[: last + 1 - first]
    assert [(last + 1, False)] == batches[last + 1 - first :]
    assert 50 == len(bench.read(f"{name}-out"))
    assert counts(records) == final(bench.read(f"{name}-out")) == dict(again.store("counts").all())
    assert len(chosen) <= sum(1 for _ in (query.checkpoint / "damaged").rglob("*.changelog"))


def test_state_that_cannot_be_rebuilt_is_never_counted_with(bench: Bench) -> None:
    """S4-47: without the log of offsets the query ends and says so, nothing wrong is published; a copy goes on."""
    records = bench.fill("damaged-in", 40, 2)
    bench.run(counting("damaged"), max_records=10)
    checkpoint, copy = bench.folder / "checkpoint", bench.folder / "copy"
    shutil.copytree(checkpoint, copy)
    for path in (checkpoint / "state" / "0").glob("*/*.changelog"):
        damage(path)
    (checkpoint / "offsets" / "1").unlink()  # Spark keeps the last hundred
    as_a_new_process(bench)
    records += bench.fill("damaged-in", 10, 2, begin=40)
    with pytest.raises(ks.EngineError) as caught:
        bench.run(counting("damaged"))
    assert "ChecksumException: Checksum error" in (caught.value.detail or "")
    assert "restore the checkpoint from a copy, or reset the application" == caught.value.hint
    assert 40 == len(bench.read("damaged-out"))
    bench.run(counting("damaged"), "copy")
    assert 50 == len(bench.read("damaged-out"))
    assert counts(records) == final(bench.read("damaged-out"))
