"""Checks of the exercises on streams and tables."""

from __future__ import annotations

import kstreamnb as ks
from kstreamnb.course.answers import flat, numbers_in

_MOST_RECORDS = 3


def _stock(answer: object) -> str:
    pieces, kinds = numbers_in(answer), [kind for kind in ("stream", "table") if kind in flat(answer).lower()]
    if len(pieces) != 1 or len(kinds) != 1:
        return 'give a number and "stream" or "table", such as (7, "stream").'
    if kinds == ["stream"]:
        return "as a stream the records would add up to 13 pieces: does `shoe => 3` mean three more, or three left?"
    question = "what is the latest row of each product?"
    return "" if pieces == [3] else f"a table, yes, but not {pieces[0]:g} pieces: {question}"


def _empty(answer: object) -> str:
    if not isinstance(answer, str | ks.Sample):
        return "give the log as a text table with the columns topic, key, value and time."
    sample = answer if isinstance(answer, ks.Sample) else ks.Sample.from_text(answer)
    if {record.topic for record in sample} != {"t"}:
        return 'all records belong to the topic "t".'
    if len(sample) > _MOST_RECORDS:
        return f"{len(sample)} records are more than three."
    if any(record.key is None for record in sample):
        return "a table leaves out records without a key: give each record one."
    builder = ks.StreamsBuilder("table")
    builder.table("t", store="rows")
    left = ks.replay(builder.build(), sample).now.store("rows").to_dict()
    if left:
        return f"the table still holds {left}: which record takes a row away?"
    facts = any(record.value is not None for record in sample)
    return "" if facts else "the table is empty, but so is the stream: no record has a value."


JUDGES = {"tables.1": _stock, "tables.2": _empty}
