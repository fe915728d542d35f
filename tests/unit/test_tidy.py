"""House rules as a test: sizes, docstrings, banned calls, lines of the spine."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "kstreamnb"
SPINE = ("core", "topology", "operators", "logical", "dsl", "state", "runtime")
SPINE_LINES = 12_200
MODULE_LINES, FUNCTION_LINES, CLASS_METHODS = 375, 60, 12  # lines without docstrings

# Fronts list the methods users call: their size is that of Kafka Streams' own interfaces. The list may only shrink.
FRONTS: dict[str, str] = {
    "Sample": "samples from six places, to four, and the functions that make one from another",
    "BindContext": "all that a node may ask of its task: one contract, so that operators know nothing else",
    "TopologyTestDriver": "Kafka's test driver: a getter for each kind of store, and the topics",
    "Stores": "Kafka's Stores: a method for each kind of store",
    "Topology": "Kafka's Topology: five ways to add a node and what can be computed from them",
}

BANNED_CALLS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.perf_counter",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "uuid.uuid4",
    "uuid.uuid1",
    "os.urandom",
    "hash",
}
BANNED_IMPORTS = {"random", "secrets"}
SEEDED = {"Random"}
"""A generator that the caller seeds: the same seed gives the same run. The module's own functions stay banned."""

MODULES = sorted(ROOT.rglob("*.py"))
# Not part of the spine, but deterministic too.
BESIDE = (
    "recording",
    "testdriver",
    "replays",
    "validation",
    "simulation",
)
PACKAGES: dict[str, list[Path]] = {}
"""Modules by the package that they are in."""
for _path in MODULES:
    PACKAGES.setdefault(_path.relative_to(ROOT).parts[0].removesuffix(".py"), []).append(_path)


def name_of(path: Path) -> str:
    """A module's path inside the package."""
    return str(path.relative_to(ROOT))


def is_overload(node: ast.AST) -> bool:
    """Return whether a function is a signature for type checkers, without code."""
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "overload" for each in node.decorator_list)


def code_lines(path: Path) -> int:
    """Count lines that hold code: no blank lines, comments, docstrings or overloads."""
    text = path.read_text()
    held: set[int] = set()
    skip = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skip:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if is_overload(node):
            held.difference_update(range(node.decorator_list[0].lineno, (node.end_lineno or 0) + 1))
        if isinstance(body, list) and body and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            first = body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is not ...:
                held.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(held)


def is_method(function: ast.FunctionDef) -> bool:
    """Return whether a function is a public method; for its users a property is an attribute."""
    accessors = {"property", "setter", "cached_property"}
    decorators = {ast.unparse(d).split(".")[-1] for d in function.decorator_list}
    return not function.name.startswith("_") and not accessors & decorators


def own_lines(function: ast.FunctionDef) -> int:
    """Count the lines of a function's body without its docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def docstring_lines(nodes: list[ast.AST]) -> int:
    """Count the lines of all docstrings of a module: every argument has its sentence there."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    documented = [node for node in nodes if isinstance(node, kinds) and ast.get_docstring(node) is not None]
    return sum((node.body[0].end_lineno or 0) - node.body[0].lineno + 1 for node in documented)


@pytest.fixture(scope="module")
def modules(request: pytest.FixtureRequest) -> dict[Path, list[ast.AST]]:
    """The modules of a package, with all nodes of each; parsed once, because pytest groups the tests of a package."""
    return {path: list(ast.walk(ast.parse(path.read_text()))) for path in PACKAGES[request.param]}


@pytest.mark.parametrize("modules", PACKAGES, indirect=True, scope="module")
def test_modules_fit_their_size_and_say_what_they_are_for(modules: dict[Path, list[ast.AST]]) -> None:
    """Modules are short and begin with a docstring."""
    found = []
    for path, nodes in modules.items():
        if (lines := len(path.read_text().splitlines()) - docstring_lines(nodes)) > MODULE_LINES:
            found.append(f"{name_of(path)}: {lines} lines")
        if not ast.get_docstring(nodes[0]):  # type: ignore[arg-type]
            found.append(f"{name_of(path)}: no docstring")
    assert found == []


