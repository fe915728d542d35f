"""State stores at work: replaceable, shared through changelogs, divided by partition, used for deduplication."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from random import Random
from typing import Any

import pytest

import kstreamnb as ks
from tests.semantics.scenario import Engine, Row, Scenario, records


# --- S0-59, S1-21: implementations of stores ---------------------------------------------------------------------
class RemoteStore:
    """A user's own store: a dict behind get, put and all."""

    def __init__(self, spec: ks.StoreSpec) -> None:
        self.name, self.rows = spec.name, {}

    def get(self, key: Any) -> Any:
        """One row."""
        return self.rows.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Put or delete a row."""
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = value

    def all(self) -> Any:
        """Every row, in no particular order."""
        return iter(list(self.rows.items()))


def clicks_per_user(store: Any = "clicks-per-user", store_type: Any = "persistent") -> ks.Topology:
    """A count in one kind of store or another."""
    builder = ks.StreamsBuilder("clicks", store_type=store_type)
    counts = builder.stream("clicks").group_by_key().count(materialized=ks.Materialized(store))
    counts.to_stream().to("counts", value_serde="long")
    return builder.build()


KEPT = {
    "persistent": clicks_per_user,
    "in memory": lambda: clicks_per_user(store_type="in_memory"),
    "a supplier's": lambda: clicks_per_user(ks.Stores.in_memory_key_value_store("clicks-per-user")),
    "remote": lambda: clicks_per_user(
        ks.StoreSpec("clicks-per-user", "timestamped_key_value", factory=RemoteStore),
    ),
}
CLICKS = records("clicks: ann→a@0, bob→b@1, ann→c@2, ann→d@3")
COUNTS = [("ann", 1, 0), ("bob", 1, 1), ("ann", 2, 2), ("ann", 3, 3)]


@pytest.mark.parametrize("kind", KEPT)
def test_results_do_not_depend_on_where_rows_lie(engine: Engine, kind: str) -> None:
    """S0-59, S1-21, S4-05: a RocksDB store, an in-memory one, a supplier's and a user's own produce the same
    results.
    """
    outcome = engine.check(Scenario(KEPT[kind], CLICKS, {"counts": COUNTS}))
    assert outcome.store("clicks-per-user") == {"ann": 3, "bob": 1}


@pytest.mark.parametrize("kind", KEPT)
def test_every_kind_of_store_is_restored_from_its_changelog(kind: str) -> None:
    """S4-05, S4-09: in-memory rows survive as long as the store is logged (C-12)."""
    driver = ks.TopologyTestDriver(KEPT[kind](), changelogs=True)
    driver.pipe([ks.TopicRecord(row.topic, 0, n, row.timestamp, row.key, row.value) for n, row in enumerate(CLICKS)])
    changelog = driver.create_output_topic("clicks-clicks-per-user-changelog", value_serde="bytes").read_records()
    last = {record.key: int.from_bytes(record.value[-8:], "big") for record in changelog}
    assert last == dict(driver.get_key_value_store("clicks-per-user").all())


def in_memory(kept: ks.Materialized) -> ks.Topology:
    """A count in an in-memory store."""
    builder = ks.StreamsBuilder("clicks")
    builder.stream("clicks").group_by_key().count(materialized=kept).to_stream().to("out")
    return builder.build()


@pytest.mark.parametrize(
    ("kept", "rows"),
    [
        (ks.Materialized(ks.Stores.in_memory_key_value_store("counts")), {"ann": 2}),
        (ks.Materialized(ks.Stores.in_memory_key_value_store("counts")).with_logging_disabled(), {}),
        (ks.Materialized(ks.Stores.in_memory_key_value_store("counts", logged=False)), {}),
    ],
    ids=["logged", "not logged", "the store says so"],
)
def test_a_store_that_is_not_logged_has_no_changelog(kept: ks.Materialized, rows: dict[str, int]) -> None:
    """S4-05, S4-09: on Kafka it cannot be restored, on Spark only from the checkpoint; the plan says so."""
    driver = ks.simulation.ClusterDriver(in_memory(kept))
    driver.create_input_topic("clicks").pipe_key_value_list([("ann", "a"), ("ann", "b")])
    driver.run_ready()
    driver.application.commit()
    driver.application.crash()
    driver.application.restart()
    assert rows == dict(driver.application.store("counts").all())
    assert bool(rows) == ("clicks-counts-changelog" in driver.produced_topic_names())
    (line,) = [line for line in str(ks.plan(in_memory(kept), {"clicks": 1})).splitlines() if "store counts" in line]
    assert bool(rows) == ("not logged: restored from the checkpoint alone" not in line)


# --- S1-22: changelogs as input of other applications -------------------------------------------------------------
def test_another_application_reads_a_changelog_as_its_table() -> None:
    """S1-22: the rows of the second application's table are those of the store."""
    topology = clicks_per_user(ks.Stores.persistent_key_value_store("clicks-per-user"))
    first = ks.TopologyTestDriver(topology, changelogs=True)
    for row in CLICKS:
        first.create_input_topic("clicks").pipe_input(row.key, row.value, at=row.timestamp)
    changelog = "clicks-clicks-per-user-changelog"
    builder = ks.StreamsBuilder("reader")
    builder.table(changelog, store="copy", value_serde="long")
    second = ks.TopologyTestDriver(builder.build())
    second.pipe(first.create_output_topic(changelog, value_serde="long").read_records())
    assert dict(second.get_key_value_store("copy").all()) == dict(first.get_key_value_store("clicks-per-user").all())


