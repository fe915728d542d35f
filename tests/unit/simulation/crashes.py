"""A run with crashes at times drawn from a seed, and the same run without."""

from __future__ import annotations

from random import Random
from typing import Any

import kstreamnb as ks

__all__ = ["Interrupted"]


def orders() -> ks.Topology:
    """Windows, with and without suppression; joins with a table and of streams; sums; sessions; a repartition."""
    builder = ks.StreamsBuilder("orders")
    stream = builder.stream("orders")
    names = builder.table("names", store="names")
    stream.group_by(lambda _, value: f"g{value % 3}").count(store="groups").to_stream().to("groups")
    windows = stream.group_by_key().windowed_by(ks.TimeWindows.of(size="20ms", grace="5ms"))
    windows.count(store="by-window").to_stream().map(lambda at, n: (at.key, [at.start, n])).to("windows")
    stream.left_join(names, lambda value, name: [value, name]).to("named")
    windows.count(store="at-close").suppress(ks.Suppressed.until_window_closes()).to_stream().map(
        lambda at, n: (at.key, [at.start, n])
    ).to("closed")
    near = ks.JoinWindows.of(difference="6ms", grace="4ms")
    stream.outer_join(stream.filter(lambda _, value: value % 3 == 0), lambda a, b: [a, b], near).to("pairs")
    stream.group_by_key().windowed_by(ks.SessionWindows.of(gap="9ms", grace="3ms")).count(store="sessions")
    stream.group_by_key().reduce(lambda one, other: one + other, store="sums").to_stream().to("sums")
    return builder.build()


class Interrupted:
    """Pipes the same records; with ``crashes`` the application crashes in between, at moments drawn from ``seed``."""

    def __init__(self, seed: int, cache: int, *, crashes: bool) -> None:
        data, fate = Random(seed), Random(seed + 1_000)
        config = {"processing_guarantee": "exactly_once_v2", "commit_interval": "100ms", "cache_max_bytes": cache}
        self.driver = driver = ks.simulation.ClusterDriver(orders(), config, partitions=2, trace=False, verify=True)
        self.crashed = 0
        for at in range(40):
            topic, value = ("names", f"n{data.randrange(9)}") if data.random() < 0.3 else ("orders", data.randrange(50))
            time = max(0, at * 2 - data.randrange(12))
            driver.create_input_topic(topic).pipe_input(f"k{data.randrange(4)}", value, at=time)
            if data.random() < 0.4:
                self._settle(fate if crashes else None)
        self._settle(None)
        self.state = {
            name: sorted(map(repr, driver.application.store(name).all()))
            for name in ("by-window", "names", "sums", "groups", "sessions")
        }
        self.output = {topic: self._read(topic) for topic in ("windows", "named", "sums", "closed", "pairs")}
        self.last = {
            topic: sorted({key: value for rows in self._read(topic).values() for key, value, _ in rows}.items())
            for topic in ("sums", "groups")
        }

    def _settle(self, fate: Random | None) -> None:
        """Run and commit until nothing is left; the application may crash at any moment, and is restarted."""
        driver = self.driver
        for _ in range(4):
            if fate is not None and fate.random() < 0.5:
                driver.run_ready(fate.randrange(4))
                when: Any = fate.choice(["now", "before_commit", "after_commit"])
                driver.application.crash(when)
                if when != "now":
                    driver.run_ready(fate.randrange(3))
                    driver.application.commit()
                self._revive()
            driver.run_ready()
            driver.application.commit()
            self._revive()
            driver.application.commit()

    def _revive(self) -> None:
        """Restart after a crash."""
        if self.driver.application.status == "crashed":
            self.crashed += 1
            self.driver.application.restart()
            self.driver.run_ready()

    def _read(self, topic: str) -> dict[int, list[tuple[Any, Any, int]]]:
        found: dict[int, list[tuple[Any, Any, int]]] = {}
        for record in self.driver.create_output_topic(topic).read_records():
            found.setdefault(record.partition, []).append((record.key, record.value, record.timestamp))
        return found
