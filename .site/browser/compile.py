"""Compiles the modules that the kernel and a first chapter load, which takes a browser a third of the start.

Other modules stay sources, because the byte code of all would double what a visitor downloads. Modules of the standard
library go to the folder ``/library``, the others beside their sources.
"""

import importlib
import importlib.util
import json
import sys
from pathlib import Path
from py_compile import PycInvalidationMode, compile
from types import ModuleType

import pyodide_kernel

LIBRARY = "/lib/python314.zip/"


def compile_module(module: ModuleType) -> None:
    """Compile one module; the interpreter trusts the result without a look at the source."""
    file = getattr(module, "__file__", None) or ""
    if not file.endswith(".py") or not hasattr(module.__loader__, "get_data"):  # frozen in the interpreter
        return
    source, target = Path(file), importlib.util.cache_from_source(file)
    if file.startswith(LIBRARY):
        source = Path("/library", file.removeprefix(LIBRARY))
        target = f"{source}c"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(module.__loader__.get_data(file))
    compile(str(source), target, file, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    if file.startswith(LIBRARY):
        source.unlink()


for name in ("piplite.piplite", "ipywidgets", "kstreamnb"):
    importlib.import_module(name)
sys.stderr = sys.__stderr__  # the kernel keeps it for its page
pyodide_kernel.ipython_shell.send_comm = lambda *_: None
for cell in json.loads(Path("/notebook.ipynb").read_text(encoding="utf-8"))["cells"]:
    if cell["cell_type"] == "code":
        pyodide_kernel.ipython_shell.run_cell("".join(cell["source"])).raise_error()
for each in list(sys.modules.values()):
    compile_module(each)
