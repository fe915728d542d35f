"""The demo without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_without_java_the_driver_runs_and_the_text_says_what_was_left_out(tmp_path: Path) -> None:
    """Exit code 0, the figures of the driver, and how to enable the rest."""
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "kstreamnb", "demo", "--limit", "2000"],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "skipped: Spark and Kafka; no Java was found" in done.stdout
    assert "default-jre-headless" in done.stdout
    assert "5,338 records in" in done.stdout
    assert "agree on" not in done.stdout
