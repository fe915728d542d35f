"""Races: found among allowed orders of work, shrunk, and identical for the same seed."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks
from kstreamnb.testdriver.races.race_detector import find_races


def records(*rows: tuple[str, Any, Any, int]) -> list[ks.TopicRecord]:
    """Records of (topic, key, value, time), in the partitions of their keys."""
    return [ks.TopicRecord(topic, -1, -1, time, key, value) for topic, key, value, time in rows]


def joined() -> ks.Topology:
    """Clicks joined with the table's row at their time of arrival."""
    builder = ks.StreamsBuilder("join")
    builder.stream("click").left_join(builder.table("tier"), lambda click, tier: f"{click}/{tier}").to("out")
    return builder.build()


CLICKS = records(
    *(("tier", f"u{n % 3}", f"t{n}", n * 10) for n in range(8)),
    *(("click", f"u{n % 3}", f"c{n}", n * 7 + 1) for n in range(12)),
)


def test_a_click_that_may_come_before_its_row_is_a_race_of_two_records() -> None:
    """S0-27: a join with a table depends on the order; two records show it: a row, and a click of its key."""
    found = find_races(joined(), CLICKS, schedules=40, seed=3)
    assert found
    race = found.race
    assert race is not None
    assert "result" == race.kind
    assert ["click", "tier"] == sorted(record.topic for record in race.sample)
    assert 1 == len({record.key for record in race.sample})
    (difference,) = race.differences
    assert 'topic "out"' == difference.where
    assert difference.usual != difference.other
    assert 4 == len(race.moves), "each record is delivered and processed once"
    assert all(part in str(found) for part in ("race found", "seed 3", "delivers 1 record", "record of tier-0"))


def test_values_of_a_topic_that_is_chosen_record_by_record_are_shown() -> None:
    """Differences showed "the bytes …" instead of them."""
    builder = ks.StreamsBuilder("join")
    clicks = builder.stream("click").left_join(builder.table("tier"), lambda click, tier: f"{click}/{tier}")
    clicks.to(lambda key, value, record: "out")
    race = find_races(builder.build(), CLICKS, schedules=40, seed=3).race
    assert race is not None
    (difference,) = race.differences
    assert (difference.where, difference.key) == ('topic "out"', f'"{race.sample[0].key}"')
    assert all(isinstance(value, str) for value in (*difference.usual, *difference.other))


def test_the_records_name_the_topics_of_a_pattern_and_their_partitions() -> None:
    """As for a replay: without partitions=, the fewest that include those of all records."""
    topology = ks.Topology().add_source("s", pattern="eu-.*").add_sink("out", "copies", "s")
    sample = [ks.TopicRecord(f"eu-{n % 2}", n, -1, n, "a", n) for n in range(3)]
    found = find_races(topology, iter(sample), schedules=20)
    assert found, "the same key in several partitions"
    assert not find_races(topology, sample[:1], schedules=20, partitions=3)


def test_functions_that_change_their_value_do_not_change_the_next_order() -> None:
    """Every order of work begins with the original records, whatever the previous one did to them."""

    def spoil(value: dict[str, int]) -> dict[str, int]:
        value["n"] += 1
        return value

    builder = ks.StreamsBuilder("spoiled")
    builder.stream("in").map_values(spoil).select_key(lambda key, _: key).repartition().map_values(spoil).to("out")
    found = find_races(
        builder.build(), records(*(("in", f"k{n}", {"n": n}, n) for n in range(6))), schedules=10, seed=1
    )
    assert not found


def test_old_input_of_a_regrouped_window_is_a_race_of_two_records() -> None:
    """S0-22: a task that reads ahead closes the window of the other one, as in Kafka Streams on old records."""
    builder = ks.StreamsBuilder("regroup")
    groups = builder.stream("in").group_by(lambda key, value: value, name="by-value")
    counts = groups.windowed_by(ks.TimeWindows.of_size_with_no_grace("10ms")).count(store="windows")
    counts.to_stream().map(lambda key, count: (key.key, count)).to("out")
    old = [ks.TopicRecord("in", n % 2, -1, n * 10, f"k{n % 2}", "all") for n in range(20)]
    race = find_races(builder.build(), old, schedules=20, seed=1, partitions=2).race
    assert race is not None
    assert {0, 1} == {record.partition for record in race.sample}
    lost = {difference.where: (difference.usual, difference.other) for difference in race.differences}
    assert {'store "windows"': ((1,), ()), 'topic "out"': ((1, 1), (1,))} == lost


def test_the_same_seed_gives_the_same_report() -> None:
    """Reports can be compared, and a race can be replayed."""
    once, again = (find_races(joined(), CLICKS, schedules=20, seed=5, partitions=2) for _ in range(2))
    assert str(once) == str(again)
    assert once == again
    assert str(find_races(joined(), CLICKS, schedules=20, seed=6, partitions=2)) != str(once)


def test_waiting_for_the_other_partition_removes_the_race() -> None:
    """S0-25: with max_task_idle the row and the click are processed by time, in every order of delivery."""
    found = find_races(joined(), CLICKS, schedules=40, config={"max_task_idle": "1s"})
    assert not found
    assert "no race found: 40 orders (seed 0), one outcome" == str(found)


def test_counts_in_windows_of_one_partition_are_no_race() -> None:
    """A task's output for one partition is independent of other tasks; after a repartition late records are not."""

    def windows(change: Any) -> ks.Topology:
        builder = ks.StreamsBuilder("windows")
        stream = builder.stream("in")
        groups = stream.group_by(lambda key, value: f"g{value % 2}") if change else stream.group_by_key()
        groups.windowed_by(ks.TimeWindows.of(size="10ms")).count(store="n").to_stream().to("out")
        return builder.build()

    rows = records(*(("in", f"k{n % 5}", n, n * 4) for n in range(30)))
    assert not find_races(windows(change=False), rows, schedules=25, partitions=3)
    found = find_races(windows(change=True), rows, schedules=25, partitions=3)
    assert found.race is not None
    assert 2 == len(found.race.sample)
    assert {'store "n"', 'topic "out"'} == {each.where for each in found.race.differences}


def test_two_writers_of_a_key_are_a_race_of_order_only() -> None:
    """S3-24: records of two topics for one key arrive in either order, and nothing is lost."""
    builder = ks.StreamsBuilder("two")
    builder.stream("a").to("out")
    builder.stream("b").to("out")
    rows = records(*((topic, "k", f"{topic}{n}", n) for n in range(4) for topic in "ab"))
    found = find_races(builder.build(), rows, schedules=20)
    assert ["order"] == list(found.counts)
    assert "the same values arrive in another order" in str(found)


def test_a_function_that_fails_only_in_some_orders_is_found() -> None:
    """An error is an outcome like any other."""
    builder = ks.StreamsBuilder("fails")
    table = builder.table("tier")
    builder.stream("click").left_join(table, lambda click, tier: tier["name"]).to("out")
    rows = records(("tier", "u", {"name": "gold"}, 0), ("click", "u", "c", 1))
    found = find_races(builder.build(), rows, schedules=20)
    assert found.race is not None
    assert "the run fails" in {each.where for each in found.race.differences}


def test_a_report_has_a_page() -> None:
    """Text and HTML show the same rows."""
    page = find_races(joined(), CLICKS, schedules=10)._repr_mimebundle_()
    assert "<table" in page["text/html"]
    assert "in the usual order" in page["text/html"]
    assert "move 1" in page["text/html"]
