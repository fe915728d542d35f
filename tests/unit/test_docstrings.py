"""Public docstrings follow the template: input and output, source, an example that runs."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb import dsl
from kstreamnb import operators as operator_room
from kstreamnb.dsl.declarations import Handle
from kstreamnb.dsl.keywords import documented_arguments
from kstreamnb.dsl.option_fields import Options
from tests.unit.public_names import is_internal, public_names, returned_classes

# `export` writes the cells of a notebook: outside one there is no example.
WITHOUT_EXAMPLE = {"notebook.export"}


def fronts() -> list[type[Handle]]:
    """Every handle class that users hold, in any module of the DSL."""
    modules = [importlib.import_module(f"kstreamnb.dsl.{module.name}") for module in pkgutil.iter_modules(dsl.__path__)]
    found = {name: value for module in modules for name, value in vars(module).items() if name in ks.__all__}
    return [value for value in found.values() if inspect.isclass(value) and issubclass(value, Handle)]


def operators() -> dict[str, dict[str, str]]:
    """Return the operators of every handle and of the builder, with their docstrings."""
    found = {}
    for front in fronts():
        methods = {name: inspect.getattr_static(front, name) for name in dir(front) if not hasattr(Handle, name)}
        found[front.__name__] = {
            name: inspect.getdoc(method) or ""
            for name, method in methods.items()
            if not name.startswith("_") and inspect.isfunction(method)
        }
    names = ("stream", "table", "global_table", "add_state_store", "add_global_store")
    found["StreamsBuilder"] = {name: inspect.getdoc(getattr(ks.StreamsBuilder, name)) or "" for name in names}
    return found


OPERATORS = operators()


def test_the_operators_of_every_front_are_looked_at() -> None:
    """The list is found by introspection: it contains Kafka's interfaces, streams, tables and grouped ones."""
    assert {"KStream", "KTable", "KGroupedStream", "KGroupedTable", "TimeWindowedKStream", "CogroupedKStream"} <= {
        front.__name__ for front in fronts()
    }
    assert {"join", "process"} <= OPERATORS["KStream"].keys()
    assert "suppress" in OPERATORS["KTable"]
    assert "aggregate" in OPERATORS["KGroupedTable"]


@pytest.mark.parametrize("front", sorted(OPERATORS))
def test_operators_say_their_shape_and_their_source_and_show_an_example(front: str) -> None:
    """Shape: input and output; Source: Kafka's method, and the differences."""
    lacking = [
        f"{operator}: {section}"
        for operator, doc in OPERATORS[front].items()
        for section in ("Shape:", "Source:", ">>> ")
        if section not in doc and operator != "queryable_store_name"  # names the result: no data flows
    ]
    assert lacking == []


def documented(owner: object, doc: str | None) -> dict[str, list[str]]:
    """Return the arguments of a function or class without a sentence in its section "Args"."""
    entries = documented_arguments(doc)
    arguments = [each for each in inspect.signature(owner).parameters if each not in ("self", "cls")]  # type: ignore[arg-type]
    return {
        "missing": [name for name in arguments if name not in entries],
        "unknown": [name for name in entries if name not in arguments],
        "short": [name for name, text in entries.items() if len(text) < 8],
    }


DOCUMENTED = {"missing": [], "unknown": [], "short": []}


@pytest.mark.parametrize("front", sorted(OPERATORS))
def test_operators_document_every_argument(front: str) -> None:
    """Including those that they take as keywords of an option object; a default is stated if there is one."""
    kind = getattr(ks, front)
    found = {operator: documented(getattr(kind, operator), doc) for operator, doc in OPERATORS[front].items()}
    assert {operator: arguments for operator, arguments in found.items() if arguments != DOCUMENTED} == {}


@pytest.mark.parametrize("name", ["__init__", "build", "explain", "forget"])
def test_the_builder_documents_every_argument(name: str) -> None:
    """Settings of the builder itself, and of its products."""
    method = ks.StreamsBuilder if name == "__init__" else getattr(ks.StreamsBuilder, name)
    assert documented(method, inspect.getdoc(method)) == DOCUMENTED


def option_classes() -> list[type[Options]]:
    """Every public option class."""
    classes = [getattr(ks, name) for name in ks.__all__ if inspect.isclass(getattr(ks, name, None))]
    return [each for each in classes if issubclass(each, Options)]


