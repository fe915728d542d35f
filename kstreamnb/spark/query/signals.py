"""Handlers of the signals that ask a process to end while it waits for a query."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set, instead of their usual effects; only in the main thread.

    SIGHUP, sent when a terminal closes, is not handled if the process ignores it, as with nohup.

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
    handled = [each for each in _SIGNALS if (each, signal.getsignal(each)) != (signal.SIGHUP, signal.SIG_IGN)]
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in handled}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
