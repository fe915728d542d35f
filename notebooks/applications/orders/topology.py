"""Validates orders: paid in full within an hour, and in stock."""

from __future__ import annotations

from typing import Any

import kstreamnb as ks

__all__ = ["TOPICS", "build"]

TOPICS = {"orders": 4, "payments": 4, "stock": 4, "validated-orders": 4}
"""Topics with their partitions: as many for orders as for stock, since a task decides about both."""

Order = dict[str, Any]


def settle(order: Order, payment: dict[str, Any] | None) -> Order:
    """Return the order with the reason to reject it, None if it is paid in full."""
    paid = payment is not None and payment["amount"] >= order["amount"]
    return {**order, "reason": None if paid else "not paid in full within an hour"}


def is_paid(_id: str, order: Order) -> bool:
    """Return whether nothing speaks against the order so far."""
    return order["reason"] is None


def by_product(id: str, order: Order) -> tuple[str, Order]:
    """Return the order under its product, which is the key of the stock."""
    return order["product"], {**order, "order": id}


class Reserve(ks.Processor[str, Order, str, Order]):
    """Adds deliveries to the stock of a product, and takes the pieces of paid orders off it, once for each order."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the stores: free pieces by product, and the orders that are decided."""
        super().init(context)
        self.stock = context.get_state_store("stock")
        self.decided = context.get_state_store("decided")

    def process(self, record: ks.Record[str, Order]) -> None:
        """Count a delivery, or decide about an order."""
        free, order = self.stock.get(record.key) or 0, record.value
        if "delivered" in order:
            self.stock.put(record.key, free + order["delivered"])
        elif self.decided.put_if_absent(order["order"], record.timestamp) is None:  # a payment may arrive twice
            enough = order["pieces"] <= free
            self.stock.put(record.key, free - order["pieces"] if enough else free)
            reason = None if enough else f"{free} of {order['pieces']} pieces in stock"
            self.context.forward(record.with_key(order.pop("order")).with_value({**order, "reason": reason}))


def with_status(order: Order) -> Order:
    """Return an order that is decided."""
    return {**order, "status": "rejected" if order["reason"] else "validated"}


def decision_wins(known: Order, other: Order) -> Order:
    """Return the latest decision about an order, and that it is pending only before the first."""
    return known if other["status"] == "pending" else other


def build() -> ks.Topology:
    """Orders, payments and stock to validated orders; the store "orders" answers questions about each of them."""
    builder = ks.StreamsBuilder("orders")
    for store in ("stock", "decided"):
        builder.add_state_store(ks.Stores.persistent_key_value_store(store, value_serde="long"))
    orders = builder.stream("orders")
    hour = ks.JoinWindows.of(before="0s", after="1h", grace="1m")
    settled = orders.left_join(builder.stream("payments"), settle, hour, store_name="unsettled")
    paid = settled.filter(is_paid).map(by_product).repartition(name="by-product")
    reserved = builder.stream("stock").merge(paid).process(Reserve, "stock", "decided")
    unpaid = settled.filter_not(is_paid)
    decided = reserved.repartition(name="by-order").merge(unpaid).map_values(with_status)
    decided.to("validated-orders")
    pending = orders.map_values(lambda order: {**order, "status": "pending"})
    pending.merge(decided).group_by_key().reduce(decision_wins, store="orders")
    return builder.build()
