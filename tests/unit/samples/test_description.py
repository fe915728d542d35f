"""Descriptions of samples: fields, their types, missing values and ranges."""

from __future__ import annotations

import pytest

import kstreamnb as ks
from kstreamnb.samples import description

ROWS = [
    ("orders", 0, 0, 0, "a", {"who": "ann", "n": 1, "items": [{"price": 1.5}, {"price": 2}]}),
    ("orders", 1, 0, 5, "b", {"who": "bob", "items": []}),
    ("orders", 0, 1, 7, "a", None),
    ("orders", 0, 2, 9, "a", {"who": None, "n": "x"}),
    ("rates", 0, 0, 7, "a", 3.5),
]


def rows() -> dict[str, tuple[str, ...]]:
    """Return the table of the description by topic and path."""
    return {f"{row[0]}.{row[1]}": tuple(row[2:]) for row in ks.Sample.from_records(ROWS).describe().table()}


def test_a_field_that_some_records_lack_is_counted_as_missing() -> None:
    """A missing field and a null count as the same; only dicts can lack a field."""
    found = rows()
    assert found["orders.value"][:2] == ("dict", "1")
    assert found["orders.value.who"] == ("str", "1", "2", '"ann" (1), "bob" (1)')
    assert found["orders.value.items"][:2] == ("list", "1")
    assert found["orders.key"] == ("str", "0", "2", '"a" (3), "b" (1)')


def test_a_name_with_a_dot_belongs_to_the_dict_that_has_it() -> None:
    """A path that begins like another one is not inside it."""
    values = {"who": {"age": 7}, "who.name": "ann"}, {"who": {"age": 8}}, {"who": {"age": 9}}
    sample = ks.Sample.from_records([("orders", 0, at, at, "a", value) for at, value in enumerate(values)])
    assert {each.path: each.missing for each in sample.describe().fields}["value.who.name"] == 2
    odd = {"a": 1, "a.b": "c"}
    (*_, last) = ks.Sample.from_records([("orders", 0, 0, 0, "k", odd)]).describe().fields
    assert (last.path, last.missing) == ("value.a.b", 0)


def test_types_that_differ_are_counted_apart() -> None:
    """A field that is a number in one record and text in another is shown with both types."""
    assert rows()["orders.value.n"][0] == "int 1, str 1"


def test_numbers_have_a_range() -> None:
    """Integers and floats of one field share it, also inside lists."""
    found = rows()
    assert found["orders.value.items[].price"] == ("float 1, int 1", "0", "2", "1.5 … 2")
    assert found["rates.value"] == ("float", "0", "1", "3.5")


def test_partitions_have_records_keys_bytes_and_times() -> None:
    """Bytes are those of keys and values as JSON."""
    shown = ks.Sample.from_records(ROWS).describe()
    assert list(shown.more())[-2:] == [
        "orders-1: 1 record, 1 key, 28 bytes, 5 to 5",
        "rates-0: 1 record, 1 key, 4 bytes, 7 to 7",
    ]
    assert shown.title == "2 topics, 5 records, 9 fields"


def test_fields_beyond_the_limit_are_counted() -> None:
    """A value with a hundred fields says how many are left out."""
    wide = ks.Sample.from_records([("wide", 0, 0, 0, "a", {f"f{number}": number for number in range(100)})])
    assert "60 of 102 fields" in wide.describe().title


def test_a_description_is_a_table_in_a_notebook() -> None:
    """Text and HTML hold the same facts; users' markup is escaped."""
    sample = ks.Sample.from_records([("orders", 0, 0, 0, "<b>", {"<i>": "<script>"})])
    bundle = sample.describe()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "<script>" not in bundle["text/html"]


def test_an_empty_sample_has_nothing_to_describe() -> None:
    """An empty sample raises no error."""
    assert str(ks.Sample.from_records([]).describe()) == "0 topics, 0 records, 0 fields"


def test_of_very_many_different_values_only_some_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their texts take memory; the first ones are counted, also when they come again, whatever comes between."""
    monkeypatch.setattr(description, "_MOST_VALUES", 4)
    values = ["a", "b", "a", "c", "d", "e", "f", "a", "e"]
    records = [("orders", 0, at, 0, None, value) for at, value in enumerate(values)]
    (_, field), (_, exact) = (ks.Sample.from_records(some).describe().fields for some in (records, records[:5]))
    assert (field.distinct, field.more, field.content) == (4, True, '"a" (3), "b" (1), "c" (1) and more than 1 more')
    assert (exact.distinct, exact.more, exact.content) == (4, False, '"a" (2), "b" (1), "c" (1) and 1 more')
    assert "| more than 4 |" in str(ks.Sample.from_records(records).describe())
