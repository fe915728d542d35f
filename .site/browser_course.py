"""Builds the course as a static site that runs in any browser: JupyterLite, Pyodide and the kit, from this host alone.

The front end and the kernel come from PyPI, the interpreter from npm; ``browser/requirements.txt`` pins the wheels that
the kernel loads. All of them are loaded while the interpreter starts, so nothing is resolved at run time.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import badges
from jupyterlite_pyodide_kernel.constants import PYODIDE_PYTHON_VERSION, PYODIDE_VERSION
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["build"]

ROOT = Path(__file__).parents[1]
REQUIREMENTS = Path(__file__).parent / "browser" / "requirements.txt"

PYODIDE_SHA256 = "d78ac549b28a2a58600cd06f44e017024151775f8c6b2d73fab1475400d38ea2"
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")

# The kernel asks for the first six; cells import the others, some behind magics, which Pyodide cannot see.
ROOTS = [
    *("micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "ipython"),
    *("jedi", "ipywidgets", "anywidget", "kstreamnb"),
]
# Terminals, and the front end's half of the widgets.
LEFT_OUT = {"pexpect", "jupyterlab-widgets", "colorama", "pywin32"}
# Stubs of packages that nobody has here, and files of front ends: half of all bytes.
UNUSED_FILES = re.compile(
    r"jedi/third_party/(typeshed/stubs|django-stubs)/|anywidget/(labextension|nbextension)/|[^/]+\.data/data/"
)
# The browser needs no badge to itself, and shows no pictures beside a notebook: the other one becomes a plain link.
BADGES = re.compile(r"\[!\[Run in the browser\]\S+ \[!\[(Open in Binder)\]\([^)]*\)\]")

BROWSER = {
    "extra": "",
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "wasm32",
    "platform_python_implementation": "CPython",
    "platform_system": "Emscripten",
    "python_full_version": f"{PYODIDE_PYTHON_VERSION}.0",
    "python_version": PYODIDE_PYTHON_VERSION,
    "sys_platform": "emscripten",
}


def build(work: Path, html: Path) -> None:
    """Build the course into a folder of the site, with all that it needs.

    Args:
        work: an empty folder for what the build needs.
        html: the folder that is made.
    """
    pyodide, contents = work / "static" / "pyodide", work / "contents"
    pyodide.mkdir(parents=True)
    contents.mkdir()
    unpack_interpreter(pyodide)
    collect_wheels(pyodide)
    write_lock(pyodide)
    for path in filter(badges.runs_in_browser, badges.chapters()):
        (contents / path.name).write_text(for_browser(path.read_text()))
    (work / "jupyter-lite.json").write_text(json.dumps(settings(), indent=1))
    run(
        *(sys.executable, "-m", "jupyter", "lite", "build", "--force", "--lite-dir", work, "--output-dir", html),
        *("--contents", contents, "--apps", "lab", "--apps", "notebooks", "--no-sourcemaps", "--no-libarchive"),
        "--no-unused-shared-packages",
        cwd=work,
    )


def settings() -> dict[str, object]:
    """Return the settings of the front end."""
    kernel = {"loadPyodideOptions": {"packages": ROOTS}, "disablePyPIFallback": True}
    config = {
        "appName": "kstreamnb",
        "exposeAppInBrowser": True,
        "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": kernel},
    }
    return {"jupyter-lite-schema-version": 0, "jupyter-config-data": config}


def for_browser(notebook: str) -> str:
    """Return a notebook without outputs and badges, and with cells that need a machine as text."""
    content = json.loads(notebook)
    content["cells"][0]["source"] = BADGES.sub(r"[\1]", "".join(content["cells"][0]["source"]))
    content["metadata"]["kernelspec"] = {"display_name": "Python (Pyodide)", "language": "python", "name": "python"}
    for cell in content["cells"]:
        if cell["cell_type"] != "code":
            continue
        cell["outputs"], cell["execution_count"] = [], None
        if "needs-machine" in cell["metadata"].get("tags", []):
            code = f"```python\n{''.join(cell['source'])}\n```"
            cell["cell_type"] = "markdown"
            cell["source"] = f"> This cell needs Python on your machine; in the browser it is text.\n\n{code}"
            del cell["outputs"], cell["execution_count"]
    return json.dumps(content, indent=1)


def unpack_interpreter(folder: Path) -> None:
    """Fetch Pyodide from npm: the interpreter and its standard library."""
    with tempfile.TemporaryDirectory() as temporary:
        run("npm", "pack", "--silent", f"pyodide@{PYODIDE_VERSION}", cwd=Path(temporary))
        (archive,) = Path(temporary).glob("pyodide-*.tgz")
        if hashlib.sha256(archive.read_bytes()).hexdigest() != PYODIDE_SHA256:
            sys.exit(f"{archive.name} is not the file that was tested: update PYODIDE_SHA256 after a look at it")
        with tarfile.open(archive) as opened:
            for name in PYODIDE_FILES:
                content = opened.extractfile(f"package/{name}")
                assert content is not None, name
                (folder / name).write_bytes(content.read())


def collect_wheels(folder: Path) -> None:
    """Put the wheels of the kernel, of its stubs and of this checkout into a folder, without the files nobody loads."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    target = ("--only-binary=:all:", "--platform", "any", "--implementation", "py", "--abi", "none")
    version = ("--python-version", PYODIDE_PYTHON_VERSION)
    run(*pip, "download", "-d", folder, "--no-deps", "--require-hashes", *target, *version, "-r", REQUIREMENTS)
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, ROOT)
    stubs = Path(sys.prefix, "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension/static/pypi")
    for wheel in stubs.glob("*.whl"):
        if "3.6.999" not in wheel.name:  # the widgets' front end of another generation
            shutil.copy(wheel, folder)
    for wheel in folder.glob("*.whl"):
        slim(wheel)
    # Browsers keep a wheel for weeks: its name changes with its bytes, by a build tag, which starts with a digit.
    (kit,) = folder.glob("kstreamnb-*.whl")
    name, number, rest = kit.name.split("-", 2)
    kit.rename(kit.with_name(f"{name}-{number}-0{hashlib.sha256(kit.read_bytes()).hexdigest()[:8]}-{rest}"))


