"""The deploy panel's figures, from metrics and batches as a query provides them."""

from __future__ import annotations

from kstreamnb.core.record import TopicRecord
from kstreamnb.notebook.widgets.panel import _drops, _figures, _letter, _ms, _restarts
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.spark.query.query_status import QueryStatus, format_size
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric
from kstreamnb.spark.telemetry.query_charts import lag_trend, query_charts

TASK = (("application-id", "shop"), ("task-id", "0_1"))
METRICS = [
    Metric("consumer-fetch-manager-metrics", "records-consumed-total", (), 1234.0),
    Metric("consumer-fetch-manager-metrics", "records-consumed-rate", (), 56.78),
    Metric("stream-thread-metrics", "process-total", (), 9999.0),
    Metric("producer-metrics", "record-send-total", (), 1.0),
    Metric("producer-metrics", "record-send-rate", (), 0.5),
    Metric("consumer-fetch-manager-metrics", "records-lag", (("partition", "0"),), 3.0),
    Metric("consumer-fetch-manager-metrics", "records-lag", (("partition", "1"),), 4.0),
    Metric("stream-task-metrics", "process-total", TASK, 1234.0),
    Metric("stream-task-metrics", "dropped-records-total", TASK, 2.0),
    Metric("stream-state-metrics", "state-bytes", TASK, 2_500_000.0),
    Metric(
        "stream-processor-node-metrics",
        "dropped-records-total",
        (*TASK, ("processor-node-id", "count"), ("reason", "late")),
        2.0,
    ),
]
RECENT = [
    BatchFigures(6, 1000, 10, 5, 0, 0.5, 0.1),
    BatchFigures(7, 2000, 30, 0, 2, 0.25, 0.1, latency_ms=(1.0, 20.0, 300.0)),
]


def test_figures_are_read_with_their_units() -> None:
    """Drops are counted once, although a task and its nodes both report them; lag is that of all partitions."""
    assert _figures(7, METRICS, RECENT, 4) == [
        ["batch", "7"],
        ["duration", "250 ms"],
        ["in", "1,234 records, 56.8/s"],
        ["out", "1 record, 0.5/s"],
        ["lag", "7 records"],
        ["dropped", "2 records"],
        ["dead letters", "4"],
        ["state", "2.5 MB"],
        ["event time of output", "20 ms ago"],
    ]


def test_event_times_in_the_future_are_ahead() -> None:
    """Instead of a negative time ago."""
    ahead = RECENT[1]._replace(latency_ms=(-7_300_000.0, -7_200_000.0, 0.0))
    assert "2 h ahead" == dict(_figures(7, METRICS, [ahead], None))["event time of output"]


def test_before_the_first_batch_nothing_is_made_up() -> None:
    """A query that has just started has no duration and no latency; without a topic there are no dead letters."""
    figures = dict(_figures(-1, [], [], None))
    assert figures["batch"] == "none yet"
    assert figures["duration"] == ""
    assert figures["dead letters"] == "no topic for them"
    assert "event time of output" not in figures


def test_charts_have_units_and_say_in_words_what_they_draw() -> None:
    """Rates, batch time, state, drops and lag over time, each with its unit."""
    charts = query_charts("shop", RECENT, [(1000, 9), (2000, 7)])
    assert [str(each) for each in charts.each] == [
        "in (records per batch): 10 to 30, now 30",
        "out (records per batch): 0 to 5, now 0",
        "batch time (ms): 250 to 500, now 250",
        "state (bytes): 0 to 0, now 0",
        "dropped (records per batch): 0 to 2, now 2",
        "lag (records): 7 to 9, now 7",
    ]
    assert all(str(each).endswith("nothing yet") for each in query_charts("shop", [], []).each)


def test_lag_has_a_trend_and_restarts_their_cause() -> None:
    """Only the last half minute counts; the first start is the deployment."""
    assert lag_trend([(0, 900), (60_000, 5), (70_000, 8)]) == "rising"
    assert dict(_figures(7, METRICS, RECENT, 4, "falling"))["lag"] == "7 records, falling"
    assert _restarts({Actor.USER: 1}) == "0"
    assert _restarts({Actor.USER: 2, Actor.COMPANION: 3}) == "4, 3 automatic"


def test_a_dead_letter_names_its_record_and_the_error() -> None:
    """The place of the record and the error are in its headers."""
    about = {"topic": "orders", "partition": "1", "offset": "7", "exception": "ValueError", "message": "not a price"}
    headers = tuple((f"__streams.errors.{name}", text.encode()) for name, text in about.items())
    record = TopicRecord("dead", 0, 0, 5, "ann", "-1", headers)
    assert _letter(record) == ["orders-1@7", '"ann"', '"-1"', "ValueError: not a price"]


def test_tasks_and_drops_have_a_row_each() -> None:
    """Records, drops and state of a task; drops of all tasks by node and reason."""
    status = QueryStatus("running", 7, 0, {}, metrics=tuple(METRICS))
    assert status.by_task == {"0_1": ("1,234", "2", "2.5 MB", "0")}
    assert _drops(METRICS) == [["count", "late", "2"]]


def test_times_are_said_in_the_unit_in_which_they_are_short() -> None:
    """Records of last year are days old, not milliseconds."""
    assert [_ms(number) for number in (0.4, 9_999, 67_162, 600_000, 8_000_000, 1.8e12)] == [
        *("0 ms", "9,999 ms", "67 s", "10 min", "2 h", "20,833 days")
    ]


def test_sizes_are_rounded_to_what_people_read() -> None:
    """Bytes are whole, larger units have one decimal."""
    assert [format_size(number) for number in (0, 999, 1000, 1_250_000, 3e15)] == [
        *("0 bytes", "999 bytes", "1.0 kB", "1.2 MB", "3,000.0 TB")
    ]
