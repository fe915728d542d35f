"""Runs the driver's workload on bytewax, in an environment that has it: ``peer_bytewax.py CASE REPEATS``."""

import json
import sys
import time
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.testing import TestingSink, TestingSource, run_main

RECORDS, KEYS, START_MS = 200_000, 100, 1_700_000_000_000


def records():
    """Dicts with an event time."""
    return [
        {
            "key": f"k{n % KEYS}",
            "value": n,
            "ts": START_MS + n,
            "at": datetime.fromtimestamp((START_MS + n) / 1000, tz=UTC),
        }
        for n in range(RECORDS)
    ]


def filter_and_map(stream):
    """Half of the records, with one more value each."""
    even = op.filter("even", stream, lambda record: record["value"] % 2 == 0)
    return op.map("double", even, lambda record: {**record, "v2": record["value"] * 2})


def keyed_count(stream):
    """Count how often each key was seen."""
    keyed = op.key_on("key", stream, lambda record: record["key"])
    return op.stateful_map("count", keyed, lambda state, _: ((state or 0) + 1,) * 2)


def tumbling_count(stream):
    """Records of each key in each second."""
    clock = windowing.EventClock(lambda record: record["at"], wait_for_system_duration=timedelta(0))
    start = datetime.fromtimestamp(START_MS / 1000, tz=UTC)
    windows = windowing.TumblingWindower(align_to=start, length=timedelta(seconds=1))
    return windowing.count_window("count", stream, clock, windows, key=lambda record: record["key"]).down


CASES = {"filter and map": filter_and_map, "keyed count": keyed_count, "tumbling count": tumbling_count}


def main(case, repeats):
    """Print the best rate as JSON."""
    source, rates = records(), []
    for _ in range(repeats):
        out = []
        flow = Dataflow("bench")
        stream = op.input("in", flow, TestingSource(source, batch_size=10_000))
        op.output("out", CASES[case](stream), TestingSink(out))
        start = time.process_time()
        run_main(flow)
        rates.append(RECORDS / (time.process_time() - start))
    print(json.dumps({"rate": max(rates)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
