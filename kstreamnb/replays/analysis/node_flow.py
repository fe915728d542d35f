"""Lists the records that reached a node, and which of them it forwarded."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from kstreamnb.core.record import Windowed
from kstreamnb.recording.recorded_run import RecordedRun
from kstreamnb.recording.trace import shown
from kstreamnb.recording.trace_index import last_in_step, row_before
from kstreamnb.state.versioned import LATEST_ROW
from kstreamnb.topology.nodes import Source, walk


class NodeArrival(NamedTuple):
    """A record at a node; ``position`` is its log position, ``went_on`` tells whether the node forwarded anything."""

    position: int
    step: int
    task: str
    key: Any
    value: Any
    timestamp: int
    went_on: bool

    def joined_by(self, selector: Callable[[Any, Any], Any] | None) -> Any:
        """Return the key by which a join looks for partners: the one that a selector returns, if there is one."""
        return self.key if selector is None else selector(self.key, self.value)


def sinks_of(run: RecordedRun, topic: str) -> list[str]:
    """Return the sinks that write to a topic, by its Kafka or topology name."""
    return [sink.name for sink in run.topology.sinks() if sink.topic in (topic, run.short(topic))]


def above(run: RecordedRun, nodes: Collection[str]) -> list[str]:
    """Return all nodes upstream of some nodes (included), across internal topics; sources first."""
    result = set(walk(nodes, run.topology.feeders))
    return [name for name in run.topology.nodes if name in result]


def sources_above(run: RecordedRun, nodes: Collection[str]) -> list[Source]:
    """Return the sources whose records reach some nodes, across internal topics."""
    upstream = (run.topology.nodes[name] for name in above(run, nodes))
    return [node for node in upstream if isinstance(node, Source)]


def came_to(run: RecordedRun, node: str, **about: str) -> list[int]:
    """Return the log positions at which records reached a node: all, or those of one ``task``."""
    if isinstance(run.topology.nodes[node], Source):
        return run.index.positions_of("consumed", node=node, **about)
    return run.index.positions_of("forwarded", other=node, **about)


def arrivals(run: RecordedRun, node: str, children: Collection[str] | None = None) -> Iterator[NodeArrival]:
    """Yield every record that reached a node; only records forwarded to ``children`` count as forwarded."""
    index, came = run.index, came_to(run, node)
    sent = index.of_kind("forwarded", node=node)
    counted = (positions for code, positions in sent if children is None or code.other in children)
    went = {last_in_step(index, came, position) for positions in counted for position in positions}
    for position in came:
        entry = index.log[position]
        step, code = index.step_of(position), index.code(position)
        key, value, timestamp = (entry[3], entry[4], entry[2]) if code.kind == "consumed" else entry[1:4]
        yield NodeArrival(position, step, code.task, shown(key), shown(value), timestamp, position in went)


def hop_before(run: RecordedRun, position: int) -> int:
    """Return the position of the hop that led to what was written at a position: just before it."""
    while run.index.code(position).kind not in ("forwarded", "consumed"):
        position -= 1
    return position


def is_about(have: object, key: object) -> bool:
    """Return whether a recorded key, or the key within its window, is the wanted one; None matches every key."""
    return key is None or key in ((have, have.key) if isinstance(have, Windowed) else (have,))


def descent(run: RecordedRun, key: object) -> Callable[[int], bool]:
    """Return a function that tells whether a record in the log has this key, or had it at a node or topic before.

    It examines each record once, however many records descend from it.
    """
    known = bytearray(len(run.index.log))  # 1: no, 2: yes

    def descends(position: int) -> bool:
        at: int | None = position
        own, path, found = run, list[int](), False
        while at is not None and not found and not known[at]:
            own = own.owner(at)
            path.append(at)
            at = hop_before(own, at)
            code, entry = own.index.code(at), own.index.log[at]
            have = shown(entry[3] if code.kind == "consumed" else entry[1])
            found = is_about(have, key)
            at = own.causes.get(at) if code.kind == "consumed" else _came(own, code.node, at, have)
        found = found or (at is not None and known[at] == 2)
        for each in path:
            known[each] = 1 + found
        return found

    return (lambda position: True) if key is None else descends


def _came(run: RecordedRun, node: str, position: int, key: object) -> int | None:
    """Return where a forwarded record had reached its node; in a node that holds records back, only one of its key."""
    index, traits = run.index, run.topology.nodes[node].traits
    for at in range(position - 1, index.starts[index.step_of(position) - 1] - 1, -1):
        code = index.code(at)
        if (code.kind, code.other) == ("forwarded", node):
            holds = traits.buffer is not None or traits.emit_on_close
            return at if not holds or is_about(key, shown(index.log[at][1])) else None
        if (code.kind, code.node) == ("consumed", node):
            return at
    return None


def store_owner(run: RecordedRun, task: str, store: str) -> str:
    """Return the id of the task whose store the nodes of a task use: its own, or a global one."""
    return task if store in run.tasks[task].stores else "global"


def row_at(run: RecordedRun, task: str, store: str, key: object, position: int, as_of: int | None = None) -> Any:
    """Return a store's raw row of a key as of a log position, cached or not; None for no row.

    With ``as_of`` (ms) it is the version valid at that time, if the store keeps versions.
    """
    owner = store_owner(run, task, store)
    result = run.tasks[owner].stores.get(store)
    if result is None or key is None:
        return None
    raw_key, writes = result.keys.encode(key), run.index.writes(owner, store)
    if result.spec.kind != "versioned":
        return row_before(run.index.log, writes.get(raw_key, ()), position)
    latest = row_before(run.index.log, writes.get((raw_key, LATEST_ROW), ()), position)
    if as_of is None or latest is None or latest[1] <= as_of:
        return latest
    older = [at for at in writes if at is not None and at[0] == raw_key and at[1] != LATEST_ROW]
    return _version((row_before(run.index.log, writes[at], position) for at in older), as_of)


def _version(segments: Iterator[Any], as_of: int) -> Any:
    """Return the older version that was valid at a time."""
    for segment in segments:
        until, versions = segment or (0, ())
        for valid_from, value in versions:
            if valid_from <= as_of < until:
                return None if value is None else (value, valid_from)
            until = valid_from
    return None
