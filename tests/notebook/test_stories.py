"""Where each worked example is told, and what it must give; where corrections are taught; what exercises accept.

The expected results are those of the requirements; they came from the real Kafka Streams. A pin is an expression over
the variables of a notebook that has run, so it fails when the notebook's data, its topology or the kit changes.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

from tests.notebook.shells import Shell, loaded_shell

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
COURSE = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
CHAPTERS = sorted(f"deployment/{path.stem}" for path in (FOLDER / "deployment").glob("*.ipynb"))

pytestmark = [pytest.mark.notebook]


class Pin(NamedTuple):
    """A row of the requirements, the notebook that tells it, an expression there, and what it must give."""

    row: str
    notebook: str
    expression: str
    expected: Any


COUNT, ORDER, DUALITY, SALES = (
    "01_count_topology",
    "02_order_across_inputs",
    "03_stream_table_duality",
    "04_ten_minute_sales",
)
RETAIL, CAPTCHA, HOPPING, PROCESSORS = (
    "05_retail_inventory",
    "06_captcha_tables",
    "07_hopping_windows",
    "08_processor_api",
)
FRAUD, FLIGHTS, BOXES = "09_fraud_detection", "10_flights", "11_seven_boxes"

COUNT_DESCRIPTION = """Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [input])
      --> KSTREAM-AGGREGATE-0000000001
    Processor: KSTREAM-AGGREGATE-0000000001 (stores: [countStore])
      --> KTABLE-TOSTREAM-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KTABLE-TOSTREAM-0000000002 (stores: [])
      --> KSTREAM-SINK-0000000003
      <-- KSTREAM-AGGREGATE-0000000001
    Sink: KSTREAM-SINK-0000000003 (topic: output)
      <-- KTABLE-TOSTREAM-0000000002

