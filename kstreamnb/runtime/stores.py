"""The stores of a task: which it has, in which order, and how each is made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.runtime.scope import Scope
from kstreamnb.runtime.task_plan import TaskPlan
from kstreamnb.state import CacheBudget, make_store
from kstreamnb.topology.java_order import hash_order


def store_order(plan: TaskPlan, nodes: Iterable[str]) -> tuple[StoreSpec, ...]:
    """Stores in the order in which Kafka Streams registers and flushes them: by node, then as a hash set has them."""
    topology = plan.topology
    names = dict.fromkeys(store for node in nodes for store in hash_order(topology.nodes[node].stores))
    return tuple({**topology.stores, **topology.global_stores}[name] for name in names)


def make_stores(scope: Scope, specs: Iterable[StoreSpec]) -> dict[str, Any]:
    """Build stores, with the application's serdes and caching filled in."""
    plan, stores = scope.plan, {}
    budget = CacheBudget(plan.config.cache_max_bytes)
    for spec in specs:
        spec = replace(
            spec,
            key_serde=plan.key_serde(spec.key_serde),
            value_serde=plan.value_serde(spec.value_serde),
            cached=spec.cached and plan.config.cache_max_bytes > 0,
        )
        stores[spec.name] = make_store(spec, scope, budget)
    return stores
