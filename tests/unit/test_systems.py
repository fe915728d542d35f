"""Windows and macOS: text in other encodings, files of their programs, and the modules that they lack."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kstreamnb import Sample, StreamsBuilder, deploy, read_config, run
from kstreamnb.display.parser import parse_description
from kstreamnb.errors import ConfigError, EngineError
from kstreamnb.kafka import java, local_broker
from kstreamnb.notebook.portable_cells import CellRun, portable
from kstreamnb.notebook.recorder import SANITIZERS
from kstreamnb.spark import spark_session
from kstreamnb.tools import doctor
from kstreamnb.tools.applications import config_options, load_application
from kstreamnb.validation.config_file import read_properties
from tests.command_line import invoke, restored

APP = """
import kstreamnb as ks

builder = ks.StreamsBuilder("arrows")
builder.stream("in").map_values(lambda v: v + " → ✓").to("out")
"""
TABLE = "topic | key | value | time\nin | a | café → | 0\n"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The process of a command finds its application's modules until it ends."""
    with restored():
        yield


def in_process(
    *arguments: str, folder: Path, given: bytes = b"", **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process with another encoding, as a pipe of Windows has."""
    known = {name: text for name, text in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    environment = {**known, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", **variables}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    command = [sys.executable, "-m", "kstreamnb", *arguments]
    return subprocess.run(command, cwd=folder, input=given, capture_output=True, check=False, env=environment)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an application and a sample."""
    (tmp_path / "arrows.py").write_text(APP, encoding="utf-8")
    (tmp_path / "sample.txt").write_text(TABLE, encoding="utf-8")
    return tmp_path


# --- the command line ------------------------------------------------------------------------------------------------
def test_a_pipe_gets_every_character(folder: Path) -> None:
    """Windows encodes text for pipes and files in a code page without arrows, and the command failed."""
    drawn = in_process("graph", "arrows.py", folder=folder)
    assert (drawn.returncode, drawn.stderr) == (0, b"")
    assert "→ ✓" in drawn.stdout.decode()
    replayed = in_process("replay", "arrows.py", "-", folder=folder, given=TABLE.encode())
    assert "café → → ✓" in replayed.stdout.decode()


@pytest.mark.parametrize("encoding", ["cp1252", "cp850"])
def test_an_encoding_that_was_chosen_gets_escapes(folder: Path, encoding: str) -> None:
    """Nothing is lost, and the command succeeds; input stays UTF-8, as files are."""
    given = BOM_UTF8 + TABLE.replace("\n", "\r\n").encode()
    replayed = in_process("replay", "arrows.py", "-", folder=folder, given=given, PYTHONIOENCODING=encoding)
    assert (replayed.returncode, replayed.stderr) == (0, b"")
    assert "\\u2192 \\u2713" in replayed.stdout.decode(encoding)
    assert "café" in replayed.stdout.decode(encoding)
    assert in_process("--help", folder=folder, PYTHONIOENCODING=encoding).returncode == 0


def test_a_drive_is_no_module(folder: Path) -> None:
    r"""A path of Windows has a colon before that of the name: ``C:\apps\shop.py:topology``."""
    for path in ("C:\\apps\\shop.py", "c:/apps/shop.py"):
        for ending in ("", ":topology"):
            with pytest.raises(ConfigError, match=re.escape(f'file "{path}" does not exist')):
                load_application(path + ending)
        with pytest.raises(ConfigError, match=re.escape(f'file "{path}" does not exist')):
            config_options([f"default.deserialization.exception.handler={path}:skip"])
    assert load_application(f"{folder / 'arrows.py'}:builder").name == "arrows"


# --- files -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_files_are_read_as_editors_and_shells_of_windows_write_them(tmp_path: Path, encoding: str, end: str) -> None:
    """With a byte order mark, in UTF-16 (the redirection of PowerShell 5), and with other ends of lines."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_bytes(text.replace("\n", end).encode(encoding))
        return path

    assert read_properties(written("a.properties", "client.id=café\n# x\na=b\\\n  c\n")) == {
        "client.id": "café",
        "a": "bc",
    }
    assert read_config(written("a.yaml", "# café\napplication-id: shop\n")).application_id == "shop"
    sample = Sample.from_records([("in", 0, 0, 0, "a", "café →"), ("in", 0, 1, 5, "b\r\n", "\u2028")])
    sample.to_json_lines(tmp_path / "plain.jsonl")
    lines = written("a.jsonl", (tmp_path / "plain.jsonl").read_bytes().decode())
    assert Sample.from_json_lines(lines) == sample
    values = Sample.from_json_lines(written("b.jsonl", '{"t": 5, "v": "é"}\n'), topic="in", timestamp="t", value="v")
    assert values[0].value == "é"
    builder = StreamsBuilder("café")
    builder.stream("in").to("out")
    description = str(builder.build().describe())
    assert str(load_application(str(written("a.txt", description)))) == str(parse_description(description))
    (tmp_path / "arrows.py").write_text(APP, encoding="utf-8")
    table = str(written("table.md", TABLE))
    assert "café → → ✓" in invoke(["replay", str(tmp_path / "arrows.py"), table]).output


def test_samples_whose_names_differ_in_case_have_two_files(tmp_path: Path) -> None:
    """Windows and macOS take orders and Orders for one file; and two cells may capture into one variable."""
    few = [Sample.from_records([("in", 0, at, at, "a", number) for at in range(40)]) for number in range(3)]
    cells = [
        CellRun("orders = ks.Sample.capture(servers, 'in')", {"orders": few[0]}),
        CellRun("Orders = ks.Sample.capture(servers, 'in')", {"Orders": few[1]}),
        CellRun("orders = ks.Sample.capture(servers, 'in')", {"orders": few[2]}),
    ]
    sources, _ = portable(cells, tmp_path / "shop.ipynb")
    names = [re.findall(r'from_json_lines\("(.*?)"\)', source)[0] for source in sources]
    assert len({name.casefold() for name in names}) == 3
    assert [Sample.from_json_lines(tmp_path / name) for name in names] == few


def test_kernel_files_of_windows_are_not_compared() -> None:
    """The folder of a user may have a space; a letter before a colon need not be a drive."""
    (pattern,) = re.findall(r"\[kernel files\]\nregex: (.*)", SANITIZERS.read_text(encoding="utf-8"))
    files = {
        r"C:\Users\Ann Lee\AppData\Local\Temp\ipykernel_12\345.py:1: UserWarning": "CELL:1: UserWarning",
        r"File ~\AppData\Local\Temp\ipykernel_12\345.py:1": "File CELL:1",
        "at a: /tmp/ipykernel_12/345.py:1": "at a: CELL:1",
        "/var/folders/h1/x/T/ipykernel_12/345.py:1": "CELL:1",
    }
    assert {text: re.sub(pattern, "CELL", text) for text in files} == files


# --- what Windows lacks ----------------------------------------------------------------------------------------------
def test_the_driver_needs_no_module_of_unix() -> None:
    """Nor do samples, drawings and the doctor."""
    code = (
        "import sys\n"
        "for name in ('fcntl', 'resource', 'pwd', 'grp', 'termios'):\n    sys.modules[name] = None\n"
        "import kstreamnb as ks\n"
        "builder = ks.StreamsBuilder('shop')\n"
        "builder.stream('in').group_by_key().count(store='n').to_stream().to('out', value_serde='long')\n"
        "replay = ks.replay(builder.build(), ks.Sample.from_text('topic | key | value | time\\nin | a | 1 | 0'))\n"
        "replay.timeline('n'), replay.topology.to_svg()\n"
        "from kstreamnb.tools.doctor import diagnose\n"
        "print(len(replay.output('out')), diagnose().abilities[0].ready)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", "True"], done.stderr


def test_without_a_library_of_the_renderer_the_text_stands_in(tmp_path: Path) -> None:
    """As on a Windows whose system lacks a part that the library needs: Python raises OSError then."""
    missing = "Could not find module '_wasmtime.dll' (or one of its dependencies)"
    (tmp_path / "wasmtime.py").write_text(f"raise FileNotFoundError({missing!r})", encoding="utf-8")
    code = (
        "import kstreamnb as ks\n"
        "from kstreamnb.tools.doctor import diagnose\n"
        "builder = ks.StreamsBuilder('shop')\n"
        "builder.stream('in').to('out')\n"
        "print(builder.build()._repr_mimebundle_()['text/html'])\n"
        "print(next(each for each in diagnose().abilities if each.name == 'pictures'))"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "PATH": str(tmp_path)}  # without a program named dot
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "cannot draw: Graphviz is not installed" in done.stdout, done.stderr
    assert "_wasmtime.dll" in done.stdout
    assert "remedy='install Graphviz (dot)'" in done.stdout


def test_spark_and_the_broker_are_refused_on_windows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In words and at the start, instead of failing for the lack of a shell or of sockets."""
    monkeypatch.setattr(java, "sys", SimpleNamespace(platform="win32"))
    builder = StreamsBuilder("shop")
    builder.stream("in").to("out")
    topology = builder.build()
    with pytest.raises(EngineError, match="a local broker does not run on Windows") as refused:
        local_broker()
    assert "WSL" in str(refused.value.__notes__)
    calls = (
        spark_session,
        lambda: run(topology, inputs={"in": []}),
        lambda: deploy(topology, bootstrap_servers="localhost:1", checkpoint=tmp_path),
    )
    for call in calls:
        with pytest.raises(EngineError, match="Spark does not run on Windows"):
            call()


def test_the_doctor_names_the_remedy_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two parts that need another system, with Java and packages or without."""
    monkeypatch.setattr(doctor, "sys", SimpleNamespace(platform="win32"))
    remedies = {each.name: each.remedy for each in doctor.diagnose().abilities}
    assert "WSL" in remedies["spark"]
    assert "WSL" in remedies["local broker"]
    assert not remedies["driver"]
