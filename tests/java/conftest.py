"""A broker, as for the tests against a broker, and a JVM with Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.kafka.broker_process import LocalBroker
from tests.java.lab import Lab
from tests.java.runner import JARS, JavaStreams
from tests.kafka.conftest import broker

__all__ = ["broker", "lab"]


@pytest.fixture(scope="session")
def lab(broker: LocalBroker, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The tools and the broker that every comparison uses."""
    if not (JARS / "classes").exists():
        pytest.skip("make test-java builds the application in Java")
    folder: Path = tmp_path_factory.mktemp("java")
    with JavaStreams(broker.bootstrap_servers, folder) as java:
        yield Lab(broker.bootstrap_servers, java, spark, folder)
