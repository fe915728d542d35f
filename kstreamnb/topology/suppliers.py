"""What a user hands to `Topology.add_processor`: a supplier, which makes a new processor for every task."""

from __future__ import annotations

from typing import Any

from kstreamnb.core.stores import StoreSpec
from kstreamnb.errors import TopologyError


def supplied_stores(node: str, supplier: Any) -> tuple[StoreSpec, ...]:
    """Stores that come with a supplier, or with the processors that it makes.

    Raises: TopologyError when ``supplier`` makes no processors, or hands out the same one twice.
    """
    if not callable(supplier):
        raise TopologyError(
            f'node "{node}" got a {type(supplier).__name__} instead of something that makes processors',
            hint="pass the class itself or a function without arguments that makes a new processor",
        )
    if not isinstance(supplier, type) and hasattr(supplier, "stores"):
        return tuple(supplier.stores())
    processor = supplier()
    if processor is supplier():
        kind = type(supplier).__name__
        raise TopologyError(
            f'the supplier of node "{node}" hands out the same processor twice',
            hint="make a new processor in every call: each task needs its own",
            java=f"{kind} generates single reference. {kind}#get() must return a new object each time it is called.",
        )
    return tuple(processor.stores()) if hasattr(processor, "stores") else ()
