"""The inner loops: records of one partition through the nodes below their source.

Where nothing has to happen between two records, loop and nodes are one function, written for the source when it is
first needed. The check for due punctuators stands at the head of the loop, for the record before.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, NamedTuple

from kstreamnb.core.serde import Serde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.chain import Chain, decoding, isolating

Loop = Callable[[Any, int], Any]
"""``loop(iterator, stream time) -> stream time``; for records in turn ``loop(None, stream time)``, a coroutine."""

WIRE_RECORDS = "offset, timestamp, key, value, headers"
TOPIC_RECORDS = "_, partition, _, timestamp, key, value, headers"
IN_TURN = "_, _, _, timestamp, key, value, headers"
"""Records of topics that are sent one by one, in turn with other partitions."""


def loop_chain(
    source: str,
    shape: str,
    serdes: tuple[Serde, Serde],
    stream_time: list[int],
    due: list[int],
    punctuate: Callable[[int], None],
    marks: tuple[list[int], list[Any]] | None,
    ending: Ending | None,
    first: list[int] | None,
) -> Chain:
    """The beginning of a loop over records of a shape; what is done with each is to be appended.

    ``marks`` is a list that gets, before each record, the length of another one. ``first`` holds the offset of the
    first record, where offsets are to be counted.
    """
    begun = ("" if ending is None else " begun = False\n") + ("" if first is None else " offset = first[0] - 1\n")
    each = "while True:" if shape == IN_TURN else f"for {shape} in records:"
    chain = Chain(source, f"def loop(records, now):\n{begun} {each}", leave="continue", indent=2)
    names = {
        "stream_time": stream_time,
        "due": due,
        "punctuate": punctuate,
        "negative": _negative,
        "misplaced": _misplaced,
        "first": first,
    }
    chain.names.update(names)
    chain.add(source, "if now >= due[0]: punctuate(now)")
    if ending is not None:
        for line in ending.lines(chain):
            chain.add(source, line)
        chain.add(source, "begun = True")
    if shape == IN_TURN:
        chain.add(source, f"{shape} = yield")
        chain.add(source, "now = stream_time[0]")  # other partitions may have moved it
    if first is not None:
        chain.add(source, "offset += 1")
    if marks is not None:
        chain.add(source, f"{chain.name(marks[0].append)}(len({chain.name(marks[1])}))")
    if shape == TOPIC_RECORDS:
        chain.add(source, "if partition > 0: misplaced(partition)")
    chain.add(source, "if timestamp > now: now = stream_time[0] = timestamp")
    chain.add(source, "elif timestamp < 0: negative()")
    for name, serde in zip(("key", "value"), serdes, strict=True):
        made = (decoding if shape == WIRE_RECORDS else isolating)(chain, serde, name)
        chain.add(source, f"{name} = {made}")
    return chain


class Ending(NamedTuple):
    """What a recorder notes at the end of a record: cells that changed, if there are any, and a commit."""

    cells: Sized
    note_cells: Callable[[], None]
    note: Callable[[Any], None]
    committed: Any

    def lines(self, chain: Chain) -> list[str]:
        """The same as lines, for the record before."""
        cells, note_cells, note = map(chain.name, (self.cells, self.note_cells, self.note))
        lines = ["if begun:", f" if len({cells}) > 1: {note_cells}()"]
        return lines if self.committed is None else [*lines, f" {note}({chain.name(self.committed)})"]


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
