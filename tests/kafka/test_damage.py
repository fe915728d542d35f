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


def test_damaged_state_is_found_and_never_counted_with(bench: Bench) -> None:
    """S4-47, S3-12: a checksum finds it, the query ends and says so, nothing wrong is published; a copy goes on."""
    records = bench.fill("damaged-in", 40, 2)
    bench.run(counting("damaged"), max_records=10)
    checkpoint, copy = bench.folder / "checkpoint", bench.folder / "copy"
    shutil.copytree(checkpoint, copy)
    for path in (checkpoint / "state" / "0").glob("*/*.changelog"):
        damage(path)
    bench.spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()  # as a new process begins
    records += bench.fill("damaged-in", 10, 2, begin=40)
    with pytest.raises(ks.EngineError) as caught:
        bench.run(counting("damaged"))
    assert "ChecksumException: Checksum error" in (caught.value.detail or "")
    assert "restore the checkpoint from a copy, or reset the application" == caught.value.hint
    assert 40 == len(bench.read("damaged-out"))
    bench.run(counting("damaged"), "copy")
    assert 50 == len(bench.read("damaged-out"))
    assert counts(records) == final(bench.read("damaged-out"))
