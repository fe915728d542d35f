"""Foreign-key joins whose sides run in separate tasks give what one task gives."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError
from kstreamnb.spark.jvm.profiles import profile_settings
from kstreamnb.spark.state.checkpoint_manifest import Manifest, check_compatible, manifest_of
from tests.spark.level_runs import forget, ran
from tests.spark.streams import Output, Row, driven, placed


def _customer(order: str) -> str | None:
    return order.split("/")[0] or None


def _product(order: str) -> str:
    return order.split("/")[1].split("+")[0]


def _both(left: str, right: str | None) -> str:
    return f"{left}+{right}"


def one_join(*, left: bool = False, **tables: Any) -> ks.Topology:
    """Orders with the names of their customers."""
    builder = ks.StreamsBuilder("shop")
    customers, orders = builder.table("customers", store="customers"), builder.table("orders", **tables)
    join = orders.left_join if left else orders.join
    join(customers, _both, foreign_key=_customer).to_stream().to("named")
    return builder.build()


def two_joins() -> ks.Topology:
    """Orders with customers and products, the second join on the result of the first; counted by result."""
    builder = ks.StreamsBuilder("shop")
    customers, products, orders = map(builder.table, ("customers", "products", "orders"))
    named = orders.join(customers, _both, foreign_key=_customer)
    whole = named.left_join(products, _both, foreign_key=_product)
    whole.to_stream().to("named")
    whole.group_by(lambda key, value: (value, 1)).count(store="counts").to_stream().to("counts", value_serde="long")
    return builder.build()


def computed_sides() -> ks.Topology:
    """The left table is the latest order of each buyer, the right one the number of visits."""
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("orders").select_key(lambda key, order: f"b{len(order or '') % 5}{key}").to_table()
    visits = builder.stream("customers").group_by_key().count(store="visits").map_values(str)
    mapped = orders.filter(lambda key, order: len(order) % 7 != 3).map_values(lambda order: order)
    mapped.join(visits, _both, foreign_key=_customer).to_stream().to("named")
    return builder.build()


def _rows(seed: int, count: int) -> list[Row]:
    """Changes of all tables in some disorder: new rows, other foreign keys, deletions, null foreign keys."""
    random = Random(seed)
    rows: list[Row] = []
    for at in range(count):
        time = 1_000 + 10 * at - random.choice((0, 0, 0, 5, 300))
        customer, product = f"c{random.randrange(6)}", f"p{random.randrange(4)}"
        topic = random.choice(("orders", "orders", "customers", "products"))
        key = {"orders": f"o{random.randrange(12)}", "customers": customer, "products": product}[topic]
        value = random.choice((f"{customer}/{product}", f"{customer}/{product}", f"/{product}", None))
        rows.append((topic, key, value if topic == "orders" or value is None else f"{key}v{at}", time))
    return rows


TOPOLOGIES = {
    "inner": one_join,
    "left": lambda: one_join(left=True),
    "two joins": two_joins,
    "computed sides": computed_sides,
    "versioned": lambda: one_join(
        materialized=ks.Materialized(ks.Stores.persistent_versioned_key_value_store("orders", "1m"))
    ),
}


@pytest.mark.parametrize("shape", TOPOLOGIES)
@pytest.mark.parametrize("batches", [1, 7])
def test_split_joins_give_the_drivers_records_in_its_order(tmp_path: Path, shape: str, batches: int) -> None:
    """Record by record in each partition, with lost workers between batches."""
    topology = TOPOLOGIES[shape]()
    for seed in range(3):
        rows = [row for row in _rows(seed, 200) if row[0] != "products" or shape == "two joins"]
        written = ["named", "counts"] if shape == "two joins" else ["named"]
        config = {"statestore.cache.max.bytes": 0}
        output, cluster = ran(tmp_path, topology, rows, written, batches=batches, between=forget, **config)
        assert not cluster.deployment.application.cycles
        assert driven(topology, rows, 3, written, **config) == output
        assert any(value is not None for part in output["named"].values() for _, value, _ in part)


@pytest.mark.parametrize("shape", TOPOLOGIES)
def test_split_joins_with_caches_end_with_the_drivers_rows(tmp_path: Path, shape: str) -> None:
    """A cached left table sends its rows when it is flushed, at the end of a batch."""
    topology = TOPOLOGIES[shape]()
    for seed in range(3):
        rows = [row for row in _rows(seed, 200) if row[0] != "products" or shape == "two joins"]
        output, _ = ran(tmp_path, topology, rows, ["named"], batches=5, between=forget)
        assert _last(driven(topology, rows, 3, ["named"])["named"]) == _last(output["named"])


def _last(output: Output) -> dict[Any, Any]:
    """Return the last value of each key, in each partition."""
    return {(number, key): value for number, part in output.items() for key, value, _ in part}


def test_an_empty_left_value_is_a_row_although_it_has_no_bytes(tmp_path: Path) -> None:
    """An answer without bytes has no value, but a row of the copy has one."""
    builder = ks.StreamsBuilder("shop")
    texts = {"key_serde": "string", "value_serde": "string"}
    customers, orders = builder.table("customers", **texts), builder.table("orders", **texts)
    joined = orders.left_join(customers, _both, foreign_key=lambda order: order or None)
    joined.to_stream().to("named", value_serde="string")
    rows: list[Row] = [("orders", "o1", "", 1), ("customers", "c", "Ada", 2), ("orders", "o2", "c", 3)]
    output, cluster = ran(tmp_path, builder.build(), rows, ["named"], batches=2, between=forget)
    assert len(cluster.deployment.application.split) == 1
    assert _last(output["named"]) == _last(driven(builder.build(), rows, 3, ["named"])["named"])
    assert "+None" in _last(output["named"]).values()


class _Numbered:
    """Counts how often it is asked."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Begin at 0."""
        self.asked = 0

    def transform(self, key: str, order: str | None) -> str | None:
        """Append the count."""
        self.asked += 1
        return order and f"{order}/{self.asked}"

    def close(self) -> None:
        """Do nothing."""


