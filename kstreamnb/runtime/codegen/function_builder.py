"""Fused chains: the nodes between a source and the next stateful node or sink, as one function, with its loop.

The function is written as Python text, one line or more for each node, and compiled once when a task is bound. Where
nothing has to happen between two records the loop over them is part of it: the check for due punctuators stands at the
head of the loop, for the record before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from kstreamnb.core.codec import SerializedValue, decoder, encoder
from kstreamnb.core.operator import FusedStep, Process
from kstreamnb.core.record import Change, Windowed
from kstreamnb.core.serde import Serde, StringSerde
from kstreamnb.core.serdes import JsonSerde, TimeWindowedSerde, WindowedSerde
from kstreamnb.errors import EngineError
from kstreamnb.runtime.codegen.error_location import ErrorLocations
from kstreamnb.runtime.context.task_context import Recorder

_ASSIGNS = re.compile(r"^\s*([\w, ]+?) =[^=]", re.MULTILINE)
_COUNT_BYTES = 8
_REBINDS_KEY = re.compile(r"\bkey\b[^()=\]]*=[^=]|\bfor\b.*\bkey\b")
_ONE_RECORD = "def chain(key, value, timestamp, headers):"


class FunctionBuilder:
    """Lines of one function over the local names key, value, timestamp and headers, each belonging to a node.

    ``head`` begins the function; ``leave`` is the word that ends the work on a record. ``inner_of``: where the local
    name inner holds the key within a windowed key, the size of those windows. ``counted``: the value is a count.
    """

    def __init__(self, node: str, head: str = _ONE_RECORD, *, leave: str = "return", indent: int = 1) -> None:
        self._lines = head.split("\n")
        self._nodes = [node] * len(self._lines)
        self._leave, self._indent = leave, " " * indent
        self.names: dict[str, Any] = {"SerializedValue": SerializedValue}
        self.inner_of: int | None = None
        self.kept: set[str] = set()
        self.read_key: Serde | None = None  # the serde whose way through a topic the key has behind it
        self.counted = False

    def name(self, thing: Any) -> str:
        """A name under which the lines can use ``thing``."""
        name = f"f{len(self.names)}"
        self.names[name] = thing
        return name

    def add(self, node: str, line: str) -> None:
        """Append one line for a node."""
        self._lines.append(self._indent + line)
        self._nodes.append(node)

    def step(self, node: str, step: FusedStep) -> None:
        """Append an operator's own lines."""
        text = step.line
        named = step.names if step.function is None else (("f", step.function), *step.names)
        for word, thing in named:
            text = text.replace(f"{{{word}}}", self.name(thing))
        if self._leave != "return":
            text = re.sub(r"\breturn\b", self._leave, text)
        if named:
            self.kept.discard("value")  # a function may have changed it
        for line in text.split("\n"):
            self.add(node, line)
            if _REBINDS_KEY.search(line):
                self.kept.discard("key")
                self.read_key = None
        changed = {name for names in _ASSIGNS.findall(text) for name in names.split(", ")}
        if "key" in changed:
            self.inner_of = step.windows_ms
        if "value" in changed:
            self.counted = step.counts
            self.kept.discard("value")

    def call(self, node: str, process: Process) -> None:
        """Append a call of another bound function."""
        self.add(node, f"{self.name(process)}(key, value, timestamp, headers)")
        self.kept.discard("value")

    def end(self, line: str) -> None:
        """Append a line of the function itself, after all records."""
        self._lines.append(" " + line)
        self._nodes.append(self._nodes[0])

    def compile(self, places: ErrorLocations) -> Any:
        """The function."""
        if len(self._lines) == 1:
            self.add(self._nodes[0], "pass")
        node = self._nodes[0]
        module = _parsed("\n".join(self._lines))
        code = next(constant for constant in module.co_consts if isinstance(constant, CodeType))
        code = code.replace(co_name=node, co_qualname=node, co_filename=f"<kstreamnb {node}>")
        places.add(code, tuple(self._nodes))
        return FunctionType(code, self.names, node)


