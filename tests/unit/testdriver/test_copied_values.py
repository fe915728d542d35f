"""Values between tasks of one process: copied if their bytes would say the same, and private to each reader."""

from __future__ import annotations

from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb.core.codec import CopiedValue, SerializedValue
from kstreamnb.core.record import TopicRecord

BY_SHOP = "sales-by-shop-repartition"
FLAT: dict[str, Any] = {"shop": "Ulm", "pieces": 2, "price": 9.5, "gift": False, "note": None}


def topology() -> ks.Topology:
    """Sales by shop; the reader behind the repartition topic changes values in place before it writes them."""
    builder = ks.StreamsBuilder("sales")
    by_shop = builder.stream("sales").select_key(lambda _, sale: sale["shop"]).repartition(name="by-shop")
    by_shop.peek(lambda _, sale: sale.update(seen=True)).to("seen")
    return builder.build()


def written(driver: ks.TopologyTestDriver, topic: str) -> list[object]:
    """Return the values of a topic as its log holds them."""
    return [row[4] for row in driver.tasks.logs[topic].rows]


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_reader_that_changes_a_value_changes_no_topic(number: int, partitions: int) -> None:
    """A flat JSON value stays a copy from task to task; its topic keeps what was written, and so does the input."""
    driver = ks.TopologyTestDriver(topology(), partitions=partitions)
    given = [TopicRecord("sales", -1, -1, at, "a", dict(FLAT)) for at in range(number)]
    driver.pipe(given)
    assert [CopiedValue] * number == list(map(type, written(driver, BY_SHOP)))
    assert [FLAT] * number == [record.value for record in driver.create_output_topic(BY_SHOP).read_records()]
    seen = driver.create_output_topic("seen").read_records()
    assert [FLAT | {"seen": True}] * number == [record.value for record in seen]
    seen[0].value.clear()
    assert FLAT | {"seen": True} == written(driver, "seen")[0]
    assert [FLAT] * number == [record.value for record in given]


@pytest.mark.parametrize("more", [{"sizes": (38, 39)}, {"city": "Köln"}, {"count": 2**63}])
def test_a_value_that_a_copy_may_not_stand_for_is_serialized(more: dict[str, Any]) -> None:
    """Nested values, other letters and long numbers go through their bytes: a tuple comes back as a list."""
    driver = ks.TopologyTestDriver(topology(), partitions=1)
    driver.pipe([TopicRecord("sales", -1, -1, 0, "a", FLAT | more)])
    assert [SerializedValue] == list(map(type, written(driver, BY_SHOP)))
    decoded = {name: list(value) if type(value) is tuple else value for name, value in more.items()}
    assert repr(FLAT | decoded) == repr(driver.create_output_topic(BY_SHOP).read_value())


def test_observers_and_dead_letters_get_bytes() -> None:
    """Events show what a topic would hold, and a dead letter the bytes of the input that failed."""
    events: list[Any] = []
    ks.TopologyTestDriver(topology(), observe=events.append).pipe([TopicRecord("sales", -1, -1, 0, "a", dict(FLAT))])
    data = ks.Serdes.json().serialize(FLAT)
    assert data == next(event.value for event in events if type(event).__name__ == "RecordProduced")

    builder = ks.StreamsBuilder("sales")
    builder.stream("sales").map_values(lambda sale: sale.pop("shop") + 1).to("out")
    config = {"processing_handler": "continue", "dead_letter_topic": "letters"}
    driver = ks.TopologyTestDriver(builder.build(), config)
    driver.pipe([TopicRecord("sales", -1, -1, 0, "a", dict(FLAT))])
    assert data == driver.create_output_topic("letters", value_serde="bytes").read_value()