def slim(wheel: Path) -> None:
    """Remove the files of a wheel that nobody loads in a browser."""
    with zipfile.ZipFile(wheel) as opened:
        kept = {name: opened.read(name) for name in sorted(opened.namelist()) if not UNUSED_FILES.match(name)}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as slimmed:
        for name, content in kept.items():
            if name.endswith(".dist-info/RECORD"):
                content = b"".join(
                    line for line in content.splitlines(keepends=True) if not UNUSED_FILES.match(line.decode())
                )
            slimmed.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def write_lock(folder: Path) -> None:
    """Rewrite Pyodide's list of packages, which names files of another host, to the wheels beside it."""
    path = folder / "pyodide-lock.json"
    lock = json.loads(path.read_text())
    wheels = {canonicalize_name(wheel.name.split("-")[0]): wheel for wheel in sorted(folder.glob("*.whl"))}
    lock["packages"] = {name: locked(wheel, wheels) for name, wheel in wheels.items()}
    path.write_text(json.dumps(lock, indent=1))


def locked(wheel: Path, wheels: dict[str, Path]) -> dict[str, object]:
    """Return the entry of a wheel in Pyodide's list of packages."""
    with zipfile.ZipFile(wheel) as opened:
        files = opened.namelist()
        metadata = next(name for name in files if name.endswith(".dist-info/METADATA"))
        head = HeaderParser().parsestr(opened.read(metadata).decode())
    tops = {name.split("/")[0].removesuffix(".py") for name in files if "/" in name or name.endswith(".py")}
    return {
        "name": head["Name"],
        "version": head["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": sorted(top for top in tops if not top.endswith((".dist-info", ".data"))),
        "depends": sorted(required(head.get_all("Requires-Dist") or [], wheels)),
        "unvendored_tests": False,
    }


def required(requirements: list[str], wheels: dict[str, Path]) -> set[str]:
    """Return the packages that one package needs in a browser; end the build if one of them is not there."""
    needed = [Requirement(line) for line in requirements]
    names = {canonicalize_name(each.name) for each in needed if each.marker is None or each.marker.evaluate(BROWSER)}
    if missing := names - LEFT_OUT - set(wheels):
        sys.exit(f"no wheel for the browser: {', '.join(sorted(missing))}; add it to {REQUIREMENTS.relative_to(ROOT)}")
    return names & set(wheels)


def run(*command: object, cwd: Path | None = None) -> None:
    """Run a command; its output is printed only if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
