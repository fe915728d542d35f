"""mypy and basedpyright find the planted mistakes of `programs`, and no others; public names have their real types."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("programs.py")
REVEALED = {
    "ks.deploy": "def (",
    "ks.KStream.filter": "KStream[",
    "ks.Query.store": "def (",
    "ks.KStream[str, int].join": "Overload",
    "ks.Materialized.as_": "Materialized",
    "ks.Consumed().with_name": "(str) -> ",
    "ks.TopologyTestDriver": "Topology",
    "ks.replay": "Replay",
    "ks.run": "def (",
    "ks.ProcessorContext[str, int].forward": "Record[str, int]",
    "ks.Processor[str, int, str, float]().context": "ProcessorContext[str, float]",
    "ks.Serdes.long()": "Serde[int]",
    "ks.Serdes.list_serde(ks.Serdes.string())": "Serde[list[str | None]]",
    "ks.Serdes.serde_from(str.encode, bytes.decode)": "Serde[str]",
}
"""Expressions, and a part of the type that a checker shows for each."""

BUILT = {
    'ks.StreamsBuilder().stream("in")': "KStream[Any, Any]",
    'ks.StreamsBuilder().stream("in", value_serde="long")': "KStream[Any, Any]",
    'ks.StreamsBuilder().stream("in", value_serde=ks.Serdes.long())': "KStream[Any, int]",
    'ks.StreamsBuilder().stream("in", ks.Consumed.with_(ks.Serdes.string(), ks.Serdes.long()))': "KStream[str, int]",
    'ks.StreamsBuilder().table("in", key_serde=ks.Serdes.string(), store="rows")': "KTable[str, Any]",
    'ks.StreamsBuilder().global_table("in", value_serde=ks.Serdes.uuid())': "GlobalKTable[Any, UUID]",
}
"""The types that a builder returns for these serdes."""

Messages = dict[str, list[tuple[int, str]]]
Diagnostics = dict[str, list[dict[str, object]]]
Revealed = Callable[[str], tuple[list[str], list[str]]]

pytestmark = pytest.mark.slow


def planted() -> dict[int, str]:
    """The lines of the file with a planted mistake."""
    lines = enumerate(PROGRAMS.read_text().splitlines(), start=1)
    return {number: line.split("# error: ")[1] for number, line in lines if "# error: " in line}


def run(*command: str) -> str:
    """The output of a tool, in the folder of the project."""
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout


def revealing(expressions: Iterable[str], path: Path) -> Path:
    """Write a program that asks a checker for the types of expressions."""
    path.write_text("import kstreamnb as ks\n" + "".join(f"reveal_type({each})\n" for each in expressions))
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """All programs of these tests: each checker reads the package and its libraries once for all of them."""
    folder = tmp_path_factory.mktemp("programs")
    return [PROGRAMS, revealing(REVEALED, folder / "revealed.py"), revealing(BUILT, folder / "built.py")]


@pytest.fixture(scope="module")
def by_mypy(files: list[Path]) -> Messages:
    """Lines and messages of mypy by file, independent of the project's own settings."""
    options = ("--strict", "--config-file=", "--no-pretty", "--hide-error-context", "--show-absolute-path")
    found: Messages = {}
    for line in run("mypy", *options, *map(str, files)).splitlines():
        if said := re.fullmatch(r"(.+\.py):(\d+): (.*)", line):
            found.setdefault(Path(said[1]).name, []).append((int(said[2]), said[3]))
    return found


@pytest.fixture(scope="module")
def by_pyright(files: list[Path]) -> Diagnostics:
    """Messages of basedpyright by file, with pyright's standard rules."""
    config = files[-1].with_name("pyrightconfig.json")
    settings = {"include": [*map(str, files)], "typeCheckingMode": "standard", "extraPaths": [str(ROOT)]}
    config.write_text(json.dumps({**settings, "pythonVersion": "3.11"}))
    output = run("basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(config))
    found: Diagnostics = {}
    for each in json.loads(output)["generalDiagnostics"]:
        found.setdefault(Path(each["file"]).name, []).append(each)
    return found


def line_of(diagnostic: dict[str, object]) -> int:
    """Return the first line of a diagnostic, counted from 1."""
    where = diagnostic["range"]
    assert isinstance(where, dict)
    return int(where["start"]["line"]) + 1


def test_there_are_forty_programs_with_a_mistake_each() -> None:
    """Every program has one planted mistake."""
    assert len(planted()) == 40
    assert len(re.findall(r"^def p\d\d_", PROGRAMS.read_text(), re.MULTILINE)) == 40


def test_mypy_finds_the_planted_mistakes_and_no_others(by_mypy: Messages) -> None:
    """With --strict."""
    found = {line for line, message in by_mypy[PROGRAMS.name] if message.startswith("error")}
    assert {n: text for n, text in planted().items() if n not in found} == {}, "not found"
    assert found - set(planted()) == set(), "found besides"


def test_basedpyright_finds_the_planted_mistakes_and_no_others(by_pyright: Diagnostics) -> None:
    """Errors, by pyright's standard rules."""
    found = {line_of(each): each["message"] for each in by_pyright[PROGRAMS.name] if each["severity"] == "error"}
    assert {n: text for n, text in planted().items() if n not in found} == {}, "not found"
    assert {n: text for n, text in found.items() if n not in planted()} == {}, "found besides"


@pytest.fixture
def revealed(by_mypy: Messages, by_pyright: Diagnostics) -> Revealed:
    """Return a function that reads what mypy and basedpyright say of the types of the expressions in a file."""

    def read(file: str) -> tuple[list[str], list[str]]:
        messages = [str(each["message"]) for each in by_pyright[file] if each["severity"] == "information"]
        return [text.split('"', 1)[1] for _, text in by_mypy[file] if "Revealed type" in text], messages

    return read


def test_serdes_give_what_a_builder_returns_its_types(revealed: Revealed) -> None:
    """Of keys and values, by keyword and by `Consumed.with_`; the names of serdes are texts, which have no types."""
    for shown in revealed("built.py"):
        types = [each.rstrip('"').rpartition(' "')[2].replace("uuid.UUID", "UUID") for each in shown]
        assert list(BUILT.values()) == [each.rpartition(".")[2] for each in types]


def test_public_names_have_their_real_types(revealed: Revealed) -> None:
    """Neither mypy nor basedpyright reveals Any for these names."""
    by_mypy, by_pyright = revealed("revealed.py")
    assert len(by_mypy) == len(by_pyright) == len(REVEALED)
    for (name, part), shown in zip(REVEALED.items(), by_mypy, strict=True):
        assert part in shown, f"{name}: {shown}"
    assert [text for text in by_pyright if re.search(r' is "(Any|Unknown)"', text)] == []
