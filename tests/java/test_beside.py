"""Each topology of the table run by Java, by the kit, and by one after the other: equal, or the reason is given."""

from __future__ import annotations

from itertools import zip_longest

import pytest

import kstreamnb as ks
from kstreamnb.kafka.application_reset import committed_positions
from kstreamnb.kafka.producer import produce
from tests.java.changelogs import NAMES
from tests.java.examples import EXAMPLES
from tests.java.feeds import COUNT, PARTITIONS, Records, committed_topics, feed, new_topics, topics_of
from tests.java.lab import IN_MEMORY, REPARTITION, SETTINGS, Lab, driven, run_in_driver
from tests.java.topologies import ALL, build

pytestmark = [pytest.mark.java, pytest.mark.slow]

REGROUPED = tuple(REPARTITION)
"""Behind a repartition Java's order is that in which its tasks happened to write: the kit is given the same order."""

INTERNAL = ("-changelog", "-repartition", "-topic")

LAST_VALUES = ("foreign-key-join", "music", "orders")
"""Two runs of Java differ: it drops answers that another subscription has overtaken, or two repartition topics mix."""

MOVED_BY_RESTORE = ("suppress-table",)
"""A key that leaves Java's buffer and returns within one commit interval has no tombstone between the two rows. Java's
restore then keeps the place of the first one and emits too early, depending on when it committed: a move through the
changelog is compared with Java without a restart."""

LOST_BY_RESTART = ("versioned-join",)
"""A restarted Java writes other records of a join with grace: 121, 121 and 22 by partition instead of 125, 116 and 20.
The kit that continues Java is compared with Java without a restart."""


def final(records: Records) -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    return {key: value for rows in records.values() for key, value, _ in rows}


def unmoved(lab: Lab, name: str, way: str) -> Records:
    """Return what half and half must be equal to."""
    if name in REGROUPED:
        return lab.in_javas_order(name, way)
    kept = name in MOVED_BY_RESTORE or (name in LOST_BY_RESTART and way.startswith("java-kit"))
    return lab.alone(name) if kept else lab.twice_in_memory(name) if way.endswith("memory") else lab.twice(name)


def agree(name: str, way: str, one: Records, other: Records) -> bool:
    """Compare two runs; print a line of the table."""
    equal = final(one) == final(other) if name in LAST_VALUES else one == other
    kind = "last values " * (name in LAST_VALUES) + "in Java's order " * (name in REGROUPED and way != "Spark")
    print(f"\n{name:28} {way:16} {kind}{'equal' if equal else 'DIFFERENT'}")
    for partition in () if equal else sorted({*one, *other}):
        pairs = enumerate(zip_longest(one.get(partition, []), other.get(partition, [])))
        differing = [(at, *pair) for at, pair in pairs if pair[0] != pair[1]]
        print(f"partition {partition}: {len(differing)} differ: {differing[:3]}")
    return equal


@pytest.mark.parametrize("name", ALL)
def test_the_description_is_javas(lab: Lab, name: str) -> None:
    """S0-1: names and numbers, which determine the names of changelogs."""
    assert str(build(name, "p").describe()).strip() == lab.java.describe(name).strip()


@pytest.mark.parametrize("name", ALL)
def test_java_creates_the_topics_that_the_kit_plans(lab: Lab, name: str) -> None:
    """S0-1: names, numbers of partitions and settings of repartition topics and changelogs."""
    lab.alone(name)
    prefix, created = f"{name}-alone", lab.admin.topics()
    owned = build(name, prefix).owned_topics(prefix, dict.fromkeys(topics_of(name, prefix), PARTITIONS))
    assert {topic.name for topic in owned} == {t for t in created if t.startswith(prefix) and t.endswith(INTERNAL)}
    for topic in owned:
        settings = lab.admin.settings([topic.name], dict(topic.config))[topic.name]
        assert (topic.partitions, dict(topic.config)) == (created[topic.name], settings)


@pytest.mark.parametrize("name", ALL)
def test_driver_and_java_agree(lab: Lab, name: str) -> None:
    """S0-1: every output partition."""
    java = lab.alone(name)
    kit = lab.in_javas_order(name, "alone") if name in REGROUPED else driven(name)
    assert agree(name, "driver", kit, java)


@pytest.mark.parametrize("name", ALL)
def test_spark_and_java_agree(lab: Lab, name: str) -> None:
    """S0-20: every output partition; if regrouped, Spark is as the driver, which in Java's order is as Java."""
    assert agree(name, "Spark", lab.on_spark(name), driven(name) if name in REGROUPED else lab.alone(name))


