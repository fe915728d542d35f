"""How a task tells what happens: short tuples appended to a log, by lines within its fused chains where that can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kstreamnb.core.record import Change, Windowed

if TYPE_CHECKING:  # chains stand above the scope, which holds a recorder
    from kstreamnb.runtime.chain import Chain


class Recorder(Protocol):
    """What keeps or passes on what happens.

    An entry is a tuple that begins with a number for its kind, task, node and so on. ``keep`` makes a value one that
    will not change; those of the types in ``atoms`` need no call.
    """

    log: list[tuple[Any, ...]]
    keep: Callable[[Any], Any]
    atoms: frozenset[type]

    def number(self, kind: str, task: str, node: str = "", other: Any = None) -> int:
        """The number for entries of a kind about a node."""

    def add(self, kind: str, task: str, node: str, other: Any, *rest: Any) -> None:
        """Append one entry."""

    @property
    def reorders(self) -> bool:
        """Whether steps may come task by task, to be put in order when all are there."""

    def taken_since(self, place: int) -> list[int]:
        """Where in the log records were taken, from a place on."""

    def journal(self, task: str, store: Any, *, keeps: bool) -> list[Any]:
        """A journal for a store; ``keeps`` when others read it too."""

    def watch(self, task: str, cells: Mapping[tuple[str, str], list[Any]]) -> Callable[[], None]:
        """A function that notes which cells have changed since it was last called."""


def note_hop(chain: Chain, recorder: Recorder, task: str, parent: str, child: str) -> None:
    """A node hands the record to a child."""
    number = recorder.number("forwarded", task, parent, child)
    _keep(chain, recorder, parent, recorder.atoms)
    _note(chain, recorder, parent, f"{number}, kept_key, kept_value, timestamp, headers")


def note_consumed(
    chain: Chain, recorder: Recorder, code: tuple[str, str, str, int], lasting: Iterable[type] = ()
) -> None:
    """The record was taken from a partition; ``code`` is task, source, topic and partition.

    Values of the types ``lasting`` change no more than those that the recorder knows: the serdes say so.
    """
    task, source, topic, partition = code
    number = recorder.number("consumed", task, source, (topic, partition))
    _keep(chain, recorder, source, recorder.atoms.union(lasting))
    _note(chain, recorder, source, f"{number}, offset, timestamp, kept_key, kept_value, headers")


def note_produced(chain: Chain, recorder: Recorder, task: str, sink: str, topic: str, partition: str) -> None:
    """A plain sink wrote the record, whose key and value are in wire form."""
    number = recorder.number("produced", task, "", topic)
    _note(chain, recorder, sink, f"{number}, {partition}, timestamp, key, value, headers")


def _note(chain: Chain, recorder: Recorder, node: str, entry: str) -> None:
    chain.add(node, f"{chain.name(recorder.log.append)}(({entry}))")


def _keep(chain: Chain, recorder: Recorder, node: str, atoms: frozenset[type]) -> None:
    """Lines that leave key and value, as they are to be kept, in local names; nothing where they are there already."""
    lasting, keep = chain.name(atoms), chain.name(recorder.keep)
    for name, kind in (("key", Windowed), ("value", Change)):
        if name not in chain.kept:
            made_of = f"type({name}) is {chain.name(kind)} and type({name}[0]) in {lasting}"
            more = " and value[1] is None" if kind is Change else ""
            test = f"type({name}) in {lasting} or {made_of}{more}"
            chain.add(node, f"kept_{name} = {name} if {test} else {keep}({name})")
            chain.kept.add(name)
