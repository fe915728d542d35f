"""The structure of the package as figures, checked by ``make lint``: rooms, circles of imports, types, size, language.

``python -m tests.structure`` prints one line and fails if a limit is exceeded; ``-v`` names every offender.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kstreamnb"

MOST_CODE_LINES = 38_000
"""A ratchet, a little above the size of today; DECISIONS says why 24,000 cannot be reached."""
MOST_MODULES_IN_A_ROOM = 20
MOST_FILES_IN_A_CIRCLE = 6
MOST_ANY_PERCENT = 5

CAMEL = re.compile(r"_?[A-Z][a-z]")

IDIOMS = {
    "What … as the first word of a docstring": re.compile(r"\AWhat "),
    "Whether … as a label": re.compile(r"^\s*Whether [a-z ]+: ", re.MULTILINE),
    "anew": re.compile(r"\banew\b"),
    "whoever": re.compile(r"\bwhoever\b"),
    "beforehand": re.compile(r"\bbeforehand\b"),
    "let go of": re.compile(r"\blets? go of\b"),
    "of one's own": re.compile(r"\bof (one's|its|their) own\b"),
    "is no X": re.compile(r"(?<!there )\bis no (?!longer\b|more\b|less\b|later\b|earlier\b)[a-z]"),
    "take up": re.compile(r"\btakes? up\b"),
    "be told of": re.compile(r"\b(is|are|be) told\b"),
    "in the midst": re.compile(r"\bin the midst\b"),
    "so many": re.compile(r"\bso many\b"),
    "as far as": re.compile(r"\bas far as\b"),
    "goes on": re.compile(r"\bgo(es)? on\b"),
    "where for if": re.compile(
        r"\b(?:None|empty|False|True|else|only|except|even|nothing) where\b"
        r"|(?:^|[.,;:] )[Ww]here (?:there|nothing|none|neither|both|no|any)\b"
    ),
    "who for a component": re.compile(r"\bwhom?\b"),
    "lies or stands for is": re.compile(r"\b(?:lies?|lying|stands?|standing)\b(?! (?:for|by)\b)"),
    "by itself": re.compile(r"\bby (?:itself|themselves)\b"),
    "from … on": re.compile(
        r"\bfrom (?:now|then|there|here|(?:line )?\d+|(?:its|the|an?) [a-z]+(?: [a-z]+)?) on\b"
        r"(?! (?:the|an?|its|demand)\b)"
    ),
    "nothing is said": re.compile(r"\b(?:nothing|none|no [a-z]+) (?:is|are|was|were) said\b"),
}
"""Phrases of translated English; each is searched in docstrings and comments, and in other texts of the package."""

EXCEPTIONS = {
    "pass trust=True if you know who wrote the checkpoint": "a person",
    "global store: every task sees all of its topic, so it is kept apart and has no tasks of its own": "idiomatic here",
    "There is no concept of stream-time for a global processor.": "text of Kafka Streams",
}
"""Beginnings of texts that may contain an idiom, with the reason."""


@dataclass(frozen=True)
class Module:
    """A parsed module of the package."""

    name: str
    path: Path
    source: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The folder that the module is in."""
        return str(self.path.parent.relative_to(ROOT))


def modules(folder: Path = PACKAGE) -> dict[str, Module]:
    """Return every module of a package by its dotted name."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        source = path.read_text()
        found[name] = Module(name, path, source, ast.parse(source))
    return found


def imported(module: Module, known: Iterable[str]) -> set[str]:
    """Return the modules that a module imports: at the top, in functions, for type checkers, and by string."""
    known = set(known)

    def nearest(name: str) -> str:
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kstreamnb"):
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.startswith("kstreamnb"))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            names.add(node.value)
    return {nearest(name) for name in names} - {module.name, "kstreamnb", ""}


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components with more than one member, the largest first (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            at = stack.index(name)
            components.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for name in sorted(graph):
        if name not in number:
            visit(name)
    return sorted((each for each in components if len(each) > 1), key=len, reverse=True)


def room_circles(parsed: dict[str, Module], graph: dict[str, set[str]]) -> list[list[str]]:
    """Return circles of imports between rooms; a room may import the rooms inside it, and they it."""
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        for other in others:
            here, there = parsed[name].room, parsed[other].room
            if not (here.startswith(there) or there.startswith(here)):
                rooms[here].add(there)
    return circles(rooms)


def code_lines(module: Module) -> int:
    """Return how many lines hold code: no docstrings, imports, comments or blank lines."""
    left_out: set[int] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            left_out.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out.update(range(node.lineno, (node.end_lineno or 0) + 1))
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type not in layout:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - left_out)


def annotations(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every annotation of an argument, a result or a variable."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            yield node.lineno, ast.unparse(node.annotation)
        if isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.lineno, ast.unparse(node.returns)


def texts(module: Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of every docstring, comment and other string of a module; strings of tests are data."""
    if PACKAGE in module.path.parents:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value
    else:
        yield from docstrings(module.tree)
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")


