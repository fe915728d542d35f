"""The heap that orders partitions and punctuators."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.runtime.context.punctuation import PriorityQueue


@given(st.lists(st.integers()))
def test_items_come_out_by_key(items: list[int]) -> None:
    """Least key first, in whatever order they were added."""
    queue: PriorityQueue[int] = PriorityQueue(lambda item: item)
    for item in items:
        queue.add(item)
    assert sorted(items) == [queue.poll() for _ in items]


def test_ties_follow_the_heap_of_java() -> None:
    """Four equal heads that are put back after each turn come in the order of Kafka's test driver."""
    queue: PriorityQueue[str] = PriorityQueue(lambda item: 0)
    for topic in "xyzw":
        queue.add(topic)
    left = dict.fromkeys("xyzw", 2)
    order = []
    while len(queue):
        topic = queue.poll()
        order.append(topic)
        left[topic] -= 1
        if left[topic]:
            queue.add(topic)
    assert "xwxwzyzy" == "".join(order)
