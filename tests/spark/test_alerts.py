"""S0-58: alerts; each rule has a reading of the metrics that triggers it, and one that does not."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kstreamnb.errors import ConfigError
from kstreamnb.spark.operations.alerts import alert_rules, alerts, prometheus_rules
from kstreamnb.spark.operations.prometheus import exposed_name
from kstreamnb.spark.telemetry.metrics import Metric, MetricsBook

LAG = ("consumer-fetch-manager-metrics", "records-lag-max")
READ = ("consumer-fetch-manager-metrics", "records-consumed-total")
COMMITS = ("stream-thread-metrics", "commit-total")
FAILED = ("stream-metrics", "failed-stream-threads")
REACHABLE = ("stream-metrics", "broker-reachable")
DROPPED = ("stream-task-metrics", "dropped-records-total")
LOST = ("consumer-fetch-manager-metrics", "offsets-skipped-total")
RESTARTS = ("stream-metrics", "restarts-total")
RESTORES = ("stream-task-metrics", "restores-total")
LATENCY = ("stream-task-metrics", "process-latency-avg")
STATE = ("stream-state-metrics", "state-bytes")
LETTERS = ("stream-topic-metrics", "records-produced-total")
RULES = alert_rules(state_bytes=1000, dead_letter_topic="dead")


def reading(**numbers: float) -> list[Metric]:
    """Metrics of a healthy query, except for the given values."""
    healthy = {"lag": 0, "commits": 10, "failed": 0, "dropped": 2, "restores": 1, "state": 500, "letters": 3} | numbers
    names = {"lag": LAG, "commits": COMMITS, "failed": FAILED, "dropped": DROPPED, "restores": RESTORES, "state": STATE}
    healthy = {"latency": 0.2, "broker": 1, "lost": 0, "restarts": 2, "read": 0} | healthy
    names |= {"latency": LATENCY, "broker": REACHABLE, "lost": LOST, "restarts": RESTARTS, "read": READ}
    found = [Metric(*names[name], (), float(value)) for name, value in healthy.items() if name in names]
    return [*found, Metric(*LETTERS, (("topic-name", "dead"),), float(healthy["letters"]))]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"commits": 11}, []),
        ({"commits": 10}, []),
        ({"commits": 10, "lag": 7000}, ["lag grows"]),
        ({"commits": 11, "lag": 7000}, ["lag grows"]),
        ({"commits": 11, "lag": 1000}, []),
        ({"failed": 1}, ["failed"]),
        ({"broker": 0}, ["broker away"]),
        ({"dropped": 3}, ["records dropped"]),
        ({"lost": 1}, ["records lost"]),
        ({"restarts": 3}, ["restarted"]),
        ({"restores": 2}, ["restoring"]),
        ({"latency": 50.0}, []),
        ({"latency": 50.1}, ["processing is slow"]),
        ({"state": 1001}, ["state too large"]),
        ({"letters": 4}, ["dead letters"]),
    ],
    ids=str,
)
def test_a_rule_fires_for_its_cause_alone(now: dict[str, float], expected: list[str]) -> None:
    """S0-58, S4-35: two readings of the metrics; a task is slow above 50 ms a record."""
    assert expected == [alert.name for alert in alerts(reading(), reading(**now), RULES, elapsed="5m")]


def test_an_expression_names_the_metrics_that_its_rule_reads() -> None:
    """Prometheus and `alerts` look at the same metrics, under the names that the collector gives them."""
    read = [LAG, READ, COMMITS, FAILED, REACHABLE, DROPPED, LOST, RESTARTS, RESTORES, LATENCY, STATE, LETTERS]
    read += [("stream-metrics", "running")]
    named = {name for rule in RULES for name in re.findall(r"kafka_streams_\w+", rule.expression)}
    assert named == {exposed_name(Metric(*each, (), 0.0)) for each in read}


@pytest.mark.parametrize(
    ("elapsed", "commits", "lag", "expected"),
    [
        ("5m", 10, 7, ["stalled"]),
        ("4m59s", 10, 7, []),
        ("0s", 10, 7, []),
        ("5m", 11, 7, []),
        ("5m", 10, 0, []),
    ],
)
def test_a_query_is_stalled_only_after_a_while(elapsed: str, commits: int, lag: int, expected: list[str]) -> None:
    """Records wait at both readings, which are as far apart as Prometheus' rule says, and nothing was committed."""
    found = alerts(reading(lag=7), reading(lag=lag, commits=commits), RULES, elapsed=elapsed)
    assert expected == [alert.name for alert in found]


