"""What one record caused: every step that it, or a record made from it, went through, across repartition topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from kstreamnb.core.displayed import Displayed
from kstreamnb.core.formatting import format_time, format_value
from kstreamnb.core.record import TopicRecord
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.steps import Step
from kstreamnb.replays.analysis.state_diff import state_diff

__all__ = ["RecordTrace", "RecordedInput"]


class RecordTrace(Sequence[Step], Displayed):
    """The steps that a record caused, in order, its own first; ``depth`` tells how many topics lie between.

    What waits in a store or buffer and comes out later belongs to the record that let it out.
    """

    def __init__(self, run: RecordedRun, places: Sequence[int]) -> None:
        self._run = run
        self.depth: dict[int, int] = {}
        ahead = [(place, 0) for place in places]
        while ahead:
            place, depth = ahead.pop(0)
            step = run.history.step_of(place)
            self.depth[step] = depth
            for written in run.history.span(step):
                ahead += [(taken, depth + 1) for taken in run.effects.get(written, ())]
        self._steps = [run.steps[step - 1] for step in sorted(self.depth)]

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Step]: ...
    def __getitem__(self, index: int | slice) -> Step | Sequence[Step]:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def outputs(self) -> tuple[TopicRecord, ...]:
        """Records that it led to on topics which the application does not read."""
        read = self._run.effects
        return tuple(record for step in self._steps for place, record in self._written(step) if place not in read)

    def _written(self, step: Step) -> Iterator[tuple[int, TopicRecord]]:
        for place in self._run.history.span(step.number):
            run = self._run.owner(place)
            if run.history.code(place).kind == "produced":
                yield place, run.produced(place)

    def __str__(self) -> str:
        return "\n".join(line for step in self._steps for line in self._lines(step))

    def _lines(self, step: Step) -> Iterator[str]:
        indent = "  " * self.depth[step.number]
        yield f"{indent}{step.title}"
        nodes = dict.fromkeys(hop.child for hop in step.forwarded)
        if nodes:
            yield f"{indent}  by way of {', '.join(nodes)}"
        for change in self._changes(step):
            yield f"{indent}  {change}"
        for record in step.produced:
            about = (
                f"key {format_value(record.key)}, value {format_value(record.value)}, time "
                f"{format_time(record.timestamp)}"
            )
            yield f"{indent}  wrote {record.topic}-{record.partition}@{record.offset} ({about})"
        for drop in step.dropped:
            yield f"{indent}  dropped at {drop.node}: {drop.reason}"

    def _changes(self, step: Step) -> Iterator[str]:
        run = self._run.owner(self._run.history.starts[step.number - 1])
        for change in state_diff(run, step.number - 1, step.number):
            yield (
                f"store {change.store}: key {format_value(change.key)} from {format_value(change.old)} to "
                f"{format_value(change.new)}"
            )


class RecordedInput(Displayed):
    """One record that the application took."""

    def __init__(self, run: RecordedRun, topic: str, partition: int, offset: int) -> None:
        self._run = run
        self._places = run.find_input(topic, partition, offset)
        self.record = run.consumed(self._places[0])

    def trace(self) -> RecordTrace:
        """Everything that it caused."""
        return RecordTrace(self._run, self._places)

    def __str__(self) -> str:
        record: Any = self.record
        place = f"{record.topic}-{record.partition}@{record.offset}"
        return (
            f"{place}: key {format_value(record.key)}, value {format_value(record.value)}, time "
            f"{format_time(record.timestamp)}"
        )
