"""Tests of the kit on brokers of other versions: ``python -m tests.kafka.versions 2.8.2 3.9.1 [--only FILE …]``.

Each version runs the tests of clients, transactions, access and deployments on a separate broker, whose jars the
first run fetches as those of a local broker. The result is a table; the exit code is 1 if a test failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kstreamnb.kafka.java import kafka_jars

__all__ = ["FILES", "VERSIONS", "main", "outcome"]

VERSIONS = ("2.8.2", "3.3.2", "3.7.2", "3.9.1", "4.0.0")
FILES = (
    "access",
    "adoption",
    "broker",
    "capture",
    "guarantees",
    "produce",
    "publisher",
    "reader",
    "reset",
    "restart",
    "security",
    "slots",
)
_FOLDER = Path(__file__).parent
_SUMMARY = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


def outcome(output: str) -> dict[str, int]:
    r"""Return the numbers in the last line of pytest's output.

    Example:
        >>> outcome("F.\n1 failed, 41 passed, 2 deselected in 60.12s")
        {'failed': 1, 'passed': 41}
    """
    lines = output.strip().splitlines() or [""]
    return {kind.rstrip("s") if kind == "errors" else kind: int(n) for n, kind in _SUMMARY.findall(lines[-1])}


def run(version: str, files: Sequence[str], options: Sequence[str]) -> tuple[dict[str, int], float]:
    """Run the tests on a broker of one version; return their numbers and seconds."""
    kafka_jars(version)
    command = [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:anyio", "-m", "kafka and not slow"]
    command += [str(_FOLDER / f"test_{file}.py") for file in files]
    began = time.monotonic()
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, "KAFKA_BROKER": version},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    found = outcome(done.stdout)
    return found if found else {"error": 1}, time.monotonic() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests on each version, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.versions", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"versions of Kafka; default {' '.join(VERSIONS)}")
    parser.add_argument("--only", nargs="+", choices=FILES, default=FILES, help="files of tests; default all")
    parser.add_argument("--options", default="", help="more options of pytest, in one text")
    given = parser.parse_args(arguments)
    rows = [(each, *run(each, given.only, given.options.split())) for each in given.versions or VERSIONS]
    print("| Kafka | passed | failed | skipped | seconds |\n|---|---|---|---|---|")
    for version, found, seconds in rows:
        failed = found.get("failed", 0) + found.get("error", 0)
        print(f"| {version} | {found.get('passed', 0)} | {failed} | {found.get('skipped', 0)} | {seconds:.0f} |")
    return int(any(found.get("failed") or found.get("error") for _, found, _ in rows))


if __name__ == "__main__":
    sys.exit(main())
