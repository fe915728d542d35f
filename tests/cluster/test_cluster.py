"""Exactly once on a standalone cluster, whichever process is killed. Its executors lack the kit and the user's
module.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kstreamnb.kafka.broker_process import LocalBroker
from tests.cluster.deployments import Deployment
from tests.cluster.services import BUCKET, Hdfs, Standalone, Yarn

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
AWAY_S = 20


def test_nothing_is_lost_or_doubled_with_a_checkpoint_on_hdfs(
    request: pytest.FixtureRequest,
    cluster: Standalone,
    hadoop: Hdfs,
    broker: LocalBroker,
    python: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An executor, a worker with its executors and the driver are killed, and the storage hangs for 20 s."""

    def storage_away() -> None:
        hadoop.freeze()
        time.sleep(AWAY_S)
        hadoop.wake()

    servers = broker.bootstrap_servers
    running = Deployment("killed", servers, cluster.url, f"{hadoop.url}/killed", python, tmp_path / "app")
    request.addfinalizer(running.stop)
    figures = {"first output": running.await_output()}
    blows: dict[str, Callable[[], None]] = {
        "executor": cluster.kill_executor,
        "worker": cluster.kill_worker,
        "driver": running.kill_driver,
        "storage": storage_away,
    }
    for name, blow in blows.items():
        blow()
        figures[name] = running.await_output(running.published() + 2)
    counts = running.finish()
    assert running.expected() == counts
    assert running.expected_letters() == running.letters()
    assert {"kstreamnb", "rules"} <= set(running.starts[0]["shipped"])
    with capsys.disabled():
        print({name: round(seconds, 1) for name, seconds in figures.items()}, running.ends)


def test_nothing_is_lost_or_doubled_with_a_checkpoint_in_an_object_store(
    request: pytest.FixtureRequest,
    cluster: Standalone,
    s3: dict[str, str],
    broker: LocalBroker,
    python: Path,
    tmp_path: Path,
) -> None:
    """The driver is killed, and an executor."""
    servers, address = broker.bootstrap_servers, f"s3a://{BUCKET}/stored"
    running = Deployment("stored", servers, cluster.url, address, python, tmp_path / "app", s3)
    request.addfinalizer(running.stop)
    running.await_output()
    for blow in (running.kill_driver, cluster.kill_executor):
        blow()
        running.await_output(running.published() + 2)
    counts = running.finish()
    assert running.expected() == counts


def test_nothing_is_lost_or_doubled_on_yarn(
    request: pytest.FixtureRequest,
    broker: LocalBroker,
    python: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Executors in YARN's containers, without the kit; one of them is killed, and the driver."""
    yarn = Yarn(tmp_path / "yarn")
    request.addfinalizer(yarn.stop)
    yarn.start()
    settings = {"spark.executor.instances": "2", "spark.yarn.am.memory": "384m"}
    variables = {"HADOOP_CONF_DIR": str(yarn.configuration)}
    address, servers = f"file://{tmp_path}/checkpoints/yarn", broker.bootstrap_servers
    running = Deployment("on-yarn", servers, "yarn", address, python, tmp_path / "app", settings, variables)
    request.addfinalizer(running.stop)
    figures = {"first output": running.await_output()}
    for name, blow in {"executor": yarn.kill_executor, "driver": running.kill_driver}.items():
        blow()
        figures[name] = running.await_output(running.published() + 2)
    counts = running.finish()  # the flow of records ends before the expectation is made
    assert running.expected() == counts
    assert running.expected_letters() == running.letters()
    assert {"kstreamnb", "rules"} <= set(running.starts[0]["shipped"])
    with capsys.disabled():
        print({name: round(seconds, 1) for name, seconds in figures.items()})


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs unshare to hide a folder from a worker")
def test_a_folder_that_a_worker_has_for_itself_is_refused(broker: LocalBroker, python: Path, tmp_path: Path) -> None:
    """Nothing reaches Kafka, and the error says which address to give instead."""
    checkpoint = tmp_path / "checkpoints"
    checkpoint.mkdir()
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs the right to hide a folder from a process")
    cluster = Standalone(tmp_path / "spark", workers=0)
    try:
        hide = f'mount -t tmpfs none "{checkpoint}" && exec "$@"'
        cluster.workers.append(cluster.add_worker("unshare", "-m", "sh", "-c", hide, "sh"))
        running = Deployment(
            "hidden", broker.bootstrap_servers, cluster.url, f"{checkpoint}/hidden", python, tmp_path / "app"
        )
        end = time.monotonic() + 120
        while not running.ends and time.monotonic() < end:
            time.sleep(0.2)
        running.stop()
        (error, *_) = running.ends
        assert "is not the same storage for driver and executors" in error["error"]
        assert "hdfs://… or s3a://…" in error["hint"]
        assert 0 == running.published()
    finally:
        cluster.stop()
