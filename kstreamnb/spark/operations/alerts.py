"""Alert rules, evaluated on two readings of a query's metrics or exported for Prometheus."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kstreamnb.core.arguments import check_arguments, expect
from kstreamnb.core.time import Duration, duration_ms, format_duration
from kstreamnb.data_files import text_of
from kstreamnb.errors import extra
from kstreamnb.spark.telemetry.metrics import FETCHED, Metric, elapsed_ms, total


class _Readings(NamedTuple):
    before: list[Metric]
    now: list[Metric]
    elapsed_ms: int

    def total(self, group: str, name: str, *tags: tuple[str, str], before: bool = False) -> float:
        return total(self.before if before else self.now, name, group, *tags)

    def greatest(self, group: str, name: str) -> float:
        return max((metric.value for metric in self.now if (metric.group, metric.name) == (group, name)), default=0.0)

    def growth(self, group: str, name: str, *tags: tuple[str, str]) -> float:
        return self.total(group, name, *tags) - self.total(group, name, *tags, before=True)


@dataclass(frozen=True)
class Alert:
    """One rule: ``expression`` in Prometheus' language, and ``summary`` with what to look at first.

    Args:
        name: name of the alert in Prometheus.
        expression: condition in Prometheus' language.
        summary: what it means, and what to look at first.
        fires: function from a query's present metrics to True or False.

    Example:
        >>> rule = alert_rules()[1]
        >>> print(rule.name, rule.expression, sep=": ")
        failed: kafka_streams_stream_failed_stream_threads > 0
    """

    name: str
    expression: str
    summary: str
    fires: Callable[[_Readings], bool] = field(repr=False, compare=False)


_FEW_RECORDS = 1000  # a lag that one batch clears, however slow the query is
_TREND_MS = 600_000  # over which Prometheus looks for a trend; with fewer than five batches there is none
_SLOWER = 0.05  # a lag that changes by less than this share of the records read does not grow


def alert_rules(
    *,
    state_bytes: int = 1 << 30,
    dead_letter_topic: str | None = None,
    interval: Duration = "1m",
    stalled_after: Duration | None = None,
    process_latency: Duration = "50ms",
) -> tuple[Alert, ...]:
    """Return the alert rules of a query.

    Args:
        state_bytes: the state size (bytes) above which "state too large" fires; default 1 GiB.
        dead_letter_topic: adds the rule "dead letters" for this topic; default none.
        interval: the longest time between two commits that is normal, such as the trigger's; default 1 minute.
        stalled_after: "stalled" fires if records wait and nothing was committed for this long; default five intervals.
        process_latency: "processing is slow" fires if a task needs more than this per record on average; default 50 ms.

    Example:
        >>> [rule.name for rule in alert_rules(dead_letter_topic="dead")][9:]
        ['processing is slow', 'state too large', 'dead letters']
        >>> alert_rules(interval="10s")[0].expression.partition(" and ")[0]
        'increase(kafka_streams_stream_thread_commit_total[50s]) == 0'
    """
    check_arguments(alert_rules, locals())
    interval_ms, latency_ms = duration_ms(interval, "interval"), duration_ms(process_latency, "process_latency")
    stalled_ms = 5 * interval_ms if stalled_after is None else duration_ms(stalled_after, "stalled_after")
    fires: dict[str, Callable[[_Readings], bool]] = {
        "stalled": lambda seen: _has_stalled(seen, stalled_ms),
        "failed": lambda seen: seen.total("stream-metrics", "failed-stream-threads") > 0,
        "down": lambda seen: not seen.now,
        "broker away": lambda seen: any(each.name == "broker-reachable" and not each.value for each in seen.now),
        "lag grows": lambda seen: _lag_grows(seen, interval_ms),
        "records dropped": lambda seen: seen.growth("stream-task-metrics", "dropped-records-total") > 0,
        "records lost": lambda seen: seen.growth(FETCHED, "offsets-skipped-total") > 0,
        "restarted": lambda seen: seen.growth("stream-metrics", "restarts-total") > 0,
        "restoring": lambda seen: seen.growth("stream-task-metrics", "restores-total") > 0,
        "processing is slow": lambda seen: seen.greatest("stream-task-metrics", "process-latency-avg") > latency_ms,
        "state too large": lambda seen: seen.total("stream-state-metrics", "state-bytes") > state_bytes,
    }
    if dead_letter_topic is not None:
        letters, tag = ("stream-topic-metrics", "records-produced-total"), ("topic-name", dead_letter_topic)
        fires["dead letters"] = lambda seen: seen.growth(*letters, tag) > 0
    given = {"stalled": format_duration(stalled_ms), "few": _FEW_RECORDS, "slower": _SLOWER, "topic": dead_letter_topic}
    given |= {"interval": f"{interval_ms / 1000:g}", "window": format_duration(max(_TREND_MS, 5 * interval_ms))}
    given |= {"latency_ms": latency_ms, "state_bytes": state_bytes}
    texts = tomllib.loads(text_of(__package__, "alerts.toml"))
    rules = ((name, texts[name], test) for name, test in fires.items())
    return tuple(Alert(name, rule["expression"].format(**given), rule["summary"], test) for name, rule, test in rules)


def _has_stalled(seen: _Readings, stalled_ms: int) -> bool:
    """Return whether records waited all the time, and nothing was committed."""
    if seen.elapsed_ms < stalled_ms or seen.growth("stream-thread-metrics", "commit-total"):
        return False
    return min(seen.total(FETCHED, "records-lag-max", before=before) for before in (True, False)) > 0


def _lag_grows(seen: _Readings, interval_ms: int) -> bool:
    """Return whether the lag grows, and exceeds what is read in an interval: less waits for the next batch anyway."""
    lag, growth = seen.total(FETCHED, "records-lag-max"), seen.growth(FETCHED, "records-lag-max")
    read = max(0.0, seen.growth(FETCHED, "records-consumed-total"))  # a restart of the process begins at 0
    return lag > max(_FEW_RECORDS, read * interval_ms / max(1, seen.elapsed_ms)) and growth > _SLOWER * read


def alerts(
    before: Iterable[Metric],
    now: Iterable[Metric],
    rules: Iterable[Alert] | None = None,
    *,
    elapsed: Duration | None = None,
) -> tuple[Alert, ...]:
    """Return the rules that fire between two readings of ``query.metrics()``.

    Args:
        before: the earlier reading.
        now: the later reading.
        rules: the rules to evaluate; default `alert_rules`.
        elapsed: the time between the readings; default the difference of the times at which they were taken.

    Raises: ConfigError if ``elapsed`` is missing for readings that do not come from ``query.metrics()``.

    Example:
        >>> lag = ("consumer-fetch-manager-metrics", "records-lag-max", ())
        >>> readings = [Metric(*lag, 6000.0)], [Metric(*lag, 13000.0)]
        >>> [[alert.name for alert in alerts(*readings, elapsed=elapsed)] for elapsed in ("1s", "5m")]
        [['lag grows'], ['stalled', 'lag grows']]
    """
    check_arguments(alerts, locals())
    seen = _Readings(list(before), list(now), elapsed_ms(before, now, elapsed))
    chosen = list(alert_rules() if rules is None else rules)
    for metric in (*seen[0], *seen[1]):
        expect(metric, Metric, "each metric")
    for rule in chosen:
        expect(rule, Alert, "each rule")
    return tuple(rule for rule in chosen if rule.fires(seen))


def prometheus_rules(rules: Iterable[Alert] | None = None) -> str:
    """Return a rule file for Prometheus, which reads the metrics that `serve_metrics` offers.

    Args:
        rules: the rules; by default `alert_rules`.

    Raises:
        MissingPackageError: PyYAML is not installed.

    Example:
        >>> for line in prometheus_rules().splitlines()[:4]:
        ...     print(line)
        groups:
        - name: kstreamnb
          rules:
          - alert: Stalled
    """
    check_arguments(prometheus_rules, locals())
    with extra("yaml"):
        import yaml
    entries: list[dict[str, object]] = []
    for rule in alert_rules() if rules is None else rules:
        name, notes = rule.name.title().replace(" ", ""), {"summary": rule.summary}
        entries.append({"alert": name, "expr": rule.expression, "for": "1m", "annotations": notes})
    return yaml.safe_dump({"groups": [{"name": "kstreamnb", "rules": entries}]}, sort_keys=False, width=1000)
