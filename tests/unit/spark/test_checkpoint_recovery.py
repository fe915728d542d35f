"""Which batches run again if files of a checkpoint are damaged."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from kstreamnb.kafka.storage.checkpoint_files import LocalFiles
from kstreamnb.spark.state.checkpoint_recovery import entries_again, forget_later_batches, roll_back

SIZE = 512


def keep(path: Path, content: bytes) -> None:
    """Write a file with Hadoop's checksums beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    sums = [zlib.crc32(content[at : at + SIZE]).to_bytes(4, "big") for at in range(0, len(content), SIZE)]
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + SIZE.to_bytes(4, "big") + b"".join(sums))


def damage(path: Path) -> None:
    """Flip a byte."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Batches 0 to 2 are committed, 3 has begun; two stores, the first with a snapshot after batch 0."""
    for batch in range(4):
        keep(tmp_path / "offsets" / str(batch), f'v1\n{{}}\n{{"clock": {batch}}}'.encode())
    for batch in range(3):
        tokens = {"0": [[f"a{batch}"], [f"b{batch}"]]}
        keep(tmp_path / "commits" / str(batch), f"v1\n{json.dumps({'stateUniqueIds': tokens})}".encode())
        for store, letter in enumerate("ab"):
            keep(tmp_path / f"state/0/{store}/{batch + 1}_{letter}{batch}.changelog", bytes(range(256)) * 5)
    keep(tmp_path / "state/0/0/1_a0.zip", b"whole")
    return tmp_path


def files(folder: Path) -> set[Path]:
    """All files below a folder."""
    return {path for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_without_damage_is_left_alone(checkpoint: Path) -> None:
    """S4-47: the query failed for another reason than its files."""
    before = files(checkpoint)
    assert roll_back(LocalFiles(checkpoint)) is None
    assert before == files(checkpoint)
    assert {} == entries_again(LocalFiles(checkpoint))


@pytest.mark.parametrize(
    ("damaged", "first"),
    [
        (["0/2_a1.changelog", "0/3_a2.changelog"], 1),
        (["1/3_b2.changelog"], 2),
        (["1/1_b0.changelog"], 0),
        (["0/3_a2.changelog", "0/1_a0.zip"], 2),
    ],
    ids=["behind a whole", "the last", "the first", "a whole with its changes"],
)
def test_batches_behind_the_last_readable_state_run_again(checkpoint: Path, damaged: list[str], first: int) -> None:
    """S4-47: from the first damaged change after the latest snapshot; discarded files are kept aside."""
    before = len(files(checkpoint))
    for name in damaged:
        damage(checkpoint / "state" / "0" / name)
    assert range(first, 4) == roll_back(LocalFiles(checkpoint))
    assert {batch: f'{{"clock": {batch}}}' for batch in range(first, 4)} == entries_again(LocalFiles(checkpoint))
    names = {path.name for path in files(checkpoint / "offsets") if path.name.isdigit()}
    assert set(map(str, range(first + 1))) == names
    assert set(map(str, range(first))) == {
        path.name for path in (checkpoint / "commits").iterdir() if path.name.isdigit()
    }
    states = {path.name for path in files(checkpoint / "state") if path.suffix == ".changelog"}
    assert {f"{v + 1}_{letter}{v}.changelog" for letter in "ab" for v in range(first)} == states
    assert before + 1 == len(files(checkpoint))  # and again.json
    assert roll_back(LocalFiles(checkpoint)) is None


@pytest.mark.parametrize(("damaged", "first"), [("3_a2.changelog", 2), ("1_a0.changelog", None)])
def test_after_a_rescaling_state_goes_back_at_most_to_it(checkpoint: Path, damaged: str, first: int | None) -> None:
    """The folder of a partition that was given up is not asked for; earlier batches ran with other partitions."""
    tokens = {"0": [["a0"], ["b0"], ["c0"]]}
    keep(checkpoint / "commits" / "0", f"v1\n{json.dumps({'stateUniqueIds': tokens})}".encode())
    keep(checkpoint / "state/0/2/1_c0.changelog", b"given up")
    assert roll_back(LocalFiles(checkpoint)) is None
    damage(checkpoint / "state/0/0" / damaged)
    if first is None:
        damage(checkpoint / "state/0/0/1_a0.zip")
    assert (None if first is None else range(first, 4)) == roll_back(LocalFiles(checkpoint))


def test_a_whole_state_stands_for_the_changes_before_it(checkpoint: Path) -> None:
    """S4-47: a change that is no longer read can be lost."""
    damage(checkpoint / "state/0/0/1_a0.changelog")
    assert roll_back(LocalFiles(checkpoint)) is None


def test_nothing_is_touched_where_the_log_of_offsets_does_not_reach_back(checkpoint: Path) -> None:
    """S4-47: an operator has to decide."""
    damage(checkpoint / "state/0/1/1_b0.changelog")
    (checkpoint / "offsets" / "2").unlink()
    before = files(checkpoint)
    assert roll_back(LocalFiles(checkpoint)) is None
    assert before == files(checkpoint)


def test_of_two_unfinished_batches_the_first_runs_again(checkpoint: Path) -> None:
    """Spark computed the second while the first was being published; nothing of it is in Kafka."""
    keep(checkpoint / "offsets" / "4", b"v1")
    forget_later_batches(LocalFiles(checkpoint))
    assert [0, 1, 2, 3] == LocalFiles(checkpoint).numbers("offsets")
    assert not (checkpoint / "offsets" / ".4.crc").exists()
    keep(checkpoint / "offsets" / "4", b"v1")
    keep(checkpoint / "offsets" / "5", b"v1")
    before = files(checkpoint)
    forget_later_batches(LocalFiles(checkpoint))  # the log of finished batches lacks some: Spark reports it
    assert before == files(checkpoint)
