"""What a run can be asked: why a record was dropped, a window is open or nothing came out, and what made a result."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.record import TopicRecord
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.replays.analysis.provenance import Provenance, provenance_of
from kstreamnb.replays.analysis.record_trace import RecordedInput
from kstreamnb.replays.explain import dropped, joins, outputs, partitions, windows
from kstreamnb.replays.explain.explanation import Explanation, Explanations

__all__ = ["Queries"]


class Queries:
    """Questions about a whole run; answers are values with text, numbers, and the steps to look at."""

    run: RecordedRun

    def record(self, topic: str, partition: int, offset: int) -> RecordedInput:
        """A record that the application took: ``.trace()`` gives all that it caused."""
        return RecordedInput(self.run, topic, partition, offset)

    def provenance(self, record: TopicRecord | tuple[str, int, int]) -> Provenance:
        """All input records that contributed to an output record, given itself or as (topic, partition, offset)."""
        return provenance_of(self.run, *record[:3])

    def why_dropped(
        self,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        *,
        node: str | None = None,
        key: Any = None,
    ) -> Explanations:
        """Why records were dropped: all of them, or those of one input record, node or key."""
        return dropped.why_dropped(self.run, topic, partition, offset, node=node, key=key)

    def why_open(self, store: str | None = None, key: Any = None, *, at: int | None = None) -> Explanations:
        """Why windows are open, after ``at`` steps or at the end, and what would close them."""
        return windows.why_open(self.run, store, key, at=at)

    def why_no_output(self, topic: str) -> Explanation:
        """Where the records stopped that could have led to records of a topic."""
        return outputs.why_no_output(self.run, topic)

    def why_no_match(self, node: str | None = None, key: Any = None) -> Explanations:
        """Why records found no partner in joins: how far they looked, and what came nearest."""
        return joins.why_no_match(self.run, node, key)

    def why_cut(self, topic: str | None = None) -> Explanations:
        """Why the topology is in several sub-topologies."""
        return partitions.why_cut(self.run.topology, topic)

    def why_partition(self, key: Any, topic: str | None = None) -> Explanations:
        """Which partition a key goes to, and how that is found."""
        return partitions.why_partition(self.run, key, topic)
