"""A database's changes: rows, their index, and the search over both."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import kstreamnb as ks

Import = Callable[[str], ModuleType]


def change(op: str, lsn: int, name: str | None = None) -> dict[str, Any]:
    """Return a change of product 1 as the relay sends it."""
    after = None if name is None else {"id": 1, "name": name, "cents": 900}
    return {"op": op, "before": None, "after": after, "source": {"lsn": lsn}}


def after(module: Import, *changes: dict[str, Any] | None) -> tuple[list[str | None], dict[str, list[str]]]:
    """Return the names in the topic of rows, and the index, after changes of product 1."""
    topology = module("topology")
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        for each in changes:
            driver.create_input_topic("shop.public.products").pipe_input("1", each, at=0)
        rows = [record.value for record in driver.create_output_topic("products").read_records()]
        index = {word: ids for word, ids in driver.store("words").all() if ids}
    return [row and row["name"] for row in rows], index


def test_a_row_is_found_by_the_words_of_its_newest_name(module: Import) -> None:
    """A rename removes the lost word from the index, although the change does not say what the name was."""
    found = after(module, change("c", 10, "Red lamp"), change("u", 20, "Blue lamp"))
    assert found == (["Red lamp", "Blue lamp"], {"blue": ["1"], "lamp": ["1"]})


def test_a_deleted_row_is_not_found_and_a_repeated_change_does_not_bring_it_back(module: Import) -> None:
    """A killed relay sends changes again; the tombstone after a delete changes nothing."""
    first = [change("c", 10, "Red lamp"), change("d", 20), None]
    assert after(module, *first, *first) == (["Red lamp", None], {})


@pytest.mark.parametrize(("changes", "name"), [(["r", "u"], "new"), (["u", "r"], "new"), (["r", "r"], "old")])
def test_a_change_wins_over_the_snapshot(module: Import, changes: list[str], name: str) -> None:
    """The snapshot is read after the slot exists, so it may repeat rows; every start of the relay sends it again."""
    known = {"r": change("r", 0, "old"), "u": change("u", 20, "new")}
    assert after(module, *(known[op] for op in changes))[1] == {name: ["1"]}


def test_the_search_finds_what_a_scan_of_the_rows_finds(module: Import) -> None:
    """Every word of a question is in the name; a deleted and an unknown product are 404."""
    testclient = pytest.importorskip("fastapi.testclient", reason="needs the package fastapi")
    topology, made, service = module("topology"), module("made"), module("service").service
    rows: dict[int, Any] = {}
    for statement, row in made.statements(0, 300):
        rows[row["id"]] = None if statement.startswith("DELETE") else row
    with ks.TopologyTestDriver(topology.build(), partitions=topology.TOPICS) as driver:
        driver.pipe(made.records(0, 300))
        client = testclient.TestClient(service(driver))
        for question in ("red", "Oak lamp", "glass table blue", "gold", ""):
            asked = topology.words(question)
            expected = [
                row for _, row in sorted(rows.items()) if row and asked and asked <= topology.words(row["name"])
            ]
            assert client.get("/products", params={"q": question}).json() == expected
        assert len(client.get("/products", params={"q": "red"}).json()) > 20
        assert client.get("/products/0").json() == rows[0]
        assert [client.get(f"/products/{id}").status_code for id in (2, 999)] == [404, 404]


def test_the_relay_writes_debeziums_envelope(module: Import) -> None:
    """As wal2json decodes an insert and a delete: operation, row, position, and a tombstone after the delete."""
    pytest.importorskip("psycopg", reason="needs the package psycopg")
    row = '"schema":"public","table":"products","timestamp":"2026-01-01 09:00:00.5+00"'
    columns = '[{"name":"id","type":"bigint","value":7},{"name":"name","type":"text","value":"lamp"}]'
    identity = '[{"name":"id","type":"bigint","value":7}]'
    begin, commit = '{"action":"B"}', '{"action":"C"}'
    insert, delete = f'{{"action":"I",{row},"columns":{columns}}}', f'{{"action":"D",{row},"identity":{identity}}}'
    sent = list(
        module("relay").records([(n, f"0/{n}", data) for n, data in enumerate([begin, insert, delete, commit])])
    )
    source = {"schema": "public", "table": "products"}
    assert [(record.key, record.value, record.timestamp) for record in sent] == [
        (
            "7",
            {"op": "c", "before": None, "after": {"id": 7, "name": "lamp"}, "source": {**source, "lsn": 1}},
            1767258000500,
        ),
        ("7", {"op": "d", "before": {"id": 7}, "after": None, "source": {**source, "lsn": 2}}, 1767258000500),
        ("7", None, 1767258000500),
    ]
