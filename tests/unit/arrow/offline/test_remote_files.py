"""Stores on remote file systems: the rows of the local files, what the file system is asked, what is refused."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from rocketmq_py import arrow
from rocketmq_py.arrow.offline import remote_files
from rocketmq_py.arrow.offline.directories import open_directory
from rocketmq_py.arrow.offline.remote_files import RemoteFileSystem, remote_store
from rocketmq_py.arrow.options.stores import StoreDirectory
from rocketmq_py.arrow.ranges import DataLossError
from rocketmq_py.errors import ConfigError, StoreError
from tests.unit.store.helpers import NOW, Stores, fill

PLACE = ("topic", "queueId", "queueOffset")


class Handler(fs.FileSystemHandler):  # type: ignore[misc]
    """Local files below a directory, as a file system of Python; notes what is asked, and fails as it is told."""

    def __init__(self, base: Path) -> None:
        self._files = fs.SubTreeFileSystem(str(base), fs.LocalFileSystem())
        self.asked: list[str] = []
        self.error: OSError | None = None
        self.more: list[Any] = []

    def _note(self, what: str, path: str) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append(f"{what} {path}")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None

    def get_type_name(self) -> str:
        return "noting"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> Any:
        for path in paths:
            self._note("info", path)
        return self._files.get_file_info(paths)

    def get_file_info_selector(self, selector: Any) -> Any:
        self._note("list", selector.base_dir)
        return [*self._files.get_file_info(selector), *self.more]

    def open_input_file(self, path: str) -> Any:
        self._note("open", path)
        return self._files.open_input_file(path)

    def _refuse(self, *_: object, **__: object) -> Any:
        raise AssertionError("a store is only read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refuse
    open_input_stream = open_output_stream = open_append_stream = _refuse


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    """60 messages of T in two queues, in several files of the log; 11 of U among them."""
    (tmp_path / "bucket").mkdir()
    opened = Stores(tmp_path / "bucket" / "store", None)
    store = opened.open()
    for i in range(60):
        opened.clock.now = NOW + 1000 * i
        fill(store, 1, start=i, queue_id=i % 2, size=100 + i)
        if i % 5 == 0:
            fill(store, 1, start=i, topic="U", queue_id=3)
    store.close()
    yield opened.root
    opened.close()


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """The file system of URIs that begin with ``away://``."""
    handler = Handler(tmp_path)
    known = fs.FileSystem.from_uri

    class Files:
        @staticmethod
        def from_uri(uri: str) -> tuple[Any, str]:
            scheme, _, path = uri.partition("?")[0].partition("://")
            return (fs.PyFileSystem(handler), path) if scheme == "away" else known(uri)

    monkeypatch.setattr(remote_files.arrow_fs, "FileSystem", Files)
    return handler


def rows(topic: str | list[str], store: Any, **more: Any) -> Any:
    found = arrow.read(topic, store=store, **more).read_all()
    return found.sort_by([(name, "ascending") for name in PLACE])


def test_the_rows_are_those_of_the_local_files(store: Path, remote: Handler) -> None:
    uri = "away://bucket/store"
    assert rows(["T", "U"], uri).equals(rows(["T", "U"], store))
    assert all(asked.partition(" ")[2].startswith("bucket/store") for asked in remote.asked)
    assert max(Counter(remote.asked).values()) == 2, "once by the plan, once by the fetch"
    for options in ({"tags": "odd"}, {"sql": "TAGS = 'even'"}, {"start": "-1 hour"}):
        assert rows("T", uri, **options).equals(rows("T", store, **options)), options
    middle = rows("T", store).column("storeTimestamp").to_pylist()[31]
    assert 0 < rows("T", uri, start=middle).num_rows < 60
    assert rows("T", {"a": f"{uri}/"}).column("brokerName").unique().to_pylist() == ["a"]


def test_a_log_without_queues_is_scanned(store: Path, remote: Handler) -> None:
    expected = rows(["T", "U"], store)
    shutil.rmtree(store / "consumequeue" / "T")
    assert rows(["T", "U"], "away://bucket/store").equals(expected)


def test_a_store_that_a_crash_left_is_a_copy_and_not_in_use(store: Path, remote: Handler) -> None:
    expected = rows("T", store)
    (store / "abort").touch()
    assert not open_directory(StoreDirectory("a", "away://bucket/store")).is_held
    assert rows("T", "away://bucket/store").equals(expected)


