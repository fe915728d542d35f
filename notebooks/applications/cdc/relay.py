"""Sends a table's changes from PostgreSQL's log to a topic, in Debezium's envelope: ``python relay.py``.

It repeats changes after a crash, and loses none: the slot advances only after the broker has them.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg

import kstreamnb as ks

SLOT, NEW, TABLE = "kstreamnb", "kstreamnb_new", "public.products"
TOPIC = f"shop.{TABLE}"
OPERATIONS = {"I": "c", "U": "u", "D": "d"}
READ = "SELECT lsn - '0/0'::pg_lsn, lsn, data FROM pg_logical_slot_peek_changes(%s, NULL, 1000, {})".format(
    "'format-version', '2', 'include-timestamp', 'true', 'add-tables', %s"
)


def row(columns: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    """Return columns of wal2json as a row."""
    return {column["name"]: column["value"] for column in columns} if columns else None


def envelope(change: dict[str, Any], lsn: int) -> dict[str, Any]:
    """Return a change of wal2json as Debezium writes it; before holds what PostgreSQL logs of the old row."""
    source = {"schema": change["schema"], "table": change["table"], "lsn": lsn}
    before, after = row(change.get("identity")), row(change.get("columns"))
    return {"op": OPERATIONS[change["action"]], "before": before, "after": after, "source": source}


def records(changes: list[tuple[Any, str, str]]) -> Iterator[ks.TopicRecord]:
    """Yield the record of each change, and a tombstone after each delete."""
    for lsn, _, data in changes:
        change = json.loads(data)
        if change["action"] in OPERATIONS:
            value = envelope(change, int(lsn))
            key = str((value["after"] or value["before"])["id"])
            at = int(1000 * datetime.fromisoformat(change["timestamp"]).timestamp())
            yield ks.TopicRecord(TOPIC, 0, 0, at, key, value)
            if value["op"] == "d":
                yield ks.TopicRecord(TOPIC, 0, 0, at, key, None)


def snapshot(connection: psycopg.Connection[Any]) -> Iterator[ks.TopicRecord]:
    """Yield each row as it is now; the table of rows ignores those that it knows from a change."""
    for id, name, cents in connection.execute("SELECT id, name, cents FROM products"):
        after, source = {"id": id, "name": name, "cents": cents}, {"schema": "public", "table": "products", "lsn": 0}
        value = {"op": "r", "before": None, "after": after, "source": source}
        yield ks.TopicRecord(TOPIC, 0, 0, int(1000 * time.time()), str(id), value)


def begin(connection: psycopg.Connection[Any], servers: str) -> None:
    """Send a snapshot, unless it was sent; the slot has its name only afterwards, so a crash repeats the snapshot."""
    slots = {name for (name,) in connection.execute("SELECT slot_name FROM pg_replication_slots")}
    if SLOT not in slots:
        if NEW in slots:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [NEW])
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'wal2json')", [NEW])
        ks.kafka.produce(servers, snapshot(connection))  # after the slot exists, so nothing falls between
        connection.execute("SELECT pg_copy_logical_replication_slot(%s, %s)", [NEW, SLOT])
        connection.execute("SELECT pg_drop_replication_slot(%s)", [NEW])


def main() -> None:
    """Run until SIGTERM or SIGINT."""
    servers, asked = os.environ["BOOTSTRAP_SERVERS"], []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.append(True))
    with psycopg.connect(os.environ["POSTGRES"], autocommit=True) as connection:
        begin(connection, servers)
        while not asked:
            changes = connection.execute(READ, [SLOT, TABLE]).fetchall()
            if changes:
                ks.kafka.produce(servers, records(changes))  # returns when the broker has them all
                connection.execute("SELECT pg_replication_slot_advance(%s, %s)", [SLOT, changes[-1][1]])
            else:
                time.sleep(0.1)


if __name__ == "__main__":
    main()
