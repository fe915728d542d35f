"""A test that leaves its process changed fails, so that no later one does."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from tests.leaks import unchanged


def test_a_test_that_changes_its_process_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Later tests would find the variable, the working directory and the handler of signals."""

    def careless() -> None:
        monkeypatch.setenv("SHOP", "1")
        monkeypatch.chdir(tmp_path)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(AssertionError) as caught, unchanged():
            careless()
    finally:
        signal.signal(signal.SIGTERM, before)
    found = str(caught.value).partition(": ")[2].splitlines()[0]
    assert {"variable SHOP", "working directory", "handler of SIGTERM"} == set(found.split(", "))
    with pytest.raises(AssertionError, match="variable SHOP"), unchanged():
        monkeypatch.delenv("SHOP")


def test_a_thread_has_a_moment_to_end() -> None:
    """Threads may end after a test has told them to; others would run beside the next test."""
    told = threading.Event()
    waiting = threading.Thread(target=told.wait, name="kstreamnb-waiting")
    with pytest.raises(AssertionError, match="thread kstreamnb-waiting"), unchanged(patience_s=0.0):
        waiting.start()
    with unchanged():
        threading.Timer(0.05, told.set).start()
    waiting.join()
