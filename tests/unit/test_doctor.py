"""The check of a machine names missing parts and the command that installs them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kstreamnb.tools.doctor import Ability, diagnose


def ability(name: str) -> Ability:
    """One row of the diagnosis of this machine."""
    return next(each for each in diagnose().abilities if each.name == name)


def fake_java(folder: Path, line: str) -> str:
    """A program named java that prints a version; returns the folder for the PATH."""
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(folder)


def test_the_driver_needs_nothing() -> None:
    """Whatever else is missing, topologies can be built and tested."""
    assert ability("driver").ready


@pytest.mark.parametrize(
    ("line", "ready"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "21"', True),
        ('java version "1.8.0_292"', False),
    ],
)
def test_java_is_ready_from_17_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, ready: bool) -> None:
    """An older Java is detected and refused, with the version to install."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", fake_java(tmp_path, line) + os.pathsep + os.environ["PATH"])
    assert ability("java").ready is ready
    assert ("install a Java runtime, 17 or later" in ability("java").remedy) is not ready


def test_without_java_the_diagnosis_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with the remedy instead of an exception."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not ability("java").ready


def test_a_missing_extra_is_named_with_its_command() -> None:
    """If a package of an extra is missing, the row has the command that installs the extra."""
    code = (
        "import importlib.metadata as m; real = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "from kstreamnb.tools.doctor import diagnose; print(diagnose())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    row = next(line for line in done.stdout.splitlines() if line.startswith("spark "))
    assert "no pyspark" in row
    assert 'pip install "kstreamnb[spark]"' in row
