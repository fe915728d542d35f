"""Selects cells that run anywhere: those that need Spark or Kafka are left out, and their captured samples kept.

A small sample becomes a text table in its cell, a larger one a file beside the notebook with its hash in the cell.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from operator import itemgetter
from pathlib import Path
from typing import Any

from IPython.core.inputtransformer2 import TransformerManager

from kstreamnb.core.formatting import pluralize
from kstreamnb.errors import KStreamError
from kstreamnb.notebook.secrets import from_environment
from kstreamnb.notebook.variables import plain_source, read_names, statements, written_names
from kstreamnb.samples import Sample

_ELSEWHERE = re.compile(
    r"\b(deploy|capture|spark_session|local_broker|Admin|await_input|parity)\("
    r"|%ks (deploy|capture|status|stop|reset|logs)\b"
)
_ITSELF = "save_regression"
_INLINE_RECORDS, _INLINE_CHARACTERS = 30, 4_000
_BESIDE = 10
_Definition = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True)
class CellRun:
    """The text of a cell, the samples in its variables after it ran, and its failure flag."""

    source: str
    samples: Mapping[str, Sample] = field(default_factory=dict)
    failed: bool = False


def bound_samples(source: str, namespace: Mapping[str, object]) -> dict[str, Sample]:
    """Return the samples that a cell assigned to variables such as ``orders`` or ``builder.sample``."""
    values = {target: _value(target, namespace) for node in _statements(source) for target in _targets(node)}
    return {target: value for target, value in values.items() if isinstance(value, Sample)}


def notebook_order(runs: Mapping[Hashable, CellRun], file: str | None) -> tuple[CellRun, ...]:
    """Return cells in the order of a saved notebook; one that is not in it follows the cell that first ran before it.

    A front end may give its own ids, or none: then the text decides. A text without an id is an earlier version of a
    cell if the notebook does not have it.
    """
    saved = _saved_cells(runs, Path(file)) if file else []
    if not saved:
        return tuple(runs.values())
    ranks: dict[Hashable, int] = {"".join(cell["source"]): rank for rank, cell in enumerate(saved)}
    ranks |= {cell["id"]: rank for rank, cell in enumerate(saved) if "id" in cell}
    rank, ranked = -1, []
    for cell, run in runs.items():
        known = ranks.get(cell, ranks.get(run.source))
        if known is not None or not isinstance(cell, tuple):
            rank = rank if known is None else known
            ranked.append((rank, run))
    return tuple(run for _, run in sorted(ranked, key=itemgetter(0)))


def _saved_cells(runs: Mapping[Hashable, CellRun], file: Path) -> list[dict[str, Any]]:
    """Return the cells of a saved notebook or, if it was renamed, of the newest file beside it with the same cells.

    The server names the file as it was when the kernel started, and a new notebook begins as ``Untitled.ipynb``.
    A page saves an open notebook every two minutes, so the renamed one is among the newest; reading all may take long.
    """
    files = filter(Path.is_file, file.parent.glob("*.ipynb"))
    beside = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
    notebooks = map(_cells_in, [file, *beside[:_BESIDE]])
    return next((cells for cells in notebooks if any(cell.get("id") in runs for cell in cells)), _cells_in(file))


def _cells_in(file: Path) -> list[dict[str, Any]]:
    try:
        return [dict(cell) for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]]
    except (OSError, ValueError, KeyError, TypeError):  # not a notebook
        return []


def portable(cells: Iterable[CellRun], path: Path) -> tuple[list[str], list[str]]:
    """Return the cells that need neither Spark nor Kafka, and sentences on what was left out and kept."""
    sources: list[str] = []
    notes: list[str] = []
    lost: set[str] = set()
    taken: set[str] = set()
    remote = failed = 0
    for cell in cells:
        if _ITSELF in cell.source:
            continue
        if cell.failed:
            failed += 1
            continue
        code = _statements(cell.source)
        if not _ELSEWHERE.search(cell.source) and not (code and read_names(code) & lost):
            sources.append(cell.source)
            lost -= written_names(code)
            continue
        remote += 1
        kept = [*_definitions(code, lost), *_kept_samples(cell, path, notes, taken)]
        lost |= written_names(code)
        lost -= {name for text in kept for name in written_names(statements(text))}
        if kept:
            sources.append("\n".join(kept))
    summary = [f"{pluralize(remote, 'cell')} left out: needing Spark or Kafka"] if remote else []
    summary += [f"{pluralize(failed, 'cell')} left out after an error"] if failed else []
    return [_without_secrets(source) for source in sources], summary + notes


def _without_secrets(source: str) -> str:
    """Return a cell that reads its secrets from the environment; a cell without any stays as it is."""
    transformed = TransformerManager().transform_cell(source)
    if not statements(transformed):
        return source
    plain = plain_source(transformed)
    text, names = from_environment(plain)
    return source if text == plain else "\n".join([*(["import os"] if names else []), text.rstrip("\n")])


def _statements(source: str) -> list[ast.stmt]:
    return statements(TransformerManager().transform_cell(source))


def _targets(node: ast.stmt) -> Iterator[str]:
    """Yield the targets of an assignment: names, and attributes of names."""
    parts = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    for part in parts:
        is_attribute = isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
        if isinstance(part, ast.Name) or is_attribute:
            yield ast.unparse(part)


def _value(target: str, namespace: Mapping[str, object]) -> object:
    name, _, attribute = target.partition(".")
    thing = namespace.get(name)
    return getattr(thing, attribute, None) if attribute else thing


def _definitions(code: Iterable[ast.stmt], lost: set[str]) -> Iterator[str]:
    """Yield the imports, functions and classes of a cell that is left out, unless they are the reason."""
    for node in code:
        text = ast.unparse(node)
        if isinstance(node, _Definition) and not _ELSEWHERE.search(text) and not read_names([node]) & lost:
            yield text


def _kept_samples(cell: CellRun, path: Path, notes: list[str], taken: set[str]) -> Iterator[str]:
    for target, sample in cell.samples.items():
        label = f'sample "{target}": {pluralize(len(sample), "record")}'
        literal = f'r"""\n{sample.to_text().rstrip()}\n"""' if len(sample) <= _INLINE_RECORDS else ""
        if 0 < len(literal) <= _INLINE_CHARACTERS and _reads_back(literal, sample):
            notes.append(f"{label} kept as text")
            yield f"{target} = ks.Sample.from_text({literal})"
            continue
        file = _free_name(path.with_name(f"{path.stem}.{target.replace('.', '-')}.jsonl"), taken)
        sample.to_json_lines(file)
        if Sample.from_json_lines(file).content_hash != sample.content_hash:
            file.unlink()
            notes.append(f"{label} left out: not representable in JSON")
            continue
        notes.append(f'{label} kept in "{file.name}"')
        yield f'{target} = ks.Sample.from_json_lines("{file.name}")'
        yield f'assert {target}.content_hash == "{sample.content_hash}", "{file.name} is not the file that was saved"'


def _free_name(file: Path, taken: set[str]) -> Path:
    """Return a file with a number if another sample has its name; on Windows and macOS, Orders is the file orders."""
    names = chain([file.stem], (f"{file.stem}-{number}" for number in count(2)))
    name = next(name for name in names if name.casefold() not in taken)
    taken.add(name.casefold())
    return file.with_stem(name)


def _reads_back(literal: str, sample: Sample) -> bool:
    """Return True if a text literal parses to the same records."""
    try:
        return Sample.from_text(ast.literal_eval(literal)).records == sample.records
    except (SyntaxError, ValueError, KStreamError):  # the second: code follows the end of the literal
        return False
