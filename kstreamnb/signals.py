"""Signals that ask a process to end, and a context that handles them while the process waits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def end_signals() -> list[signal.Signals]:
    """Return SIGTERM and SIGHUP; without SIGHUP if the system lacks it (Windows) or the process ignores it (nohup).

    Example:
        >>> signal.SIGTERM in end_signals()
        True
    """
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, hangup]


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and the signals of `end_signals` set, instead of their usual effects.

    Only the main thread handles signals.

    Example:
        >>> with asked_to_end() as asked:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     asked.is_set()
        True
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    handled = [signal.SIGINT, *end_signals()]
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in handled}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
