"""Three replicated brokers: ``python -m tests.kafka.replicated_crashes`` runs every case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker_cluster import BrokerCluster
from tests.kafka.replicated_crashes import TRANSACTIONS, TWO, run_case

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.spark
@pytest.mark.parametrize("case", [TRANSACTIONS, TWO], ids=lambda case: case.replace(" ", "-"))
def test_replicated_brokers_that_are_killed_inside_a_commit_lose_and_double_nothing(case: str, tmp_path: Path) -> None:
    """The coordinator alone, and two brokers, without which the topics accept no records."""
    with BrokerCluster(tmp_path / "kafka") as cluster:
        for cell in run_case(case, 1, cluster, tmp_path):
            assert cell.ok, cell
            assert 1 == cell.kills
            assert cell.records > 0


def test_offsets_of_new_topics_are_known_at_once_and_topics_are_replicated(tmp_path: Path) -> None:
    """A broker that leads a partition may know its topic later than the broker that was asked for the topic."""
    with BrokerCluster(tmp_path / "kafka") as cluster:
        for number in range(30):
            cluster.admin.create_topic(f"new-{number}", partitions=6)
            assert {f"new-{number}": dict.fromkeys(range(6), 0)} == cluster.admin.offsets([f"new-{number}"])
        assert (3, 3) == cluster.admin.replication("new-0")
        cluster.admin.create_topic("single", replicas=1)
        assert (1, 3) == cluster.admin.replication("single")
