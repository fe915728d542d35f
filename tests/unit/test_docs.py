"""Statements of the pages beside README hold: names, recipes, permissions, the Compose file."""

from __future__ import annotations

import doctest
import json
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

from kstreamnb.cli import main
from tests import howto
from tests.cases import for_every
from tests.unit.java_names import PAGE, page
from tests.unit.public_names import public_names

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / ".site"))

import growth_charts  # noqa: E402 - the site's builder is not a package

RECIPES = ROOT / "RECIPES.md"


def test_every_name_of_java_stands_in_the_table() -> None:
    """S1-45: the page matches `completeness.json`, which is tested against Java's list and our classes."""
    assert page() == PAGE.read_text(), "python -m tests.unit.java_names > JAVA_NAMES.md"
    assert "| `groupByKey` | `group_by_key` |" in page()


def test_every_recipe_that_can_be_run_is_run() -> None:
    """S1-12, S2-28, S3-09: what a bare loop loses in a crash and the kit does not; a topology under a prefix."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.testfile(str(RECIPES), module_relative=False, optionflags=flags)
    assert tried > 10
    assert 0 == failed


GUIDE = sorted((ROOT / "notebooks" / "guide").rglob("*.md"))


@pytest.mark.parametrize("path", GUIDE, ids=lambda path: path.stem)
def test_every_example_of_the_guide_runs(path: Path) -> None:
    """Blocks that begin with ``>>>`` are run, and print the output that the page shows."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.testfile(str(path), module_relative=False, optionflags=flags)
    assert failed == 0


@pytest.mark.parametrize("path", sorted(howto.FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_every_how_to_is_run(path: Path) -> None:
    """Its blocks are doctests; what needs a broker or a cluster is run by the test that is named."""
    text = path.read_text()
    assert howto.blocks(path.stem, "python") or path.stem in howto.PROGRAMS or path.stem == "index"
    assert [] == [block for block in howto.blocks(path.stem, "python") if not block.startswith(">>> ")]
    if path.stem not in howto.PROGRAMS:
        assert [] == re.findall(r"(?m)^ *```(py|sh|yaml)$", text), "no test runs these blocks"
        return
    file, _, name = howto.PROGRAMS[path.stem].partition("::")
    body = (ROOT / file).read_text().partition(f"def {name}(")[2].partition("\ndef ")[0]
    assert f'"{path.stem}"' in body, f"{file} has no test {name} that runs the page"


def written_commands() -> list[tuple[str, list[str]]]:
    """Return every command of a block for a shell in the documents, with the name of the document."""
    documents = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", RECIPES, *(ROOT / "notebooks").rglob("*.md")]
    found = []
    for document in sorted(documents):
        for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```$", document.read_text()):
            found += [(document.name, command) for command in howto.commands(textwrap.dedent(block))]
    return found


@for_every(written_commands())
def test_every_command_of_a_page_exists_with_its_options(written: tuple[str, list[str]]) -> None:
    """The kit's command line parses its commands; targets and extras are looked up; others have separate tests."""
    document, [tool, *arguments] = written
    if tool == "kstreamnb":
        group = main.make_context("kstreamnb", list(arguments), resilient_parsing=True)
        name, found, rest = main.resolve_command(group, list(arguments))
        assert found is not None
        found.make_context(name, rest)  # raises UsageError for an unknown option, value or missing argument
    elif tool == "make":
        assert re.search(rf"(?m)^{arguments[0]}:.*##", (ROOT / "Makefile").read_text())
        assert [] == [each for each in arguments[1:] if f"$({each.partition('=')[0]})" not in RECIPE_TEXT]
    elif tool == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        named = [name for each in arguments for name in each.partition("[")[2].rstrip("]").split(",") if name]
        assert set(named) <= set(extras)
    elif [tool, *arguments[:2]] == [".venv/bin/python", "-m", "pytest"]:
        (file,) = (each for each in arguments if each.endswith(".py"))
        chosen = arguments[arguments.index("-k") + 1] if "-k" in arguments else ""
        assert re.search(rf"(?m)^def test_\w*{chosen}", (ROOT / file).read_text())
    else:
        assert (document, tool) in {*RUN_ELSEWHERE, *NOT_RUN, ("object-storage.md", "tar")}


RECIPE_TEXT = (ROOT / "Makefile").read_text().replace("$(if $(", "$(").replace("$(or $(", "$(")
RUN_ELSEWHERE = {("cluster.md", "spark-submit"), ("kubernetes.md", "spark-submit")}
RUN_ELSEWHERE |= {("README.md", "docker"), ("README.md", "kubectl")}
"""Run by ``tests/spark/test_profiles.py`` and ``tests/cluster/test_kubernetes.py``, or compared with the files of an
application by ``tests/applications/test_files.py``.
"""
NOT_RUN = {("cluster.md", name) for name in ("python", ".", "venv-pack")} | {("object-storage.md", "aws")}
"""Packing an environment of some 600 MB, and a client of a cloud."""


def test_a_stopped_checkpoint_is_packed_as_the_page_says(tmp_path: Path) -> None:
    """The archive that the page sends to an object store holds the checkpoint's folder."""
    ((packing, sending),) = [howto.commands(block) for block in howto.blocks("object-storage", "sh")]
    assert sending[:4] == ["aws", "s3", "cp", "-"]
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "metadata").write_text("{}")
    here = [word.replace("/data/checkpoints", str(tmp_path)) for word in packing]
    archive = subprocess.run(here, stdout=subprocess.PIPE, check=True).stdout
    listed = subprocess.run(["tar", "t"], input=archive, stdout=subprocess.PIPE, check=True).stdout
    assert listed.decode().split() == ["shop/", "shop/metadata"]


@pytest.mark.parametrize("document", [*GUIDE, RECIPES, ROOT / "README.md"], ids=lambda path: path.name)
def test_names_in_the_documents_exist(document: Path) -> None:
    """S3-29: every public name used in a document exists."""
    named = set(re.findall(r"\bks\.([A-Za-z_]+(?:\.[A-Za-z_]+)?)", document.read_text()))
    known = set(public_names())
    spaces = {name.partition(".")[0] for name in known if "." in name}
    unknown = {
        name
        for name in named - known - spaces
        if name.partition(".")[0] not in known or name.partition(".")[0] in spaces
    }
    assert unknown == set()
    assert document not in (RECIPES, ROOT / "README.md") or len(named) > 5


def test_tests_that_the_guide_names_exist() -> None:
    """The table of clusters that were tried names the tests that show it."""
    named = {name for page in GUIDE for name in re.findall(r"\btest_\w+(?=`)", page.read_text())}
    known = {
        name for path in ROOT.glob("tests/**/*.py") for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)
    }
    assert named <= known
    assert len(named) > 4


