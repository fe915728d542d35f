"""Limits that are reached with few records."""

from __future__ import annotations

import pytest

from kstreamnb.spark.execution import state_log, task_files


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compaction starts after a few entries and proceeds a few rows at a time."""
    monkeypatch.setattr(state_log, "_MOST_ENTRIES", 5)
    monkeypatch.setattr(state_log, "_PART_BYTES", 400)


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores on disk keep six rows in memory."""
    monkeypatch.setattr(task_files, "_MOST_ROWS", 6)
    monkeypatch.setattr(task_files, "_LEAST_ROWS", 6)
