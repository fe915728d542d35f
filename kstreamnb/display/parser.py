"""Parses the text that `Topology#describe` prints, of any Java or Python application, into a description.

Names of nodes, topics and stores may contain dots, dashes, brackets or colons, so each line is matched from its fixed
ends inwards. The header may be missing and any indentation is accepted, as in logs and documents.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from kstreamnb.core.arguments import check_arguments
from kstreamnb.errors import TopologyError
from kstreamnb.topology.description import DescribedNode, DescribedSubtopology, TopologyDescription

_HEADER = re.compile(r"(Topologies|Topology|Sub-topologies|Global Stores):?( .+:| none)?")  # of old versions too
_SUBTOPOLOGY = re.compile(r"Sub-topology:\s+(\d+)( for global store \(will not generate tasks\))?")
_SOURCE = re.compile(r"Source:\s+(.+?) \(topics: (.*)\)")
_PROCESSOR = re.compile(r"Processor:\s+(.+?) \(stores: \[(.*)\]\)")
_SINK = re.compile(r"Sink:\s+(.+?) \((topic|extractor class): (.*)\)")
_TOPICS = re.compile(r"\[[\w.\-, ]*\]")  # a pattern may be in brackets too, but then holds other characters
_ARROW = re.compile(r"(-->|<--)\s*(.*)")


def parse_description(text: str) -> TopologyDescription:
    """Parse a printed description; printing the result gives ``text`` again, in Java's layout.

    Args:
        text: what `Topology.describe` or Java's ``TopologyDescription`` prints.

    Raises: TopologyError with the line when it is neither a node nor an edge, or when edges contradict each other.

    Example:
        >>> description = parse_description('''Sub-topology: 0
        ...     Source: in (topics: [orders.v1])
        ...       --> out
        ...     Sink: out (topic: copies)
        ...       <-- in''')
        >>> description.nodes()["in"].topics
        ('orders.v1',)
    """
    check_arguments(parse_description, locals())
    groups: list[tuple[int, bool, list[DescribedNode]]] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or _HEADER.fullmatch(line):
            continue
        if match := _SUBTOPOLOGY.fullmatch(line):
            groups.append((int(match[1]), match[2] is not None, []))
        elif not groups:
            raise _unreadable(number, line, "expected a line such as Sub-topology: 0 first")
        elif (match := _ARROW.fullmatch(line)) and groups[-1][2]:
            ends: Any = {_ARROWS[match[1]]: _names(match[2]) if match[2] != "none" else ()}
            groups[-1][2].append(replace(groups[-1][2].pop(), **ends))
        elif node := _node(line):
            groups[-1][2].append(node)
        else:
            raise _unreadable(number, line, "expected a source, a processor, a sink or an edge")
    subs = [DescribedSubtopology(id_, tuple(nodes), is_global) for id_, is_global, nodes in groups]
    _check_edges(subs)
    return TopologyDescription(tuple(subs))


_ARROWS = {"-->": "successors", "<--": "predecessors"}


def _node(line: str) -> DescribedNode | None:
    if match := _SOURCE.fullmatch(line):
        if _TOPICS.fullmatch(match[2]):
            return DescribedNode("source", match[1], topics=_names(match[2][1:-1]))
        return DescribedNode("source", match[1], pattern=match[2])
    if match := _PROCESSOR.fullmatch(line):
        return DescribedNode("processor", match[1], stores=_names(match[2]))
    if match := _SINK.fullmatch(line):
        topic, extractor = (match[3], None) if match[2] == "topic" else (None, match[3])
        return DescribedNode("sink", match[1], topic=topic, extractor=extractor)
    return None


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(", ")) if text else ()


def _unreadable(number: int, line: str, why: str) -> TopologyError:
    fact = f'line {number} of the description cannot be read: "{line}"'
    return TopologyError(fact, detail=why, hint="paste the complete output of Topology#describe")


def _check_edges(subs: list[DescribedSubtopology]) -> None:
    for sub in subs:
        nodes = {node.name: node for node in sub.nodes}
        for node in sub.nodes:
            for other in (*node.successors, *node.predecessors):
                if other not in nodes:
                    fact = f'node "{node.name}" is connected to "{other}", which is not in sub-topology {sub.id}'
                    raise TopologyError(fact, hint="check that the description is complete")
