"""Metrics, alerts, logs and the store server of running queries.

The names are loaded at their first use.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "spark")
