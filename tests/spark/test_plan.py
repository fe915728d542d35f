"""`plan` shows a deployment before anything starts; topologies that cannot run are refused there."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.planning.placement import plan_application, useful_partitions
from kstreamnb.spark.planning.preflight import refuse_what_cannot_run, refuse_what_is_too_large


def shop() -> ks.Topology:
    """Two levels, a table joined on the second, a peek at every record and a user's own processor."""
    builder = ks.StreamsBuilder("shop")
    sales = builder.stream("sales").peek(lambda key, value: None)
    totals = sales.group_by(lambda key, value: value["city"]).count(store="per-city")
    cities = builder.table("cities", store="cities")
    totals.to_stream().join(cities, lambda count, city: [count, city]).process(Quiet).to("out")
    sales.to("copies")
    return builder.build()


class Quiet(ks.Processor[Any, Any, Any, Any]):
    """Forwards everything."""

    def process(self, record: ks.Record[Any, Any]) -> None:
        """Forward."""
        self.context.forward(record)


def test_a_plan_prints_levels_tasks_shuffles_stores_and_edges() -> None:
    """S0-31, S0-48, S3-21: one shuffle for each repartition, and every side effect that a repeated batch repeats."""
    planned = ks.plan(shop(), {"sales": 8, "cities": 4}, config={"application.id": "shop"})
    assert str(planned).splitlines() == [
        "inputs: cities (4 partitions), sales (8 partitions)",
        "level 0: sub-topologies 0; 8 tasks; mapInArrow",
        "shuffle: shop-per-city-repartition (4 partitions)",
        "level 1: sub-topologies 1; 4 tasks; transformWithState",
        "  store per-city (timestamped key value)",
        "  store cities (timestamped key value)",
        "outputs: copies, out",
        "new topics: replication factor the broker's default",
        "shuffles: 1; tasks at once: 8",
        "max parallelism: 8 of sub-topology 0, 4 of sub-topology 1",
        "at least once: KSTREAM-PEEK-0000000001, for its function runs again when a batch is repeated after a failure",
        "at least once: KSTREAM-PROCESSOR-0000000011, for its effects outside of its stores are repeated when a "
        "batch is repeated after a failure",
    ]


def test_a_plan_prints_a_line_for_each_shuffle_that_it_counts() -> None:
    """A first level with state shuffles the inputs to their tasks, without a topic in between."""
    builder = ks.StreamsBuilder("totals")
    counts = builder.stream("sales").group_by_key().count(store="first")
    counts.to_stream().group_by(lambda key, count: str(count)).count(store="second").to_stream().to("out")
    planned = ks.plan(builder.build(), 2)
    lines = str(planned).splitlines()
    assert [
        "shuffle: the inputs, to their tasks",
        "shuffle: totals-second-repartition (2 partitions)",
    ] == [line for line in lines if line.startswith("shuffle:")]
    assert 2 == planned.shuffles
    assert "shuffles: 2; tasks at once: 2" in lines


def test_at_least_once_makes_every_output_an_edge() -> None:
    """S3-21: at least once, each sink of a user's topic is listed, and none of a repartition topic."""
    given: dict[str, Any]
    for given in ({"guarantee": "at_least_once"}, {"config": {"processing.guarantee": "at_least_once"}}):
        planned = ks.plan(shop(), {"sales": 1, "cities": 1}, **given)
        sinks = [node for node, why in planned.at_least_once if why.startswith("its records are published again")]
        assert len(sinks) == 2


def test_the_plan_says_what_publishing_from_executors_gives_up() -> None:
    """Readers may see a part of a batch; there is one more shuffle, and every record is still published once."""
    planned = ks.plan(shop(), {"sales": 1, "cities": 1}, publish="executors", spark_partitions=3)
    assert planned.shuffles == 1 + ks.plan(shop(), {"sales": 1, "cities": 1}).shuffles
    lines = str(planned).splitlines()
    assert "shuffle: the output, to 3 slots" in lines
    assert any(line.startswith("published by executors: each record once") for line in lines)
    assert any("readers may see a part of a batch before the rest" in line for line in lines)
    assert not [why for _, why in planned.at_least_once if why.startswith("its records")]


@pytest.mark.parametrize(
    ("sink", "edges"),
    [
        (ks.spark.FunctionSink(lambda output, batch: None), 2),
        (ks.spark.FrameSink(lambda frames, batch: None), 2),
        (ks.spark.ParquetSink("lake"), 0),
        (ks.spark.DatabaseSink(lambda: None), 0),
    ],
    ids=lambda given: type(given).__name__,
)
def test_sinks_that_do_not_know_their_batches_are_edges(sink: Any, edges: int) -> None:
    """S3-21: with either guarantee, a function sees repeated batches; files and tables skip them."""
    for guarantee in ("exactly_once", "at_least_once"):
        planned = ks.plan(shop(), {"sales": 1, "cities": 1}, sink=sink, guarantee=guarantee)
        found = [why for _, why in planned.at_least_once if why.startswith("its records are")]
        assert [
            "its records are handed to the sink's function again when a batch is repeated after a failure"
        ] * edges == found


def test_sub_topologies_that_feed_each_other_run_in_one_place() -> None:
    """The plan lists it, because it limits parallelism."""
    builder = ks.StreamsBuilder("round")
    stream = builder.stream("in")
    counts = stream.group_by(lambda key, value: value).count()
    stream.join(counts, lambda value, count: count).to("out")
    planned = ks.plan(builder.build(), 4)
    assert planned.cycles == ((0,),)
    assert "in one place: sub-topologies 0 feed each other, so all their tasks run as one" in str(planned).splitlines()


