"""How a task tells what happens: short tuples appended to a log, by lines within its fused chains where that can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # chains stand above the scope, which holds a recorder
    from kstreamnb.runtime.chain import Chain

__all__ = ["Recorder", "note_consumed", "note_hop", "note_produced"]


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
    _note(chain, recorder, parent, f"{number}, {_kept(chain, recorder)}, timestamp, headers")


def note_consumed(chain: Chain, recorder: Recorder, code: tuple[str, str, str, int], offset: str) -> None:
    """The record was taken from a partition; ``code`` is task, source, topic and partition."""
    task, source, topic, partition = code
    number = recorder.number("consumed", task, source, (topic, partition))
    _note(chain, recorder, source, f"{number}, {offset}, timestamp, {_kept(chain, recorder)}, headers")


def note_produced(chain: Chain, recorder: Recorder, task: str, sink: str, topic: str) -> None:
    """A plain sink wrote the record, whose key and value are in wire form."""
    number = recorder.number("produced", task, "", topic)
    _note(chain, recorder, sink, f"{number}, 0, timestamp, key, value, headers")


def _note(chain: Chain, recorder: Recorder, node: str, entry: str) -> None:
    chain.add(node, f"{chain.name(recorder.log.append)}(({entry}))")


def _kept(chain: Chain, recorder: Recorder) -> str:
    atoms, keep = chain.name(recorder.atoms), chain.name(recorder.keep)
    return ", ".join(f"{name} if type({name}) in {atoms} else {keep}({name})" for name in ("key", "value"))
