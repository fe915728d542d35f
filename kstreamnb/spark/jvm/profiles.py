"""Spark settings by the purpose of a session: memory, compilers and garbage collector."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kstreamnb.errors import ConfigError, unknown

Profile: TypeAlias = Literal["local", "latency", "production", "notebook"]

# The first compiler alone: the second one costs a session of minutes more than it saves.
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Both compilers: small batches cost Spark's own code, which the second compiler halves within a minute or two.
# A third of the heap, the default, is full every thirty batches, and collecting it pauses one for 50 ms and more.
_STEADY = "-Xms2g -Xmn160m -XX:+UseSerialGC"
# The largest heap is `spark.driver.memory`; allocating it at the start avoids growth while records wait.
_LONG = "-Xms2g -XX:+UseG1GC"
PROFILES: dict[str, dict[str, str]] = {
    "local": {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": _SHORT},
    "latency": {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": _STEADY,
        "spark.default.parallelism": "1",  # one Spark partition per level: a second one costs more than it saves
    },
    "production": {
        "spark.driver.memory": "2g",
        "spark.executor.memory": "2g",
        "spark.executor.cores": "2",
        "spark.executor.memoryOverhead": "3g",  # YARN and Kubernetes: two Python workers with 1 GB of state each
        "spark.driver.extraJavaOptions": _LONG,
        "spark.executor.extraJavaOptions": _LONG,
    },
    "notebook": {"spark.driver.memory": "768m", "spark.driver.extraJavaOptions": _SHORT},
}


def profile_settings(profile: str) -> dict[str, str]:
    """Return Spark's settings for a profile.

    Example:
        >>> profile_settings("production")["spark.driver.extraJavaOptions"]
        '-Xms2g -XX:+UseG1GC'
    """
    if profile not in PROFILES:
        raise unknown("session profile", profile, PROFILES, error=ConfigError)
    return PROFILES[profile]
