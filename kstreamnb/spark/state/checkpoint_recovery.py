"""Damaged state in a checkpoint: go back to what can be read, and let the batches behind it run again.

A checkpoint has the state of every batch as changes, and now and then as a whole, in files with checksums beside them.
Where one is damaged, the state is taken back to the last batch whose state can be read. The batches behind it run again
with the input, numbers and clocks that the log of offsets has for them, so that they give the same state and the same
output; what is in Kafka already is not published again. The files that are given up are kept in a folder ``damaged``.
What is to be done is written down first, so that a repair that was interrupted comes to its end with the next start.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kstreamnb.errors import CheckpointError
from kstreamnb.spark.state.checkpoint_reader import last_batch, last_begun

__all__ = ["entries_again", "finish", "roll_back"]

_FILE = "again.json"
_BACK_TO = "back to"  # beside the entries, while files are put aside
_MAGIC = b"crc\0"


def roll_back(checkpoint: Path) -> range | None:
    """Take a checkpoint back to the last state that can be read; gives the batches that are to run again.

    None where no file is damaged, or where the log of offsets does not reach back so far: nothing was changed then.
    """
    begun, done = last_begun(checkpoint), last_batch(checkpoint)
    version = next(v for v in range(done + 1, -1, -1) if all(_readable(s, v, checkpoint) for s in _stores(checkpoint)))
    entries = {batch: checkpoint / "offsets" / str(batch) for batch in range(version, begun + 1)}
    if version == done + 1 or not all(path.exists() for path in entries.values()):
        return None
    plan = {str(batch): path.read_text().splitlines()[-1] for batch, path in entries.items()}
    _write_plan(checkpoint, {**_read_plan(checkpoint), **plan, _BACK_TO: version})
    finish(checkpoint)
    return range(version, begun + 1)


def finish(checkpoint: Path) -> None:
    """Put aside the files that a repair has given up, where that is not done yet."""
    plan = _read_plan(checkpoint)
    if _BACK_TO not in plan:
        return
    aside = checkpoint / "damaged" / str(sum(1 for _ in (checkpoint / "damaged").glob("*")) + 1)
    for path in _given_up(checkpoint, plan.pop(_BACK_TO)):
        kept = aside / path.relative_to(checkpoint)
        kept.parent.mkdir(parents=True, exist_ok=True)
        path.rename(kept)
    _write_plan(checkpoint, plan)


def entries_again(checkpoint: Path) -> dict[int, str]:
    """By number, the entries in the log of offsets of batches that run again."""
    return {int(batch): entry for batch, entry in _read_plan(checkpoint).items() if batch != _BACK_TO}


def _read_plan(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / _FILE
    try:
        return dict(json.loads(path.read_text())) if path.exists() else {}
    except (ValueError, TypeError) as error:
        raise CheckpointError(
            f'file "{_FILE}" of checkpoint "{checkpoint}" is damaged',
            detail=f"{type(error).__name__}: {error}",
            hint="restore the checkpoint from a copy, or reset the application",
        ) from error


def _write_plan(checkpoint: Path, plan: dict[str, Any]) -> None:
    """Write the file, whole or not at all."""
    draft = checkpoint / f".{_FILE}.draft"
    draft.write_text(json.dumps(plan))
    draft.replace(checkpoint / _FILE)


def _stores(checkpoint: Path) -> list[Path]:
    """The folders of all partitions of all operators."""
    return [path for path in sorted((checkpoint / "state").glob("*/*")) if path.name.isdigit()]


def _readable(store: Path, version: int, checkpoint: Path) -> bool:
    """Whether a store can be read as of a version, which is the number of the batch after it."""
    asked = version
    while version > 0:
        name = _name(store, version, checkpoint)
        if name is None:
            return False
        whole, change = store / f"{name}.zip", store / f"{name}.changelog"
        damaged = not _intact(change)
        if damaged and version == asked:
            return False  # Spark learns from it which files come before it
        if _intact(whole) and all(map(_intact, store.glob("SSTs/*.sst"))):
            return True
        if damaged:
            return False
        version -= 1
    return True


def _name(store: Path, version: int, checkpoint: Path) -> str | None:
    """How the files of a version are called: with the token of the attempt that the log of commits names."""
    path = checkpoint / "commits" / str(version - 1)
    if not path.exists():
        return None
    plan: dict[str, Any] = json.loads(path.read_text().splitlines()[-1]).get("stateUniqueIds") or {}
    attempts = plan.get(store.parent.name, [])
    if int(store.name) >= len(attempts):
        return None
    return f"{version}_{attempts[int(store.name)][0]}"


def _intact(path: Path) -> bool:
    """Whether a file has the checksums that stand beside it; one without any is taken as it is."""
    if not path.exists():
        return False
    beside = path.with_name(f".{path.name}.crc")
    if not beside.exists():
        return True
    sums = beside.read_bytes()
    size = int.from_bytes(sums[4:8], "big")
    if sums[:4] != _MAGIC or size <= 0:
        return False
    with path.open("rb") as file:
        found = b"".join(zlib.crc32(piece).to_bytes(4, "big") for piece in iter(partial(file.read, size), b""))
    return found == sums[8:]


def _given_up(checkpoint: Path, version: int) -> Iterator[Path]:
    """Files of batches and states behind a version, with their checksums.

    The entry of the first batch that runs again stays in the log of offsets: Spark runs that one from there.
    """
    for folder, first in (("offsets", version + 1), ("commits", version)):
        yield from _numbered(checkpoint / folder, first)
    for store in _stores(checkpoint):
        yield from _numbered(store, version + 1)


def _numbered(folder: Path, first: int) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        number = path.name.removeprefix(".").partition("_")[0].partition(".")[0]
        if path.is_file() and number.isdigit() and int(number) >= first:
            yield path