@lru_cache(maxsize=512)
def _parsed(text: str) -> CodeType:
    return compile(text, "<kstreamnb>", "exec")


def decoding(chain: FunctionBuilder, serde: Serde, name: str) -> str:
    """An expression for the value of a local name in wire form."""
    return f"{chain.name(decoder(serde))}({name}) if type({name}) is SerializedValue else {name}"


def encoding(chain: FunctionBuilder, serde: Serde, name: str) -> str:
    """An expression for the wire form of a local name; the commonest kinds of value need no call."""
    return _unless_kept(chain, serde, name, encoder(serde))


def isolating(chain: FunctionBuilder, serde: Serde, name: str) -> str:
    """An expression for what a local name would be after a way through a topic."""
    write, read, copy_value = encoder(serde), decoder(serde), serde.copy_value
    return _unless_kept(chain, serde, name, lambda value: copy_value(value) or read(write(value)))


def _unless_kept(chain: FunctionBuilder, serde: Serde, name: str, slow: Callable[[Any], Any]) -> str:
    """The name itself where its value is in wire form already, else a call of ``slow``."""
    if name == "value" and chain.counted and int in serde.plain and serde.width in (None, _COUNT_BYTES):
        return name
    if name == "key" and type(serde) is StringSerde and serde == chain.read_key:
        return name  # text that was written once can be written again
    call, kept = f"{chain.name(slow)}({name})", _kept(chain, serde, name)
    return call if kept is None else f"{name} if {kept} else {call}"


def _kept(chain: FunctionBuilder, serde: Serde, name: str) -> str | None:
    """A quick test that says yes only for values which the serde keeps as they are; None where there is none."""
    plain: frozenset[type] = serde.plain
    keeps: Callable[..., Any] = type(serde).keeps
    if keeps is Serde.keeps and plain:
        return f"type({name}) in {chain.name(plain)}"
    if plain == {int} and serde.width is not None:
        bound = 1 << 8 * serde.width - 1
        return f"type({name}) is int and {-bound} <= {name} < {bound}"
    if isinstance(serde, StringSerde):
        return f"type({name}) is str and {name}.isascii()"
    if isinstance(serde, JsonSerde):
        return f"(type({name}) is int or type({name}) is str and {name}.isascii())"
    size = serde.size_ms if isinstance(serde, TimeWindowedSerde) else None
    if size is not None and name == "key" and size == chain.inner_of and isinstance(serde, WindowedSerde):
        return None if serde.inner is None else _kept(chain, serde.inner, "inner")
    if isinstance(serde, WindowedSerde) and serde.inner is not None:
        inner = _kept(chain, serde.inner, f"{name}[0]")
        if inner is not None and (size is not None or not isinstance(serde, TimeWindowedSerde)):
            width = f"{name}[2] - {name}[1] == {size} and " if size is not None else ""
            return f"type({name}) is {chain.name(Windowed)} and {width}{inner}"
    return None


Ending = Callable[[FunctionBuilder], list[str]]
"""Lines for what is noted at the end of a record: cells that changed, and a commit."""

Loop = Callable[[Any, int], Any]
"""``loop(iterator, stream time) -> stream time``; for records in turn ``loop(None, stream time)``, a coroutine."""

WIRE_RECORDS = "offset, timestamp, key, value, headers"
TOPIC_RECORDS = "_, partition, _, timestamp, key, value, headers"
IN_TURN = "_, _, _, timestamp, key, value, headers"
"""Records of topics that are sent one by one, in turn with other partitions."""


