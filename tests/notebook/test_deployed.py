"""From a notebook to Kafka and back: the verbs that need a broker and Spark, and the exported script, on real
services.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import kstreamnb as ks
from tests.notebook.shells import Shell, loaded_shell

pytestmark = [pytest.mark.notebook, pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

_RECORDS = ks.Sample.from_records([("orders", at % 2, at // 2, 1000 + at, "abc"[at % 3], at) for at in range(12)])
_BUILD = """
builder = ks.StreamsBuilder("{name}")
counts = builder.stream("orders").group_by_key().count(store="counts")
counts.to_stream().to("{name}-counts", value_serde="long")
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker with a topic of two partitions and twelve records."""
    with ks.kafka.local_broker() as broker:
        ks.kafka.Admin(broker.bootstrap_servers).create_topic("orders", partitions=2)
        ks.kafka.produce(broker.bootstrap_servers, _RECORDS, keep_partitions=True)
        yield broker.bootstrap_servers


def _shell(name: str) -> Iterator[Shell]:
    with loaded_shell() as shell:
        shell.run(_BUILD.format(name=name), "build")
        yield shell


@pytest.fixture
def shell(servers: str) -> Iterator[Shell]:
    yield from _shell("told")


def _written(servers: str, topic: str, count: int, patience_s: float = 120) -> list[tuple[str, int]]:
    """Wait for that many records of a topic; return their keys and values."""
    end = time.monotonic() + patience_s
    while True:
        there = topic in ks.kafka.Admin(servers).topics()
        found = list(ks.Sample.capture(servers, topic, value_serde=ks.Serdes.long())) if there else []
        if len(found) >= count or time.monotonic() > end:
            return sorted((record.key, record.value) for record in found)
        time.sleep(0.5)


def test_a_topology_is_captured_for_deployed_watched_stopped_and_reset_by_magics(
    shell: Shell, servers: str, tmp_path: Path
) -> None:
    """Parity comes first; then the verbs, each with its display, and without any log line of Spark."""
    shell.run(f"builder.sample = %ks capture orders --servers {servers}")
    assert 12 == len(shell.value("builder").sample)
    shown = shell.run(f"query = %ks deploy builder --servers {servers} --checkpoint {tmp_path}/checkpoint", "deploy")
    assert "driver and Spark agree on 12 records" in shown
    assert "WARN" not in shown
    assert shell.value("query").await_input(300)
    assert "running" in shell.run("%ks status query")
    shell.run("%ks stop query")
    assert "stopped" in shell.run("%ks status query")
    assert [("a", 2), ("b", 2), ("c", 2)] == _written(servers, "told-counts", 12)[3::4]  # each key on two partitions
    assert "spark.log" in shell.run("%ks logs")
    assert "told-commits" in shell.run(f"%ks reset told --servers {servers}")
    assert "told-commits" in ks.kafka.Admin(servers).topics()
    shell.run(f"%ks reset told --servers {servers} --checkpoint {tmp_path}/checkpoint --yes")
    assert "told-commits" not in ks.kafka.Admin(servers).topics()
    assert not (tmp_path / "checkpoint").exists()


def test_a_topology_on_which_driver_and_spark_differ_is_not_deployed(
    shell: Shell, servers: str, tmp_path: Path
) -> None:
    """The report is shown, nothing is created, and the error says how to deploy anyway."""
    builder = 'import os\nhere = os.getpid()\nbuilder = ks.StreamsBuilder("torn")\nbuilder.stream("orders")'
    shell.run(f'{builder}.map_values(lambda value, here=here: os.getpid() == here).to("torn-out")', "build")
    shell.ip.user_ns["builder"].sample = _RECORDS
    shown = shell.run(f"%ks deploy builder --servers {servers} --checkpoint {tmp_path}/torn")
    assert "DIFFER on 12 records" in shown
    assert "parity=False" in shown
    assert "torn-out" not in ks.kafka.Admin(servers).topics()


@pytest.fixture
def script(servers: str, tmp_path: Path) -> Iterator[Path]:
    """An exported application."""
    for shell in _shell("exported"):
        shell.run(f"%ks export builder {tmp_path}/app.py")
        yield tmp_path / "app.py"


def test_the_exported_script_runs_from_kafka_to_kafka_and_stops_cleanly(script: Path, servers: str) -> None:
    """S1-11: `python app.py --servers …` runs it; SIGTERM ends it with code 0; `spark-submit` continues from there."""
    options = ["--servers", servers, "--checkpoint", str(script.parent / "checkpoint")]
    environment = {**os.environ, "PYTHONPATH": str(Path(ks.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, str(script), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        assert "exported runs; SIGTERM or Ctrl-C stops it\n" == process.stdout.readline()
        assert 12 == len(_written(servers, "exported-counts", 12, patience_s=600))
        process.send_signal(signal.SIGTERM)
        out, error = process.communicate(timeout=180)
    finally:
        process.kill()
    assert "" == out
    assert "Traceback" not in error
    assert 0 == process.returncode
    ks.kafka.produce(servers, _RECORDS, keep_partitions=True)
    submit = Path(sys.executable).with_name("spark-submit")
    environment |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "PYSPARK_PYTHON": sys.executable}
    ended = subprocess.run(
        [str(submit), "--master", "local[2]", str(script), *options, "--available-now"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert 0 == ended.returncode, ended.stderr[-3000:]
    assert [("a", 4), ("b", 4), ("c", 4)] == _written(servers, "exported-counts", 24)[7::8]
