"""Files of tasks on an executor."""

from __future__ import annotations

from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.spark.execution.task_file import TaskFile
from tests.hostile import ATTACKS


@pytest.mark.parametrize("name", ['say "hello"', '"', "a'b", "rows; DROP TABLE head; --", *ATTACKS[:2]])
def test_a_store_of_any_name_has_a_table(tmp_path: Path, name: str) -> None:
    """Names of stores are those of the user, and a quotation mark in one ends no name of SQL."""
    file = TaskFile(tmp_path / "task.sqlite")
    spec = ks.Stores.persistent_key_value_store(name)
    make = file.rows_of(members=False)("0_0", spec)
    assert make is not None
    rows = make(spec)
    rows.bind(str.encode, bytes.decode)
    rows["key"] = {"n": 1}
    rows.write(rows.changes())
    rows.settle()
    assert [("key", {"n": 1})] == list(rows.items())
    assert file.head() is None
    file.close()
