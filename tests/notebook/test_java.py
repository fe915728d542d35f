"""Java beside the Python of the course: it compiles, and its topologies equal the notebook's, byte for byte."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import nbformat
import pytest

from tests.notebook.shells import loaded_shell

FOLDER = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
REPOSITORY = Path.home() / ".m2" / "repository"
JARS = (
    "org/apache/kafka/kafka-streams/4.*/kafka-streams-4.*.jar",
    "org/apache/kafka/kafka-clients/4.*/kafka-clients-4.*.jar",
    "com/fasterxml/jackson/core/jackson-*/*/jackson-*.jar",
    "org/slf4j/slf4j-api/*/slf4j-api-*.jar",
)

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

_IMPORTS = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;
"""
_MAIN = """
public class Describe {
    public static void main(String[] chapters) throws Exception {
        for (String chapter : chapters)
            for (java.lang.reflect.Method method : Class.forName(chapter).getDeclaredMethods())
                if (method.getReturnType().getSimpleName().equals("Topology"))
                    System.out.println("@" + chapter + "." + method.getName() + "\\n"
                        + ((org.apache.kafka.streams.Topology) method.invoke(null)).describe());
    }
}
"""


def java_of(chapter: str) -> list[str]:
    """Return the Java blocks of a chapter."""
    cells = nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    return [block for text in texts for block in re.findall(r"```java\n(.*?)```", text, re.DOTALL)]


def methods(chapter: str) -> list[str]:
    """Return the names of the methods that build a topology."""
    return [name for block in java_of(chapter) for name in re.findall(r"static Topology (\w+)\(\)", block)]


@cache
def described_in_java(folder: Path) -> dict[str, str]:
    """Compile the Java of all chapters, and return each description by chapter and method."""
    classes = {f"Chapter{chapter}": java_of(chapter) for chapter in CHAPTERS}
    for name, blocks in classes.items():
        text = _IMPORTS + f"public class {name} {{\n" + "\n".join(blocks) + "\n}\n"
        (folder / f"{name}.java").write_text(text, encoding="utf-8")
    (folder / "Describe.java").write_text(_MAIN, encoding="utf-8")
    jars = [str(path) for pattern in JARS for path in sorted(REPOSITORY.glob(pattern))]
    path = ":".join([str(folder), *jars])
    files = [str(file) for file in sorted(folder.glob("*.java"))]
    compiled = subprocess.run(
        ["javac", "-nowarn", "-cp", path, "-d", str(folder), *files], capture_output=True, text=True
    )
    assert compiled.returncode == 0, compiled.stderr
    program = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", path, "Describe", *classes]
    printed = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"(?m)^@Chapter(\S+)\n", printed)[1:]
    return {name: text.rstrip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


@cache
def described_in_python(chapter: str) -> dict[str, str]:
    """Run a chapter, and return the description of the variable or function with each method's name."""
    found = {}
    with loaded_shell() as shell:
        for cell in nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells:
            if cell.cell_type == "code":
                shell.ip.run_cell(cell.source, store_history=True).raise_error()
        for method in methods(chapter):
            made = shell.value(re.sub(r"(?=[A-Z])", "_", method).lower())
            found[method] = str((made() if callable(made) else made).describe()).rstrip()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for classes."""
    if shutil.which("javac") is None or not list(REPOSITORY.glob(JARS[0])):
        pytest.skip(
            "needs a JDK, and Kafka Streams in Maven's repository: mvn -f tests/java/pom.xml dependency:resolve"
        )
    return tmp_path_factory.mktemp("java")


@pytest.mark.parametrize("chapter", [chapter for chapter in CHAPTERS if methods(chapter)])
def test_the_java_of_a_chapter_makes_its_topologies(chapter: str, folder: Path) -> None:
    """Names, numbers, stores and topics of every node are equal."""
    actual = described_in_java(folder)
    for method, expected in described_in_python(chapter).items():
        assert actual[f"{chapter}.{method}"] == expected


def test_java_stands_beside_python_folded() -> None:
    """Every chapter with a topology has Java; each block is inside a details element."""
    for chapter in CHAPTERS:
        cells = nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells
        texts = [cell.source for cell in cells if "```java" in cell.source]
        assert texts or not any("StreamsBuilder(" in cell.source for cell in cells)
        assert all(text.startswith("<details><summary>The same in Java</summary>") for text in texts)
