"""Simulations, on a simulated clock: a cluster of applications, a consumer group, and a log."""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "notebook")
