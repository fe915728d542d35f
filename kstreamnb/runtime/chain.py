"""Fused chains: the nodes between a source and the next stateful node or sink, as one function.

The function is written as Python text, one line or more for each node, and compiled once when a task is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from kstreamnb.core.operator import FusedStep, Process
from kstreamnb.core.serde import Serde
from kstreamnb.core.serdes_json import JsonSerde
from kstreamnb.core.serdes_scalar import StringSerde
from kstreamnb.core.wire import Encoded, decoder, encoder
from kstreamnb.runtime.failures import Places

__all__ = ["Chain", "decoding", "encoding", "row_maker"]

_HEAD = "def chain(key, value, timestamp, headers):"


class Chain:
    """Lines of one function ``(key, value, timestamp, headers)``, each belonging to a node."""

    def __init__(self, node: str) -> None:
        self._lines: list[str] = [_HEAD]
        self._nodes: list[str] = [node]
        self.names: dict[str, Any] = {"Encoded": Encoded}

    def name(self, thing: Any) -> str:
        """A name under which the lines can use ``thing``."""
        name = f"f{len(self.names)}"
        self.names[name] = thing
        return name

    def add(self, node: str, line: str) -> None:
        """Append one line for a node."""
        self._lines.append(" " + line)
        self._nodes.append(node)

    def step(self, node: str, step: FusedStep) -> None:
        """Append an operator's own line."""
        line = step.line
        if step.function is not None:
            line = line.replace("{f}", self.name(step.function))
        self.add(node, line)

    def call(self, node: str, process: Process) -> None:
        """Append a call of another bound function."""
        self.add(node, f"{self.name(process)}(key, value, timestamp, headers)")

    def compile(self, places: Places) -> Process:
        """The function."""
        if len(self._lines) == 1:
            self.add(self._nodes[0], "pass")
        code = _compiled("\n".join(self._lines), self._nodes[0])
        places.add(code, tuple(self._nodes))
        return FunctionType(code, self.names, self._nodes[0])


def _compiled(text: str, node: str) -> CodeType:
    module = _parsed(text)
    code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
    return code.replace(co_name=node, co_qualname=node, co_filename=f"<kstreamnb {node}>")


@lru_cache(maxsize=512)
def _parsed(text: str) -> CodeType:
    return compile(text, "<kstreamnb>", "exec")


def row_maker(key_serde: Serde, value_serde: Serde) -> Callable[[Any, int], list[Any]]:
    """``rows(records, first offset)``: records of a topic in the wire form that a task takes, in one sweep."""
    chain = Chain("rows")
    key, value = encoding(chain, key_serde, "key"), encoding(chain, value_serde, "value")
    row = f"(offset, timestamp, {key}, {value}, headers)"
    each = "offset, (_, _, _, timestamp, key, value, headers) in enumerate(records, first)"
    code = _compiled(f"def rows(records, first):\n return [{row} for {each}]", "rows")
    return FunctionType(code, chain.names, "rows")


def decoding(chain: Chain, serde: Serde, name: str) -> str:
    """An expression for the value of a local name in wire form."""
    return f"{chain.name(decoder(serde))}({name}) if type({name}) is Encoded else {name}"


def encoding(chain: Chain, serde: Serde, name: str) -> str:
    """An expression for the wire form of a local name; the commonest kinds of value need no call."""
    slow = f"{chain.name(encoder(serde))}({name})"
    plain: frozenset[type] = serde.plain
    keeps: Callable[..., Any] = type(serde).keeps
    if keeps is Serde.keeps and plain:
        return f"{name} if type({name}) in {chain.name(plain)} else {slow}"
    if plain == {int} and serde.width is not None:
        bound = 1 << 8 * serde.width - 1
        return f"{name} if type({name}) is int and {-bound} <= {name} < {bound} else {slow}"
    if isinstance(serde, StringSerde):
        return f"{name} if type({name}) is str and {name}.isascii() else {slow}"
    if isinstance(serde, JsonSerde):
        return f"{name} if type({name}) is int or type({name}) is str and {name}.isascii() else {slow}"
    return slow
