"""The check of a machine names missing parts and the command that installs them."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kstreamnb.tools import doctor
from kstreamnb.tools.doctor import Ability, diagnose


def ability(name: str) -> Ability:
    """One row of the diagnosis of this machine."""
    return next(each for each in diagnose().abilities if each.name == name)


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program named java, the first on the PATH, that prints the version of Java 17 without starting a JVM."""
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    return program


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
def test_java_is_ready_from_17_on(java: Path, line: str, ready: bool) -> None:
    """An older Java is detected and refused, with the version to install."""
    java.write_text(f"#!/bin/sh\necho '{line}' >&2\n")
    assert ability("java").ready is ready
    assert ("install a Java runtime, 17 or later" in ability("java").remedy) is not ready


def test_without_java_the_diagnosis_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with the remedy instead of an exception."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not ability("java").ready


def test_what_needs_java_is_not_ready_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's packages alone run nothing; the row has the remedy for Java."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for name in ("spark", "local broker"):
        assert not ability(name).ready
        assert "install a Java runtime" in ability(name).remedy


def rows_where(replaced: str) -> dict[str, str]:
    """The rows of a diagnosis in a process whose `importlib.metadata.version` answers otherwise for some packages."""
    code = (
        "import importlib.metadata as m; real = m.version\n"
        f"def version(name):\n    {replaced}\n    return real(name)\n"
        "m.version = version\n"
        "from kstreamnb.tools.doctor import diagnose; print(diagnose())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {line.partition("|")[0].strip(): line for line in done.stdout.splitlines()}


EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PACKAGES = [
    (extra, re.split(r"[^\w.-]", need)[0])
    for extra, needs in EXTRAS.items()
    for need in needs
    if extra not in ("all", "dev", "docs")
]


@pytest.mark.usefixtures("java")
@pytest.mark.parametrize(("extra", "package"), PACKAGES)
def test_every_package_of_every_extra_is_looked_for(extra: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing one is named in the row of its extra, with the command that installs it."""
    real = doctor.version

    def version(name: str) -> str:
        if name == package:
            raise PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    assert f"no {package}" in ability(extra).facts
    assert ability(extra).remedy == f'pip install "kstreamnb[{extra}]"'


def test_a_missing_extra_is_named_with_its_command() -> None:
    """In the printed table, too."""
    row = rows_where("if name == 'pyspark': raise m.PackageNotFoundError(name)")["spark"]
    assert "no pyspark" in row
    assert 'pip install "kstreamnb[spark]"' in row


@pytest.mark.parametrize(
    ("package", "version", "part"), [("pyspark", "3.5.8", "spark"), ("pandas", "3.0.1", "samples")]
)
def test_a_package_of_another_version_does_not_fit(package: str, version: str, part: str) -> None:
    """The bounds are those of the installed package's own metadata."""
    row = rows_where(f"if name == {package!r}: return {version!r}")[part]
    assert f"{package} {version} instead of " in row
    assert f'pip install "kstreamnb[{part}]"' in row


@pytest.mark.parametrize(
    ("installed", "limits", "fits"),
    [
        ("2.2", ">=2.2,<3", True),
        ("3.0.0rc1", "<3,>=2.2", False),
        ("4.3.0", "==4.3.0", True),
        ("4.3.1", "==4.3.0", False),
        ("2025.1", ">=2.2", True),
        ("0.9.1", ">=0.9", True),
        ("0.8", ">=0.9", False),
        ("1.0", "", True),
    ],
)
def test_versions_are_compared_by_their_numbers(installed: str, limits: str, fits: bool) -> None:
    assert doctor._fits(installed, limits) is fits
