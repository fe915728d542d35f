"""JupyterLab as users have it, served on this machine, in a Chromium that may reach no other host."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, Route, expect

__all__ = ["ARTEFACTS", "JUPYTERLAB", "NOTEBOOK_7", "PATIENCE_MS", "SHOP", "Lab", "Notebook", "chromium", "served"]

PATIENCE_MS = 120_000
"""How long anything may take: a busy machine is slow, and what is wrong stays wrong."""

ARTEFACTS = Path(__file__).parents[2] / ".artefacts" / "browser"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
JUPYTERLAB, NOTEBOOK_7 = "doc/tree", "notebooks"
SHOP = (
    "%load_ext kstreamnb\nimport kstreamnb as ks",
    '''
builder = ks.StreamsBuilder("shop")
builder.sample = ks.Sample.from_text("""
    topic  | key  | value      | time
    sales  | shoe | {"n": 1}   | 2026-01-01T09:05Z
    sales  | hat  | {"n": 1}   | 2026-01-01T09:40Z
    sales  | shoe | {"n": 1}   | 2026-01-01T10:05Z
    sales  | hat  | {"n": 1}   | 2026-01-01T10:15Z
    sales  | shoe | {"n": 1}   | 2026-01-01T09:55Z
""")
sales = builder.stream("sales")
many = sales.filter(lambda key, sale: sale["n"] > 0)
hours = ks.TimeWindows.of(size="1h", grace="10m")
sold = many.group_by_key().windowed_by(hours).count(store="sold")
sold.to_stream(lambda window, count: window.key).to("sold-per-hour")
topology = builder.build()
replay = ks.replay(topology)
''',
)
"""Cells of a shop: its sample, its topology, and a replay in which one record is late."""
_TOKEN = "kstreamnb"
_WIDTH, _HEIGHT = 1280, 1000
_START_S = 180
_END_S = 60
# Messages of JupyterLab and Notebook themselves, unrelated to the kit: requests for optional server features.
# The kernel of JupyterLite builds the site of the course; its extension has no use in JupyterLab and logs that.
_LABS_OWN = ("notebook_core", "favicon", "/lsp/", "api/me", "/lab/api/news", "ResizeObserver", "@jupyterlite")


def chromium() -> str | None:
    """The path of a Chromium, or None."""
    names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if name and (path := shutil.which(name))), None)


@dataclass
class Lab:
    """A JupyterLab server over a folder, and a browser window on it: pages share what they have loaded."""

    url: str
    folder: Path
    context: BrowserContext

    @contextmanager
    def notebook(self, name: str, cells: Sequence[str], front_end: str = JUPYTERLAB) -> Iterator[Notebook]:
        """Open a new notebook with these cells, on a separate page."""
        made = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(cells)]
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        nbformat.write(nbformat.v4.new_notebook(cells=made, metadata=kernel), self.folder / f"{name}.ipynb")
        page = self.context.new_page()
        notebook = Notebook(page, name, self.url)
        notebook.open(front_end)
        try:
            yield notebook
        finally:
            notebook.close()

    @contextmanager
    def prepared(
        self, name: str, cells: Sequence[str], *, run: int = 2, ready: str = "", front_end: str = JUPYTERLAB
    ) -> Iterator[Notebook]:
        """Open a new notebook, run its first cells and wait for what they show; at the end nothing has gone wrong."""
        with self.notebook(name, cells, front_end) as notebook:
            for number in range(run):
                notebook.run(number)
            if ready:
                expect(notebook.page.locator(ready).first).to_be_visible()
            yield notebook
            notebook.assert_quiet()


@dataclass
class Notebook:
    """An open notebook: its cells are run as a user runs them, and every error is collected."""

    page: Page
    name: str
    url: str
    errors: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def open(self, front_end: str) -> None:
        """Open the notebook, and wait for its kernel."""
        self.page.route("**/*", self._local_only)
        self.page.on("request", self._note_stranger)
        self.page.on("console", self._note_console)
        self.page.on("pageerror", lambda error: self._note(f"uncaught: {error} {error.stack}"))
        self.page.goto(f"{self.url}/{front_end}/{self.name}.ipynb?token={_TOKEN}&reset")
        expect(self.page.locator(".jp-Notebook .jp-Cell").first).to_be_visible()
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session?.kernel"
        )

    def close(self) -> None:
        """Close the page and shut down its kernel."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
        self.page.close()

    def run(self, number: int, *, source: str | None = None) -> Locator:
        """Run a cell, after replacing its text if a new one is given, and return its output."""
        self.page.evaluate(
            """async ([number, source]) => {
                const panel = window.jupyterapp.shell.currentWidget, notebook = panel.content;
                while (notebook.widgets.length <= number) {
                    notebook.activeCellIndex = notebook.widgets.length - 1;
                    await window.jupyterapp.commands.execute("notebook:insert-cell-below");
                }
                notebook.activeCellIndex = number;
                if (source !== null) notebook.activeCell.model.sharedModel.setSource(source);
                await window.jupyterapp.commands.execute("notebook:run-cell");
            }""",
            [number, source],
        )
        return self.output(number)

    def begin(self, number: int) -> Locator:
        """Start a cell without waiting for it, and return its output element."""
        self.page.evaluate(
            """(number) => {
                window.jupyterapp.shell.currentWidget.content.activeCellIndex = number;
                window.jupyterapp.commands.execute("notebook:run-cell");
            }""",
            number,
        )
        return self.output(number)

    def output(self, number: int) -> Locator:
        """Return the text that a cell shows."""
        cell = self.page.locator(".jp-Notebook > .jp-WindowedPanel-outer .jp-Cell, .jp-Notebook > .jp-Cell").nth(number)
        return cell.locator(".jp-Cell-outputArea")

    def assert_drawn(self, output: Locator, *words: str) -> None:
        """Return a cell's picture: an SVG, which JupyterLab shows as an image, containing these words."""
        for word in words:
            drawn = re.compile(re.escape(quote(word, safe="·")))
            expect(output.locator(".jp-RenderedSVG img")).to_have_attribute("src", drawn)

    def watch_bars(self) -> None:
        """Keep the texts that the bar of long operations shows after this call."""
        self.page.evaluate(
            """() => {
                window.bars = [];
                const shown = () => [...document.querySelectorAll(".ks-line")].map(bar => bar.textContent);
                const everything = {subtree: true, childList: true, characterData: true};
                new MutationObserver(() => window.bars.push(...shown())).observe(document.body, everything);
            }"""
        )

    def bars(self) -> str:
        """Return the texts that the bar has shown, one a line."""
        shown: str = self.page.evaluate("() => [...new Set(window.bars)].join('\\n')")
        return shown

    def python(self, expression: str) -> str:
        """Return the text of an expression evaluated in the kernel, outside any cell.

        Wait until page and kernel agree: the kernel handles the page's messages in order, and the request is done when
        the page has handled the kernel's earlier messages. Messages that wait for a timer of the page are not sent yet.
        """
        found: str = self.page.evaluate(
            """async (code) => {
                const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
                const asked = {code: "", silent: true, store_history: false, user_expressions: {it: code}};
                const reply = (await kernel.requestExecute(asked).done).content.user_expressions.it;
                return reply.status === "ok" ? reply.data["text/plain"] : `${reply.ename}: ${reply.evalue}`;
            }""",
            expression,
        )
        return found

    def start(self, code: str) -> None:
        """Start code in the kernel outside any cell, without waiting."""
        self.page.evaluate(
            """(code) => {
                const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
                kernel.requestExecute({code, silent: true, store_history: false});
            }""",
            code,
        )

    def until(self, expression: str, wanted: str, timeout_s: float = PATIENCE_MS / 1000) -> None:
        """Wait until an expression in the kernel has a text."""
        end = time.monotonic() + timeout_s
        while (found := self.python(expression)) != wanted:
            assert time.monotonic() < end, f"{expression} is {found}, not {wanted}"
            self.page.wait_for_timeout(50)

    def theme(self, dark: bool) -> None:
        """Change JupyterLab's theme, and wait until the page is visible again."""
        name = "JupyterLab Dark" if dark else "JupyterLab Light"
        self.page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
        expect(self.page.locator(f'body[data-jp-theme-name="{name}"]')).to_be_attached()
        expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)

    def save(self) -> None:
        """Save the notebook as a user does."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def narrow(self, width: int) -> None:
        """Set the width of the page; a narrow page has no side bar, as on a phone."""
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})
        command = "application:set-mode"
        mode = "single-document" if width < _WIDTH else "multiple-document"
        self.page.evaluate(
            """async ([command, mode, narrow]) => {
                await window.jupyterapp.commands.execute(command, {mode});
                if (narrow) window.jupyterapp.shell.collapseLeft();
            }""",
            [command, mode, width < _WIDTH],
        )

    def picture(self, part: Locator, name: str, width: int = _WIDTH) -> None:
        """Save a screenshot of a part of the page, in light and dark."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        box = part.bounding_box() or {"height": 0}
        self.page.set_viewport_size({"width": width, "height": max(_HEIGHT, int(box["height"]) + 300)})
        for dark in (False, True):
            self.theme(dark)
            self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            part.screenshot(path=ARTEFACTS / f"{name}-{'dark' if dark else 'light'}.png")
        self.theme(False)
        self.page.set_viewport_size({"width": width, "height": _HEIGHT})

    def barriers(self, selector: str) -> list[str]:
        """Return axe's serious violations in the part of the page that a selector names."""
        rules = {"resultTypes": ["violations"]}
        found: Any = Axe().run(self.page, context=selector, options=rules)
        grave = [each for each in found.response["violations"] if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in grave for node in each["nodes"]]

    def assert_quiet(self) -> None:
        """Assert that the console has no errors and that no other host was contacted."""
        assert self.errors == []
        assert self.strangers == []

    def _local_only(self, route: Route) -> None:
        if route.request.url.startswith((self.url, "data:", "blob:")):
            route.continue_()
        else:
            route.abort()

    def _note_stranger(self, request: Request) -> None:
        host = self.url.removeprefix("http://")
        if not request.url.startswith((self.url, f"ws://{host}", "data:", "blob:")):
            self.strangers.append(request.url)

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._note(f"{message.text} {message.location.get('url', '')}")

    def _note(self, said: str) -> None:
        if not any(own in said for own in _LABS_OWN):
            self.errors.append(said)


