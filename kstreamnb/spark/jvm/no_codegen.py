"""Queries whose expressions Spark interprets, instead of writing and compiling a class for each of them.

The kit's rows are few and of five columns: there is nothing that generated code could make faster, but Spark writes it
anew for every task of every micro-batch. Most of it is written by the threads that serve Python's state, and those know
no session: they take what holds where there is none.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

__all__ = ["interpret"]

_LOG = logging.getLogger(__name__)
_SQL_CONF = "org.apache.spark.sql.internal.SQLConf"
_FACTORY = "spark.sql.codegen.factoryMode"
_SETTINGS = {_FACTORY: "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}


def interpret(session: SparkSession) -> None:
    """Have a session's queries interpreted; sessions beside it go on as they were.

    In local mode the state servers are threads of the same JVM as everything else. Spark has no setting for threads
    without a session, so theirs is put where Spark keeps one made of defaults; on executors elsewhere, and where a
    version of Spark keeps it in another place, code is generated as before, which is slower and nothing else.
    """
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    java = session._jvm  # noqa: SLF001 - the way to classes of the JVM
    if java is None:
        return
    try:
        java.org.apache.spark.sql.internal.SQLConf.getFallbackConf()  # makes the field that is changed below
        settings = java.org.apache.spark.sql.internal.SQLConf()
        settings.setConfString(_FACTORY, _SETTINGS[_FACTORY])
        field = java.java.lang.Class.forName(f"{_SQL_CONF}$").getDeclaredField("fallbackConf")
        field.setAccessible(True)
        always = java.com.google.common.base.Suppliers.ofInstance(settings)
        field.set(None, java.java.lang.ThreadLocal.withInitial(always))
    except (Py4JError, TypeError) as error:
        _LOG.debug("state servers go on generating code: %s", error)
