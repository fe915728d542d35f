"""Topologies on Spark: the very same tasks over Structured Streaming, or over static DataFrames.

Everything that imports pyspark lives here.
"""
