"""Patches of Spark, Hadoop and Py4J: what they are, which are in force, and how to switch them off.

A patch uses what Spark does not offer as a setting: private fields, classes of the kit, the layout of Spark's home. So
each is bound to the versions that it was checked with, is listed by `spark_report`, and can be switched off by name or
with ``all``, by the variable ``KSTREAMNB_DISABLE_PATCHES`` or the session's setting ``spark.kstreamnb.disablePatches``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyspark
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from kstreamnb.errors import ConfigError, did_you_mean
from kstreamnb.spark.jvm.versions import OLDEST, Version, not_checked, warn_of_newer

DISABLED_VARIABLE = "KSTREAMNB_DISABLE_PATCHES"
DISABLED_SETTING = "spark.kstreamnb.disablePatches"
_LOG = logging.getLogger(__name__)
_skipped: dict[str, str | None] = {}  # for each patch that was tried in this process: why it was not applied

T = TypeVar("T")


@dataclass(frozen=True)
class Patch(Generic[T]):
    """One adjustment of a target: of the JVM's start, of a running session, or of the session of one query.

    Attributes:
        name: its name in `spark_report` and in the list of disabled patches.
        benefit: what it saves.
        applies_to: returns why a target cannot have it, None if it can.
        apply: makes the change.
        since: the first version of Spark that it was checked with.
    """

    name: str
    benefit: str
    applies_to: Callable[[T], str | None]
    apply: Callable[[T], object]
    since: Version = OLDEST

    def obstacle(self, target: T, disabled: frozenset[str]) -> str | None:
        """Return why the patch is not to be applied to a target, None if it is."""
        if self.name in disabled:
            return "switched off"
        return not_checked(pyspark.__version__, self.since) or self.applies_to(target)


def apply_patches(patches: Sequence[Patch[T]], target: T, disabled: frozenset[str]) -> None:
    """Apply the patches that a target can have, and note the result of each for `spark_report`.

    A patch that fails is noted and skipped: Spark then works as it does without it.
    """
    warn_of_newer(pyspark.__version__)
    for patch in patches:
        reason = patch.obstacle(target, disabled)
        if reason is None:
            try:
                patch.apply(target)
            except (Py4JError, PySparkException, OSError, TypeError) as error:
                text = str(error).partition("\n")[0]
                # Py4J takes a class that the JVM lacks for a package.
                reason = "the JVM lacks the classes of kstreamnb" if "JavaPackage" in text else f"failed: {text}"
                _LOG.debug("patch %s failed", patch.name, exc_info=True)
        _skipped[patch.name] = reason


def note_no_effect(name: str, reason: str) -> None:
    """Have `spark_report` say why a patch that was applied has no effect."""
    if _skipped.get(name, reason) is None:
        _skipped[name] = reason


def note_foreign_session(patches: Iterable[Patch[Any]]) -> None:
    """Let `spark_report` say why patches that are applied at the start were not tried: the session existed already."""
    for patch in patches:
        _skipped.setdefault(patch.name, "spark_session() did not start this session")


def disabled_patches(known: Sequence[str], setting: str | None) -> frozenset[str]:
    """Return the names of the patches that the environment or a session's setting disables.

    Args:
        known: the names of all patches.
        setting: the value of ``spark.kstreamnb.disablePatches``: names with commas between them, or "all".

    Raises:
        ConfigError: a name is not that of a patch.

    Example:
        >>> sorted(disabled_patches(["worker-home", "local-files"], "local-files"))
        ['local-files']
    """
    words = f"{os.environ.get(DISABLED_VARIABLE, '')},{setting or ''}".split(",")
    names = frozenset(word.strip() for word in words if word.strip())
    if "all" in names:
        return frozenset(known)
    for name in sorted(names - set(known)):
        hint = did_you_mean(name, known) or f"the patches are {', '.join(known)}; all means all of them"
        raise ConfigError(f'expected names of patches to disable, got "{name}"', hint=hint)
    return names


def patch_lines(patches: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield one line of `spark_report` for each patch, from its name and benefit."""
    for name, benefit in patches:
        if name not in _skipped:
            yield f"patch {name} = not tried yet ({benefit})"
            continue
        reason = _skipped[name]
        yield f"patch {name} = {'on' if reason is None else f'off, {reason}'} ({benefit})"
