"""Commands that the pages print exist, with their options: those of the kit, of make, of pip and of Python."""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from kstreamnb.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "notebooks").glob("README.md"),
    *(ROOT / "notebooks" / "guide").rglob("*.md"),
    *(ROOT / "notebooks" / "applications").rglob("*.md"),
]
OURS = re.compile(r"(?:kstreamnb|make|pip install|python -m) .+")
PLACEHOLDER = re.compile(r"[A-Z]+|.*[…<].*")


def commands(text: str) -> list[str]:
    """Return the commands of a page: lines of its shell blocks, and code within sentences."""
    lines = [
        line.partition(" #")[0]
        for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```$", text)
        for line in block.splitlines()
    ]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^ *```.*?^ *```$", "", text))
    return [each.strip() for line in lines for each in line.split("&&") if OURS.fullmatch(each.strip())]


COMMANDS = sorted({command for page in PAGES for command in commands(page.read_text())})


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_a_page_can_be_run(command: str) -> None:
    """Names, options and their values are understood; nothing is started."""
    words = shlex.split(command)
    if words[0] == "kstreamnb":
        understood(words[1:])
    elif words[0] == "make":
        made(words[1:])
    elif words[:2] == ["pip", "install"]:
        installed(words[2:])
    else:
        assert find_spec(words[2]) is not None, f"there is no module {words[2]}"


def understood(words: list[str]) -> None:
    """Parse the words as the command does, up to the last option; a command named alone may lack its arguments."""
    command: click.Command = main
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command = command.commands[words.pop(0)]
    values = [__file__ if PLACEHOLDER.fullmatch(word) and not word.startswith("-") else word for word in words]
    command.make_context("kstreamnb", values, resilient_parsing=not words)


def made(words: list[str]) -> None:
    """Look for the targets and the variables in the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, given, _ = word.partition("=")
        wanted = rf"\$\({name}\)|\$\(or \$\({name}\)|^{name} " if given else rf"^{name}:"
        assert re.search(wanted, makefile, re.MULTILINE), f"the Makefile has no {name}"


def installed(words: list[str]) -> None:
    """Look for the extras in the project's settings."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for names in re.findall(r"kstreamnb\[(.+?)\]", " ".join(words)):
        assert not set(names.split(",")) - extras.keys()


def test_pages_have_commands_of_each_kind() -> None:
    assert {"kstreamnb", "make", "pip", "python"} == {command.split()[0] for command in COMMANDS}


def test_a_command_that_does_not_exist_is_found() -> None:
    """The check is one: a wrong option, target or extra fails."""
    with pytest.raises(click.NoSuchOption):
        understood(["reset", "--application", "shop"])
    with pytest.raises(AssertionError):
        made(["test-everything"])
    with pytest.raises(AssertionError):
        installed(["kstreamnb[sparks]"])
