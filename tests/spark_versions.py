"""Runs tests on other versions of Spark than that of the environment, all other packages of which stay.

``python -m tests.spark_versions`` has every supported version continue one checkpoint, upwards and downwards, and runs
the essential tests on the newest release of each older one. ``python -m tests.spark_versions 4.1.0`` takes one version.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from kstreamnb.spark.jvm.versions import NEWEST, OLDEST

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".artefacts" / "spark"
ESSENTIAL = ("tests/spark/test_streaming.py", "tests/spark/test_batch.py", "tests/kafka/test_deploy.py")
BATCHES = 10

CONTINUES = f"""
import json
import sys
from pathlib import Path
import kstreamnb as ks
from tests.spark.streams import batched, outputs, placed, query_over
from tests.spark.test_streaming import disordered, two_levels
spark = ks.spark.spark_session()
deployment = placed(two_levels(), 2)
batches = batched(deployment, disordered(["in"], 240), {BATCHES})[:int(sys.argv[2])]
query, sink = query_over(spark, Path(sys.argv[1]), deployment, batches)
query.await_termination()
print(json.dumps(outputs(deployment, sink, ["totals", "windows"])))
spark.stop()
"""
"""Continues the query of a folder up to a batch, and prints what it wrote."""


def installed(version: str) -> str:
    """Return the PYTHONPATH of a version of pyspark, such as "4.1.4" or "4.1.*"; the first call installs it."""
    folder = FOLDER / version.removesuffix(".*")
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--no-deps", "--no-compile", "--no-build-isolation", "--target", str(folder), f"pyspark=={version}"]
        FOLDER.mkdir(parents=True, exist_ok=True)
        settings = FOLDER / "wheels.cfg"
        settings.write_text("[bdist_wheel]\ncompression = stored\n")  # pip makes a wheel, mostly of jars
        subprocess.run(pip, check=True, env={**os.environ, "DIST_EXTRA_CONFIG": str(settings)})
    return os.pathsep.join(map(str, [folder, ROOT]))


def continued(paths: list[str]) -> bool:
    """Return whether a query that each version continues in turn writes what the test driver does."""
    from tests.spark.streams import driven
    from tests.spark.test_streaming import disordered, two_levels

    found: dict[str, dict[str, list[object]]] = {}
    ends = [BATCHES * number // len(paths) for number in range(len(paths) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        for path, (_, end) in zip(paths, pairwise(ends), strict=True):
            command = [sys.executable, "-c", CONTINUES, f"{folder}/query", str(end)]
            (Path(folder) / "query").mkdir(exist_ok=True)
            environment = {**os.environ, "PYTHONPATH": path}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment, cwd=ROOT)
            for topic, parts in json.loads(done.stdout).items():
                for partition, rows in parts.items():
                    found.setdefault(topic, {}).setdefault(partition, []).extend(rows)
    expected = driven(two_levels(), disordered(["in"], 240), 2, ["totals", "windows"])
    return bool(found == json.loads(json.dumps(expected)))


def main() -> None:
    """Run the tests on each version, and fail if one does."""
    parser = argparse.ArgumentParser(description="Run tests on other versions of Spark.")
    older = [f"{OLDEST[0]}.{minor}.*" for minor in range(OLDEST[1], NEWEST[1])]
    parser.add_argument("versions", nargs="*", default=older, help=f"versions of pyspark; default: {' '.join(older)}")
    parser.add_argument("--tests", nargs="+", default=ESSENTIAL, help="files of tests; default: the essential ones")
    options = parser.parse_args()
    paths = [installed(version) for version in options.versions]
    if not continued([*paths, str(ROOT), *reversed(paths)]):
        sys.exit("a checkpoint that other versions have continued leads to other output")
    print(f"{' '.join(options.versions)} and the installed version continue each other's checkpoints", flush=True)
    codes = [0]
    for version, path in zip(options.versions, paths, strict=True):
        print(f"pyspark {version}:", flush=True)
        # Sockets that pyspark 4.1 does not close make warnings, which would be errors.
        pytest = [sys.executable, "-m", "pytest", "-p", "no:nbval", "-p", "no:anyio", "-o", "filterwarnings=ignore"]
        command = [*pytest, "-m", "(spark or kafka) and not slow", *options.tests]
        codes.append(subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, cwd=ROOT, check=False).returncode)
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
