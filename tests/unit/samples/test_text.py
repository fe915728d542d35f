"""Records as text tables: typed by hand, printed, and read back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kstreamnb.core.codec import SerializedValue
from kstreamnb.core.formatting import clean
from kstreamnb.core.record import TopicRecord, Windowed
from kstreamnb.errors import ConfigError
from kstreamnb.samples.text import format_cell, format_records, parse_cell, parse_rows

_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_CELLS = _JSON | st.binary(max_size=4) | st.uuids() | st.binary(max_size=4).map(SerializedValue)
_KEYS = _CELLS | st.builds(Windowed, _TEXT.filter(bool) | st.integers(), st.integers(0, 2**42), st.integers(0, 2**42))


@given(_KEYS)
@example({"a\u202eb": "\u200b\x85\U000e0041"})
def test_a_printed_cell_is_visible_and_read_back(value):
    """Every value that a table can hold survives printing and reading, with its type; what is invisible is escaped."""
    for iso in (False, True):
        cell = format_cell(value, iso=iso)
        assert cell == clean(cell)
        back = parse_cell(cell.replace("\\|", "|"))
        assert value == back
        assert type(value) is type(back)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("shoe", "shoe"),
        ("red shoe", "red shoe"),
        ('"shoe"', "shoe"),
        ("7", 7),
        ('"7"', "7"),
        ("1.5", 1.5),
        ("true", True),
        ("null", None),
        ("", None),
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("NaN", "NaN"),
        ("bytes:00ff", b"\x00\xff"),
        ("undecoded:00ff", SerializedValue(b"\x00\xff")),
        ("uuid:123e4567-e89b-12d3-a456-426614174000", UUID("123e4567-e89b-12d3-a456-426614174000")),
        ("shoe@0/10", Windowed("shoe", 0, 10)),
        ("7@1970-01-01T00:00:01Z/2000", Windowed(7, 1000, 2000)),
        ("a@b", "a@b"),
    ],
)
def test_cells_are_json_or_bare_words(text, value):
    """A cell has the type that it looks like."""
    back = parse_cell(text)
    assert value == back
    assert type(value) is type(back)


def test_a_table_may_be_markdown_with_comments_and_columns_in_any_order():
    """Outer bars, the rule, empty lines and comments are skipped; times have three forms."""
    rows = parse_rows(
        """
        # sales of the morning
        | time | Key | value |
        |-----:|-----|-------|
        | 5 | a | x\\|y |
        | 1m | b | |

        | 1970-01-01T00:00:01Z | c |
        """,
        topic="sales",
    )
    assert [
        {"topic": "sales", "time": 5, "key": "a", "value": "x|y"},
        {"topic": "sales", "time": 60_000, "key": "b", "value": None},
        {"topic": "sales", "time": 1000, "key": "c"},
    ] == rows


def test_headers_are_pairs_or_an_object():
    """A name may occur twice; values are text or bytes."""
    rows = parse_rows(
        """
        key | headers
        a   | {"h": "x", "n": null}
        b   | [["h", "x"], ["h", "bytes:ff"]]
        c   |
        """
    )
    assert [(("h", b"x"), ("n", None)), (("h", b"x"), ("h", b"\xff")), ()] == [row["headers"] for row in rows]


def test_offsets_and_headers_are_shown_where_there_is_something_to_see():
    """Offsets that only count need no column."""
    counted = [TopicRecord("a", 0, n, n, "k", n) for n in range(2)]
    assert "topic | key | value | time | partition" == format_records(counted).splitlines()[0]
    gap = [TopicRecord("a", 0, 7, 0, "k", 1, (("h", b"x"),))]
    assert [
        "topic | key | value | time | partition | offset | headers",
        'a     | k   | 1     | 0    | 0         | 7      | {"h": "x"}',
    ] == format_records(gap).splitlines()


def test_headers_of_several_lines_are_text():
    """The trace of a dead letter can be read, and is read back."""
    headers = (("trace", b'Traceback:\n\tFile "shop.py" | line 5\n'), ("control", b"\x00\x1b"))
    text = format_records([TopicRecord("a", 0, 0, 0, "k", 1, headers)])
    assert r'"trace": "Traceback:\n\tFile \"shop.py\"' in text
    assert '"control": "bytes:001b"' in text
    assert [headers] == [row["headers"] for row in parse_rows(text)]


def test_late_times_are_printed_as_iso_text():
    """Small numbers stay numbers, real timestamps are readable."""
    assert "2026-01-01T09:00:00Z" in format_records([TopicRecord("a", 0, 0, 1_767_258_000_000, "k", 1)])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the table is empty"),
        ("sales | shoe | 1", "does not name its columns"),
        ("key | key\na | b", "does not name its columns"),
        ("key\na | b", "line 2 of the table has 2 cells but 1 columns"),
        ('key\n{"a"', "is not JSON"),
        ("key | time\na | noon", 'time "noon" is not an instant'),
        ("key | time\na | 2026-01-01T09:00", "has no time zone"),
        ("key | partition\na | x", 'partition must be an integer, got "x"'),
        ("key\nbytes:0", "is not a value of type bytes"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(text, message):
    """Mistakes in a table are reported with their place."""
    with pytest.raises(ConfigError, match=message):
        parse_rows(text)


def test_records_with_and_without_a_partition_are_read_back():
    """An unassigned partition is -1 beside others; if all are unassigned, the column is not shown."""
    loose, placed = TopicRecord("t", -1, 0, 5, "a", 1), TopicRecord("t", 2, 0, 6, "b", 2)
    assert "partition" not in format_records([loose])
    rows = parse_rows(format_records([loose, placed]))
    assert [-1, 2] == [row["partition"] for row in rows]


@pytest.mark.parametrize("cell", ["-2", "²", "1.5"])
def test_a_partition_is_a_whole_number(cell):
    """Anything else is refused with its line."""
    with pytest.raises(ConfigError, match="must be an integer"):
        parse_rows(f"topic | partition\nt | {cell}")