"""
LINES = """[14:11:52-14:11:57] Browser:Y0 count=1
[14:11:52-14:11:57] Browser:Y2 count=1
[14:11:52-14:11:57] Browser:Y3 count=2
[14:11:52-14:11:57] Browser:Y4 count=1
[14:11:54-14:11:59] Browser:Y0 count=1
[14:11:54-14:11:59] Browser:Y2 count=1
[14:11:54-14:11:59] Browser:Y3 count=6
[14:11:54-14:11:59] Browser:Y4 count=1
[14:11:56-14:12:01] Browser:Y3 count=6
[14:11:56-14:12:01] Browser:Y4 count=1
[14:11:58-14:12:03] Browser:Y3 count=3"""

BY_COUNTRY = {
    "DE": {"orders": 3, "cents": 17_000},
    "FR": {"orders": 1, "cents": 2000},
    "unknown": {"orders": 1, "cents": 1500},
}

PINS = [
    # E01: described to the byte, drawn, asked
    Pin("E01", COUNT, "str(topology.describe())", COUNT_DESCRIPTION),
    Pin("E01", COUNT, "topology.to_svg().startswith('<svg')", True),
    Pin("E01", COUNT, "[replay.at(step).store('countStore').get('a') for step in range(6)]", [None, 1, 1, 2, 2, 3]),
    # E02: seven updates; 1,000 words by Zipf's law
    Pin(
        "E02",
        COUNT,
        "updates",
        [("the", 1), ("duck", 1), ("and", 1), ("the", 2), ("stream", 1), ("the", 3), ("duck", 2)],
    ),
    Pin("E02", COUNT, "(len(plain), len(cached), len(pages))", (1000, 188, 188)),
    Pin("E02", COUNT, "[word for word, _ in cached].count('word1')", 1),
    # E03: the merge of two inputs, offsets within a partition, and the join that depends on it
    Pin("E03", ORDER, "order(both)", ["a1", "b2", "b3", "a5", "a9", "b10"]),
    Pin("E03", ORDER, "[value for value in order(back) if value[0] == 'a']", ["a7", "a4"]),
    Pin("E03", ORDER, "[record.value for record in planned]", ["c/pro"]),
    Pin("E03", ORDER, "noted[0]", "first at stream time 30"),
    Pin("E03", ORDER, "[log_after(*each) for each in ((False, 5), (False, 1), (True, 5))]", ["BA", "AB", "AB"]),  # C-10
    Pin("E03", ORDER, "in_flight", "Can't exceed 5 when exactly-once processing is enabled"),  # C-10
    Pin("E03", ORDER, "[each.default for each in producers]", ["all", "true"]),  # C-09
    Pin("E03", ORDER, "seen", [6, 3]),
    # E05: the table at time 0, 1, 2, and back; two sums
    Pin(
        "E05",
        DUALITY,
        "snapshots[:3]",
        [{"key1": "value1"}, {"key1": "value1", "key2": "value2"}, {"key1": "value3", "key2": "value2"}],
    ),
    Pin(
        "E05",
        DUALITY,
        "changes",
        [("key1", "value1", 0), ("key2", "value2", 1), ("key1", "value3", 2), ("key2", None, 3)],
    ),
    Pin("E05", DUALITY, "again.now.store('rows').to_dict()", {"key1": "value3"}),
    Pin("E05", DUALITY, "after_each(stream_sum, numbers)", [10, 15, 22]),
    Pin("E05", DUALITY, "after_each(table_sum, numbers)", [10, 15, 12, 7]),
    # E07: seven refinements and one late sale; then finals
    Pin(
        "E07",
        SALES,
        "[(start, count) for start, count, _ in refinements(run.output('counts'))]",
        [(0, 1), (0, 2), (10, 1), (0, 3), (10, 2), (10, 3), (10, 4)],
    ),
    Pin("E07", SALES, "refinements(run.output('counts'))[3][2]", 9.0),
    Pin("E07", SALES, "sum(dropped.values())", 1),
    Pin("E07", SALES, "(late_sale.key.start // 60_000 % 60, late_sale.value)", (0, 4)),
    Pin("E07", SALES, "[refinements(found) for found in results.values()]", [[(0, 3, 9.0)]] * 2),
    # E08: inventory, re-orders, orders on their way, prices
    Pin(
        "E08",
        RETAIL,
        "[pair[:2] for pair in triples(run.output('inventory'))]",
        [("apple", 10), ("apple", 7), ("apple", 3), ("pear", -1), ("apple", 20), ("pear", 20)],
    ),
    Pin("E08", RETAIL, "triples(run.output('reorders'))", [("apple", 17, 2000), ("pear", 21, 3000)]),
    Pin("E08", RETAIL, "answered", {"key": "apple", "value": 20, "timestamp": 4000}),
    Pin("E08", RETAIL, "triples(twice)", [("apple", 17, 2000), ("apple", 18, 2500)]),
    Pin("E08", RETAIL, "triples(once)", [("apple", 17, 2000)]),
    Pin("E08", RETAIL, "triples(changes)", [("apple", 110, 2000)]),
    Pin("E08", RETAIL, "written['at_least_once']", [(1, 1), (2, 2)]),  # C-15
    Pin("E08", RETAIL, "written['exactly_once_v2']", [(0, 0), (1, 1)]),
    # E09: one application for seven boxes; the service, new code on the same log; a loop of one's own (S1-12, S1-34)
    Pin("E09", BOXES, "first", BY_COUNTRY),
    Pin("E09", BOXES, "{row['key']: row['value'] for row in answers}", BY_COUNTRY),
    Pin("E09", BOXES, "ask(cluster.application, '/stores/order-stats/IT')[0]", 404),
    Pin("E09", BOXES, "corrected", {**BY_COUNTRY, "DE": {"orders": 2, "cents": 8000}}),
    Pin("E09", BOXES, "ask(second, '/stores/order-stats/DE')[1]['value']", {"orders": 2, "cents": 8000}),
    Pin("E09", BOXES, "told", {"the": 1, "duck": 1, "and": 1, "stream": 1}),
    Pin("E09", BOXES, "counted", {"the": 3, "duck": 2, "and": 2, "stream": 1}),
    # E14: punctuation by records and by the clock; what is told of mistakes
    Pin("E14", PROCESSORS, "rows", {1: 2, 2: 1}),
    Pin("E14", PROCESSORS, "by_records", [(1, 1, 0), (1, 3, 1000), (2, 1, 1000), (1, 3, 3500), (2, 2, 3500)]),
    Pin("E14", PROCESSORS, "by_clock", [(1, 2, 2500), (2, 1, 2500)]),
    Pin("E14", PROCESSORS, "(type(wrong_type).__name__, 'SINK_COUNTER' in str(wrong_type))", ("ProcessingError", True)),
    # E15: two tables
    Pin("E15", CAPTCHA, "joined", [("B1", n) for n in (1, 2, 3, 4, 5, 6, 0, 0)] + [("B2", 0)] * 6),
    Pin("E15", CAPTCHA, "asked_by_tables", ["B1", "B1"]),
    Pin("E15", CAPTCHA, "stores['browserActionsCountStore']", {"B1": 7, "B2": 6}),
    # E16: a global table, with any number of partitions
    Pin(
        "E16", CAPTCHA, "pairs(run_global({'browser-actions': 4, 'captcha-passed': 3})[0])[-2:]", [("B1", 6), ("B1", 0)]
    ),
    Pin("E16", CAPTCHA, "run_global({'browser-actions': 1, 'captcha-passed': 1})[1]", ["B1", "B1"]),
    Pin("E16", CAPTCHA, "len(pairs(counts))", 7),
    # E17: 24 updates, the eleven lines, and the false burst
    Pin("E17", HOPPING, "len(updates)", 24),
    Pin("E17", HOPPING, "'\\n'.join(text.removeprefix('Window ') for text in lines)", LINES),
    Pin("E17", HOPPING, "(by_event_time, by_wall_clock)", (1, 1440)),
    Pin("E17", HOPPING, "[(r.value, r.timestamp) for r in run.output('out')]", [("777", 777), ("900", 900)]),
    # E23: the boundaries, no alert as printed, one with a score, tombstones, gap and lateness
    Pin("E23", FRAUD, "list(verdicts.values())", [False, True, False, True]),
    Pin("E23", FRAUD, "as_printed", []),
    Pin(
        "E23",
        FRAUD,
        "[(r.key, r.value, r.timestamp) for r in alerts]",
        [("userA", {"user": "userA", "count": 3, "start": 162_000}, 162_020)],
    ),
    Pin("E23", FRAUD, "[r.value for r in sessions]", [1, None, 2, None, 3]),
    Pin("E23", FRAUD, "[r.value['count'] for r in many]", [3, 4, 5]),
    Pin("E23", FRAUD, "found", {300_000: 1, 300_001: 0}),
    Pin("E23", FRAUD, "dropped", {99_999: 1, 100_000: 0}),
    Pin("E23", FRAUD, "restarted", [1, 1]),
    Pin("E23", FRAUD, "isinstance(failure.__cause__, TypeError)", True),
    Pin("E23", FRAUD, "(len(changes), changes.count(None))", (1999, 999)),  # C-24
    Pin(
        "E23",
        FRAUD,
        "[(each.answer, each.default) for each in ks.config_report(advised)][:4]",
        [("unknown", ""), ("unknown", ""), ("client", "0"), ("not needed", "600000")],
    ),  # C-19, C-22, C-23
    # flights: what is lost and what that does to the mean
    Pin("flights", FLIGHTS, "seconds", {"10s": 10.0, "30s": 30.0, "45s": 45.0, "a slow batch": 300.001}),  # C-06
    Pin("flights", FLIGHTS, "again", [4, 5, 6]),
    Pin("flights", FLIGHTS, "len(moved)", 512),
    Pin("flights", FLIGHTS, "(results['24h'][0], results['24h'][1] == departed)", (0, True)),
    Pin("flights", FLIGHTS, "sorted(results, key=lambda grace: -results[grace][0])", ["0s", "30m", "2h", "6h", "24h"]),
]

TOLD = {"E01", "E02", "E03", "E05", "E07", "E08", "E09", "E14", "E15", "E16", "E17", "E23", "flights"}

BEYOND: dict[str, tuple[str, ...]] = {
    # Rows that no notebook of the course tells, with those of their requirements that a test elsewhere pins.
    "E04": ("S0-18", "S0-19", "S0-20"),
    "E06": ("S1-20", "S1-23"),
    "E10": ("S1-36", *(f"S2-{number:02}" for number in (1, 2, 3, 4, 7, 8, 9, 10, 11, 14))),
    "E11": ("S2-15", "S2-17", "S2-18", "S2-19", "S2-20", "S2-21", "S2-22", "S2-24", "S2-25", "S2-26", "S2-27"),
    "E12": ("S2-12", "S2-13"),
    "E13": ("S2-31",),
    "E18": ("S2-58", "S2-59"),
    "E19": ("S0-24", "S2-47", "S2-48"),
    "E20": ("S1-05", "S1-41", "S3-16"),
    "E21": ("S3-19", "S3-22", "S4-15"),
    "E22": ("S3-25", "S3-27"),
    "E24": ("S4-21", "S4-22"),
    "E25": ("S4-19", "S4-20"),
    "E26": ("S4-42", "S4-45"),
    "E27": ("S4-35", "S4-39", "S4-47", "S4-48", "S4-49", "S4-50", "S4-56"),
    "E28": ("S0-41", "S0-42", "S0-43", "S0-44"),
}


class Taught(NamedTuple):
    """Where a correction is taught: a notebook, and words of the cell that does."""

    notebook: str
    words: str


CORRECTIONS: dict[str, Taught] = {
    "C-01": Taught(ORDER, "Many texts say *records are processed in timestamp order*"),
    "C-02": Taught(FRAUD, "introduced to Kafka by KIP-247"),
    "C-03": Taught("deployment/09_fraud_deployed", "On Spark\n> they **are** micro-batches"),
    "C-04": Taught("deployment/09_fraud_deployed", "Many texts create topics with `--zookeeper"),
    "C-05": Taught(PROCESSORS, 'Many texts number their keys as `"KEY-" + i`'),
    "C-06": Taught(FLIGHTS, "*the session times out after 30 seconds by default"),
    "C-07": Taught(PROCESSORS, "**The wrong type.**"),
    "C-08": Taught(CAPTCHA, "Older texts print `group-id-Count-changelog-0`"),
    "C-09": Taught(ORDER, "*the leader does not wait for its replicas by default*"),
    "C-10": Taught(ORDER, "*by default it can be, unless only one request may be in flight*"),
    "C-11": Taught(FRAUD, "Some texts put session windows into a `WindowStore`"),
    "C-12": Taught(FRAUD, "an in-memory store is *not* without fault tolerance"),
    "C-13": Taught("deployment/09_fraud_deployed", "print the settings as YAML under names that are not Spring's"),
    "C-14": Taught("deployment/09_fraud_deployed", "print the id with a typographic hyphen"),
    "C-15": Taught(RETAIL, "and call it a dual write"),
    "C-16": Taught(FRAUD, "declare `KTable scores = builder.globalTable(…)`"),
    "C-17": Taught(FRAUD, "NullPointerException"),
    "C-18": Taught("deployment/09_fraud_deployed", "they call a commit interval of 100 to 500 ms ideal"),
    "C-19": Taught(FRAUD, "Many texts set `rocksdb.compaction.style`"),
    "C-20": Taught(FLIGHTS, "A common misconception: to grow a topic"),
    "C-21": Taught(FRAUD, "The printed test expects one"),
    "C-22": Taught(FRAUD, "switch on `incremental.restore`, which does not exist"),
    "C-23": Taught(FRAUD, "enlarge `socket.receive.buffer.bytes`"),
    "C-24": Taught(FRAUD, "a **lower** ratio compacts sooner"),
    "C-25": Taught(CAPTCHA, "declare the result of `count()` as a table of 32-bit integers"),
    "C-26": Taught(FRAUD, "a time **inside the payload** is just"),
    "C-27": Taught(FRAUD, "An oddity at exactly that edge"),
}


class Solution(NamedTuple):
    """The right answer of an exercise: text of its cell, and what takes its place."""

    notebook: str
    given: str
    right: str


SOLUTIONS = [
    Solution(COUNT, '[("x", 1), ("y", 1), ("x", 2)]', '[("x", 1), ("y", 1), ("x", 2), ("y", 2)]'),
    Solution(
        COUNT,
        'group_by_key().count(store="colours")  # change me\nsub_topologies = 1',
        'group_by(lambda key, colour: colour).count(store="colours")\nsub_topologies = 2',
    ),
    Solution(ORDER, '"a1 b2 a4 b5 a6"', '"b2 a4 a1 b5 a6"'),
    Solution(ORDER, 'guess = "c/null"', 'guess = "c/pro"'),
    Solution(DUALITY, 'pieces, kind = 13, "stream"', 'pieces, kind = 3, "table"'),
    Solution(DUALITY, "t     | key1 | here  | 0\n", "t     | key1 | here  | 0\nt     | key1 |       | 1\n"),
    Solution(SALES, 'grace = "5m"', 'grace = "5m1ms"'),
    Solution(SALES, "trigger_minute = 15", "trigger_minute = None"),
    Solution(RETAIL, "most = 4", "most = 2"),
    Solution(RETAIL, "answer = 1", "answer = 2"),
    Solution(CAPTCHA, "answer = [1, 2, 3]", "answer = [1, 2, 0, 0]"),
    Solution(CAPTCHA, "answer_global = [1, 2, 0, 0]", "answer_global = [1, 2, 0]"),
    Solution(HOPPING, "answer = 4", "answer = 6"),
    Solution(HOPPING, "windows_at_most = 3", "windows_at_most = 4"),
    Solution(PROCESSORS, "answer = [0, 1000, 2000]", "answer = [0, 2100]"),
    Solution(
        PROCESSORS,
        "            self.context.forward(ks.Record(product, count, now))",
        "            if self.__dict__.setdefault('told', {}).get(product) != count:\n"
        "                self.told[product] = count\n"
        "                self.context.forward(ks.Record(product, count, now))",
    ),
    Solution(FRAUD, "answer = 1", "answer = 0"),
    Solution(FRAUD, "return count is not None and count >= 3", "return count == 3"),
    Solution(FLIGHTS, 'grace = "30m"', 'grace = "6h"'),
    Solution(BOXES, '{"orders": 1, "cents": 4000}', '{"orders": 2, "cents": 6000}'),
    Solution(
        BOXES,
        "    return add_unless_cancelled(country, order, stats)",
        '    if order["state"] == "cancelled":\n        return stats\n'
        '    most = max(stats.get("most", 0), order["cents"])\n'
        '    return {**add_order(country, order, stats), "most": most}',
    ),
    Solution(FLIGHTS, 'return flight["origin"]', 'return flight["origin"] + flight["dest"]'),
]


def cells(notebook: str, kind: str) -> list[str]:
    """The texts of the cells of a kind."""
    read = nbformat.read(FOLDER / f"{notebook}.ipynb", as_version=4)
    return [cell.source for cell in read.cells if cell.cell_type == kind]


def _run(shell: Shell, source: str) -> None:
    """Run a cell; an error of it is an error here."""
    shell.ip.run_cell(source, store_history=True).raise_error()


@cache
def outcome(notebook: str) -> dict[str, Any]:
    """What a notebook gives when it has run: its pins by expression, and what its checks say to right answers."""
    found: dict[str, Any] = {}
    with loaded_shell() as shell:
        for source in cells(notebook, "code"):
            _run(shell, source)
        for pin in PINS:
            if pin.notebook == notebook:
                found[pin.expression] = eval(pin.expression, shell.ip.user_ns)
        for solution in SOLUTIONS:
            if solution.notebook == notebook:
                (cell,) = (each for each in exercises(notebook) if solution.given in each)
                found[solution.given] = shell.run(cell.replace(solution.given, solution.right))
    return found


def exercises(notebook: str) -> list[str]:
    """Cells in which something is to be changed."""
    return [source for source in cells(notebook, "code") if re.search(r"change me", source, re.IGNORECASE)]


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: f"{pin.row}: {pin.expression[:40]}")
def test_an_example_gives_what_kafka_streams_gives(pin: Pin) -> None:
    """The notebook has run, and the expression has the value of the requirement."""
    assert pin.expected == outcome(pin.notebook)[pin.expression]


def test_every_worked_example_is_told_or_listed_as_beyond_the_course() -> None:
    """28 rows and the flights; those that the course promises have pins."""
    assert {pin.row for pin in PINS} == TOLD
    assert {f"E{number:02}" for number in range(1, 29)} == (TOLD - {"flights"}) | BEYOND.keys()
    assert not TOLD & BEYOND.keys()


@pytest.mark.parametrize("row", BEYOND)
def test_an_example_beyond_the_course_is_pinned_by_a_test(row: str) -> None:
    """Each of its requirements is named by a test that runs."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    assert not {requirement for requirement in BEYOND[row] if not any(requirement in text for text in texts)}


