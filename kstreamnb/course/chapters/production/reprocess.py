"""Checks of the exercises on reprocessing."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import kstreamnb as ks
from kstreamnb.course.judging import pairs_of

_MOVEMENTS = (
    ("in", 5, 5, "5 pieces came in"),
    ("out", 2, 3, "2 of 5 pieces went out"),
    ("return", 1, 4, "1 piece came back to 3"),
    ("count", 7, 7, "somebody counted 7 pieces where the application believed in 4"),
    ("out", 3, 4, "3 pieces went out after 7 were counted"),
    ("count", 0, 0, "somebody counted an empty shelf"),
    ("in", 6, 6, "6 pieces came to an empty shelf"),
)


def _stock(answer: object) -> str:
    builder = ks.StreamsBuilder("answer")
    moved = cast("Callable[[object, object, object], object]", answer)
    builder.stream("movements").group_by_key().aggregate(int, moved, store="on-hand").to_stream().to("inventory")
    driver = ks.TopologyTestDriver(builder.build())
    output = driver.create_output_topic("inventory")
    for at, (kind, pieces, expected, what) in enumerate(_MOVEMENTS):
        driver.create_input_topic("movements").pipe_input("shoe", {"type": kind, "qty": pieces}, at=at)
        values = [value for _, value in pairs_of(output.read_records())]
        if values != [expected]:
            return f"{what}, and the stock is {', '.join(map(str, values)) or 'not reported'}."
    return ""


JUDGES = {"reprocess.1": _stock}
