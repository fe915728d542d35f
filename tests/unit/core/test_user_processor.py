"""Users' processors: records in, records out, and the services of their context."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kstreamnb.core.processor import (
    FixedKeyProcessor,
    Processor,
    ProcessorContext,
    PunctuationType,
    UserFixedKeyProcessor,
    UserProcessor,
)
from kstreamnb.core.record import Record, RecordMetadata
from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import ProcessingError, StateError
from tests.unit.operators.fake_context import FakeContext

COUNTS = StoreSpec("counts", "key_value")


class Repeat(Processor[Any, Any, Any, Any]):
    """Forwards each value twice, the second time to a named child."""

    def process(self, record: Record[Any, Any]) -> None:
        """Forward twice."""
        self.context.forward(record.with_value(record.value + "1"))
        self.context.forward(record.with_value(record.value + "2"), "child")


def test_a_processor_gets_records_and_forwards_records() -> None:
    """with_value keeps key, time and headers; a child is called by its name."""
    context = FakeContext(children=("child",))
    feed = context.bind(UserProcessor(Repeat))
    headers = (("h", b"1"),)
    assert feed("k", "a", 5, headers) == [("k", "a1", 5, headers), ("child", "k", "a2", 5, headers)]


def test_an_unknown_child_is_named() -> None:
    """Forwarding to a node that is not a child fails with its name."""
    feed = FakeContext().bind(UserProcessor(Repeat))
    with pytest.raises(ProcessingError, match='no child "child"'):
        feed("k", "a", 5)


def test_every_task_has_a_processor_of_its_own() -> None:
    """Binding twice creates two processors; close is called for each when its task ends."""
    made: list[Any] = []

    class Once(Processor[Any, Any, Any, Any]):
        def __init__(self) -> None:
            made.append(self)
            self.closed = False

        def process(self, record: Record[Any, Any]) -> None:
            self.context.commit()

        def close(self) -> None:
            self.closed = True

    operator, contexts = UserProcessor(Once), [FakeContext(), FakeContext()]
    for context in contexts:
        context.bind(operator)("k", "v", 1)
    assert len(made) == 2
    assert [context.commits for context in contexts] == [1, 1]
    contexts[1].closers[0]()
    assert [p.closed for p in made] == [False, True]


def test_a_plain_object_with_process_is_enough() -> None:
    """Init and close are optional."""
    seen = []

    class Plain:
        def process(self, record: Record[Any, Any]) -> None:
            seen.append(record)

    FakeContext().bind(UserProcessor(Plain))("k", "v", 1)
    assert seen == [Record("k", "v", 1)]


def test_a_processor_that_cannot_start_stops_its_task() -> None:
    """An error in init is raised; the task names the processor."""

    class Broken(Processor[Any, Any, Any, Any]):
        def init(self, context: ProcessorContext) -> None:
            context.get_state_store("absent")

    with pytest.raises(StateError, match='has no access to store "absent"'):
        FakeContext().bind(UserProcessor(Broken))


def test_only_records_can_be_forwarded_and_never_before_the_epoch() -> None:
    """A tuple is not a record, and a negative time is refused when the record is created."""

    class Tuples(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(("k", "v"))  # type: ignore[arg-type]

    with pytest.raises(ProcessingError, match='forwarded a "tuple" instead of a record'):
        FakeContext().bind(UserProcessor(Tuples), node="p")("k", "v", 1)
    with pytest.raises(ProcessingError, match="timestamp of a record must not be negative, got -1"):
        Record("k", "v", 0).with_timestamp(-1)


class Report(Processor[Any, Any, Any, Any]):
    """Counts records and forwards the count every ten units of a clock."""

    kind = PunctuationType.STREAM_TIME

    def init(self, context: ProcessorContext) -> None:
        """Get the store and start the punctuator."""
        super().init(context)
        self.counts = context.get_state_store("counts")
        self.job = context.schedule(timedelta(milliseconds=10), self.kind, self.report, start=5)

    def process(self, record: Record[Any, Any]) -> None:
        """Count one."""
        seen = self.counts.get("n")
        self.counts.put("n", str(int(seen or "0") + 1))
        self.context.forward(record.with_value(str(self.context.record_metadata())))

    def report(self, now: int) -> None:
        """Tell and stop."""
        times = f"{self.context.current_stream_time_ms()}/{self.context.current_system_time_ms()}"
        where = self.context.record_metadata()
        self.context.forward(Record("n", f"{self.counts.get('n')}@{times} {where}", now))
        self.job.cancel()


def test_punctuators_see_the_store_the_clocks_and_no_record() -> None:
    """A punctuator may forward and cancel itself; it has no current record."""
    context = FakeContext(COUNTS)
    feed = context.bind(UserProcessor(Report))
    assert feed("k", "v", 7) == [("k", str(RecordMetadata("in", 0, 0)), 7)]
    schedule = context.schedules[0]
    assert (schedule.interval_ms, schedule.kind, schedule.start_ms) == (10, "stream_time", 5)
    context.now_ms = 99
    nowhere = str(RecordMetadata(None, -1, -1))
    assert context.fire("stream_time", 20) == [("n", f"1@7/99 {nowhere}", 20)]
    assert context.fire("stream_time", 30) == []


def test_the_context_knows_its_task_and_settings() -> None:
    """Application, task, default serdes and configuration."""
    seen: list[Any] = []

    class Look(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            seen.extend([context.application_id, context.task_id, context.key_serde().name])
            seen.extend([context.value_serde().name, context.app_configs()["application.id"]])

        def process(self, record: Record[Any, Any]) -> None:
            pass

    FakeContext().bind(UserProcessor(Look))
    assert seen == ["app", "0_0", "string", "string", "app"]


def test_a_global_store_can_only_be_read() -> None:
    """Only the source of a global store fills it."""
    context = FakeContext(COUNTS)
    context.store("counts").put("a", "1")
    context.global_stores.add("counts")
    seen: list[Any] = []

    class Look(Processor[Any, Any, Any, Any]):
        def process(self, record: Record[Any, Any]) -> None:
            store = self.context.get_state_store("counts")
            seen.append(store.get(record.key))
            store.put(record.key, record.value)

    with pytest.raises(StateError, match='global store "counts" is read only'):
        context.bind(UserProcessor(Look))("a", "2", 1)
    assert seen == ["1"]


def test_process_values_keeps_the_key() -> None:
    """Value, time and headers may change, but never the key."""

    class Change(FixedKeyProcessor[Any, Any, Any]):
        def process(self, record: Any) -> None:
            if record.value == "rekey":
                record = record.with_key("other")
            elif record.value == "own":
                record = Record("other", "v", 1)
            self.context.forward(record.with_value("new").with_timestamp(9).with_headers([("h", b"")]))

    feed = FakeContext().bind(UserFixedKeyProcessor(Change), node="p")
    assert feed("k", "v", 5) == [("k", "new", 9, (("h", b""),))]
    with pytest.raises(ProcessingError, match="process_values must not change the key"):
        feed("k", "rekey", 5)
    with pytest.raises(ProcessingError, match="forwarded a newly created record"):
        feed("k", "own", 5)
