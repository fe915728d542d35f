"""Topologies on Spark: the same tasks over Structured Streaming, or over static DataFrames.

Everything that imports pyspark lives here.
"""

from kstreamnb.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__, "spark")
