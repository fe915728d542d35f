"""Versions of Spark: one that is too old is refused before anything starts, and a newer one is named in a warning."""

from __future__ import annotations

import logging
import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark
import pytest

from kstreamnb.spark.jvm.patches import apply_patches
from kstreamnb.spark.jvm.versions import NEWEST, OLDEST, not_checked, warn_of_newer

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("name", ["run", "deploy", "spark.spark_session", "kafka.read_changelogs"])
def test_a_spark_that_is_too_old_is_refused_by_name(name: str) -> None:
    """At the first use of a name that needs Spark, before a session or a checkpoint exists."""
    program = f"import pyspark; pyspark.__version__ = '4.0.5'; import kstreamnb as ks; ks.{name}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert 1 == done.returncode
    expected = "kstreamnb.errors.MissingPackageError: pyspark 4.0.5 is too old, expected {}.{} or later"
    assert expected.format(*OLDEST) in done.stderr
    assert 'Hint: pip install "kstreamnb[spark]"' in done.stderr


def test_a_newer_spark_is_named_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """However many sessions and queries try to apply patches."""
    warn_of_newer.cache_clear()
    for version in ("{}.{}.9".format(*NEWEST), f"{NEWEST[0]}.{NEWEST[1] + 1}.0"):
        monkeypatch.setattr(pyspark, "__version__", version)
        for _ in range(2):
            apply_patches([], None, frozenset())
    assert [logging.WARNING] == [record.levelno for record in caplog.records]
    assert f"Spark {version} is newer" in caplog.text


def test_the_project_asks_for_the_versions_that_are_supported() -> None:
    """A patch release of any of them can be installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [need] = [need for need in project["optional-dependencies"]["spark"] if need.startswith("pyspark")]
    assert "pyspark>={}.{},<{}".format(*OLDEST, NEWEST[0] + 1) == need
    assert (None, None) == (not_checked("{}.{}.0".format(*OLDEST)), not_checked("{}.{}.7".format(*NEWEST)))
