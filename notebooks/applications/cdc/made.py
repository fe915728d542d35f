"""Makes the input: ten changes a second of a table of products in a PostgreSQL of its own, which the relay reads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kstreamnb as ks

COLOURS, KINDS, MATERIALS = ("red", "green", "blue"), ("lamp", "chair", "table", "shelf"), ("oak", "steel", "glass")
LOOK = """Look at
  {url}/products?q=red+lamp   products whose name has both words
  {url}/products/3            one product
  {url}/stores/words/oak      the index"""
Statement = tuple[str, dict[str, Any]]


def name_of(n: int) -> str:
    """Return the name of a product by the number of the change."""
    return f"{COLOURS[n % 3]} {KINDS[n // 3 % 4]} of {MATERIALS[n // 12 % 3]}"


def statements(first: int, count: int) -> Iterator[Statement]:
    """Yield statements by number, each of which changes one row: of ten, six insert, three update and one deletes."""
    for n in range(first, first + count):
        if n % 10 == 9:
            yield "DELETE FROM products WHERE id = %(id)s", {"id": n - 7}
        elif n % 10 > 5:
            row = {"id": n - 6, "name": name_of(n), "cents": 100 + n}
            yield "UPDATE products SET name = %(name)s, cents = %(cents)s WHERE id = %(id)s", row
        else:
            row = {"id": n, "name": name_of(n), "cents": 100 + n}
            yield "INSERT INTO products VALUES (%(id)s, %(name)s, %(cents)s)", row


def records(first: int, count: int, start_ms: int = 1_790_000_000_000) -> ks.Sample:
    """Return what the relay sends for these statements, for runs without a database."""
    rows: dict[int, dict[str, Any]] = {}
    sent: list[tuple[object, ...]] = []
    for n, (statement, row) in enumerate(statements(first, count), first):
        before = rows.pop(row["id"], None)
        after = None if statement.startswith("DELETE") else row
        if after is not None:
            rows[row["id"]] = after
        op = "d" if after is None else "u" if before else "c"
        source = {"schema": "public", "table": "products", "lsn": 1000 + n}
        value = {"op": op, "before": None, "after": after, "source": source}
        for each in (value, None) if after is None else (value,):
            sent.append(("shop.public.products", -1, 0, start_ms + 100 * n, str(row["id"]), each))
    return ks.Sample.from_records(sent)


def start_relay(servers: str, postgres: str) -> subprocess.Popen[bytes]:
    """Start the relay between a database and a broker."""
    environment = {**os.environ, "BOOTSTRAP_SERVERS": servers, "POSTGRES": postgres}
    folder = Path(__file__).parent
    return subprocess.Popen([sys.executable, "relay.py"], cwd=folder, env=environment, start_new_session=True)


@contextmanager
def source(servers: str) -> Iterator[Callable[[int, int, int], None]]:
    """Start PostgreSQL and the relay; yield what changes the table."""
    import psycopg
    from database import local_postgres

    with local_postgres() as address, psycopg.connect(address, autocommit=True) as connection:
        relay = start_relay(servers, address)

        def send(first: int, count: int, _start_ms: int) -> None:
            for statement, row in statements(first, count):
                connection.execute(statement, row)

        try:
            yield send
        finally:
            relay.send_signal(signal.SIGTERM)
            relay.wait(30)
