"""S0-58: what to be woken for; each rule has a reading of the metrics that makes it fire, and one that does not."""

from __future__ import annotations

import pytest
import yaml

from kstreamnb.spark.operations.alerts import alert_rules, alerts, prometheus_rules
from kstreamnb.spark.telemetry.metrics import Metric

LAG = ("consumer-fetch-manager-metrics", "records-lag-max")
COMMITS = ("stream-thread-metrics", "commit-total")
FAILED = ("stream-metrics", "failed-stream-threads")
DROPPED = ("stream-task-metrics", "dropped-records-total")
RESTORES = ("stream-task-metrics", "restores-total")
STATE = ("stream-state-metrics", "state-bytes")
LETTERS = ("stream-topic-metrics", "records-produced-total")
RULES = alert_rules(state_bytes=1000, dead_letter_topic="dead")


def reading(**numbers: float) -> list[Metric]:
    """Metrics of a healthy query, but for the numbers given."""
    healthy = {"lag": 0, "commits": 10, "failed": 0, "dropped": 2, "restores": 1, "state": 500, "letters": 3} | numbers
    names = {"lag": LAG, "commits": COMMITS, "failed": FAILED, "dropped": DROPPED, "restores": RESTORES, "state": STATE}
    found = [Metric(*names[name], (), float(value)) for name, value in healthy.items() if name in names]
    return [*found, Metric(*LETTERS, (("topic-name", "dead"),), float(healthy["letters"]))]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"commits": 11}, []),
        ({"commits": 10}, []),
        ({"commits": 10, "lag": 7}, ["stalled", "lag grows"]),
        ({"commits": 11, "lag": 7}, ["lag grows"]),
        ({"failed": 1}, ["failed"]),
        ({"dropped": 3}, ["records dropped"]),
        ({"restores": 2}, ["restoring"]),
        ({"state": 1001}, ["state too large"]),
        ({"letters": 4}, ["dead letters"]),
    ],
    ids=str,
)
def test_a_rule_fires_for_its_cause_alone(now: dict[str, float], expected: list[str]) -> None:
    """Between two readings of the metrics."""
    assert expected == [alert.name for alert in alerts(reading(), reading(**now), RULES)]


def test_prometheus_gets_the_same_rules() -> None:
    """One entry a rule, in Prometheus' form, over the names that are served."""
    (group,) = yaml.safe_load(prometheus_rules(RULES))["groups"]
    assert ["Stalled", "Failed", "LagGrows", "RecordsDropped", "Restoring", "StateTooLarge", "DeadLetters"] == [
        rule["alert"] for rule in group["rules"]
    ]
    assert all("kafka_streams_" in rule["expr"] for rule in group["rules"])
    assert 'topic_name="dead"' in group["rules"][-1]["expr"]