def test_a_commit_log_can_be_elsewhere_on_the_same_file_system(store: Path, remote: Handler) -> None:
    expected = rows("T", store)
    (store / "commitlog").rename(store.parent / "log")
    assert rows("T", "away://bucket/store", commit_log="away://bucket/log/").equals(expected)
    with pytest.raises(
        ConfigError, match=r"storePath: away://bucket/store is no store: .* in away://bucket/store/comm"
    ):
        rows("T", "away://bucket/store")
    with pytest.raises(ConfigError, match="s3://bucket/log is not on the file system of away://bucket/store"):
        rows("T", "away://bucket/store", commit_log="s3://bucket/log?region=eu-central-1")


def test_large_files_are_read_in_few_requests(tmp_path: Path, remote: Handler) -> None:
    file = tmp_path / "large"
    file.write_bytes(bytes(range(256)) * (1 << 16))
    files, root, _ = remote_store(StoreDirectory("a", f"away://{tmp_path.name}"))
    files.places[root] = ""
    opened = files.open(root / "large", 1 << 24)
    assert b"".join(opened.read(at, 1 << 20) for at in range(0, 1 << 24, 1 << 20)) == file.read_bytes()
    assert opened.buffer[5:300] == file.read_bytes()[5:300]
    assert opened.buffer[(1 << 24) - 3 : 1 << 30] == b"\xfd\xfe\xff"
    assert opened.buffer[300:5] == b""
    opened.close()
    files.close()


def test_nothing_stays_of_what_was_read_and_closed(store: Path, remote: Handler) -> None:
    files, root, _ = remote_store(StoreDirectory("a", "away://bucket/store"))
    file = files.open(root / "checkpoint", 4096)
    assert file.read(0, 4096) == (store / "checkpoint").read_bytes()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file._fetch(0, 1)
    assert "checkpoint" in files.names(root)
    files.close()
    (store / "checkpoint").write_bytes(bytes(4096))
    (store / "new").touch()
    assert files.read(root / "checkpoint") == bytes(4096)
    assert "new" in files.names(root)
    assert remote.asked.count("list bucket/store") == 2
    assert {asked.partition(" ")[2] for asked in remote.asked} == {"bucket/store", "bucket/store/checkpoint"}
    files.close()


def test_nothing_is_fetched_ahead_of_a_closed_file(tmp_path: Path, remote: Handler) -> None:
    (tmp_path / "large").write_bytes(bytes(1 << 24))
    files, root, _ = remote_store(StoreDirectory("a", f"away://{tmp_path.name}"))
    files.places[root] = ""
    opened = files.open(root / "large", 1 << 24)
    opened.read(0, 1 << 22)
    assert files.blocks._ahead is not None
    opened.close()
    assert files.blocks._ahead is None
    files.close()


def test_directories_are_told_from_files_with_and_without_a_listing(store: Path, remote: Handler) -> None:
    files, root, _ = remote_store(StoreDirectory("a", "away://bucket/store"))
    assert files.is_directory(root / "commitlog")
    assert not files.is_directory(root / "nothing")
    files.names(root)
    assert files.is_directory(root / "commitlog")
    assert not files.is_directory(root / "nothing")
    assert not files.is_directory(root / "checkpoint")
    assert files.size(root / "commitlog") is None
    files.close()


def test_files_of_unknown_size_are_empty(store: Path, remote: Handler) -> None:
    remote.more = [
        fs.FileInfo(f"bucket/store/{name}", fs.FileType.File, size=size) for name, size in (("x", None), ("y", -1))
    ]
    files, root, _ = remote_store(StoreDirectory("a", "away://bucket/store"))
    assert [files.size(root / name) for name in "xy"] == [0, 0]
    files.close()


def test_missing_and_forbidden_stores_are_named(store: Path, remote: Handler) -> None:
    with pytest.raises(
        ConfigError, match=r"away://bucket/none is no store: there are no files in away://bucket/none/c"
    ):
        rows("T", "away://bucket/none?secret=s")
    remote.error = PermissionError("AWS Error ACCESS_DENIED during ListObjectsV2\nmore")
    with pytest.raises(ConfigError, match=r"away://bucket/store/commitlog cannot be read: access is denied; .*V2\)$"):
        rows("T", "away://bucket/store?secret=s")
    for error in (PermissionError("no"), OSError("AWS Error ACCESS_DENIED during HeadObject")):
        remote.error = error
        with pytest.raises(ConfigError, match=r"cannot be read: access is denied; .*environment"):
            rows("T", "away://bucket/store")
    remote.error = OSError("no connection")
    with pytest.raises(ConfigError, match=r"away://bucket/store/commitlog cannot be read: no connection$"):
        rows("T", "away://bucket/store")


