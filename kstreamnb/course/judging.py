"""Helpers for the checks of exercises."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import kstreamnb as ks
from kstreamnb.course.answers import Refused

Pairs: TypeAlias = list[tuple[object, object]]

_CHECKED = "checked-answer"
"""The topic that the answer is written to; not one that an answer would write to itself."""


def called(answer: object, *arguments: object) -> object:
    """Call an answer that is a function."""
    return cast("Callable[..., object]", answer)(*arguments)


def run_step(answer: object, sample: ks.Sample, topic: str = "input") -> Pairs:
    """Run an answer that is a function from a stream to a stream or table; return the keys and values it writes."""
    builder = ks.StreamsBuilder("exercise")
    return run_stream(builder, called(answer, builder.stream(topic)), sample)


def run_stream(builder: ks.StreamsBuilder, made: object, sample: ks.Sample) -> Pairs:
    """Run the stream or table that an answer returned; return the keys and values it writes."""
    if not isinstance(made, ks.KStream | ks.KTable):
        what = "nothing: is there a return" if made is None else f"type {type(made).__name__}: is the last step missing"
        raise Refused(f"the function must return a stream or a table, but returns {what}?")
    if made.declaration_log is not builder.declaration_log:
        raise Refused("the function uses a stream of your notebook: use its arguments, which are other streams.")
    stream = made.to_stream() if isinstance(made, ks.KTable) else made
    stream.to(_CHECKED)
    return [(record.key, record.value) for record in ks.replay(builder.build(), sample).output(_CHECKED)]
