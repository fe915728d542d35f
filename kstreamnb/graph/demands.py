"""What an operator may ask of the tables above it: to be kept in a store, to hand on old values, to have versions."""

from __future__ import annotations

from kstreamnb.core.operator import TableView
from kstreamnb.errors import TopologyError
from kstreamnb.graph.draft import Draft
from kstreamnb.graph.nodes import Table, TableJoin


def view_of(draft: Draft, id_: int) -> TableView:
    """How the rows of a table can be looked up once it is kept."""
    return _table(draft, id_).view


def _table(draft: Draft, id_: int) -> Table:
    """The table of that id."""
    node = draft.nodes[id_]
    assert isinstance(node, Table)
    return node


def look_up(draft: Draft, id_: int) -> TableView:
    """How to look up the rows of a table, which are kept from now on."""
    node = _table(draft, id_)
    if node.lazy:
        draft.change(node, materialized=True)
    for above in node.computed_from:
        look_up(draft, above)
    return node.view


def check_history(draft: Draft, id_: int, grace_ms: int) -> None:
    """See to it that a table keeps versions for as long as records wait for it.

    Raises: TopologyError when it does not.
    """
    node = _table(draft, id_)
    if node.store is None and node.computed_from and node.versioned is None:
        for above in node.computed_from:
            check_history(draft, above, grace_ms)
    elif node.store is None or node.store.kind != "versioned":
        raise TopologyError(
            f'table "{node.name}" keeps no versions, so records cannot wait for it',
            hint='give the table a versioned store, such as store="x", versioned="1h"',
            java="KTable must be versioned to use a grace period in a stream table join.",
        )
    elif node.store.history_ms is not None and grace_ms > node.store.history_ms:
        raise TopologyError(
            f'table "{node.name}" keeps versions for {node.store.history_ms} ms, not the {grace_ms} ms of a grace',
            java="History retention must be at least grace period.",
        )


def send_old(draft: Draft, id_: int, *, force: bool = True) -> bool:
    """See to it that a table hands on old values; without ``force`` only if that needs no new store."""
    node = _table(draft, id_)
    if node.lazy:
        if not force and not node.materialized:
            return False
        draft.change(node, materialized=True, send_old=True)
        return True
    if not node.send_old:
        force = force or isinstance(node, TableJoin)
        if not all(send_old(draft, above, force=force) for above in node.computed_from):
            return False
    draft.change(node, send_old=True)
    return True


def is_versioned(draft: Draft, id_: int) -> bool:
    """Whether a node's output has versions: as its own store says, else if all of its parents' outputs have."""
    node = draft.nodes[id_]
    if isinstance(node, Table) and node.versioned is not None:
        return node.versioned
    return bool(node.parents) and all(is_versioned(draft, parent) for parent in node.parents)