def test_a_page_says_what_takes_the_place_of_the_rest_of_kafka() -> None:
    """S3-29: producers and consumers, Connect, KSQL and messaging: which part covers each, or why none does."""
    page = ROOT / "notebooks" / "guide" / "differences.md"
    table = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page.read_text(), re.MULTILINE)
    rows = {what.strip(): here.strip() for what, here in table}
    for what in ("producers and consumers", "Connect", "ksqlDB", "Kafka as a message queue"):
        assert len(rows[what]) > 20
    assert "Spark SQL" in rows["ksqlDB"]
    assert "ks.kafka.connect_config" in rows["Connect"]


def test_every_pattern_has_a_program_and_a_row_in_the_table() -> None:
    """S1-31: mail by priority, standardized content, a news feed, deliveries, repricing, finance; how to choose."""
    page = (ROOT / "notebooks" / "guide" / "patterns.md").read_text()
    anchors = re.findall(r"\| \[[^\]]+\]\(#([a-z-]+)\) \|", page)
    sections = re.split(r"(?m)^## ", page)[1:]
    headings = {re.sub(r"[^a-z -]", "", each.partition("\n")[0].lower()).replace(" ", "-"): each for each in sections}
    assert len(anchors) == 10
    for anchor in anchors:
        assert ">>> outputs(" in headings[anchor], anchor
    applications = {
        "prioritize": ("E-mail", '"mail-first"'),
        "standardize-and-route": ("User content", ".strip().title()", "deliveries", '("freight", "bike", "van")'),
        "fan-out-a-news-feed": ("news feed", '"feeds"'),
        "latest-value": ("sold out", '"reprice"'),
        "windowed-total": ("Turnover", '"daily"'),
        "enrich": ("A trade is valued", '"values"'),
    }
    for anchor, words in applications.items():
        assert [] == [word for word in words if word.lower() not in headings[anchor].lower()]


