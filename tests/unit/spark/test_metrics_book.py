"""Counts of a query, read while another thread adds to them."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import count
from types import FrameType
from typing import Any

from kstreamnb.background import background
from kstreamnb.kafka.output_batch import OutputBatch
from kstreamnb.spark.contracts import QueryBatch
from kstreamnb.spark.execution.batch_output import BatchOutput
from kstreamnb.spark.telemetry import metrics
from kstreamnb.spark.telemetry.metrics import MetricsBook


def report(task: int, number: int) -> Any:
    """The report of a task, with a store, a topic and a node that it did not have before."""
    counts = {"consumed": 1, "inputs": 1, "seconds": 0.1, "state_bytes": 9, "stream_time_ms": 5}
    names = {"dropped": {(f"node {number}", "late"): 1}, "topics": {f"topic-{number}": 1}}
    return {"task": f"shop/0_{task}", "state": "memory", "stores": {f"s{number}": (1, 9, 1, 0)}, **counts, **names}


def test_metrics_are_read_while_a_batch_is_added() -> None:
    """Batches with new tasks, stores, topics and nodes are added within each function that reads."""
    book, numbers, errors = MetricsBook("shop"), count(), list[BaseException]()
    readings = list[metrics.Metrics]()

    def add() -> None:
        number = next(numbers)
        output = BatchOutput(reports=[report(number, number), report(0, number)])
        book.add(QueryBatch(0, "{}", {}, 0, output), OutputBatch(0, 1), 0.0)

    def interleave(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != metrics.__file__:
            return None
        frame.f_trace_opcodes = True
        name = frame.f_code.co_name
        steps[name] += event == "opcode"
        if event == "opcode" and steps[name] % 10 == 0 and steps[name] <= 200:
            add()
        return interleave

    def read() -> None:
        sys.settrace(interleave)
        try:
            readings.append(book.all())
        finally:
            sys.settrace(None)

    steps = Counter[str]()
    add()
    background(read, "reads", died=errors.append).join()
    assert [] == errors
    assert {"shop"} == {dict(each.tags)["application-id"] for each in readings[0]}
    assert next(numbers) > 50
