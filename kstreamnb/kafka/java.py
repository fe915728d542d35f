"""Finds Java and its version, and Kafka's jars, which the Ivy jar of pyspark fetches once from Maven Central."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from kstreamnb.data_files import text_of
from kstreamnb.errors import BrokerError, EngineError, MissingJavaError, MissingPackageError
from kstreamnb.kafka.storage.checkpoint_lock import unwritable

OLDEST_JAVA = 17
IN_WSL = "run Python in WSL (Windows Subsystem for Linux)"
KAFKA_VERSION = "4.3.1"
_CHECKSUMS = {"4.3.1": "d71e2caf5d08cbc9aa65ab331253e938c606206a95007fec12e1d44147ef339a"}  # of all jars, by version
_FETCH_S = 900.0


def refuse_windows(what: str) -> None:
    """Raise EngineError on Windows for a part of the kit whose processes need another system.

    Args:
        what: the part.
    """
    if sys.platform == "win32":
        hint = f"{IN_WSL}; driver, replays and widgets run here, too"
        raise EngineError(f"{what} does not run on Windows", hint=hint)


def java() -> str:
    """Return the path of the Java to run: that of JAVA_HOME, else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if path is None:
        if home and (other := shutil.which("java")):
            hint = f"unset JAVA_HOME to run {other}, or set it to the folder that has bin/java"
        else:
            hint = f"install a Java runtime, {OLDEST_JAVA} or later; TopologyTestDriver and replays need none"
        detail = f'JAVA_HOME is "{home}"' if home else "JAVA_HOME is not set and the PATH has no java"
        raise MissingJavaError("no Java was found", detail=detail, hint=hint)
    return path


def java_version(path: str) -> int | None:
    """Return the major version that a Java reports; None if it reports none."""
    done = subprocess.run([path, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None


def old_java_error() -> MissingJavaError | None:
    """Return the error to raise instead if Java is too old; asking for its version before each start would delay it."""
    version = java_version(path := java())
    if version is None or version >= OLDEST_JAVA:
        return None
    hint = f"install a Java runtime, {OLDEST_JAVA} or later, and set JAVA_HOME to its folder"
    return MissingJavaError(f"Java {version} is too old", detail=path, hint=hint)


def cache_folder() -> Path:
    """Return the folder of downloads: ``$XDG_CACHE_HOME/kstreamnb`` or ``~/.cache/kstreamnb``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kstreamnb"


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the folder of the broker's jars (44 MB); the first call fetches and checks them in about a minute."""
    home = cache_folder() / f"kafka-{version}"
    if home.is_dir():
        return home
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=home.parent)
    except OSError as error:
        raise unwritable(home.parent, error, hint="set XDG_CACHE_HOME to a writable folder") from error
    with folder as work:
        Path(work, "settings.xml").write_text(text_of(__package__, "ivy_settings.xml"), encoding="utf-8")
        Path(work, "ivy.xml").write_text(text_of(__package__, "ivy.xml").format(version=version), encoding="utf-8")
        command = [java(), "-jar", str(_ivy_jar()), "-settings", "settings.xml", "-ivy", "ivy.xml", "-cache", "cache"]
        command += ["-types", "jar", "bundle", "-retrieve", "lib/[artifact]-[revision].[ext]"]
        failure = run_tool(command, work, _FETCH_S)
        if failure is not None or not list(Path(work, "lib").glob("kafka_2.13-*.jar")):
            fact = f"the jars of Kafka {version} could not be fetched"
            hint = "the first start of a local broker needs access to Maven Central"
            raise BrokerError(fact, detail=(failure or "")[-2000:], hint=hint)
        if version in _CHECKSUMS and checksum(Path(work, "lib")) != _CHECKSUMS[version]:
            fact = f"the jars of Kafka {version} differ from those that were published"
            detail = "their checksums do not match: a mirror or a proxy may have changed them"
            hint = f"check the mirror of Maven Central, or put verified jars into {home}"
            raise BrokerError(fact, detail=detail, hint=hint)
        with suppress(OSError):  # another process was faster: its copy is as good
            Path(work, "lib").rename(home)
    return home


def run_tool(command: list[str], folder: Path | str, timeout_s: float) -> str | None:
    """Run a Java tool in a folder; return its output if it fails or does not end in time, None if it succeeds."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode(errors="replace") + f"it did not end within {timeout_s:g} s"
    return done.stdout.decode(errors="replace") or f"it ended with code {done.returncode}" if done.returncode else None


def checksum(folder: Path) -> str:
    """Return one checksum for the names and contents of all jars of a folder."""
    sums = [f"{jar.name} {sha256(jar.read_bytes()).hexdigest()}" for jar in sorted(folder.glob("*.jar"))]
    return sha256("\n".join(sums).encode()).hexdigest()


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted(Path(folder, "jars").glob("ivy-*.jar")):
            return jar
    hint = 'pip install "kstreamnb[spark]"'
    raise MissingPackageError("fetching Kafka's jars needs the package pyspark", hint=hint)