# --- S2-44 --------------------------------------------------------------------------------------------------------
def test_each_task_holds_only_the_rows_of_its_partition() -> None:
    """S2-44: four partitions: the stores of the tasks are disjoint, and their union is the table."""
    builder = ks.StreamsBuilder("divided")
    builder.table("users", store="users")
    driver = ks.TopologyTestDriver(builder.build(), partitions={"users": 4})
    users = driver.create_input_topic("users")
    for number in range(40):
        users.pipe_input(f"KEY-{number}", number, at=number)
    parts = [{key for key, _ in task.stores["users"].all()} for task in driver.tasks.by_id.values()]
    assert len(parts) == 4
    assert all(parts)
    assert sum(map(len, parts)) == len(set().union(*parts)) == 40
    assert set().union(*parts) == {key for key, _ in driver.get_key_value_store("users").all()}


# --- S4-06: deduplication -----------------------------------------------------------------------------------------
class Deduplicate(ks.Processor[str, Any, str, Any]):
    """Forwards an id once in ten minutes of stream time."""

    def stores(self) -> tuple[ks.StoreSpec, ...]:
        """When each id was seen."""
        return (ks.Stores.persistent_window_store("seen", retention="10m", window_size="10m", value_serde="string"),)

    def process(self, record: ks.Record[str, Any]) -> None:
        """Forward a record whose id was not seen for ten minutes."""
        seen = self.context.get_state_store("seen")
        before = next(seen.fetch_between(record.key, record.timestamp - 600_000, record.timestamp), None)
        if before is None:
            seen.put(record.key, "", record.timestamp)
            self.context.forward(record)


def deduplicated() -> ks.Topology:
    """Ids, each once in ten minutes."""
    builder = ks.StreamsBuilder()
    builder.stream("ids").process(Deduplicate).to("out")
    return builder.build()


def test_an_id_passes_once_in_ten_minutes(engine: Engine) -> None:
    """S4-06: a, b, a, c, b gives a, b, c; ten minutes later a passes again."""
    ids = [("a", 0), ("b", 1), ("a", 2), ("c", 3), ("b", 4), ("a", 600_001)]
    engine.check(
        Scenario(
            deduplicated,
            tuple(Row("ids", key, "", at) for key, at in ids),
            {"out": [("a", "", 0), ("b", "", 1), ("c", "", 3), ("a", "", 600_001)]},
        )
    )


# --- S4-07: sessions ----------------------------------------------------------------------------------------------
def sessions_of_clicks() -> ks.Topology:
    """Clicks of a user, apart by no more than five minutes."""
    builder = ks.StreamsBuilder()
    windows = ks.SessionWindows.of(gap="5m")
    sessions = builder.stream("clicks").group_by_key().windowed_by(windows).count(store="sessions")
    sessions.to_stream(lambda session, count: f"{session.key} from {session.start}").to("out", value_serde="long")
    return builder.build()


