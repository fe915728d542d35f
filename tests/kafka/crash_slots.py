"""Executors of the crash matrix: they hold a slot of the output where the plan says, until the kill has happened.

A driver that is killed leaves executors behind. They are released later and try to continue with their slots, while the
next deployment publishes them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.kafka.transactional_writer import TransactionalWriter
from kstreamnb.spark.io.sinks import KafkaSink
from kstreamnb.spark.io.slot_sink import SlotPublisher

__all__ = ["BETWEEN_SLOTS", "IN_SLOT", "SLOT_POINTS", "HeldPublisher", "hold_file"]

IN_SLOT, BETWEEN_SLOTS = SLOT_POINTS = ("inside a slot's commit", "between two slots")


def hold_file(folder: Path, application: str, word: str, process: str = "*") -> Path:
    """Return a file by which driver and executors agree: "hold", "held", or "first" for a published first slot."""
    return folder / f"{process}.{word}-{application}"


@dataclass(frozen=True)
class HeldPublisher(SlotPublisher):
    """Publishes slots, but waits at a point while a file says so."""

    folder: str = ""

    def open(self, slot: int) -> KafkaSink:
        """Return a sink whose writer waits."""
        sink = super().open(slot)
        sink.writer.publish = partial(_publish, sink.writer, Path(self.folder))
        return sink


def _publish(writer: TransactionalWriter, folder: Path, *arguments: Any) -> OutputBatch:
    hold = next(iter(folder.glob(hold_file(folder, writer.application, "hold").name)), None)
    if hold is None:
        return TransactionalWriter.publish(writer, *arguments)
    point, process = hold.read_text(), hold.name.partition(".")[0]
    held, first = (hold_file(folder, writer.application, word, process) for word in ("held", "first"))
    if point == BETWEEN_SLOTS and writer.slot:
        while hold.exists() and not first.exists():
            time.sleep(0.002)
        _wait(hold, held)

    def between(step: str) -> None:
        if step == "offsets" and point == IN_SLOT and not writer.slot:
            _wait(hold, held)

    done = TransactionalWriter.publish(writer, *arguments, between=between)
    if not writer.slot:
        first.touch()
        if done.suppressed and point == IN_SLOT:  # published before the last kill: nothing to hold
            held.touch()
    return done


def _wait(hold: Path, held: Path) -> None:
    held.touch()
    while hold.exists():
        time.sleep(0.0005)
