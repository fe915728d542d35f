"""Stateless operators, one record at a time: filter, map, peek, split, merge, table to stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kstreamnb.core.block import Block
from kstreamnb.core.operator import BindContext, Forward, Operator, Process, Stateless
from kstreamnb.core.record import Headers
from kstreamnb.core.signatures import only_reads
from kstreamnb.core.traits import Condition, KeyValueMapper, OperatorTraits, ValueMapper
from kstreamnb.errors import ProcessingError


@dataclass(frozen=True)
class Filter(Stateless):
    """Forwards the records for which ``predicate(key, value)`` holds, or with ``negate`` the others.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; key, time and headers kept; nulls are shown to the predicate.
    Source: Kafka Streams `KStream#filter`, `KStream#filterNot`.
    """

    predicate: KeyValueMapper
    negate: bool = False

    @property
    def traits(self) -> OperatorTraits:
        """One predicate decides about every record."""
        return OperatorTraits("none", condition=Condition(self.predicate, self.negate))

    def block(self) -> Block:
        """Skip records that fail the test."""
        unless = "" if self.negate else "not "
        line, reads = f"if {unless}{{predicate}}(key, value): {{skip}}", only_reads(self.predicate, 1)
        return Block(line, objects={"predicate": self.predicate}, only_reads=reads)


def check_pair(method: str, pair: object) -> None:
    """Raise ProcessingError unless a mapper returned a pair; text of two characters would be unpacked as one."""
    if isinstance(pair, tuple) and len(pair) == 2:
        return
    hint = f"did you mean {method}_values? It keeps the key" if method != "group_by" else "return (key, value)"
    if isinstance(pair, list) and len(pair) == 2:
        hint = "return a tuple: (key, value)"
    what = "yield (key, value) pairs" if method == "flat_map" else "return (key, value)"
    raise ProcessingError(f"{method} must {what}, got {pair!r:.100}", hint=hint)


def _ordered(method: str, values: Iterable[Any]) -> Iterable[Any]:
    """Return a mapper's values; raise ProcessingError for a set, whose order changes from process to process."""
    if isinstance(values, set | frozenset):
        raise ProcessingError(f"{method} must return a list, got a set, which has no order", hint="return sorted(…)")
    return values


@dataclass(frozen=True)
class Map(Stateless):
    """Forwards the pair ``mapper(key, value)`` in place of the record.

    Shape: stream[K, V] -> stream[K2, V2]; 1 -> 1; key changed; time and headers kept.
    Source: Kafka Streams `KStream#map`.
    """

    mapper: Callable[[Any, Any], tuple[Any, Any]]

    traits = OperatorTraits("none", changes_key=True, changes_value=True)

    def block(self) -> Block:
        """Replace key and value."""
        lines = """\
pair = {mapper}(key, value)
if type(pair) is not tuple or len(pair) != 2: {check}("map", pair)
key, value = pair"""
        return Block(lines, {"key", "value"}, {"mapper": self.mapper, "check": check_pair})


@dataclass(frozen=True)
class MapValues(Stateless):
    """Forwards ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``, in place of the value.

    Shape: stream[K, V] -> stream[K, V2]; 1 -> 1; key, time and headers kept; a null value is shown to the mapper.
    Source: Kafka Streams `KStream#mapValues`.
    """

    mapper: ValueMapper
    with_key: bool = False

    traits = OperatorTraits("none", changes_value=True)

    def block(self) -> Block:
        """Replace the value."""
        arguments = "key, value" if self.with_key else "value"
        return Block(f"value = {{mapper}}({arguments})", {"value"}, {"mapper": self.mapper})


@dataclass(frozen=True)
class SelectKey(Stateless):
    """Forwards the record under the key ``mapper(key, value)``.

    Shape: stream[K, V] -> stream[K2, V]; 1 -> 1; key changed; value, time and headers kept.
    Source: Kafka Streams `KStream#selectKey`.
    """

    mapper: KeyValueMapper

    traits = OperatorTraits("none", changes_key=True)

    def block(self) -> Block:
        """Replace the key."""
        line, reads = "key = {mapper}(key, value)", only_reads(self.mapper, 1)
        return Block(line, {"key"}, {"mapper": self.mapper}, only_reads=reads)


@dataclass(frozen=True)
class FlatMap(Operator):
    """Forwards every pair of ``mapper(key, value)``, in its order.

    Shape: stream[K, V] -> stream[K2, V2]; 1 -> 0..n; key changed; time and headers kept.
    Source: Kafka Streams `KStream#flatMap`.
    """

    mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]

    traits = OperatorTraits("none", changes_key=True, changes_value=True)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper = self.mapper

        def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
            for pair in _ordered("flat_map", mapper(key, value)):
                if type(pair) is not tuple or len(pair) != 2:
                    check_pair("flat_map", pair)
                forward(pair[0], pair[1], timestamp, headers)

        return process


