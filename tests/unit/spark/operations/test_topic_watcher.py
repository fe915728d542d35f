"""Looks at topics while a query runs, and the entries of the log about a broker that is away."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kstreamnb.errors import BrokerError, DataLossError
from kstreamnb.spark.contracts import QuerySink
from kstreamnb.spark.operations import topic_watcher
from kstreamnb.spark.operations.topic_watcher import TopicWatcher
from kstreamnb.spark.telemetry.metrics import MetricsBook
from kstreamnb.spark.telemetry.query_log import QueryLog


def watch(existing: Any, identities: Any, looks: int, **control: Any) -> list[float]:
    """Look several times at the topic of a query whose first one had the id "a"; return the gauge before each look."""
    action, book = SimpleNamespace(log=QueryLog("shop", "q"), sink=QuerySink()), MetricsBook("s")
    deployment = SimpleNamespace(application=SimpleNamespace(id="shop", inputs=("orders",)))
    query: Any = SimpleNamespace(
        control=SimpleNamespace(action=action, **control), deployment=deployment, is_active=lambda: True, book=book
    )
    admin: Any = SimpleNamespace(existing=existing, identities=identities)
    reachable: list[float] = []

    def lasts() -> bool:
        reachable.extend(float(metric.value) for metric in book.all() if metric.name == "broker-reachable")
        return len(reachable) <= looks

    TopicWatcher(query, admin, {"orders": "a"}, ())(lasts)
    return reachable


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pause between two looks."""
    monkeypatch.setattr(topic_watcher, "_EVERY_S", 0.0)


def test_an_outage_of_the_broker_is_logged_once_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning however often the watcher asks, and one entry with the duration at its end; the metric follows."""
    answers: Iterator[Any] = iter([{"orders"}, None, None, {"orders"}, {"orders"}])
    clock = SimpleNamespace(now_s=0.0, monotonic=lambda: clock.now_s)
    monkeypatch.setattr(topic_watcher, "time", clock)

    def existing(topics: Any) -> Any:
        answer = next(answers)
        if answer is None:
            clock.now_s += 0.5
            raise BrokerError("asking for topics failed", detail="Connection refused")
        return answer

    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    assert [1, 1, 0, 0, 1, 1] == watch(existing, lambda topics: {"orders": "a"}, 5)
    assert [
        ("WARNING", "shop: broker cannot be reached (error asking for topics failed, reason Connection refused)"),
        ("INFO", "shop: broker is back (away_s 1)"),
    ] == [(each.levelname, text) for each in caplog.records if (text := each.getMessage()).startswith("shop: ")]


def test_ids_are_asked_for_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client never frees the memory of an id: at the first look, and then once per interval."""
    asked: list[Any] = []

    def identities(topics: Any) -> dict[str, str]:
        asked.append(topics)
        return {"orders": "a"}

    watch(lambda topics: {"orders"}, identities, 20)
    assert [("orders",)] == asked
    monkeypatch.setattr(topic_watcher, "_IDS_EVERY_S", 0.0)
    watch(lambda topics: {"orders"}, identities, 20)
    assert 21 == len(asked)


def test_a_new_local_broker_is_named_as_a_cause_if_a_start_finds_other_topics() -> None:
    """A notebook that is run again with its checkpoint was told only that its topic had been deleted."""
    with pytest.raises(DataLossError) as caught:
        topic_watcher.refuse_replaced_topics({"orders": "a"}, {"orders": "b"}, "shop")
    assert "Hint: a local_broker() without data= begins empty" in "".join(traceback.format_exception(caught.value))


def test_ids_are_compared_as_soon_as_a_topic_is_back() -> None:
    """A topic that was missing for a look has probably been created again."""
    ids, ended = iter(["a", "b"]), list[Exception]()
    there = iter([{"orders"}, {"orders"}, set(), {"orders"}])
    watch(lambda topics: next(there), lambda topics: {"orders": next(ids)}, 9, end_with=ended.append)
    assert [DataLossError] == [type(each) for each in ended]
    assert 'input topic "orders" of "shop" was deleted and created again' == str(ended[0])
