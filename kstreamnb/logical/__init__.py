"""The logical graph: frozen nodes, rewrites of graphs, and lowering to topologies.

A draft grows while declarations are replayed; the graph that it gives is frozen, rewritten by pure functions and
lowered by one function a node type. Nothing here knows the DSL.
"""
