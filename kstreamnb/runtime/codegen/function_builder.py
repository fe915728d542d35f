"""`FunctionBuilder`: writes one Python function line by line and compiles it once, when a task is bound.

The nodes between a source and the next stateful node or sink become one function, mostly with the loop over records
around them: a call for each node and record would cost more than the work of most nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, cast

from kstreamnb.core.block import Block
from kstreamnb.core.codec import CopiedValue, SerializedValue
from kstreamnb.core.operator import Process
from kstreamnb.core.record import Change
from kstreamnb.core.serde import Serde
from kstreamnb.runtime.codegen.error_location import ErrorLocations

_RECORD_FUNCTION = "def process(key, value, timestamp, headers):"
_LENT_COPY = "(value if type(value) is CopiedValue else CopiedValue(value)) if flat else "
OWN_NAMES = "own[number]"
"""The line of a shared loop that assigns the objects in which its tasks differ."""


@dataclass
class LocalFacts:
    """Facts about the local names key and value after the last line; they let later lines skip work.

    Attributes:
        kept: names whose recorded form is in ``kept_key`` or ``kept_value``.
        key_serde: the serde that has written and read the key unchanged; it can write the key again.
        inner_window_ms: size of the window in the key whose own key is the local name ``inner``; None if it is not.
        old: the name of the old part of a change whose new part is the value; None if the value is not such a part.
        value_is_count: whether the value is a count, which every long serde keeps as it is.
        wire: the serde that has written the value to the local name ``wire``, unless its type is a plain one.
        counted: how many partitions there are if the function ``find`` returns the one that the key determines;
            otherwise 0.
        lent: the JSON serde of a value that, if the local name ``flat`` is true, is not the task's own: no function may
            get it before it is copied.
    """

    kept: set[str] = field(default_factory=set)
    key_serde: Serde | None = None
    inner_window_ms: int | None = None
    old: str | None = None
    value_is_count: bool = False
    wire: Serde | None = None
    counted: int = 0
    lent: Serde | None = None

    def update(self, block: Block) -> None:
        """Forget the facts that a block invalidates."""
        if block.objects:
            self.forget_value()
        if "key" in block.writes:
            self.kept.discard("key")
            self.key_serde, self.inner_window_ms, self.counted = None, block.window_size_ms, 0
        if "value" in block.writes:
            self.forget_value()
            self.value_is_count, self.wire, self.lent = block.counts, block.wire, None

    def forget_value(self) -> None:
        """Forget the forms of the value: a function may have changed it in place."""
        self.kept.discard("value")
        self.wire = None


class FunctionBuilder:
    """Lines of one function over the local names key, value, timestamp and headers; each line belongs to a node.

    Args:
        node: the node to which the function belongs; it is named after it in tracebacks.
        head: the first lines of the function.
        skip: the statement that ends the work on a record.
        indent: spaces before each line.

    Attributes:
        position: topic, partition and offset of the record; empty if only the task's context knows them.
    """

    def __init__(self, node: str, head: str = _RECORD_FUNCTION, *, skip: str = "return", indent: int = 1) -> None:
        self.lines = head.split("\n")
        self._nodes = [node] * len(self.lines)
        self._skip, self._indent = skip, " " * indent
        self.names: dict[str, object] = {"SerializedValue": SerializedValue, "CopiedValue": CopiedValue}
        self.facts, self.position = LocalFacts(), ""

    def name(self, thing: object, word: str) -> str:
        """Return a name under which lines can use an object; it begins with ``word``."""
        name = f"{word}_{len(self.names)}"
        self.names[name] = thing
        return name

    def add(self, node: str, line: str) -> None:
        """Append one line for a node."""
        self.lines.append(self._indent + line)
        self._nodes.append(node)

    def add_block(self, node: str, block: Block) -> None:
        """Append the lines of an operator."""
        copied = _LENT_COPY * (self.facts.lent is not None) + "value"
        facts = {"copied": copied, "counted": self.facts.value_is_count}
        if not block.only_reads:
            self.own_value(node)
        if block.of_parts is None:
            self.join_parts(node)
        names, old = {word: self.name(thing, word) for word, thing in block.objects.items()}, self.facts.old
        for line in block.render(names.__getitem__, self._skip, self.position, old, **facts):
            self.add(node, line)
        if old is None or block.of_parts:
            self.facts.update(block)
        self.facts.old = block.old

    def own_value(self, node: str) -> None:
        """Append the line that copies the value if it is lent."""
        if self.facts.lent is not None:
            self.add(node, "if flat: value = value.copy()")
            self.facts.lent = None

    def join_parts(self, node: str) -> None:
        """Append the line that makes a change of its parts, if the value is one of them."""
        facts = self.facts
        if facts.old is not None:
            self.own_value(node)
            make, kind = self.name(tuple.__new__, "make"), self.name(Change, "Change")
            self.add(node, f"value = {make}({kind}, (value, {facts.old}, True))")
            facts.old, facts.value_is_count, facts.wire = None, False, None

    def call(self, node: str, process: Process, word: str) -> None:
        """Append a call of another function of the task."""
        self.own_value(node)
        self.join_parts(node)
        self.add(node, f"{self.name(process, word)}(key, value, timestamp, headers)")
        self.facts.forget_value()

    def end(self, line: str) -> None:
        """Append a line of the function itself, after the loop over records."""
        self.lines.append(" " + line)
        self._nodes.append(self._nodes[0])

    def compile(self, *locations: ErrorLocations) -> Callable[..., Any]:
        """Return the function, whose failing nodes these locations find."""
        if len(self.lines) == 1:
            self.add(self._nodes[0], "pass")
        node, source = self._nodes[0], "\n".join(self.lines)
        code = _compiled(source)
        # Each node has a separate code object: `ErrorLocations` recognizes failing nodes by their code.
        code = code.replace(co_name=node, co_qualname=node, co_filename=f"<kstreamnb {node}>")
        for each in locations:
            each.add(code, tuple(self._nodes), source)
        return FunctionType(code, cast("dict[str, Any]", self.names), node)


@lru_cache(maxsize=512)  # tasks of one sub-topology have the same source
def _compiled(source: str) -> CodeType:
    module = compile(source, "<kstreamnb>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))
