"""Whichever cells are edited and run again, the topology is that of the notebook run from top to bottom."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import kstreamnb as ks
from tests.notebook.shells import Shell, loaded_shell

_MAKE = ("builder = ks.StreamsBuilder('app')", "builder = ks.StreamsBuilder('other')")
_FUNCTIONS = (
    "def wanted(key, value):\n    return value > 1\n\ndef other(value):\n    return value + 10",
    "def wanted(key, value):\n    return value > 2\n\ndef other(value):\n    return value + 10",
    "# a comment\ndef wanted(key, value):\n    return value > 1\n\nother = lambda value: value * 2",
)
_FIRST = (
    "s0 = builder.stream('a')",
    "s0 = builder.stream('b').filter(lambda key, value: value != 3)",
    "s0 = builder.table('t').to_stream()",
)
_STEPS = (
    "{here} = {above}.filter(lambda key, value: value != 4)",
    "{here} = {above}.map_values(lambda value: value + 1)",
    "{here} = {above}.filter(wanted).map_values(other)",
    "between = {above}.map_values(other); {here} = between.select_key(lambda key, value: value % 3)",
    "{here} = {above}.select_key(lambda key, value: value % 2).group_by_key().count().to_stream()",
    "{last} = {last}.flat_map_values(lambda value: [value, value + 1]); {here} = {last}",
    "{above}.to('side'); {here} = {above}.merge({above}.filter(wanted))",
    "{here} = {above}.peek(print); raise ValueError('a cell may fail when it has declared something')",
    "{here} = {above}",
)
_SAMPLE = ks.Sample.from_records([(topic, 0, at, at, "ab"[at % 2], at) for topic in "abt" for at in range(6)])

_choice = st.tuples(st.sampled_from([0, 1, 2, 2, 3, 4, 5, 6, 7, 8]), st.integers(0, 5))
_run = st.tuples(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 7]), st.none() | _choice | _choice | st.just("forget"))
_PLAIN = [(0, 0)] * 3


def _source(cell: int, choice: tuple[int, int]) -> str:
    which, above = choice
    if cell < 3:
        texts = (_MAKE, _FUNCTIONS, _FIRST)[cell]
        return texts[which % len(texts)]
    text = _STEPS[which].format(here=f"s{cell - 2}", above=f"s{above % (cell - 2)}", last=f"s{cell - 3}")
    return f"{text}\ns{cell - 2}.to('out-{cell}')" if cell % 2 and "raise" not in text else text


def _topology(shell: Shell, sources: list[str]) -> Any:
    """Return the topology after the cells that the kit reports as stale have run again."""
    log = shell.value("builder").declaration_log
    for _ in sources:
        log.settle()
        for name in sorted({each.identity.group for each in log.outdated}):
            shell.run(sources[int(name.removeprefix("cell-"))], name)
    return shell.value("builder").build()


def _outputs(topology: Any) -> dict[str, list[Any]]:
    reads = {topic for source in topology.sources() for topic in source.topics}
    with ks.TopologyTestDriver(topology, {"default.key.serde": "json"}) as driver:
        driver.pipe([record for record in _SAMPLE if record.topic in reads])
        return {
            topic: driver.create_output_topic(topic, key_serde=ks.Serdes.json()).read_records()
            for topic in sorted(driver.produced_topic_names())
            if topic.startswith(("out-", "side"))
        }


@settings(max_examples=25, deadline=None)
@given(st.lists(_choice, min_size=5, max_size=8), st.lists(_run, min_size=1, max_size=8))
@example([*_PLAIN, (2, 0)], [(1, (1, 0))])  # a function is edited
@example([*_PLAIN, (2, 0), (3, 1)], [(1, (2, 0)), (3, (0, 0))])  # and one of its users after it
@example([*_PLAIN, (8, 0), (0, 1), (1, 2)], [(3, (0, 0))])  # another name for a stream becomes a step
@example([*_PLAIN, (1, 0), (4, 1)], [(3, "forget"), (2, (2, 0))])  # a cell is forgotten between others
@example([*_PLAIN, (5, 0), (2, 0), (3, 2)], [(2, None), (4, None), (3, None), (3, None)])  # cells only run again
@example([*_PLAIN, (0, 0), (7, 1), (2, 2)], [(4, None), (0, (1, 0)), (4, (5, 0))])  # a failed cell is fixed
def test_edits_and_reruns_end_where_the_final_notebook_does(
    cells: list[tuple[int, int]], runs: list[tuple[int, Any]]
) -> None:
    """Cells run once in order, then in any order: edited, forgotten, or failing after they declared something.

    The stale cells run again. Then description, name and outputs are those of the final notebook.
    """
    sources = [_source(cell, choice) for cell, choice in enumerate(cells)]
    with loaded_shell() as shell:
        for cell, source in enumerate(sources):
            shell.run(source, f"cell-{cell}")
        forgotten: set[int] = set()
        for number, edit in runs:
            cell = number % len(cells)
            if edit == "forget":
                builder = shell.value("builder")
                builder.forget(*(each for each in builder.declarations() if each.identity.group == f"cell-{cell}"))
                forgotten.add(cell)
                continue
            if edit is not None:
                sources[cell] = _source(cell, edit)
            shell.run(sources[cell], f"cell-{cell}")
            forgotten.discard(cell)
        for cell in sorted(forgotten):
            shell.run(sources[cell], f"cell-{cell}")
        if all(edit is None for _, edit in runs):
            assert not shell.value("builder").declaration_log.outdated
        edited = _topology(shell, sources)
    with loaded_shell() as shell:
        for cell, source in enumerate(sources):
            shell.run(source, f"cell-{cell}")
        final = shell.value("builder").build()
    assert final.describe() == edited.describe()
    assert final.name == edited.name
    assert _outputs(final) == _outputs(edited)
