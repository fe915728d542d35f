"""Handlers of the signals that ask a process to end while it waits for a query."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def asked_to_end() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set, in place of their usual effects; only in the main thread.

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
    before = {number: signal.signal(number, lambda *_: asked.set()) for number in _SIGNALS}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
