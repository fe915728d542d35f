"""The import contracts hold, and catch violations."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint_imports(project: Path) -> tuple[int, str]:
    """Check the contracts of a project."""
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command as c; c()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, "--no-cache"], cwd=project, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package that a test may damage."""
    copy = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "kstreamnb", copy / "kstreamnb", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def test_the_contracts_hold(project: Path) -> None:
    """In the package itself, no module violates a contract."""
    code, text = lint_imports(project)
    assert code == 0, text
    assert ", 0 broken." in text


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("core/record.py", "import kstreamnb.dsl", "What to compute"),
        ("recording/recorded_run.py", "import kstreamnb.spark", "How to run it"),
        ("dsl/options.py", "import kstreamnb.runtime", "What to compute does not know how it is run"),
        ("runtime/task/task.py", "import kstreamnb.operators", "How it is run does not know what is computed"),
        ("kafka/admin.py", "import pyspark", "pyspark only in spark"),
        ("samples/text.py", "import confluent_kafka", "confluent_kafka only in kafka"),
        ("display/svg.py", "import IPython", "IPython and widgets only in notebook"),
        ("state/store.py", "import pandas", "pandas and pyarrow only where frames enter"),
        ("stray.py", '"""A module that no contract knows."""', "What to compute"),
    ],
)
def test_a_broken_contract_is_caught(project: Path, module: str, line: str, contract: str) -> None:
    """One forbidden import, or a module outside the layers, and the contract is named."""
    path = project / "kstreamnb" / module
    before = path.read_text() if path.exists() else None
    path.write_text(f"{before or ''}\n{line}\n")
    try:
        code, text = lint_imports(project)
    finally:
        path.unlink() if before is None else path.write_text(before)
    assert code == 1
    assert any(row.startswith(contract) and row.rstrip().endswith("BROKEN") for row in text.splitlines()) or (
        "stray" in text and "exhaustive" in text.lower()
    ), text
