"""Builds the wheel and the sdist, checks them, and tests each extra in an empty environment outside the repository.

``python -m tests.install`` tests all extras, ``python -m tests.install base kafka`` some of them. ``--lowest`` tests
all of them in one environment with the oldest version of each dependency that ``pyproject.toml`` allows, ``--newest``
with the newest ones. ``--python python3.13`` makes the environments with another Python.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

_COUNT = """
import kstreamnb as ks
builder = ks.StreamsBuilder("shop")
builder.stream("orders").group_by_key().count(store="counts").to_stream().to("totals")
topology = builder.build()
driver = ks.TopologyTestDriver(topology)
driver.create_input_topic("orders").pipe_input("shoe", 1, at=0)
assert driver.create_output_topic("totals").read_key_value() == ("shoe", 1)
"""

SCRIPTS: dict[str, str] = {
    "base": _COUNT
    + """
assert topology.to_svg().startswith("<svg")
try:
    ks.deploy
except ks.errors.MissingPackageError as error:
    assert 'pip install "kstreamnb[spark]"' in "".join(error.__notes__)
""",
    "notebook": _COUNT
    + """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
shell.run_line_magic("load_ext", "kstreamnb")
shell.user_ns["topology"] = topology
shell.run_line_magic("ks", "describe topology")
ks.widgets.explorer(topology)
import nbformat
from kstreamnb.notebook.regression import check, record
cell = nbformat.v4.new_code_cell("import kstreamnb as ks; ks.StreamsBuilder().stream('orders')")
nbformat.write(nbformat.v4.new_notebook(cells=[cell]), "shop.ipynb")
record("shop.ipynb")
check("shop.ipynb")
""",
    "kafka": """
import kstreamnb as ks
from kstreamnb.tools.doctor import diagnose
for name in ks.kafka.__all__:
    try:
        getattr(ks.kafka, name)
    except ks.errors.MissingPackageError as error:
        assert (name, error.hint) == ("read_changelogs", 'pip install "kstreamnb[spark]"')
try:
    ks.kafka.Admin("127.0.0.1:1", patience_s=1).topics()
except ks.errors.BrokerError as error:
    assert "127.0.0.1:1" in str(error)
else:
    raise AssertionError("no broker is there")
if all(each.ready for each in diagnose().abilities if each.name in ("java", "local broker")):
    with ks.kafka.local_broker() as broker:
        ks.kafka.Admin(broker.bootstrap_servers).create_topic("orders")
        ks.kafka.produce(broker.bootstrap_servers, [ks.TopicRecord("orders", 0, 0, 5, "shoe", 1)])
        (record,) = ks.Sample.capture(broker.bootstrap_servers, "orders")
        assert (record.key, record.value) == ("shoe", 1)
    print("a record sent to a broker and captured")
""",
    "registry": """
import kstreamnb as ks
registry = ks.kafka.SchemaRegistry("mock://shop")
avro = registry.avro("orders", '{"type": "record", "name": "O", "fields": [{"name": "n", "type": "long"}]}')
schema = registry.json_schema("sales", '{"title": "S", "type": "object", "properties": {"n": {"type": "integer"}}}')
assert [serde.deserialize(serde.serialize({"n": 2})) for serde in (avro, schema)] == [{"n": 2}, {"n": 2}]
""",
    "samples": """
import kstreamnb as ks
from kstreamnb.tools.demo import load
sample = ks.Sample.from_text("topic | key | value \\n orders | a | 1")
sample.to_parquet("orders.parquet")
assert ks.Sample.from_parquet("orders.parquet") == sample
again = ks.Sample.from_dataframe(sample.to_pandas(), topic="orders", timestamp="timestamp", key="key", value="value")
assert [record.value for record in again] == [1]
assert len(load(100).of_topic("flights")) == 100
""",
    "metrics": """
from urllib.request import urlopen
import kstreamnb as ks
try:
    server = ks.monitoring.serve_metrics()
except ks.errors.MissingPackageError as error:  # without Spark there is no query to measure
    assert error.hint == 'pip install "kstreamnb[spark]"'
else:
    assert urlopen(server.url).status == 200
    server.close()
""",
    "testing": _COUNT
    + """
from hypothesis import find
example = ks.Sample.from_text("topic | key | value \\n orders | a | 1")
assert len(find(ks.testing.samples(topology, example), lambda sample: len(sample) == 2)) == 2
""",
    "yaml": """
import pathlib, kstreamnb as ks
pathlib.Path("app.yaml").write_text("application-id: shop")
assert ks.read_config("app.yaml").application_id == "shop"
""",
    "spark": _COUNT
    + """
