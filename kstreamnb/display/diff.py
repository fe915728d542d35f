"""Compares two topologies, and says what an upgrade does to the state of a running application."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kstreamnb.core.displayed import Displayed
from kstreamnb.topology.description import DescribedNode, DescribedStore, TopologyDescription

GENERATED = re.compile(r"-\d{10}")  # the number in a name that was generated


@dataclass(frozen=True, repr=False)
class TopologyDiff(Displayed):
    """Names that are only in the second topology, only in the first, or in both but different.

    ``state`` has a sentence for each store or repartition topic that an upgrade would orphan or create.

    Args:
        added: names of nodes, stores and topics that only the second topology has. Default: none.
        removed: names that only the first topology has. Default: none.
        changed: pairs of a name and how it differs. Default: none.
        state: one sentence for each store or topic whose data an upgrade would orphan or create. Default: none.

    Example:
        >>> print(TopologyDiff(added=('processor "large"',), changed=(('sink "out"', "topic: b -> c"),)))
        + processor "large"
        ~ sink "out": topic: b -> c
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    state: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.state)

    def __str__(self) -> str:
        lines = [*(f"+ {name}" for name in self.added), *(f"- {name}" for name in self.removed)]
        lines += [f"~ {name}: {what}" for name, what in self.changed]
        lines += [f"! {warning}" for warning in self.state]
        return "\n".join(lines) or "no difference"


def diff(before: TopologyDescription, after: TopologyDescription) -> TopologyDiff:
    """Compare two descriptions node by node and store by store; nodes are matched by name.

    Example:
        >>> from kstreamnb import Topology
        >>> one = Topology().add_source("in", "a").add_sink("out", "b", "in")
        >>> two = Topology().add_source("in", "a").add_sink("out", "c", "in")
        >>> print(diff(one.description(), two.description()))
        ~ sink "out": topic: b -> c
    """
    old, new = before.nodes(), after.nodes()
    added = tuple(_title(node) for name, node in new.items() if name not in old)
    removed = tuple(_title(node) for name, node in old.items() if name not in new)
    changed = [change for name in old if name in new for change in _changes(old[name], new[name])]
    old_subs, new_subs = _subtopologies(before), _subtopologies(after)
    for name in old:
        if name in new and old_subs[name] != new_subs[name]:
            changed.append((_title(new[name]), f"sub-topology: {old_subs[name]} -> {new_subs[name]}"))
    return TopologyDiff(added, removed, tuple(changed), tuple(_state(before, after)))


def _title(node: DescribedNode) -> str:
    return f'{node.kind} "{node.name}"'


def _subtopologies(description: TopologyDescription) -> dict[str, int]:
    return {node.name: sub.id for sub in description.subtopologies for node in sub.nodes}


def _changes(old: DescribedNode, new: DescribedNode) -> Iterator[tuple[str, str]]:
    for name in ("kind", "topics", "pattern", "topic", "extractor", "stores", "predecessors"):
        one, two = getattr(old, name), getattr(new, name)
        if isinstance(one, tuple):
            one, two = tuple(sorted(one)), tuple(sorted(two))
        if one != two:
            yield _title(new), f"{name}: {_shown(one)} -> {_shown(two)}"
    settings = dict(old.settings), dict(new.settings)
    for name in sorted(settings[0].keys() & settings[1].keys()):
        if settings[0][name] != settings[1][name]:
            yield _title(new), f"{name}: {settings[0][name]} -> {settings[1][name]}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "none" if value is None else str(value)


def _state(before: TopologyDescription, after: TopologyDescription) -> Iterator[str]:
    """Yield sentences on stores and repartition topics, which outlive the program."""
    for what, names in (("store", _stores), ("repartition topic", _repartition)):
        old, new = names(before), names(after)
        for name in sorted(old - new):
            index = " (a generated name: its number shifted)" if _shifted(name, new - old) else ""
            yield f'{what} "{name}" is no longer used: its contents are lost{index}'
        yield from (f'{what} "{name}" is new and starts empty' for name in sorted(new - old))
    specs = {store.name: store for store in before.stores}
    for store in after.stores:
        if store.name in specs and specs[store.name] != store:
            yield f'store "{store.name}" has other settings: {_store_changes(specs[store.name], store)}'


def _shifted(name: str, others: set[str]) -> bool:
    family = GENERATED.sub("", name)
    return family != name and any(GENERATED.sub("", other) == family for other in others)


def _stores(description: TopologyDescription) -> set[str]:
    named = {store.name for store in description.stores}
    return named | {store for node in description.nodes().values() for store in node.stores}


def _repartition(description: TopologyDescription) -> set[str]:
    """Return the topics that the application both writes and reads back."""
    nodes = description.nodes().values()
    return {node.topic for node in nodes if node.topic} & {topic for node in nodes for topic in node.topics}


def _store_changes(one: DescribedStore, two: DescribedStore) -> str:
    old, new = (dict(each.settings) | {"kind": each.kind} for each in (one, two))
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name} {old.get(name, 'unset')} -> {new.get(name, 'unset')}" for name in names)
