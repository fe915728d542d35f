"""Rows in a table of SQLite: what is put in bulk is what is read."""

from __future__ import annotations

import pickle
import sqlite3
import weakref

from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.state.disk_rows import DiskRows

lengths = st.integers(0, 40) | st.sampled_from([65_535, 65_536, 70_000])
keys = st.builds(lambda size, text: text + b"k" * size, lengths, st.binary(max_size=4))
rows = st.builds(lambda size, text: text + b"r" * size, lengths, st.binary(max_size=4)) | st.none()


def disk_rows(table: str = "rows") -> DiskRows:
    """Return rows in a table, with a staging database."""
    database = sqlite3.connect("", isolation_level=None)
    database.execute("ATTACH '' AS staging")
    found = DiskRows(database, table, (pickle.dumps, pickle.loads))
    weakref.finalize(found, database.close)  # from 3.13 on, Python warns of a database that nobody closes
    found.bind(bytes, bytes)
    return found


@given(st.lists(st.lists(st.tuples(keys, rows), max_size=6), max_size=4))
def test_of_staged_rows_the_last_of_each_key_is_kept(portions: list[list[tuple[bytes, bytes | None]]]) -> None:
    found, last = disk_rows(), {}
    for portion in portions:
        found.stage([key for key, _ in portion], [pickle.dumps(row) for _, row in portion])
        last.update(portion)
    found.take_staged()
    kept = {key: row for key, row in last.items() if row is not None}
    assert dict(found.items_between(b"", None)) == kept
    assert len(found) == len(kept)


@given(st.dictionaries(keys, rows, max_size=6), st.dictionaries(keys, rows, max_size=6))
def test_written_rows_replace_those_of_their_keys(
    before: dict[bytes, bytes | None], after: dict[bytes, bytes | None]
) -> None:
    found = disk_rows()
    found.write(before)
    found.write(after)
    kept = {key: row for key, row in {**before, **after}.items() if row is not None}
    assert list(found.items_between(b"", None)) == sorted(kept.items())
    assert list(found.items_between(b"", None, reverse=True)) == sorted(kept.items(), reverse=True)


def test_more_rows_than_one_statement_puts_are_all_written() -> None:
    found, many = disk_rows('"rows of many"'), {b"%05d" % number: b"%d" % number for number in range(2_345)}
    found.write(many)
    assert dict(found.items_between(b"", None)) == many
