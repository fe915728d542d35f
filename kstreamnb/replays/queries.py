"""Answers questions about a run: dropped records, open windows, missing output, provenance."""

from __future__ import annotations

from typing import Literal

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.time import Instant
from kstreamnb.errors import ConfigError
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.replays.analysis.provenance import Provenance, provenance_of
from kstreamnb.replays.analysis.record_trace import RecordedInput
from kstreamnb.replays.analysis.time_chart import TimeChart
from kstreamnb.replays.analysis.time_lanes import Lanes, time_chart
from kstreamnb.replays.explain import dropped, joins, outputs, partitions, windows
from kstreamnb.replays.explain.explanation import Explanation, Explanations


class Queries:
    """Queries over a whole run. Answers carry text, numbers, and the steps to look at."""

    run: RecordedRun

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
            most: the greatest number of lanes; keys with dropped records come first. At most 400 records are drawn.
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

    def why_dropped(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        *,
        node: str | None = None,
        key: object = None,
    ) -> Explanations:
        """Explain drops: all of them, or those of one input record, node or key.

        Args:
            topic: name of the input topic. Default: any.
            partition: number of the partition. Default: any.
            offset: position in the partition. Default: any.
            node: name of the node that dropped the record. Default: any.
            key: key of the record. Default: any.
        """
        check_arguments(Queries.why_dropped, locals())
        return dropped.why_dropped(self.run, topic, partition, offset, node=node, key=key)

    def why_open(self, store: str | None = None, key: object = None, *, at: int | None = None) -> Explanations:
        """Explain open windows after ``at`` steps (default: the end), and what would close them.

        Args:
            store: name of the store. Default: all stores with windows.
            key: key of the window. Default: any.
            at: number of steps. Default: the end of the run.
        """
        check_arguments(Queries.why_open, locals())
        return windows.why_open(self.run, store, key, at=at)

    def why_no_output(self, topic: str, key: object = None) -> Explanation:
        """Explain where records stopped on their way to a topic: all of them, or those of one key.

        Args:
            topic: name of the output topic.
            key: key of the record, at the node where it stopped or at one before it. Default: any.
        """
        check_arguments(Queries.why_no_output, locals())
        return outputs.why_no_output(self.run, topic, key)

    def why_no_match(self, node: str | None = None, key: object = None) -> Explanations:
        """Explain why records found no partner in joins: the window they searched, and the nearest candidates.

        Args:
            node: name of the join. Default: all joins.
            key: key of the record. Default: any.
        """
        check_arguments(Queries.why_no_match, locals())
        return joins.why_no_match(self.run, node, key)

    def why_cut(self, topic: str | None = None) -> Explanations:
        """Explain why the topology is split into sub-topologies.

        Args:
            topic: name of the repartition topic. Default: all of them.
        """
        check_arguments(Queries.why_cut, locals())
        return partitions.why_cut(self.run.topology, topic)

    def why_partition(self, key: object, topic: str | None = None) -> Explanations:
        """Explain which partition a key belongs to.

        Args:
            key: the key, before it is serialised.
            topic: name of the topic. Default: all topics that the topology reads.
        """
        check_arguments(Queries.why_partition, locals())
        return partitions.why_partition(self.run, key, topic)
