"""Runs commands in the process of a test, and restores what they change until it ends."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kstreamnb.cli import main
from kstreamnb.signals import end_signals

_LOG = logging.getLogger("kstreamnb.query")


@contextmanager
def handlers_restored() -> Iterator[None]:
    """Restore the handlers of signals and of the log of queries, which a command sets until its process ends."""
    handlers = {number: signal.getsignal(number) for number in end_signals()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_LOG, "handlers", list(_LOG.handlers))
        try:
            yield
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def restored() -> Iterator[None]:
    """Restore where modules are found, too."""
    with pytest.MonkeyPatch.context() as patch, handlers_restored():
        patch.setattr(sys, "path", list(sys.path))
        patch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        yield


def invoke(arguments: Sequence[str], **options: Any) -> Result:
    """Run a command."""
    with restored():
        return CliRunner().invoke(main, arguments, **options)
