"""The import contracts hold, and catch violations."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BROKEN = [
    ("core/record.py", "import kstreamnb.dsl", "What to compute"),
    ("recording/recorded_run.py", "import kstreamnb.spark", "How to run it"),
    ("dsl/options.py", "import kstreamnb.runtime", "What to compute does not know how it is run"),
    ("runtime/task/task.py", "import kstreamnb.operators", "How it is run does not know what is computed"),
    ("kafka/admin.py", "import pyspark", "pyspark only in spark"),
    ("samples/text.py", "import confluent_kafka", "confluent_kafka only in kafka"),
    ("display/svg.py", "import IPython", "IPython and widgets only in notebook"),
    ("state/store.py", "import pandas", "pandas and pyarrow only where frames enter"),
    ("stray.py", '"""A module that no contract knows."""', "What to compute"),
]
"""Modules, a line that each gets, and the contract that the line breaks."""

_LINT = """
import contextlib, io, json, pathlib, sys
sys.path.insert(0, ".")
from importlinter.cli import lint_imports

def verdict():
    with contextlib.redirect_stdout(io.StringIO()) as report:
        code = lint_imports(no_cache=True)
    return code, report.getvalue()

verdicts = [verdict()]
for module, line, _ in json.load(sys.stdin):
    path = pathlib.Path("kstreamnb", module)
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\\n{line}\\n")
    verdicts.append(verdict())
    path.unlink() if before is None else path.write_text(before)
json.dump(verdicts, sys.stdout)
"""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[int, str]]:
    """Exit codes and reports for a copy of the package: as it is, and with each violation alone, from one process."""
    copy = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "kstreamnb", copy / "kstreamnb", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    command = [sys.executable, "-P", "-c", _LINT]
    wide = {**os.environ, "COLUMNS": "200"}  # the report breaks the names of contracts in a narrow terminal
    done = subprocess.run(
        command, input=json.dumps(BROKEN), cwd=copy, env=wide, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_contracts_hold(verdicts: list[tuple[int, str]]) -> None:
    """In the package itself, no module violates a contract."""
    code, text = verdicts[0]
    assert code == 0, text
    assert ", 0 broken." in text


@pytest.mark.parametrize(("number", "contract"), [(number, case[2]) for number, case in enumerate(BROKEN, 1)])
def test_a_broken_contract_is_caught(verdicts: list[tuple[int, str]], number: int, contract: str) -> None:
    """One forbidden import, or a module outside the layers, and the contract is named."""
    code, text = verdicts[number]
    assert code == 1
    assert any(row.startswith(contract) and row.rstrip().endswith("BROKEN") for row in text.splitlines()) or (
        "stray" in text and "exhaustive" in text.lower()
    ), text
