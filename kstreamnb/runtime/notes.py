"""Lines that write into a recording, for fused chains: what a task does is noted at the speed of a list's append."""

from __future__ import annotations

from kstreamnb.runtime.chain import Chain
from kstreamnb.runtime.recording import ATOMS, Recording

__all__ = ["note_consumed", "note_hop", "note_produced"]


def note_hop(chain: Chain, recording: Recording, task: str, parent: str, child: str) -> None:
    """A node hands the record to a child."""
    number = recording.number("forwarded", task, parent, child)
    _note(chain, recording, parent, f"{number}, {_kept(chain, recording)}, timestamp, headers")


def note_consumed(chain: Chain, recording: Recording, code: tuple[str, str, str, int], offset: str) -> None:
    """The record was taken from a partition; ``code`` is task, source, topic and partition."""
    task, source, topic, partition = code
    number = recording.number("consumed", task, source, (topic, partition))
    _note(chain, recording, source, f"{number}, {offset}, timestamp, {_kept(chain, recording)}, headers")


def note_produced(chain: Chain, recording: Recording, task: str, sink: str, topic: str) -> None:
    """A plain sink wrote the record, whose key and value are in wire form."""
    number = recording.number("produced", task, "", topic)
    _note(chain, recording, sink, f"{number}, 0, timestamp, key, value, headers")


def _note(chain: Chain, recording: Recording, node: str, entry: str) -> None:
    chain.add(node, f"{chain.name(recording.log.append)}(({entry}))")


def _kept(chain: Chain, recording: Recording) -> str:
    atoms, keep = chain.name(ATOMS), chain.name(recording.keep)
    return ", ".join(f"{name} if type({name}) in {atoms} else {keep}({name})" for name in ("key", "value"))
