"""StreamsBuilder: errors with the user's line, branches by name, wrapped processors, signatures that can be read."""

from __future__ import annotations

import inspect
from typing import Any

import cloudpickle
import pytest

from kstreamnb.core.processor import Processor
from kstreamnb.core.windows import JoinWindows, TimeWindows
from kstreamnb.dsl.branching import Branched
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.dsl.kstream import KStream
from kstreamnb.dsl.ktable import KTable
from kstreamnb.dsl.options import Consumed, StreamJoined
from kstreamnb.errors import ConfigError, TopologyError


def pair(left: Any, right: Any) -> tuple[Any, Any]:
    return left, right


def test_an_error_of_build_has_the_user_s_line() -> None:
    """The line that declared the second node of the same name."""
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    orders.filter(pair, name="clean")
    orders.map_values(str, name="clean")
    with pytest.raises(TopologyError, match='already a node "clean"') as caught:
        builder.build()
    assert caught.value.origin is not None
    assert caught.value.origin.code == 'orders.map_values(str, name="clean")'


def test_an_illegal_name_is_refused_where_it_is_given() -> None:
    """Refused at the call, not when the topology is built."""
    with pytest.raises(TopologyError, match='name "a b"'):
        StreamsBuilder().stream("orders").filter(pair, name="a b")


def test_branches_and_stores_of_joins_and_processors_have_any_name() -> None:
    """Kafka Streams leaves their legality to the file system and the broker."""
    builder = StreamsBuilder()
    orders = builder.stream("orders")
    branches = orders.split(name="sizes-").branch(pair, name="large ones").no_default_branch()
    assert ["sizes-large ones"] == list(branches)
    orders.join(builder.stream("paid"), pair, JoinWindows.of("5m"), StreamJoined(store_name="my joins"))
    assert {"my joins-this-join-store", "my joins-other-join-store"} == set(builder.build().stores)
    orders.process(Processor, "my counts")
    with pytest.raises(TopologyError, match='"my counts"') as caught:
        builder.build()
    assert caught.value.java == "Invalid topology: StateStore my counts is not added yet."


def test_an_unknown_option_is_named_with_what_there_is() -> None:
    """A typing error gets a suggestion."""
    builder = StreamsBuilder()
    with pytest.raises(ConfigError, match='option "value_sedre" does not exist') as caught:
        builder.stream("orders", value_sedre="long")  # type: ignore[call-arg]
    assert caught.value.hint == 'did you mean "value_serde"?'
    with pytest.raises(ConfigError, match='expected Consumed options, got type "StreamJoined"'):
        builder.stream("orders", StreamJoined())  # type: ignore[arg-type]


def test_keywords_win_over_an_option_object() -> None:
    """Keywords of the call take precedence."""
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(name="a", offset_reset="latest"), name="b")
    (source,) = builder.build().sources()
    assert (source.name, source.offset_reset) == ("b", "latest")


def test_branches_are_found_by_name_and_may_be_changed_on_the_way() -> None:
    """A function returns another stream, None leaves the branch out, a consumer takes it."""
    taken: list[KStream[Any, Any]] = []
    split = StreamsBuilder().stream("orders").split(name="by-")
    split.branch(pair, name="a").branch(pair, Branched.with_function(lambda stream: stream.map_values(str), "b"))
    split.branch(pair, Branched.with_function(lambda stream: None, "c"))
    branches = split.branch(pair, Branched.with_consumer(taken.append)).default_branch()
    assert list(branches) == ["by-a", "by-b", "by-0"]
    assert branches["by-b"].declaration.word == "map_values"
    assert len(taken) == 1


def test_a_wrapper_sees_every_processor_of_a_task() -> None:
    """Names of the DSL and of repartitions; global tables belong to no task, and Kafka Streams does not wrap them."""
    seen: list[str] = []

    def wrap(name: str, operator: Any) -> Any:
        seen.append(name)
        return operator

    builder = StreamsBuilder(processor_wrapper=wrap)
    builder.global_table("names", name="names")
    builder.stream("orders", name="orders").group_by(pair, name="by").count(name="counted")
    builder.build()
    assert seen == ["by", "by-repartition-filter", "counted"]


def test_signatures_show_every_keyword() -> None:
    """Keywords that are passed on together are checked, too."""
    shown = inspect.signature(KStream.group_by_key).parameters
    assert list(shown) == ["self", "grouped", "key_serde", "value_serde", "name"]
    assert "retention" in inspect.signature(KTable.filter).parameters


def test_a_table_says_under_which_name_it_can_be_queried() -> None:
    """None if there is only a generated name."""
    builder = StreamsBuilder()
    grouped = builder.stream("orders").group_by_key()
    assert grouped.count(store="counts").queryable_store_name() == "counts"
    assert grouped.count().queryable_store_name() is None
    assert builder.global_table("names", store="names").queryable_store_name() == "names"


def test_only_what_has_windows_can_be_windowed_by() -> None:
    """A duration is not a window."""
    with pytest.raises(ConfigError, match="windows must be TimeWindows or SlidingWindows"):
        StreamsBuilder().stream("orders").group_by_key().windowed_by("5m")


def test_a_topology_survives_pickling_and_equals_one_declared_alike() -> None:
    """Workers get the topology that was described."""

    def declare() -> StreamsBuilder:
        builder = StreamsBuilder()
        counts = builder.stream("orders").group_by_key().windowed_by(TimeWindows.of(size="1m")).count()
        counts.to_stream().to("counts")
        return builder

    topology = declare().build()
    assert cloudpickle.loads(cloudpickle.dumps(topology)).describe() == topology.describe()
    assert declare().build() == topology
