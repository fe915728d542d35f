"""Runs golden vectors: ``python -m tests.golden.run PATH… [--engine driver|levels|spark] [--only REGEX] [--limit N]``.

A path is a file of vectors (``.jsonl`` or ``.jsonl.xz``) or a folder of them. Every difference is printed briefly; the
last line is ``N passed, M failed, K skipped``, and the exit code is 1 if any failed. Vectors listed in
``accidents.json`` deliberately differ from Kafka Streams: they count as skipped. On Spark, and on Spark's levels
without Spark, vectors whose answer differs from Kafka's one-task test driver are listed by the rule that explains why.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kstreamnb.logical.optimizer.merge_repartitions import STAYS
from tests.golden.compare import compare, compare_error
from tests.golden.evaluate import Failed, answer_of, build

__all__ = ["Outcome", "check", "load", "main"]

ACCIDENTS = Path(__file__).with_name("accidents.json")
STAYS_RULE = "rule: merge.repartition.topics"


@dataclass
class Outcome:
    """The outcome of one vector: "passed", "failed" or "skipped", the differences, and the rule that allows them."""

    name: str
    state: str
    differences: list[str] = field(default_factory=list)
    rule: str = ""


def load(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Vectors of files and folders, in order."""
    for path in paths:
        if path.is_dir():
            yield from load(sorted(p for p in path.iterdir() if p.suffixes[:1] == [".jsonl"]))
            continue
        with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
            yield from (named(json.loads(line), number) for number, line in enumerate(lines) if line.strip())


def named(vector: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a vector with a name; lines of serdes have no name."""
    if "serde" in vector:
        return {"name": f"serde.{vector['serde']}.{number}", "serde": vector}
    return vector


def accidents() -> dict[str, str]:
    """Vectors that deliberately differ, with the reason; "rule: …" for a rewrite's own statement of its effect."""
    return json.loads(ACCIDENTS.read_text(encoding="utf-8")) if ACCIDENTS.exists() else {}


def check(vector: dict[str, Any], excused: dict[str, str]) -> Outcome:
    """Evaluate one vector in the driver and compare."""
    name = vector["name"]
    if name in excused:
        return Outcome(name, "skipped", [excused[name]])
    if "serde" in vector:
        from tests.golden.serde_vectors import differences_of

        differences = differences_of(vector["serde"])
        return Outcome(name, "failed" if differences else "passed", differences)
    expected = vector["answer"]
    actual = answer_of(vector["spec"], describe_only=not {"steps", "error"} & expected.keys())
    if isinstance(actual, Failed):
        differences = compare_error(expected, actual)
        if differences and "error" not in expected:
            differences += traceback.format_exception(actual.error)
    else:
        differences = compare(expected, actual)
        if differences and any(STAYS in str(explained) for explained in build(vector["spec"]).explain()):
            return Outcome(name, "skipped", [excused[STAYS_RULE]])
    return Outcome(name, "failed" if differences else "passed", differences)


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    options = _options(arguments)
    vectors = load([Path(path) for path in options.paths])
    if options.stdin:
        vectors = (json.loads(line) for line in sys.stdin if line.strip())
    only, excused = re.compile(options.only), accidents()
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    by_rule: dict[str, list[str]] = {}
    chosen = itertools.islice((vector for vector in vectors if only.search(vector["name"])), options.limit)
    for outcome in _outcomes(chosen, options.engine, excused):
        counts[outcome.state] += 1
        if outcome.rule and outcome.state == "passed":
            by_rule.setdefault(outcome.rule, []).append(outcome.name)
        if outcome.state == "failed":
            shown = outcome.differences if options.verbose else outcome.differences[: options.lines]
            print(f"FAILED {outcome.name}", *(f"  {line.rstrip()[: options.width]}" for line in shown), sep="\n")
    _tell_rules(by_rule)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] else 0


def _tell_rules(by_rule: dict[str, list[str]]) -> None:
    """Vectors that pass although production differs from Kafka's test driver, by rule."""
    if by_rule:
        from tests.golden.spark_engine import RULES

        for rule, names in sorted(by_rule.items()):
            print(f"{len(names)} as the driver with Kafka's production layout, by rule {rule!r}: {RULES[rule]}")
            print(*(f"  {name}" for name in names), sep="\n")


def _outcomes(vectors: Iterator[dict[str, Any]], engine: str, excused: dict[str, str]) -> Iterator[Outcome]:
    """Evaluate vectors one by one, or many at once on Spark."""
    if engine == "driver":
        yield from (check(vector, excused) for vector in vectors)
        return
    from tests.golden.spark_engine import check_on_spark

    chosen = (vector for vector in vectors if vector["name"] not in excused)
    yield from itertools.starmap(Outcome, check_on_spark(chosen, in_process=engine == "levels"))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.run", description="Run golden vectors.")
    parser.add_argument("paths", nargs="*", help="files or folders of vectors")
    parser.add_argument("--engine", choices=["driver", "levels", "spark"], default="driver")
    parser.add_argument("--only", default="", help="names to run, as a regular expression")
    parser.add_argument("--limit", type=int, help="run at most so many")
    parser.add_argument("--stdin", action="store_true", help="read vectors from standard input")
    parser.add_argument("--lines", type=int, default=3, help="lines shown of each failure")
    parser.add_argument("--width", type=int, default=240, help="width of a line shown")
    parser.add_argument("--verbose", action="store_true", help="show all lines")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
