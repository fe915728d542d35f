"""Runs a topology with a little of everything and prints one hash: ``python -m tests.property.hashed_run``."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import kstreamnb as ks
from kstreamnb.core.record import TopicRecord


def topology() -> ks.Topology:
    """Filters, a branch, windows, sessions, a repartition, three kinds of join and a suppression."""
    builder = ks.StreamsBuilder("hashed")
    orders, clicks = builder.stream("orders"), builder.stream("clicks")
    names = builder.table("names", store="names")
    rich = orders.left_join(names, lambda order, name: {**order, "name": name})
    rich.filter(lambda key, order: order["amount"] > 2).to("rich")
    windows = ks.TimeWindows.of(size="10ms", grace="5ms")
    by_item = orders.group_by(lambda key, order: order["item"])
    final = by_item.windowed_by(windows).count().suppress(ks.Suppressed.until_window_closes())
    final.to_stream(lambda key, count: str(key)).to("final")
    sessions = orders.group_by_key().windowed_by(ks.SessionWindows.of(gap="4ms"))
    sessions.count().to_stream(lambda key, count: str(key)).to("sessions")
    pairs = orders.outer_join(clicks, lambda order, click: [order, click], ks.JoinWindows.of(difference="3ms"))
    pairs.to("pairs")
    owners = builder.table("owners").join(names, lambda owner: owner["name"], lambda owner, name: [owner, name])
    owners.to_stream().to("owned")
    return builder.build()


def records() -> list[TopicRecord]:
    """Generate records of all topics by arithmetic."""
    found = []
    for n in range(200):
        topic = ("orders", "clicks", "names", "orders", "owners")[n % 5]
        key, at = f"k{n * 7 % 11}", n + n * 13 % 9
        order = {"item": f"i{n % 4}", "amount": n % 6}
        value: Any = {"orders": order, "clicks": n, "names": f"n{n}", "owners": {"name": f"k{n % 11}"}}[topic]
        found.append(TopicRecord(topic, -1, -1, at, key, value))
    return found


def main() -> None:
    """Print a hash of every step and every output."""
    trace: list[Any] = []
    built = topology()
    driver = ks.TopologyTestDriver(built, partitions=3, cache=True, changelogs=True, observe=trace.append)
    driver.pipe(records())
    driver.advance_wall_clock_time("1s")
    outputs = {name: driver.tasks.logs[name].rows for name in driver.tasks.logs}
    states = [pickle.dumps(task.delta_of(task.state_keys())) for task in driver.tasks.by_id.values()]
    everything = [built.describe(), outputs, trace, states]
    print(len(trace), hashlib.sha256(repr(everything).encode()).hexdigest())


if __name__ == "__main__":
    main()
