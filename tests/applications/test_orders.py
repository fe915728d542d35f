"""The order service: which orders are validated, and what it answers about them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import kstreamnb as ks

Import = Callable[[str], ModuleType]
SHOE = {"product": "shoe", "pieces": 2, "amount": 40}


def replayed(module: Import, text: str) -> list[tuple[str, str, Any]]:
    """Return id, status and reason of each decision about typed records."""
    topology = module("topology")
    run = ks.replay(topology.build(), ks.Sample.from_text(text), topology.TOPICS)
    return [(each.key, each.value["status"], each.value["reason"]) for each in run.output("validated-orders")]


def test_an_order_that_is_paid_and_in_stock_is_validated(module: Import) -> None:
    """The pieces are taken off the stock, so the next order for them is rejected."""
    decided = replayed(
        module,
        """
        topic    | key  | value                                        | time
        stock    | shoe | {"delivered": 3}                             | 0s
        orders   | o1   | {"product": "shoe", "pieces": 2, "amount": 40} | 1s
        payments | o1   | {"amount": 40}                               | 2s
        orders   | o2   | {"product": "shoe", "pieces": 2, "amount": 40} | 3s
        payments | o2   | {"amount": 40}                               | 4s
        """,
    )
    assert decided == [("o1", "validated", None), ("o2", "rejected", "1 of 2 pieces in stock")]


def test_a_second_payment_takes_nothing_off_the_stock(module: Import) -> None:
    """A payment may arrive twice: an order is decided once."""
    decided = replayed(
        module,
        """
        topic    | key  | value                                        | time
        stock    | shoe | {"delivered": 4}                             | 0s
        orders   | o1   | {"product": "shoe", "pieces": 2, "amount": 40} | 1s
        payments | o1   | {"amount": 40}                               | 2s
        payments | o1   | {"amount": 40}                               | 3s
        orders   | o2   | {"product": "shoe", "pieces": 2, "amount": 40} | 4s
        payments | o2   | {"amount": 40}                               | 5s
        """,
    )
    assert decided == [("o1", "validated", None), ("o2", "validated", None)]


@pytest.mark.parametrize(("minute", "status"), [(60, "validated"), (61, "rejected")])
def test_an_order_waits_an_hour_for_its_payment(module: Import, minute: int, status: str) -> None:
    """The hour is inclusive; an unpaid order is rejected when the window and its grace have passed."""
    decided = replayed(
        module,
        f"""
        topic    | key  | value                                        | time
        stock    | shoe | {{"delivered": 4}}                           | 0m
        orders   | o1   | {{"product": "shoe", "pieces": 2, "amount": 40}} | 0m
        payments | o1   | {{"amount": 40}}                             | {minute}m
        payments | o1   | {{"amount": 1}}                              | 120m
        """,
    )
    assert [each[:2] for each in decided] == [("o1", status)]


def test_the_made_input_has_every_kind_of_order(module: Import) -> None:
    """Each order that is paid is decided once, and no more pieces are sold than were delivered."""
    topology, made = module("topology"), module("made")
    sample = made.records(0, 300)
    run = ks.replay(topology.build(), sample, topology.TOPICS)
    decided = {each.key: each.value for each in run.output("validated-orders")}
    assert len(decided) == len(run.output("validated-orders")) == 270
    assert {each["status"] for each in decided.values()} == {"validated", "rejected"}
    sold = sum(each["pieces"] for each in decided.values() if each["status"] == "validated")
    left = sum(row.value for row in run.at(len(run.steps)).store("stock").rows)
    assert sold + left == sum(each.value["delivered"] for each in sample if each.topic == "stock")


def test_the_service_answers_about_an_order_at_any_time(module: Import) -> None:
    """Pending, then validated; an unknown order is 404; /health says that the application runs."""
    testclient = pytest.importorskip("fastapi.testclient", reason="needs the package fastapi")
    topology, service = module("topology"), module("service").service
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        client = testclient.TestClient(service(driver))
        driver.create_input_topic("stock").pipe_input("shoe", {"delivered": 2}, at=0)
        driver.create_input_topic("orders").pipe_input("o1", SHOE, at=1)
        assert client.get("/orders/o1").json() == {"id": "o1", **SHOE, "status": "pending"}
        driver.create_input_topic("payments").pipe_input("o1", {"amount": 40}, at=2)
        assert client.get("/orders/o1").json() == {"id": "o1", **SHOE, "status": "validated", "reason": None}
        assert client.get("/orders/o2").status_code == 404
        assert client.get("/health").status_code == 200
        assert client.get("/stores/stock/shoe").json()["value"] == 0
