"""Operators define what a node does to a record: each is a small frozen value with ``bind(context, forward)``.

Nothing here depends on the graph, the DSL, a store's implementation or an engine; the lowering in `kstreamnb.logical`
creates these operators and a task binds them.
"""
