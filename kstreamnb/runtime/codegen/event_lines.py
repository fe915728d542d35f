"""Lines of generated functions that record what happens: records taken, forwarded and produced, and state changes."""

from __future__ import annotations

from collections.abc import Iterable

from kstreamnb.core.record import Change, Windowed
from kstreamnb.runtime.codegen.function_builder import FunctionBuilder
from kstreamnb.runtime.context.task_context import Recorder, StateVarWatch


def add_forwarded(builder: FunctionBuilder, recorder: Recorder, task: str, parent: str, child: str) -> None:
    """Record that a node forwards the record to a child."""
    number = recorder.number("forwarded", task, parent, child)
    _add_kept(builder, recorder, parent, recorder.atoms)
    _add_entry(builder, recorder, parent, f"{number}, kept_key, kept_value, timestamp, headers")


def add_consumed(
    builder: FunctionBuilder, recorder: Recorder, code: tuple[str, str, str, int], lasting: Iterable[type] = ()
) -> None:
    """Record that a source took the record.

    Args:
        builder: the function.
        recorder: gets the entries.
        code: task, source, topic and partition.
        lasting: immutable types of values, besides those that the recorder knows.
    """
    task, source, topic, partition = code
    number = recorder.number("consumed", task, source, (topic, partition))
    _add_kept(builder, recorder, source, recorder.atoms.union(lasting))
    _add_entry(builder, recorder, source, f"{number}, offset, timestamp, kept_key, kept_value, headers")


def add_produced(builder: FunctionBuilder, recorder: Recorder, task: str, sink: str, topic: str, where: str) -> None:
    """Record that a sink wrote the record, whose key and value are serialized, to partition ``where``."""
    number = recorder.number("produced", task, "", topic)
    _add_entry(builder, recorder, sink, f"{number}, {where}, timestamp, key, value, headers")


def end_lines(
    builder: FunctionBuilder, recorder: Recorder, watch: StateVarWatch, state_vars: object, committed: str
) -> list[str]:
    """Return lines for the end of a record: state that changed outside of stores, and a commit that flushes nothing.

    Args:
        builder: the function.
        recorder: gets the entries.
        watch: knows the watched state and what was last seen of it.
        state_vars: all state of the task; when it grows, ``watch`` looks at everything.
        committed: the id of the task if it commits after each record, else "".
    """
    record = builder.name(recorder.log.append, "record")
    known = len(watch.watched) + 1  # stream time is not watched
    lines = [f"if len({builder.name(state_vars, 'state_vars')}) != {known}: {builder.name(watch, 'watch')}()"]
    for watched in watch.watched:
        state_var, seen = builder.name(watched[0], "state_var"), builder.name(watched, "seen")
        # Identity first: comparing equal but distinct contents would be slow for large values.
        lines.append(f"if {state_var}[0] is not {seen}[1] and {state_var}[0] != {seen}[1]:")
        lines += [f" {record}(({watched[2]}, {seen}[1], {state_var}[0]))", f" {seen}[1] = {state_var}[0]"]
    if committed:
        lines.append(f"{record}(({recorder.number('committed', committed)},))")
    return lines


def _add_entry(builder: FunctionBuilder, recorder: Recorder, node: str, entry: str) -> None:
    builder.add(node, f"{builder.name(recorder.log.append, 'record')}(({entry}))")


def _add_kept(builder: FunctionBuilder, recorder: Recorder, node: str, atoms: frozenset[type]) -> None:
    """Put key and value, as they are recorded, into the local names kept_key and kept_value unless they are there."""
    lasting, keep = builder.name(atoms, "lasting"), builder.name(recorder.keep, "keep")
    for name, kind in (("key", Windowed), ("value", Change)):
        if name not in builder.facts.kept:
            made_of = f"type({name}) is {builder.name(kind, kind.__name__)} and type({name}[0]) in {lasting}"
            more = " and value[1] is None" if kind is Change else ""
            test = f"type({name}) in {lasting} or {made_of}{more}"
            builder.add(node, f"kept_{name} = {name} if {test} else {keep}({name})")
            builder.facts.kept.add(name)
