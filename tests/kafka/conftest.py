"""One real broker for all tests of this folder, and a separate topic for each test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.broker_process import LocalBroker
from tests.kafka.apps import Bench
from tests.kafka.old_brokers import broker_of


@pytest.fixture(scope="session")
def broker() -> Iterator[LocalBroker]:
    """A broker that is stopped with the session."""
    config = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
        "log.cleaner.backoff.ms": 86_400_000,  # would remove rows from changelogs of windows: records here are old
    }
    with broker_of(config=config) as running:
        yield running


@pytest.fixture(scope="session")
def servers(broker: LocalBroker) -> str:
    """Its address."""
    return broker.bootstrap_servers


@pytest.fixture(scope="session")
def admin(servers: str) -> Admin:
    """Its administration."""
    return Admin(servers)


@pytest.fixture(autouse=True)
def _topics_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the topics that a test has made, and with them the offsets in them: a later test may use their names."""
    if "servers" not in request.fixturenames:
        yield
        return
    admin = Admin(request.getfixturevalue("servers"))
    before = admin.topics().keys()
    yield
    made = admin.topics().keys() - before
    admin.delete_topics(*sorted(topic for topic in made if not topic.startswith("__")))  # those are the broker's


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that belongs to the test."""
    return re.sub(r"\W+", "-", request.node.name)[-100:].strip("-")


@pytest.fixture
def topic(admin: Admin, name: str) -> Callable[..., str]:
    """Creates the test's topic."""

    def create(partitions: int = 1, suffix: str = "", **config: str) -> str:
        full = name + suffix
        admin.create_topic(full, partitions=partitions, config={k.replace("_", "."): v for k, v in config.items()})
        return full

    return create


@pytest.fixture
def bench(spark: Any, servers: str, tmp_path: Path) -> Iterator[Bench]:
    """Session, broker and folder; queries that the test leaves running are stopped, including those it never had a
    reference to.
    """
    import kstreamnb as ks

    found = Bench(spark, servers, tmp_path)
    yield found
    for query in dict.fromkeys([*found.queries, *ks.spark.active()]):
        query.stop()
