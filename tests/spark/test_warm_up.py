"""The warm-up of a session: the first query gets its processes, and it leaves other work alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.test_profiles import OUTPUT, printed

ROOT = str(Path(__file__).parents[2])
BEGIN = """
import logging
logging.basicConfig(level=logging.WARNING)
import os
import sys
import threading
import time
import psutil
import kstreamnb as ks

def warm_ups():
    return [thread for thread in threading.enumerate() if thread.name == "warm-up"]

def daemons():
    found = {each.pid: each.info for each in psutil.process_iter(["cmdline", "ppid"]) if each.info["cmdline"]}
    (java,) = [pid for pid, info in found.items() if "pyspark-shell" in info["cmdline"] and info["ppid"] == os.getpid()]
    return {pid for pid, info in found.items() if "pyspark.daemon" in info["cmdline"] and info["ppid"] == java}
"""


def run(program: str, **variables: str) -> str:
    """Return what a program prints in a new process; it must not write to its error stream."""
    command = [sys.executable, "-c", BEGIN + program]
    environment = {**os.environ, "PYTHONPATH": ROOT, **variables}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=600)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


QUERY = """
logging.getLogger("kstreamnb.spark.jvm.warm_up").setLevel(logging.DEBUG)  # prints what ended the job
from pathlib import Path
from tests.spark.streams import batched, outputs, placed, query_over
spark = ks.spark.spark_session()
for thread in warm_ups():
    thread.join()
before = daemons()
builder = ks.StreamsBuilder("totals")
builder.stream("sales", value_serde="long").group_by_key().reduce(int.__add__).to_stream().to("totals")
deployment = placed(builder.build(), 2)
rows = [("sales", key, 1, at) for at, key in enumerate("abcdabcdabcd")]
query, sink = query_over(spark, Path({folder!r}), deployment, batched(deployment, rows, 3)[:{batches}])
query.await_termination(300)
print("before:", len(before), "more:", len(daemons() - before))
print(next(line for line in ks.spark.spark_report().splitlines() if line.startswith("patch warm-up")))
found = outputs(deployment, sink, ["totals"])["totals"]
print(*sorted({{record[:2] for records in found.values() for record in records}}))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("disabled", "processes"),
    [("", "before: 1 more: 0"), ("warm-up", "before: 0 more: 1"), ("declared-source", "before: 1 more: 3")],
)
def test_the_first_query_needs_no_other_python_daemon(tmp_path: Path, disabled: str, processes: str) -> None:
    """All its operators share one pool of workers, and no process is asked for its source; both can be switched off."""
    lines = run(QUERY.format(folder=str(tmp_path), batches=3), KSTREAMNB_DISABLE_PATCHES=disabled).splitlines()
    assert processes == lines[0]
    assert lines[1].startswith(f"patch warm-up = {'off, switched off' if disabled == 'warm-up' else 'on'} (")
    assert "('a', 3) ('b', 1) ('b', 2) ('b', 3)" in lines[2]


INSTALLED = """
from pyspark.sql.datasource import DataSource, DataSourceReader

class DefaultSource(DataSource):
    @classmethod
    def name(cls):
        return "installed"

    def schema(self):
        return "number int"

    def reader(self, schema):
        return Reader()

class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)
"""


@pytest.mark.spark
def test_installed_sources_are_found_after_a_query(tmp_path: Path) -> None:
    """Spark looks for them when it is first asked for a source in Python, which a query does not do."""
    (tmp_path / "pyspark_installed.py").write_text(INSTALLED)
    program = QUERY.replace("spark.stop()", 'print(spark.read.format("installed").load().collect())\nspark.stop()')
    lines = run(program.format(folder=str(tmp_path), batches=1), PYTHONPATH=f"{ROOT}:{tmp_path}").splitlines()
    assert "[Row(number=7)]" == lines[-1]


NOTES = """
import os
import sys
if "-m" in sys.orig_argv:
    with open(os.environ["NOTES"], "a") as file:
        print(*sys.orig_argv[sys.orig_argv.index("-m") + 1 :], file=file)
"""
STATE = "pyspark.sql.streaming.transform_with_state_driver_worker"