from kstreamnb.tools.doctor import diagnose
assert ks.deploy and ks.run
for name in ks.spark.__all__:
    getattr(ks.spark, name)
if all(each.ready for each in diagnose().abilities if each.name in ("java", "spark")):
    sample = ks.Sample.from_text("topic | key | value | time \\n orders | shoe | 1 | 0 \\n orders | hat | 1 | 5")
    found = ks.testing.parity(topology, sample, streaming=True)
    assert found.is_equal, str(found)
    print(found.title)
""",
}
"""Programs that must work with one extra alone."""


def run(*command: str, cwd: Path = ROOT) -> str:
    """Run a command; its output is printed only if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Build and check both distributions; return the wheel."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    files = [str(path) for path in sorted(folder.iterdir())]
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    wheel = next(path for path in folder.iterdir() if path.suffix == ".whl")
    run(sys.executable, "-m", "check_wheel_contents", str(wheel))
    return wheel


def try_extra(extra: str, wheel: Path, folder: Path, interpreter: str) -> str:
    """Install the wheel with one extra into an empty environment and run its script there; return what it prints."""
    home = folder / extra
    run(interpreter, "-m", "venv", str(home))
    python = str(home / "bin" / "python")
    wanted = str(wheel) if extra == "base" else f"kstreamnb[{extra}] @ {wheel.as_uri()}"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
    said = run_script(python, extra, home)
    run(str(home / "bin" / "kstreamnb"), "doctor", cwd=home)
    return said


def run_script(python: str, extra: str, home: Path) -> str:
    """Run the script of an extra with the Python of an environment; return its last line, after a colon.

    Scripts that have Java use it: a broker, a run on Spark, and a deployment from broker to broker.
    """
    lines = run(python, "-W", "error::DeprecationWarning:kstreamnb", "-c", SCRIPTS[extra], cwd=home).splitlines()
    return f": {lines[-1]}" if lines and extra in ("kafka", "spark") else ""


def lowest() -> list[str]:
    """Return the lower bound of every dependency as a constraint."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = {name: needs for name, needs in project["optional-dependencies"].items() if name not in ("dev", "docs")}
    found = (
        re.match(r"([\w.-]+)[^>;]*>=([\d.]+)", need)
        for needs in (project["dependencies"], *own.values())
        for need in needs
    )
    return sorted({f"{match[1]}=={match[2]}" for match in found if match})


def try_together(wheel: Path, folder: Path, interpreter: str, constraints: list[str]) -> None:
    """Install all extras, with versions that meet the constraints, and run every script."""
    home = folder / "together"
    run(interpreter, "-m", "venv", str(home))
    (home / "versions.txt").write_text("\n".join(constraints))
    python, wanted = str(home / "bin" / "python"), f"kstreamnb[all] @ {wheel.as_uri()}"
    run(
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", "versions.txt", wanted, cwd=home
    )
    for extra in SCRIPTS:
        if extra != "base":  # it shows what happens without the others
            print(f"together, {extra}: run{run_script(python, extra, home)}", flush=True)
    run(str(home / "bin" / "kstreamnb"), "doctor", cwd=home)


def main() -> None:
    """Build and check the distributions, and test the named extras, or all."""
    parser = argparse.ArgumentParser(description="Test the wheel in empty environments.")
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help=f"of {', '.join(SCRIPTS)}; default: all, one by one")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environments")
    parser.add_argument("--lowest", action="store_true", help="all extras together, with the oldest versions")
    parser.add_argument("--newest", action="store_true", help="all extras together, with the newest versions")
    options = parser.parse_args()
    if unknown := set(options.extras) - set(SCRIPTS):
        parser.error(f"unknown extra: {min(unknown)}")
    version = run(options.python, "-c", "import platform; print(platform.python_version())").strip()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        wheel = build(folder / "dist")
        print(f"built {wheel.name}: twine and check-wheel-contents find nothing")
        if options.lowest or options.newest:
            constraints = lowest() if options.lowest else []
            try_together(wheel, folder, options.python, constraints)
            print(f"Python {version}, {'oldest' if options.lowest else 'newest'} versions: every script run")
            return
        extras = options.extras or list(SCRIPTS)
        for extra in extras:
            said = try_extra(extra, wheel, folder, options.python)
            print(f"Python {version}, {extra}: installed and run in an empty environment{said}", flush=True)
    print(f"{len(extras)} passed, 0 failed")


if __name__ == "__main__":
    main()
