"""Java beside the Python of the course: it compiles, its topologies equal the notebook's, byte for byte, and those of
some examples give the same results in the driver of Kafka Streams.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import nbformat
import pytest

import kstreamnb as ks
from tests.notebook.shells import loaded_shell

Row: TypeAlias = tuple[str, Any, Any, int]

FOLDER = Path(__file__).parents[2] / "notebooks"
CHAPTERS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
REPOSITORY = Path.home() / ".m2" / "repository"
JARS = (
    "org/apache/kafka/kafka-streams/4.*/kafka-streams-4.*.jar",
    "org/apache/kafka/kafka-clients/4.*/kafka-clients-4.*.jar",
    "org/apache/kafka/kafka-streams-test-utils/4.*/kafka-streams-test-utils-4.*.jar",
    "org/rocksdb/rocksdbjni/*/rocksdbjni-*.jar",
    "com/fasterxml/jackson/core/jackson-*/*/jackson-*.jar",
    "org/slf4j/slf4j-api/*/slf4j-api-*.jar",
)

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

_IMPORTS = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.*;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.Bytes;
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
_RUN = """
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.time.Instant;
import java.util.*;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.test.TestRecord;

public class Run {
    /** Any value, as Java serializes it. */
    public static class Values implements Serde<Object> {
        @Override
        public Serializer<Object> serializer() {
            return (topic, value) -> {
                if (value == null) return null;
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
                    out.writeObject(value);
                } catch (IOException error) {
                    throw new SerializationException(error);
                }
                return bytes.toByteArray();
            };
        }

