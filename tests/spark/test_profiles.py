"""Sessions by what they are for: how much memory, which collector, and what a session says of itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

import kstreamnb as ks
from kstreamnb.spark.jvm.profiles import profile_settings
from kstreamnb.spark.jvm.session import query_session


def test_production_pins_the_heap_and_takes_the_g1_collector() -> None:
    """S4-54: 2 GB from the start to the end, for driver and executors; a notebook's session is smaller."""
    found = profile_settings("production")
    assert "2g" == found["spark.driver.memory"] == found["spark.executor.memory"]
    for options in (found["spark.driver.extraJavaOptions"], found["spark.executor.extraJavaOptions"]):
        assert {"-Xms2g", "-XX:+UseG1GC"} <= set(options.split())
    assert "768m" == profile_settings("notebook")["spark.driver.memory"]


def test_small_batches_have_both_compilers_and_one_partition_a_level() -> None:
    """S0-06: the other profiles keep what suits their lives; a deployment takes the session's parallelism."""
    found = profile_settings("latency")
    assert "1" == found["spark.default.parallelism"]
    assert "TieredStopAtLevel" not in found["spark.driver.extraJavaOptions"]
    assert "-Xmn160m" in found["spark.driver.extraJavaOptions"].split()  # short pauses
    for profile in ("local", "notebook"):
        others = profile_settings(profile)
        assert "-XX:TieredStopAtLevel=1" in others["spark.driver.extraJavaOptions"].split()
        assert "spark.default.parallelism" not in others


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    """S4-54: before anything is started."""
    with pytest.raises(ks.errors.ConfigError, match='no profile "produktion"') as raised:
        profile_settings("produktion")
    assert 'did you mean "production"?' == raised.value.hint


@pytest.mark.spark
def test_hadoop_notes_no_origins_and_keeps_its_settings(spark: SparkSession) -> None:
    """S0-06: what each batch of a level with state is packed with has the same settings, without the notes."""
    session = query_session(spark)
    settings = session._jsparkSession.sessionState().newHadoopConf()
    before = session.sparkContext._jsc.hadoopConfiguration()
    assert settings.size() >= before.size() > 100
    assert settings.getPropertySources("hadoop.security.authentication") is None
    assert "simple" == settings.get("hadoop.security.authentication")


@pytest.mark.spark
def test_a_session_says_what_it_runs_with() -> None:
    """S4-54: in a process of its own, as a session that is there keeps its settings; asked of the JVM itself, too."""
    program = """
import kstreamnb as ks
spark = ks.spark.spark_session("mine", profile="production")
print(ks.spark.spark_report())
runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
print("jvm:", *[each for each in runtime.getInputArguments() if each.startswith(("-Xm", "-XX:+UseG1"))])
spark.stop()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    lines = done.stdout.splitlines()
    assert "spark.driver.memory = 2g" in lines
    (options,) = [line for line in lines if line.startswith("spark.driver.extraJavaOptions = ")]
    assert options.endswith("-Xms2g -XX:+UseG1GC")  # Spark puts its own before
    (jvm,) = [line for line in lines if line.startswith("jvm:")]
    assert {"-Xms2g", "-Xmx2g", "-XX:+UseG1GC"} <= set(jvm.split())
