"""Grafana's own types, of its package for npm, accept the dashboard and refuse what they do not know."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstreamnb as ks

DASHBOARD = Path(ks.__file__).parent / "spark" / "operations" / "dashboard.json"
PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
PROGRAM = """import type {{ Dashboard, Panel }} from '@grafana/schema';
const panels: Panel[] = {panels};
export const board: Dashboard = {rest};
export default {{ ...board, panels }};
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], list[str]]:
    """Return the errors of TypeScript for a dashboard."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    folder = tmp_path_factory.mktemp("grafana")
    install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
    subprocess.run([*install, *PACKAGES], check=True, timeout=300)

    def errors(board: dict[str, Any]) -> list[str]:
        panels, rest = json.dumps(board["panels"]), json.dumps({**board, "panels": []})
        (folder / "board.ts").write_text(PROGRAM.format(panels=panels, rest=rest))
        options = ["--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "esnext"]
        compiler = ["node", "node_modules/typescript/lib/tsc.js", *options, "--moduleResolution", "bundler", "board.ts"]
        done = subprocess.run(compiler, cwd=folder, capture_output=True, text=True, check=False)
        return [line for line in done.stdout.splitlines() if "error" in line]

    return errors


def test_grafanas_types_accept_the_dashboard(checked: Callable[[dict[str, Any]], list[str]]) -> None:
    """S4-39: a panel without a type, a field that Grafana lacks and a position in words are refused."""
    board = json.loads(DASHBOARD.read_text())
    assert checked(board) == []
    first = board["panels"][0]
    without_type = {name: value for name, value in first.items() if name != "type"}
    for panel, word in (
        (without_type, "'type' is missing"),
        ({**first, "titel": "x"}, "'titel' does not exist"),
        ({**first, "gridPos": {**first["gridPos"], "w": "wide"}}, "'string' is not assignable to type 'number'"),
    ):
        (error,) = checked({**board, "panels": [panel]})
        assert word in error
