"""A broker, a JVM with Kafka Streams, and a Spark session for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.kafka.broker_process import local_broker
from tests.java.lab import Lab
from tests.java.runner import JARS, JavaStreams


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One small session."""
    import kstreamnb as ks

    settings = {
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.memory": "1g",
    }
    session = ks.spark.spark_session("kstreamnb-java-tests", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lab(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The tools and the broker that every comparison uses."""
    if not (JARS / "classes").exists():
        pytest.skip("make test-java builds the application in Java")
    folder: Path = tmp_path_factory.mktemp("java")
    with local_broker() as broker, JavaStreams(broker.bootstrap_servers, folder) as java:
        yield Lab(broker.bootstrap_servers, java, spark, folder)
