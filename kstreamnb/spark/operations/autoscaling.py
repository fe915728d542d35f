"""Decides from a query's lag how many instances it needs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kstreamnb.core.arguments import at_least, check_arguments
from kstreamnb.core.formatting import pluralize
from kstreamnb.core.time import Duration, duration_ms
from kstreamnb.errors import ConfigError
from kstreamnb.spark.telemetry.metrics import Metric, elapsed_ms, total

_BUSY = 0.7  # above this share of the time, one slow batch makes the next one late


class ScalingDecision(NamedTuple):
    """The number of instances that a query needs, and why.

    ``arrival_rate`` and ``capacity`` are in records per second; capacity is that of one instance, and None if the query
    was never busy enough to show it.

    Args:
        instances: number of instances that the query needs.
        reason: one line that says why.
        arrival_rate: records per second that arrive.
        capacity: records per second of one instance, or None.

    Example:
        >>> ScalingDecision(3, "1,500 records/s arrive", 1500.0, 500.0).instances
        3
    """

    instances: int
    reason: str
    arrival_rate: float
    capacity: float | None


def scaling_decision(
    readings: Sequence[Iterable[Metric]],
    *,
    instances: int,
    partitions: int,
    catch_up: Duration = "5m",
    elapsed: Duration | None = None,
) -> ScalingDecision:
    """Recommend how many instances are needed to keep up with the input and clear the backlog.

    While records wait at every reading, the instances are saturated, so what they consumed is their capacity; the
    decision covers new records and the backlog. While nothing waits, the share of time in which batches ran shows
    whether fewer instances are enough. Start new instances first and stop old ones when the lag is gone: then no
    partition waits for its state.

    Args:
        readings: two or more readings of ``query.metrics()``, oldest first.
        instances: instances that run now: executors, or task slots of a session; at least 1.
        partitions: partitions of the input topic with most of them; more instances than these would be idle.
        catch_up: the time within which a backlog should be cleared; default 5 minutes.
        elapsed: the time between the first reading and the last; default the difference of their times.

    Raises: ConfigError if there are fewer than two readings, their time is unknown, or a number is below 1.

    Example:
        >>> def reading(consumed, lag):
        ...     group = "consumer-fetch-manager-metrics"
        ...     return [Metric(group, "records-consumed-total", (), consumed), Metric(group, "records-lag", (), lag)]
        >>> readings = [reading(0.0, 100_000.0), reading(60_000.0, 130_000.0)]
        >>> decision = scaling_decision(readings, instances=2, partitions=8, elapsed="1m")
        >>> decision.instances, decision.reason
        (4, '1,500 records/s arrive and 130,000 wait; one instance processes 500 records/s')
    """
    check_arguments(scaling_decision, locals())
    _check(readings, instances, partitions)
    seconds = max(1, elapsed_ms(readings[0], readings[-1], elapsed)) / 1000
    first, last = readings[0], readings[-1]
    lags = [total(reading, "records-lag") for reading in readings]
    consumed = total(last, "records-consumed-total") - total(first, "records-consumed-total")
    arrival = max(0.0, (consumed + lags[-1] - lags[0]) / seconds)
    if min(lags) > 0 and consumed <= 0:
        return ScalingDecision(instances, "records wait and none is processed: see the query's state", arrival, None)
    if min(lags) > 0:
        capacity = consumed / seconds / instances
        needed = math.ceil((arrival + lags[-1] * 1000 / duration_ms(catch_up, "catch_up")) / capacity)
        wanted = min(partitions, max(instances, needed))
        reason = f"{arrival:,.0f} records/s arrive and {lags[-1]:,.0f} wait; "
        reason += f"one instance processes {capacity:,.0f} records/s"
        if needed > partitions:
            reason += f"; {pluralize(partitions, 'partition')} allow no more instances"
        return ScalingDecision(wanted, reason, arrival, capacity)
    # Batches are computed while others are published, so both together can be more than all of the time.
    busy = max(min(1.0, total(each, "process-ratio") + total(each, "commit-ratio")) for each in readings)
    if max(lags) > 0:
        return ScalingDecision(instances, "records waited for a moment only", arrival, None)
    wanted = min(instances, max(1, math.ceil(instances * busy / _BUSY)))
    return ScalingDecision(wanted, f"nothing waits, and batches run {busy:.0%} of the time", arrival, None)


def _check(readings: Sequence[Iterable[Metric]], instances: int, partitions: int) -> None:
    if len(readings) < 2:
        raise ConfigError(f"readings must be at least 2, got {len(readings)}", hint="read query.metrics() again")
    at_least(1, instances, "instances")
    at_least(1, partitions, "partitions")