@contextmanager
def served(folder: Path, browser: Browser) -> Iterator[Lab]:
    """Run JupyterLab over a folder with separate settings until the block ends."""
    work = folder / "work"
    work.mkdir()
    _settle(folder)
    with (folder / "lab.log").open("wb") as log, TemporaryDirectory(prefix="lab-") as runtime:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyter", "lab", *_options(work)],
            env=_environment(folder, runtime), stdout=log, stderr=log,
        )  # fmt: skip
        try:
            url = _wait_for(server, folder, Path(runtime))
            context = browser.new_context(viewport={"width": _WIDTH, "height": _HEIGHT}, reduced_motion="reduce")
            context.set_default_timeout(PATIENCE_MS)
            yield Lab(url, work, context)
            context.close()
        finally:
            _end(server)


def _options(work: Path) -> list[str]:
    return [
        *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={_free_port()}", f"--ServerApp.root_dir={work}"),
        *(f"--IdentityProvider.token={_TOKEN}", "--LabApp.expose_app_in_browser=True"),
        "--JupyterNotebookApp.expose_app_in_browser=True",
        *("--LabApp.extension_manager=readonly", "--LabApp.news_url=None"),
        *("--ServerApp.terminals_enabled=False", "--LanguageServerManager.autodetect=False"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--KernelManager.transport=ipc",  # two servers could choose the same ports for their kernels
    ]


def _settle(folder: Path) -> None:
    """Answers JupyterLab's prompt about news, which would cover a corner of the page."""
    place = folder / "jupyterlab_settings_dir" / "@jupyterlab" / "apputils-extension"
    place.mkdir(parents=True)
    (place / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')


def _environment(folder: Path, runtime: str) -> dict[str, str]:
    """Settings and IPython's history are in the folder; no user's configuration is read.

    Kernels listen on Unix sockets in `runtime`, whose paths may have 107 characters.
    """
    places = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    places += ("JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")  # type: ignore[assignment]
    own = {"JUPYTER_RUNTIME_DIR": runtime, **{name: str(folder / name.lower()) for name in places}}
    return {**os.environ, **own, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": str(Path(__file__).parents[2])}


def _wait_for(server: subprocess.Popen[bytes], folder: Path, runtime: Path) -> str:
    """Return the address at which the server answers: it takes another port if the first one is already in use."""
    end = time.monotonic() + _START_S
    while True:
        try:
            (told,) = runtime.glob("jpserver-*.json")
            url = f"http://127.0.0.1:{json.loads(told.read_text())['port']}"
            with urllib.request.urlopen(f"{url}/api?token={_TOKEN}", timeout=10):
                return url
        except (ValueError, OSError):  # no file yet, half a file, or no answer
            ended = server.poll() is not None
            if ended or time.monotonic() > end:
                pytest.fail(f"JupyterLab did not start: {(folder / 'lab.log').read_text()[-2000:]}")
            time.sleep(0.1)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Stop the server; kill it if shutting down its kernels takes too long."""
    server.terminate()
    try:
        server.wait(timeout=_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