@dataclass(frozen=True)
class FlatMapValues(Operator):
    """Forwards a record for every value of ``mapper(value)``, or ``mapper(key, value)`` when ``with_key``.

    Shape: stream[K, V] -> stream[K, V2]; 1 -> 0..n; key, time and headers kept.
    Source: Kafka Streams `KStream#flatMapValues`.
    """

    mapper: Callable[..., Iterable[Any]]
    with_key: bool = False

    traits = OperatorTraits("none", changes_value=True)

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        mapper, with_key = self.mapper, self.with_key

        def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
            new_values = mapper(key, value) if with_key else mapper(value)
            if isinstance(new_values, str | bytes):
                fact = f"flat_map_values must return a list of values, got {new_values!r:.100}"
                hint = "did you mean v.split()? Text would be split into its letters; return [v] to keep it whole"
                raise ProcessingError(fact, hint=hint)
            for new_value in _ordered("flat_map_values", new_values):
                forward(key, new_value, timestamp, headers)

        return process


@dataclass(frozen=True)
class Peek(Stateless):
    """Calls ``action(key, value)`` and then forwards the record unchanged.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 1; everything kept.
    Source: Kafka Streams `KStream#peek`.
    """

    action: Callable[[Any, Any], object]
    traits = OperatorTraits("none", effect=True)

    def block(self) -> Block:
        """Call the action."""
        return Block("{action}(key, value)", objects={"action": self.action})


@dataclass(frozen=True)
class Foreach(Peek):
    """Calls ``action(key, value)``; the stream ends here.

    Shape: stream[K, V] -> nothing; 1 -> 0.
    Source: Kafka Streams `KStream#foreach`.
    """

    def block(self) -> Block:
        """Call the action and end the stream."""
        return Block("{action}(key, value)\n{skip}", objects={"action": self.action})


@dataclass(frozen=True)
class Print(Stateless):
    """Writes ``[label]: key, value`` for each record; the stream ends here.

    ``mapper(key, value)`` formats a record as text; ``write`` takes the line without its end.

    Shape: stream[K, V] -> text; 1 -> 0.
    Source: Kafka Streams `KStream#print`, `Printed`.
    """

    label: str
    write: Callable[[str], object] = print
    mapper: KeyValueMapper | None = None
    traits = OperatorTraits("none", effect=True)

    def block(self) -> Block:
        """Write a line and end the stream."""
        write, text, prefix = self.write, self.mapper or "{}, {}".format, f"[{self.label}]: "
        objects = {"print": lambda key, value: write(f"{prefix}{text(key, value)}")}
        return Block("{print}(key, value)\n{skip}", objects=objects)


@dataclass(frozen=True)
class Branch(Operator):
    """Forwards each record to the child of the first predicate that holds, otherwise to the default child.

    ``children`` names one node for each predicate and then the default node, None if there is none: unmatched records
    are then dropped silently.

    Shape: stream[K, V] -> n streams[K, V]; 1 -> 0..1; everything kept.
    Source: Kafka Streams `KStream#split`, `BranchedKStream`.
    """

    predicates: tuple[KeyValueMapper, ...]
    children: tuple[str | None, ...]

    @property
    def traits(self) -> OperatorTraits:
        """One predicate for each branch but the default one."""
        pairs = zip(self.predicates, self.children, strict=False)
        return OperatorTraits("none", branches=tuple(Condition(predicate, child=child) for predicate, child in pairs))

    def bind(self, context: BindContext, forward: Forward) -> Process:
        """Build the closure of one task."""
        targets = [_nowhere if child is None else context.forward_to(child) for child in self.children]
        branches, default = list(zip(self.predicates, targets, strict=False)), targets[-1]

        def process(key: object, value: object, timestamp: int, headers: Headers) -> None:
            for predicate, target in branches:
                if predicate(key, value):
                    target(key, value, timestamp, headers)
                    return
            default(key, value, timestamp, headers)

        return process


def _nowhere(key: object, value: object, timestamp: int, headers: Headers) -> None:
    """Discard a record of a branch without children."""


@dataclass(frozen=True)
class PassThrough(Stateless):
    """Forwards its input: the node of a merge or a cogroup, or a branch of a split.

    Shape: any -> the same; 1 -> 1; everything kept.
    Source: Kafka Streams `KStream#merge`, `KStream#split`, `CogroupedKStream#aggregate`.
    """

    def block(self) -> Block:
        """Do nothing."""
        return Block("pass")


@dataclass(frozen=True)
class RepartitionFilter(Stateless):
    """Keeps records without a key out of a repartition topic, silently: they cannot be grouped or joined.

    Shape: stream[K, V] -> stream[K, V]; 1 -> 0..1; everything kept.
    Source: Kafka Streams, the ``-filter`` node before a repartition sink.
    """

    def block(self) -> Block:
        """Skip records without a key."""
        return Block("if key is None: {skip}", only_reads=True)


@dataclass(frozen=True)
class TableToStream(Stateless):
    """Forwards the new value of each change; a deleted row is a record with a null value.

    Shape: table[K, V] -> stream[K, V]; 1 -> 1; key, time and headers kept.
    Source: Kafka Streams `KTable#toStream`.
    """

    def block(self) -> Block:
        """Replace a change by its new value, which may be there already."""
        return Block("value = value[0]", {"value"}, of_parts="")
