"""Patches of Spark: which are applied, why others are not, and that their Java classes match the sources."""

from __future__ import annotations

import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest

import kstreamnb as ks
from kstreamnb.spark.jvm.launch_patches import JVM_PATCHES, Launch
from kstreamnb.spark.jvm.patches import (
    DISABLED_VARIABLE,
    Patch,
    apply_patches,
    disabled_patches,
    note_foreign_session,
    patch_lines,
)
from kstreamnb.spark.jvm.session import PATCHES
from kstreamnb.spark.jvm.session_patches import keep_handler
from tests.java_classes import SOURCES, compile_sources


def appending(name: str, *, obstacle: str | None = None) -> Patch[list[str]]:
    """A patch that appends its name to a list."""
    return Patch(name, "saves time", lambda _: obstacle, lambda target: target.append(name))


def test_a_patch_is_applied_unless_something_forbids_it() -> None:
    """Each of the others is listed with its own reason."""

    def fail(_: list[str]) -> None:
        raise TypeError("'JavaPackage' object is not callable")

    patches = [
        appending("plain"),
        appending("unwanted"),
        appending("elsewhere", obstacle="the master is not local"),
        Patch("broken", "saves time", lambda _: None, fail),
    ]
    target: list[str] = []
    apply_patches(patches, target, frozenset({"unwanted"}))
    assert ["plain"] == target
    assert [
        "patch plain = on (saves time)",
        "patch unwanted = off, switched off (saves time)",
        "patch elsewhere = off, the master is not local (saves time)",
        "patch broken = off, the JVM lacks the classes of kstreamnb (saves time)",
        "patch later = not tried yet (saves time)",
    ] == list(patch_lines([*((patch.name, patch.benefit) for patch in patches), ("later", "saves time")]))


def test_no_patch_is_applied_to_a_spark_that_it_was_not_checked_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also not to one whose version only begins alike."""
    patch, target = replace(appending("for 4.3"), since=(4, 3)), list[str]()
    for version in ("4.2.9", "4.30.0", "5.0.0"):
        monkeypatch.setattr(pyspark, "__version__", version)
        apply_patches([patch], target, frozenset())
        line = f"patch for 4.3 = off, checked with Spark 4.3, this is {version} (saves time)"
        assert [line] == list(patch_lines([(patch.name, patch.benefit)]))
    assert [] == target


def test_patches_of_a_start_are_off_in_a_session_that_the_user_has_started() -> None:
    """They were not tried; one that was tried keeps its result."""
    tried, other = appending("tried at a start"), appending("of a start")
    apply_patches([tried], [], frozenset())
    note_foreign_session([tried, other])
    assert [
        "patch tried at a start = on (saves time)",
        "patch of a start = off, spark_session() did not start this session (saves time)",
    ] == list(patch_lines([(patch.name, patch.benefit) for patch in (tried, other)]))


def test_the_classes_of_batches_name_the_patch_that_brings_them(tmp_path: Path) -> None:
    """Java could only say that it lacks a class."""
    launch = Launch(local=True, submitted=False, folder=tmp_path)
    assert ["it needs the patch local-files"] == [patch.obstacle(launch, frozenset()) for patch in JVM_PATCHES]


def test_patches_are_disabled_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """By variable and by setting, all at once too; an unknown name is refused."""
    names = [name for name, _ in PATCHES]
    assert len(names) == len(set(names))
    monkeypatch.setenv(DISABLED_VARIABLE, "worker-home, local-files")
    assert {"worker-home", "local-files", "interpreted"} == disabled_patches(names, "interpreted")
    assert set(names) == disabled_patches(names, "all")
    with pytest.raises(ks.errors.ConfigError, match='got "worker-hom"') as raised:
        disabled_patches(names, "worker-hom")
    assert 'did you mean "worker-home"?' == raised.value.hint


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_class_files_are_what_the_java_sources_compile_to(tmp_path: Path) -> None:
    """`make classes` was run after the last change of a source."""
    compiled = compile_sources(tmp_path)
    assert compiled
    assert {file.name: file.read_bytes() for file in compiled} == {
        file.name: file.read_bytes() for file in SOURCES.rglob("*.class")
    }


def test_a_handler_of_interrupts_is_restored_if_it_is_the_programs_and_can_be() -> None:
    """Not pyspark's for a context that has ended, not one that C has set, and not in another thread."""

    def own(*_: object) -> None:
        """Handle nothing."""

    def pysparks(*_: object) -> None:
        """Cancel all jobs."""

    pysparks.__module__ = "pyspark.core.context"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        other = threading.Thread(target=keep_handler, args=[own])
        other.start()
        other.join()
        for handler in (pysparks, None):
            keep_handler(handler)
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        keep_handler(own)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