def test_a_query_is_stalled_after_five_intervals() -> None:
    """S0-58: a query that commits every 100 ms is stalled after half a second, one with a batch per minute after
    five.
    """
    for interval, too_early, late in (("100ms", "499ms", "500ms"), ("1m", "4m59s", "5m")):
        rules = alert_rules(interval=interval)
        for elapsed, expected in ((too_early, []), (late, ["stalled"])):
            assert expected == [alert.name for alert in alerts(reading(lag=7), reading(lag=7), rules, elapsed=elapsed)]


def test_a_lag_grows_if_more_arrives_than_is_read_and_it_exceeds_what_an_interval_reads() -> None:
    """A lag of 9 and then 10 is that of a healthy query, and so is one that the next batch clears.

    A large one that grows by a third of what is read has not doubled for hours; one that is worked off does not grow.
    """
    grows = ["lag grows"]
    for before, now, expected in (
        *((9, 10, []), (2000, 5900, []), (3000, 6100, grows), (4000, 7000, grows)),
        *((1_000_000, 1_010_000, grows), (1_000_000, 1_001_000, []), (1_000_000, 990_000, [])),
    ):
        readings = reading(lag=before), reading(lag=now, commits=11, read=30_000)
        assert expected == [alert.name for alert in alerts(*readings, RULES, elapsed="5m")]


def test_a_process_that_has_ended_is_down() -> None:
    """It reports no metrics, so that no value of a metric can say so."""
    assert ["down"] == [alert.name for alert in alerts(reading(commits=11), [], RULES, elapsed="1m")]
    assert "absent(kafka_streams_stream_running)" in {rule.expression for rule in RULES}


def test_readings_of_a_query_know_their_time() -> None:
    """One reading compared with itself triggers no alert; readings without a time need ``elapsed``."""
    taken = MetricsBook("shop").all({("orders", 0): 7})
    assert () == alerts(taken, taken)
    later = MetricsBook("shop").all({("orders", 0): 7})
    later.taken_s = (taken.taken_s or 0.0) + 300
    assert ["stalled"] == [alert.name for alert in alerts(taken, later)]
    with pytest.raises(ConfigError, match="the time between two readings is unknown"):
        alerts(reading(), reading())


def test_prometheus_gets_the_same_rules() -> None:
    """One entry per rule, in Prometheus' form, over the exported names."""
    (group,) = yaml.safe_load(prometheus_rules(RULES))["groups"]
    assert [
        "Stalled",
        "Failed",
        "Down",
        "BrokerAway",
        "LagGrows",
        "RecordsDropped",
        "RecordsLost",
        "Restarted",
        "Restoring",
        "ProcessingIsSlow",
        "StateTooLarge",
        "DeadLetters",
    ] == [rule["alert"] for rule in group["rules"]]
    assert all("kafka_streams_" in rule["expr"] for rule in group["rules"])
    assert 'topic_name="dead"' in group["rules"][-1]["expr"]


