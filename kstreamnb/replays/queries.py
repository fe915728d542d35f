"""Answers questions about a run: dropped records, open windows, missing output, provenance."""

from __future__ import annotations

from kstreamnb.core.record import TopicRecord
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.replays.analysis.provenance import Provenance, provenance_of
from kstreamnb.replays.analysis.record_trace import RecordedInput
from kstreamnb.replays.explain import dropped, joins, outputs, partitions, windows
from kstreamnb.replays.explain.explanation import Explanation, Explanations

__all__ = ["Queries"]


class Queries:
    """Queries over a whole run. Answers carry text, numbers, and the steps to look at."""

    run: RecordedRun

    def record(self, topic: str, partition: int, offset: int) -> RecordedInput:
        """Return a consumed input record; its ``.trace()`` holds everything that it caused."""
        return RecordedInput(self.run, topic, partition, offset)

    def provenance(self, record: TopicRecord | tuple[str, int, int]) -> Provenance:
        """Return the input records that contributed to a record, given itself or as (topic, partition, offset)."""
        return provenance_of(self.run, *record[:3])

    def why_dropped(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        *,
        node: str | None = None,
        key: object = None,
    ) -> Explanations:
        """Explain drops: all of them, or those of one input record, node or key."""
        return dropped.why_dropped(self.run, topic, partition, offset, node=node, key=key)

    def why_open(self, store: str | None = None, key: object = None, *, at: int | None = None) -> Explanations:
        """Explain open windows after ``at`` steps (default: the end), and what would close them."""
        return windows.why_open(self.run, store, key, at=at)

    def why_no_output(self, topic: str) -> Explanation:
        """Explain where records stopped on their way to a topic."""
        return outputs.why_no_output(self.run, topic)

    def why_no_match(self, node: str | None = None, key: object = None) -> Explanations:
        """Explain why records found no partner in joins: the window they searched, and the nearest candidates."""
        return joins.why_no_match(self.run, node, key)

    def why_cut(self, topic: str | None = None) -> Explanations:
        """Explain why the topology is split into sub-topologies."""
        return partitions.why_cut(self.run.topology, topic)

    def why_partition(self, key: object, topic: str | None = None) -> Explanations:
        """Explain which partition a key belongs to."""
        return partitions.why_partition(self.run, key, topic)
