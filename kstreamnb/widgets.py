"""Widgets for notebooks: explore a graph, step through a replay, browse stores, edit samples, watch a query.

The names are loaded at their first use.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