def test_two_writers_of_one_topic_are_named() -> None:
    """S3-24: the order between them is undefined."""
    builder = ks.StreamsBuilder("writers")
    for topic in ("a", "b"):
        builder.stream(topic).to("same")
    assert ks.plan(builder.build()).shared == ("same",)


def test_joined_topics_have_to_have_equal_partitions() -> None:
    """The plan refuses what the deployment would refuse."""
    builder = ks.StreamsBuilder("uneven")
    builder.stream("left").join(builder.table("right"), lambda a, b: a).to("out")
    with pytest.raises(ks.errors.TopologyError, match="partition"):
        ks.plan(builder.build(), {"left": 4, "right": 2})


def test_a_hundred_partitions_are_planned_within_a_second() -> None:
    """The cost of planning is proportional to the tasks."""
    topology = shop()
    began = time.process_time()
    planned = ks.plan(topology, 100, spark_partitions=16)
    assert time.process_time() - began < 1
    assert [level.tasks for level in planned.levels] == [100, 100]


class Locked:
    """Holds an object that exists in this process only."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def with_global_client() -> ks.Topology:
    """A function that uses a client of this process."""
    client = Locked()
    builder = ks.StreamsBuilder("client")
    builder.stream("in").map_values(lambda value: (client, value), name="ask").to("out")
    return builder.build()


def with_locked_processor() -> ks.Topology:
    """A supplier that holds a client."""
    builder = ks.StreamsBuilder("client")
    builder.stream("in").process(partial(Talking, Locked()), name="ask").to("out")
    return builder.build()


class Talking(Quiet):
    """A processor that receives a client."""

    def __init__(self, client: Locked) -> None:
        self.client = client


@pytest.mark.parametrize("build", [with_global_client, with_locked_processor])
def test_what_cannot_travel_is_refused_with_node_reason_and_alternative(build: Any) -> None:
    """The error names the node, the captured object, the user's line, and the remedy."""
    with pytest.raises(ks.errors.SparkError, match='node "ask" cannot be sent to Spark\'s workers') as refused:
        ks.plan(build())
    notes = "\n".join(refused.value.__notes__)
    assert "cannot pickle '_thread.lock' object" in notes
    assert "inside the function, or in the init of a ks.Processor" in notes
    assert "At: test_plan.py" in notes


def test_a_registry_in_this_process_is_planned_with_a_warning_and_refused_by_a_run() -> None:
    """Workers have other processes, so that each record would go to the dead-letter topic."""
    builder = ks.StreamsBuilder("registered")
    order = ks.kafka.SchemaRegistry("mock://plan").avro("orders", '{"type": "record", "name": "Order", "fields": []}')
    builder.stream("orders", value_serde=order).to("out")
    with pytest.warns(UserWarning, match='registry "mock://plan" keeps its schemas in one process') as warned:
        planned = ks.plan(builder.build())
    assert "outputs: out" in str(planned)
    assert __file__ == warned[0].filename
    with pytest.raises(ks.errors.SparkError, match='serde "avro<orders-value>" cannot be sent to Spark\'s') as refused:
        refuse_what_cannot_run(planned.deployment.application)
    assert 'registry "mock://plan" keeps its schemas in one process' in "\n".join(refused.value.__notes__)
    builder = ks.StreamsBuilder("registered")
    order = ks.kafka.SchemaRegistry("http://registry:8081").avro("orders", '"string"')
    builder.stream("orders", value_serde=order).to("out")
    assert ks.plan(builder.build())


def test_the_name_of_what_a_function_holds_is_said() -> None:
    """A captured variable is named, because the user knows it."""
    with pytest.raises(ks.errors.SparkError) as refused:
        ks.plan(with_global_client())
    assert 'uses "client"' in "\n".join(refused.value.__notes__)


def test_functions_with_much_data_are_refused_where_spark_would_lose_them() -> None:
    """The session's limit applies, in Spark's notation for sizes."""
    for limit in ("1m", "2048K", "1073741824", "1g"):
        refuse_what_is_too_large(900_000, limit)
    with pytest.raises(ks.errors.SparkError, match="this session sends 512k at most"):
        refuse_what_is_too_large(900_000, "512k")


def test_a_topology_without_input_is_refused() -> None:
    """A topology with only a global table has no tasks."""
    builder = ks.StreamsBuilder("only-global")
    builder.global_table("names")
    with pytest.raises(ks.errors.TopologyError, match="reads no topic"):
        ks.plan(builder.build())


@pytest.mark.parametrize(("executors", "shares"), [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (7, [0, 1, 1, 1, 1, 1, 1])])
def test_tasks_are_divided_evenly_over_executors(executors: int, shares: list[int]) -> None:
    """S1-09, S0-08: as Kafka Streams assigns six partitions to instances; surplus instances are idle."""
    builder = ks.StreamsBuilder("divided")
    builder.stream("numbers", value_serde="long").group_by_key().count(store="counts")
    places = ks.plan(builder.build(), 6, spark_partitions=executors).tasks_by_partition
    assert shares == sorted(map(len, places))
    assert [f"0_{number}" for number in range(6)] == sorted(task for place in places for task in place)


@pytest.mark.parametrize(("cores", "partitions", "expected"), [(16, 3, 3), (2, 3, 2), (1, 3, 1), (16, 1, 1)])
def test_a_query_has_no_more_state_partitions_than_tasks_that_run_at_once(
    cores: int, partitions: int, expected: int
) -> None:
    """S1-09: on 16 cores, three tasks a level use three; with fewer cores, each core gets one."""
    topics = {"sales": partitions, "cities": partitions, "out": 9, "copies": 9}
    application = plan_application(shop(), Config(), topics, direct=True)
    assert expected == useful_partitions(application, cores)
