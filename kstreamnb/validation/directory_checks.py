"""Checks where state and logs are stored: shared disks are slow, and temporary folders do not last."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kstreamnb.validation.issue import Issue


def folder_findings(folders: Mapping[str, str | Path]) -> Iterator[Issue]:
    """Check folders by their content, such as "checkpoint" and "broker log"; they need not exist yet."""
    paths = {name: Path(path).expanduser().resolve() for name, path in folders.items()}
    passing = {Path(folder).resolve() for folder in ("/tmp", "/var/tmp", tempfile.gettempdir())}
    for name, path in paths.items():
        if passing & {path, *path.parents}:
            fact = f'it is in "{path}", which is emptied when the system starts'
            yield Issue("warning", name, fact, "choose a permanent folder")
    for (one, first), (other, second) in itertools.combinations(paths.items(), 2):
        if _device(first) == _device(second):
            fact = "they share a device: they slow each other down and are lost together"
            yield Issue("warning", f"{one} and {other}", fact, "put them on different disks")


def _device(path: Path) -> int:
    """Return the device of a folder, or of its nearest existing parent."""
    while not path.exists():
        path = path.parent
    return os.stat(path).st_dev