        @Override
        public Deserializer<Object> deserializer() {
            return (topic, bytes) -> {
                if (bytes == null) return null;
                try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(bytes))) {
                    return in.readObject();
                } catch (IOException | ClassNotFoundException error) {
                    throw new SerializationException(error);
                }
            };
        }
    }

    private static Object value(JsonNode node) {
        return node.isNull() ? null : node.isInt() ? (Object) node.asInt() : node.isTextual() ? node.asText() : node;
    }

    public static void main(String[] names) throws Exception {
        Topology topology = (Topology) Class.forName(names[0]).getDeclaredMethod(names[1]).invoke(null);
        Properties settings = new Properties();
        settings.put("application.id", "app");
        settings.put("state.dir", names[2]);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Values.class);
        settings.put("statestore.cache.max.bytes", 0);
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        try (TopologyTestDriver driver = new TopologyTestDriver(topology, settings)) {
            for (String line; (line = in.readLine()) != null; ) {
                JsonNode row = json.readTree(line);
                driver.createInputTopic(row.get(0).asText(), new StringSerializer(), new Values().serializer())
                    .pipeInput(row.get(1).asText(), value(row.get(2)), Instant.ofEpochMilli(row.get(3).asLong()));
            }
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                if (topic.endsWith("-changelog") || topic.endsWith("-repartition")) continue;
                for (TestRecord<byte[], Object> each : driver.createOutputTopic(
                        topic, new ByteArrayDeserializer(), new Values().deserializer()).readRecordsToList())
                    System.out.println(json.writeValueAsString(Arrays.asList(
                        topic, HexFormat.of().formatHex(each.key()), each.value(), each.timestamp())));
            }
        }
    }
}
"""


class Example(NamedTuple):
    """A worked example: its chapter, a method of its Java, and an expression of the chapter for its input records."""

    row: str
    chapter: str
    method: str
    records: str


ORDERS = [
    *(ks.TopicRecord("product-catalog", 0, at, at, "p1", {"name": "shoe", "price": at}) for at in (100, 120)),
    *(ks.TopicRecord("orders", 0, n, 101 + n, f"order{n}", {"product": f"p{1 + 8 * (n % 2)}"}) for n in range(40)),
]
EXAMPLES = (
    Example("E21", "13_guarantees", "totals", "[('payments', *pair, 0) for pair in payments]"),
    Example("E22", "09_processor_api", "sorter", "rows([*disorder, *straggler])"),
    Example("E24", "08_captcha_tables", "catalog", "rows(sorted(ORDERS, key=lambda order: order.timestamp))"),
    Example("E25", "20_java_takeover", "dualWrite", "rows(payments)"),
    Example("E25", "20_java_takeover", "sums", "rows(live, 'copy')"),
    Example("E25", "20_java_takeover", "sums", "rows([each for each in live if each.value != 40], 'copy')"),
    Example("storms", "21_storms", "watchTopology", "rows(ks.course.atlantic_storms())"),
    Example("storms", "21_storms", "together", "rows(ks.course.atlantic_storms())"),
)


def rows(records: Iterable[ks.TopicRecord], topic: str = "") -> list[Row]:
    """Topic, key, value and time of records; all of one topic, if it is given."""
    return [(topic or each.topic, each.key, each.value, each.timestamp) for each in records]


def java_of(chapter: str) -> list[str]:
    """Return the Java blocks of a chapter."""
    cells = nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    return [block for text in texts for block in re.findall(r"```java\n(.*?)```", text, re.DOTALL)]


def methods(chapter: str) -> list[str]:
    """Return the names of the methods that build a topology."""
    return [name for block in java_of(chapter) for name in re.findall(r"static Topology (\w+)\(\)", block)]


def class_path(folder: Path) -> str:
    """Return the path of the compiled classes and of Kafka Streams."""
    return ":".join([str(folder), *(str(path) for pattern in JARS for path in sorted(REPOSITORY.glob(pattern)))])


def run_in_java(folder: Path, example: Example, given: list[Row]) -> list[list[Any]]:
    """Return what the driver of Kafka Streams writes: topic, bytes of the key, value and time."""
    described_in_java(folder)
    names = f"Chapter{example.chapter}", example.method, str(folder / "state")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    done = subprocess.run(
        ["java", quiet, "-cp", class_path(folder), "Run", *names],
        input="\n".join(map(json.dumps, given)),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_in_python(topology: ks.Topology, given: list[Row]) -> list[list[Any]]:
    """Return the same of the test driver."""
    with ks.TopologyTestDriver(topology) as driver:
        for topic, key, value, time in given:
            driver.create_input_topic(topic).pipe_input(key, value, at=time)
        inner = "-changelog", "-repartition"
        topics = sorted(topic for topic in driver.produced_topic_names() if not topic.endswith(inner))
        return [
            [topic, record.key.hex(), record.value, record.timestamp]
            for topic in topics
            for record in driver.create_output_topic(topic, key_serde="bytes").read_records()
        ]


def python_name(method: str) -> str:
    """Return the name in Python of a method in Java."""
    return re.sub(r"(?=[A-Z])", "_", method).lower()


@cache
def described_in_java(folder: Path) -> dict[str, str]:
    """Compile the Java of all chapters, and return each description by chapter and method."""
    classes = {f"Chapter{chapter}": java_of(chapter) for chapter in CHAPTERS}
    for name, blocks in classes.items():
        text = _IMPORTS + f"public class {name} {{\n" + "\n".join(blocks) + "\n}\n"
        (folder / f"{name}.java").write_text(text, encoding="utf-8")
    (folder / "Describe.java").write_text(_MAIN, encoding="utf-8")
    (folder / "Run.java").write_text(_RUN, encoding="utf-8")
    path = class_path(folder)
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
def variables(chapter: str) -> dict[str, Any]:
    """Return the variables of a chapter that has run."""
    with loaded_shell() as shell:
        for cell in nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells:
            if cell.cell_type == "code":
                shell.ip.run_cell(cell.source, store_history=True).raise_error()
        return dict(shell.ip.user_ns)


def built(chapter: str, method: str) -> ks.Topology:
    """Return the topology of a chapter, from the variable or the function with the method's name."""
    made = variables(chapter)[python_name(method)]
    topology: ks.Topology = made() if callable(made) else made
    return topology


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
    for method in methods(chapter):
        assert actual[f"{chapter}.{method}"] == str(built(chapter, method).describe()).rstrip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.row}: {example.method}")
def test_an_example_gives_the_results_of_its_java(example: Example, folder: Path) -> None:
    """Keys as bytes, values and times of every result in the driver of Kafka Streams, record by record."""
    given = eval(example.records, {**variables(example.chapter), "rows": rows, "ORDERS": ORDERS})
    expected = run_in_java(folder, example, given)
    assert len(expected) > 0
    assert run_in_python(built(example.chapter, example.method), given) == expected


def test_java_stands_beside_python_folded() -> None:
    """Every chapter with a topology has Java; each block is inside a details element."""
    for chapter in CHAPTERS:
        cells = nbformat.read(FOLDER / f"{chapter}.ipynb", as_version=4).cells
        texts = [cell.source for cell in cells if "```java" in cell.source]
        assert texts or not any("StreamsBuilder(" in cell.source for cell in cells)
        assert all(text.startswith("<details><summary>The same in Java</summary>") for text in texts)
