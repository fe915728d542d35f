"""Starts each service of the suite once; their folder is in memory if there is such a file system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstreamnb.kafka.broker_process import LocalBroker, local_broker
from tests.cluster.services import Hdfs, Standalone, bare_python, hdfs, s3_server, s3_settings


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all services."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """A Kafka broker."""
    with local_broker(config={"transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}) as running:
        yield running


@pytest.fixture(scope="session")
def hadoop(folder: Path) -> Iterator[Hdfs]:
    """HDFS."""
    with hdfs(folder / "hdfs") as running:
        yield running


@pytest.fixture(scope="session")
def s3(folder: Path) -> Iterator[dict[str, str]]:
    """Settings of a session that reaches an S3 server."""
    with s3_server(folder / "s3") as endpoint:
        yield s3_settings(endpoint)


@pytest.fixture(scope="session")
def python(folder: Path) -> Path:
    """The executors' Python, without the kit."""
    return bare_python(folder / "bare")


@pytest.fixture(scope="session")
def cluster(folder: Path) -> Iterator[Standalone]:
    """A master and two workers."""
    running = Standalone(folder / "spark")
    yield running
    running.stop()
