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


INTERRUPTED = """
import os
import signal
import threading
import time
from pathlib import Path
import kstreamnb as ks
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
signal.signal(signal.SIGINT, signal.default_int_handler)  # as if the server were elsewhere
other, own = Path("other").absolute(), Path("own").absolute()

def slow(batches):
    other.touch()
    while not Path(f"{other}-ends").exists():
        time.sleep(0.1)
    yield from batches

def endless(value):
    own.touch()
    time.sleep(600)

def await_file(path):
    while not path.exists():
        time.sleep(0.05)

def interrupt():
    await_file(own)
    os.kill(os.getpid(), signal.SIGINT)

rows = []
thread = threading.Thread(target=lambda: rows.extend(spark.range(1).coalesce(1).mapInArrow(slow, "id long").collect()))
thread.start()
await_file(other)
threading.Thread(target=interrupt).start()
builder = ks.StreamsBuilder("interrupted")
builder.stream("in").map_values(endless).to("out")
sample = ks.Sample.from_text("topic | key | value | time\\nin | a | 1 | 5")
try:
    ks.run(builder.build(), spark=spark, inputs=sample, spark_partitions=1)
except KeyboardInterrupt:
    print("got an interrupt", spark.range(3).count())  # with two slots, of which the other job has one
Path(f"{other}-ends").touch()
thread.join()
print("got", rows)
"""


def test_an_interrupted_run_ends_its_job_and_no_other_of_the_session(tmp_path: Path) -> None:
    """A user may work with the same session in other threads."""
    root = Path(__file__).parents[2]
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, env=variables, timeout=300
    )
    lines = [line[line.index("got") :] for line in done.stdout.splitlines() if "got" in line]
    assert ["got an interrupt 3", "got [Row(id=0)]"] == lines, done.stderr
