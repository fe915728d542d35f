"""The deployment panel: status and figures of a deployment, as text when saved and live with Stop and Restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from kstreamnb.core.arguments import expect
from kstreamnb.core.formatting import format_value, pluralize
from kstreamnb.core.record import TopicRecord
from kstreamnb.core.serdes import Serdes
from kstreamnb.core.tables import escaped, html_table, text_table
from kstreamnb.display.charts import to_charts_svg
from kstreamnb.display.graph import Overlay, graph_view
from kstreamnb.kafka.admin import Admin
from kstreamnb.kafka.capture import capture
from kstreamnb.masking import clean, without_secrets
from kstreamnb.notebook.tracebacks import error_words
from kstreamnb.notebook.widgets.base import Facts, FactsWidget, esm, named
from kstreamnb.notebook.widgets.graphs import picture
from kstreamnb.spark.contracts import OffsetSource
from kstreamnb.spark.io.offset_source import KafkaOffsetSource
from kstreamnb.spark.query.lifecycle import Actor
from kstreamnb.spark.query.query import Query
from kstreamnb.spark.query.query_status import flow_text, format_size
from kstreamnb.spark.telemetry.metrics import BatchFigures, Metric, total
from kstreamnb.spark.telemetry.query_charts import lag_trend
from kstreamnb.topology.labels import node_title

_LETTERS, _LONGEST = 5, 100


class DeployPanel(FactsWidget):
    """A deployment, watched from a notebook.

    Attributes:
        query: the deployment; Stop and Restart call its methods.
    """

    _esm = esm("panel")

    def __init__(self, query: Query) -> None:
        expect(query, Query, "query", hint="pass the result of ks.deploy")
        self.query = query
        self._rows: dict[str, int] = {}
        self._letters: list[list[str]] = []
        super().__init__(f'deployment "{query.application}"')

    def make_facts(self) -> Facts:
        """Return the present state, figures and series."""
        query = self.query
        status, error = query.status(lag=False), query.exception()
        metrics, recent = query.metrics(), query.recent()
        description = query.topology.description()
        nodes, topic = description.nodes(), self._letters_topic
        letters = None if topic is None else int(total(metrics, "records-produced-total", None, ("topic-name", topic)))
        trend = lag_trend(tuple(query.book.lags))
        failed, last_error = getattr(error, "node", "") or "", query.control.lifecycle.last_error
        return {
            "application": query.application,
            "state": status.state,
            "figures": [
                *_figures(status.batch, metrics, recent, letters, trend),
                ["restarts", _restarts(query.control.starts)],
                *([["slow batch", status.slow]] if status.slow else []),
            ],
            "charts": to_charts_svg(query.charts),
            "stores": [
                [name, f"{self._rows[name]:,}" if name in self._rows else "not counted"] for name in query.stores
            ],
            "tasks": [[task, *figures[:3]] for task, figures in status.by_task.items()],
            "drops": [[node_title(nodes, node) if node in nodes else node, *more] for node, *more in _drops(metrics)],
            "node": node_title(nodes, failed) if failed in nodes else failed,
            "failure": "" if last_error is None else without_secrets(error_words(last_error)),
            "over": last_error is not None and error is None,
            "letters": self._letters,
            "has_letters": topic is not None,
            "svg": picture(graph_view(description, Overlay(marks={failed: "failed"}))) if failed else "",
        }

    def stale(self) -> str | None:
        """Say that the notebook's declarations differ from what is deployed."""
        stale = self.query.topology.stale
        return stale and f"the deployed topology was {stale}, and deploy it"

    def forms(self) -> dict[str, str]:
        """Return the present figures as text, and as tables in HTML."""
        facts: Any = self.make_facts()
        lines = [f'deployment "{facts["application"]}": {facts["state"]}']
        lines += [f"  {name}: {text}" for name, text in facts["figures"]]
        lines += [f"  stores: {', '.join(name for name, _ in facts['stores'])}"] if facts["stores"] else []
        if facts["tasks"]:
            lines += text_table(("task", "records", "dropped", "state"), facts["tasks"]).splitlines()
        lines += [f"  dropped: {number} at {node} ({why})" for node, why, number in facts["drops"]]
        lines += ["  dead letter " + ", ".join(letter) for letter in facts["letters"]]
        lines += [f"  last error: {facts['failure']}"] if facts["failure"] else []
        return {"text/plain": "\n".join(line.rstrip() for line in lines), "text/html": _page(facts)}

    # --- commands of the page ---
    def refresh(self) -> None:
        """Read the figures again."""

    def stop(self) -> None:
        """Stop the deployment after the running batch."""
        self.query.stop()

    def restart(self) -> None:
        """Resume from the checkpoint."""
        self.query.restart()

    def count(self) -> None:
        """Count the rows of every store by reading them."""
        self._rows = {name: sum(1 for _ in self.query.store(name).all()) for name in self.query.stores}

    def read_letters(self) -> None:
        """Read the last dead letters: key, value, and the error that each carries in its headers."""
        if self._letters_topic is not None:
            self._letters = _last_letters(self.query.control.source, self._letters_topic)

    commands: ClassVar = named(refresh, stop, restart, count, read_letters)

    @property
    def _letters_topic(self) -> str | None:
        return self.query.deployment.application.config.dead_letter_topic