@pytest.mark.spark
def test_no_python_process_is_asked_for_the_state_of_a_query(tmp_path: Path) -> None:
    """Without the patch Spark asks; it continues from a checkpoint with the patch, and then again without it."""
    (tmp_path / "sitecustomize.py").write_text(NOTES)

    def asked(batches: int, disabled: str) -> tuple[bool, str]:
        notes = tmp_path / f"{batches}.txt"
        variables = {"NOTES": str(notes), "PYTHONPATH": f"{ROOT}:{tmp_path}", "KSTREAMNB_DISABLE_PATCHES": disabled}
        printed_lines = run(QUERY.format(folder=str(tmp_path), batches=batches), **variables).splitlines()
        return STATE in notes.read_text().splitlines(), printed_lines[2]

    assert (True, "('a', 1) ('b', 1) ('c', 1) ('d', 1)") == asked(1, "batch-classes")
    assert (False, "('a', 2) ('b', 2) ('c', 2) ('d', 2)") == asked(2, "")
    assert (True, "('a', 3) ('b', 3) ('c', 3) ('d', 3)") == asked(3, "batch-classes")


STOPPED = """
spark = ks.spark.spark_session()
assert 1 == len(warm_ups())
time.sleep({seconds})
spark.stop()
for thread in warm_ups():
    thread.join(60)
print("running:", len(warm_ups()))
again = ks.spark.spark_session()
assert again.sparkContext.appName == "kstreamnb" and not spark.sparkContext._jsc
print("rows:", again.range(3).count())
"""


@pytest.mark.spark
@pytest.mark.parametrize("seconds", [0.0, 1.5, 3.0])
def test_a_session_may_be_stopped_while_it_is_warmed_up(seconds: float) -> None:
    """Whatever step is under way: it ends, prints nothing, and the next session is another one."""
    assert "running: 0\nrows: 3\n" == run(STOPPED.format(seconds=seconds))


RUN = """
spark = ks.spark.spark_session()
builder = ks.StreamsBuilder("totals")
builder.stream("sales", value_serde="long").group_by_key().reduce(int.__add__).to_stream().to("totals")
sales = [ks.TopicRecord("sales", 0, at, at, "a", at) for at in range(3)]
tracker = spark.sparkContext.statusTracker()

def jobs(status):
    numbers = tracker.getJobIdsForGroup(f"kstreamnb-warm-up-{{spark.sparkContext.applicationId}}")
    return {{number for number in numbers if tracker.getJobInfo(number).status == status}}

while {awaits_job} and warm_ups() and not jobs("RUNNING"):
    time.sleep(0.02)
done = jobs("SUCCEEDED")
result = ks.run(builder.build(), spark=spark, inputs=sales)
done = jobs("SUCCEEDED") - done
print("done:", done, "running:", len(warm_ups()), [record.value for record in result.records("totals")[0]])
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.parametrize("awaits_job", [False, True])
def test_a_run_takes_the_slots_of_the_warm_up(awaits_job: bool) -> None:
    """It does not wait for steps that it does not take; its result is the same."""
    assert "done: set() running: 0 [0, 1, 3]\n" == run(RUN.format(awaits_job=awaits_job))


@pytest.mark.spark
def test_a_session_with_one_slot_is_not_warmed_up(tmp_path: Path) -> None:
    """Its work would wait for the only slot."""
    lines = printed(tmp_path, [sys.executable], "cores=1")
    assert OUTPUT in lines
    assert any(line.startswith("patch warm-up = off, work would wait for the only slot (") for line in lines)


JVM_ENDED = """
import gc
import signal
gateway = ks.spark.spark_session().sparkContext._gateway
lists, freed = [gateway.jvm.java.util.ArrayList() for _ in range(2)], gateway._gateway_client.finalizer_deque

def free():
    lists.pop()
    gc.collect()  # enters what Python no longer needs
    return len(freed)

free()
while freed:
    time.sleep(0.05)
os.kill(gateway.proc.pid, signal.SIGSTOP)
entered = free()
while len(freed) == entered:
    time.sleep(0.05)  # then a call waits for an answer
os.kill(gateway.proc.pid, signal.SIGKILL)
gateway.proc.wait()
print("ended")
"""


@pytest.mark.spark
def test_a_jvm_that_ends_while_its_objects_are_freed_prints_nothing() -> None:
    """Py4J frees them in another thread, and nothing waits for its answers."""
    assert "ended\n" == run(JVM_ENDED, KSTREAMNB_DISABLE_PATCHES="warm-up")  # whose threads call the JVM, too
