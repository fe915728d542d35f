"""Fails a test that leaves its process changed, because the next one in the same process would depend on it.

A fixture of several tests may change the process until it ends. Tests of Spark and Kafka are not compared.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

PATIENCE_S = 60.0
"""How long a thread may take to end on a busy machine after it was told to."""

_SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
_LASTING = ("kstreamnb-position", "kstreamnb-transaction")
"""Threads that do not end with a test: that of a worker's process, and calls of Kafka's client that nothing ends."""
_LEFT_OUT = ("PYTEST_CURRENT_TEST", "SQLITE_TMPDIR")
"""Variables that pytest sets for each test, and the package for its process before the first state on disk."""

_known: list[dict[str, object]] = []
"""The states with which the running tests are compared."""


def state() -> dict[str, object]:
    """Return what the tests of a process share, by name."""
    handlers = logging.getLogger("kstreamnb.query").handlers
    found: dict[str, object] = {
        "working directory": os.getcwd(),
        "sys.path": list(sys.path),
        "sys.excepthook": sys.excepthook,
        "time zone": time.tzname,
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "logging": (
            logging.root.level,
            logging.root.manager.disable,
            [each for each in handlers if not isinstance(each, logging.NullHandler)],  # an import adds one
        ),
    }
    found |= {f"handler of {number.name}": signal.getsignal(number) for number in _SIGNALS}
    found |= {f"variable {name}": value for name, value in os.environ.items() if name not in _LEFT_OUT}
    own = [each for each in threading.enumerate() if each.name.startswith("kstreamnb-") and each.name not in _LASTING]
    found |= {f"thread {each.name} {each.ident}": each.is_alive() for each in own}
    if module := sys.modules.get("kstreamnb.spark.query.active_queries"):
        found |= {f"query {each.application}": id(each) for each in module.active()}
    return found


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the names of what differs; threads that have ended are left out."""
    names = [name for name in before | after if before.get(name) != after.get(name)]
    return [name for name in names if name in after or not name.startswith("thread ")]


@contextmanager
def unchanged(patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Fail if the block changes the process; wait for threads of the package that end."""
    known = state()
    _known.append(known)
    try:
        yield
    finally:
        _known.remove(known)
    end = time.monotonic() + patience_s
    while (left := changes(known, state())) and all(name.startswith("thread ") for name in left):
        if time.monotonic() > end:
            break
        gc.collect()  # threads of a producer end with it, and a traceback may hold it in a circle of references
        time.sleep(0.01)
    assert not left, f"the test leaves its process changed: {', '.join(left)}"


@pytest.fixture(autouse=True)
def _process_is_left_as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """The first fixture that begins for a test, and so the last one that ends.

    Tests of Spark and Kafka share a session and its threads, which come and go with what the session does.
    """
    if any(map(request.node.get_closest_marker, ("spark", "kafka"))):
        yield
        return
    with unchanged():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
    """Accept the changes of a fixture that begins within a test and outlives it."""
    if fixturedef.scope == "function":
        return (yield)
    before = state()
    result = yield
    after = state()
    for name in changes(before, after):
        for known in _known:
            known.pop(name, None)
            known.update({name: after[name]} if name in after else {})
    return result