def _page(facts: Any) -> str:
    """Return the figures as tables without script, for a saved notebook."""
    about = f'deployment "{facts["application"]}": {facts["state"]}'
    tables = [
        (("figure", "value"), facts["figures"], about),
        (("task", "records", "dropped", "state"), facts["tasks"], "tasks"),
        (("store", "rows"), facts["stores"], "stores"),
        (("node", "why", "records"), facts["drops"], "dropped"),
        (("record", "key", "value", "error"), facts["letters"], "dead letters"),
    ]
    failure = f"<p>last error: {escaped(facts['failure'])}</p>" if facts["failure"] else ""
    return f"<div>{''.join(html_table(head, rows, [title]) for head, rows, title in tables if rows)}{failure}</div>"


def _figures(
    batch: int, metrics: Sequence[Metric], recent: Sequence[BatchFigures], letters: int | None, trend: str = ""
) -> list[list[str]]:
    """Return the headline figures, each with its unit."""
    lag, state = total(metrics, "records-lag"), total(metrics, "state-bytes")
    dropped = total(metrics, "dropped-records-total", "stream-task-metrics")
    last = recent[-1] if recent else None
    rows = [
        ["batch", "none yet" if batch < 0 else f"{batch:,}"],
        ["duration", "" if last is None else _ms(last.seconds * 1000)],
        ["in", flow_text(metrics, "records-consumed")],
        ["out", flow_text(metrics, "record-send")],
        ["lag", pluralize(int(lag), "record") + (f", {trend}" if trend else "")],
        ["dropped", pluralize(int(dropped), "record")],
        ["dead letters", "no topic for them" if letters is None else f"{letters:,}"],
        ["state", format_size(state)],
    ]
    if last is not None and last.latency_ms is not None:
        age = last.latency_ms[1]
        rows.append(["event time of output", f"{_ms(abs(age))} {'ago' if age >= 0 else 'ahead'}"])
    return rows


def _ms(number: float) -> str:
    """Return an elapsed time in a readable unit."""
    if number < 10_000:
        return f"{number:,.0f} ms"
    seconds = number / 1000
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} s"


def _last_letters(source: OffsetSource, topic: str) -> list[list[str]]:
    """Return the newest dead letters: the place of the record, its key and value, and the error."""
    if not isinstance(source, KafkaOffsetSource):
        return []
    admin = Admin(source.servers)
    first, end = admin.offsets([topic], "earliest")[topic], admin.offsets([topic])[topic]
    start = {topic: {part: max(first[part], last - _LETTERS) for part, last in end.items()}}
    records = capture(source.servers, [topic], from_=start, value_serde=Serdes.string()).records
    return [_letter(record) for record in sorted(records, key=lambda each: -each.timestamp)[:_LETTERS]]


def _letter(record: TopicRecord) -> list[str]:
    about = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    names = "topic", "partition", "offset", "exception", "message"
    topic, partition, offset, kind, message = (about.get(f"__streams.errors.{name}", "") for name in names)
    position, error = f"{topic}-{partition}@{offset}", without_secrets(f"{kind}: {message}")
    key, value = (format_value(part)[:_LONGEST] for part in (record.key, record.value))
    return [clean(text[: 2 * _LONGEST]) for text in (position, key, value, error)]


def _restarts(starts: Mapping[Actor, int]) -> str:
    """Return how often the query started again, and how often automatically."""
    automatic = sum(count for actor, count in starts.items() if actor is not Actor.USER)
    again = max(0, sum(starts.values()) - 1)
    return f"{again:,}, {automatic:,} automatic" if automatic else f"{again:,}"


def _drops(metrics: Iterable[Metric]) -> list[list[str]]:
    """Return drops by node and reason, over all tasks."""
    counts = Counter[tuple[str, str]]()
    for each in metrics:
        tags = dict(each.tags)
        if "processor-node-id" in tags and "reason" in tags:
            counts[tags["processor-node-id"], tags["reason"]] += int(each.value)
    return [[node, why, f"{number:,}"] for (node, why), number in sorted(counts.items())]
