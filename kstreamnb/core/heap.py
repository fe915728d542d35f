"""When Python's garbage collector looks for cycles: not while many long-lived records are made, and rarely in workers.

Records, rows and their tuples form no cycles. A collection during a batch only finds that all of them are in
use, and that needs up to half the time of a large batch.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_BETWEEN_COLLECTIONS = 1_000_000
_BATCHES_BETWEEN_COLLECTIONS = 500
# `gc.get_freeze_count()` would answer that, but it walks over all frozen objects: 0.1 s for a worker with large state.
_frozen_batches = 0


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector; objects made in the block go to the oldest generation without being inspected."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not _frozen_batches:  # in a worker the heap is frozen, and stays so
            gc.freeze()
            gc.unfreeze()
        gc.enable()


@contextmanager
def gc_relaxed() -> Iterator[None]:
    """Raise the collector's threshold while a batch allocates many long-lived records."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def freeze_heap() -> None:
    """Exclude everything alive from the collection that Spark makes after every task; inspect it every 500 batches."""
    global _frozen_batches
    _frozen_batches += 1
    if _frozen_batches % _BATCHES_BETWEEN_COLLECTIONS == 0:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
