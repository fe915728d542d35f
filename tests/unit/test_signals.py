"""The signals that end a process, on every system and under nohup."""

from __future__ import annotations

import signal

import pytest

from kstreamnb.signals import asked_to_end, end_signals


def test_a_system_without_sighup_has_sigterm_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has none: the command line could not be imported there."""
    monkeypatch.delattr(signal, "SIGHUP")
    assert [signal.SIGTERM] == end_signals()
    with asked_to_end() as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked.is_set()


def test_a_closed_terminal_ends_a_process_unless_it_was_started_with_nohup() -> None:
    """It ignores the signal then, and so do the commands and a process that waits for a query."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        assert [signal.SIGTERM, signal.SIGHUP] == end_signals()
        with asked_to_end() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert asked.is_set()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        assert [signal.SIGTERM] == end_signals()
        with asked_to_end() as asked:
            signal.raise_signal(signal.SIGHUP)
            assert not asked.is_set()
        assert signal.SIG_IGN == signal.getsignal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
