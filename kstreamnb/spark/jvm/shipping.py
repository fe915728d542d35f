"""Sends the kit and the user's modules to the executors of a cluster, and checks what else they need."""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeAlias
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from py4j.protocol import Py4JError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kstreamnb.core.arguments import expect
from kstreamnb.core.formatting import join_list
from kstreamnb.data_files import rows_of
from kstreamnb.errors import ConfigError, SparkError
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.spark.jvm import executor_probe
from kstreamnb.spark.jvm.executors import warn_without_executors
from kstreamnb.spark.jvm.session import is_local, require_session

Module: TypeAlias = str | Path | ModuleType
"""A module or package: its name, its file or folder, or the module itself."""

_KIT = "kstreamnb"
_PURE = ("cloudpickle",)
_COMPILED = dict(rows_of(__package__, "distributions.tsv"))
"""Names of distributions that executors need, by the module that they import."""

_NO_PYTHON = "Cannot run program "
_END_OF_PYTHON = "PYTHONPATH was:"  # after the traceback of a worker that did not start
_PACK = (
    "install them for that Python on every machine; or pack an environment: pip install venv-pack in one that has "
    'kstreamnb[spark,kafka], venv-pack -o environment.tar.gz, and start the session with settings={"spark.archives": '
    '"environment.tar.gz#environment", "spark.pyspark.python": "./environment/bin/python"}'
)


class ExecutorPython(NamedTuple):
    """The Python of one executor."""

    host: str
    python: str
    version: str
    missing: tuple[str, ...]


def ship(spark: SparkSession, *modules: Module) -> tuple[str, ...]:
    """Send kstreamnb and the user's modules to all executors, and to the process that plans the source's batches.

    Call it once per session, before `run` or `deploy`. Only what executors lack is sent; kstreamnb is not sent if they
    have the same version. Compiled packages cannot be sent; if executors lack some, the error says which, and how to
    pack an environment.

    Args:
        spark: the session.
        modules: the user's modules that functions of the topology come from: names such as ``"prices"``, modules, or
            paths of files and packages. Functions defined in notebooks and scripts need not be sent.

    Returns:
        The names of what was sent; if executors are threads on this machine, only modules.

    Raises:
        SparkError: a machine has no Python where the session says that it is.
        SparkError: executors lack compiled packages, or run another version of Python.
        ConfigError: a module does not exist.

    Example:
        >>> from kstreamnb.spark import spark_session
        >>> ship(spark_session("examples"))
        ()
    """
    session = require_session(spark)
    sources = [_source(module) for module in modules]
    if not is_local(session):
        executors = _executors(session)
        _refuse_other_pythons(executors)
        missing = {name for executor in executors for name in executor.missing}
        _refuse_missing(executors, missing)
        sources = [*(_source(name) for name in (_KIT, *_PURE) if name in missing), *sources]
    context = session.sparkContext
    for source in sources:
        context.addPyFile(file := str(_packed(source)))
        # Spark sends files to executors only: the process that plans batches, on this machine, gets the path.
        paths = [file, context.environment.get("PYTHONPATH")]  # an empty entry would be the working directory
        context.environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    return tuple(source.stem for source in sources)


def _executors(session: SparkSession) -> list[ExecutorPython]:
    """Ask the Python of each slot for what it cannot import."""
    context = session.sparkContext
    names = [_KIT, *_PURE, *_COMPILED]
    slots = 2 * context.defaultParallelism
    cloudpickle.register_pickle_by_value(executor_probe)
    try:
        rows = context.parallelize(range(slots), slots).mapPartitions(lambda _: executor_probe.missing_modules(names))
        with warn_without_executors(session):
            return sorted({ExecutorPython(*row) for row in rows.collect()})
    except (PySparkException, Py4JError) as error:
        text = str(error)
        if _NO_PYTHON in text:
            path = text.partition(_NO_PYTHON)[2].split('"')[1]
            detail = f"the driver runs {sys.executable}, and the session sends that path to the executors"
            hint = 'name theirs: settings={"spark.pyspark.python": "/path/on/the/executors"}, or PYSPARK_PYTHON'
            raise SparkError(f'the executors have no Python "{path}"', detail=detail, hint=hint) from None
        answer, of_python, _ = text.partition(_END_OF_PYTHON)
        lines = [line.strip() for line in answer.splitlines() if line.strip()] or [type(error).__name__]
        fact = "the executors could not be asked for their packages"
        raise SparkError(fact, detail=lines[-1] if of_python else lines[0], hint="see the log of an executor") from None
    finally:
        cloudpickle.unregister_pickle_by_value(executor_probe)


def _refuse_other_pythons(executors: Iterable[ExecutorPython]) -> None:
    """Raise SparkError if an executor's Python cannot read what this one pickles."""
    own = "{}.{}".format(*sys.version_info)
    for executor in executors:
        if executor.version.rpartition(".")[0] != own:
            fact = f"the executors run Python {executor.version}, and this is Python {own}"
            hint = 'give both the same version: settings={"spark.pyspark.python": …} names that of the executors'
            raise SparkError(fact, detail=f"{executor.python} on {executor.host}", hint=hint)


def _refuse_missing(executors: Iterable[ExecutorPython], missing: set[str]) -> None:
    lacking = [_COMPILED[name] for name in _COMPILED if name in missing]
    if lacking:
        first = next(executor for executor in executors if set(executor.missing) & _COMPILED.keys())
        detail = f"{first.python} on {first.host} cannot import it; compiled packages cannot be sent as files"
        raise SparkError(f"the executors have no {join_list(lacking)}", detail=detail, hint=_PACK)


def _source(module: Module) -> Path:
    """Return the file of a module, or the folder of a package."""
    expect(module, Module, "each module")
    if isinstance(module, ModuleType):
        module = module.__name__
    if isinstance(module, Path) or module.endswith(".py") or "/" in module:
        path = Path(module)
        if path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file():
            return path.resolve()
        fact = f'"{path}" is neither a Python file nor a package'
        raise ConfigError(fact, hint="pass a module, its name or its path")
    name = module.partition(".")[0]  # a package is sent as a whole
    spec = find_spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise ConfigError(f'no file was found for Python module "{name}"', hint="pass the path of its file or package")
    origin = Path(spec.origin)
    return origin.parent if origin.name == "__init__.py" else origin


def _packed(source: Path) -> Path:
    """Return a zip file with a module; its name has a checksum, for Spark sends a name only once."""
    content = [(name, path.read_bytes()) for name, path in sorted(_entries(source))]
    checksum = 0
    for name, data in content:
        checksum = zlib.crc32(data, zlib.crc32(name.encode(), checksum))
    target = temp_dir("ship") / f"{source.stem}-{checksum:08x}.zip"
    with ZipFile(target, "w", ZIP_DEFLATED) as file:
        for name, data in content:
            file.writestr(ZipInfo(name), data)
    return target


def _entries(source: Path) -> Iterator[tuple[str, Path]]:
    if source.is_file():
        yield source.name, source
        return
    for path in source.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(source.parent).as_posix(), path
