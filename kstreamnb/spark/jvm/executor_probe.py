"""Facts of an executor's Python. Imports only the standard library, because it is sent to processes that may lack the
kit.
"""

from __future__ import annotations

import platform
import socket
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module


def missing_modules(names: Iterable[str]) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield host, path and version of this Python, and those modules that it cannot import.

    Example:
        >>> [(_, _, _, missing)] = missing_modules(["json", "no_such_module"])
        >>> missing
        ('no_such_module',)
    """
    missing = []
    for name in names:
        try:
            import_module(name)
        except ImportError:
            missing.append(name)
    yield socket.gethostname(), sys.executable, platform.python_version(), tuple(missing)