def loop_chain(
    source: str,
    shape: str,
    serdes: tuple[Serde, Serde],
    stream_time: list[int],
    due: list[int],
    punctuate: Callable[[int], None],
    marks: tuple[list[int], list[Any]] | None,
    ending: Ending | None,
    first: list[int] | None,
) -> FunctionBuilder:
    """The beginning of a loop over records of a shape; what is done with each is to be appended.

    ``marks`` is a list that gets, before each record, the length of another one. ``first`` holds the offset of the
    first record, where offsets are to be counted.
    """
    begun = ("" if ending is None else " begun = False\n") + ("" if first is None else " offset = first[0] - 1\n")
    each = "while True:" if shape == IN_TURN else f"for {shape} in records:"
    chain = FunctionBuilder(source, f"def loop(records, now):\n{begun} {each}", leave="continue", indent=2)
    names = {"stream_time": stream_time, "due": due, "punctuate": punctuate, "first": first}
    chain.names.update(names, negative=_negative, misplaced=_misplaced)
    lines = ["if now >= due[0]: punctuate(now)"]
    if ending is not None:
        lines += ["if begun:", *(" " + line for line in ending(chain)), "begun = True"]
    if shape == IN_TURN:
        lines += [f"{shape} = yield", "now = stream_time[0]"]  # other partitions may have moved it
    if first is not None:
        lines.append("offset += 1")
    if marks is not None:
        lines.append(f"{chain.name(marks[0].append)}(len({chain.name(marks[1])}))")
    if shape == TOPIC_RECORDS:
        lines.append("if partition > 0: misplaced(partition)")
    lines += ["if timestamp > now: now = stream_time[0] = timestamp", "elif timestamp < 0: negative()"]
    form = decoding if shape == WIRE_RECORDS else isolating
    lines += [f"{name} = {form(chain, serde, name)}" for name, serde in zip(("key", "value"), serdes, strict=True)]
    for line in lines:
        chain.add(source, line)
    chain.read_key = serdes[0] if form is isolating else None
    return chain


def note_hop(chain: FunctionBuilder, recorder: Recorder, task: str, parent: str, child: str) -> None:
    """A node hands the record to a child."""
    number = recorder.number("forwarded", task, parent, child)
    _keep(chain, recorder, parent, recorder.atoms)
    _note(chain, recorder, parent, f"{number}, kept_key, kept_value, timestamp, headers")


def note_consumed(
    chain: FunctionBuilder, recorder: Recorder, code: tuple[str, str, str, int], lasting: Iterable[type] = ()
) -> None:
    """The record was taken from a partition; ``code`` is task, source, topic and partition.

    Values of the types ``lasting`` change no more than those that the recorder knows: the serdes say so.
    """
    task, source, topic, partition = code
    number = recorder.number("consumed", task, source, (topic, partition))
    _keep(chain, recorder, source, recorder.atoms.union(lasting))
    _note(chain, recorder, source, f"{number}, offset, timestamp, kept_key, kept_value, headers")


def note_produced(chain: FunctionBuilder, recorder: Recorder, task: str, sink: str, topic: str, partition: str) -> None:
    """A plain sink wrote the record, whose key and value are in wire form."""
    number = recorder.number("produced", task, "", topic)
    _note(chain, recorder, sink, f"{number}, {partition}, timestamp, key, value, headers")


def _note(chain: FunctionBuilder, recorder: Recorder, node: str, entry: str) -> None:
    chain.add(node, f"{chain.name(recorder.log.append)}(({entry}))")


def _keep(chain: FunctionBuilder, recorder: Recorder, node: str, atoms: frozenset[type]) -> None:
    """Lines that leave key and value, as they are to be kept, in local names; nothing where they are there already."""
    lasting, keep = chain.name(atoms), chain.name(recorder.keep)
    for name, kind in (("key", Windowed), ("value", Change)):
        if name not in chain.kept:
            made_of = f"type({name}) is {chain.name(kind)} and type({name}[0]) in {lasting}"
            more = " and value[1] is None" if kind is Change else ""
            test = f"type({name}) in {lasting} or {made_of}{more}"
            chain.add(node, f"kept_{name} = {name} if {test} else {keep}({name})")
            chain.kept.add(name)


class NegativeTimestamp(Exception):
    """The record in hand has a negative timestamp."""


def _negative() -> None:
    raise NegativeTimestamp


def _misplaced(partition: int) -> None:
    raise EngineError(f"the topic has no partition {partition}", detail="it has 1")