@pytest.mark.parametrize("kind", option_classes(), ids=lambda kind: kind.__name__)
def test_an_option_class_documents_every_setting_with_its_default(kind: type[Options]) -> None:
    """In its own section "Args", inherited settings too."""
    assert documented(kind, kind.__doc__) == DOCUMENTED
    entries = documented_arguments(kind.__doc__)
    assert [name for name, text in entries.items() if "Default: " not in text] == []


def test_the_option_classes_are_found() -> None:
    """All those of Kafka that the DSL has."""
    names = {each.__name__ for each in option_classes()}
    assert {"Consumed", "Materialized", "StreamJoined", "Suppressed", "BufferConfig", "Branched"} <= names


def test_every_processor_says_its_shape_and_its_source() -> None:
    """A value with ``bind`` in `kstreamnb.operators`; views of stores have no flow, but a source."""
    lacking = []
    for module in pkgutil.iter_modules(operator_room.__path__):
        for name, value in vars(importlib.import_module(f"kstreamnb.operators.{module.name}")).items():
            ours = inspect.isclass(value) and value.__module__.startswith("kstreamnb.operators")
            if ours and hasattr(value, "bind") and not name.startswith("_") and not name.endswith("View"):
                lacking += [f"{name}: {s}" for s in ("Shape:", "Source:") if s not in (value.__doc__ or "")]
    assert lacking == []


def test_no_example_shows_a_traceback() -> None:
    """The doctest of Python 3.11.2 ignores notes: an example catches its error and prints the relevant part."""
    root = Path(ks.__file__).parent
    assert [] == [path.name for path in root.rglob("*.py") if "Traceback (most recent" in path.read_text()]


def made_of(value: object) -> list[type]:
    """Return a class whose methods are checked; a front collects the classes of its operators."""
    if not inspect.isclass(value) or not issubclass(value, Handle):
        return [value] if inspect.isclass(value) else []
    return [kind for kind in value.__mro__ if issubclass(kind, Handle) and kind is not Handle]


def constructor(kind: type) -> type:
    """Return the class in whose docstring the arguments of a constructor are: the class itself, or where it is made."""
    if documented_arguments(kind.__doc__):
        return kind
    return next((each for each in kind.__mro__ if {"__init__", "__new__"} & vars(each).keys()), object)


def callables() -> Iterator[tuple[str, object, str | None]]:
    """Yield every public function, method and constructor of the kit, with its docstring."""
    for name, value in public_names().items():
        if inspect.isfunction(value):
            yield name, value, value.__doc__
        if not inspect.isclass(value):
            continue
        made = constructor(value)
        if made.__module__.startswith("kstreamnb"):
            yield name, made, made.__doc__
        for key in dir(value):
            method = inspect.unwrap(getattr(inspect.getattr_static(value, key), "__func__", getattr(value, key)))
            if not key.startswith("_") and inspect.isfunction(method) and method.__module__.startswith("kstreamnb"):
                yield f"{name}.{key}", getattr(value, key), inspect.getdoc(method)


def methods_of_results() -> Iterator[tuple[str, object, str | None]]:
    """Yield the methods of the objects that public calls return, with their docstrings."""
    for kind in returned_classes():
        for key in dir(kind):
            method = inspect.unwrap(getattr(found := inspect.getattr_static(kind, key), "__func__", found))
            ours = inspect.isfunction(method) and method.__module__.startswith("kstreamnb")
            if ours and not key.startswith("_") and not is_internal(kind, key):
                yield f"{kind.__name__}.{key}", getattr(kind, key), inspect.getdoc(method)


def test_the_results_of_public_calls_are_found() -> None:
    """Those of the driver, of a replay and of a query, and what is reached through them."""
    found = {kind.__name__: sources for kind, sources in returned_classes().items()}
    assert found["InputTopic"][0] == "TopologyTestDriver.create_input_topic"
    assert "Snapshot.store" in found["StoreTable"]
    assert {"OutputTopic", "Explanations", "Step", "QueryStatus", "LiveView", "SampleDescription"} <= found.keys()
    assert not {"Declaration", "Deployment", "KStream", "ConfigError"} & found.keys()


def described(doc: str | None) -> dict[str, str]:
    """Return the sentences on the arguments; those of a result may be in its section "Attributes"."""
    text = inspect.cleandoc(doc or "")
    return documented_arguments(text if "\nArgs:" in text else text.replace("Attributes:\n", "Args:\n"))


