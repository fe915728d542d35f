"""Finds functions that read a field that no record of a sample has, without running them.

Only functions on values as they come from a topic are checked: after an operator that changes values the fields are
unknown without a run.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from types import FunctionType

from kstreamnb.core.formatting import join_list
from kstreamnb.core.operator import functions_in
from kstreamnb.core.record import TopicRecord
from kstreamnb.hints import did_you_mean
from kstreamnb.topology.nodes import Node, ProcessorNode, Source, walk
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.issue import Issue

_KEEPS_VALUES = ("filter", "filter_not", "peek", "select_key", "group_by", "repartition", "split", "branch", "merge")


def field_findings(topology: Topology, records: Sequence[TopicRecord]) -> Iterator[Issue]:
    """Yield an issue for every field that a function reads and no record of its topics has."""
    for node in topology.processors():
        topics = _topics_of(topology, node)
        wanted = [field for function in _functions(node) for field in read_fields(function)] if topics else []
        values = [record.value for record in records if record.topic in topics] if wanted else []
        missing = _missing(wanted, values)
        known = dict.fromkeys(str(field) for value in values if value for field in value) if missing else {}
        for field in missing:
            yield _issue(node, field, list(known), sorted(topics))


def _missing(wanted: list[str], values: list[object]) -> list[str]:
    """Return the fields that no value has; none if there are no values, or others than dictionaries."""
    given = [value for value in values if value is not None]
    dicts = [value for value in given if isinstance(value, dict)]
    if not dicts or len(dicts) < len(given):
        return []
    return [field for field in dict.fromkeys(wanted) if not any(field in value for value in dicts)]


def read_fields(function: FunctionType) -> list[str]:
    """Return the fields that a function reads from its value by constant name: ``value["n"]`` and ``value.get("n")``.

    Example:
        >>> read_fields(lambda key, value: value["n"] > 3 and value.get("m") and key["k"])
        ['n', 'm']
    """
    code = function.__code__
    value = code.co_varnames[min(1, code.co_argcount - 1)] if code.co_argcount else None
    steps = [each for each in dis.get_instructions(code) if each.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
    names: dict[str, None] = {}
    for one, two, three in zip(steps, steps[1:], steps[2:], strict=False):
        if not one.opname.startswith("LOAD_FAST") or one.argval != value:
            continue
        is_item = three.opname == "BINARY_SUBSCR" or (three.opname == "BINARY_OP" and three.argrepr == "[]")
        if two.opname == "LOAD_CONST" and is_item and isinstance(two.argval, str):
            names[two.argval] = None
        elif two.opname in ("LOAD_METHOD", "LOAD_ATTR") and two.argval == "get" and isinstance(three.argval, str):
            names[three.argval] = None
    return list(names)


def _issue(node: ProcessorNode, wanted: str, known: list[str], topics: list[str]) -> Issue:
    of = join_list(f'"{topic}"' for topic in topics)
    fact = f'it reads the field "{wanted}", which no record of {of} in the sample has'
    remedy = did_you_mean(wanted, known) or f"the fields are {join_list(known)}"
    return Issue("warning", f'"{node.name}"', fact, remedy, node.origin)


def _topics_of(topology: Topology, node: Node) -> set[str]:
    """Return the topics whose values reach a node unchanged; empty if something on the way may change them."""
    nodes, internal = topology.nodes, topology.internal_topics

    def before(name: str) -> tuple[str, ...]:
        each = nodes[name]
        return () if isinstance(each, Source) and internal.keys().isdisjoint(each.topics) else topology.feeders(name)

    above = [nodes[name] for name in walk(node.parents, before)]
    if any(isinstance(each, ProcessorNode) and each.dsl not in _KEEPS_VALUES for each in above):
        return set()
    return {topic for each in above if isinstance(each, Source) for topic in each.topics if topic not in internal}


def _functions(node: ProcessorNode) -> Iterator[FunctionType]:
    """Yield the functions of an operator that take a value as it arrives, not those of joins and processors."""
    if node.traits.join is None and not node.traits.user_code:
        functions = functions_in(node.operator, of_values=True)
        yield from (each for each in functions if 1 <= each.__code__.co_argcount <= 3)
