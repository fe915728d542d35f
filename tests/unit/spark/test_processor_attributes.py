"""Attributes of users' processors, which are pickled with each batch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import FrameType
from typing import Any

import kstreamnb as ks
from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.task_plan import TaskPlan
from kstreamnb.runtime.task.task import Task
from kstreamnb.spark.execution.processor_attributes import attributes_of, give_attributes

_COUNT = 500


class _Remembering(ks.Processor[str, int, str, int]):
    def init(self, context: ks.ProcessorContext[str, int]) -> None:
        super().init(context)
        self.prices = [Decimal(number) for number in range(_COUNT)]
        self.rule = eval("lambda price: price * 2")  # of no module, as in a notebook
        self.lock, self.forward = threading.Lock(), context.forward


def _task() -> Task:
    builder = ks.StreamsBuilder("remembering")
    builder.stream("in").process(_Remembering).to("out")
    return Task(TaskPlan(builder.build(), (0,), 0), Clock(0))


@contextmanager
def _python_calls() -> Iterator[list[str]]:
    """Collect the names of Python functions that are called."""
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        yield names
    finally:
        sys.setprofile(None)


def test_attributes_are_kept_without_those_that_lead_to_the_task() -> None:
    """Functions of a notebook, too; a lock cannot be pickled."""
    task, other = _task(), _task()
    kept = attributes_of(task)
    assert [{"prices", "rule"}] == [set(each) for each in kept.values()]
    give_attributes(other, kept)
    (processor,) = other.context.processors.values()
    assert isinstance(processor, _Remembering)
    assert 6 == processor.rule(processor.prices[3])


def test_objects_of_modules_are_pickled_at_the_speed_of_pickle() -> None:
    """Each is looked at once, for parts of the task: cloudpickle would call a second Python function for each."""
    task = _task()
    with _python_calls() as names:
        attributes_of(task)
    assert names.count("persistent_id") >= _COUNT
    assert names.count("reducer_override") < _COUNT
