"""The entries of the log about a broker that is away."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kstreamnb.errors import BrokerError
from kstreamnb.spark.operations import topic_watcher
from kstreamnb.spark.operations.topic_watcher import TopicWatcher
from kstreamnb.spark.telemetry.metrics import MetricsBook
from kstreamnb.spark.telemetry.query_log import QueryLog


def test_an_outage_of_the_broker_is_logged_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One warning however often the watcher asks, and one entry when the broker is back; the metric follows."""
    answers: Iterator[Any] = iter([{"orders": "a"}, None, None, {"orders": "a"}, {"orders": "a"}])

    def identities(topics: set[str]) -> Any:
        answer = next(answers)
        if answer is None:
            raise BrokerError("asking for topics failed")
        return answer

    caplog.set_level(logging.INFO, logger="kstreamnb.query")
    monkeypatch.setattr(topic_watcher, "_EVERY_S", 0.0)
    control = SimpleNamespace(action=SimpleNamespace(log=QueryLog("shop", "q")))
    deployment = SimpleNamespace(application=SimpleNamespace(id="shop", inputs=("orders",)))
    query: Any = SimpleNamespace(control=control, deployment=deployment, is_active=lambda: True, book=MetricsBook("s"))
    admin: Any = SimpleNamespace(identities=identities)
    reachable = []

    def lasts() -> bool:
        found = {metric.name: metric.value for metric in query.book.all()}
        reachable.append(found["broker-reachable"])
        return len(reachable) < 6

    TopicWatcher(query, admin, {}, (), fail_on_loss=True)(lasts)
    assert [1, 1, 0, 0, 1, 1] == reachable
    assert [
        ("WARNING", "shop: broker cannot be reached (error asking for topics failed)"),
        ("INFO", "shop: broker is back"),
    ] == [(each.levelname, each.getMessage()) for each in caplog.records]
