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
from kstreamnb.core.serde import Serde
from kstreamnb.runtime.codegen.error_location import ErrorLocations

_RECORD_FUNCTION = "def process(key, value, timestamp, headers):"


@dataclass
class LocalFacts:
    """Facts about the local names key and value after the last line; they let later lines skip work.

    Attributes:
        kept: names whose recorded form is in ``kept_key`` or ``kept_value``.
        key_serde: the serde that has written and read the key unchanged; it can write the key again.
        inner_window_ms: size of the window in the key whose own key is the local name ``inner``; None if it is not.
        value_is_count: whether the value is a count, which every long serde keeps as it is.
        wire: the serde that has written the value to the local name ``wire``, unless its type is a plain one.
    """

    kept: set[str] = field(default_factory=set)
    key_serde: Serde | None = None
    inner_window_ms: int | None = None
    value_is_count: bool = False
    wire: Serde | None = None

    def update(self, block: Block) -> None:
        """Forget the facts that a block invalidates."""
        if block.objects:
            self.forget_value()
        if "key" in block.writes:
            self.kept.discard("key")
            self.key_serde, self.inner_window_ms = None, block.window_size_ms
        if "value" in block.writes:
            self.forget_value()
            self.value_is_count, self.wire = block.counts, block.wire

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
    """

    def __init__(self, node: str, head: str = _RECORD_FUNCTION, *, skip: str = "return", indent: int = 1) -> None:
        self._lines = head.split("\n")
        self._nodes = [node] * len(self._lines)
        self._skip, self._indent = skip, " " * indent
        self.names: dict[str, object] = {"SerializedValue": SerializedValue, "CopiedValue": CopiedValue}
        self.facts = LocalFacts()

    def name(self, thing: object, word: str) -> str:
        """Return a name under which lines can use an object; it begins with ``word``."""
        name = f"{word}_{len(self.names)}"
        self.names[name] = thing
        return name

    def add(self, node: str, line: str) -> None:
        """Append one line for a node."""
        self._lines.append(self._indent + line)
        self._nodes.append(node)

    def add_block(self, node: str, block: Block) -> None:
        """Append the lines of an operator."""
        last, copied, copy = max(at for at, line in enumerate(self._lines) if "value" in line), "None", " value.copy()"
        if self._lines[last].startswith(f"{self._indent}value = ") and copy in self._lines[last]:
            if block.ignores_value:  # no other line reads the copy
                self._lines[last] = self._lines[last].replace(copy, " value")
            elif "{copied}" in block.lines:
                self._lines[last] = self._lines[last].replace(copy, f" (copy :={copy})")
                self._lines.insert(1, " copy = CopiedValue")
                self._nodes.insert(1, self._nodes[0])
                copied = "CopiedValue(value) if value is copy else None"
        names = {word: self.name(thing, word) for word, thing in block.objects.items()}
        for line in block.render(names.__getitem__, self._skip, copied):
            self.add(node, line)
        self.facts.update(block)

    def call(self, node: str, process: Process, word: str) -> None:
        """Append a call of another function of the task."""
        self.add(node, f"{self.name(process, word)}(key, value, timestamp, headers)")
        self.facts.forget_value()

    def end(self, line: str) -> None:
        """Append a line of the function itself, after the loop over records."""
        self._lines.append(" " + line)
        self._nodes.append(self._nodes[0])

    def compile(self, locations: ErrorLocations) -> Callable[..., Any]:
        """Return the function."""
        if len(self._lines) == 1:
            self.add(self._nodes[0], "pass")
        node, source = self._nodes[0], "\n".join(self._lines)
        code = _compiled(source)
        # Each node has a separate code object: `ErrorLocations` recognises failing nodes by their code.
        code = code.replace(co_name=node, co_qualname=node, co_filename=f"<kstreamnb {node}>")
        locations.add(code, tuple(self._nodes), source)
        return FunctionType(code, cast("dict[str, Any]", self.names), node)


@lru_cache(maxsize=512)  # tasks of one sub-topology have the same source
def _compiled(source: str) -> CodeType:
    module = compile(source, "<kstreamnb>", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))
