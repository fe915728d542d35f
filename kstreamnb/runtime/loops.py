"""The inner loops: records of one partition through the nodes below their source.

Where nothing has to happen between two records, loop and nodes are one function, written for the source when it is
first needed. The check for due punctuators stands at the head of the loop, for the record before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.chain import Chain, decoding, isolating

__all__ = ["TOPIC_RECORDS", "WIRE_RECORDS", "Loop", "collector_paused", "loop_chain"]

Loop = Callable[[Any, int], int]
"""``loop(iterator, stream time) -> stream time``."""

WIRE_RECORDS = "offset, timestamp, key, value, headers"
TOPIC_RECORDS = "_, partition, _, timestamp, key, value, headers"


def loop_chain(
    source: str,
    shape: str,
    serdes: tuple[Serde, Serde],
    stream_time: list[int],
    due: list[int],
    punctuate: Callable[[int], None],
    mark: Callable[[], None] | None,
    finish: Callable[[], None] | None,
) -> Chain:
    """The beginning of a loop over records of a shape; what is done with each is to be appended.

    ``mark`` is called before each record, ``finish`` when all is done with one.
    """
    begun = "" if finish is None else " begun = False\n"
    chain = Chain(source, f"def loop(records, now):\n{begun} for {shape} in records:", leave="continue", indent=2)
    names = {
        "stream_time": stream_time,
        "due": due,
        "punctuate": punctuate,
        "negative": _negative,
        "misplaced": _misplaced,
    }
    chain.names.update(names)
    chain.add(source, "if now >= due[0]: punctuate(now)")
    if finish is not None:
        chain.names["finish"] = finish
        chain.add(source, "if begun: finish()")
        chain.add(source, "begun = True")
    if mark is not None:
        chain.add(source, f"{chain.name(mark)}()")
    if shape == TOPIC_RECORDS:
        chain.add(source, "if partition > 0: misplaced(partition)")
    chain.add(source, "if timestamp > now: now = stream_time[0] = timestamp")
    chain.add(source, "elif timestamp < 0: negative()")
    for name, serde in zip(("key", "value"), serdes, strict=True):
        made = (decoding if shape == WIRE_RECORDS else isolating)(chain, serde, name)
        chain.add(source, f"{name} = {made}")
    return chain


class NegativeTimestamp(Exception):
    """The record in hand has a negative timestamp."""


def _negative() -> None:
    raise NegativeTimestamp


def _misplaced(partition: int) -> None:
    raise EngineError(f"the topic has no partition {partition}", detail="it has 1")


@contextmanager
def collector_paused() -> Iterator[None]:
    """No garbage collection meanwhile: a bulk of records makes many tuples and no cycles.

    What was made goes to the oldest generation unseen; the collector would only find that all of it is in use.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # else someone else has frozen objects, and means to keep them so
            gc.freeze()
            gc.unfreeze()
        gc.enable()
