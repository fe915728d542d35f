"""Texts and names of Spark's settings that several rooms share; imports no pyspark."""

from __future__ import annotations

LARGEST_FUNCTION = "spark.broadcast.UDFCompressionThreshold"
"""Spark's limit for the size of a function; larger ones become broadcasts, which stateful operators cannot read."""

NO_JVM = "the JVM does not answer: it was killed or ran out of memory"
