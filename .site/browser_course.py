"""Builds the course as a static site that runs in any browser: JupyterLite, Pyodide and the kit, from this host alone.

The front end and the kernel come from PyPI, the interpreter from npm; ``browser/requirements.txt`` pins the wheels that
the kernel loads. Their files become one archive, so nothing is resolved at run time. What keeps the start short:

* the interpreter starts with the page, not after the front end (``early.html`` and ``start.mjs``);
* modules of the start and of a first chapter are compiled here (``compile.py``), and imported before the kernel mounts
  the notebooks' folder, where each look-up is a request.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
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
BROWSER_FILES = Path(__file__).parent / "browser"
REQUIREMENTS = BROWSER_FILES / "requirements.txt"

PYODIDE_SHA256 = "d78ac549b28a2a58600cd06f44e017024151775f8c6b2d73fab1475400d38ea2"
PYODIDE_FILES = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")

# The packages that the kernel would look for and install, if they were not there.
KERNEL_PACKAGES = ["micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "jedi", "ipython"]
# Terminals, and the front end's half of the widgets.
LEFT_OUT = {"pexpect", "jupyterlab-widgets", "colorama", "pywin32"}
# Stubs of packages that nobody has here, files of front ends, and colors for other languages: half of all bytes.
UNUSED_FILES = re.compile(
    r"jedi/third_party/(typeshed/stubs|django-stubs)/|anywidget/(labextension|nbextension)/|[^/]+\.data/data/"
    r"|[^/]+\.dist-info/(RECORD|.*licenses/)|.*/tests?/|pygments/lexers/(?!__init__|_mapping|python)"
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
    pyodide, contents, packages = work / "static" / "pyodide", work / "contents", work / "packages"
    for folder in (pyodide, contents, packages):
        folder.mkdir(parents=True)
    unpack_interpreter(pyodide)
    unpack_wheels(packages)
    compile_modules(pyodide, packages)
    (pyodide / "start.mjs").write_text(
        (BROWSER_FILES / "start.mjs").read_text().replace("ARCHIVE", pack(packages, pyodide))
    )
    for path in filter(badges.runs_in_browser, badges.chapters()):
        (contents / path.name).write_text(for_browser(path.read_text()))
    (work / "jupyter-lite.json").write_text(json.dumps(settings(), indent=1))
    run(
        *(sys.executable, "-m", "jupyter", "lite", "build", "--force", "--lite-dir", work, "--output-dir", html),
        *("--contents", contents, "--apps", "lab", "--apps", "notebooks", "--no-sourcemaps", "--no-libarchive"),
        "--no-unused-shared-packages",
        cwd=work,
    )
    start_early(html)


def start_early(html: Path) -> None:
    """Make pages of notebooks start the interpreter before they load their front end."""
    (kernel,) = html.glob("extensions/@jupyterlite/pyodide-kernel-extension/static/comlink.worker.*.js")
    imports = f'import "./start.mjs";\nimport "../../{kernel.relative_to(html).as_posix()}";\n'
    (html / "static" / "pyodide" / "worker.mjs").write_text(imports)
    early = (BROWSER_FILES / "early.html").read_text().replace("WORKER", "../static/pyodide/worker.mjs")
    replace(html / "notebooks" / "index.html", "<head>\n", f"<head>\n{early}")
    replace(html / "jupyter-lite.json", "./static/pyodide/pyodide.mjs", "./static/pyodide/start.mjs")


def replace(path: Path, old: str, new: str) -> None:
    """Replace the only occurrence of a text in a file."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, (path, old)
    path.write_text(text.replace(old, new), encoding="utf-8")


def settings() -> dict[str, object]:
    """Return the settings of the front end."""
    kernel = {"loadPyodideOptions": {"packages": KERNEL_PACKAGES}, "disablePyPIFallback": True}
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
    lock = folder / "pyodide-lock.json"  # its packages are files of another host
    lock.write_text(json.dumps(json.loads(lock.read_text()) | {"packages": {}}))


def unpack_wheels(folder: Path) -> None:
    """Unpack the wheels of the kernel, of its stubs and of this checkout, without the files that nobody loads."""
    wheels = folder.with_name("wheels")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    target = ("--only-binary=:all:", "--platform", "any", "--implementation", "py", "--abi", "none")
    version = ("--python-version", PYODIDE_PYTHON_VERSION)
    run(*pip, "download", "-d", wheels, "--no-deps", "--require-hashes", *target, *version, "-r", REQUIREMENTS)
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", wheels, ROOT)
    stubs = Path(sys.prefix, "share/jupyter/labextensions/@jupyterlite/pyodide-kernel-extension/static/pypi")
    for wheel in (*wheels.glob("*.whl"), *stubs.glob("*.whl")):
        if "3.6.999" in wheel.name:  # the widgets' front end of another generation
            continue
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(folder, (name for name in opened.namelist() if not UNUSED_FILES.match(name)))
    if missing := missing_packages(folder):
        sys.exit(f"no wheel for the browser: {', '.join(missing)}; add it to {REQUIREMENTS.relative_to(ROOT)}")


def missing_packages(folder: Path) -> list[str]:
    """Return the packages that others need in a browser and that are not there."""
    heads = [HeaderParser().parsestr(path.read_text()) for path in folder.glob("*.dist-info/METADATA")]
    there = {canonicalize_name(head["Name"]) for head in heads}
    needed = [Requirement(line) for head in heads for line in head.get_all("Requires-Dist") or []]
    names = {canonicalize_name(each.name) for each in needed if each.marker is None or each.marker.evaluate(BROWSER)}
    return sorted(names - LEFT_OUT - there)


def compile_modules(pyodide: Path, packages: Path) -> None:
    """Compile the modules that the first chapter loads, with the interpreter of the browser."""
    library = packages.with_name("library")
    library.mkdir()
    chapter = next(path for path in badges.chapters() if path.name.startswith("01_"))
    run("node", BROWSER_FILES / "compile.mjs", pyodide, packages, library, chapter)
    with zipfile.ZipFile(pyodide / "python_stdlib.zip", "a", zipfile.ZIP_DEFLATED, compresslevel=9) as opened:
        for path in sorted(library.rglob("*.pyc")):
            opened.writestr(
                zipfile.ZipInfo(path.relative_to(library).as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED
            )


def pack(packages: Path, folder: Path) -> str:
    """Write an archive of a folder, as ``start.mjs`` reads it; return its name, which changes with its content.

    Hosts leave files of this kind uncompressed, so it is compressed here.
    """
    files = {
        path.relative_to(packages).as_posix(): path.read_bytes()
        for path in sorted(packages.rglob("*"))
        if path.is_file()
    }
    index = json.dumps([(name, len(content)) for name, content in files.items()])
    archive = gzip.compress(b"".join([index.encode(), b"\n", *files.values()]), mtime=0)
    name = f"packages-{hashlib.sha256(archive).hexdigest()[:8]}.bin"
    (folder / name).write_bytes(archive)
    return name


def run(*command: object, cwd: Path | None = None) -> None:
    """Run a command; its output is printed only if it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
