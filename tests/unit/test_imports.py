"""Importing the kit is cheap and loads nothing optional."""

from __future__ import annotations

import inspect
import pydoc
import re
import subprocess
import sys
import textwrap

import kstreamnb as ks

HEAVY = ("pyspark", "pandas", "pyarrow", "confluent_kafka", "IPython", "ipywidgets", "anywidget", "graphviz")
OPTIONAL = tuple(package for package in HEAVY if package != "graphviz")  # pure Python, a dependency of all
SPINE = (
    "core",
    "topology",
    "operators",
    "logical",
    "dsl",
    "state",
    "runtime",
    "recording",
    "testdriver",
    "replays",
    "validation",
    "simulation",
    "samples",
    "display",
    "course",
)


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_kit_loads_no_heavy_package() -> None:
    """`import kstreamnb` loads neither Spark, pandas, Kafka's client nor a widget library."""
    assert python(f"import kstreamnb, sys; print([m for m in {HEAVY!r} if m in sys.modules])") == "[]"


def test_the_spine_works_where_heavy_packages_are_absent() -> None:
    """Each package can be imported first, and has only modules that import without Spark, pandas, Kafka's client and
    widgets.
    """
    code = f"""
        import importlib, pkgutil, sys
        for name in {OPTIONAL!r}: sys.modules[name] = None
        for package in {SPINE!r}:
            for name in [name for name in sys.modules if name.startswith("kstreamnb")]: del sys.modules[name]
            try:
                path = importlib.import_module(f"kstreamnb.{{package}}").__path__
                for each in pkgutil.walk_packages(path, f"kstreamnb.{{package}}."): importlib.import_module(each.name)
            except Exception as error:
                print(package, repr(error))
    """
    assert python(textwrap.dedent(code)) == ""


def test_driver_stores_metrics_and_description_need_nothing_else() -> None:
    """S0-05: `pip install kstreamnb` alone suffices to test a topology and to inspect it."""
    code = (
        f"import sys\n"
        f"for m in {OPTIONAL!r}: sys.modules[m] = None\n"
        f"import kstreamnb as ks\n"
        f"builder = ks.StreamsBuilder('shop')\n"
        f"builder.stream('orders').group_by_key().count(store='counts')\n"
        f"driver = ks.TopologyTestDriver(builder.build())\n"
        f"driver.create_input_topic('orders').pipe_input('shoe', 'x', at=0)\n"
        f"assert str(builder.build().describe()).startswith('Topologies:')\n"
        f"assert driver.metrics()\n"
        f"print(driver.get_key_value_store('counts').get('shoe'))"
    )
    assert python(code) == "1"


def test_importing_the_kit_takes_less_than_a_third_of_a_second() -> None:
    """The import itself, without starting the interpreter, stays under 0.3 s of CPU time (best of ten)."""
    code = "import time; t = time.process_time(); import kstreamnb; print(time.process_time() - t)"
    assert any(float(python(code)) < 0.3 for _ in range(10))


NEEDS = {
    "ks.deploy": ("pyspark", "spark"),
    "ks.kafka.Admin": ("confluent_kafka", "kafka"),
    "ks.Sample.from_text('topic | key\\na | b').to_pandas()": ("pandas", "samples"),
    "ks.Sample.from_parquet('a.parquet')": ("pyarrow", "samples"),
    "ks.Sample.capture('localhost', ['a'])": ("confluent_kafka", "kafka"),
    "ks.monitoring.serve_metrics()": ("prometheus_client", "metrics"),
}
"""Calls, with the package that each needs and the extra that brings it."""


def test_what_needs_an_absent_package_says_which_extra_brings_it() -> None:
    """The error names the package and the command that installs it."""
    code = f"""
        import sys
        import kstreamnb as ks
        for call, (package, _) in {NEEDS!r}.items():
            sys.modules[package] = None
            try:
                eval(call)
            except ks.errors.MissingPackageError as error:
                print(error, *error.__notes__[:-1])
            del sys.modules[package]
    """
    assert python(textwrap.dedent(code)).splitlines() == [
        f'the package "{package}" is not installed Hint: pip install "kstreamnb[{extra}]"'
        for package, extra in NEEDS.values()
    ]


def test_without_spark_everything_else_can_be_imported_and_has_help() -> None:
    """`import *` and help() load every name; those that need Spark are left out, and asking for one says what to do."""
    code = """
        import pydoc, sys
        for name in ("pyspark", "confluent_kafka"): sys.modules[name] = None
        import kstreamnb as ks
        from kstreamnb import *
        assert "class StreamsBuilder" in pydoc.render_doc(ks, renderer=pydoc.plaintext)
        assert StreamsBuilder is ks.StreamsBuilder and "deploy" not in dir(ks)
        try:
            ks.deploy
        except ks.errors.MissingPackageError as error:
            print(error.hint)
    """
    assert python(textwrap.dedent(code)) == 'pip install "kstreamnb[spark]"'


def test_the_help_of_the_package_names_everything_public() -> None:
    """`ks?` and `help(ks)` begin with this text; a name that is missing there would be found by chance only."""
    named = set(re.findall(r"\w+", ks.__doc__ or ""))
    assert set(ks.__all__) - named == {"__version__"}


def test_the_help_of_a_class_lists_its_own_methods_and_not_those_of_its_metaclass() -> None:
    """The metaclass once answered for every name with an underscore, so `__init__` was shown as its own."""
    for kind in (ks.Consumed, ks.StreamsBuilder):
        text = pydoc.render_doc(kind, renderer=pydoc.plaintext)
        assert "Methods defined here:" in text
        assert "inherited from kstreamnb.suggesting._SuggestingType" not in text


def test_the_with_methods_of_options_explain_themselves() -> None:
    """Shift-Tab shows the text of a method of an object: it was empty."""
    method = ks.Materialized.as_("counts").with_retention
    assert (method.__name__, method.__doc__) == ("with_retention", "Return a copy with another ``retention``.")
    assert str(inspect.signature(method)).startswith("(value")


def test_a_package_that_is_too_old_is_told_from_one_that_is_absent() -> None:
    """An old client of Kafka has no `IsolationLevel`: the error names package and command that updates it."""
    code = """
        import confluent_kafka
        del confluent_kafka.IsolationLevel
        import kstreamnb as ks
        try:
            ks.kafka.Admin
        except ks.errors.MissingPackageError as error:
            print(error, *error.__notes__[:1])
    """
    expected = 'the package "confluent_kafka" has an unsupported version Hint: pip install "kstreamnb[kafka]"'
    assert python(textwrap.dedent(code)) == expected


def test_paths_on_the_search_path_may_be_objects() -> None:
    """Python itself ignores them; the kit could not be used."""
    code = "import pathlib, sys; sys.path.append(pathlib.Path('lib')); import kstreamnb as ks; print(ks.Named('shop'))"
    assert "shop" in python(code)
