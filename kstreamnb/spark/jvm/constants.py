"""Texts and names of Spark's settings that several rooms share; imports no pyspark."""

import re

LOCAL_MASTER = re.compile(r"local(\[\s*(\d+|\*)\s*(,\s*\d+\s*)?\])?")
"""Masters whose executors are threads of the session's JVM; group 2 is the number of their slots."""

LARGEST_FUNCTION = "spark.broadcast.UDFCompressionThreshold"
"""Spark's limit for the size of a function; larger ones become broadcasts, which stateful operators cannot read."""

INTERPRETED = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
"""Settings with which Spark compiles no classes for expressions and stages."""

NO_JVM = "the JVM does not answer: it was killed or ran out of memory"

WORKER_SETTINGS = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""Settings of sessions for queries and runs. Only some of Spark's operators pass this one to their workers, and workers
with different environments are not shared.
"""
