"""Runs a deployment in a separate process, to be killed; its argument is JSON.

The options are ``name``, ``master``, ``servers``, ``checkpoint``, ``settings``, and ``modules``, a folder with the
module ``rules`` that only the driver can import. One line of JSON reports that the query runs, another why it ended. A
batch is held at a point of `POINTS` as long as the test keeps a file of that name.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import kstreamnb as ks
from tests.kafka.deployed import BEFORE, COMMITTED, INSIDE, STATE, WHILE

__all__ = ["HELD", "RULES", "build"]

HELD = "held"
"""The file that tells the test that a batch has arrived at the point."""

RULES = f"""
import pathlib, time

def pause(point):
    folder = pathlib.Path(__FOLDER__)
    while (folder / point).exists():
        (folder / {HELD!r}).touch()
        time.sleep(0.01)

def first_letter(key, count):
    pause({WHILE!r})
    return key[0]
"""
"""The user's module; ``__FOLDER__`` is to be replaced."""


def build(name: str) -> ks.Topology:
    """Count records by key, and count updates by the first letter of the key: two levels with state."""
    rules = import_module("rules")
    builder = ks.StreamsBuilder(name)
    counts = builder.stream(f"{name}-in", value_serde="long").group_by_key().count(store="by-key")
    counts.to_stream().to(f"{name}-counts", value_serde="long")
    letters = counts.to_stream().group_by(rules.first_letter, value_serde="long")
    letters.count(store="by-letter").to_stream().to(f"{name}-letters", value_serde="long")
    return builder.build()


def say(**what: Any) -> None:
    """Print one line for the test."""
    print(json.dumps(what), flush=True)


def hold_batches(pause: Callable[[str], None]) -> None:
    """Call a function at the points of every batch that the driver passes."""
    from pyspark.sql.classic.dataframe import DataFrame

    from kstreamnb.kafka.transactional_writer import TransactionalWriter

    collect, publish = DataFrame._collect_as_arrow, TransactionalWriter.publish

    def collecting(self: Any, **options: Any) -> Any:
        pause(BEFORE)
        batches = collect(self, **options)
        pause(STATE)
        return batches

    def publishing(self: Any, *arguments: Any, **options: Any) -> Any:
        steps = {"offsets": INSIDE, "committed": COMMITTED}
        return publish(self, *arguments, **options, between=lambda step: pause(steps.get(step, step)))

    DataFrame._collect_as_arrow = collecting
    TransactionalWriter.publish = publishing  # type: ignore[method-assign]


def main() -> None:
    """Deploy, and wait until the query ends."""
    options = json.loads(sys.argv[1])
    sys.path.append(options["modules"])
    hold_batches(import_module("rules").pause)
    spark = ks.spark.spark_session(options["name"], master=options["master"], settings=options["settings"])
    shipped = ks.spark.ship(spark, "rules")
    try:
        query = ks.deploy(
            build(options["name"]),
            spark=spark,
            bootstrap_servers=options["servers"],
            checkpoint=options["checkpoint"],
            spark_partitions=2,
            parity=False,
        )
        say(shipped=shipped, batch=query.status(lag=False).batch)
        query.await_termination()
    except ks.KStreamError as error:
        say(error=str(error), detail=error.detail, hint=error.hint)
        sys.exit(3)
