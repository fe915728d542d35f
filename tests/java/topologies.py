"""The topologies of ``Topologies.java``, under the same names, over topics PREFIX-left, PREFIX-right and PREFIX-out."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import kstreamnb as ks
from tests.java import examples
from tests.java.examples import EXAMPLES

__all__ = ["ALL", "INPUT", "INPUTS", "build"]

SIZE, GRACE = "10s", "4s"
NEAR = ks.JoinWindows.of_time_difference_and_grace("3s", GRACE)
TUMBLING = ks.TimeWindows.of_size_and_grace(SIZE, GRACE)
SESSIONS = ks.SessionWindows.of_inactivity_gap_and_grace("3s", GRACE)


def _left(builder: Any, prefix: str) -> Any:
    return builder.stream(f"{prefix}-left")


def _right(builder: Any, prefix: str) -> Any:
    return builder.stream(f"{prefix}-right")


def _grouped(builder: Any, prefix: str) -> Any:
    return _left(builder, prefix).group_by_key()


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _write(table: Any, prefix: str) -> None:
    rows = table.to_stream().map(lambda key, value: (key.key, f"{key.start}-{key.end}={_text(value)}"))
    rows.to(f"{prefix}-out")


def _write_plain(table: Any, prefix: str) -> None:
    table.to_stream().map_values(_text).to(f"{prefix}-out")


def _both(left: object, right: object) -> str:
    return f"{_text(left)},{_text(right)}"


def _last(before: str, value: str) -> str:
    return (before + value)[-12:]


def count(builder: Any, prefix: str) -> None:
    """A count by key."""
    _write_plain(_grouped(builder, prefix).count(store="counts"), prefix)


def reduce_in_memory(builder: Any, prefix: str) -> None:
    """The last values of each key, in memory."""
    texts = ks.Materialized(ks.Stores.in_memory_key_value_store("texts"))
    _write_plain(_grouped(builder, prefix).reduce(_last, materialized=texts), prefix)


def tumbling(builder: Any, prefix: str) -> None:
    """A count by window."""
    _write(_grouped(builder, prefix).windowed_by(TUMBLING).count(store="windows"), prefix)


def unlimited(builder: Any, prefix: str) -> None:
    """A count by a window that never ends."""
    _write(_grouped(builder, prefix).windowed_by(ks.UnlimitedWindows.of()).count(store="windows"), prefix)


def hopping_in_memory(builder: Any, prefix: str) -> None:
    """A count by overlapping windows, in memory."""
    store = ks.Stores.in_memory_window_store("windows", retention="14s", window_size=SIZE)
    windows = _grouped(builder, prefix).windowed_by(TUMBLING.advance_by("5s"))
    _write(windows.count(materialized=ks.Materialized(store)), prefix)


def sliding(builder: Any, prefix: str) -> None:
    """A count by sliding windows."""
    windows = ks.SlidingWindows.of_time_difference_and_grace(SIZE, GRACE)
    _write(_grouped(builder, prefix).windowed_by(windows).count(store="windows"), prefix)


def sessions(builder: Any, prefix: str) -> None:
    """A count by session."""
    _write(_grouped(builder, prefix).windowed_by(SESSIONS).count(store="sessions"), prefix)


def sessions_in_memory(builder: Any, prefix: str) -> None:
    """A count by session, in memory."""
    store = ks.Stores.in_memory_session_store("sessions", retention="7s")
    _write(_grouped(builder, prefix).windowed_by(SESSIONS).count(materialized=ks.Materialized(store)), prefix)


def suppress_windows(builder: Any, prefix: str) -> None:
    """Final counts by window."""
    counts = _grouped(builder, prefix).windowed_by(TUMBLING).count(store="windows")
    _write(counts.suppress(ks.Suppressed.until_window_closes(name="closed")), prefix)


def suppress_table(builder: Any, prefix: str) -> None:
    """A table whose changes are suppressed for a time."""
    counts = _grouped(builder, prefix).count(store="counts")
    _write_plain(counts.suppress(ks.Suppressed.until_time_limit(GRACE, name="calm")), prefix)


def emit_on_close(builder: Any, prefix: str) -> None:
    """Windows that are emitted when they close."""
    windows = _grouped(builder, prefix).windowed_by(TUMBLING).emit_strategy(ks.EmitStrategy.on_window_close())
    _write(windows.count(store="windows"), prefix)


def cogroup(builder: Any, prefix: str) -> None:
    """Two streams cogrouped into one table."""
    first = _grouped(builder, prefix).cogroup(lambda key, value, before: _last(before, value))
    right = _right(builder, prefix).group_by_key()
    texts = first.cogroup(right, lambda key, value, before: _last(before, value.upper()))
    _write_plain(texts.aggregate(lambda: "", store="texts"), prefix)


_STORES = ks.StreamJoined(name="near", store_name="near")


def stream_join(builder: Any, prefix: str) -> None:
    """Pairs of two streams."""
    _left(builder, prefix).join(_right(builder, prefix), _both, NEAR, _STORES).to(f"{prefix}-out")


def stream_left_join(builder: Any, prefix: str) -> None:
    """Pairs, and unmatched records of the left stream."""
    _left(builder, prefix).left_join(_right(builder, prefix), _both, NEAR, _STORES).to(f"{prefix}-out")


def stream_outer_join(builder: Any, prefix: str) -> None:
    """Pairs, and unmatched records of either stream."""
    _left(builder, prefix).outer_join(_right(builder, prefix), _both, NEAR, _STORES).to(f"{prefix}-out")


def stream_left_join_in_memory(builder: Any, prefix: str) -> None:
    """The same as `stream_left_join`, in memory."""
    one, other = (
        ks.Stores.in_memory_window_store(f"near-{side}", retention="10s", window_size="6s", retain_duplicates=True)
        for side in "ab"
    )
    stores = _STORES.with_this_store_supplier(one).with_other_store_supplier(other)
    _left(builder, prefix).left_join(_right(builder, prefix), _both, NEAR, stores).to(f"{prefix}-out")


def stream_table_join(builder: Any, prefix: str) -> None:
    """Records joined with the row of a table."""
    table = builder.table(f"{prefix}-right", store="table")
    _left(builder, prefix).left_join(table, _both).to(f"{prefix}-out")


def table_outer_join(builder: Any, prefix: str) -> None:
    """Joined rows of two tables."""
    one, other = builder.table(f"{prefix}-left", store="one"), builder.table(f"{prefix}-right", store="other")
    _write_plain(one.outer_join(other, _both, store="both"), prefix)


def global_join(builder: Any, prefix: str) -> None:
    """Records joined with the row of a global table."""
    table = builder.global_table(f"{prefix}-right", store="everywhere")
    _left(builder, prefix).left_join(table, lambda key, value: key, _both).to(f"{prefix}-out")


def versioned_join(builder: Any, prefix: str) -> None:
    """Records joined with the row that was valid at their time."""
    prices = ks.Materialized(ks.Stores.persistent_versioned_key_value_store("prices", history="1m"))
    table = builder.table(f"{prefix}-right", materialized=prices)
    joined = ks.Joined("string", "string", "string", grace=GRACE, name="priced")
    _left(builder, prefix).join(table, _both, joined).to(f"{prefix}-out")


def table_group(builder: Any, prefix: str) -> None:
    """A sum over the rows of a table."""
    table = builder.table(f"{prefix}-left", store="table")
    groups = table.group_by(lambda key, value: (f"g{key[1]}", value), name="by-letter")
    sums = groups.aggregate(
        lambda: 0,
        lambda key, value, total: total + len(value),
        lambda key, value, total: total - len(value),
        store="sums",
        value_serde="long",
    )
    _write_plain(sums, prefix)


def foreign_key_join(builder: Any, prefix: str) -> None:
    """Rows joined with the row of another table that they reference."""
    one, other = builder.table(f"{prefix}-left", store="one"), builder.table(f"{prefix}-right", store="other")
    owner = ks.TableJoined(name="owner")
    _write_plain(one.left_join(other, lambda value: f"k{value[1]}", _both, owner, store="both"), prefix)


def regroup(builder: Any, prefix: str) -> None:
    """A count by another key."""
    groups = _left(builder, prefix).group_by(lambda key, value: f"g{value[1]}", name="by-letter")
    _write_plain(groups.count(store="counts"), prefix)


def regroup_windows(builder: Any, prefix: str) -> None:
    """A count by another key and window."""
    groups = _left(builder, prefix).group_by(lambda key, value: f"g{value[1]}", name="by-letter")
    _write(groups.windowed_by(TUMBLING).count(store="windows"), prefix)


def json_totals(builder: Any, prefix: str) -> None:
    """A JSON row by key, from JSON values."""
    values = ks.Serdes.json()
    amounts = builder.stream(f"{prefix}-left", value_serde=values)
    rows = amounts.group_by_key().aggregate(
        lambda: {"count": 0, "total": 0},
        lambda key, value, row: {"count": row["count"] + 1, "total": row["total"] + value["amount"]},
        store="totals",
        value_serde=values,
    )
    rows.to_stream().to(f"{prefix}-out", value_serde=values)


class Numbering(ks.Processor):
    """Numbers the records of a key from 1 to 9, and then from 1 again."""

    def init(self, context: Any) -> None:
        """Find the store."""
        self.context, self.seen = context, context.get_state_store("seen")

    def process(self, record: Any) -> None:
        """Forward the record with its number."""
        number = (self.seen.get(record.key) or 0) + 1
        self.seen.put(record.key, None if number == 9 else number)
        self.context.forward(record.with_value(f"{record.value}#{number}"))


def processor(builder: Any, prefix: str) -> None:
    """A processor with a store."""
    builder.add_state_store(ks.Stores.persistent_key_value_store("seen", key_serde="string", value_serde="long"))
    _left(builder, prefix).process(Numbering, "seen").to(f"{prefix}-out")


def processor_in_memory(builder: Any, prefix: str) -> None:
    """The same as `processor`, in memory."""
    builder.add_state_store(ks.Stores.in_memory_key_value_store("seen", key_serde="string", value_serde="long"))
    _left(builder, prefix).process(Numbering, "seen").to(f"{prefix}-out")


ALL: dict[str, Callable[[Any, str], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        count,
        reduce_in_memory,
        tumbling,
        unlimited,
        hopping_in_memory,
        sliding,
        sessions,
        sessions_in_memory,
        suppress_windows,
        suppress_table,
        emit_on_close,
        cogroup,
        stream_join,
        stream_left_join,
        stream_outer_join,
        stream_left_join_in_memory,
        stream_table_join,
        table_outer_join,
        global_join,
        versioned_join,
        table_group,
        foreign_key_join,
        regroup,
        regroup_windows,
        json_totals,
        processor,
        processor_in_memory,
    )
}


def build(name: str, prefix: str) -> ks.Topology:
    """Build a topology of the table, over the topics of a prefix."""
    builder = ks.StreamsBuilder(prefix)
    (EXAMPLES.get(name) or ALL[name])(builder, prefix)
    return builder.build()


def _amount(chance: Random, at: int) -> tuple[str, dict[str, Any]]:
    return f"k{chance.randrange(9)}", {"amount": chance.randrange(100), "of": f"é{at}"}


INPUT = {**examples.INPUT, "json-totals": (_amount, None)}
"""Key and value of the left and the right topic's records, given their number, if a topology needs its own."""

INPUTS = dict.fromkeys(ALL, ("left",)) | dict.fromkeys(
    [
        "cogroup",
        "stream-join",
        "stream-left-join",
        "stream-outer-join",
        "stream-left-join-in-memory",
        "stream-table-join",
        "table-outer-join",
        "global-join",
        "versioned-join",
        "foreign-key-join",
    ],
    ("left", "right"),
)
INPUTS |= {name: ("left",) if right is None else ("left", "right") for name, (_, right) in INPUT.items()}
"""Input topics of a topology, without the prefix."""

TABLE_FIRST = ("global-join", "page-view", "music")
"""Topologies whose right topic is filled before the left one."""
