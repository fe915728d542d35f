"""The demo without Java, and the differences it reports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kstreamnb.tools.demo import differences


def test_without_java_the_driver_runs_and_the_text_says_what_was_left_out(tmp_path: Path) -> None:
    """Exit code 0, the figures of the driver, and how to enable the rest."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kstreamnb.cli", "demo", "--limit", "2000"],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "skipped: Spark and Kafka need Java 17 or later, and none was found" in done.stdout
    assert "default-jre-headless" in done.stdout
    assert "5,338 records in" in done.stdout
    assert "are equal" not in done.stdout


def test_a_difference_names_topic_partition_and_the_first_record() -> None:
    """A changed record, a missing one and a missing partition are three differences."""
    one = {("out", 0): [("a", 1, 5, ()), ("b", 2, 6, ())], ("out", 1): [("c", 3, 7, ())]}
    assert differences(one, one) == []
    changed = {**one, ("out", 0): [("a", 1, 5, ()), ("b", 3, 6, ())]}
    assert differences(one, changed) == ["out-0: record 1"]
    assert differences(one, {("out", 0): one["out", 0]}) == ["out-1: 1 and 0 records"]
