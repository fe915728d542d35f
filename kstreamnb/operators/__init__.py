"""Operators, which say what a node does to a record: each a small frozen value with ``bind(context, forward)``.

Nothing here knows the graph, the DSL, a store's inside or an engine; the lowering in `kstreamnb.logical` makes these
operators and a task binds them.
"""
