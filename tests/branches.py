"""Branch coverage of the spine: ``python -m tests.branches FILE.json LEAST`` prints it, and fails below ``LEAST`` %."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from tests.unit.test_tidy import SPINE

__all__ = ["main"]


def main(path: str, least: str) -> int:
    """Count the branches that tests took in each package, out of those that exist."""
    taken: Counter[str] = Counter()
    known: Counter[str] = Counter()
    for file, found in json.loads(Path(path).read_text())["files"].items():
        package = file.partition("kstreamnb/")[2].partition("/")[0]
        if package in SPINE:
            taken[package] += found["summary"]["covered_branches"]
            known[package] += found["summary"]["num_branches"]
    for package in SPINE:
        print(f"{package:11} {taken[package]:5} of {known[package]:5} branches {taken[package] / known[package]:7.1%}")
    share = 100 * taken.total() / known.total()
    print(f"spine       {taken.total():5} of {known.total():5} branches {share:6.1f}%, at least {least}% wanted")
    return share < float(least)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
