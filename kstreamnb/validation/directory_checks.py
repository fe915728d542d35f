"""Where state and logs lie: on one disk they slow each other down, and in /tmp they do not last."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kstreamnb.validation.issue import Issue

__all__ = ["folder_findings"]


def folder_findings(folders: Mapping[str, str | Path]) -> Iterator[Issue]:
    """S4-53: folders by what lies in them, such as "checkpoint" and "broker log"; those to be made count, too."""
    places = {name: Path(path).expanduser().resolve() for name, path in folders.items()}
    passing = {Path(folder).resolve() for folder in ("/tmp", "/var/tmp", tempfile.gettempdir())}
    for name, path in places.items():
        if passing & {path, *path.parents}:
            fact = f'it lies in "{path}", which systems empty when they start'
            yield Issue("warning", name, fact, "choose a folder that stays")
    for (one, first), (other, second) in itertools.combinations(places.items(), 2):
        if _device(first) == _device(second):
            yield Issue(
                "warning",
                f"{one} and {other}",
                "they share a device: each waits for the other's writes, and both are gone with it",
                "give each a disk of its own",
            )


def _device(path: Path) -> int:
    """The device of a folder, or of the nearest one above it that is there."""
    while not path.exists():
        path = path.parent
    return os.stat(path).st_dev
