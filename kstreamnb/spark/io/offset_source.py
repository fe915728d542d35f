"""The source of a query's records: topics in Kafka.

It knows offsets and reads pieces; `stream_source` turns pieces into rows for tasks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from kstreamnb.core.time import Instant
from kstreamnb.errors import EngineError
from kstreamnb.kafka.batch_offsets import Offsets, ranges
from kstreamnb.spark.contracts import Chunk

if TYPE_CHECKING:  # Kafka's client is loaded by connections alone
    from kstreamnb.kafka.bounded_reader import BoundedReader, TopicFollower
    from kstreamnb.kafka.client import Servers

FEW_RECORDS = 2000
"""The records of the largest batch that is read by the process that plans it."""
_GLANCE_S = 2.0  # Prometheus gives up a scrape after 10 s

Starting: TypeAlias = Instant | Mapping[int, int]
"""Where to begin a topic: "earliest", "latest", a time in ms, or offsets by partition."""


@dataclass
class KafkaOffsetSource:
    """Topics of a Kafka cluster.

    ``starting`` says where each topic begins; a topic that it does not name begins with its first record.
    """

    servers: Servers = field(repr=False)
    topics: tuple[str, ...]
    global_topics: tuple[str, ...] = ()
    starting: Mapping[str, Starting] = field(default_factory=dict)
    fail_on_loss: bool = True
    patience_s: float = 300.0
    raw: bool = True
    removed: Sequence[tuple[str, int, int, int]] = field(default=(), init=False)
    _reader: BoundedReader | None = field(default=None, repr=False, init=False)
    _glancing: BoundedReader | None = field(default=None, repr=False, init=False)
    _follower: TopicFollower | None = field(default=None, repr=False, init=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reader": None, "_glancing": None, "_follower": None}

    def _own_reader(self) -> BoundedReader:
        """Return the reader of this process."""
        self._reader = self._reader or self._new_reader(self.patience_s)
        return self._reader

    def _new_reader(self, patience_s: float) -> BoundedReader:
        from kstreamnb.kafka.bounded_reader import BoundedReader

        return BoundedReader(self.servers, sorted({*self.topics, *self.global_topics}), patience_s=patience_s)

    def beginning(self) -> Offsets:
        """Return the first offsets according to ``starting``; global topics always begin with their first record."""
        reader = self._own_reader()
        first = reader.beginning()
        known: dict[Any, Offsets] = {"earliest": first}
        chosen: Offsets = {}
        for topic, parts in first.items():
            word = "earliest" if topic in self.global_topics else self.starting.get(topic, "earliest")
            if isinstance(word, Mapping):
                chosen[topic] = {**parts, **word}
                continue
            if word not in known:
                known[word] = reader.end() if word == "latest" else reader.at_time(word)
            chosen[topic] = known[word][topic]
        return chosen

    def resolved(self) -> KafkaOffsetSource:
        """Resolve words and times to offsets now, so that later reads agree."""
        return replace(self, starting=self.beginning())

    def end(self) -> Offsets:
        """Return the last stable offsets."""
        return self._own_reader().end()

    def follow(self, begin: Offsets) -> None:
        """Receive the records after these offsets as they arrive; again if what came before them did not arrive."""
        from kstreamnb.kafka.bounded_reader import TopicFollower

        if self._follower is not None and not self._follower.has_seen(begin):
            self.close()
        self._follower = self._follower or TopicFollower(self.servers, begin, most=FEW_RECORDS)

    def arrived(self, begin: Offsets, seconds: float) -> Offsets | None:
        """Return the offsets after the records that have arrived; None if they have to be looked up."""
        if self._follower is None:
            return None
        offsets = None
        with suppress(EngineError):  # a look-up reports it, with more patience
            offsets = self._follower.wait(begin, seconds)
        if offsets is None:
            self.close()
        return offsets

    def close(self) -> None:
        """Close the connection that receives records."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def glance(self) -> Offsets | None:
        """Return the last stable offsets if a broker answers soon, for callers that only report; else None."""
        self._glancing = self._glancing or self._new_reader(_GLANCE_S)
        try:
            return self._glancing.end()
        except EngineError:
            return None

    def batch_end(self, start: Offsets, end: Offsets, limit: int) -> Offsets:
        """Return the end of the records that come first by event time; all of global topics, because they precede the
        others.
        """
        own = {topic: parts for topic, parts in end.items() if topic not in self.global_topics}
        begin = {topic: start.get(topic, {}) for topic in own}
        return {**end, **self._own_reader().batch_end(begin, own, limit)}

    def check(self, start: Offsets, end: Offsets) -> None:
        """Raise DataLossError if records were lost, unless that is allowed."""
        if self.fail_on_loss:
            self._own_reader().check(start, end)

    def skipped(self, start: Offsets, end: Offsets) -> dict[str, dict[str, list[int]]]:
        """Return where records of a batch that the cluster has removed begin and end, by topic and partition.

        Also if loss is not allowed: the batch fails, but a deployment that allows it runs the same batch.
        """
        gaps: dict[str, dict[str, list[int]]] = {}
        beginning = self._own_reader().beginning()
        for topic, partition, offset, last in ranges(start, end):
            first = min(beginning.get(topic, {}).get(partition, offset), last)
            if first > offset:
                gaps.setdefault(topic, {})[str(partition)] = [offset, first]
        return gaps

    def now_ms(self) -> int:
        """Return the machine's clock."""
        return int(time.time() * 1000)  # noqa: TID251 - the one place where time enters

    def read(self, pieces: Sequence[tuple[str, int, int, int]]) -> Iterator[Chunk]:
        """Yield records with Kafka's bytes."""
        from kstreamnb.kafka.bounded_reader import Piece, fetch

        wanted = [Piece(*piece) for piece in pieces]
        self.removed = removed = list[Piece]()
        received = None if self._follower is None else self._follower.take(wanted)
        skipped = None if self.fail_on_loss else removed
        records = fetch(self.servers, wanted, skipped=skipped) if received is None else received
        yield from ((*each, None) for each in records)
