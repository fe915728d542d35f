"""Builds the documentation site into ``.artefacts/site``: ``python .site/build.py``.

The guide, the notebooks and the pages of the repository are copied; the reference, the index of errors and the table
of settings are generated from the package. The build fails on any warning of Sphinx, on a link that leads nowhere, on
a public name, an argument or a name of Java that the reference lacks, and on a page that would ask another machine for
anything.
``--without-course`` leaves out the course in the browser, which takes half a minute.
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import browser_course  # noqa: E402 - beside this file
import error_pages  # noqa: E402
from badges import URLS  # noqa: E402
from links import broken_links  # noqa: E402
from reference_check import missing  # noqa: E402

import kstreamnb as ks  # noqa: E402 - from this checkout
from tests.unit.public_names import PASSED, is_internal, public_names, returned_classes  # noqa: E402

WORK = ROOT / ".artefacts" / "site"
SOURCE, HTML = WORK / "source", WORK / "html"

PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "DECISIONS.md": "decisions.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RECIPES.md": "recipes.md",
    "JAVA_NAMES.md": "java-names.md",
}
"""Pages of the repository, and what they are called on the site."""

NAMESPACES = {
    "": "Topologies, tests and deployment",
    "kafka": "Brokers, producers and the Schema Registry",
    "spark": "Sessions, sinks and state on Spark",
    "monitoring": "Metrics, alerts and the store server",
    "simulation": "Simulated clusters, groups and logs",
    "course": "The course: predictions, exercises and pictures",
    "testing": "Assertions, checks, races and parity",
    "widgets": "Widgets for notebooks",
    "notebook": "Export of notebooks",
    "samples": "Statistics of samples",
}

GROUPS = {
    "Run, test and deploy": ("replays", "tools", "testdriver", "samples", "spark", "validation", "runtime"),
    "Build a topology": (
        "dsl.builder",
        "dsl.kstream",
        "dsl.ktable",
        "dsl.grouping",
        "dsl.aggregating",
        "dsl.branching",
    ),
    "Windows": ("core.windows",),
    "Options of operators": ("dsl.options", "dsl.option_fields"),
    "Processors and stores": ("core.processor", "core.stores"),
    "Records, serdes and timestamps": ("core.record", "core.serde", "core.serdes", "core.extractors"),
    "Topologies and errors": ("topology", "display", "errors"),
}
"""Headings of the names at the root, and the modules below ``kstreamnb`` that define them."""


def copy_pages() -> None:
    """Copy what is written by hand, with links that fit the site."""
    shutil.copytree(ROOT / "notebooks" / "guide", SOURCE)
    for path in SOURCE.rglob("*.md"):  # the empty line that ends a doctest shows readers nothing
        path.write_text(re.sub(r"\n\n( *)```\n", r"\n\1```\n", path.read_text()))
    ignored = shutil.ignore_patterns(
        "guide", "conftest.py", "*.py", "*.jsonl", ".ipynb_checkpoints", "samples", "*.yaml", "Dockerfile"
    )
    shutil.copytree(ROOT / "notebooks", SOURCE / "tutorial", ignore=ignored)
    (SOURCE / "tutorial" / "README.md").rename(SOURCE / "tutorial" / "index.md")
    for page, name in PAGES.items():
        (SOURCE / name).write_text(linked((ROOT / page).read_text()))
    course = sorted(path.stem for path in (SOURCE / "tutorial").glob("*.ipynb"))
    deployment = sorted(f"deployment/{path.stem}" for path in (SOURCE / "tutorial" / "deployment").glob("*.ipynb"))
    regression = sorted(f"regression/{path.stem}" for path in (SOURCE / "tutorial" / "regression").glob("*.ipynb"))
    applications = sorted(
        f"applications/{path.parent.name}/{path.stem}" for path in (SOURCE / "tutorial").glob("applications/*/*.ipynb")
    )
    for readme in (SOURCE / "tutorial" / "applications").rglob("README.md"):
        readme.unlink()  # they link files of the repository
    index = SOURCE / "tutorial" / "index.md"
    index.write_text(index.read_text() + toctree("Notebooks", [*course, *deployment, *applications, *regression]))
    shutil.copytree(Path(__file__).parent / "_static", SOURCE / "_static")
    shutil.copytree(ROOT / "notebooks" / "badges", SOURCE / "_static" / "badges")  # the README shows them
    shutil.copy(Path(__file__).parent / "conf.py", SOURCE)


def linked(text: str) -> str:
    """Return a page of the repository with its links to other files changed to pages of the site."""
    targets = {**PAGES, "notebooks/README.md": "tutorial/index.md", "README.md": "index.md"}

    def target(match: re.Match[str]) -> str:
        path, anchor = match[2], match[3] or ""
        if path in targets:
            return f"[{match[1]}]({targets[path]}{anchor})"
        return match[0] if re.match(r"[a-z]+:|#|tutorial/", path) else f"{match[1]} (`{path}`)"

    return re.sub(r"\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)", target, text)


def toctree(caption: str, entries: list[str]) -> str:
    """Return a hidden table of contents."""
    lines = "\n".join(entries)
    return f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n{lines}\n```\n"


def draw_example() -> None:
    """Draw the topology of the first page."""
    builder = ks.StreamsBuilder("shop")
    sales = builder.stream("sales")
    prices = builder.global_table("prices", store="price-list")
    valued = sales.join(prices, lambda product, sale: product, lambda sale, price: sale["pieces"] * price)
    hours = ks.TimeWindows.of(size="1h", grace="10m")
    turnover = valued.group_by_key().windowed_by(hours).reduce(lambda total, value: total + value, store="turnover")
    turnover.to_stream().to("turnover")
    (SOURCE / "_static" / "topology.svg").write_text(builder.build().to_svg())


REFERENCE = """# Reference