def docstrings(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yield the line and docstring of a definition and of those directly within it."""
    yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
    for inner in node.body:
        if isinstance(inner, ast.ClassDef | ast.FunctionDef):
            yield from docstrings(inner)


def idioms(parsed: Collection[Module]) -> list[str]:
    """Return every text with a phrase of translated English, with its place."""
    return (
        [
            f"{module.path.relative_to(ROOT)}:{line}: {idiom}"
            for module in parsed
            for line, text in texts(module)
            for idiom, pattern in IDIOMS.items()
            if pattern.search(text) and not text.startswith(tuple(EXCEPTIONS))
        ]
        + [
            f"{module.path.relative_to(ROOT)}:{line}: Whether … of a function"
            for module in parsed
            for line in _whether(module)
        ]
        + [
            f"{path.relative_to(ROOT)}: {idiom}"
            for path in sorted(path for path in PACKAGE.rglob("*") if path.suffix in (".java", ".js", ".tsv"))
            for idiom, pattern in IDIOMS.items()
            if pattern.search(path.read_text())
        ]
    )


def _whether(module: Module) -> Iterator[int]:
    """Yield the lines of functions, properties aside, whose docstring begins with ``Whether`` instead of a verb."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef) or "property" in "".join(map(ast.unparse, node.decorator_list)):
            continue
        if (ast.get_docstring(node) or "").startswith("Whether "):
            yield node.lineno


def defined_types(module: Module) -> Iterator[str]:
    """Yield the names of a module's classes and type aliases; type variables do not count."""
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and "TypeAlias" in ast.unparse(node.annotation):
            yield ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name) and CAMEL.match(target.id))


def shared_class_names(parsed: Iterable[Module]) -> list[str]:
    """Return names of classes and type aliases, public or not, that several modules define."""
    defined: dict[str, list[str]] = defaultdict(list)
    for module in parsed:
        for name in defined_types(module):
            defined[name].append(module.name)
    return [f"{name}: {', '.join(where)}" for name, where in sorted(defined.items()) if len(where) > 1]


def report() -> tuple[str, dict[str, list[str]]]:
    """Return the figures in one line, and the offenders of every limit that is exceeded."""
    parsed = modules()
    graph = {name: imported(module, parsed) for name, module in parsed.items() if name != "kstreamnb"}
    lines = sum(map(code_lines, parsed.values()))
    rooms = Counter(module.room for module in parsed.values() if module.path.name != "__init__.py")
    room, size = rooms.most_common(1)[0]
    files, between = circles(graph), room_circles(parsed, graph)
    largest = len(files[0]) if files else 1
    annotated = [(module, line, text) for module in parsed.values() for line, text in annotations(module)]
    untyped = [f"{module.name}:{line}: {text}" for module, line, text in annotated if re.search(r"\bAny\b", text)]
    share = 100 * len(untyped) / len(annotated)
    phrases = idioms([*parsed.values(), *modules(ROOT / "tests").values()])
    shared = shared_class_names(parsed.values())
    line = (
        f"code lines {lines} (≤ {MOST_CODE_LINES}), biggest room {room} {size} (≤ {MOST_MODULES_IN_A_ROOM}), "
        f"largest circle {largest} files (≤ {MOST_FILES_IN_A_CIRCLE}), circles of rooms {len(between)} (0), "
        f"Any {share:.1f} % (≤ {MOST_ANY_PERCENT}), shared class names {len(shared)} (0), idioms {len(phrases)} (0)"
    )
    passed = {
        "code lines": [f"{lines}"] if lines > MOST_CODE_LINES else [],
        "rooms": [f"{name} {number}" for name, number in rooms.items() if number > MOST_MODULES_IN_A_ROOM],
        "circles of files": [" ".join(each) for each in files if len(each) > MOST_FILES_IN_A_CIRCLE],
        "circles of rooms": [" ".join(each) for each in between],
        "Any": untyped if share > MOST_ANY_PERCENT else [],
        "shared class names": shared,
        "idioms": phrases,
    }
    return line, {limit: offenders for limit, offenders in passed.items() if offenders}


def main() -> None:
    """Print the figures; with ``-v`` all offenders, otherwise the first of each limit."""
    line, offenders = report()
    print(f"structure: {line}")
    for limit, names in offenders.items():
        print(f"{limit}: {len(names)}")
        for name in names if "-v" in sys.argv else names[:5]:
            print(f"  {name}")
    sys.exit(bool(offenders))


if __name__ == "__main__":
    main()
