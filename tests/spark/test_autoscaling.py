"""S4-49: how many instances a query needs: the decision, and a backlog of 100,000 records worked off with it."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.errors import ConfigError
from kstreamnb.spark.telemetry.metrics import Metric

FETCH, THREAD = "consumer-fetch-manager-metrics", "stream-thread-metrics"


def reading(consumed: float, lag: float, busy: float = 0.0) -> list[Metric]:
    """Metrics of a query with two partitions."""
    parts = [Metric(FETCH, "records-lag", (("partition", str(n)),), lag / 2) for n in range(2)]
    totals = [Metric(FETCH, "records-consumed-total", (), consumed), Metric(THREAD, "process-ratio", (), busy)]
    return [*parts, *totals]


def decided(*readings: list[Metric], instances: int = 4) -> tuple[int, str]:
    """The decision for readings within a minute."""
    decision = ks.monitoring.scaling_decision(readings, instances=instances, partitions=8, elapsed="1m")
    return decision.instances, decision.reason


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([reading(0, 1_000), reading(60_000, 1_000)], 5),
        ([reading(0, 100_000), reading(60_000, 130_000)], 8),
        ([reading(0, 9_000_000), reading(60_000, 9_900_000)], 8),
        ([reading(0, 100), reading(0, 200)], 4),
        ([reading(0, 0, 0.35), reading(60_000, 0, 0.30)], 2),
        ([reading(0, 0, 0.69), reading(60_000, 0, 0.69)], 4),
        ([reading(0, 0), reading(0, 0)], 1),
        ([reading(0, 0), reading(60_000, 500), reading(90_000, 0)], 4),
    ],
    ids=["a little behind", "growing", "no more than partitions", "stalled", "idle", "busy", "without input", "a peak"],
)
def test_lag_and_busy_time_decide(readings: list[list[Metric]], expected: int) -> None:
    """Growing lag calls for more, idle time for fewer, a stall or a short peak for neither."""
    assert expected == decided(*readings)[0]


def test_a_stall_is_not_answered_by_more_instances() -> None:
    """The reason states the lag or the idle share."""
    assert "none is processed" in decided(reading(5, 100), reading(5, 200))[1]


def test_readings_and_numbers_are_checked() -> None:
    """One reading has no rate; readings built by hand need their distance in time."""
    with pytest.raises(ConfigError, match="readings must be at least 2, got 1"):
        decided(reading(0, 0))
    with pytest.raises(ConfigError, match="instances must be at least 1, got 0"):
        decided(reading(0, 0), reading(0, 0), instances=0)
    with pytest.raises(ConfigError, match="the time between two readings is unknown"):
        ks.monitoring.scaling_decision([reading(0, 0), reading(0, 0)], instances=1, partitions=1)


class Service:
    """A consumer group whose members read 100 records per second each, from 10 growing partitions."""

    def __init__(self) -> None:
        self.group = ks.simulation.ConsumerGroup(
            "alerts", {"in": 10}, auto_offset_reset="earliest", max_poll_records=100
        )
        self.members: list[str] = []
        self.consumed = self.joined = 0

    def scale(self, count: int) -> None:
        """Start members before stopping any; the oldest leave."""
        while len(self.members) < count:
            self.joined += 1
            self.members.append(f"m{self.joined}")
            self.group.join(self.members[-1])
        while len(self.members) > count:
            self.group.leave(self.members.pop(0))

    def run(self, seconds: int, rate: int) -> list[Metric]:
        """Let time pass with new records; every member polls once a second, so its load follows its records."""
        busy = 0.0
        for _ in range(seconds):
            for partition in self.group.log.partitions:
                self.group.log.append(partition, rate // 10)
            for member in self.members:
                taken = len(self.group.poll(member, timeout="0s"))
                self.group.commit(member)
                self.consumed += taken
                busy += taken / 100 / len(self.members) / seconds
            self.group.advance_wall_clock_time("1s")
        return reading(self.consumed, sum(each.high - (each.committed or 0) for each in self.group.positions), busy)


def test_a_backlog_of_100_000_records_is_worked_off_and_the_old_instance_retires() -> None:
    """More instances start, catch up within the requested time, and are removed when nothing waits."""
    service = Service()
    for partition in service.group.log.partitions:
        service.group.log.append(partition, 100_000 // 10)
    service.scale(1)
    counts, lags, before = [1], [100_000.0], service.run(1, 80)
    for _ in range(12):
        after = service.run(60, 80)
        decision = ks.monitoring.scaling_decision(
            [before, after], instances=len(service.members), partitions=10, elapsed="1m", catch_up="5m"
        )
        service.scale(decision.instances)
        before = after
        counts.append(decision.instances)
        lags.append(sum(metric.value for metric in after if metric.name == "records-lag"))
    assert [1, 5] == counts[:2]
    assert 0 == min(lags)
    assert lags.index(0) <= 1 + 5, "five minutes after the first decision"
    assert 2 == counts[-1], "80 of 100 records per second, within 70 %"
    assert "m1" not in service.members
    assert 0 == lags[-1]
