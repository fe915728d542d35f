"""Answers questions about a run: dropped records, open windows, missing output, provenance."""

from __future__ import annotations

from typing import Literal

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Instant
from kstreamnb.errors import ConfigError
from kstreamnb.replays.analysis.provenance import Provenance, provenance_of
from kstreamnb.replays.analysis.record_trace import RecordedInput
from kstreamnb.replays.analysis.time_chart import TimeChart
from kstreamnb.replays.analysis.time_lanes import Lanes, time_chart
from kstreamnb.replays.explain import dropped, joins, outputs, partitions, windows
from kstreamnb.replays.navigation import Navigation


class Queries(Navigation):
    """Queries over a whole run. Answers carry text, numbers, and the steps to look at."""

    def record(self, topic: str, partition: int, offset: int) -> RecordedInput:
        """Return a consumed input record; its ``.trace()`` returns everything that it caused.

        Args:
            topic: name of the input topic.
            partition: number of the partition, counted from 0.
            offset: position in the partition, counted from 0.
        """
        check_arguments(Queries.record, locals())
        return RecordedInput(self.run, topic, partition, offset)

    def provenance(self, record: TopicRecord | tuple[str, int, int]) -> Provenance:
        """Return the input records that contributed to a record: pass the record, or its (topic, partition, offset).

        Args:
            record: a record of an output or internal topic, or its topic, partition and offset.

        Raises: ConfigError if it is neither a record nor its topic, partition and offset.
        """
        expect(record, tuple, "record", hint="pass a record, or (topic, partition, offset)")
        if len(record) < 3:
            raise ConfigError(f"expected (topic, partition, offset), got {record!r}")
        return provenance_of(self.run, *record[:3])

    def timeline(
        self,
        store: str | None = None,
        *,
        by: Literal["key", "task"] = "key",
        key: object = None,
        between: tuple[Instant, Instant] | None = None,
        most: int = 12,
    ) -> TimeChart:
        r"""Return a picture of the run over event time, with a table of the same facts.

        Each lane holds the records of a key as dots at their event time. A line leads from a dot to stream time on
        its arrival; late records are red crosses. Bars are windows from start to end, then their grace, and a diamond
        at the stream time that closes them. Above the lanes of a task, its records are drawn by order of arrival, with
        the line of stream time. For a join, a lane has both sides and a line for each pair.

        Args:
            store: the store; default: the first windowed aggregate, else the first join, store, or the input.
            by: "key" for a lane per key, "task" for a lane per task. Default: "key".
            key: show only this key. Default: all keys.
            between: first and last event time, both included; default: all.
            most: the maximum number of lanes; keys with dropped records come first. At most 400 records are drawn.
                Default: 12.

        Raises: StateError for an unknown store, EngineError for lanes that cannot be drawn.

        Example:
            >>> import kstreamnb as ks
            >>> builder = ks.StreamsBuilder("clicks")
            >>> windows = ks.TimeWindows.of(size="10s", grace="5s")
            >>> clicks = builder.stream("clicks").group_by_key().windowed_by(windows).count(store="counts")
            >>> text = "key | value | time\nann | 1 | 1000\nann | 1 | 26000\nann | 1 | 2000"
            >>> chart = ks.replay(builder.build(), ks.Sample.from_text(text, topic="clicks")).timeline("counts")
            >>> chart.title
            'timeline of store "counts" (windows of 10s, grace 5s): 1 key, 3 records, 1 late'
        """
        check_arguments(Queries.timeline, locals())
        return time_chart(self.run, store, Lanes.checked(by, key, between, most))

    why_dropped = dropped.why_dropped
    why_open = windows.why_open
    why_no_output = outputs.why_no_output
    why_no_match = joins.why_no_match
    why_cut = partitions.why_cut
    why_partition = partitions.why_partition
