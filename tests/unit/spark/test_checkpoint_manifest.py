"""Errors about unusable checkpoints, before anything of Spark or Kafka is changed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import pytest

import kstreamnb as ks
from kstreamnb.errors import CheckpointError, ConfigError, StorageError
from kstreamnb.kafka.storage.checkpoint_files import MANIFEST, FileClaim, LocalFiles, local_folder, to_files
from kstreamnb.kafka.storage.checkpoint_lock import SharedLock, in_use
from kstreamnb.kafka.storage.temp_dirs import temp_dir
from kstreamnb.runtime.context.config import Config
from kstreamnb.spark.execution.failures import is_damage, spark_failure
from kstreamnb.spark.planning.placement import plan_application, plan_deployment
from kstreamnb.spark.state.checkpoint_manifest import (
    Manifest,
    check_compatible,
    manifest_of,
    read_manifest,
    require_manifest,
    starts_empty,
    write_manifest,
)
from kstreamnb.spark.state.checkpoint_reader import settle
from kstreamnb.spark.state.checkpoint_recovery import entries_again

PAGE = Manifest("a query", "shop", 2, [], {}, {})
TWO = """[STREAM_FAILED] Query [id = 1] terminated with exception: [CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to
the log. Multiple streaming jobs detected for 7. SQLSTATE: 40000"""


@pytest.mark.parametrize("address", ["s3a://bucket/shop", "hdfs:/shop", "dbfs:/shop", "abfss://c@a.net/shop"])
def test_an_address_is_not_taken_for_a_folder(address: str) -> None:
    """It would create a local folder named "s3a:"; without a session its files cannot be reached."""
    assert local_folder(address) is None
    with pytest.raises(CheckpointError, match=f'checkpoint "{address}" is not a folder of this machine') as caught:
        to_files(address)
    assert f'ks.spark.checkpoint_files("{address}")' in (caught.value.hint or "")


@pytest.mark.parametrize(
    "address", ["file:/data/shop", "file:///data/shop", "file://localhost/data/shop", "/data/shop"]
)
def test_every_form_of_a_local_address_is_the_same_folder(address: str) -> None:
    """As Hadoop interprets them; Spark gets one form of them all."""
    assert Path("/data/shop") == local_folder(address)
    assert "file:/data/shop" == to_files(address).address


@pytest.mark.parametrize("address", ["file:shop", "file://server/shop", "file:", "", 3])
def test_local_addresses_that_are_not_absolute_are_refused(address: object) -> None:
    """Hadoop would refuse them later, with other messages."""
    with pytest.raises(ConfigError, match="checkpoint"):
        local_folder(address)


def test_a_path_with_a_colon_is_a_folder_and_a_path_object_is_never_an_address(tmp_path: Path) -> None:
    """A single letter before the colon is a drive, and a folder may contain a colon further on."""
    here = Path.cwd()
    assert here / "C:/data" == local_folder("C:/data")
    assert here / "a:b" == local_folder(Path("./a:b"))
    assert here / "here/a:b" == local_folder("here/a:b")


def test_a_temporary_folder_without_room_is_refused_before_spark_waits_for_its_files() -> None:
    """Pyspark would wait forever for the file of a JVM that cannot write it; nothing is left there."""
    resource = pytest.importorskip("resource", reason="limits of a process are those of POSIX")
    before, limits = set(Path(gettempdir()).glob("*")), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"temporary folder .* cannot be written") as caught:
            temp_dir("spark")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "the system says: File too large" == caught.value.detail
    assert [] == [each for each in {*Path(gettempdir()).glob("kstreamnb-spark-*")} - before if not in_use(each)]


def test_a_checkpoint_that_cannot_be_written_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    """Whatever the reason: permissions, space, or a file of that name."""
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "shop"):
        with pytest.raises(StorageError, match=f'checkpoint "{folder}" cannot be written') as caught:
            write_manifest(LocalFiles(folder), PAGE)
        assert (caught.value.detail or "").startswith("the system says: ")
        assert "choose a folder: a file has this name" == caught.value.hint
        with pytest.raises(StorageError, match=f'folder "{folder}" cannot be written'):
            SharedLock(folder)
        with pytest.raises(StorageError, match=f'checkpoint "{folder}" cannot be written'):
            FileClaim(LocalFiles(folder))


def test_a_disk_that_takes_no_more_is_said_in_the_systems_words() -> None:
    """Spark names an internal file, which users cannot act on; freeing space helps."""
    text = "An error occurred.\nCaused by: java.io.IOException: No space left on device\n\tat org.a.B(C)\n"
    error = spark_failure('the query of "shop"', RuntimeError(text))
    assert 'the query of "shop" failed: its files cannot be written' == error.message
    assert "the system says: No space left on device" == error.detail
    assert "free disk space" in (error.hint or "")


def test_a_damaged_page_is_named_with_the_way_out(tmp_path: Path) -> None:
    """It is not mistaken for an empty folder, nor for another program's."""
    write_manifest(LocalFiles(tmp_path), PAGE)
    assert PAGE == read_manifest(LocalFiles(tmp_path))
    (tmp_path / MANIFEST).write_text((tmp_path / MANIFEST).read_text()[:-9])
    with pytest.raises(CheckpointError, match=f'file "{MANIFEST}" of checkpoint ".*" is damaged') as caught:
        read_manifest(LocalFiles(tmp_path))
    assert "restore the checkpoint from a copy, or reset the application" == caught.value.hint


def test_two_queries_on_one_checkpoint_are_said_in_words_that_help() -> None:
    """S0-50: the overtaken one says so, and what to do."""
    error = spark_failure('the query of "shop"', RuntimeError(TWO))
    assert 'the query of "shop" failed: another deployment uses the same checkpoint' == error.message
    assert "deploy this one again" in (error.hint or "")


def test_a_machine_that_is_too_busy_is_no_wall_of_text() -> None:
    """Spark gives its own processes 10 s; the named cause says less than its first line."""
    text = (
        "An error occurred.\norg.apache.spark.SparkException: Python worker failed to connect back.\n\tat org.a.B(C)\n"
    )
    error = spark_failure('starting "shop"', RuntimeError(f"{text}Caused by: java.net.SocketTimeoutException: Timeout"))
    assert 'starting "shop" failed: Python worker failed to connect back' == error.message
    assert "too busy" in (error.detail or "")


def note(folder: Path, number: int, place: Path) -> Path:
    """Spark's metadata of a stateful operator after a batch, with its checksum file."""
    path = folder / "state" / "0" / "_metadata" / "v2" / str(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    stores = [{"storeName": "default", "stateSchemaFilePaths": [f"file:{place}/state/0/_stateSchema/default/0_a"]}]
    path.write_text(f"v2\n{json.dumps({'operatorInfo': {'operatorId': 0}, 'stateStoreInfo': stores})}")
    path.with_name(f".{number}.crc").write_text("checksum")
    return path


def test_a_module_that_workers_cannot_import_is_named_with_the_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of a module beside the notebook are sent by name; Spark prints many lines before the relevant one.

    A session of the user's runs the first Python of the PATH, which may be another one than that of the program.
    """
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3")
    text = "[PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR] Failed when Python streaming data source perform "
    text += "planPartitions: Traceback (most recent call last):\nModuleNotFoundError: No module named 'prices.rules'\n"
    error = spark_failure('the query of "shop"', RuntimeError(text))
    assert error.message == 'the query of "shop" failed: Spark\'s workers cannot import module "prices.rules"'
    assert "ks.spark.ship(spark, 'prices')" in str(error.hint)
    of_kit = spark_failure('the query of "shop"', RuntimeError("ModuleNotFoundError: No module named 'kstreamnb'"))
    assert str(of_kit.detail).startswith("they run /usr/bin/python3: ")
    assert (of_kit.hint or "").startswith(f"set PYSPARK_PYTHON={sys.executable} before the session starts; ")


def test_notes_of_a_checkpoint_that_was_moved_say_where_its_files_are(tmp_path: Path) -> None:
    """All of them, because a repair may go back to older ones; their checksums would no longer match."""
    notes = [note(tmp_path / "here", number, tmp_path / "before") for number in (0, 2, 11)]
    settle(LocalFiles(tmp_path / "here"))
    for each in notes:
        version, text = each.read_text().split("\n")
        (store,) = json.loads(text)["stateStoreInfo"]
        assert "v2" == version
        assert [f"file:{tmp_path}/here/state/0/_stateSchema/default/0_a"] == store["stateSchemaFilePaths"]
        assert not each.with_name(f".{each.name}.crc").exists()


def test_notes_of_a_checkpoint_that_is_where_it_was_are_not_touched(tmp_path: Path) -> None:
    """Nor those after a damaged one: Spark detects damage by the checksum, and a repair follows."""
    notes = [note(tmp_path, 0, Path("/elsewhere")), note(tmp_path, 1, tmp_path)]
    before = [each.read_text() for each in notes]
    settle(LocalFiles(tmp_path))
    assert before == [each.read_text() for each in notes]
    notes[1].write_text("v2\n{")
    settle(LocalFiles(tmp_path))
    assert before[0] == notes[0].read_text()
    assert all(each.with_name(f".{each.name}.crc").exists() for each in notes)


def test_what_a_later_version_added_to_a_manifest_is_ignored(tmp_path: Path) -> None:
    """It raises the format; if that is impossible, the error names the versions and the remedy."""
    write_manifest(LocalFiles(tmp_path), PAGE)
    content = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**content, "colour": "blue"}))
    assert PAGE == read_manifest(LocalFiles(tmp_path))
    (tmp_path / MANIFEST).write_text(json.dumps({**content, "format": 7}))
    with pytest.raises(CheckpointError, match="has format 7, but this version reads formats 3 to 6") as caught:
        read_manifest(LocalFiles(tmp_path))
    assert "with the version of kstreamnb that wrote it" in (caught.value.hint or "")


@pytest.mark.parametrize("version", [3, 4, 5])
def test_the_manifest_of_an_earlier_format_is_read_and_written_in_the_newest(tmp_path: Path, version: int) -> None:
    """An earlier version of kstreamnb then refuses the checkpoint: it would keep rows that have expired."""
    write_manifest(LocalFiles(tmp_path), PAGE)
    content = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**content, "format": version}))
    manifest = require_manifest(LocalFiles(tmp_path))
    assert PAGE == manifest
    write_manifest(LocalFiles(tmp_path), manifest)
    assert content == json.loads((tmp_path / MANIFEST).read_text())


@pytest.mark.parametrize("text", ["[]", "null", "3", '{"format": 3}', "{}"])
def test_a_manifest_of_another_shape_is_damaged(tmp_path: Path, text: str) -> None:
    """No Python exception is shown."""
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match="is damaged"):
        read_manifest(LocalFiles(tmp_path))


def test_a_plan_of_a_repair_that_is_damaged_is_named(tmp_path: Path) -> None:
    """It says which batches run again, which is otherwise unknown."""
    (tmp_path / "again.json").write_text('{"3": ')
    with pytest.raises(CheckpointError, match=r'file "again\.json" of checkpoint ".*" is damaged'):
        entries_again(LocalFiles(tmp_path))


def test_remains_of_a_checkpoint_that_was_removed_are_not_another_programs(tmp_path: Path) -> None:
    """Spark writes the files of its next batch into the deleted folder."""
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"clock": 1, "tick": 0, "offsets": {"in": {"0": 5}}}')
    (offsets / ".7.crc").write_bytes(b"crc")
    with pytest.raises(CheckpointError, match=r"is incomplete: it has no kstreamnb\.json") as caught:
        read_manifest(LocalFiles(tmp_path))
    assert "reset the application" in (caught.value.hint or "")
    (offsets / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"in": {"0": 5}}')
    with pytest.raises(CheckpointError, match="is a checkpoint of another program"):
        read_manifest(LocalFiles(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE",
        "CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE",
        "MALFORMED_LOG_FILE",
    ],
)
def test_a_lost_state_file_is_damage(name: str) -> None:
    """The state is rebuilt from the batches before it; if that is impossible, the remedy is named."""
    error = RuntimeError(f"[{name}] An error occurred during loading state. SQLSTATE: 58030\n\tat org.a.B(C)")
    assert is_damage(error)
    found = spark_failure('the query of "shop"', error)
    assert isinstance(found, CheckpointError)
    assert "restore the checkpoint from a copy, or reset the application" == found.hint
    assert not is_damage(RuntimeError("[CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY] no memory"))


def _count(*, renamed: bool = False, counts: bool = True) -> Manifest:
    builder = ks.StreamsBuilder("shop")
    if renamed:
        builder.stream("other").peek(print)
    stream = builder.stream("in")
    if counts:
        stream.group_by_key().count()
    application = plan_application(builder.build(), Config(), {"in": 1, "other": 1}, direct=True)
    return manifest_of(plan_deployment("q", [application], 1))


def test_a_generated_name_that_has_shifted_is_explained() -> None:
    """A node declared before it takes its number: the store is gone and new at once."""
    with pytest.raises(CheckpointError) as caught:
        check_compatible(_count(), _count(renamed=True))
    assert "a node before it shifted its number; name the operator" in (caught.value.hint or "")


def test_a_sub_topology_that_gained_state_is_named() -> None:
    """Levels alone do not tell which one it is."""
    with pytest.raises(CheckpointError) as caught:
        check_compatible(_count(counts=False), _count())
    assert "sub-topology 0 gained state" in (caught.value.detail or "")
    assert "shifted" not in (caught.value.hint or "")


def _shop(*parts: str, partitions: int = 1) -> Manifest:
    builder = ks.StreamsBuilder("shop")
    orders = builder.stream("orders")
    if "counts" in parts:
        orders.group_by_key().count(store="counts")
    if "final" in parts:
        windows = orders.group_by_key().windowed_by(ks.TimeWindows.of("1h")).count(store="hours")
        final = windows.suppress(ks.Suppressed.until_window_closes().with_name("final")) if "held" in parts else windows
        final.to_stream(lambda window, count: window.key).to("final")
    if "sums" in parts:
        orders.group_by_key().reduce(lambda one, other: one + other, store="sums")
    if "returns" in parts:
        builder.stream("returns").group_by_key().count(store="returned")
    if "cities" in parts:
        orders.group_by(lambda key, order: order["city"]).count(store="cities")
    orders.to("out")
    application = plan_application(builder.build(), Config(), {"orders": partitions, "returns": 1}, direct=True)
    return manifest_of(plan_deployment("q", [application], 1))


@pytest.mark.parametrize(
    ("old", "new", "empty"),
    [
        (["counts"], ["counts", "sums"], ['store "sums"']),
        (["counts"], ["counts", "returns"], ['store "returned"']),
        (["counts", "cities"], ["counts", "sums", "cities"], ['store "sums"']),
    ],
    ids=str,
)
def test_what_is_added_starts_empty_and_keeps_the_rest(old: list[str], new: list[str], empty: list[str]) -> None:
    """A store, and a sub-topology with one."""
    check_compatible(_shop(*old), _shop(*new))
    assert empty == starts_empty(_shop(*old), _shop(*new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ([], ["counts"], "Spark adds no state to a level later; sub-topology 0 gained state"),
        (["counts"], ["counts", "cities"], "Spark adds no state to a level later; sub-topology 1 is new"),
        (["counts", "sums"], ["counts"], 'store "sums" of sub-topology 0 is gone'),
        (["counts", "returns"], ["counts"], "sub-topology 1 kept state and is gone"),
        (["final", "held"], ["final"], 'buffer "final-store" of sub-topology 0 is gone: records that wait in its'),
    ],
    ids=str,
)
def test_what_is_removed_or_adds_the_first_state_of_a_level_is_refused(
    old: list[str], new: list[str], reason: str
) -> None:
    """With the reason."""
    with pytest.raises(CheckpointError) as caught:
        check_compatible(_shop(*old), _shop(*new))
    assert reason in (caught.value.detail or "")


def test_another_window_is_named_as_a_duration() -> None:
    """Not in milliseconds."""

    def counted(size: str) -> Manifest:
        builder = ks.StreamsBuilder("shop")
        builder.stream("orders").group_by_key().windowed_by(ks.TimeWindows.of(size=size)).count(store="counts")
        application = plan_application(builder.build(), Config(), {"orders": 1}, direct=True)
        return manifest_of(plan_deployment("q", [application], 1))

    with pytest.raises(CheckpointError) as caught:
        check_compatible(counted("5m"), counted("10m"))
    assert 'store "counts" of sub-topology 0 changed: window 5m → 10m' == caught.value.detail


def test_more_partitions_are_refused_only_with_state() -> None:
    """Records would not reach the state of their keys."""
    check_compatible(_shop(), _shop(partitions=2))
    with pytest.raises(CheckpointError) as caught:
        check_compatible(_shop("counts"), _shop("counts", partitions=2))
    assert 'topic "orders" had 1 partition and has 2 now: records would not reach the state of their keys' in (
        caught.value.detail or ""
    )


def _recounted(tmp_path: Path, partitions: int, *, again: bool = True) -> Manifest:
    """The manifest of a count by hour, and of one by key and hour behind a topic, as a checkpoint has it."""
    hour = ks.Serdes.time_windowed("string", "1h")
    builder = ks.StreamsBuilder("shop")
    hours = builder.stream("orders").group_by_key().windowed_by(ks.TimeWindows.of("1h")).count(store="hours")
    if again:
        grouped = hours.to_stream().group_by(lambda window, count: window, key_serde=hour, name="again")
        grouped.count(store="changes")
    application = plan_application(builder.build(), Config(), {"orders": partitions}, direct=True)
    write_manifest(LocalFiles(tmp_path), manifest_of(plan_deployment("q", [application], 1)))
    return require_manifest(LocalFiles(tmp_path))


def test_state_is_refused_if_its_windowed_keys_now_come_to_other_tasks(tmp_path: Path) -> None:
    """Earlier versions left the window out, and counted on in other tasks; they cannot read what this one writes."""
    new = _recounted(tmp_path, 2)
    check_compatible(new, new)
    with pytest.raises(CheckpointError) as caught:
        check_compatible(replace(new, windowed=[]), new)
    assert (caught.value.detail or "").startswith('topic "again-repartition": an earlier version of kstreamnb chose')
    assert "continue with the version of kstreamnb that wrote it" in (caught.value.hint or "")


def test_windowed_keys_are_not_refused_if_all_come_to_one_task_or_none_have_come_yet(tmp_path: Path) -> None:
    """No row is in another task then."""
    alone = _recounted(tmp_path, 1)
    assert [] == alone.windowed
    before, now = _recounted(tmp_path, 2, again=False), _recounted(tmp_path, 2)
    with pytest.raises(CheckpointError, match="does not fit") as caught:
        check_compatible(before, now)
    assert "window" not in (caught.value.detail or "")
