"""Lowering of joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kstreamnb.errors import TopologyError
from kstreamnb.graph import join_nodes as joins
from kstreamnb.graph.lowering import Lowering
from kstreamnb.graph.nodes import Node
from kstreamnb.processors.foreign_key_join import ForeignTableJoin, SubscriptionJoin
from kstreamnb.processors.foreign_key_receive import SubscriptionReceive
from kstreamnb.processors.foreign_key_resolve import SubscriptionResolve
from kstreamnb.processors.foreign_key_send import SubscriptionSend
from kstreamnb.processors.join_stream_global import StreamGlobalJoin
from kstreamnb.processors.join_stream_self import StreamSelfJoin
from kstreamnb.processors.join_stream_stream import StreamStreamJoin
from kstreamnb.processors.join_stream_table import StreamTableJoin
from kstreamnb.processors.join_table_merge import TableJoinMerge
from kstreamnb.processors.join_table_table import TableTableJoin
from kstreamnb.processors.join_window import JoinWindow
from kstreamnb.processors.pass_through import PassThrough
from kstreamnb.processors.table_view import StoreView

__all__ = ["JOINS"]


def _window(node: joins.JoinWindow, into: Lowering) -> None:
    into.processor(node, JoinWindow(node.store.name))


def _streams(node: joins.StreamJoin, into: Lowering) -> None:
    sides = [into.graph.by_id[id_] for id_ in node.windows_of]
    windows = [side for side in sides if isinstance(side, joins.JoinWindow)]
    spans = (node.windows.before_ms, node.windows.after_ms, node.windows.grace_ms)
    this = windows[0]
    if node.is_self_join:
        operator = StreamSelfJoin(this.store.name, *spans, node.joiner, node.with_key)
        into.processor(node, operator, parents=(this.name,))
        into.store(this.store, this.name, node.name)
        return
    other = windows[1]
    pending = node.pending.name if node.pending else None
    left = node.how != "inner"
    for name, is_left, own, opposite, outer in (
        (node.this_name, True, this, other, left),
        (node.other_name, False, other, this, node.how == "outer"),
    ):
        operator_ = StreamStreamJoin(
            is_left, opposite.store.name, *spans, node.joiner, node.with_key, outer, pending, node.name
        )
        into.processor(node, operator_, name=name, parents=(own.name,))
    into.processor(node, PassThrough(), parents=(node.this_name, node.other_name))
    into.store(this.store, this.name, node.other_name)
    into.store(other.store, other.name, node.this_name)
    if node.pending is not None:
        into.store(node.pending, node.this_name, node.other_name)


def _stream_table(node: joins.StreamTableJoin, into: Lowering) -> None:
    view = into.view(node.table)
    operator = StreamTableJoin(view, node.joiner, node.with_key, node.how != "inner", node.grace_ms, node.buffer)
    into.processor(node, operator, stores=(*((node.buffer,) if node.buffer else ()), *view.stores))
    if node.grace_ms is not None:
        for name in view.stores:
            _check_history(into, node, name, node.grace_ms)


def _check_history(into: Lowering, node: joins.StreamTableJoin, name: str, grace_ms: int) -> None:
    spec = into.topology.stores[name]
    if spec.kind != "versioned":
        raise TopologyError(
            f'store "{name}" keeps no versions, so records cannot wait for its table',
            hint='give the table a versioned store, such as store="x", versioned="1h"',
            java="KTable must be versioned to use a grace period in a stream table join.",
        )
    if spec.history_ms is not None and grace_ms > spec.history_ms:
        raise TopologyError(
            f'store "{name}" keeps versions for {spec.history_ms} ms, less than the grace of {grace_ms} ms',
            java="History retention must be at least grace period.",
        )


def _stream_global(node: joins.StreamGlobalJoin, into: Lowering) -> None:
    left = node.how != "inner"
    into.processor(node, StreamGlobalJoin(StoreView(node.store), node.key_selector, node.joiner, node.with_key, left))


def _tables(node: joins.TableJoin, into: Lowering) -> None:
    for name, is_left, own, opposite in (
        (node.this_name, True, node.left, node.right),
        (node.other_name, False, node.right, node.left),
    ):
        view = into.view(opposite)
        operator = TableTableJoin(is_left, node.how, view, node.joiner, node.send_old, into.versioned(own))
        into.processor(node, operator, name=name, parents=into.names((own,)))
    merge = TableJoinMerge(None if node.store is None else node.store.name, node.send_old)
    into.processor(node, merge, parents=(node.this_name, node.other_name))
    into.connect(node.this_name, into.view(node.right).stores)
    into.connect(node.other_name, into.view(node.left).stores)
    if node.store is not None:
        into.store(node.store, node.name)


def _send(node: joins.ForeignSend, into: Lowering) -> None:
    serdes = (node.foreign_key_serde, node.value_serde)
    operator = SubscriptionSend(node.foreign_key, node.with_key, node.left, *serdes, into.versioned_above(node))
    into.processor(node, operator)


def _receive(node: joins.ForeignReceive, into: Lowering) -> None:
    operator = SubscriptionReceive(node.store, node.foreign_key_serde, node.key_serde)
    into.processor(node, operator, stores=(node.store,))


def _subscription_join(node: joins.SubscriptionJoin, into: Lowering) -> None:
    view = into.view(node.table)
    into.processor(node, SubscriptionJoin(view), stores=view.stores)


def _foreign_side(node: joins.ForeignSide, into: Lowering) -> None:
    serdes = (node.foreign_key_serde, node.key_serde)
    operator = ForeignTableJoin(node.store, *serdes, into.versioned_above(node))
    into.processor(node, operator, stores=(node.store,))


def _resolve(node: joins.ForeignResolve, into: Lowering) -> None:
    view = into.view(node.table)
    into.processor(node, SubscriptionResolve(view, node.joiner, node.left, node.value_serde), stores=view.stores)


JOINS: dict[type[Node], Callable[[Any, Lowering], None]] = {
    joins.JoinWindow: _window,
    joins.StreamJoin: _streams,
    joins.StreamTableJoin: _stream_table,
    joins.StreamGlobalJoin: _stream_global,
    joins.TableJoin: _tables,
    joins.ForeignSend: _send,
    joins.ForeignReceive: _receive,
    joins.SubscriptionJoin: _subscription_join,
    joins.ForeignSide: _foreign_side,
    joins.ForeignResolve: _resolve,
}
"""What each type of node becomes."""
