"""Repairs damaged state in a checkpoint: goes back to readable state, and repeats the batches after it.

A checkpoint has the state of every batch as changes, and periodically as a snapshot, in files with checksums beside
them. If one is damaged, the state is reset to the last batch whose state can be read. The batches after it run again
with the input, numbers and clocks that the log of offsets has for them, so that they give the same state and the same
output; what is in Kafka already is not published again. Discarded files are kept in a folder ``damaged``.
The plan of a repair is written first, so that an interrupted repair is completed by the next start.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

from kstreamnb.kafka.storage.checkpoint_files import CheckpointFiles
from kstreamnb.spark.state.checkpoint_manifest import damaged_file
from kstreamnb.spark.state.checkpoint_reader import last_batch, last_begun

_FILE = "again.json"
_BACK_TO = "back to"  # beside the entries, while files are moved aside
_MAGIC = b"crc\0"


def roll_back(checkpoint: CheckpointFiles) -> range | None:
    """Take a checkpoint back to the last readable state; return the batches to repeat.

    None if no file is damaged, or if the log of offsets, or the time since a rescaling, does not reach back far enough:
    nothing was changed then.
    """
    begun, done = last_begun(checkpoint), last_batch(checkpoint)
    stores = _stores(checkpoint, done)
    version = next(v for v in range(done + 1, -1, -1) if all(_readable(store, v, checkpoint) for store in stores))
    rescaled = _stores(checkpoint, max(0, version - 1)) != stores  # earlier batches ran with other partitions
    entries = {batch: f"offsets/{batch}" for batch in range(version, begun + 1)}
    if version == done + 1 or rescaled or not all(map(checkpoint.exists, entries.values())):
        return None
    plan = {str(batch): checkpoint.last_line(name) for batch, name in entries.items()}
    _write_plan(checkpoint, {**_read_plan(checkpoint), **plan, _BACK_TO: version})
    finish(checkpoint)
    return range(version, begun + 1)


def _attempts(checkpoint: CheckpointFiles, batch: int) -> dict[str, Any]:
    """Return the tokens of the attempts that wrote a batch's state, a list for each operator; none before a commit."""
    if not checkpoint.exists(f"commits/{batch}"):
        return {}
    return json.loads(checkpoint.last_line(f"commits/{batch}")).get("stateUniqueIds") or {}


def finish(checkpoint: CheckpointFiles) -> None:
    """Move the files that a repair discards aside, if that is not done yet."""
    plan = _read_plan(checkpoint)
    if _BACK_TO not in plan:
        return
    aside = f"damaged/{len(checkpoint.names('damaged')) + 1}"
    for name in _given_up(checkpoint, plan.pop(_BACK_TO)):
        checkpoint.move(name, f"{aside}/{name}")
    _write_plan(checkpoint, plan)


def forget_later_batches(checkpoint: CheckpointFiles) -> None:
    """Keep only the first of two unfinished batches, which the next start runs again.

    Spark had begun the second while the first was being published; nothing of it is published. This cannot
    leave more than two, so those are left for Spark to report.
    """
    second = last_batch(checkpoint) + 2
    if last_begun(checkpoint) == second:
        for name in list(_numbered(checkpoint, "offsets", second)):
            checkpoint.delete(name)


def entries_again(checkpoint: CheckpointFiles) -> dict[int, str]:
    """Return the entries in the log of offsets of batches that run again, by number."""
    return {int(batch): entry for batch, entry in _read_plan(checkpoint).items() if batch != _BACK_TO}


def _read_plan(checkpoint: CheckpointFiles) -> dict[str, Any]:
    content = checkpoint.read(_FILE)
    try:
        return {} if content is None else dict(json.loads(content))
    except (ValueError, TypeError) as error:
        raise damaged_file(checkpoint, _FILE, error) from error


def _write_plan(checkpoint: CheckpointFiles, plan: dict[str, Any]) -> None:
    checkpoint.write(_FILE, json.dumps(plan).encode())


def _stores(checkpoint: CheckpointFiles, batch: int) -> list[str]:
    """Return the folders of the partitions that operators have after a batch; those before a rescaling stay as well."""
    attempts = _attempts(checkpoint, batch)
    return [f"state/{operator}/{part}" for operator in attempts for part in range(len(attempts[operator]))]


def _readable(store: str, version: int, checkpoint: CheckpointFiles) -> bool:
    """Return whether a store can be read as of a version, which is the number of the batch after it."""
    asked = version
    while version > 0:
        name = _name(store, version, checkpoint)
        if name is None:
            return False
        damaged = not _intact(checkpoint, f"{store}/{name}.changelog")
        if damaged and version == asked:
            return False  # Spark learns from it which files come before it
        tables = [f"{store}/SSTs/{table}" for table in checkpoint.names(f"{store}/SSTs") if table.endswith(".sst")]
        if all(_intact(checkpoint, file) for file in (f"{store}/{name}.zip", *tables)):
            return True
        if damaged:
            return False
        version -= 1
    return True


def _name(store: str, version: int, checkpoint: CheckpointFiles) -> str | None:
    """Return the names of a version's files: with the token of the attempt that the log of commits names."""
    _, operator, partition = store.split("/")
    attempts = _attempts(checkpoint, version - 1).get(operator, [])
    return f"{version}_{attempts[int(partition)][0]}" if int(partition) < len(attempts) else None


def _intact(checkpoint: CheckpointFiles, name: str) -> bool:
    """Return whether a file matches the checksums beside it; one without any is accepted.

    Only on local disks does Hadoop keep checksums beside files: other file systems check their own.
    """
    if not checkpoint.exists(name):
        return False
    folder, _, file = name.rpartition("/")
    sums = checkpoint.read(f"{folder}/.{file}.crc")
    if sums is None:
        return True
    size = int.from_bytes(sums[4:8], "big")
    if sums[:4] != _MAGIC or size <= 0:
        return False
    content = memoryview(checkpoint.read(name) or b"")
    checksums = (zlib.crc32(content[at : at + size]).to_bytes(4, "big") for at in range(0, len(content), size))
    return b"".join(checksums) == sums[8:]


def _given_up(checkpoint: CheckpointFiles, version: int) -> Iterator[str]:
    """Yield the files of batches and states after a version, with their checksums.

    The entry of the first repeated batch stays in the log of offsets: Spark continues from there.
    """
    for folder, first in (("offsets", version + 1), ("commits", version)):
        yield from _numbered(checkpoint, folder, first)
    for operator in checkpoint.numbers("state"):
        for part in checkpoint.numbers(f"state/{operator}"):
            yield from _numbered(checkpoint, f"state/{operator}/{part}", version + 1)


def _numbered(checkpoint: CheckpointFiles, folder: str, first: int) -> Iterator[str]:
    for name in checkpoint.names(folder):
        number = name.removeprefix(".").partition("_")[0].partition(".")[0]
        if number.isdigit() and int(number) >= first:
            yield f"{folder}/{name}"
