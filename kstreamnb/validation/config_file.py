"""Reads settings from files: YAML, as Spring applications keep them, and properties in Java's format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kstreamnb.core.arguments import expect
from kstreamnb.data_files import decoded
from kstreamnb.errors import ConfigError, extra
from kstreamnb.runtime.context.config import Config, streams_settings

_SPRING = "spring.kafka.streams."
_PROPERTY = re.compile(r"((?:\\.|[^\\\s:=])+)(?:\s*[:=]\s*|\s+|$)(.*)")
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_BLANKS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_config(path: Path | str, *more: Path | str) -> Config:
    r"""Read an application's settings from YAML files, or from those in Java's format whose names end in .properties.

    Settings are at the top level, or below ``spring.kafka.streams`` and its ``properties``. Names may be Kafka's
    (``commit.interval.ms``), those of `Config` (``commit_interval``) or hyphenated (``commit-interval``); durations
    without a unit are milliseconds.

    Args:
        path: the file.
        more: further files, whose settings win, such as one with credentials that only this application may read.

    Raises: ConfigError for an unknown name (it suggests the closest known one), and for a file without settings.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "application.yml")
        ...     _ = file.write_text("spring.kafka.streams:\n  application-id: shop\n  commit-interval: 100\n")
        ...     config = read_config(file)
        >>> config.application_id, config.commit_interval_ms
        ('shop', 100)
    """
    return Config.of({name: value for each in (path, *more) for name, value in read_settings(each).items()})


@extra("yaml")
def read_settings(path: Path | str) -> dict[str, Any]:
    """Return the settings that `read_config` reads, by name."""
    expect(path, Path | str, "path")
    if Path(path).suffix == ".properties":
        leaves: dict[str, Any] = dict(read_properties(path))
    else:
        import yaml

        content = yaml.safe_load(read_text(path))
        if not isinstance(content, dict):
            raise ConfigError(f'file "{Path(path).name}" holds no settings', hint="write one `name: value` per line")
        leaves = dict(_leaves(content))
    ours = {name.removeprefix(_SPRING): value for name, value in leaves.items() if name.startswith(_SPRING)}
    named = {name.removeprefix("properties."): value for name, value in (ours or leaves).items()}
    return {_name(name, value): value for name, value in named.items()}


def read_properties(path: Path | str) -> dict[str, str]:
    r"""Read settings of a client from a file in Java's format, as ``--command-config`` of Kafka's tools does.

    Args:
        path: the file.

    Raises: ConfigError if it cannot be read.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "client.properties")
        ...     _ = file.write_text("# shop\nsecurity.protocol=SASL_SSL\nclient.id : a\\\n  b\n")
        ...     read_properties(file)
        {'security.protocol': 'SASL_SSL', 'client.id': 'ab'}
    """
    matches = map(_PROPERTY.match, _logical_lines(read_text(path)))
    return {_unescaped(each[1]): _unescaped(each[2]).strip() for each in matches if each is not None}


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments; a line that ends in an odd number of backslashes continues on the next one."""
    whole = ""
    for line in map(str.lstrip, text.splitlines()):
        if not whole and line[:1] in ("", "#", "!"):
            continue
        whole += line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _BLANKS.get(match[1], match[1])

    return _ESCAPED.sub(plain, text)


def read_text(path: Path | str) -> str:
    """Return the text of a file in UTF-8, or in the encoding of its byte order mark.

    Raises: ConfigError if it cannot be read.
    """
    try:
        return decoded(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f'file "{path}" cannot be read', detail=str(error)) from error


def _leaves(content: Mapping[str, object], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value with its dotted path."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _name(written: str, value: object) -> str:
    """Return a setting's name as `Config` knows it."""
    dotted = written.replace("-", ".")
    if dotted in streams_settings():
        return dotted
    name = written if "." in written else written.replace("-", "_")
    return f"{name}_ms" if name in ("commit_interval", "max_task_idle") and isinstance(value, int) else name
