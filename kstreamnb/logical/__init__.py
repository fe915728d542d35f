"""The logical graph: frozen nodes, rewrites of graphs, and lowering to topologies.

A draft grows while declarations are replayed; the resulting graph is frozen, rewritten by pure functions and lowered by
one function per node type. Nothing here depends on the DSL.
"""