@pytest.mark.parametrize("modules", PACKAGES, indirect=True, scope="module")
def test_functions_fit_on_a_screen_and_classes_stay_small(modules: dict[Path, list[ast.AST]]) -> None:
    """No function is longer than a screen, no class has more than a dozen public methods."""
    found = []
    for path, node in ((path, node) for path, nodes in modules.items() for node in nodes):
        if isinstance(node, ast.FunctionDef) and own_lines(node) > FUNCTION_LINES:
            found.append(f"{name_of(path)}: {node.name}: {own_lines(node)} lines")
        if isinstance(node, ast.ClassDef) and node.name not in FRONTS:
            methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and is_method(m) and not is_overload(m)]
            if len(methods) > CLASS_METHODS:
                found.append(f"{name_of(path)}: {node.name}: {len(methods)} methods")
    assert found == []


@pytest.mark.parametrize("modules", [*SPINE, *BESIDE], indirect=True, scope="module")
def test_the_spine_reads_no_clock_and_no_chance(modules: dict[Path, list[ast.AST]]) -> None:
    """Time, order and identity are inputs: no clock, randomness, builtin hash or set order."""
    assert [f"{name_of(path)}: {each}" for path, nodes in modules.items() for each in unrepeatable(nodes)] == []


def unrepeatable(nodes: list[ast.AST]) -> list[str]:
    """Return the lines of a module that read a clock, randomness, the builtin hash or the order of a set."""
    found = []
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in BANNED_CALLS:
            found.append(f"line {node.lineno}: {ast.unparse(node.func)}()")
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Random" and not node.args:
            found.append(f"line {node.lineno}: Random() without a seed")
        names = {alias.name for alias in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
        module = node.module if isinstance(node, ast.ImportFrom) else None
        if names & BANNED_IMPORTS or (module in BANNED_IMPORTS and names - SEEDED):
            found.append(f"line {node.lineno}: import")
        if isinstance(node, ast.For | ast.comprehension):
            source = node.iter
            is_set = isinstance(source, ast.Set | ast.SetComp) or (
                isinstance(source, ast.Call) and ast.unparse(source.func) in {"set", "frozenset"}
            )
            if is_set:
                found.append(f"line {source.lineno}: iterates over a set")
    return found


def test_no_module_is_unfinished() -> None:
    """No exception is swallowed silently, and no to-do is left."""
    words = ("TO" + "DO", "FIX" + "ME", "X" * 3)
    assert [f"{name_of(path)}: {word}" for path in MODULES for word in words if word in path.read_text()] == []


def test_the_spine_can_be_read_in_an_afternoon(record_property: pytest.RecordProperty) -> None:
    """S1-43: the core, with descriptions and labels of topologies and typed signatures, stays within its limit."""
    lines = {package: sum(map(code_lines, (ROOT / package).rglob("*.py"))) for package in SPINE}
    print(f"lines of code in the spine: {sum(lines.values())} of less than {SPINE_LINES}: {lines}")
    record_property("spine_lines", sum(lines.values()))
    assert sum(lines.values()) < SPINE_LINES


def test_no_two_tests_of_a_broker_share_a_topic_or_an_application() -> None:
    """The broker is shared: the second test would find the records, the partitions and the offsets of the first."""
    owners: dict[str, set[str]] = {}
    for path in sorted((ROOT.parent / "tests" / "kafka").glob("test_*.py")):
        for test in ast.parse(path.read_text()).body:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                for name in named(test):
                    owners.setdefault(name, set()).add(f"{path.name}::{test.name}")
    assert owners
    assert {} == {name: sorted(tests) for name, tests in owners.items() if len(tests) > 1}


def named(test: ast.FunctionDef) -> list[str]:
    """Literal names of the topics that a test fills, and of the applications that it makes."""
    kinds = {"fill": "topic", "counting": "application", "StreamsBuilder": "application"}
    found = list[str]()
    for node in ast.walk(test):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)) and node.args:
            kind = kinds.get(node.func.id if isinstance(node.func, ast.Name) else node.func.attr)
            if kind is not None and isinstance(node.args[0], ast.Constant):
                found.append(f"{kind} {node.args[0].value}")
    return found
