"""Keeps a database's products as a table, and an index of the words of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import kstreamnb as ks

__all__ = ["TOPICS", "build", "words"]

TOPICS = {"shop.public.products": 4, "products": 4}
"""Topics with their partitions."""

Row = dict[str, Any]


def words(text: str) -> set[str]:
    """Return the words of a text, in lower case."""
    return set(re.findall(r"\w+", text.lower()))


class Newest(ks.FixedKeyProcessor[str, dict[str, Any], dict[str, Any]]):
    """Keeps the newest state of each row, and forwards what it was and what it is; an old change has no effect."""

    def init(self, context: ks.ProcessorContext) -> None:
        """Get the store: row and position in the database's log by key; the row is None after a delete."""
        super().init(context)
        self.rows = context.get_state_store("rows")

    def process(self, record: ks.Record[str, dict[str, Any]]) -> None:
        """Apply a change, unless one with its position or a later one has been applied."""
        known = self.rows.get(record.key) or {"position": -1, "row": None}
        change = record.value
        position = 0 if change["op"] == "r" else change["source"]["lsn"]  # every change is newer than the snapshot
        if position > known["position"]:
            self.rows.put(record.key, {"position": position, "row": change["after"]})
            self.context.forward(record.with_value({"was": known["row"], "is": change["after"]}))


def is_change(_id: str, change: dict[str, Any] | None) -> bool:
    """Return whether a record is a change; Debezium adds a record with the value None after each delete."""
    return change is not None


def to_words(id: str, change: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each word that the row has lost or gained, with the row's id."""
    was, now = (words(row["name"]) if row else set() for row in (change["was"], change["is"]))
    for word in sorted(was - now):
        yield word, {"id": id, "has": False}
    for word in sorted(now - was):
        yield word, {"id": id, "has": True}


def index(_word: str, change: dict[str, Any], ids: list[str]) -> list[str]:
    """Return the ids of the rows with a word, in order."""
    others = [id for id in ids if id != change["id"]]
    return sorted([*others, change["id"]]) if change["has"] else others


def build() -> ks.Topology:
    """Changes to the topic of rows, and to the stores "rows" and "words", which the service searches."""
    builder = ks.StreamsBuilder("cdc")
    builder.add_state_store(ks.Stores.persistent_key_value_store("rows"))
    changes = builder.stream("shop.public.products").filter(is_change)
    newest = changes.process_values(Newest, "rows")
    newest.map_values(lambda change: change["is"]).to("products")
    newest.flat_map(to_words).group_by_key(name="by-word").aggregate(list, index, store="words")
    return builder.build()
