"""Every kind of error has a page with cause, remedy and an example that provokes it, and refers to its address."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import tomllib
import traceback
from pathlib import Path

import pytest

import kstreamnb as ks
from kstreamnb.errors import DOCUMENTATION, KStreamError
from kstreamnb.source_location import SourceLocation
from tests.kafka.error_examples import EXAMPLES, OTHER_TESTS

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / ".site"))

import error_pages  # noqa: E402 - the site's builder is not a package

KINDS = list(error_pages.kinds())
CAUGHT_ELSEWHERE = {"RecordRefusedError": "type(error.__cause__).__name__"}
"""Errors that the example shows as the cause of another one."""


def test_the_pages_are_those_of_the_tree() -> None:
    """Each public kind, and each line of the tree."""
    named = {name for name in ks.errors.__all__ if isinstance(getattr(ks.errors, name), type)}
    assert {kind.__name__ for kind in KINDS} == named | {"KStreamError"}
    tree = sys.modules["kstreamnb.errors"].__doc__ or ""
    assert [] == [kind.__name__ for kind in KINDS if kind.__name__ not in tree]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_page_has_cause_example_and_remedy(kind: type[KStreamError]) -> None:
    text = error_pages.page(kind)
    for heading in ("## Cause", "## Remedy", "## Example"):
        body = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0]
        assert len(body.strip()) > 20, heading


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.__name__)
def test_the_example_provokes_the_error(kind: type[KStreamError]) -> None:
    """A doctest that catches it, a program that the tests on Kafka run, or a named test."""
    name = kind.__name__
    caught = CAUGHT_ELSEWHERE.get(name, f"except {name} as error")
    if kind in OTHER_TESTS:
        path, _, test = OTHER_TESTS[kind].partition("::")
        assert f"def {test}(" in (ROOT / path).read_text()
    else:
        assert kind in EXAMPLES or caught in (inspect.getdoc(kind) or "")


def test_an_error_knows_its_page() -> None:
    """Including a user's own subclass, which has the page of the kit's kind."""

    class OwnError(ks.errors.SinkError):
        """A user's own."""

    assert ks.errors.BrokerError("away").url == f"{DOCUMENTATION}errors/brokererror.html"
    assert OwnError("full").url == f"{DOCUMENTATION}errors/sinkerror.html"


def test_a_plain_traceback_ends_with_the_link_to_the_errors_page() -> None:
    """Also after notes that were added later, and after a pickle; the error's own text stays as it is."""
    error = ks.errors.SinkError("the disk is full", hint="free some space", java="No space left on device")
    error.add_note("Detail: it was for orders")
    for each in (error.at(SourceLocation("shop.py", 3)), pickle.loads(pickle.dumps(error))):
        lines = "".join(traceback.format_exception(each)).splitlines()
        assert f"More: {DOCUMENTATION}errors/sinkerror.html" == lines[-1]
        assert "Detail: it was for orders" in lines
        assert 1 == sum(line.startswith("More: ") for line in lines)
        assert "the disk is full" == str(each)


def test_an_uncaught_error_of_a_script_ends_with_the_link() -> None:
    """Python's own printing, in a fresh process."""
    script = "import kstreamnb as ks; ks.TimeWindows.of(size='5 parsecs')"
    failed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert f"More: {DOCUMENTATION}errors/configerror.html" == failed.stderr.splitlines()[-1]


def test_the_address_of_the_documentation_is_that_of_the_project() -> None:
    assert DOCUMENTATION == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