def _transformer_above(builder: ks.StreamsBuilder) -> None:
    orders = builder.table("orders").transform_values(_Numbered).filter(lambda key, order: bool(order))
    orders.join(builder.table("customers"), _both, foreign_key=_customer).to_stream().to("out")


def _processors_above(builder: ks.StreamsBuilder) -> None:
    orders, customers = (builder.stream(topic).process(ks.Processor).to_table() for topic in ("orders", "customers"))
    orders.join(customers, _both, foreign_key=_customer).to_stream().to("out")


def _processor_beside_the_right_table(builder: ks.StreamsBuilder) -> None:
    builder.add_state_store(ks.Stores.in_memory_key_value_store("shared"))
    customers = builder.table("customers")
    customers.to_stream().process(ks.Processor, "shared")
    orders = builder.stream("orders").process(ks.Processor, "shared").to_table()
    orders.join(customers, _both, foreign_key=_customer).to_stream().to("out")


def _self_join(builder: ks.StreamsBuilder) -> None:
    people = builder.table("people")
    people.join(people, _both, foreign_key=_customer).to_stream().to("out")


def _right_table_twice(builder: ks.StreamsBuilder) -> None:
    orders, customers = builder.table("orders"), builder.table("customers")
    named = orders.join(customers, _both, foreign_key=_customer, store="named")
    named.join(customers, _both, foreign_key=_product).to_stream().to("out")


def _one_input_for_both(builder: ks.StreamsBuilder) -> None:
    entries = builder.stream("entries")
    left = entries.select_key(lambda key, value: value).to_table()
    left.join(entries.to_table(), _both, foreign_key=_customer).to_stream().to("out")


def _windows_below(builder: ks.StreamsBuilder) -> None:
    named = builder.table("orders").join(builder.table("customers"), _both, foreign_key=_customer)
    named.to_stream().group_by_key().windowed_by(ks.TimeWindows.of("1m")).count(store="counts")


def _left_table_below(builder: ks.StreamsBuilder) -> None:
    orders = builder.table("orders", store="orders")
    named = orders.join(builder.table("customers"), _both, foreign_key=_customer)
    named.join(orders, _both).to_stream().to("out")