def test_a_file_of_the_log_that_is_removed_meanwhile_is_a_loss(store: Path, remote: Handler) -> None:
    found = arrow.read("T", store="away://bucket/store")
    min((store / "commitlog").iterdir()).unlink()
    with pytest.raises(DataLossError):
        found.read_all()


@pytest.mark.parametrize("name", ["..", ".", "a\x01b", "C:x", "", "a\\b", "x" * 300])
def test_a_hostile_listing_is_refused(store: Path, remote: Handler, name: str) -> None:
    remote.more = [fs.FileInfo(f"bucket/store/commitlog/{name}", fs.FileType.File, size=4096)]
    with pytest.raises(ConfigError, match=r"away://bucket/store/commitlog lists '.*': it"):
        rows("T", "away://bucket/store")


def test_odd_sizes_are_those_of_no_log_file(store: Path, remote: Handler) -> None:
    expected = rows("T", store)
    remote.more = [
        fs.FileInfo("bucket/store/commitlog/00000000000000999999", fs.FileType.File, size=size) for size in (1 << 62,)
    ]
    remote.more.append(fs.FileInfo("bucket/store/commitlog/notes.txt", fs.FileType.File, size=3))
    with open_directory(StoreDirectory("a", "away://bucket/store")) as directory:
        assert {odd.path.name for odd in directory.odd} == {"00000000000000999999", "notes.txt"}
    assert rows("T", "away://bucket/store").drop_columns("brokerName").equals(expected.drop_columns("brokerName"))


def test_nothing_is_changed_and_large_small_files_are_refused(
    store: Path, remote: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root, _ = remote_store(StoreDirectory("a", "away://bucket/store"))
    file = files.open(root / "checkpoint", 4096)
    for change in (
        lambda: file.write(0, b"x"), lambda: file.allocate(0, 1), lambda: file.erase(0), file.sync,
        lambda: files.write(root / "x", b""), lambda: files.remove(root / "x"), lambda: files.remove_tree(root),
        lambda: files.sync([root]), lambda: files.remove_empty(root), lambda: files.lock(root / "lock"),
        lambda: files.used_ratio(root), lambda: files.disk_usage(root), lambda: files.modified_ms(root),
        lambda: list(files.inner_folders(root, 4)), lambda: file.buffer.__setitem__(slice(0, 1), b"x"),
    ):  # fmt: skip
        with pytest.raises(OSError, match=r"away:/|read-only"):
            change()
    assert not files.tells_residency
    assert file.read_if_resident(0, 1) is None
    assert not file.is_resident(0, 1)
    file.close()
    assert files.read(root / "nothing") is None
    assert files.read(root / "checkpoint") == (store / "checkpoint").read_bytes()
    monkeypatch.setattr(remote_files, "_MOST_WHOLE", 4095)
    with pytest.raises(StoreError, match=r"away://bucket/store/checkpoint has 4096 bytes"):
        files.read(root / "checkpoint")
    with pytest.raises(StoreError, match="is not in the store"):
        RemoteFileSystem(files.arrow, {root: ""}).key(Path("/etc/passwd"))


def test_uris_without_a_file_system_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"nosuch://bucket/store cannot be opened: .*nosuch") as told:
        rows("T", "nosuch://bucket/store?key=hidden")
    assert "hidden" not in str(told.value)
    assert "HDFS" not in str(told.value)


def test_a_missing_client_of_hdfs_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path))
    with pytest.raises(
        ConfigError, match=r"hdfs://n:1/store cannot be opened: .*HDFS needs JAVA_HOME, Hadoop's libhdfs"
    ):
        rows("T", "hdfs://n:1/store")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
def test_schemes_of_hadoop_for_s3_are_understood(scheme: str) -> None:
    files, root, _ = remote_store(StoreDirectory("a", f"{scheme}://bucket/store/?region=eu-central-1"))
    assert files.arrow.type_name == "s3"
    assert files.key(root / "commitlog" / "0") == "bucket/store/commitlog/0"
