"""Starts background threads, reports the errors that end them, and waits for conditions."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable

from kstreamnb.hints import reason_of

_LOG = logging.getLogger("kstreamnb.background")  # without a handler, so that Python prints errors by default


def background(
    work: Callable[[], object], name: str, *, died: Callable[[BaseException], None] | None = None
) -> threading.Thread:
    """Start a daemon thread.

    Args:
        work: the thread's function.
        name: the name of the thread.
        died: called in the thread with the error that ended it, also with ``SystemExit``, which Python's threads
            ignore; by default the error is logged.

    Example:
        >>> errors = []
        >>> background(lambda: int("x"), "example", died=errors.append).join()
        >>> errors
        [ValueError("invalid literal for int() with base 10: 'x'")]
    """

    def run() -> None:
        try:
            try:
                work()
            except BaseException as error:
                if died is None:
                    raise
                died(error)
        except BaseException:  # the thread has no caller
            report(f'the thread "{name}" ended with an error')

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def clean_up(work: Callable[[], object]) -> None:
    """Start the end of what an interrupted call began in a thread, and wait for it for a moment only.

    Example:
        >>> clean_up(lambda: print("ended"))
        ended
    """
    background(work, "kstreamnb-clean-up").join(0.8)  # so that Ctrl-C takes no longer than two seconds


def wait_until(reached: Callable[[], object], seconds: float, *, pause_s: float = 0.02) -> bool:
    """Poll a condition until it holds or the time is over; return whether it holds.

    Example:
        >>> answers = iter([False, True])
        >>> wait_until(lambda: next(answers), 5), wait_until(lambda: False, 0)
        (True, False)
    """
    end = time.monotonic() + seconds
    while not (result := bool(reached())) and time.monotonic() < end:
        time.sleep(pause_s)
    return result


def report(what: str) -> None:
    """Log the current error of a thread that has no caller to raise it to, with its causes and the lines of code.

    Texts that may quote a record are left out, as in the log of queries; so are the values of variables.
    """
    from traceback import format_tb  # here, because it takes a quarter of the package's import

    error, parts = sys.exception(), dict[int, str]()
    while error is not None and id(error) not in parts:  # causes may form a circle
        parts[id(error)] = f"{reason_of(error)}\n{''.join(format_tb(error.__traceback__))}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    _LOG.error("%s: %s", what, "caused by ".join(parts.values()).rstrip())
