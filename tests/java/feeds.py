"""Input of the topologies, in two halves; and records of topics by partition."""

from __future__ import annotations

import random
import time
from typing import Any, TypeAlias

import kstreamnb as ks
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.bounded_reader import BoundedReader, fetch, pieces_between
from kstreamnb.kafka.capture import ends_of
from kstreamnb.kafka.producer import produce
from tests.java.topologies import INPUT, INPUTS, TABLE_FIRST

__all__ = [
    "COUNT",
    "PARTITIONS",
    "Records",
    "committed_topics",
    "feed",
    "input_records",
    "new_topics",
    "raw_records",
    "records_of",
    "topics_of",
]

PARTITIONS, COUNT = 4, 600
_START_MS, _STEP_MS, _JITTER_MS, _GAP_MS, _CALM = 1_790_000_000_000, 97, 6_000, 970, 60

Records: TypeAlias = dict[int, list[tuple[bytes | None, bytes | None, int]]]
"""By partition: key, value and timestamp."""


def topics_of(name: str, prefix: str) -> list[str]:
    """Input topics of a topology."""
    return [f"{prefix}-{side}" for side in INPUTS[name]]


def committed_topics(name: str, prefix: str) -> list[str]:
    """Input topics whose offsets Java commits: all except that of a global table."""
    return [f"{prefix}-left"] if name == "global-join" else topics_of(name, prefix)


def input_records(name: str, prefix: str) -> list[ks.TopicRecord]:
    """Records of all input topics: every time is unique, some come late, and tables lose rows.

    At the middle there is a gap without late records right after it: the first half is a prefix of the merged order of
    all partitions, so processing the halves one after the other changes nothing. A global table gets its rows first,
    because Java fills it in a separate thread.
    """
    chance = random.Random(7)
    topics, found = topics_of(name, prefix), []
    table_first = name in TABLE_FIRST
    for at in range(COUNT):
        calm = 0 <= at - COUNT // 2 < _CALM
        late = chance.randrange(_JITTER_MS) if chance.random() < 0.2 else chance.randrange(400)
        late = (0 if calm else late) - _GAP_MS * (at >= COUNT // 2)
        side = at >= COUNT // 4 if table_first else not at % len(topics)
        moment = _START_MS + at * _STEP_MS - late // 97 * 97 + at % 97
        if name in INPUT:
            of = INPUT[name][not side]
            assert of is not None
            found.append(ks.TopicRecord(topics[not side], -1, at, moment, *of(chance, at)))
            continue
        topic, key = topics[not side], f"k{chance.randrange(9)}"
        deletes = topic.endswith("-right") and chance.random() < 0.05
        value = None if deletes else f"{chance.choice('abcdefgh')}{chance.randrange(9)}{at % 7}"
        found.append(ks.TopicRecord(topic, -1, at, moment, key, value))
    return found


def new_topics(admin: Admin, name: str, prefix: str) -> None:
    """Create the topics of a prefix."""
    for topic in [*topics_of(name, prefix), f"{prefix}-out"]:
        admin.create_topic(topic, partitions=PARTITIONS)


def feed(servers: str, name: str, prefix: str, half: int) -> None:
    """Produce one half of the input."""
    records = input_records(name, prefix)
    middle = len(records) // 2
    half_records = records[:middle] if half == 0 else records[middle:]
    values = ks.Serdes.json() if isinstance(records[0].value, dict) else ks.Serdes.string()
    produce(servers, half_records, key_serde=ks.Serdes.string(), value_serde=values)


def records_of(servers: str, topic: str, patience_s: float = 20.0) -> Records:
    """Committed records of a topic, each partition in its order."""
    found: Records = {}
    for _, partition, _, timestamp, key, value, _ in raw_records(servers, topic, patience_s):
        found.setdefault(partition, []).append((key, value, timestamp))
    return dict(sorted(found.items()))


def raw_records(servers: str, topic: str, patience_s: float = 20.0) -> list[tuple[Any, ...]]:
    """Committed records: topic, partition, offset, timestamp, key, value, headers."""
    admin, end = Admin(servers), time.monotonic() + patience_s
    while admin.offsets([topic]) != admin.offsets([topic], committed=False) and time.monotonic() < end:
        time.sleep(0.02)
    reader = BoundedReader(servers, [topic])
    pieces = pieces_between(reader.beginning(), ends_of(reader))
    return [(topic, partition, *record) for topic, partition, batch in fetch(servers, pieces) for record in batch]