@pytest.mark.parametrize("name", ALL)
def test_java_continues_the_kit(lab: Lab, name: str) -> None:
    """S0-22: half by the kit and half by Java equals Java with a restart."""
    found = lab.kit_then_java(name)
    assert agree(name, "kit, then Java", found, unmoved(lab, name, "kit-java"))


@pytest.mark.parametrize("name", ALL)
def test_the_kit_continues_java(lab: Lab, name: str) -> None:
    """S0-22: half by Java and half by the kit equals Java with a restart."""
    found = lab.java_then_kit(name)
    assert agree(name, "Java, then kit", found, unmoved(lab, name, "java-kit"))


PERSISTENT = ("versioned-join", "processor", "processor-in-memory")
"""Their stores are of one kind whatever the settings say; all other stores follow them."""

IN_EITHER = [name for name in ALL if name not in PERSISTENT]


@pytest.mark.parametrize("name", IN_EITHER)
def test_java_in_memory_continues_the_kit(lab: Lab, name: str) -> None:
    """S0-22: the stores of a Java application may be in memory instead of in RocksDB."""
    found = lab.kit_then_java(name, "kit-java-memory", settings=IN_MEMORY)
    assert agree(name, "kit, Java memory", found, unmoved(lab, name, "kit-java-memory"))


@pytest.mark.parametrize("name", IN_EITHER)
def test_the_kit_continues_java_in_memory(lab: Lab, name: str) -> None:
    """S0-22: as above, the other way."""
    found = lab.java_then_kit(name, "java-kit-memory", IN_MEMORY)
    assert agree(name, "Java memory, kit", found, unmoved(lab, name, "java-kit-memory"))


@pytest.mark.parametrize("name", [*NAMES, "count", "tumbling", "foreign-key-join", "table-group", "processor"])
def test_java_restores_changelogs_that_were_turned_on_later(lab: Lab, name: str) -> None:
    """S0-22: the first deployment with ``changelogs=True`` writes the whole state, without a new record."""
    found = lab.kit_then_java(name, "later-java", logged_later=True)
    assert agree(name, "snapshot, Java", found, unmoved(lab, name, "later-java"))


RUNNING = (
    "count",
    "tumbling",
    "sessions",
    "suppress-windows",
    "stream-table-join",
    "table-outer-join",
    "versioned-join",
    "processor",
)


@pytest.mark.parametrize("name", RUNNING)
def test_a_replay_continues_from_the_state_of_a_running_application(lab: Lab, name: str) -> None:
    """S0-22: from its changelogs, over the records after its offsets, with what Java itself then writes.

    Java's group stays as it is, and the rows are those that its interactive queries answer.
    """
    prefix = lab.prepare(name, "running")
    lab.java.start(prefix, name, prefix, "max.task.idle.ms=30000")  # else it joins what comes first
    lab.java.await_input(prefix, committed_topics(name, prefix))
    offsets, before = committed_positions(lab.admin, prefix), lab.output(prefix)
    topology, options = build(name, prefix), {"bootstrap_servers": lab.servers, "config": SETTINGS}
    stores = ks.kafka.read_changelogs(topology, prefix, **options)
    assert stores.problems == ()
    assert stores.offsets == offsets == committed_positions(lab.admin, prefix)
    if name == "count":
        assert {key: str(count) for key, count in stores["counts"]} == lab.java.rows(prefix, "counts")
    feed(lab.servers, name, prefix, 1)
    lab.java.await_input(prefix, committed_topics(name, prefix))
    topics = topics_of(name, prefix)
    sample = ks.Sample.capture(
        lab.servers, *topics, from_=stores.offsets, records=None, key_serde="string", value_serde="string"
    )
    assert len(sample) == COUNT // 2
    run = ks.replay(topology, sample, PARTITIONS, config={**SETTINGS, "application.id": prefix}, stores=stores)
    found: Records = {}
    for record in run.output(f"{prefix}-out"):
        row = (record.key.encode(), record.value.encode(), record.timestamp)
        found.setdefault(record.partition, []).append(row)
    written = {part: rows[len(before.get(part, [])) :] for part, rows in lab.output(prefix).items()}
    lab.java.stop(prefix)
    assert agree(name, "running, replay", dict(sorted(found.items())), {p: rows for p, rows in written.items() if rows})


@pytest.mark.parametrize(("name", "store"), [("count", "counts"), ("processor", "seen")])
def test_java_continues_with_the_local_state_that_it_left(lab: Lab, name: str, store: str) -> None:
    """S0-22: its state directory is older than the changelogs; what the kit has done meanwhile comes from those."""
    prefix = lab.prepare(name, "local-state")
    lab.java.start(prefix, name, prefix)
    lab.java.await_input(prefix, committed_topics(name, prefix))
    before = lab.java.rows(prefix, store)
    lab.java.close(prefix)
    lab.adopt(name, prefix)
    feed(lab.servers, name, prefix, 1)
    lab.deploy(name, prefix, "adopted", changelogs=True).hand_over(300)
    lab.java.start(prefix, name, prefix)
    lab.java.await_input(prefix, committed_topics(name, prefix))
    after = lab.java.rows(prefix, store)
    lab.java.stop(prefix)
    print(f"\n{name:28} local state      {len(before)} rows, then {len(after)}")
    assert before != after
    assert after == {key: str(value) for key, value in run_in_driver(name).store(store).all()}