Every public name, with its arguments, units, defaults, errors and an example that runs.

| in a signature | means |
|---|---|
| `Duration` | a string such as `"5m"`, `"1h30m"` or `"1500ms"` (units `d`, `h`, `m`, `s`, `ms`), or a `timedelta` |
| `Instant` | ISO text with a zone such as `"2026-01-01T09:00Z"`, a `datetime` with a zone, or milliseconds since 1970 |
| a name that ends in `_ms` or `_s` | a number of milliseconds (a time: since 1970), or of seconds |
| `Serde \\| str` | a serde, or its name, such as `"long"`; `ks.Serdes` lists them |

Every function checks its arguments when it is called: a wrong type, an unknown name or a string that is not a duration
raises
[`ConfigError`](../errors/configerror.md), in a topology [`TopologyError`](../errors/topologyerror.md), with your line.
"Raises" lists the errors that depend on more than that. "Java" and "Source" name Kafka Streams' class or method.

"""


def write_reference() -> None:
    """Write a page for each namespace, with every public name and its members."""
    folder = SOURCE / "reference"
    folder.mkdir()
    names = public_names()
    written = []
    for namespace, title in NAMESPACES.items():
        page = namespace or "root"
        prefix = f"{namespace}." if namespace else ""
        own = sorted(
            (name for name in names if name.rpartition(".")[0] == namespace and name != "samples.Sample"), key=str.lower
        )
        parts = [f"{title}\n{'=' * len(title)}\n", f"``ks.{prefix}…``\n" if namespace else "``ks.…``\n"]
        if not namespace:  # most names: a page for each class, and one for the functions
            classes = {name: names[name] for name in own if inspect.isclass(names[name])}
            for name, kind in classes.items():
                (folder / f"{name}.rst").write_text(entry(name, kind))
            parts += grouped({name: names[name] for name in own})
            parts.append("\n.. toctree::\n   :hidden:\n\n" + "".join(f"   {name}\n" for name in classes))
            own = [name for name in own if name not in classes]
        parts += [entry(name, names[name]) for name in own]
        (folder / f"{page}.rst").write_text("\n".join(parts))
        written.append(page)
    write_results(folder)
    contents = REFERENCE + "\n".join(
        f"- [{NAMESPACES[page if page != 'root' else '']}]({page}.rst): `ks.{'' if page == 'root' else f'{page}.'}…`"
        for page in written
    )
    others = {
        "Results": "reference/results",
        "Errors": "errors/index",
        "Settings": "settings",
        "Metrics": "metrics",
        "Java's names": "java-names",
    }
    contents += "".join(f"\n- [{title}](/{page})" for title, page in others.items()) + "\n"
    (folder / "index.md").write_text(
        contents + toctree("Namespaces", [*written, *(f"/{page}" for page in others.values())])
    )


def grouped(names: dict[str, object]) -> list[str]:
    """Return a list of links to the names at the root for each of ``GROUPS``."""
    remaining = dict(names)
    lines: list[str] = []
    for title, modules in GROUPS.items():
        prefixes = tuple(f"kstreamnb.{module}." for module in modules)
        own = [name for name, value in remaining.items() if f"{value.__module__}.".startswith(prefixes)]
        lines.append(f"\n.. rubric:: {title}\n")
        for name in own:
            value = remaining.pop(name)
            role = f":doc:`ks.{name} <{name}>`" if inspect.isclass(value) else f":func:`ks.{name}() <kstreamnb.{name}>`"
            lines.append(f"- {role}: {summary(value)}")
    if remaining:
        raise SystemExit(f"no heading in GROUPS for {', '.join(remaining)}")
    return lines


def write_results(folder: Path) -> None:
    """Write a page for each class whose objects users get from a call, and a list of these classes."""
    (folder / "results").mkdir()
    title = "Results"
    what = "The objects that calls return, and those that users' functions get, with their fields and methods.\n"
    parts = [f"{title}\n{'=' * len(title)}\n", what]
    kinds = sorted(returned_classes().items(), key=lambda item: item[0].__name__.lower())
    results = {kind.__name__ for kind, _ in kinds}
    for kind, sources in kinds:
        name = kind.__name__
        shown = [f"``{source}``" if source.partition(".")[0] in results else f"``ks.{source}``" for source in sources]
        shown[3:] = ["and others"] if len(shown) > 3 else []
        directive = class_directive(f"{kind.__module__}.{name}", kind)
        origin = f"Passed to {PASSED[name]}" if name in PASSED else f"Returned by {', '.join(shown)}"
        text = f"{name}\n{'-' * len(name)}\n\n{origin}.\n\n{directive}"
        (folder / "results" / f"{name}.rst").write_text(text)
        parts.append(f"- :doc:`{name} <results/{name}>`: {summary(kind)}")
    parts.append("\n.. toctree::\n   :hidden:\n\n" + "".join(f"   results/{kind.__name__}\n" for kind, _ in kinds))
    (folder / "results.rst").write_text("\n".join(parts))


def summary(kind: object) -> str:
    """Return the first paragraph of a docstring, as one line."""
    return (inspect.getdoc(kind) or "").partition("\n\n")[0].replace("\n", " ")


def entry(name: str, value: object) -> str:
    """Return the directive for one public name."""
    title, path = f"ks.{name}", f"kstreamnb.{name}"
    directive = class_directive(path, value) if inspect.isclass(value) else f".. autofunction:: {path}\n"
    return f"{title}\n{'-' * len(title)}\n\n{directive}"


def class_directive(path: str, kind: type) -> str:
    """Return the directive for a class, without members that only the package calls, and fields without a text."""
    hidden = [member for member in dir(kind) if is_internal(kind, member)]
    hidden += getattr(kind, "_fields", ())  # of named tuples; the signature or the section "Attributes" has them
    options = f"   :exclude-members: {', '.join(hidden)}\n" if hidden else ""
    return f".. autoclass:: {path}\n{options}"


def write_settings() -> None:
    """Write the table of Kafka Streams' settings, and how each is handled."""
    rows = ["# Settings\n", "How each setting of Kafka Streams is handled, as `ks.config_report()` says.\n"]
    rows += ["| setting | Kafka's default | answer | how |", "|---|---|---|---|"]
    # Without the column of values, which nobody has set; a long name may break after a dot.
    table = [(name.replace(".", ".<wbr>"), *rest) for name, _, *rest in ks.config_report().table()]
    rows += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in table]
    (SOURCE / "settings.md").write_text("\n".join(rows) + "\n")


