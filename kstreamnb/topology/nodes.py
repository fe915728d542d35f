"""The frozen nodes of a topology: sources, processors, sinks, and the internal topics between them.

A node names its parents; nothing points downwards. What a node does to a record is its operator, a value that a
task binds; how it came to be (the user's line, the word of the DSL) is kept beside and does not count in equality.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kstreamnb.core.operator import Operator
from kstreamnb.core.origin import Origin
from kstreamnb.core.serdes import name_serdes

TopicName: TypeAlias = "str | Callable[[Any, Any, Any], str]"
"""A topic, or a function ``(key, value, metadata) -> topic`` that chooses one for each record."""


@dataclass(frozen=True)
class Source:
    """A node that takes records from topics, or from every topic whose whole name matches ``pattern``.

    A serde or extractor of None is the application's default. ``is_global``: it feeds a global store.
    """

    name: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    key_serde: Any = None
    value_serde: Any = None
    timestamp_extractor: Any = None
    offset_reset: str | None = None
    is_global: bool = False
    origin: Origin | None = field(default=None, compare=False, repr=False)

    parents = ()
    stores = ()

    def __post_init__(self) -> None:
        name_serdes(self)

    def reads(self, topic: str) -> bool:
        """Whether records of ``topic`` enter here."""
        if self.pattern is not None:
            return re.fullmatch(self.pattern, topic) is not None
        return topic in self.topics


@dataclass(frozen=True)
class ProcessorNode:
    """A node that runs an operator; ``dsl`` is the word of the DSL that made it, None in the Processor API."""

    name: str
    parents: tuple[str, ...]
    operator: Operator = field(repr=False)
    stores: tuple[str, ...] = ()
    is_global: bool = False
    dsl: str | None = field(default=None, compare=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Sink:
    """A node that writes records to a topic; a serde or partitioner of None is the default one."""

    name: str
    parents: tuple[str, ...]
    topic: TopicName
    key_serde: Any = None
    value_serde: Any = None
    partitioner: Any = None
    origin: Origin | None = field(default=None, compare=False, repr=False)

    stores = ()

    def __post_init__(self) -> None:
        name_serdes(self)


Node: TypeAlias = "Source | ProcessorNode | Sink"


@dataclass(frozen=True)
class InternalTopic:
    """A repartition topic: its name without the application's id, and its partitions where the user fixed them.

    With None the number of partitions follows from the topics upstream.
    """

    name: str
    partitions: int | None = None
