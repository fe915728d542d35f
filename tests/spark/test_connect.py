"""`run` in a session of Spark Connect: a server in another JVM, of which this process sees data frames alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PROGRAM = """
import kstreamnb as ks
from pyspark.sql import SparkSession

def refuse(value):
    raise ValueError("no")

def topology(name, work):
    builder = ks.StreamsBuilder(name)
    work(builder.stream("sales", value_serde="long")).to("totals")
    return builder.build()

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", 4).getOrCreate()
frame = spark.createDataFrame([("a", 1, 0), ("b", 5, 1), ("a", 2, 2)], "key string, value bigint, timestamp bigint")
totals = topology("totals", lambda sales: sales.group_by_key().reduce(int.__add__, store="sums").to_stream())
result = ks.run(totals, spark=spark, inputs={"sales": frame})
print("got", result.counts())
print("got", [(record.key, record.value) for record in result.records("totals")[0]])
print("got", dict(result.store("sums").all()))
print("got", [(row.offset, row.key, row.value) for row in result.outputs["totals"].collect()])
try:
    ks.run(topology("failing", lambda sales: sales.map_values(refuse)), spark=spark, inputs={"sales": frame})
except ks.errors.ProcessingError as error:
    print("got", repr(error.__cause__))
"""


def test_a_run_gives_records_stores_frames_and_the_users_error() -> None:
    """As in a session with a JVM."""
    root = Path(__file__).parents[2]
    with_package = {**os.environ, "PYSPARK_PYTHON": sys.executable}  # of the server's workers
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=with_package)
    assert 0 == done.returncode, done.stderr
    assert [
        "got {'consumed': 3, 'produced': 3, 'dropped': 0}",
        "got [('a', 1), ('b', 5), ('a', 3)]",
        "got {'a': 3, 'b': 5}",
        "got [(0, 'a', 1), (1, 'b', 5), (2, 'a', 3)]",
        "got ValueError('no')",
    ] == [line for line in done.stdout.splitlines() if line.startswith("got")]
