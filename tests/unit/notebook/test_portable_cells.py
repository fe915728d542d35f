"""Saved notebooks: samples of strangers in them are data."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.notebook.portable_cells import CellRun, portable
from tests.hostile import ATTACKS

CAPTURE = 'orders = ks.Sample.capture("broker:9092", "orders")'


@pytest.mark.parametrize("text", ATTACKS, ids=range(len(ATTACKS)))
def test_a_captured_sample_is_saved_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A value that ends the text of the cell is still text: the cell makes equal records, and calls nothing else."""
    sample = ks.Sample.from_records([("orders", 0, 0, 5, text, {"note": text}), ("orders", 0, 1, 6, "b", text)])
    (source,), (_, note) = portable([CellRun(CAPTURE, {"orders": sample})], tmp_path / "saved.ipynb")
    assert "kept" in note
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    assert calls in (["ks.Sample.from_text"], ["ks.Sample.from_json_lines"])
    namespace = {"ks": ks}
    monkeypatch.chdir(tmp_path)
    exec(source, namespace)
    assert sample.content_hash == namespace["orders"].content_hash
