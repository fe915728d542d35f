"""Folds inlined into a fused chain behave like the operators' own closures."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstreamnb.core.block import Block
from kstreamnb.core.operator import Operator
from kstreamnb.core.record import Change
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.stores import StoreSpec
from kstreamnb.core.traits import NO_TRAITS
from kstreamnb.core.windows import TimeWindows
from kstreamnb.operators.aggregates import StreamAggregate, WindowAggregate
from kstreamnb.operators.folding import count_up, zero
from kstreamnb.operators.stateless import MapValues, TableToStream
from kstreamnb.runtime.codegen.error_location import ErrorLocations
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from tests.unit.operators.fake_context import FakeContext

WINDOWS = TimeWindows(10, 5)
FOLDS: list[Any] = [
    StreamAggregate("rows", zero, count_up),
    StreamAggregate("rows", int, lambda key, value, total: total + value if total < 30 else None),
    StreamAggregate("rows", None, operator.add),
    StreamAggregate("rows", None, lambda total, value: None if value == 7 else max(total, value)),
    WindowAggregate("rows", WINDOWS, zero, count_up),
    WindowAggregate("rows", WINDOWS, int, lambda key, value, total: total + (value or 0)),
    WindowAggregate("rows", WINDOWS, None, lambda total, value: total if value is None else total + value),
]


def task(fold: Any, *, watched: bool) -> FakeContext:
    """A task with the store of a fold; a watched one records its changes."""
    kind: Any = "timestamped_window" if isinstance(fold, WindowAggregate) else "timestamped_key_value"
    spec = StoreSpec("rows", kind, value_serde=Serdes.long(), retention_ms=15, window_size_ms=10, logged=False)
    context = FakeContext(spec)
    context.store("rows").journal = [] if watched else None
    return context


def function(block: Block | None, forward: Any) -> Callable[..., None]:
    """A generated function with one block, which forwards the change that the block leaves in parts."""
    assert block is not None
    text = "\n ".join(["def chain(key, value, timestamp, headers):", *block.render(str, "return")])
    names: dict[str, Any] = {"forward": forward, "Change": Change, **block.objects}
    exec(f"{text}\n forward(key, Change(value, {block.old}), timestamp, headers)", names)
    chain: Callable[..., None] = names["chain"]
    return chain


records = st.tuples(
    st.none() | st.sampled_from("ab"), st.none() | st.integers(0, 9), st.integers(0, 60), st.just((("h", b""),))
)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("fold", [*FOLDS, *(replace(fold, send_old=True) for fold in FOLDS)])
@given(fed=st.lists(records, max_size=30))
def test_a_fused_fold_does_what_the_bound_one_does(fold: Any, watched: bool, fed: list[Any]) -> None:
    """The same changes, rows, drops and journal entries."""
    bound, fused = task(fold, watched=watched), task(fold, watched=watched)
    process = bound.bind(fold)
    chain = function(fold.fuse(fused), fused.bind(_PASS))
    for record in fed:
        process(*record)
        chain(*record)
    assert bound.forwarded == fused.forwarded
    assert bound.dropped == fused.dropped
    assert bound.store("rows").raw == fused.store("rows").raw
    assert bound.store("rows").journal == fused.store("rows").journal


def test_keys_that_only_their_bytes_tell_apart_have_windows_of_their_own() -> None:
    """1, 1.0 and true are equal in Python and three keys in JSON; a list is a key like any other."""
    fold: Any = WindowAggregate("rows", WINDOWS, zero, count_up)
    spec = StoreSpec(
        "rows", "timestamped_window", Serdes.json(), Serdes.long(), retention_ms=15, window_size_ms=10, logged=False
    )
    context = FakeContext(spec)
    chain = function(fold.fuse(context), context.bind(_PASS))
    for timestamp, key in enumerate([1, True, 1.0, ["a"], 1, ["a"]]):
        chain(key, 0, timestamp, ())
    found = [(repr(key.key), change.new) for key, change, *_ in context.forwarded]
    assert found == [("1", 1), ("True", 1), ("1.0", 1), ("['a']", 1), ("1", 2), ("['a']", 2)]


class _Pass(Operator):
    """Forwards everything."""

    traits = NO_TRAITS

    def bind(self, context: Any, forward: Any) -> Any:
        """Nothing in between."""
        return forward


_PASS = _Pass()


@pytest.mark.parametrize("fold", FOLDS)
def test_no_change_is_made_if_only_its_new_value_is_read(fold: Any) -> None:
    """A table that is only converted to a stream forwards plain values; any other reader gets the change."""
    sources = []
    for reader in (TableToStream().block(), MapValues(str).block()):
        builder = FunctionBuilder("fold")
        builder.add_block("fold", fold.fuse(task(fold, watched=False)))
        builder.add_block("reader", reader)
        builder.compile(locations := ErrorLocations())
        sources.append(locations.source())
    assert [False, True] == ["Change" in source for source in sources]


@pytest.mark.parametrize(
    "fold",
    [
        WindowAggregate("rows", WINDOWS, zero, count_up, emit_on_close=True),
        WindowAggregate("rows", TimeWindows(10, 5, 5), zero, count_up),
        WindowAggregate("rows", TimeWindows(10, 6), zero, count_up),
    ],
)
def test_what_needs_more_than_a_lookup_and_a_put_takes_a_call(fold: Any) -> None:
    """Final results, several windows, and a store that expires windows which still accept records."""
    assert "{fold}(key, value, timestamp, headers, " in fold.fuse(task(fold, watched=False)).lines