STATES_A_DEFAULT = re.compile(r"[Dd]efault|Required|not allowed")


def test_every_argument_of_every_public_name_is_documented_with_its_default() -> None:
    """Functions, methods and constructors alike; a result's constructor may document its fields as attributes."""
    wrong = []
    for name, value, doc in chain(callables(), methods_of_results()):
        entries, parameters = described(doc), inspect.signature(value).parameters  # type: ignore[arg-type]
        for argument, parameter in parameters.items():
            text = entries.get(argument, "")
            if argument not in ("self", "cls") and len(text) < 8:
                wrong.append(f"{name}: {argument} is not documented")
            elif text and parameter.default is not parameter.empty and not STATES_A_DEFAULT.search(text):
                wrong.append(f"{name}: the default of {argument} is not stated")
        is_result = "\nArgs:" not in inspect.cleandoc(doc or "")
        wrong += [f"{name}: has no argument {entry}" for entry in entries if entry not in parameters and not is_result]
    assert wrong == []


def test_every_public_name_shows_an_example() -> None:
    """In its own docstring, or in that of one of its methods."""
    lacking = set()
    for name, value in public_names().items():
        if inspect.isclass(value) or inspect.isfunction(value):
            members = [pair for kind in made_of(value) for pair in vars(kind).items()]
            docs = [inspect.getdoc(value), *(inspect.getdoc(m) for key, m in members if not key.startswith("_"))]
            if not any(">>> " in (doc or "") for doc in docs):
                lacking.add(name)
    assert lacking == WITHOUT_EXAMPLE


NO_VERB = re.compile(
    r"(?:the|an?|all|one|each|every|this|that|those|how|what|whether|why|where|who|no|none|key|node)\b|[`\d]", re.I
)
"""Beginnings of a docstring that describe a thing instead of an action."""
THIRD_PERSON = frozenset(
    {"Folds", "Joins", "Keeps", "Raises", "Replaces", "Runs", "Holds", "Marks", "Starts", "Increases"}
)
"""Verbs that end like plurals."""


def begins_with_a_verb(text: str) -> bool:
    word = re.split(r"[\s,.:;]", text, maxsplit=1)[0]
    return not NO_VERB.match(text) and (not re.fullmatch(r"[A-Z][a-z]+(?<!s)s", word) or word in THIRD_PERSON)


def test_the_docstring_of_a_function_begins_with_a_verb() -> None:
    """A property may be named by a noun; a function does something."""
    offenders = []
    for path in sorted(Path(ks.__path__[0]).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)):
                is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
                if not is_property and not begins_with_a_verb(text):
                    offenders.append(f"{path.name}:{node.lineno} {node.name}: {text.splitlines()[0]}")
    assert offenders == []


REFUSED_INSIDE = {"NotImplementedError", "_Refused", "AttributeError"}
"""Errors that a subclass prevents, that the function itself handles, or that Python's own protocol requires."""


def raised_by(function: object, owner: object) -> set[str]:
    """Return what a function raises by its own statements, or by those of the private functions that it calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))  # type: ignore[arg-type]
    names = {
        ast.unparse(node.exc).partition("(")[0] for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name.startswith("_"):
                called = getattr(function, "__globals__", {}).get(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name)) if name.startswith("_"):
                called = inspect.unwrap(getattr(getattr(owner, name, None), "__func__", getattr(owner, name, None)))
            case _:
                continue
        if inspect.isfunction(called):
            inner = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(called))))
            names |= {
                ast.unparse(each.exc).partition("(")[0] for each in inner if isinstance(each, ast.Raise) and each.exc
            }
    return names - REFUSED_INSIDE


def test_a_public_function_documents_the_errors_that_it_raises() -> None:
    """In a section "Raises"; checks of arguments by type, which all functions share, are described once."""
    owners, lacking, sentences = public_names(), [], []
    for name, value, doc in callables():
        text = inspect.cleandoc(doc or "")
        if "\nRaises:" in text or inspect.isclass(value):
            continue
        function = inspect.unwrap(getattr(value, "__func__", value))  # type: ignore[arg-type]
        if raised := raised_by(function, owners.get(name.rpartition(".")[0])):
            lacking.append(f"{name}: {', '.join(sorted(raised))}")
        sentences += [f"{name}: {line}" for line in text.splitlines() if re.search(r"\b[Rr]aises? `?\w+Error", line)]
    assert lacking == []
    assert sentences == []
