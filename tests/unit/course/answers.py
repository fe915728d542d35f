"""Answers to the exercises of the course: correct variants, and typical wrong ones."""

from __future__ import annotations

import math
import re
import struct
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import kstreamnb as ks


class Answers(NamedTuple):
    """Answers to an exercise: correct ones besides its solution, and wrong ones."""

    right: list[object]
    wrong: list[object]


class ProductCounter(ks.Processor[Any, Any, Any, Any]):
    """The counter of the chapter: forwards every count each second."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.counts = context.get_state_store("Counts")
        self.told: dict[Any, int] = {}
        context.schedule("1000ms", ks.PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: Any) -> None:
        self.counts.put(record.key, (self.counts.get(record.key) or 0) + 1)

    def tell(self, now: int) -> None:
        for product, count in self.counts.all():
            self.context.forward(ks.Record(product, count, now))


class ChangesInDict(ProductCounter):
    """Remembers each count."""

    def tell(self, now: int) -> None:
        for product, count in self.counts.all():
            if self.told.get(product) != count:
                self.told[product] = count
                self.context.forward(ks.Record(product, count, now))


class ChangesByView(ProductCounter):
    """Remembers which products were viewed since the last call."""

    def process(self, record: Any) -> None:
        super().process(record)
        self.told[record.key] = 1

    def tell(self, now: int) -> None:
        for product in sorted(self.told):
            self.context.forward(ks.Record(product, self.counts.get(product), now))
        self.told.clear()


class ChangesSinceCall(ProductCounter):
    """Compares with all counts of the last call."""

    def tell(self, now: int) -> None:
        latest = dict(self.counts.all())
        for product, count in latest.items():
            if (product, count) not in self.told.items():
                self.context.forward(ks.Record(product, count, now))
        self.told = latest


class NeverTells(ProductCounter):
    """Forwards nothing."""

    def tell(self, now: int) -> None:
        """Do nothing."""


class FirstOnly(ProductCounter):
    """Forwards each product once, and no later change."""

    def tell(self, now: int) -> None:
        for product, count in self.counts.all():
            if product not in self.told:
                self.told[product] = count
                self.context.forward(ks.Record(product, count, now))


class ChangesOneByOne(ChangesInDict):
    """Forwards one change in each call."""

    def tell(self, now: int) -> None:
        changed = [(product, count) for product, count in self.counts.all() if self.told.get(product) != count]
        for product, count in changed[:1]:
            self.told[product] = count
            self.context.forward(ks.Record(product, count, now))


class EveryCount(NeverTells):
    """Forwards each count at once."""

    def process(self, record: Any) -> None:
        super().process(record)
        self.context.forward(record.with_value(self.counts.get(record.key)))


def added(order: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    """Add an order, cancelled or not."""
    return {"orders": stats["orders"] + 1, "cents": stats["cents"] + order["cents"]}


def most_by_sorting(country: str, order: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    """Keep the greatest by sorting."""
    if order["state"] == "cancelled":
        return stats
    return {**added(order, stats), "most": sorted([stats.get("most", 0), order["cents"]])[-1]}


def most_is_last(country: str, order: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    """Keep the last one."""
    return stats if order["state"] == "cancelled" else {**added(order, stats), "most": order["cents"]}


def most_in_place(country: str, order: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    """Change a copy."""
    row = dict(stats)
    if order["state"] != "cancelled":
        row.update(added(order, stats))
        row["most"] = max(row.get("most", 0), order["cents"])
    return row


def by_try(reading: Any) -> float | None:
    """Try, and give up."""
    try:
        return float(reading)
    except (TypeError, ValueError):
        return None


def by_pattern(reading: Any) -> float | None:
    """Look before the conversion."""
    return float(reading) if re.fullmatch(r"-?\d+(\.\d+)?", str(reading)) else None


def by_default(reading: Any) -> float | None:
    """Accept numbers, and texts that look like one."""
    return by_try(reading if isinstance(reading, int | float | str) else "none")


def stock_by_signs(product: str, movement: dict[str, Any], pieces: int) -> int:
    """Looks signs up; a count forgets the pieces before it."""
    sign = {"in": 1, "return": 1, "out": -1}.get(movement["type"])
    return int(movement["qty"]) if sign is None else pieces + sign * int(movement["qty"])


def stock_by_match(product: str, movement: dict[str, Any], pieces: int) -> Any:
    """Treats each type by its name."""
    match movement:
        case {"type": "count", "qty": qty}:
            return qty
        case {"type": "in" | "return", "qty": qty}:
            return pieces + qty
        case {"type": "out", "qty": qty}:
            return pieces - qty
    raise ValueError(movement)


def row_by_steps(change: dict[str, Any] | None) -> Any:
    """Asks in order."""
    if change is None:
        return None
    row = change["after"]
    if row is None or not row.get("active", True):
        return None
    return row


def row_by_match(change: dict[str, Any] | None) -> Any:
    """By the shape of the change."""
    match change:
        case None | {"after": None} | {"after": {"active": False}}:
            return None
        case {"after": row}:
            return row


def instances_by_ceil(arriving: float, waiting: float, each: float, seconds: float, partitions: int) -> int | None:
    """Rounds up."""
    needed = max(math.ceil((arriving + waiting / seconds) / each), 1)
    return needed if needed <= partitions else None


def instances_by_trying(arriving: float, waiting: float, each: float, seconds: float, partitions: int) -> int | None:
    """Tries one after another."""
    for count in range(1, partitions + 1):
        if count * each * seconds >= arriving * seconds + waiting:
            return count
    return None


def instances_without_limit(arriving: float, waiting: float, each: float, seconds: float, partitions: int) -> int:
    """Forgets the partitions."""
    return max(math.ceil((arriving + waiting / seconds) / each), 1)


def window_by_slices(key: bytes) -> tuple[str, int]:
    """Counts from the end."""
    size = len(key) - 12
    return key[:size].decode(), int.from_bytes(key[size : size + 8], "big")


def window_by_struct(key: bytes) -> tuple[str, int]:
    """Unpacks a signed long and an integer, as Java writes them."""
    start, _ = struct.unpack(">qi", key[-12:])
    return str(key[:-12], "utf-8"), start


def rises_within(observed: Any, hours: int, knots: int) -> Any:
    """Observations that rose by a number of knots within a number of hours, with every repetition."""
    windows = ks.JoinWindows.of(before=f"{hours}h", after="0s", grace="6h")
    rises = observed.join(observed, lambda later, earlier: later["wind"] - earlier["wind"], windows)
    return rises.filter(lambda storm, rise: rise >= knots)


def with_every_match_twice(orders: Any, payments: Any) -> Any:
    """Joins twice, and merges the results."""
    windows = ks.JoinWindows.of(difference="10m")
    return orders.left_join(payments, lambda *both: both, windows).merge(
        orders.join(payments, lambda *both: both, windows)
    )


def first_of_each(rises: Any) -> Any:
    """The first of each storm, by an aggregate that keeps how many there were."""
    told = rises.group_by_key().aggregate(list, lambda storm, rise, so_far: [*so_far, rise])
    return told.to_stream().filter(lambda storm, so_far: len(so_far) == 1)


NAMES = {"ks": ks, "ProductCounter": ProductCounter}
"""Names of a chapter that its solutions use."""

ANSWERS: dict[str, Answers] = {
    "count.1": Answers(
        right=[
            [("x", 1), ("y", 1), ("x", 2), ("y", 2)],
            [*[(key, 1) for key in "xy"], *[(key, 2) for key in "xy"]],
            list(zip("xyxy", (1, 1, 2, 2), strict=True)),
            zip("xyxy", (1, 1, 2, 2), strict=True),
            [["x", "1"], ["y", 1.0], ["X", 2], ["y", 2]],
            "x: 1, y: 1, x: 2, y: 2",
        ],
        wrong=[
            [("x", 1), ("y", 1), ("x", 2)],
            [("x", 2), ("y", 2)],
            [("x", 1), ("x", 2), ("y", 1), ("y", 2)],
            [("x", 1), ("y", 1), ("x", 1), ("y", 1)],
            {"x": 2, "y": 2},
            "x1 y1",
        ],
    ),
    "count.2": Answers(
        right=[
            lambda events: events.group_by(lambda key, value: value).count(),
            lambda events: events.group_by(lambda _, color: color).count(store="colors"),
            lambda events: events.select_key(lambda _, color: color).group_by_key().count(),
        ],
        wrong=[
            lambda events: events.group_by_key().count(),
            lambda events: events.group_by(lambda key, _: key).count(),
            lambda events: events.group_by(lambda _, color: color).reduce(lambda first, _: first),
            lambda events: events.group_by(lambda value: value).count(),
            "group_by",
            lambda events: None,
        ],
    ),
    "tables.1": Answers(
        right=[(3, "table"), [3, "table"], (3.0, "table"), ("table", 3), "3 pieces, a KTable", {"table": "3"}],
        wrong=[(13, "stream"), (13, "table"), (3, "stream"), (9, "table"), 3, (3, "log"), "table", "stream table 3"],
    ),
    "tables.2": Answers(
        right=[
            "topic | key | value | time\nt | a | 1 | 0\nt | a |  | 1",
            "topic | key | value | time\nt | a | 1 | 0\nt | a | 2 | 1\nt | a |  | 2",
            "topic | key | value | time\nt | b | x | 5\nt | b |  | 9",
            "topic | key | value | time\nt | b | x | 5\nt | b | null | 9",
            ks.Sample.from_records([("t", 0, 0, 0, "a", 1), ("t", 0, 1, 1, "a", None)]),
        ],
        wrong=[
            "topic | key | value | time\nt | a | 1 | 0",
            "topic | key | value | time\nt | a |  | 0",
            "topic | key | value | time\nt | a | 1 | 0\nt | b |  | 1",
            "topic | key | value | time\nt | a |  | 0\nt | a | 1 | 1",
            "topic | key | value | time\nt | a | 1 | 0\nt | a |  | 1\nt | b | 1 | 2\nt | b |  | 3",
            "topic | key | value | time\nu | a | 1 | 0\nu | a |  | 1",
            "topic | key | value | time\nt |  | 1 | 0",
            3,
        ],
    ),
    "order.1": Answers(
        right=[
            "b2 a4 a1 b5 a6",
            "b2, a4, a1, b5, a6",
            ["b2", "a4", "a1", "b5", "a6"],
            ("B2", "A4", "A1", "B5", "A6"),
            [("b", 2), ("a", 4), ("a", 1), ("b", 5), ("a", 6)],
            "b2 -> a4 -> a1 -> b5 -> a6",
            [2, 4, 1, 5, 6],
        ],
        wrong=["a1 b2 a4 b5 a6", "a4 a1 a6 b2 b5", "b2 a4 b5 a1 a6", "b2 a4 a1 b5", "b2 b5 a4 a1 a6", 7],
    ),
    "order.2": Answers(
        right=[500, "400", "1000ms", 400.0, "0.4 s", "0.5 minutes", timedelta(seconds=1)],
        wrong=[-1, 0, 100, "forever", 86_400_000, -5, "-1", "1 day", timedelta(milliseconds=399), None],
    ),
    "sales.1": Answers(
        right=[
            "11m1ms",
            "660001ms",
            "10m60s1ms",
            660_001,
            "11 minutes and 1 millisecond",
            "660.001 s",
            timedelta(minutes=11, milliseconds=1),
        ],
        wrong=["5m", "5m1ms", "11m", "12m", "24h", 11, "soon", timedelta(minutes=11), "660 s", None],
    ),
    "sales.2": Answers(
        right=[None, {}.get("sale"), "None", [None], "no sale", "never"],
        wrong=[6, 9, 10, 8, 0, 99, "6", "sale 9", True],
    ),
    "hopping.1": Answers(right=[6, 6.0, "6", "6 actions", Decimal(6)], wrong=[4, 5, 3, 7, 9, "six", None]),
    "hopping.2": Answers(right=[4, 4.0, "4", " 4 windows", Fraction(4)], wrong=[3, 10 / 3, 5, 1, 10, "10/3", True]),
    "captcha.1": Answers(
        right=[
            [1, 2, 0, 0],
            (1, 2, 0, 0),
            "1, 2, 0, 0",
            [1.0, "2", 0, 0],
            [("B3", 1), ("B3", 2), ("B3", 0), ("B3", 0)],
        ],
        wrong=[[1, 2, 3], [1, 2, 0], [1, 2, 3, 0], [1, 2, 0, 1], 4, [0, 0, 0, 0]],
    ),
    "captcha.2": Answers(
        right=[[1, 2, 0], (1, 2, 0), "1 2 0", "[1, 2, 0]", iter([1, 2, 0])],
        wrong=[[1, 2, 0, 0], [1, 2, 3], [0, 0, 0], [1, 2], "1 2 3", [1, 0, 0], "one two", {1, 2}],
    ),
    "processor.1": Answers(
        right=[[0, 2100], (0, 2100), [2100, 0], {0, 2100}, "0 and 2100", ["0ms", "2100ms"], [0.0, "2.1s"]],
        wrong=[[0, 1000, 2000], [0, 400, 2100, 2900], [2100], [0], [0, 2100, 3000], 2100, "never", None],
    ),
    "processor.2": Answers(
        right=[ChangesInDict, ChangesByView, ChangesSinceCall, lambda: ChangesInDict()],
        wrong=[
            ProductCounter,
            ProductCounter(),
            NeverTells,
            FirstOnly,
            ChangesOneByOne,
            EveryCount,
            lambda: None,
            "Changes",
        ],
    ),
    "fraud.1": Answers(right=[0, 0.0, "0", "0 alerts", Decimal(0)], wrong=[1, 2, 3, -1, "none", None, False]),
    "fraud.2": Answers(
        right=[
            lambda session, count: count == 3,
            lambda _, count: count is not None and count == 3,
            lambda session, count: (count or 0) == 3,
        ],
        wrong=[
            lambda session, count: count is not None and count >= 3,
            lambda session, count: count >= 3,
            lambda session, count: count == 5,
            lambda session, count: count != 3,
            lambda session, count: True,
            lambda count: count == 3,
            3,
        ],
    ),
    "retail.1": Answers(right=[2, 2.0, "2", "2 apples", Decimal(2)], wrong=[4, 3, 1, 0, 5, "3", None]),
    "retail.2": Answers(right=[2, 2.0, "2", "2 re-orders", Fraction(2)], wrong=[1, 0, 3, 17, "two", None]),
    "guarantees.1": Answers(
        right=[
            {"acks": "all", "min.insync.replicas": 2},
            {"min.insync.replicas": 2, "acks": "-1"},
            {"acks": -1, "min.insync.replicas": 2},
            {"acks": "ALL", "min_insync_replicas": "2"},
            "acks=all, min.insync.replicas=2",
            [("min.insync.replicas", 2), ("acks", "all")],
        ],
        wrong=[
            {"acks": "1", "min.insync.replicas": 2},
            {"acks": "all", "min.insync.replicas": 1},
            {"acks": "all", "min.insync.replicas": 3},
            {"acks": "all"},
            "all",
            {"acks": "all", "min.insync.replicas": "many"},
            {"acks": all, "min.insync.replicas": 2},
        ],
    ),
    "guarantees.2": Answers(right=[2, 2.0, "2", "2 mails"], wrong=[1, 0, 3, "exactly one", None]),
    "flights.1": Answers(
        right=["6h", "6 h", "6 hours", 6, "360m", timedelta(hours=6)],
        wrong=["30m", "1h", "2h", "3h", "3 h", "24h", 3, timedelta(minutes=30), "long", None],
    ),
    "flights.2": Answers(
        right=[
            lambda _, flight: flight["origin"] + flight["dest"],
            lambda tail, flight: flight["flight"],
            lambda tail, flight: (flight["carrier"], flight["dest"]),
            lambda tail, flight: [flight["origin"], flight["dest"]],
            lambda tail, flight: {"to": flight["dest"], "flight": flight["flight"]},
        ],
        wrong=[
            lambda tail, flight: flight["origin"],
            lambda tail, flight: None,
            lambda tail, flight: tail,
            lambda tail, flight: flight["month"],
            lambda tail, flight: flight["airline"],
            lambda tail, flight: object(),
            lambda tail, flight: str(flight),
            "origin",
        ],
    ),
    "deployed.1": Answers(
        right=["at_least_once", "at least once", "AT_LEAST_ONCE", "At-least-once", ["at_least_once"]],
        wrong=["exactly_once", "exactly_once_v2", "at most once", 2, None, ["exactly_once"]],
    ),
    "deployed.2": Answers(
        right=["both", "Both", "BOTH", " both ", ["latency", "throughput"], "throughput and latency"],
        wrong=["latency", "throughput", "neither", 2, None],
    ),
    "groups.1": Answers(right=[2, 2.0, "2", "2 members"], wrong=[0, 1, 6, 8, "two", None]),
    "groups.2": Answers(
        right=["13s", "13000ms", 13, "13 s", "13 seconds", 13.0, timedelta(seconds=13)],
        wrong=["12s", "10s", "45s", "14s", 12, "13 ms", timedelta(seconds=45), "soon"],
    ),
    "boxes.1": Answers(
        right=[
            {"orders": 2, "cents": 6000},
            {"cents": 6000, "orders": 2},
            (2, 6000),
            "2 orders, 6000 cents",
            [("cents", 6000.0), ("orders", "2")],
        ],
        wrong=[
            {"orders": 1, "cents": 4000},
            {"orders": 2, "cents": 4000},
            {"orders": 3, "cents": 11_000},
            {"orders": 0, "cents": 0},
            6000,
            {"FR": 2},
            {"orders": 6000, "cents": 2},
        ],
    ),
    "boxes.2": Answers(
        right=[
            lambda country, order, stats: (
                stats
                if order["state"] == "cancelled"
                else {
                    "orders": stats["orders"] + 1,
                    "cents": stats["cents"] + order["cents"],
                    "most": max(order["cents"], stats.get("most", 0)),
                }
            ),
            most_by_sorting,
            most_in_place,
        ],
        wrong=[
            lambda country, order, stats: stats,
            lambda country, order, stats: {**stats, "most": order["cents"]},
            lambda country, order, stats: {**stats, "most": max(stats["most"], order["cents"])},
            lambda country, order, stats: None,
            lambda country, order, stats: {**added(order, stats), "most": max(order["cents"], stats.get("most", 0))},
            most_is_last,
            "most",
        ],
    ),
    "log.1": Answers(right=[5, 5.0, "5", "5 records", "at least 5"], wrong=[4, 3, 8, 0, "five", None]),
    "log.2": Answers(
        right=[
            lambda topic, key, value, partitions: (
                partitions - 1
                if value["level"] == "ERROR"
                else len(key) % 2
                if partitions > 3
                else 0
                if "b" in key
                else 1
            ),
            lambda topic, key, value, partitions: (
                partitions - 1 if value["level"] == "ERROR" else sum(map(ord, key)) % (partitions - 1)
            ),
            lambda topic, key, value, partitions: {"ERROR": partitions - 1}.get(
                value["level"], sum(key.encode()) % (partitions - 1)
            ),
        ],
        wrong=[
            lambda topic, key, value, partitions: 0,
            lambda topic, key, value, partitions: None,
            lambda topic, key, value, partitions: partitions - 1,
            lambda topic, key, value, partitions: partitions if value["level"] == "ERROR" else 0,
            lambda topic, key, value, partitions: partitions - 1 if value["level"] == "ERROR" else 0,
            lambda topic, key, value, partitions: 3 if value["level"] == "ERROR" else sum(key.encode()) % 3,
            lambda key, value: 0,
            "last",
        ],
    ),
    "stateless.1": Answers(
        right=[
            lambda flights: flights.filter(lambda _, each: each["delay"] is None).map_values(
                lambda each: each["carrier"] + str(each["flight"])
            ),
            lambda flights: flights.filter_not(lambda _, each: each["delay"] is not None).map_values(
                lambda each: f"{each['carrier']}{each['flight']}"
            ),
            lambda flights: flights.flat_map_values(
                lambda each: [f"{each['carrier']}{each['flight']}"] if each["delay"] is None else []
            ),
        ],
        wrong=[
            lambda flights: flights,
            lambda flights: flights.filter(lambda _, each: each["delay"] is None),
            lambda flights: flights.filter(lambda _, each: each["delay"] == 0),
            lambda flights: flights.filter(lambda _, each: each["delay"] is not None),
            lambda flights: flights.map_values(lambda each: f"{each['carrier']}{each['flight']}"),
            "filter",
            lambda flights: None,
        ],
    ),
    "stateless.2": Answers(
        right=[
            lambda lines: lines.flat_map_values(lambda line: line.lower().split()),
            lambda lines: lines.map_values(str.lower).flat_map_values(str.split),
            lambda lines: lines.flat_map(lambda key, line: [(key, word) for word in line.lower().split()]),
        ],
        wrong=[
            lambda lines: lines,
            lambda lines: lines.flat_map_values(str.split),
            lambda lines: lines.map_values(str.split),
            lambda lines: lines.flat_map_values(str.lower),
            lambda lines: lines.flat_map_values(lambda line: sorted(line.lower().split())),
            lambda lines: lines.flat_map(lambda key, line: [(word, word) for word in line.lower().split()]),
            "split",
        ],
    ),
    "joins.1": Answers(
        right=[
            lambda orders, payments: orders.left_join(
                payments, lambda order, payment: (order, payment), ks.JoinWindows.of(difference="10m")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda order, payment: [order, payment], ks.JoinWindows.of(before="10m", after="10m")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda *both: both, ks.JoinWindows.of(difference="600s")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda *both: both, ks.JoinWindows.of(difference="10m", grace="24h")
            ),
        ],
        wrong=[
            lambda orders, payments: orders.join(
                payments, lambda order, payment: (order, payment), ks.JoinWindows.of(difference="10m")
            ),
            lambda orders, payments: orders.outer_join(
                payments, lambda order, payment: (order, payment), ks.JoinWindows.of(difference="10m")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda order, payment: (order, payment), ks.JoinWindows.of(difference="1h")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda order, payment: f"{order}/{payment}", ks.JoinWindows.of(difference="10m")
            ),
            lambda orders, payments: orders.left_join(
                payments, lambda order, payment: (payment, order), ks.JoinWindows.of(difference="10m")
            ),
            *(
                lambda orders, payments, windows=windows: orders.left_join(
                    payments, lambda order, payment: (order, payment), windows
                )
                for windows in (
                    ks.JoinWindows.of(difference="10s"),
                    ks.JoinWindows.of(difference="5m"),
                    ks.JoinWindows.of(before="0s", after="10m"),
                    ks.JoinWindows.of(before="10m", after="0s"),
                )
            ),
            lambda orders, payments: orders.to_table().left_join(payments.to_table(), lambda *both: both),
            with_every_match_twice,
            lambda orders, payments: "joined",
            lambda orders, payments: None,
            "left",
        ],
    ),
    "joins.2": Answers(
        right=["foreign key", "foreign-key", "FOREIGN_KEY", "foreign-key join", "table – table by foreign key"],
        wrong=["stream-stream", "stream-table", "table-table", "global table", "outer", None],
    ),
    "bad.1": Answers(
        right=[
            lambda context, error: "continue" if isinstance(error, ZeroDivisionError) else "fail",
            lambda context, error: "continue" if type(error).__name__ == "ZeroDivisionError" else "fail",
            lambda context, error: "fail" if not isinstance(error, ZeroDivisionError) else "continue",
        ],
        wrong=[
            lambda context, error: "fail" if isinstance(error, KeyError | TypeError) else "continue",
            lambda context, error: "continue" if isinstance(error, ArithmeticError) else "fail",
            lambda context, error: "continue",
            lambda context, error: "fail",
            lambda context, error: None,
            lambda context, error: "continue" if isinstance(error, ArithmeticError | LookupError) else "fail",
            lambda context, error: "fail" if isinstance(error, ZeroDivisionError) else "continue",
            lambda error: "continue",
            "continue",
        ],
    ),
    "bad.2": Answers(
        right=[by_try, by_pattern, by_default],
        wrong=[
            float,
            lambda reading: 0.0,
            lambda reading: None,
            lambda reading: reading,
            str,
            "float",
        ],
    ),
    "reprocess.1": Answers(
        right=[
            stock_by_signs,
            stock_by_match,
            lambda product, movement, pieces: (
                (0 if movement["type"] == "count" else pieces)
                + (-movement["qty"] if movement["type"] == "out" else movement["qty"])
            ),
        ],
        wrong=[
            lambda product, movement, pieces: pieces + movement["qty"],
            lambda product, movement, pieces: (
                pieces + (-movement["qty"] if movement["type"] == "out" else movement["qty"])
            ),
            lambda product, movement, pieces: (
                pieces + (movement["qty"] if movement["type"] == "in" else -movement["qty"])
            ),
            lambda product, movement, pieces: (
                movement["qty"] or pieces if movement["type"] == "count" else stock_by_signs(product, movement, pieces)
            ),
            lambda product, movement, pieces: None,
            lambda movement: movement["qty"],
            7,
        ],
    ),
    "reprocess.2": Answers(
        right=[["c", "a"], {"a", "c"}, "a, c", "a and c", "ac", ("A", "C"), ["(a)", "(c)"]],
        wrong=[["a"], ["a", "b", "c"], ["a", "c", "d"], ["c"], "ace", [], ["f"], 2],
    ),
    "inputs.1": Answers(
        right=[
            row_by_steps,
            row_by_match,
            lambda change: (
                (((change or {}).get("after") or {}).get("active", True) and (change or {}).get("after")) or None
            ),
        ],
        wrong=[
            lambda change: change["after"],
            lambda change: change and change["after"],
            lambda change: change["after"] if change and change["op"] != "d" else None,
            lambda change: change["after"] if change and change["after"] and change["after"]["active"] else None,
            lambda change: change["after"] if change and change["after"] and change["after"].get("active") else None,
            lambda change: change,
            None,
        ],
    ),
    "inputs.2": Answers(
        right=[["d", "b"], {"b", "d"}, "b, d", "b and d", "bd", ("B", "D"), ["(b)", "(d)"]],
        wrong=[["b"], ["d"], ["a", "b", "d"], ["b", "c", "d"], "bde", [], ["z"], 5],
    ),
    "operations.1": Answers(
        right=[
            instances_by_ceil,
            instances_by_trying,
            lambda arriving, waiting, each, seconds, partitions: next(
                (n for n in range(1, partitions + 1) if (n * each - arriving) * seconds >= waiting), None
            ),
        ],
        wrong=[
            lambda arriving, waiting, each, seconds, partitions: round(arriving / each),
            lambda arriving, waiting, each, seconds, partitions: math.ceil(arriving / each),
            lambda arriving, waiting, each, seconds, partitions: (arriving + waiting / seconds) / each,
            lambda arriving, waiting, each, seconds, partitions: partitions,
            lambda arriving, waiting, each, seconds, partitions: min(
                instances_without_limit(arriving, waiting, each, seconds, partitions), partitions
            ),
            instances_without_limit,
            lambda arriving, waiting, each, seconds, partitions: "two",
            4,
        ],
    ),
    "operations.2": Answers(
        right=[["e", "a"], {"a", "e"}, "a, e", "a and e", "ae", ("A", "E"), ["(a)", "(e)"]],
        wrong=[["a"], ["e"], ["a", "b", "e"], ["a", "c", "e"], "ade", [], ["g"], 1],
    ),
    "takeover.1": Answers(
        right=[
            window_by_slices,
            window_by_struct,
            lambda key: [bytes(key[:-12]).decode(), int(key[-12:-4].hex(), 16)],
        ],
        wrong=[
            lambda key: (key[:4].decode(), int.from_bytes(key[4:12], "big")),
            lambda key: (key[:-12].decode(), int.from_bytes(key[-12:-4], "little")),
            lambda key: (key[:-12].decode(), int.from_bytes(key[-8:], "big")),
            lambda key: (key[:-12], int.from_bytes(key[-12:-4], "big")),
            lambda key: key[:-12].decode(),
            lambda key: (key[:-8].decode(errors="replace"), int.from_bytes(key[-8:], "big")),
            "temp",
        ],
    ),
    "takeover.2": Answers(
        right=[["c", "a"], {"a", "c"}, "a, c", "a and c", "ac", ("A", "C"), ["(a)", "(c)"]],
        wrong=[["a"], ["c"], ["a", "b", "c"], ["a", "c", "d"], "ace", [], ["f"], 3],
    ),
    "storms.1": Answers(
        right=[
            lambda name, seen: (name, seen["season"]),
            lambda name, seen: f"{seen['season']}/{name.lower()}",
            lambda name, seen: name + str(seen["season"] % 100),
            lambda name, seen: [name, seen["season"]],
            lambda name, seen: {"name": name, "season": seen["season"]},
        ],
        wrong=[
            lambda name, seen: name,
            lambda name, seen: seen["season"],
            lambda name, seen: None,
            lambda name, seen: f"{name} {seen['status']}",
            lambda name, seen: name[0] + str(seen["season"]),
            lambda name, seen: seen["name"],
            "Zeta 2005",
        ],
    ),
    "storms.2": Answers(
        right=[
            lambda observed: first_of_each(rises_within(observed, 12, 50)),
            lambda observed: (
                rises_within(observed, 12, 50).group_by_key().count().to_stream().filter(lambda storm, n: n == 1)
            ),
            lambda observed: (
                rises_within(observed, 12, 50).group_by_key().count().to_stream().filter_not(lambda storm, n: n > 1)
            ),
        ],
        wrong=[
            lambda observed: rises_within(observed, 12, 50),
            lambda observed: first_of_each(rises_within(observed, 24, 50)),
            lambda observed: first_of_each(rises_within(observed, 12, 30)),
            lambda observed: first_of_each(rises_within(observed, 6, 50)),
            lambda observed: first_of_each(rises_within(observed, 12, 51)),
            lambda observed: observed.filter(lambda storm, seen: seen["wind"] >= 50),
            lambda observed: None,
            lambda: 1,
            50,
        ],
    ),
}
