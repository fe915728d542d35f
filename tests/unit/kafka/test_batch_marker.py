"""Which batches are replays, which are new, and which contradict the marker in Kafka."""

from __future__ import annotations

import pytest

from kstreamnb.errors import ApplicationStateError, CheckpointError, DataLossError, EngineError
from kstreamnb.kafka.output_batch import Marker, checksum_of
from kstreamnb.kafka.transactional_writer import TransactionalWriter


def _writer(last: int | None) -> TransactionalWriter:
    """A writer that knows the last batch in Kafka; nothing listens at its address."""
    writer = TransactionalWriter("127.0.0.1:1", "app", "q1")
    writer.marker = None if last is None else Marker("q1", last, checksum_of(f"offsets {last}"), "")
    return writer


def _is_replay(writer: TransactionalWriter, batch: int, entry: str) -> bool:
    return writer._history().is_replay(writer.marker, batch, entry)


@pytest.mark.parametrize(("last", "batch", "replay"), [(None, 0, False), (0, 0, True), (4, 4, True), (4, 5, False)])
def test_only_the_batch_of_the_marker_is_a_replay(last: int | None, batch: int, replay: bool) -> None:
    """The next one is new."""
    assert replay == _is_replay(_writer(last), batch, f"offsets {batch}")


@pytest.mark.parametrize(
    ("last", "batch", "error", "words"),
    [
        (None, 1, DataLossError, 'batch 1 of "app" follows no earlier batch'),
        (4, 6, DataLossError, 'batch 5 of "app" is missing in Kafka'),
        (1, 7, DataLossError, 'batches 2 to 6 of "app" are missing in Kafka'),
        (4, 3, CheckpointError, "came after batch 4 was published to Kafka"),
    ],
)
def test_batches_that_contradict_the_marker_are_refused(
    last: int | None, batch: int, error: type[EngineError], words: str
) -> None:
    """A gap hides lost batches; an older batch comes from an older copy of the checkpoint."""
    with pytest.raises(error, match=words):
        _is_replay(_writer(last), batch, f"offsets {batch}")


def test_batches_without_input_leave_no_gap() -> None:
    """A rescaling writes a batch that is never published."""
    writer = _writer(4)
    writer.without_output = {5}
    assert not _is_replay(writer, 6, "offsets 6")
    with pytest.raises(DataLossError, match="batch 6"):
        _is_replay(writer, 7, "offsets 7")


def test_a_writer_that_is_not_open_says_so() -> None:
    """Nothing is published before `open`, or after `close`."""
    writer = _writer(0)
    writer.close()
    with pytest.raises(ApplicationStateError, match="the writer is not open"):
        writer.publish(1, "offsets 1", [])
