"""Facts about what a running query costs, for the explorer: its painted graph, and a row for each task."""

from __future__ import annotations

from kstreamnb.charts import CostPicture

TASK_HEADER = ["task", "share of time", "records", "ms a record", "dropped", "state"]


def cost_of(thing: object) -> CostPicture | None:
    """Return the present cost of a query; None for anything else."""
    cost = getattr(thing, "cost", None)
    return cost if isinstance(cost, CostPicture) else None


def is_live(thing: object) -> bool:
    """Return whether the figures can still change: the query is not stopped or failed."""
    status = getattr(thing, "status", None)
    return status is not None and status(lag=False).state not in ("stopped", "failed")


def task_rows(cost: CostPicture | None) -> list[list[str]]:
    """Return the texts of the columns of `TASK_HEADER` for each task."""
    if cost is None:
        return []
    from kstreamnb.spark.query.query_status import format_size  # without a query there may be no Spark

    return [
        [task.task, f"{task.share:.0%}", f"{task.records:,}", f"{task.record_ms:,.3f}", f"{task.dropped:,}",
         format_size(task.state_bytes)]
        for task in cost.tasks
    ]  # fmt: skip