def test_clicks_far_apart_are_two_sessions(engine: Engine) -> None:
    """S4-07: the third click comes six minutes after the second."""
    engine.check(
        Scenario(
            sessions_of_clicks,
            records("clicks: ann→a@0, ann→b@60000, ann→c@420000"),
            {
                "out": [
                    ("ann from 0", 1, 0),
                    ("ann from 0", None, 0),
                    ("ann from 0", 2, 60_000),
                    ("ann from 420000", 1, 420_000),
                ]
            },
        )
    )


# --- S1-18, S1-17: streams and tables -----------------------------------------------------------------------------
def products() -> ks.Topology:
    """Changes of a database table, as a change-data-capture connector writes them, as a table."""
    builder = ks.StreamsBuilder()
    changes = builder.stream("db.public.products")
    rows = changes.map(lambda key, change: (str((change["after"] or change["before"])["id"]), change["after"]))
    rows.to_table(store="products").to_stream().to("out")
    return builder.build()


def test_changes_of_a_database_become_a_table(engine: Engine) -> None:
    """S1-18: insert, update and delete; a delete is a tombstone."""
    apple, dearer, pear = (
        {"id": n, "name": name, "price": p} for n, name, p in [(1, "apple", 5), (1, "apple", 6), (2, "pear", 7)]
    )
    changes = [("c", None, apple), ("c", None, pear), ("u", apple, dearer), ("d", pear, None)]
    rows = tuple(
        Row("db.public.products", None, {"op": op, "before": before, "after": after}, at)
        for at, (op, before, after) in enumerate(changes)
    )
    expected = [("1", apple, 0), ("2", pear, 1), ("1", dearer, 2), ("2", None, 3)]
    outcome = engine.check(Scenario(products, rows, {"out": expected}))
    assert outcome.store("products") == {"1": dearer}


def there_and_back() -> ks.Topology:
    """A stream to a table and back to a stream."""
    builder = ks.StreamsBuilder()
    builder.stream("in").to_table().to_stream().to("out")
    return builder.build()


def test_a_stream_as_a_table_as_a_stream_is_the_stream(engine: Engine) -> None:
    """S1-17: all records with a key come back, tombstones too."""
    rows = records("in: a→1@0, →2@1, b→@2, a→3@3")
    expected = [(row.key, row.value, row.timestamp) for row in rows if row.key is not None]
    engine.check(Scenario(there_and_back, rows, {"out": expected}))


# --- S1-19: a materialized view -----------------------------------------------------------------------------------
def dear_names() -> ks.Topology:
    """Names of expensive products in capitals, joined with their stock."""
    builder = ks.StreamsBuilder()
    priced = (
        builder.table("products").filter(lambda key, row: row["price"] > 5).map_values(lambda row: row["name"].upper())
    )
    priced.join(builder.table("stock"), lambda name, pieces: f"{name}: {pieces}", store="view")
    return builder.build()


VIEW = """
SELECT products.key, upper(json_extract(products.value, '$.name')) || ': ' || stock.value
FROM products JOIN stock USING (key) WHERE json_extract(products.value, '$.price') > 5
"""


@pytest.mark.parametrize("seed", range(5))
def test_a_materialized_view_equals_its_sql_query_after_each_change(seed: int) -> None:
    """S1-19: the store equals a SELECT over the sources, after each of 50 random changes."""
    chance, sizes = Random(seed), set()
    driver = ks.TopologyTestDriver(dear_names())
    topics = {name: driver.create_input_topic(name) for name in ("products", "stock")}
    with closing(sqlite3.connect(":memory:")) as database:
        for name in topics:
            database.execute(f"CREATE TABLE {name} (key TEXT PRIMARY KEY, value)")
        for number in range(50):
            topic, key = chance.choice(sorted(topics)), chance.choice("abc")
            product = {"name": key * 2, "price": chance.randrange(12)}
            value: Any = product if topic == "products" else chance.randrange(9)
            if chance.random() < 0.2:
                value = None
                database.execute(f"DELETE FROM {topic} WHERE key = ?", (key,))
            else:
                database.execute(f"REPLACE INTO {topic} VALUES (?, ?)", (key, json.dumps(value)))
            topics[topic].pipe_input(key, value, at=number)
            selected = dict(database.execute(VIEW).fetchall())
            assert dict(driver.get_key_value_store("view").all()) == selected
            sizes.add(len(selected))
    assert sizes >= {0, 1, 2}, "rows came and went"
