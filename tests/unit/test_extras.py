"""Each extra brings every package that the names of its namespace need."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import kstreamnb as ks
from tests.unit.test_imports import python

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def brought(needs: list[str]) -> set[str]:
    """Return the distributions that requirements install, with those that they need in turn."""
    found: set[str] = set()
    waiting = [Requirement(need) for need in needs]
    while waiting:
        need = waiting.pop()
        extras = [{"extra": extra} for extra in (*need.extras, "")]
        if need.marker is not None and not any(need.marker.evaluate(each) for each in extras):
            continue
        name = f"{canonicalize_name(need.name)}[{','.join(sorted(need.extras))}]"
        if name not in found:
            found.add(name)
            try:
                inner = [Requirement(each) for each in requires(need.name) or ()]
            except PackageNotFoundError:  # for another system
                continue
            waiting += [each for each in inner if each.marker is None or any(map(each.marker.evaluate, extras))]
    return {name.partition("[")[0] for name in found}


def foreign(extras: tuple[str, ...]) -> list[str]:
    """Return the installed modules that neither the package itself nor these extras bring."""
    own = brought([*PROJECT["dependencies"], *(n for extra in extras for n in PROJECT["optional-dependencies"][extra])])
    modules = packages_distributions()
    here = {name for name, owners in modules.items() if {canonicalize_name(owner) for owner in owners} & own}
    return sorted(set(modules) - here - {"kstreamnb", "google"})  # a package in which several distributions are


NEED_SPARK = {"kafka": {"read_changelogs": 'pip install "kstreamnb[spark]"'}}
"""Names of a namespace that need more than its extra, and what their error says."""


@pytest.mark.parametrize(
    ("namespace", "extras"),
    [
        ("kafka", ("kafka",)),
        ("spark", ("spark",)),
        ("monitoring", ("spark", "metrics")),
        ("widgets", ("notebook",)),
        ("testing", ("testing", "notebook")),
        ("simulation", ()),
        ("course", ("notebook",)),
    ],
)
def test_an_extra_brings_what_its_namespace_needs(namespace: str, extras: tuple[str, ...]) -> None:
    """Every public name loads although all packages that the extra does not bring are blocked."""
    code = (
        f"import sys\nfor name in {foreign(extras)!r}: sys.modules[name] = None\n"
        f"import kstreamnb as ks\nspace = ks.{namespace}\n"
        "failed = {}\n"
        f"for name in {getattr(ks, namespace).__all__!r}:\n"
        "    try: getattr(space, name)\n"
        "    except ks.errors.MissingPackageError as error: failed[name] = [error.hint, repr(error.__cause__)]\n"
        "print(failed)"
    )
    failed = ast.literal_eval(python(code))
    assert {name: hint for name, (hint, _) in failed.items()} == NEED_SPARK.get(namespace, {}), failed


def test_spark_gets_the_versions_that_its_own_code_checks() -> None:
    """The extra requires the versions that pyspark's own code checks, and the protobuf that generated its messages."""
    pyspark = distribution("pyspark")
    least = {str(each.name): str(each.specifier) for each in map(Requirement, pyspark.requires or ()) if has_sql(each)}
    messages = str(pyspark.locate_file("pyspark/sql/streaming/proto/StateMessage_pb2.py"))
    written = re.search(r"Protobuf Python Version: ([\d.]+)", Path(messages).read_text())
    assert written is not None
    least["protobuf"] = f">={written[1]}"
    ours = {each.name: each.specifier for each in map(Requirement, PROJECT["optional-dependencies"]["spark"])}
    for name, specifier in least.items():
        oldest = min(each.version for each in ours[name] if each.operator == ">=")
        assert Requirement(f"{name}{specifier}").specifier.contains(oldest), f"{name}{specifier}"


def has_sql(need: Requirement) -> bool:
    """Return whether pyspark's extra `sql` has a requirement."""
    return need.marker is not None and need.marker.evaluate({"extra": "sql"})


def test_parity_without_spark_names_its_extra() -> None:
    """The driver runs without Spark, and the comparison does not."""
    code = (
        "import sys\nsys.modules['pyspark'] = None\nimport kstreamnb as ks\n"
        "builder = ks.StreamsBuilder('shop')\nbuilder.stream('in').to('out')\n"
        "try: ks.testing.parity(builder.build(), [])\n"
        "except ks.errors.MissingPackageError as error: print(error.hint)"
    )
    assert 'pip install "kstreamnb[spark]"' == python(code).strip()
