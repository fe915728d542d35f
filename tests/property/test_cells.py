"""Whatever is edited and run again, the topology is that of the notebook run from top to bottom."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.notebook.shells import loaded_shell

_STEPS = (
    "{here} = {above}.filter(print)",
    "{here} = {above}.map_values(print)",
    "{here} = {above}.filter(print).map_values(print)",
    "between = {above}.peek(print); {here} = between.select_key(print)",
    "{here} = {above}.select_key(print).group_by_key().count().to_stream()",
    "{here} = {above}; {here} = {here}.flat_map_values(print)",
    "{above}.to('side'); {here} = {above}.merge({above}.filter(print))",
)
_FIRST = ("s0 = builder.stream('a')", "s0 = builder.stream('b').filter(print)", "s0 = builder.table('t').to_stream()")
_MAKE = ("builder = ks.StreamsBuilder('app')", "builder = ks.StreamsBuilder('other')")


def _choices(cell: int) -> tuple[str, ...]:
    return (_MAKE, _FIRST)[cell] if cell < 2 else _STEPS


def _source(cell: int, choice: int, above: int) -> str:
    choices = _choices(cell)
    text = choices[choice % len(choices)]
    return text.format(here=f"s{cell - 1}", above=f"s{above % max(cell - 1, 1)}")


_choice = st.tuples(st.integers(0, 6), st.integers(0, 5))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(_choice, min_size=3, max_size=7),
    st.lists(st.tuples(st.integers(0, 6), st.none() | _choice), max_size=8),
)
def test_edits_and_reruns_end_where_the_final_notebook_does(
    cells: list[tuple[int, int]], runs: list[tuple[int, tuple[int, int] | None]]
) -> None:
    """Cells run once in order, then in any order, edited or not."""
    sources = [_source(cell, *choice) for cell, choice in enumerate(cells)]
    with loaded_shell() as shell:
        for cell, source in enumerate(sources):
            shell.run(source, f"cell-{cell}")
        for number, edit in runs:
            cell = number % len(cells)
            if edit is not None:
                sources[cell] = _source(cell, *edit)
            shell.run(sources[cell], f"cell-{cell}")
        edited = shell.value("builder").build()
    with loaded_shell() as shell:
        for cell, source in enumerate(sources):
            shell.run(source, f"cell-{cell}")
        final = shell.value("builder").build()
    assert final.describe() == edited.describe()
    assert final.name == edited.name