def write_metrics() -> None:
    """Write the table of Kafka Streams' metrics: those of a query, and where to look instead of the others."""
    metrics = ks.monitoring.kafka_metrics()
    rows = [
        "# Metrics\n",
        f"{metrics.title}. Those `given` are in `query.metrics()`; `ks.monitoring.serve_metrics()` serves them.\n",
    ]
    rows += ["| group | name | here | unit, or where to look instead |", "|---|---|---|---|"]
    rows += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in metrics.table()]
    (SOURCE / "metrics.md").write_text("\n".join(rows) + "\n")


def pages() -> list[Path]:
    """Return the pages of the site; those of JupyterLite and templates of the theme are not ours."""
    return sorted(path for path in HTML.rglob("*.html") if path.relative_to(HTML).parts[0] not in ("lite", "_static"))


def link_within() -> None:
    """Let links to the published site, such as the badges of chapters, lead to this one, wherever it is served."""
    for path in pages():
        here = "../" * (len(path.relative_to(HTML).parts) - 1)
        path.write_text(path.read_text().replace(f'href="{URLS["Documentation"]}', f'href="{here}'))


def foreign_requests() -> list[str]:
    """Return what a page would load from another machine."""
    pattern = re.compile(r'<(?:script|img|iframe|link)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')
    return [
        f"{path.relative_to(HTML)}: {match[0][:120]}"
        for path in pages()
        for match in pattern.finditer(path.read_text())
        if 'rel="canonical"' not in match[0]
    ]


def main() -> None:
    """Build the site, or say what is wrong with it."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    copy_pages()
    draw_example()
    write_reference()
    error_pages.write(SOURCE / "errors")
    write_settings()
    write_metrics()
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-j",
        "2",
        "-W",
        "--keep-going",
        str(SOURCE),
        str(HTML),
    ]
    built = subprocess.run(command, check=False)
    if "--without-course" not in sys.argv:
        browser_course.build(WORK / "course", HTML / "lite")
    problems = [
        *missing(HTML),
        *foreign_requests(),
        *broken_links(pages()),
    ]
    print("\n".join(problems) or f"{len(pages())} pages in {HTML.relative_to(ROOT)}")
    sys.exit(built.returncode or bool(problems))


if __name__ == "__main__":
    main()
