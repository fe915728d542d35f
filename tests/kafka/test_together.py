"""Two starts of one application at the same moment: one of them runs, and nothing is lost or doubled."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

import kstreamnb as ks
from kstreamnb import hooks
from tests.kafka.apps import PATIENCE_S, Bench, Start, counting, counts, final

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

STARTER = """
import sys
import kstreamnb as ks
from tests.kafka.apps import Start, counting

spark = ks.spark.spark_session()
spark.range(1).count()
print("ready", flush=True)
for line in sys.stdin:
    name, folder = line.split()
    start = Start(lambda: ks.deploy(counting(name), bootstrap_servers=sys.argv[1], checkpoint=folder))
    print("started", flush=True)
    sys.stdin.readline()
    print(start.end(), flush=True)
"""


@pytest.fixture
def ask(servers: str) -> Iterator[Callable[..., Callable[[], str]]]:
    """Have another process start an application or end it; what is returned waits for the answer."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", STARTER, servers], **pipes) as other:
        assert other.stdin is not None
        answers = other.stdout
        assert answers is not None
        assert "ready\n" == answers.readline()

        def tell(*words: object) -> Callable[[], str]:
            print(*words, file=other.stdin, flush=True)
            return lambda: answers.readline().strip()

        yield tell


def test_of_two_processes_that_start_at_the_same_moment_one_runs(
    bench: Bench, ask: Callable[..., Callable[[], str]]
) -> None:
    """With one checkpoint or two. The other one says why it does not, and the one that ran can be continued."""
    for name, folders in {"same": ("one", "one"), "different": ("two", "three")}.items():
        records = bench.fill(f"{name}-in", 60, 2)
        other = ask(name, bench.folder / folders[1])
        start = Start(partial(bench.deploy, counting(name), folders[0]))
        assert "started" == other()
        records += bench.fill(f"{name}-in", 20, 2, begin=60)
        other = ask("end")
        ends = [start.end(), other()]
        (lost,) = (each for each in ends if each != "stopped")
        assert re.match("another start has begun|a newer deployment of|application .* belongs to another", lost), lost
        assert counts(records) == final(bench.read(f"{name}-out"))
        records += bench.fill(f"{name}-in", 20, 2, begin=80)
        bench.run(counting(name), folders[ends.index("stopped")])
        assert counts(records) == final(bench.read(f"{name}-out"))
        assert len(records) == len(bench.read(f"{name}-out"))


def test_a_start_leaves_a_checkpoint_to_another_one_that_began_it(bench: Bench) -> None:
    """Every first start gives the checkpoint an identity, without which the one that runs could not be continued."""
    records, first = bench.fill("meanwhile-in", 40, 2), list[Any]()

    def start(*_: object) -> None:
        first.append(bench.deploy(counting("meanwhile"), parity=False))

    before = hooks.current().pre_deploy
    hooks.install(pre_deploy=start)
    try:
        with pytest.raises(ks.errors.CheckpointError, match="another start has begun checkpoint"):
            bench.deploy(counting("meanwhile"))
    finally:
        hooks.install(pre_deploy=before)
    assert first[0].await_input(PATIENCE_S)
    first[0].stop()
    records += bench.fill("meanwhile-in", 10, 2, begin=40)
    bench.run(counting("meanwhile"))
    assert counts(records) == final(bench.read("meanwhile-out"))
    assert len(records) == len(bench.read("meanwhile-out"))
