"""Spark settings by the purpose of a session: memory, compilers and garbage collector."""

from __future__ import annotations

import tomllib
from typing import Literal, TypeAlias

from kstreamnb.data_files import text_of
from kstreamnb.errors import ConfigError, expect_known

Profile: TypeAlias = Literal["local", "latency", "production", "notebook"]

SETTINGS = tomllib.loads(text_of(__package__, "settings.toml"))
"""Settings of sessions and, in "profiles", those for each purpose of one."""

PROFILES: dict[str, dict[str, str]] = SETTINGS["profiles"]


def profile_settings(profile: str) -> dict[str, str]:
    """Return Spark's settings for a profile.

    Example:
        >>> profile_settings("production")["spark.driver.extraJavaOptions"]
        '-Xms2g -XX:+UseG1GC'
    """
    expect_known("session profile", [profile], PROFILES, error=ConfigError)
    return PROFILES[profile]
