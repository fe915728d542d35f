"""Fraud alerts: what each rule finds and what it leaves alone, and the dashboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType

import pytest

import kstreamnb as ks

Import = Callable[[str], ModuleType]


def alerts(module: Import, *payments: tuple[str, int, float, str]) -> list[tuple[str, str, str]]:
    """Return card, rule and detail of the alerts for (card, second, amount, country), if the limit of card a is 500."""
    topology = module("topology")
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        driver.create_input_topic("cards").pipe_input("a", {"limit": 500}, at=0)
        topic = driver.create_input_topic("card-payments")
        for card, second, amount, country in payments:
            topic.pipe_input(card, {"amount": amount, "country": country}, at=1000 * second)
        found = driver.create_output_topic("fraud-alerts").read_records()
    return [(record.key, record.value["rule"], record.value["detail"]) for record in found]


def test_a_payment_above_the_limit_is_an_alert(module: Import) -> None:
    """The limit itself is allowed; a card that is unknown may pay nothing."""
    found = alerts(module, ("a", 1, 500, "DE"), ("a", 100, 501, "DE"), ("b", 200, 1, "DE"))
    assert found == [("a", "limit", "501 of at most 500"), ("b", "limit", "1 of at most 0")]


@pytest.mark.parametrize(("seconds", "expected"), [((1, 2, 3), 0), ((1, 6, 11, 16, 21), 1), ((1, 2, 3, 9), 0)])
def test_four_payments_in_a_row_are_one_alert(module: Import, seconds: tuple[int, ...], expected: int) -> None:
    """Gaps of five seconds are within a session, six are not; the fifth payment makes no second alert."""
    found = alerts(module, *(("a", second, 1, "DE") for second in seconds))
    assert [rule for _, rule, _ in found] == ["burst"] * expected


@pytest.mark.parametrize(("second", "expected"), [(600, ["DE, then BR"]), (601, [])])
def test_two_countries_within_ten_minutes_are_an_alert(module: Import, second: int, expected: list[str]) -> None:
    """After ten minutes the card may be anywhere."""
    found = alerts(module, ("a", 1, 1, "DE"), ("a", second, 1, "BR"))
    assert [detail for _, _, detail in found] == expected


def test_the_dashboard_shows_the_alerts_of_the_stores(module: Import) -> None:
    """The page asks only this service; the minutes hold as many alerts as the topic."""
    testclient = pytest.importorskip("fastapi.testclient", reason="needs the package fastapi")
    topology, made, service = module("topology"), module("made"), module("service").service
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        driver.pipe(made.records(0, 1200))
        client = testclient.TestClient(service(driver))
        page = client.get("/").text
        minutes = client.get("/stores/alerts-per-minute").json()
        latest = {row["key"]: row["value"] for row in client.get("/stores/latest-alert").json()}
        found = driver.create_output_topic("fraud-alerts").read_records()
    assert not re.search(r'(src|href)="(?!data:)|https?://(?!www\.w3\.org/2000/svg")', page)
    for store in re.findall(r'get\("/stores/([a-z-]+)"\)', page):
        assert store in topology.build().stores
    assert {row["key"] for row in minutes} == {"limit", "burst", "travel"}
    assert sum(row["value"] for row in minutes) == len(found) > 30
    assert latest == {record.key: record.value for record in found}
