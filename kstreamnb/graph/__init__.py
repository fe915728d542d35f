"""The logical graph: frozen nodes, rewrites of graphs, and lowering to topologies.

A draft grows while declarations are replayed; the graph that it gives is frozen, rewritten by pure functions and
lowered by one function a node type. Nothing here knows the DSL.
"""

from kstreamnb.graph.explain import Explanation
from kstreamnb.graph.graph import LogicalGraph
from kstreamnb.graph.lower import lower
from kstreamnb.graph.rewrites import optimise, rules_of

__all__ = ["Explanation", "LogicalGraph", "lower", "optimise", "rules_of"]
