"""Paths of checkpoints in messages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError
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
