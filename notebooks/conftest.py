"""Under pytest, notebooks that start Spark or Kafka are left out where there is no Java, and the summary says so."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_STARTS_JAVA = ("ks.spark.spark_session(", "ks.kafka.local_broker(")
_home = os.environ.get("JAVA_HOME")
_java = shutil.which("java", path=f"{_home}/bin") if _home else shutil.which("java")

collect_ignore = (
    []
    if _java
    else sorted(
        str(path)
        for path in Path(__file__).parent.rglob("*.ipynb")
        if any(word in path.read_text(encoding="utf-8") for word in _STARTS_JAVA)
    )
)


def pytest_terminal_summary(terminalreporter: object) -> None:
    """Name what was left out."""
    for path in collect_ignore:
        terminalreporter.write_line(f"left out, needs Java 17 or later: {Path(path).name}")  # type: ignore[attr-defined]
