"""`spark_report`: the settings in force in a session, and the patches that were applied to it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kstreamnb.errors import SparkError
from kstreamnb.masking import without_secrets
from kstreamnb.spark.jvm.patches import note_foreign_session, patch_lines
from kstreamnb.spark.jvm.profiles import SETTINGS
from kstreamnb.spark.jvm.session import PATCHES, START_PATCHES, active_session, require_session


def spark_report(spark: SparkSession | None = None) -> str:
    """Return the settings in force in a session and kstreamnb's patches, one a line.

    A patch is listed as on, as off with the reason, or as not tried yet: patches of queries are applied when the first
    query starts. ``KSTREAMNB_DISABLE_PATCHES`` switches patches off by name.

    Args:
        spark: the session; by default the active one.

    Raises:
        SparkError: no session is active.

    Example:
        >>> from kstreamnb.spark import spark_session
        >>> print(spark_report(spark_session("examples")))  # doctest: +ELLIPSIS
        spark.master = local[2,4]
        spark.driver.memory = ...
    """
    session = active_session() if spark is None else require_session(spark)
    if session is None:
        raise SparkError("no Spark session is active", hint="spark_session() starts one")
    note_foreign_session(START_PATCHES)
    settings = [f"{name} = {session.conf.get(name, None) or 'default of Spark'}" for name in SETTINGS["reported"]]
    return "\n".join([*map(without_secrets, settings), *patch_lines(PATCHES)])
