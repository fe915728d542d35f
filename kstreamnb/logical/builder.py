"""A logical graph under construction: names are counted, nodes get their ids and priorities.

The DSL writes into a draft while it replays the user's declarations; `GraphBuilder.freeze` returns the graph. The
functions at the end are requests of operators to the tables upstream: to be materialized, to forward old values, to
keep versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kstreamnb.core.names import check_resource_name
from kstreamnb.core.operator import Operator, TableView
from kstreamnb.errors import TopologyError
from kstreamnb.logical.graph import LogicalGraph
from kstreamnb.logical.nodes import LogicalNode, Operation, Repartition, Table, TableJoin
from kstreamnb.source_location import SourceLocation

N = TypeVar("N", bound=LogicalNode)
_GENERATED = re.compile(r"KSTREAM.*-[0-9]{10}")


def repartition_node(index: int, prefix: str, **fields: Any) -> tuple[Repartition, int]:
    """Return a repartition through the topic ``<prefix>-repartition``, and the next index: three
    numbers are consumed.
    """
    topic = prefix if prefix.endswith("-repartition") else f"{prefix}-repartition"
    sink, keys, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    if _GENERATED.fullmatch(prefix):
        words = ("SINK", "FILTER", "SOURCE")
        sink, keys, source = (f"KSTREAM-{word}-{index + i:010}" for i, word in enumerate(words))
    fields = {"word": "repartition", "mergeable": True, **fields}
    return Repartition(name=source, topic=topic, sink_name=sink, filter_name=keys, **fields), index + 3


@dataclass
class GraphBuilder:
    """A graph that grows.

    ``persistent`` is the default of stores; ``origin`` and ``word`` are the line and the method whose nodes are being
    added.
    """

    persistent: bool = True
    origin: SourceLocation | None = None
    word: str = ""
    index: int = 0
    nodes: list[LogicalNode] = field(default_factory=list)
    copartitioned: list[tuple[str, ...]] = field(default_factory=list)
    unnamed: list[tuple[str, str]] = field(default_factory=list)
    _priority: int = 0

    # --- names ------------------------------------------------------------------------------------------------------
    def new_name(self, prefix: str) -> str:
        """Return ``prefix`` with the next number."""
        self.index += 1
        return f"{prefix}{self.index - 1:010}"

    def note_unnamed(self, what: str, name: str) -> None:
        """Note that a "state store", "changelog topic" or "repartition topic" has a generated name."""
        self.unnamed.append((what, name))

    def note_unnamed_store(self, name: str, *, logged: bool = True) -> None:
        """Note that a store, and its change log, has a generated name."""
        self.note_unnamed("state store", name)
        if logged:
            self.note_unnamed("changelog topic", f"{name}-changelog")

    def name_or_new(self, name: str | None, prefix: str, suffix: str = "") -> str:
        """Return the user's name with a suffix, or a generated one; a number is consumed in both cases."""
        generated = self.new_name(prefix)
        return generated if name is None else check_resource_name(name + suffix)

    # --- nodes ------------------------------------------------------------------------------------------------------
    def add(self, node: N, *parents: int) -> N:
        """Add a node under its parents; return it with its id."""
        node = replace(node, id=len(self.nodes), origin=self.origin, word=node.word or self.word)
        self.nodes.append(node)
        return self.attach(node, *parents)

    def attach(self, node: N, *parents: int) -> N:
        """Add a node under (further) parents; it is lowered no earlier than earlier declarations."""
        self._priority += max(1, len(parents))
        merged = tuple(dict.fromkeys((*self.nodes[node.id].parents, *parents)))
        return self.change(node, parents=merged, priority=self._priority)

    def step(self, name: str, operator: Operator, *parents: int, **fields: Any) -> Operation:
        """Add an operator under its parents."""
        return self.add(Operation(name=name, operator=operator, **fields), *parents)

    def change(self, node: N, **fields: Any) -> N:
        """Change fields of an existing node."""
        changed = replace(self.nodes[node.id], **fields)
        self.nodes[node.id] = changed
        return changed  # type: ignore[return-value]

    def repartition(self, prefix: str, **fields: object) -> Repartition:
        """Return a repartition node without adding it."""
        node, self.index = repartition_node(self.index, prefix, **fields)
        return node

    def co_partition(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Require equal partition counts of the topics of these sources; return each once."""
        self.copartitioned.append(tuple(dict.fromkeys(sources)))
        return self.copartitioned[-1]

    def is_persistent(self, store_type: str | None) -> bool:
        """Return whether a store of that type, or one without a type, is persistent."""
        return self.persistent if store_type is None else store_type == "persistent"

    def freeze(self, **options: bool) -> LogicalGraph:
        """Return the graph so far, with options of the builder."""
        return LogicalGraph(tuple(self.nodes), tuple(self.copartitioned), self.index, tuple(self.unnamed), **options)


def table_of(draft: GraphBuilder, id_: int) -> Table:
    """Return the table with an id."""
    node = draft.nodes[id_]
    assert isinstance(node, Table)
    return node


def look_up(draft: GraphBuilder, id_: int) -> TableView:
    """Return the view of a table's rows; materialize them."""
    node = table_of(draft, id_)
    if node.lazy:
        draft.change(node, materialized=True)
    for above in node.computed_from:
        look_up(draft, above)
    return node.view


def check_history(draft: GraphBuilder, id_: int, grace_ms: int) -> None:
    """Ensure that a table keeps versions for as long as records wait for it.

    Raises: TopologyError when it does not.
    """
    node = table_of(draft, id_)
    if node.store is None and node.computed_from and node.versioned is None:
        for above in node.computed_from:
            check_history(draft, above, grace_ms)
    elif node.store is None or node.store.kind != "versioned":
        fact = f'table "{node.name}" keeps no versions, which a join with grace needs'
        java = "KTable must be versioned to use a grace period in a stream table join."
        raise TopologyError(fact, hint='give the table a versioned store, such as store="x", versioned="1h"', java=java)
    elif node.store.history_ms is not None and grace_ms > node.store.history_ms:
        fact = f'table "{node.name}" keeps versions for {node.store.history_ms} ms, not the {grace_ms} ms of a grace'
        raise TopologyError(fact, java="History retention must be at least grace period.")


def send_old(draft: GraphBuilder, id_: int, *, force: bool = True) -> bool:
    """Ensure that a table forwards old values; without ``force`` only if that needs no new store."""
    node = table_of(draft, id_)
    if node.lazy and not force and not node.materialized:
        return False
    if not node.lazy and not node.send_old:
        force = force or isinstance(node, TableJoin)
        if not all(send_old(draft, above, force=force) for above in node.computed_from):
            return False
    draft.change(node, materialized=node.materialized or node.lazy, send_old=True)
    return True


def is_versioned(draft: GraphBuilder, id_: int) -> bool:
    """Return whether a node's output has versions: its own store decides, otherwise all of its parents' outputs must
    have them.
    """
    node = draft.nodes[id_]
    if isinstance(node, Table) and node.versioned is not None:
        return node.versioned
    return bool(node.parents) and all(is_versioned(draft, parent) for parent in node.parents)
