"""Reads and writes the file of a sample that a command-line argument names."""

from __future__ import annotations

from pathlib import Path

from kstreamnb.errors import ConfigError
from kstreamnb.samples import Sample
from kstreamnb.tools.applications import text_at


def read_sample(path: str) -> Sample:
    """Read a sample from a file; "-" is a text table in standard input."""
    if path != "-" and not Path(path).is_file():
        raise ConfigError(f'file "{path}" does not exist', hint="name a .parquet or .jsonl file, or a text table")
    if path.endswith(".parquet"):
        return Sample.from_parquet(path)
    if path.endswith((".jsonl", ".json")):
        return Sample.from_json_lines(path)
    return Sample.from_text(text_at(path))


def write_sample(sample: Sample, path: Path) -> None:
    """Write a sample in the form in which its file ends, by default as a text table."""
    if path.suffix == ".parquet":
        sample.to_parquet(path)
    elif path.suffix in (".jsonl", ".json"):
        sample.to_json_lines(path)
    else:
        path.write_text(sample.to_text() + "\n", encoding="utf-8", newline="\n")
