"""Runs the programs of a how-to page as they are printed, with this machine's addresses and folders in their place."""

from __future__ import annotations

import doctest
import re
import shlex
import textwrap
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "PROGRAMS", "blocks", "commands", "run"]

FOLDER = Path(__file__).parents[1] / "notebooks" / "guide" / "howto"

_KAFKA, _CLUSTER = "tests/kafka/test_howto.py", "tests/cluster/test_howto.py"
PROGRAMS: dict[str, str] = {
    "capture": f"{_KAFKA}::test_capture_and_redact",
    "cluster": f"{_CLUSTER}::test_run_on_a_cluster",
    "deploy": f"{_KAFKA}::test_deploy_to_spark",
    "java-takeover": f"{_KAFKA}::test_move_an_application_and_back",
    "json-to-alert": f"{_KAFKA}::test_from_json_to_an_alert",
    "kubernetes": f"{_KAFKA}::test_run_in_a_container",
    "monitor": f"{_KAFKA}::test_monitor_a_query",
    "object-storage": f"{_CLUSTER}::test_keep_checkpoints_in_an_object_store",
    "production-bug": f"{_KAFKA}::test_reproduce_a_production_bug",
    "reprocess": f"{_KAFKA}::test_reset_with_the_command",
    "rescale": f"{_KAFKA}::test_rescale_a_query",
    "service": f"{_KAFKA}::test_run_as_a_service",
    "spark-frames": "tests/spark/test_batch.py::test_run_a_topology_over_spark_frames",
    "test-with-pytest": "tests/unit/test_docs.py::test_the_workflow_of_a_project_installs_what_its_tests_need",
}
"""The test that runs the programs of a page that need a broker, a cluster or a service. All others are doctests."""


def blocks(page: str, language: str = "py") -> list[str]:
    """Return the code blocks of a page in one language, without indentation."""
    text = (FOLDER / f"{page}.md").read_text()
    return [textwrap.dedent(body) for body in re.findall(rf"(?ms)^ *```{language}\n(.*?)^ *```$", text)]


def commands(block: str) -> list[list[str]]:
    """Return the commands of a block for a shell, each as its words, without comments and operators."""
    found: list[list[str]] = []
    for line in block.replace("\\\n", " ").splitlines():  # a backslash continues a line
        words = shlex.shlex(line, posix=True, punctuation_chars="&|;")
        words.whitespace_split = True
        for operator, group in groupby(words, lambda word: set(word) <= set("&|;")):
            found += [] if operator else [list(group)]
    return found


def run(page: str, replaced: Mapping[str, str], *, only: slice = slice(None), **names: Any) -> dict[str, Any]:
    """Run the statements of the doctests of a page and then its programs; return all names that they define.

    ``only`` chooses programs of a page that shows two ways; by default all run.

    Raises: AssertionError if a text to replace is not in the programs.
    """
    for example in doctest.DocTestParser().get_examples((FOLDER / f"{page}.md").read_text()):
        if example.exc_msg is None:  # others show an error
            exec(compile(example.source, page, "exec"), names)
    programs = blocks(page)[only]
    for text in replaced:
        assert any(text in program for program in programs), f'"{text}" is not in {page}.md'
    for program in programs:
        exec(compile(_replaced(program, replaced), page, "exec"), names)
    return names


def _replaced(program: str, texts: Mapping[str, str]) -> str:
    for text, instead in texts.items():
        program = program.replace(text, instead)
    return program
