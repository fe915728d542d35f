"""The application of the crash matrix: every stateful operator, over five input topics."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kstreamnb as ks

__all__ = ["BATCH", "INPUTS", "OUTPUTS", "PARTITIONS", "STORES", "application", "input_records", "rows_of"]

BATCH, PARTITIONS = 40, 2
UNIT_MS = 10_000  # of event time; a batch takes 40 of them, so that rows of windows expire with each batch
INPUTS = ("in", "right", "orders", "items", "names")
OUTPUTS = ("counts", "letters", "closed", "paired", "priced", "itemised", "ticks")
STORES = ("by-key", "by-letter", "by-window", "seen")
_SHARES = ("in",) * 6 + ("right", "right", "orders", "items")


class Ticker(ks.Processor):
    """Counts records by key; every 100 s of stream time it forwards the counts that have grown, with a header."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Schedule the punctuator."""
        self.context, self.seen = context, context.get_state_store("seen")
        self.ticks = 0  # attributes are state, too
        context.schedule("100s", ks.PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: ks.Record) -> None:
        """Count a record."""
        self.seen.put(record.key, (self.seen.get(record.key) or 0) + 1)

    def tick(self, timestamp: int) -> None:
        """Forward and clear all counts."""
        self.ticks += 1
        for key, count in list(self.seen.all()):
            header = ("tick", str(self.ticks).encode())
            self.context.forward(ks.Record(key, count, timestamp, headers=(header,)))
            self.seen.delete(key)


def application(name: str, mark: Path | None = None) -> ks.Topology:
    """Levels with state, windows, suppress, joins of every kind, a punctuator and a global table.

    While a file ``mark`` exists, the next record is blocked.
    """
    builder = ks.StreamsBuilder(name)
    long, text = ks.Serdes.long(), ks.Serdes.string()
    stream = builder.stream(f"{name}-in", value_serde="long").peek(lambda key, value: _held_by(mark))
    grouped = stream.group_by_key()
    counts = grouped.count(store="by-key")
    counts.to_stream().to(f"{name}-counts", value_serde="long")
    letters = counts.to_stream().group_by(lambda key, count: key[0], value_serde="long")
    letters.count(store="by-letter").to_stream().to(f"{name}-letters", value_serde="long")

    windows = ks.TimeWindows.of(size="200s", grace="50s")
    closed = grouped.windowed_by(windows).count(store="by-window")
    closed = closed.suppress(ks.Suppressed.until_window_closes(ks.BufferConfig.unbounded()))
    closed.to_stream().to(f"{name}-closed", key_serde=ks.Serdes.time_windowed(text, "200s"), value_serde=long)

    right = builder.stream(f"{name}-right", value_serde="long")
    near = ks.JoinWindows.of(difference="150s", grace="50s")
    stream.outer_join(right, _pair, near).to(f"{name}-paired", value_serde="string")

    names = builder.global_table(f"{name}-names", value_serde="long")
    stream.left_join(names, lambda key, value: key, _pair).to(f"{name}-priced", value_serde="string")

    orders = builder.table(f"{name}-orders", value_serde="long")
    items = builder.table(f"{name}-items", value_serde="long")
    both = orders.outer_join(items, _pair, value_serde="string")
    ordered = orders.left_join(items, _pair, foreign_key=_item_of, value_serde="string")
    both.to_stream().merge(ordered.to_stream()).to(f"{name}-itemised", value_serde="string")

    builder.add_state_store(ks.Stores.key_value_store_builder(ks.Stores.persistent_key_value_store("seen"), text, long))
    stream.process(Ticker, "seen").to(f"{name}-ticks", value_serde="long")
    return builder.build()


def _pair(left: int | None, right: int | None) -> str:
    return f"{left}/{right}"


def _item_of(order: int) -> str:
    return f"{'abcd'[order % 4]}{order % 6}"


def _held_by(mark: Path | None) -> None:
    if mark is not None and mark.exists():
        mark.with_suffix(".reached").touch()
        while mark.exists():
            time.sleep(0.01)


def input_records(name: str, begin: int, count: int, start_ms: int) -> list[ks.TopicRecord]:
    """Records of all inputs, always the same, with headers; their times are shuffled within each 40.

    On Spark a batch sees the global table as of the batch's end (D-021): its rows come first, and the same rows again
    later.
    """
    names = _names(name, start_ms) if begin == 0 else []
    return [*names, *_records(name, begin, count, start_ms)]


def _names(name: str, start_ms: int) -> list[ks.TopicRecord]:
    keys = [f"{letter}{digit}" for letter in "abc" for digit in range(6)]
    return [_record(name, "names", at, start_ms, key) for at, key in enumerate(keys, -len(keys))]


def _records(name: str, begin: int, count: int, start_ms: int) -> Iterator[ks.TopicRecord]:
    for at in range(begin, begin + count):
        chance = random.Random(at)
        key = f"{chance.choice('abcd')}{chance.randrange(6)}"
        units = at // BATCH * BATCH + at * 7 % BATCH // 4 * 4 + chance.randrange(4)
        time_ms = start_ms + units * UNIT_MS
        yield _record(name, chance.choice(_SHARES), at, time_ms, key)
        if key[0] == "a":
            yield _record(name, "names", at, time_ms, key)


def _record(name: str, topic: str, at: int, time_ms: int, key: str) -> ks.TopicRecord:
    value = ord(key[0]) if topic == "names" else None if topic in ("orders", "items") and at % 7 == 0 else at
    headers = ((topic, str(at).encode()), ("empty", None)) if at % 3 else ()
    partition = (ord(key[0]) + int(key[1])) % PARTITIONS
    return ks.TopicRecord(f"{name}-{topic}", partition, max(at, 0), time_ms, key, value, headers)


def rows_of(holder: Any, store: str) -> list[str]:
    """The rows of a store of a query or a test driver, as text."""
    return sorted(map(repr, holder.store(store, timestamps=True).all()))