def test_java_drops_old_records_that_the_kit_counts(lab: Lab) -> None:
    """S0-22: its tasks read ahead of each other and close windows that the others still fill.

    No record is late for a reader that merges the partitions by time, as the kit does.
    """
    name, prefix, count = "regroup-windows", "regroup-windows-old", 40_000
    topic = f"{prefix}-left"
    records = [ks.TopicRecord(topic, at % PARTITIONS, -1, at * 100, f"k{at}", f"v{at % 9}") for at in range(count)]
    new_topics(lab.admin, name, prefix)
    produce(lab.servers, records, key_serde="string", value_serde="string", keep_partitions=True)
    lab.java_runs(name, prefix)
    driver = ks.TopologyTestDriver(build(name, prefix), SETTINGS, partitions=PARTITIONS)
    driver.pipe(records)
    kits = [
        (each.key, each.value) for each in driver.create_output_topic(f"{prefix}-out", "bytes", "bytes").read_records()
    ]
    javas = [(key, value) for rows in lab.output(prefix).values() for key, value, _ in rows]
    dropped = count - counted(javas)
    print(f"\n{name:28} old records      the kit counts {counted(kits):,} of {count:,}, Java drops {dropped:,}")
    assert counted(kits) == count
    assert dropped > 0


def counted(rows: list[tuple[bytes | None, bytes | None]]) -> int:
    """The sum of the last counts of all windows, from rows such as ``g1`` and ``0-10000=7``."""
    last = {(key, window): int(number) for key, value in rows for window, number in [(value or b"=0").split(b"=")]}
    return sum(last.values())


def test_an_application_with_the_streams_protocol_is_refused_while_it_runs(lab: Lab) -> None:
    """S0-22: librdkafka cannot see the members of its group; the state moves there and back as with the others."""
    prefix = lab.prepare("count", "streams-protocol")
    protocol = ("group.protocol=streams",)
    lab.java.start(prefix, "count", prefix, *protocol)
    lab.java.await_input(prefix, committed_topics("count", prefix))
    offsets = committed_positions(lab.admin, prefix)
    with pytest.raises(ks.errors.ApplicationStateError, match=f'group "{prefix}" has active members'):
        lab.adopt("count", prefix)
    with pytest.raises(ks.errors.ApplicationStateError, match="active members"):
        ks.kafka.reset(lab.servers, prefix)
    with pytest.raises(ks.errors.CheckpointError, match="has run elsewhere") as refused:
        lab.deploy("count", prefix)
    assert "kstreamnb.adopt(topology, …" in str(refused.value.hint)
    options = {"bootstrap_servers": lab.servers, "config": SETTINGS}
    assert ks.kafka.read_changelogs(build("count", prefix), prefix, **options).offsets == offsets
    assert committed_positions(lab.admin, prefix) == offsets
    lab.java.stop(prefix)
    lab.adopt("count", prefix)
    lab.java.start(prefix, "count", prefix, *protocol)
    lab.java.await_running(prefix)
    with pytest.raises(ks.errors.ApplicationStateError, match="has active members"):
        lab.deploy("count", prefix, "adopted", changelogs=True)
    lab.java.stop(prefix)
    query = lab.deploy("count", prefix, "adopted", changelogs=True)
    query.hand_over(300)
    feed(lab.servers, "count", prefix, 1)
    lab.java.start(prefix, "count", prefix, *protocol)
    lab.java.await_input(prefix, committed_topics("count", prefix))
    lab.java.stop(prefix)
    assert agree("count", "Java, kit, Java", lab.output(prefix), lab.twice("count"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_kafka_and_java_agree(lab: Lab, name: str) -> None:
    """S0-22: description and output; of the music charts also the answers to interactive queries."""
    assert str(build(name, "p").describe()).strip() == lab.java.describe(name).strip()
    prefix = lab.prepare(name, "alone", (0, 1))
    stores = ["top-five-songs-by-genre"] if name == "music" else []
    answers = lab.java_runs(name, prefix, *stores)
    kit = lab.in_javas_order(name, "alone") if name in REGROUPED else driven(name)
    assert agree(name, "driver", kit, lab.output(prefix))
    driver = run_in_driver(name)
    assert answers == [dict(driver.store(store).all()) for store in stores]
