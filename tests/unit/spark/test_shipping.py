"""Code sent to executors that lack it."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.spark.jvm.shipping import ExecutorPython, _packed, _refuse_missing, _refuse_other_pythons, _source

PROGRAM = """
import sys
sys.path[:0] = [{kit!r}]
sys.path.append({packages!r})
import kstreamnb as ks
import kstreamnb.kafka.bounded_reader, kstreamnb.spark.execution.stateful_operator, kstreamnb.spark.io.stream_source
builder = ks.StreamsBuilder("shipped")
builder.stream("in").group_by_key().count(store="counts").to_stream().to("out")
driver = ks.TopologyTestDriver(builder.build())
driver.create_input_topic("in").pipe_input("a", 1)
print(ks.__file__, [record.value for record in driver.create_output_topic("out").read_records()])
"""


def test_the_kit_works_from_the_file_that_is_sent() -> None:
    """In a Python without the kit: the modules that workers import, and a topology with its stores."""
    kit = _packed(_source("kstreamnb"))
    program = PROGRAM.format(kit=str(kit), packages=sysconfig.get_path("purelib"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False, env={}, cwd="/"
    )
    assert f"{kit}/kstreamnb/__init__.py [1]" == done.stdout.strip(), done.stderr


def test_modules_are_given_by_name_by_path_or_themselves(tmp_path: Path) -> None:
    """A module of a package sends the package; equal content has an equal name, because Spark sends a name once."""
    (tmp_path / "prices.py").write_text("RATE = 2\n")
    assert tmp_path / "prices.py" == _source(tmp_path / "prices.py") == _source(f"{tmp_path}/prices.py")
    assert Path(ks.__file__).parent == _source(ks) == _source("kstreamnb.spark")
    first, second = _packed(tmp_path / "prices.py"), _packed(tmp_path / "prices.py")
    assert first.name == second.name
    (tmp_path / "prices.py").write_text("RATE = 3\n")
    assert first.name != _packed(tmp_path / "prices.py").name


@pytest.mark.parametrize("module", ["no_such_module", "no/such/file.py", Path("nowhere"), "sys"])
def test_what_is_not_a_python_module_is_refused(module: str | Path) -> None:
    """Refused before any executor is asked."""
    with pytest.raises(ks.errors.ConfigError, match=r"no file was found for|neither a Python file nor a package"):
        _source(module)


def test_executors_without_compiled_packages_or_with_another_python_are_named() -> None:
    """With host and path, and the commands that pack an environment."""
    there = [ExecutorPython("worker-1", "/usr/bin/python3", "3.9.2", ("kstreamnb", "pyarrow", "confluent_kafka"))]
    with pytest.raises(ks.errors.SparkError, match="the executors have no pyarrow and confluent-kafka") as raised:
        _refuse_missing(there, set(there[0].missing))
    assert "/usr/bin/python3 on worker-1" in str(raised.value.detail)
    assert "venv-pack" in str(raised.value.hint)
    with pytest.raises(ks.errors.SparkError, match=r"the executors run Python 3\.9\.2"):
        _refuse_other_pythons(there)
    _refuse_missing(there, {"kstreamnb"})


@pytest.mark.parametrize("module", [5, None, b"helpers"])
def test_a_module_is_a_name_a_path_or_a_module(module: object) -> None:
    """Anything else is refused in words."""
    with pytest.raises(ks.errors.ConfigError, match="each module must be str or Path or module"):
        _source(module)  # type: ignore[arg-type]
