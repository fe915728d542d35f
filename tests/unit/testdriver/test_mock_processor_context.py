"""A processor alone under test: the mock context records its calls."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.testdriver.mock_processor_context import CapturedForward


class Alarm(ks.Processor[str, int, str, int]):
    """Sends large values to "alarm", all values to every child, requests commits, and forwards its time in a
    punctuator.
    """

    def init(self, context: Any) -> None:
        super().init(context)
        self.wake = context.schedule("10ms", ks.PunctuationType.STREAM_TIME, self.tick, start=5)

    def process(self, record: ks.Record[str, int]) -> None:
        store = self.context.get_state_store("largest")
        store.put(record.key, max(record.value, store.get(record.key) or 0))
        self.context.forward(record)
        if record.value > 10:
            self.context.forward(record, "alarm")
            self.context.commit()

    def tick(self, now_ms: int) -> None:
        metadata = self.context.record_metadata()
        times = (self.context.current_stream_time_ms(), self.context.current_system_time_ms())
        self.context.forward(ks.Record("tick", [metadata, *times], now_ms))


@pytest.fixture
def context() -> ks.testing.MockProcessorContext:
    """A context with the processor's store."""
    made = ks.testing.MockProcessorContext(application_id="shop", task_id="1_2", configs={"limit": 10})
    made.add_state_store(ks.Stores.in_memory_key_value_store("largest", value_serde="long"))
    return made


def test_forwards_are_noted_with_the_child_they_named(context: ks.testing.MockProcessorContext) -> None:
    """Records for all children go to each child as well."""
    alarm = Alarm()
    alarm.init(context)
    small, large = ks.Record("a", 1, 0), ks.Record("a", 11, 1)
    alarm.process(small)
    assert not context.committed()
    alarm.process(large)
    to_all = [CapturedForward(small, None), CapturedForward(large, None)]
    assert [*to_all, CapturedForward(large, "alarm")] == context.forwarded() == context.forwarded("alarm")
    assert to_all == context.forwarded("other")
    assert context.committed()
    assert context.get_state_store("largest").get("a") == 11
    context.reset_forwards()
    context.reset_commit()
    assert ([], False) == (context.forwarded(), context.committed())


def test_punctuators_are_captured_and_run_by_hand(context: ks.testing.MockProcessorContext) -> None:
    """Times and metadata are those set by the test; a cancelled schedule is marked."""
    alarm = Alarm()
    alarm.init(context)
    (captured,) = context.scheduled_punctuators()
    assert (10, "stream_time", 5) == (captured.interval_ms, captured.kind, captured.start_ms)
    context.set_record_metadata("in", 3, 7)
    context.set_current_stream_time_ms(15)
    context.set_current_system_time_ms(99)
    captured.punctuate(15)
    (tick,) = context.forwarded()
    assert [ks.RecordMetadata("in", 3, 7), 15, 99] == tick.record.value
    assert not captured.cancelled
    alarm.wake.cancel()
    assert captured.cancelled


def test_the_application_is_what_the_test_says(context: ks.testing.MockProcessorContext) -> None:
    """Ids, settings and default serdes."""
    assert ("shop", "1_2", {"limit": 10}) == (context.application_id, context.task_id, context.app_configs())
    assert ("string", "json") == (context.key_serde().name, context.value_serde().name)


def test_a_store_that_was_not_added_is_named(context: ks.testing.MockProcessorContext) -> None:
    """The error lists the stores; a store created by the test is accepted."""
    with pytest.raises(ks.errors.StateError, match='store "nope" is not known') as caught:
        context.get_state_store("nope")
    assert caught.value.detail == 'known: "largest"'

    class Own:
        name = "own"

    own = Own()
    context.add_state_store(own)
    assert context.get_state_store("own") is own


def test_a_row_that_is_too_old_is_refused_without_an_error() -> None:
    """Windowed stores expire as in a task."""
    context = ks.testing.MockProcessorContext()
    context.add_state_store(ks.Stores.in_memory_window_store("hits", retention="10ms", window_size="5ms"))
    hits = context.get_state_store("hits")
    hits.put("a", 1, 100)
    hits.put("a", 1, 5)
    assert [(("a", 100), 1)] == [((window.key, window.start), value) for window, value in hits.all()]
