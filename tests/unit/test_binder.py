"""The folder that Binder builds from: the locked packages, a Java runtime, and the project itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"


def lines(name: str) -> list[str]:
    """Return the significant lines of a file of the folder."""
    return [line for line in (BINDER / name).read_text().splitlines() if line and not line.startswith("#")]


def test_binder_installs_the_versions_that_the_tests_run_with() -> None:
    """The requirements refer to the lock file, their only list."""
    (requirement,) = lines("requirements.txt")
    option, place = requirement.split()
    assert ("-r", (ROOT / "requirements.lock").resolve()) == (option, (BINDER / place).resolve())


def test_every_locked_package_has_its_hashes_and_no_address() -> None:
    """The installed files have the published hashes, from whichever index the machine uses."""
    text = (ROOT / "requirements.lock").read_text()
    entries = text.replace("\\\n", " ").splitlines()
    assert len(entries) > 100
    pinned = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+( +--hash=sha256:[0-9a-f]{64})+")
    assert [] == [entry for entry in entries if not pinned.fullmatch(entry)]


def test_binder_has_a_python_that_the_project_allows() -> None:
    """The runtime is at least the oldest Python of the project."""
    (runtime,) = lines("runtime.txt")
    allowed = re.search(r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text())
    found = re.fullmatch(r"python-3\.(\d+)", runtime)
    assert allowed is not None
    assert found is not None
    assert int(allowed[1]) <= int(found[1])


def test_binder_has_java() -> None:
    """A runtime without windows, for Spark and Kafka, of the oldest version that both take."""
    assert ["openjdk-17-jre-headless"] == lines("apt.txt")


def test_binder_installs_the_project_after_building() -> None:
    """The script is executable, is valid shell, stops at the first error and installs the project."""
    script = BINDER / "postBuild"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    text = script.read_text()
    assert text.startswith("#!/bin/bash\nset -e\n")
    assert "-e ." in text


def test_binder_needs_no_network_in_a_session() -> None:
    """Kafka's files are downloaded while the image is built."""
    assert "kafka_jars()" in (BINDER / "postBuild").read_text()


def test_binder_trusts_the_notebooks() -> None:
    """JupyterLab removes pictures from untrusted HTML, and keeps their text."""
    lines = (BINDER / "postBuild").read_text().splitlines()
    assert "jupyter trust notebooks/*.ipynb notebooks/*/*.ipynb notebooks/*/*/*.ipynb" in lines


def test_binder_starts_with_a_small_java_and_hands_over() -> None:
    """The script is executable, and its last line runs the given command."""
    script = BINDER / "start"
    assert os.access(script, os.X_OK)
    told = 'echo "$JAVA_TOOL_OPTIONS"'
    ended = subprocess.run([script, "bash", "-c", told], capture_output=True, text=True, check=True)
    assert "-XX:+UseSerialGC" in ended.stdout
    assert script.read_text().endswith('exec "$@"\n')


def test_binder_finds_its_files_and_no_others() -> None:
    """Each file is one that Binder reads."""
    read = {"apt.txt", "postBuild", "requirements.txt", "runtime.txt", "start"}
    assert read == {path.name for path in BINDER.iterdir()}


def test_there_is_one_folder_for_binder() -> None:
    """With two, Binder refuses to build."""
    assert not (ROOT / ".binder").exists()