APPLICATION = 'application_id="shop"'
TASK = f'{APPLICATION},task_id="0_0"'
TOPIC = f'{TASK},topic_name="dead"'
PREFIX = "kafka_streams_"
LAG_MAX, READ_TOTAL = (
    f"{PREFIX}consumer_fetch_manager_records_lag_max",
    f"{PREFIX}consumer_fetch_manager_records_consumed_total",
)
COMMIT_TOTAL = f"{PREFIX}stream_thread_commit_total"
IN_PROMETHEUS: list[tuple[str, dict[str, str], str, bool]] = [
    # rule, series by the quarter of a minute, when it is looked at, whether the rule fires
    ("Stalled", {COMMIT_TOTAL: "5x80", LAG_MAX: "7x80"}, "10m", True),
    ("Stalled", {COMMIT_TOTAL: "0+1x80", LAG_MAX: "7x80"}, "10m", False),
    ("Stalled", {COMMIT_TOTAL: "5x80", LAG_MAX: "0x80"}, "10m", False),
    ("Stalled", {COMMIT_TOTAL: "5x80", LAG_MAX: "0x30 7x50"}, "10m", False),  # idle, then for 2.5 minutes not
    ("Stalled", {COMMIT_TOTAL: "0 1x79", LAG_MAX: "0 7x79"}, "3m", False),  # a first batch of minutes
    ("Failed", {f"{PREFIX}stream_failed_stream_threads": "0x9 1x71"}, "10m", True),
    ("Failed", {f"{PREFIX}stream_failed_stream_threads": "0x80"}, "10m", False),
    ("Down", {f"{PREFIX}stream_running": "1x20 stale"}, "10m", True),
    ("Down", {f"{PREFIX}stream_running": "1x80"}, "10m", False),
    ("BrokerAway", {f"{PREFIX}stream_broker_reachable": "1x9 0x71"}, "10m", True),
    ("BrokerAway", {f"{PREFIX}stream_broker_reachable": "1x9 0x8 1x62"}, "10m", False),
    ("LagGrows", {LAG_MAX: "0+1000x160", READ_TOTAL: "0+500x160"}, "30m", True),
    ("LagGrows", {LAG_MAX: "0+20x160", READ_TOTAL: "0+1500x160"}, "30m", False),
    ("LagGrows", {LAG_MAX: "90000-500x160", READ_TOTAL: "0+1500x160"}, "30m", False),
    ("Restoring", {f"{PREFIX}stream_task_restores_total{{{TASK}}}": "1x20 2x60"}, "7m", True),
    ("Restoring", {f"{PREFIX}stream_task_restores_total{{{TASK}}}": "_x20 1x60"}, "7m", False),  # the first start
    ("ProcessingIsSlow", {f"{PREFIX}stream_task_process_latency_avg{{{TASK}}}": "51x80"}, "10m", True),
    ("ProcessingIsSlow", {f"{PREFIX}stream_task_process_latency_avg{{{TASK}}}": "50x80"}, "10m", False),
    ("StateTooLarge", {f"{PREFIX}stream_state_state_bytes{{{TASK}}}": "1001x80"}, "10m", True),
    ("StateTooLarge", {f'{PREFIX}stream_state_state_bytes{{{TASK.replace("shop", each)}}}': "600x80"
                       for each in ("shop", "bank")}, "10m", False),  # two applications, each below the limit
    *(
        (rule, {series: values}, "7m", fires)
        for rule, series in {
            "RecordsDropped": f"{PREFIX}stream_task_dropped_records_total{{{TASK}}}",
            "RecordsLost": f"{PREFIX}consumer_fetch_manager_offsets_skipped_total",
            "Restarted": f"{PREFIX}stream_restarts_total",
            "DeadLetters": f"{PREFIX}stream_topic_records_produced_total{{{TOPIC}}}",
        }.items()
        for values, fires in {"2x20 3x60": True, "2x80": False, "_x20 3x60": True, "0x80": False}.items()
    ),
]  # fmt: skip


def fire_as_expected(folder: Path, rules: str, cases: list[tuple[str, dict[str, str], str, bool]]) -> None:
    """Have promtool feed the series of each case to the rules."""
    if shutil.which("promtool") is None:
        pytest.skip("needs Debian's package prometheus")
    (folder / "rules.yml").write_text(rules)
    tests = []
    for rule, series, at, fires in cases:
        named = {name if "{" in name else f"{name}{{{APPLICATION}}}": values for name, values in series.items()}
        alive = {} if rule == "Down" else {f"{PREFIX}stream_running{{{APPLICATION}}}": "1x200"}
        inputs = [{"series": name, "values": values} for name, values in (named | alive).items()]
        query = f'sum(ALERTS{{alertname="{rule}",alertstate="firing"}}) or vector(0)'
        expected = {"expr": query, "eval_time": at, "exp_samples": [{"labels": "{}", "value": int(fires)}]}
        tests.append({"interval": "15s", "input_series": inputs, "promql_expr_test": [expected]})
    tested = {"rule_files": ["rules.yml"], "evaluation_interval": "15s", "tests": tests}
    (folder / "tests.yml").write_text(yaml.safe_dump(tested, sort_keys=False))
    done = subprocess.run(["promtool", "test", "rules", "tests.yml"], cwd=folder, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_prometheus_fires_each_rule_for_its_cause_alone(tmp_path: Path) -> None:
    """A counter that appears with a value counts as well: the topic of dead letters has none before the first."""
    fire_as_expected(tmp_path, prometheus_rules(RULES), IN_PROMETHEUS)
    assert {rule for rule, *_ in IN_PROMETHEUS} == set(re.findall(r"alert: (\w+)", prometheus_rules(RULES)))


def test_a_lag_that_each_batch_of_minutes_clears_does_not_grow_in_prometheus(tmp_path: Path) -> None:
    """The rate of the last half minute is 0 between two batches."""
    rules = prometheus_rules(alert_rules(interval="20m"))
    read = " ".join(f"{240_000 * batch}x79" for batch in range(9))
    clears = {LAG_MAX: " ".join(["0+3000x79"] * 9), READ_TOTAL: read}
    clears[f"{PREFIX}consumer_fetch_manager_records_consumed_rate"] = " ".join(["8000x1 0x77"] * 9)
    cases = [("LagGrows", clears, f"{minute}m", False) for minute in range(100, 142)]
    fire_as_expected(tmp_path, rules, [*cases, ("LagGrows", clears | {LAG_MAX: "300000+2000x700"}, "140m", True)])
