"""Exactly once on a standalone cluster, whichever process is killed. Its executors lack the kit and the user's
module.
"""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from kstreamnb.kafka.broker_process import LocalBroker
from tests.cluster.deployments import Deployment
from tests.cluster.services import BUCKET, Hdfs, Link, Standalone, Yarn, free_port, may_unshare
from tests.kafka.deployed import POINTS

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
AWAY_S = 20
BROKER_CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}


def test_nothing_is_lost_or_doubled_whatever_fails_at_any_point(
    request: pytest.FixtureRequest, hadoop: Hdfs, python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An executor, a worker with its executors and the driver are killed, HDFS hangs for 20 s, and a node cannot reach
    Kafka for 20 s, each at five points of a batch.
    """
    if not may_unshare():
        pytest.skip("needs the right to give a process its own table of hosts")
    link = Link(tmp_path / "link", free_port())
    request.addfinalizer(link.stop)
    broker = LocalBroker(config=BROKER_CONFIG)
    broker.bootstrap_servers = link.address
    request.addfinalizer(broker.close)
    broker.start()
    cluster = Standalone(tmp_path / "spark", workers=1)
    request.addfinalizer(cluster.stop)
    cluster.workers.append(cluster.add_worker(*link.command))
    address, servers = f"{hadoop.url}/killed", broker.bootstrap_servers
    running = Deployment("killed", servers, cluster.url, address, python, tmp_path / "app")
    request.addfinalizer(running.stop)
    with capsys.disabled():
        print(f"\nfirst output after {running.await_output():.1f} s; s until output after a failure, by point")
    failures: dict[str, Callable[[], AbstractContextManager[None] | None]] = {
        "executor": cluster.kill_executor,
        "worker": cluster.kill_worker,
        "driver": running.kill_driver,
        "storage away": hadoop.away,
        "node cut off": link.cut,
    }
    for name, fail in failures.items():
        for point in POINTS:
            running.hold(point)
            failure = fail()
            with failure or nullcontext():
                running.release(point)
                time.sleep(AWAY_S if failure else 0)
            seconds = running.await_output(running.published() + 2)
            with capsys.disabled():
                print(f"{name:<14} {point:<22} {seconds:6.1f}", flush=True)
    counts = running.finish()
    assert running.expected() == counts
    assert running.expected_letters() == running.letters()
    assert {"kstreamnb", "rules"} <= set(running.starts[0]["shipped"])


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


def test_executors_run_the_python_of_an_archive(
    request: pytest.FixtureRequest, cluster: Standalone, broker: LocalBroker, python: Path, tmp_path: Path
) -> None:
    """Its path is one within the executors' folders; the driver, which plans batches, has no such folder."""
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    with tarfile.open(tmp_path / "environment.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "python", "bin/python")
    settings = {
        "spark.archives": f"{tmp_path}/environment.tar.gz#environment",
        "spark.pyspark.python": "./environment/bin/python",
    }
    address, nowhere = f"{tmp_path}/checkpoints/packed", tmp_path / "nowhere"
    running = Deployment("packed", broker.bootstrap_servers, cluster.url, address, nowhere, tmp_path / "app", settings)
    request.addfinalizer(running.stop)
    running.await_output()
    assert running.finish() == running.expected()
    assert running.ends == []
    assert {"kstreamnb", "rules"} <= set(running.starts[0]["shipped"])


def test_a_folder_that_a_worker_has_for_itself_is_refused(broker: LocalBroker, python: Path, tmp_path: Path) -> None:
    """Nothing reaches Kafka, and the error says which address to give instead."""
    checkpoint = tmp_path / "checkpoints"
    checkpoint.mkdir()
    if not may_unshare():
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
