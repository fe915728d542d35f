"""Public names that are imported at their first use; a stub file beside the package is their only list.

Type checkers and editors read the stub, so that every public name has its real type, and `import kstreamnb` stays
cheap. (The library lazy_loader does the same for names inside one package; here, names come from other packages too.)
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pkgutil import get_data

from kstreamnb.errors import UnknownNameError, extra
from kstreamnb.hints import from_java

_SPARK = "kstreamnb.spark."


def lazy_names(
    package: str, file: str, extra_name: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package whose stub is beside ``file``.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``; the stub has the same name with the ending ``.pyi``.
        extra_name: the extra of the distribution that brings what the names need.
    """
    # By the loader: executors of a cluster import the kit from a zip file.
    stub = ast.parse(get_data(package, f"{file.rpartition(os.sep)[2].rpartition('.')[0]}.pyi") or b"")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: str(node.module) for node in imports for alias in node.names}

    def load(name: str) -> object:
        if name not in module_of:
            known = () if name.startswith("_") else module_of  # Python probes those
            spaces = [each for each in known if module_of[each] == package and not from_java(name, ())]
            holders = (each for each in spaces if name in dir(import_module(f"{package}.{each}")))
            raise UnknownNameError(package, name, known, next((f"ks.{each}.{name}" for each in holders), None))
        with extra("spark" if module_of[name].startswith(_SPARK) else extra_name):
            if module_of[name] == package:  # a sub-package
                return import_module(f"{package}.{name}")
            value: object = getattr(import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    # Tab and hints offer the names of the stub, and not what a module imports for its own use. Without Spark they leave
    # out names that need it: "import *" and help() load every name and stop at the first that fails.
    anyway = [name for name in module_of if not module_of[name].startswith(_SPARK)]
    offered = sorted(module_of if find_spec("pyspark") else anyway or module_of)
    return load, lambda: offered, offered
