"""The folder that Spark's JVM starts from, which outlives the session."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pyspark
import pytest

from kstreamnb.spark.jvm.home import HOME, JAR, jvm_folder


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kstreamnb"


def test_all_sessions_start_from_the_same_folder(cache: Path, tmp_path: Path) -> None:
    """Java uses an archive of classes only if the jars have the paths and times that it was written with."""
    folder = jvm_folder(tmp_path)
    written = (folder / JAR).stat().st_mtime_ns
    assert (cache, folder) == (folder.parent, jvm_folder(tmp_path))
    assert written == (folder / JAR).stat().st_mtime_ns
    assert [folder] == list(cache.iterdir())


def test_the_folder_has_a_home_without_python_and_the_classes_of_the_kit(cache: Path, tmp_path: Path) -> None:
    """Python workers import the installed pyspark, not the zip file of Spark's home."""
    folder = jvm_folder(tmp_path)
    assert (folder / HOME / "jars").resolve() == (Path(pyspark.__file__).parent / "jars").resolve()
    assert not (folder / HOME / "python").exists()
    with zipfile.ZipFile(folder / JAR) as jar:
        assert {"kstreamnb/BatchClasses.class", "kstreamnb/UmaskFileSystem.class"} <= set(jar.namelist())


def test_a_session_whose_user_has_no_cache_starts_from_its_own_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The cache would be in a folder, but that is a file. Spark's own folders beside that of the session stay."""
    (tmp_path / "cache").write_text("")
    of_spark = tmp_path / "spark-7b462e15" / "userFiles-8386c1e6"
    of_spark.mkdir(parents=True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    session = tmp_path / "session"
    session.mkdir()
    assert session == jvm_folder(session)
    assert {HOME, JAR} == {path.name for path in session.iterdir()}
    assert of_spark.is_dir()


def test_folders_of_a_pyspark_that_is_gone_are_removed(cache: Path, tmp_path: Path) -> None:
    """Those of one that is installed stay: sessions may run from them."""
    gone, installed = cache / "spark-gone", cache / "spark-installed"
    for folder in (gone, installed):
        (folder / HOME).mkdir(parents=True)
    (gone / HOME / "jars").symlink_to(tmp_path / "nowhere")
    (installed / HOME / "jars").symlink_to(Path(pyspark.__file__).parent / "jars")
    folder = jvm_folder(tmp_path)
    assert {folder, installed} == set(cache.iterdir())


def test_a_pyspark_in_a_zip_file_has_no_home_of_links(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Programs that spark-submit starts, and their child processes, import pyspark from such a file."""
    archive = tmp_path / "pyspark.zip"
    zipfile.ZipFile(archive, "w").close()
    monkeypatch.setattr(pyspark, "__file__", str(archive / "pyspark" / "__init__.py"))
    folder = jvm_folder(tmp_path)
    assert [folder] == list(cache.iterdir())
    assert (folder / JAR).exists()
    assert [] == list((folder / HOME).iterdir())
