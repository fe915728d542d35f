"""Loads applications, and functions of their settings, that the command's arguments name as ``module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import isfunction, ismodule, signature
from pathlib import Path
from traceback import format_exception
from types import TracebackType
from typing import Any, cast

import click

from kstreamnb.data_files import decoded
from kstreamnb.display.parser import parse_description
from kstreamnb.dsl.builder import StreamsBuilder
from kstreamnb.errors import ConfigError, KStreamError
from kstreamnb.hints import unknown
from kstreamnb.source_location import PACKAGE, origin_of
from kstreamnb.topology.topology import Topology
from kstreamnb.validation.config_file import read_settings, read_text

_MAY_NAME_CODE = "handler", "extractor", "serde"  # the ends of the settings' names
_FRAMES_BEFORE = "<frozen ", PACKAGE, *(str(Path(file).parent) for file in (click.__file__, importlib.__file__))


def load_application(application: str) -> Topology:
    """Load the topology of ``module:name`` or ``file.py:name``; a text file holds the description of a Java
    application. Errors of the package name the user's line.
    """
    with _users_code():
        return _loaded(application)


@contextmanager
def _users_code() -> Iterator[None]:
    """Give errors of the package the user's line; print others with their traceback from the user's first frame on."""
    try:
        yield
    except KStreamError as error:
        trace = _users_frames(error)
        error.at(None if trace is None else origin_of(trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        raise
    except Exception as error:
        text = "".join(format_exception(error.with_traceback(_users_frames(error))))
        click.echo(text, err=True, nl=False)
        raise click.exceptions.Exit(1) from error


def _loaded(application: str) -> Topology:
    path, name = _parts(application)
    if path == "-" or path.endswith(".txt"):
        return cast("Topology", parse_description(text_at(path)))  # it describes and draws itself as a topology does
    if not name:
        module = _module(path)
        found = vars(module).items()
        kinds = Topology, StreamsBuilder  # a topology goes before the builder that has built it
        named = ([each for each, value in found if isinstance(value, kind)] for kind in kinds)
        names = next(filter(None, named), [])
        if len(names) != 1:
            builders = [] if names else [each for each, value in found if _may_build(value, module)]
            detail = f"it has {', '.join(names) or 'none, nor a function that returns one'}"
            detail = f"it has none; a function may return one: {', '.join(builders)}" if builders else detail
            names = names or builders
            hint = f"name one, as in {path}:{names[0] if names else 'topology'}"
            raise ConfigError(f'"{path}" does not have one topology', detail=detail, hint=hint)
        name = names[0]
    value = _named(path, name)
    value = value() if callable(value) and not isinstance(value, StreamsBuilder) else value
    value = value.build() if isinstance(value, StreamsBuilder) else value
    if not isinstance(value, Topology):
        raise ConfigError(f'"{application}" is not a topology', detail=f'it is of type "{type(value).__name__}"')
    return value


def _parts(target: str) -> tuple[str, str]:
    """Return the path or module, and the name; the colon after the letter of a drive of Windows is in the path."""
    path, _, name = target.partition(":")
    if len(path) == 1 and name[:1] in ("/", "\\"):
        rest, _, name = name.partition(":")
        path = f"{path}:{rest}"
    return path, name


def _named(path: str, name: str) -> Any:
    module = _module(path)
    if not hasattr(module, name):
        known = [each for each, value in vars(module).items() if not each.startswith("_") and not ismodule(value)]
        raise unknown("name", f"{path}:{name}", [f"{path}:{each}" for each in known], error=ConfigError)
    return getattr(module, name)


def _may_build(value: object, module: object) -> bool:
    """Return whether a value is a function of this module that needs no arguments."""
    if not isfunction(value) or value.__module__ != getattr(module, "__name__", ""):
        return False
    return all(each.default is not each.empty for each in signature(value).parameters.values())


def _module(path_or_name: str) -> Any:
    if path_or_name.endswith(".py"):
        path = Path(path_or_name)
        if not path.is_file():
            raise ConfigError(f'file "{path_or_name}" does not exist')
        spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
        if spec is None or spec.loader is None:
            raise ConfigError(f'file "{path_or_name}" cannot be loaded')
        known = sys.modules.get(path.stem)
        if getattr(known, "__file__", None) == str(path.resolve()):
            return known
        folder = str(path.resolve().parent)  # for the modules beside it, also in Spark's workers on this machine
        sys.path.insert(0, folder)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    if path_or_name[:1] in ("", "."):  # such as a path without its ending, which Python takes for a relative import
        hint = "name a module such as shop.app, or a file such as ./app.py"
        raise ConfigError(f'module "{path_or_name}" does not exist', hint=hint)
    sys.path.insert(0, "")
    try:
        return importlib.import_module(path_or_name)
    except ModuleNotFoundError as error:
        if not f"{path_or_name}.".startswith(f"{error.name}."):  # one that the module imports
            raise
        raise ConfigError(f'module "{path_or_name}" does not exist', detail=str(error)) from error


def text_at(path: str) -> str:
    """Read the text of a file, or of standard input for "-"."""
    if path == "-":
        return decoded(sys.stdin.buffer.read())  # pipes of Windows have another default encoding
    if not Path(path).is_file():
        raise ConfigError(f'file "{path}" does not exist')
    return read_text(path)


def config_options(given: Sequence[str]) -> dict[str, Any]:
    """Return the settings of texts NAME=VALUE and files, by name; a later one wins.

    A handler, extractor or serde may be ``module:name`` or ``file.py:name``.
    """
    for each in given:
        if "=" not in each and not Path(each).is_file():
            raise click.BadParameter(f'"{each}" is neither NAME=VALUE nor a file', param_hint="--config")
    parts = (dict([each.split("=", 1)]) if "=" in each else read_settings(each) for each in given)
    settings = {name: value for part in parts for name, value in part.items()}
    for name, value in settings.items():
        if name.endswith(_MAY_NAME_CODE) and (named := _parts(str(value)))[1]:
            with _users_code():
                settings[name] = _named(*named)
    return settings


def _users_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error from the user's first frame on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_FRAMES_BEFORE):
        trace = trace.tb_next
    return trace
