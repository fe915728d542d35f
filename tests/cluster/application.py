"""Runs a deployment in a separate process, to be killed: ``python -m tests.cluster.application OPTIONS``.

The options are JSON: ``name``, ``master``, ``servers``, ``checkpoint``, ``settings``, and ``modules``, a folder with
the module ``rules`` that only the driver can import. One line of JSON reports that the query runs, another why it
ended.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import kstreamnb as ks

__all__ = ["RULES", "build"]

RULES = """
def first_letter(key, count):
    return key[0]
"""
"""The user's module."""


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


def main() -> None:
    """Deploy, and wait until the query ends."""
    options = json.loads(sys.argv[1])
    sys.path.append(options["modules"])
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


if __name__ == "__main__":
    main()