def test_the_map_of_the_examples_names_the_tests_of_each() -> None:
    """28 rows; the tests that it points to name the example, or together everything that the example shows."""
    table = re.findall(
        r"^\| (E\d\d) \|[^|]*\|([^|]*)\| (\S[^|]*) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert [f"E{number:02}" for number in range(1, 29)] == [row for row, _, _ in table]
    for row, notebook, tests in table:
        text = "".join((ROOT / test).read_text(encoding="utf-8") for test in tests.split(", "))
        missing = {name for name in BEYOND.get(row, (row,)) if name not in text}
        assert not missing, f"{tests} do not name {missing} of {row}"
        assert not notebook.strip() or (FOLDER / f"{notebook.strip()}.ipynb").exists()


@pytest.mark.parametrize("correction", sorted(CORRECTIONS))
def test_a_correction_is_taught_in_its_place(correction: str) -> None:
    """A text cell of the notebook says what many texts say, and what happens."""
    taught = CORRECTIONS[correction]
    assert any(taught.words in text for text in cells(taught.notebook, "markdown"))


def test_every_correction_is_taught() -> None:
    """All 27."""
    assert {f"C-{number:02}" for number in range(1, 28)} == CORRECTIONS.keys()


@pytest.mark.parametrize("solution", SOLUTIONS, ids=lambda solution: f"{solution.notebook[:2]}: {solution.given[:30]}")
def test_a_right_answer_is_accepted(solution: Solution) -> None:
    """The check of the exercise says so."""
    assert outcome(solution.notebook)[solution.given].startswith("Right")


@pytest.mark.parametrize("notebook", COURSE)
def test_a_story_has_exercises_whose_checks_say_what_is_wrong(notebook: str) -> None:
    """Two or three, each with a solution here; the answer that is given is wrong, and told so in more than a word."""
    read = nbformat.read(FOLDER / f"{notebook}.ipynb", as_version=4)
    asked = [cell for cell in read.cells if cell.cell_type == "code" and cell.source in exercises(notebook)]
    assert 2 <= len(asked) <= 3
    assert len(asked) == len([each for each in SOLUTIONS if each.notebook == notebook])
    said = ["".join(output.text for output in cell.outputs if output.output_type == "stream") for cell in asked]
    assert all(len(text.split()) > 5 and not text.startswith("Right") for text in said)


@pytest.mark.parametrize("notebook", [*COURSE, *CHAPTERS])
def test_a_story_is_told_in_short_cells_from_a_title_to_what_to_remember(notebook: str) -> None:
    """It begins with its title and ends with what to remember; no cell fills more than a screen."""
    read = nbformat.read(FOLDER / f"{notebook}.ipynb", as_version=4).cells
    assert read[0].source.startswith("# ")
    assert read[-1].source.startswith("## What to remember")
    assert not [cell.source[:40] for cell in read if cell.source.count("\n") >= 45]
    code = [line for cell in read if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert not [line for line in code if len(line) > 120]
