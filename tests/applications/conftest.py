"""Modules of an application, which are imported from its folder as its service imports them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.applications import FOLDER


@pytest.fixture
def module(request: pytest.FixtureRequest) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a module of the application that the test's file is named after; forgets it after the test."""
    folder = FOLDER / request.path.stem.removeprefix("test_")
    sys.path.insert(0, str(folder))
    yield importlib.import_module
    sys.path.remove(str(folder))
    for path in Path(folder).glob("*.py"):
        sys.modules.pop(path.stem, None)
