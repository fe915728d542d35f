"""Paths of checkpoints in messages."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError, StorageError
from kstreamnb.kafka.application_reset import ResetPlan
from kstreamnb.kafka.storage.checkpoint_files import to_files


def test_messages_name_the_whole_path_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it was given relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    os.mkdir("shop")
    whole = re.escape(f'folder "{tmp_path}/shop" is not a checkpoint')
    with pytest.raises(CheckpointError, match=whole):
        ks.spark.rescale("shop", 2)
    with pytest.raises(CheckpointError, match=whole):
        ks.spark.read_store(ks.StreamsBuilder("shop").build(), "counts", "shop")
    assert f"delete checkpoint {tmp_path}/shop" in str(ResetPlan("shop", (), False, to_files("shop")))


def test_spark_reads_the_state_in_a_folder_with_blanks_through_a_link(tmp_path: Path) -> None:
    """Spark's reader takes the %20 of an escaped path as it is, so it would look for another folder."""
    plain, other = to_files(tmp_path / "shop"), to_files(tmp_path / "Läden 100%")
    assert plain.address == plain.plain_address
    other.write("offsets/3", b"v1")
    link = Path(other.plain_address.removeprefix("file:"))
    assert re.fullmatch(r"[\w./-]+", str(link), re.ASCII)
    assert b"v1" == (link / "offsets" / "3").read_bytes()
    assert f"file:{tmp_path}/Läden 100%" == other.address


def test_a_folder_with_blanks_has_one_link_however_often_its_state_is_read(tmp_path: Path) -> None:
    """Each link has a temporary folder, whose lock is an open file."""
    addresses = {to_files(tmp_path / "my shop").plain_address for _ in range(3)}
    assert 1 == len(addresses)


def test_a_new_file_that_cannot_be_renamed_is_not_left_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty manifest would be one that is damaged."""

    def refuse(path: Path, target: Path) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    files = to_files(tmp_path)
    with pytest.raises(StorageError):
        files.write("manifest", b"1", new=True)
    assert [] == files.names()


def test_a_new_file_is_written_by_one_of_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a file system without links; what replaces a file does not disturb others that do the same."""

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError("no links")

    files, rounds = to_files(tmp_path), range(100)
    with ThreadPoolExecutor(8) as threads:
        for linked in (True, False):
            if not linked:
                monkeypatch.setattr(Path, "hardlink_to", refuse)
            for number in rounds:
                written = [
                    threads.submit(files.write, f"{linked}-{number}", b"%d" % each, new=True) for each in rounds[:8]
                ]
                (first,) = (at for at, each in enumerate(written) if each.exception() is None)
                assert b"%d" % first == files.read(f"{linked}-{number}")
                assert all(isinstance(each.exception(), StorageError | None) for each in written)
        assert [None] * 100 == list(threads.map(lambda number: files.write("same", b"%d" % number), rounds))
    assert [] == [name for name in files.names() if "draft" in name]