@pytest.mark.parametrize(
    ("build", "circles"),
    [
        (_self_join, [{0}]),
        (_right_table_twice, [{0, 1}]),
        (_one_input_for_both, [{0, 1}]),
        (_windows_below, [{0, 1}]),
        (_left_table_below, [{0, 1}]),
        (_transformer_above, [{0, 1}]),
        (_processors_above, [{1, 3}]),
        (_processor_beside_the_right_table, [{0, 1}]),
    ],
)
def test_joins_whose_results_would_depend_on_the_split_stay_in_one_task(build: Any, circles: list[set[int]]) -> None:
    """Both sides share an input or stores, what follows depends on stream time, or a left row on when it is asked.

    A join of the result with the same right table keeps the first join's sides together, too.
    """
    builder = ks.StreamsBuilder("shop")
    build(builder)
    assert circles == [set(cycle) for cycle in placed(builder.build(), 3).application.cycles]


def test_a_join_that_was_split_beside_a_cycle_stays_so_in_its_checkpoint() -> None:
    """Earlier versions split a join although the task of its right table ran its answers, too."""
    builder = ks.StreamsBuilder("shop")
    _right_table_twice(builder)
    first = next(name for name in builder.build().nodes if "RESPONSE-RESOLVER" in name)
    assert [{1, 2}] == [set(cycle) for cycle in placed(builder.build(), 3, split=[first]).application.cycles]


def test_a_split_keeps_the_ids_of_sub_topologies_and_numbers_new_ones_after_them() -> None:
    """Tasks, metrics and errors name the sub-topologies of `describe`."""
    topology = two_joins()
    application = placed(topology, 3).application
    before, after = topology.subtopologies(), application.running.subtopologies()
    assert len(before) + 2 == len(after)
    moved = {name for group in after[len(before) :] for name in group.nodes}
    for old, new in zip(before, after, strict=False):
        assert set(old.nodes) - moved == set(new.nodes) & set(topology.nodes)


def _manifest(topology: ks.Topology, split: list[str] | None = None) -> Manifest:
    return manifest_of(placed(topology, 3, split=split))


def test_a_checkpoint_continues_in_the_layout_that_it_began_with() -> None:
    """One task if its join was not split; a join that was must stay so."""
    whole, split = _manifest(one_join(), []), _manifest(one_join())
    check_compatible(whole, _manifest(one_join(), whole.split))
    check_compatible(split, _manifest(one_join(), split.split))
    assert ([], 1) == (whole.split, len(split.split))
    builder = ks.StreamsBuilder("shop")
    customers, orders = builder.table("customers", store="customers"), builder.table("orders")
    named = orders.join(customers, _both, foreign_key=_customer).to_stream()
    named.to("named")
    named.process(ks.Processor)
    with pytest.raises(CheckpointError) as caught:
        check_compatible(split, _manifest(builder.build(), split.split))
    assert "the tasks of sub-topologies 0 and 1 ran apart and run as one now" in (caught.value.detail or "")


def test_the_plan_shows_the_copy_and_which_join_is_split() -> None:
    """Its levels are those of the split topology."""
    planned = str(ks.plan(one_join(), 4, spark_partitions=4))
    assert "max parallelism: 4 of sub-topology 0, 4 of sub-topology 1, 4 of sub-topology 2" in planned
    assert "split: the sides of the foreign-key join at KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER" in planned
    assert "-rows (a copy of the left table's rows)" in planned


@pytest.mark.parametrize(
    ("partitions", "spark_partitions", "whole"),
    [(4, int(profile_settings("latency")["spark.default.parallelism"]), True), (1, 4, True), (2, 2, False)],
)
def test_a_join_stays_one_task_if_its_sides_could_not_run_at_the_same_time(
    partitions: int, spark_partitions: int, whole: bool
) -> None:
    """As in a session of the profile "latency": two more levels would only make each batch longer."""
    planned = ks.plan(one_join(), partitions, spark_partitions=spark_partitions)
    reason = "is one task, because at most one task of each level could run at a time"
    assert whole == bool(planned.cycles) == (reason in str(planned))
    assert whole != bool(planned.deployment.application.split)
