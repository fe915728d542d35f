"""Spark settings by the purpose of a session: memory, compilers and garbage collector."""

from __future__ import annotations

from typing import Literal, TypeAlias

from kstreamnb.errors import ConfigError, unknown

__all__ = ["PROFILES", "Profile", "profile_settings"]

Profile: TypeAlias = Literal["local", "latency", "production", "notebook"]

# The first compiler alone: the second one takes more from a session of minutes than it gives back.
_SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Both compilers: what small batches cost is Spark's own code, which the second one halves within a minute or two.
# A third of the heap, the default, is full every thirty batches, and clearing it stops one of them for 50 ms and more.
_STEADY = "-Xms2g -Xmn160m -XX:+UseSerialGC"
# The largest heap is what `spark.driver.memory` says; with as much from the start it never grows while records wait.
_LONG = "-Xms2g -XX:+UseG1GC"
PROFILES: dict[str, dict[str, str]] = {
    "local": {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": _SHORT},
    "latency": {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": _STEADY,
        "spark.default.parallelism": "1",  # one Spark partition a level: a second one costs more than it takes over
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
    """Spark's settings of a profile.

    Example:
        >>> profile_settings("production")["spark.driver.extraJavaOptions"]
        '-Xms2g -XX:+UseG1GC'
    """
    if profile not in PROFILES:
        raise unknown("session profile", profile, PROFILES, error=ConfigError)
    return PROFILES[profile]
