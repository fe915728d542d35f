"""Reads settings from a YAML file, as Spring applications keep them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kstreamnb.core.arguments import expect
from kstreamnb.errors import ConfigError, extra
from kstreamnb.runtime.context.config import Config, streams_settings

_SPRING = "spring.kafka.streams."


@extra("yaml")
def read_config(path: Path | str) -> Config:
    r"""Read an application's settings from a YAML file.

    Settings are at the top level, or below ``spring.kafka.streams`` and its ``properties``. Names may be Kafka's
    (``commit.interval.ms``), those of `Config` (``commit_interval``) or hyphenated (``commit-interval``); durations
    without a unit are milliseconds.

    Args:
        path: the YAML file.

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
    import yaml

    expect(path, Path | str, "path")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f'file "{path}" cannot be read', detail=str(error)) from error
    content = yaml.safe_load(text)
    if not isinstance(content, dict):
        raise ConfigError(f'file "{Path(path).name}" holds no settings', hint="write one `name: value` per line")
    leaves = dict(_leaves(content))
    ours = {name.removeprefix(_SPRING): value for name, value in leaves.items() if name.startswith(_SPRING)}
    named = {name.removeprefix("properties."): value for name, value in (ours or leaves).items()}
    return Config.of({_name(name, value): value for name, value in named.items()})


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
