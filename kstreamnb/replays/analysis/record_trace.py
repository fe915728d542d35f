"""Follows one record through every step that it caused, across repartition topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import format_value
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.tables import FrozenSequence
from kstreamnb.recording.record_text import describe_content, record_id
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Step
from kstreamnb.replays.analysis.state_diff import state_diff


class RecordTrace(FrozenSequence[Step], Displayed):
    """The steps that a record caused, in order, starting with its own; ``depth`` counts the topics in between.

    Records that are emitted later from a store or buffer belong to the record that triggered them.
    """

    def __init__(self, run: RecordedRun, positions: Sequence[int]) -> None:
        self._run = run
        self.depth: dict[int, int] = {}
        pending = [(position, 0) for position in positions]
        while pending:
            position, depth = pending.pop(0)
            step = run.index.step_of(position)
            self.depth[step] = depth
            for written in run.index.span(step):
                pending += [(taken, depth + 1) for taken in run.effects.get(written, ())]
        self._items = [run.steps[step - 1] for step in sorted(self.depth)]

    @property
    def outputs(self) -> tuple[TopicRecord, ...]:
        """Output records that it caused, on topics that the application does not read."""
        read = self._run.effects
        return tuple(record for step in self for position, record in self._written(step) if position not in read)

    def _written(self, step: Step) -> Iterator[tuple[int, TopicRecord]]:
        for position in self._run.index.span(step.number):
            run = self._run.owner(position)
            if run.index.code(position).kind == "produced":
                yield position, run.produced(position)

    def __str__(self) -> str:
        return "\n".join(line for step in self for line in self._lines(step))

    def _lines(self, step: Step) -> Iterator[str]:
        indent = "  " * self.depth[step.number]
        yield f"{indent}{step.title}"
        nodes = dict.fromkeys(hop.child for hop in step.forwarded)
        if nodes:
            yield f"{indent}  by way of {', '.join(nodes)}"
        for change in self._changes(step):
            yield f"{indent}  {change}"
        for record in step.produced:
            content = describe_content(record.key, record.value, record.timestamp)
            yield f"{indent}  wrote {record_id(record)} ({content})"
        for drop in step.dropped:
            yield f"{indent}  dropped at {drop.node}: {drop.reason}"

    def _changes(self, step: Step) -> Iterator[str]:
        run = self._run.owner(self._run.index.starts[step.number - 1])
        for change in state_diff(run, step.number - 1, step.number):
            key, old, new = map(format_value, (change.key, change.old, change.new))
            yield f"store {change.store}: key {key} from {old} to {new}"


class RecordedInput(Displayed):
    """One consumed input record."""

    def __init__(self, run: RecordedRun, topic: str, partition: int, offset: int) -> None:
        self._run = run
        self._positions = run.find_input(topic, partition, offset)
        self.record = run.consumed(self._positions[0])

    def trace(self) -> RecordTrace:
        """Return every step that the record caused."""
        return RecordTrace(self._run, self._positions)

    def __str__(self) -> str:
        record = self.record
        return f"{record_id(record)}: {describe_content(record.key, record.value, record.timestamp)}"
