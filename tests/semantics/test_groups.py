"""Scaling out and failing over by a group's rules: which member joins, what is paused, and for how long."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import cloudpickle
import pytest

import kstreamnb as ks
from kstreamnb.core.time import Clock
from kstreamnb.runtime.context.config import Config
from kstreamnb.runtime.context.task_plan import plan_tasks
from kstreamnb.runtime.task.task import Task


def consumers(log: ks.simulation.Log, *names: str, **options: Any) -> ks.simulation.ConsumerGroup:
    """A group that reads a log from its beginning."""
    group = ks.simulation.ConsumerGroup("app", log.offsets, auto_offset_reset="earliest", **options)
    for name in names:
        group.join(name)
    return group


def four_partitions() -> ks.simulation.Log:
    """A log with the topic of these tests."""
    log = ks.simulation.Log()
    log.create_topic("in", partitions=4)
    return log


# --- S3-03: scaling out -------------------------------------------------------------------------------------------
def test_an_instance_that_starts_gets_its_share_while_the_others_go_on() -> None:
    """S3-03: an instance joins during the run: nothing is restarted, and every record counts once."""
    log = four_partitions()
    group, totals = consumers(log, "a", "b"), Counter[str]()
    worked: dict[str, set[str]] = {}
    for number in range(60):
        log.append("in", f"KEY-{number % 10}", 1)
        if number == 30:
            before = group.assignment
            group.join("c")
        for name in group.assignment:
            for place, offset in group.poll(name, timeout="0ms"):
                totals[log.records(place, offset, 1)[0].key] += 1
                worked.setdefault(name, set()).add(place)
            group.commit(name)
    assert {f"KEY-{n}": 6 for n in range(10)} == totals
    assert {"a", "b", "c"} == worked.keys()
    assert 1 == group.events("rebalanced")[-1].moved
    assert [2, 1, 1] == sorted(map(len, group.assignment.values()), reverse=True)
    assert all(set(mine) <= set(before.get(name, mine)) for name, mine in group.assignment.items())


# --- S3-04, S4-41: as many instances as partitions ----------------------------------------------------------------
def test_more_instances_than_partitions_only_wait() -> None:
    """S3-04: four partitions, six instances: four work, two are idle, and the group says why."""
    group = consumers(four_partitions(), *"abcdef")
    owned = [len(places) for places in group.assignment.values()]
    assert (4, 2) == (owned.count(1), owned.count(0))
    assert "max parallelism 4" in str(group)
    assert "max parallelism" not in str(consumers(four_partitions(), *"abcd"))


def test_the_plan_says_how_far_each_part_scales() -> None:
    """S3-04, S4-41: before anything is deployed: one task per partition, so eight downstream of a wider topic."""
    builder = ks.StreamsBuilder("scaled")
    builder.stream("in").repartition(name="slow", partitions=8).map_values(str.upper).to("out")
    planned = ks.plan(builder.build(), {"in": 2})
    assert {0: 2, 1: 8} == planned.max_parallelism
    assert "max parallelism: 2 of sub-topology 0, 8 of sub-topology 1" in str(planned).splitlines()


def test_scaling_a_join_needs_aligned_partitions() -> None:
    """S4-41: equal partition counts on both sides scale together; others are refused before the start."""
    builder = ks.StreamsBuilder("joined")
    builder.stream("a").join(builder.table("b"), lambda left, right: [left, right]).to("out")
    topology = builder.build()
    assert {0: 6} == ks.plan(topology, {"a": 6, "b": 6}).max_parallelism
    with pytest.raises(ks.errors.TopologyError, match='"a" has 6, "b" has 4'):
        ks.plan(topology, {"a": 6, "b": 4})
    assert ks.testing.check_partitions(topology, {"a": 6, "b": 4, "out": 6}).errors


# --- S3-05: work without coordination -----------------------------------------------------------------------------
def counting() -> ks.Topology:
    """Records by key."""
    builder = ks.StreamsBuilder("count")
    builder.stream("in").group_by_key().count(store="n").to_stream().to("out")
    return builder.build()


def worked_off(order: tuple[int, ...]) -> dict[int, Any]:
    """Return the output of tasks that were pickled separately and run in an order."""
    plans = [cloudpickle.dumps(plan) for plan in plan_tasks(counting(), Config(), {"in": 3})]
    found = {}
    for partition in order:
        task = Task(cloudpickle.loads(plans[partition]), Clock(0))
        task.push("in", partition, [(n, 10 * n, f"k{n % 2}", "x", ()) for n in range(5 + partition)])
        task.run_ready()
        found[partition] = [tuple(map(str, row)) for row in task.drain()]
    return dict(sorted(found.items()))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_tasks_share_nothing(order: tuple[int, ...]) -> None:
    """S3-05: each task is sent separately, and in any order of work each produces the same output."""
    found = worked_off(order)
    assert worked_off((0, 1, 2)) == found
    assert [5, 6, 7] == [len(rows) for rows in found.values()]


def test_who_joins_and_leaves_moves_one_partition_at_a_time() -> None:
    """S3-05: by default a partition has one instance; joining and leaving redistribute partitions."""
    group = consumers(four_partitions(), "a")
    shares = [sorted(map(len, group.assignment.values()))]
    for name in "bcd":
        group.join(name)
        shares.append(sorted(map(len, group.assignment.values())))
    group.leave("b")
    shares.append(sorted(map(len, group.assignment.values())))
    assert [[4], [2, 2], [1, 1, 2], [1, 1, 1, 1], [1, 1, 2]] == shares


# --- S3-06: no single point of failure ----------------------------------------------------------------------------
def test_three_quarters_of_the_keys_go_on_while_one_of_four_is_down() -> None:
    """S3-06: measured by key from the crash to its detection: keys of the other partitions never wait."""
    log = four_partitions()
    group = consumers(log, *"abcd")
    keys = [f"KEY-{n}" for n in range(400)]
    homes = {key: log.append("in", key, 0).partition for key in keys}
    for name in "abcd":
        group.poll(name)
        group.commit(name)
    group.crash("b")
    (lost,) = group.assignment["b"]
    flowing: set[str] = set()
    for second in range(1, 45):
        for key in keys[second::44]:
            log.append("in", key, second)
        group.advance_wall_clock_time("1s")
        for name in "acd":
            for place, offset in group.poll(name, timeout="0ms"):
                flowing.add(log.records(place, offset, 1)[0].key)
            group.commit(name)
    waiting = {key for key in keys if f"in-{homes[key]}" == lost}
    assert flowing == {key for key in keys[1:] if key not in waiting}
    share = len(flowing) / len(keys)
    print(f"{share:.0%} of the keys went on during the failover")
    assert 0.7 <= share <= 0.8
    group.advance_wall_clock_time("1s")
    (owner,) = [name for name, places in group.assignment.items() if lost in places]
    assert {place for place, _ in group.poll(owner)} >= {lost}, "and the rest follows"


# --- S3-10, S3-14: the cost of a failover -------------------------------------------------------------------------
def failover(standby_replicas: int, behind: int = 0) -> ks.simulation.ConsumerGroup:
    """Four tasks with a million records of state on three instances; one of them crashes."""
    state = {f"in-{number}": 1_000_000 for number in range(4)}
    group = ks.simulation.ConsumerGroup(
        "app", {"in": 4}, standby_replicas=standby_replicas, state=state, restore_rate=50_000, session_timeout="10s"
    )
    for name in "abc":
        group.join(name)
    group.advance_wall_clock_time("1h")
    for place in state:
        state[place] += behind
    group.crash("c")
    group.advance_wall_clock_time("1m")
    return group


def test_what_a_promise_of_latency_has_to_allow_is_the_pause_of_each_task() -> None:
    """S3-10: detection and restore, task by task; tasks that did not move have no pause."""
    group = failover(0)
    pauses = [each for each in group.pauses if each.noticed_ms > 3_600_000]
    assert group.events[-1].moved == len(pauses)
    for each in pauses:
        assert (10_000, 20_000, 30_000) == (
            each.noticed_ms - each.from_ms, each.until_ms - each.noticed_ms, each.length_ms,
        )  # fmt: skip
    assert "the longest 30s" in group.pauses.title
    assert "1,000,000" in str(group.pauses)


def test_a_standby_restores_only_what_it_has_not_read() -> None:
    """S3-14: without a standby all records are restored, with one only its lag; it never shares its task's instance."""
    without, with_one = (failover(replicas, behind=500).pauses[-1] for replicas in (0, 1))
    assert (1_000_500, 500) == (without.restored, with_one.restored)
    restored_for = [each.until_ms - each.noticed_ms for each in (without, with_one)]
    print(f"restored for {restored_for[0]} ms without a standby, {restored_for[1]} ms with one")
    assert [20_010, 10] == restored_for
    group = failover(1)
    for name, places in group.standbys.items():
        assert not set(places) & set(group.assignment[name])
    default = ks.config_report()["num.standby.replicas"]
    assert "0" == default.default
