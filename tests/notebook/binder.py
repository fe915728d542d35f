"""Builds the environment that Binder would build, without Docker, and runs the course in it.

    python -m tests.notebook.binder [--quick] [--without-java] [NOTEBOOK …]

A fresh copy of the tracked files, a fresh environment built from the files of ``binder/`` alone, then every notebook
under nbval; ``--quick`` installs the locked packages without resolving and compiling, and runs a few. Prints the
seconds and peak memory of all processes of each notebook; exits with code 1 if a package misses another, a notebook
differs or needs more than a small Binder machine has. Packages in ``apt.txt`` are checked, not installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
LIMIT_MB = 1500
_SAMPLE_S = 0.25
_OURS = ("PYTHON", "PYSPARK", "VIRTUAL_ENV", "JAVA_TOOL_OPTIONS")
"""Variables of the environment from which this is run that must not lead into the other one."""


_FEW = ["01_count_topology.ipynb", "14_flights.ipynb"]
_STARTS_JAVA = re.compile(r"ks\.(spark\.spark_session|kafka\.local_broker)\(")


def main(arguments: list[str]) -> int:
    """Build, run and print; return the exit code."""
    parser = argparse.ArgumentParser(description="Build what Binder would build, and run the course in it.")
    parser.add_argument("notebooks", nargs="*", help="paths below notebooks/; all when left out")
    parser.add_argument("--without-java", action="store_true", help="leave out notebooks that start Spark or a broker")
    parser.add_argument("--quick", action="store_true", help="install the locked packages as they are; two notebooks")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="binder-") as folder:
        repository = _copy(Path(folder, "repository"))
        environment = _build(repository, Path(folder, "environment"), quick=said.quick)
        every = [
            str(path.relative_to(repository / "notebooks"))
            for path in sorted(repository.glob("notebooks/**/*.ipynb"))
            if not (said.without_java and _STARTS_JAVA.search(path.read_text(encoding="utf-8")))
        ]
        notebooks = said.notebooks or (_FEW if said.quick else every)
        results = [_run(repository, environment, name) for name in notebooks]
    peak = max(megabytes for _, megabytes, _ in results)
    print(
        f"peak memory of the course: {peak:,.0f} MB of {LIMIT_MB:,} MB; {sum(s for s, _, _ in results):,.0f} s in all"
    )
    wrong = {name: told for name, (_, _, told) in zip(notebooks, results, strict=True) if told}
    for name, told in wrong.items():
        print(f"--- {name}\n{told}")
    return int(bool(wrong) or peak > LIMIT_MB)


def _copy(target: Path) -> Path:
    """Copy the tracked files as they are in the working tree."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, tracked.split("\0")):
        source, place = ROOT / name, target / name
        if source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, place)
    return target


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def _build(repository: Path, place: Path, *, quick: bool) -> dict[str, str]:
    """Return the environment variables of a shell in which everything of ``binder/`` is installed."""
    binder = repository / "binder"
    (runtime,) = _lines(binder / "runtime.txt")
    version = runtime.removeprefix("python-")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    python = sys.executable if version == own else shutil.which(f"python{version}")
    if python is None:
        raise SystemExit(f"{runtime} is needed and not there")
    java = shutil.which("java")
    print(
        f"apt.txt names {', '.join(_lines(binder / 'apt.txt'))}; java here: {'found' if java else 'none'}", flush=True
    )
    began = time.monotonic()
    subprocess.run([python, "-m", "venv", str(place)], check=True)
    passed = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    environment = {**passed, "PATH": f"{place}/bin{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(place)}
    pip = ["python", "-m", "pip", "--disable-pip-version-check"]
    as_locked = ["--no-deps", "--no-compile"] if quick else []
    install = [*pip, "install", "--quiet", *as_locked, "-r", "binder/requirements.txt"]
    for command in (install, ["binder/postBuild"], [*pip, "check"]):
        subprocess.run(command, cwd=repository, env=environment, check=True)
    print(f"built in {time.monotonic() - began:,.0f} s", flush=True)
    return environment


def _run(repository: Path, environment: dict[str, str], name: str) -> tuple[float, float, str]:
    """Seconds, megabytes and the failures of a notebook."""
    began, peak = time.monotonic(), 0.0
    command = ["binder/start", "kstreamnb", "notebook", "check", f"notebooks/{name}"]
    with tempfile.TemporaryFile("w+") as out:
        process = psutil.Popen(command, cwd=repository, env=environment, stdout=out, stderr=out)
        while process.poll() is None:
            peak = max(peak, _megabytes(process))
            time.sleep(_SAMPLE_S)
        out.seek(0)
        said = out.read() if process.returncode else ""
    seconds = time.monotonic() - began
    print(f"{name:42} {seconds:6.1f} s {peak:7,.0f} MB{'  differs' if said else ''}", flush=True)
    return seconds, peak, said


def _megabytes(process: psutil.Process) -> float:
    """Return the memory of a process and its descendants, counting shared pages once."""
    total = 0
    for each in [process, *process.children(recursive=True)]:
        try:
            total += each.memory_full_info().pss
        except psutil.Error:  # it has just ended
            continue
    return total / 1e6


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
