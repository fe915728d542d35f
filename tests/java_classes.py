"""Compiles the Java sources of the package, for `make classes` and for the test that the class files are up to date."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark

import kstreamnb

__all__ = ["SOURCES", "compile_sources"]

SOURCES = Path(kstreamnb.__file__).parent / "spark" / "jvm" / "java"


def compile_sources(target: Path) -> list[Path]:
    """Compile every Java source into a folder; returns the class files. The classes run on Java 17 and later."""
    jars = Path(pyspark.__file__).parent / "jars" / "*"
    files = sorted(map(str, SOURCES.rglob("*.java")))
    options = ["--release", "17", "-g:none", "-Xlint:-options", "-classpath", str(jars), "-d", str(target)]
    # Most of the time that so short a run takes is that of the optimizing compiler and of threads that collect garbage.
    light = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
    subprocess.run(["javac", *light, *options, *files], check=True)
    return sorted(target.rglob("*.class"))


if __name__ == "__main__":
    compile_sources(SOURCES)