def test_the_containers_keep_their_data_and_can_do_transactions() -> None:
    """S4-51: the file is valid; one broker without ZooKeeper, with a volume, and with settings for transactions on
    one.
    """
    yaml = pytest.importorskip("yaml")
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    broker = compose["services"]["kafka"]
    settings = broker["environment"]
    assert re.fullmatch(r"confluentinc/cp-kafka:\d+\.\d+\.\d+", broker["image"]), "a version, not whatever is latest"
    (volume,) = [each.partition(":")[0] for each in broker["volumes"]]
    assert volume in compose["volumes"]
    assert ["127.0.0.1:9092:9092"] == broker["ports"], "the broker has no sign-in: no other machine may reach it"
    assert "PLAINTEXT://localhost:9092" == settings["KAFKA_ADVERTISED_LISTENERS"]
    assert {"broker", "controller"} == set(settings["KAFKA_PROCESS_ROLES"].split(","))
    single = [name for name in settings if name.endswith(("REPLICATION_FACTOR", "MIN_ISR"))]
    assert [1, 1, 1] == [settings[name] for name in single]
    assert 22 == len(settings["CLUSTER_ID"])
    assert not [name for name in settings if "ZOOKEEPER" in name]
    assert "healthcheck" in broker


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-workflows", ".github/workflows/site.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/bug.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_files_that_others_read_are_valid(schema: str, file: str) -> None:
    """By the schemas of their readers: the workflow that publishes the site, the form for bugs, and the citation."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_citation_has_the_version_of_the_package() -> None:
    """As the release checklist asks; the changelog has a section for a released version."""
    yaml = pytest.importorskip("yaml")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())
    assert headings[0] in ("Unreleased", *(each for each in headings if each.startswith(project["version"])))


def test_the_site_is_published_from_where_it_is_built() -> None:
    """The workflow runs `make site`, and uploads the folder that the builder writes."""
    yaml = pytest.importorskip("yaml")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())
    steps = workflow["jobs"]["publish"]["steps"]
    assert {"run": "make site"} in steps
    (uploaded,) = [step["with"]["path"] for step in steps if "upload-pages-artifact" in step.get("uses", "")]
    assert f"SITE={uploaded} " in (ROOT / "Makefile").read_text()
    assert workflow["permissions"]["pages"] == "write"


def test_the_workflow_of_a_project_installs_what_its_tests_need() -> None:
    """The extra exists, and the page names the same packages at its beginning."""
    yaml = pytest.importorskip("yaml")
    (block,) = howto.blocks("test-with-pytest", "yaml")
    install, test = (step["run"] for step in yaml.safe_load(block)["jobs"]["test"]["steps"] if "run" in step)
    assert "python -m pytest" == test
    assert f"`{install}`" in (howto.FOLDER / "test-with-pytest.md").read_text()
    (extra,) = re.findall(r"kstreamnb\[(\w+)\]", install)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in project["optional-dependencies"]
    assert {"python-version": "3.12"} in [step.get("with") for step in yaml.safe_load(block)["jobs"]["test"]["steps"]]


CURVES = sorted(growth_charts.FIGURES.glob("*.json"))


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.stem)
def test_the_charts_of_performance_show_the_measured_curves(path: Path) -> None:
    """Charts are drawn again after a measurement; each is on the page, with its curves in words."""
    charts = json.loads(path.read_text())
    picture = path.with_suffix(".svg").read_text()
    assert picture == growth_charts.drawn(charts), "python .site/growth_charts.py"
    assert f"](figures/{path.stem}.svg)" in (ROOT / "notebooks" / "guide" / "performance.md").read_text()
    points = [point for chart in charts for each in chart["series"] for point in each["points"]]
    assert len(points) == picture.count("<path") - sum(len(chart["series"]) for chart in charts)
    assert all(each["name"] in picture.partition("<desc>")[2] for chart in charts for each in chart["series"])


def test_there_are_measured_curves() -> None:
    assert CURVES
