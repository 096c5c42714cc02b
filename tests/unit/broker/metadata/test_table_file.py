"""Files of tables on a disk that fails for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.broker.metadata import table_file
from rocketmq_py.broker.metadata.table_file import SavedTable, TableFile, check_written
from rocketmq_py.errors import BrokerError


class Journal:
    """Notes what is written; ``failure`` is raised instead."""

    path = Path("/store/config/topics.json")

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.failure: OSError | None = None
        self.takes = 0.0
        self.now = [100.0]

    def _write(self, *what: Any) -> None:
        self.now[0] += self.takes
        if self.failure is not None:
            raise self.failure
        self.written.append(what)

    def load(self) -> Any:
        return {"loaded": 1}

    def save(self, tree: Any) -> None:
        self._write("save", tree())

    def catch_up(self, tree: Any) -> None:
        self._write("catch up", tree())

    def change(self, version: Any, step: Any, tree: Any) -> None:
        self._write("change", version, step, tree())


@pytest.fixture
def journal() -> Journal:
    return Journal()


@pytest.fixture
def file(journal: Journal) -> TableFile:
    return TableFile(journal, lambda: {"all": 1}, lambda: journal.now[0])  # type: ignore[arg-type]


def test_changes_and_tables_are_written(journal: Journal, file: TableFile) -> None:
    file.change({"counter": 1}, {"t": 2})
    file.catch_up()
    file.save()
    assert journal.written == [
        ("change", {"counter": 1}, {"t": 2}, {"all": 1}), ("catch up", {"all": 1}), ("save", {"all": 1})
    ]  # fmt: skip
    assert (file.fault, file.load(), file.path) == (None, {"loaded": 1}, journal.path)


def test_after_a_failure_the_whole_table_is_written_later(
    journal: Journal, file: TableFile, caplog: pytest.LogCaptureFixture
) -> None:
    journal.failure = OSError("full")
    file.change({}, {})
    assert file.fault is journal.failure
    journal.failure = None
    file.change({}, {"lost": 1})
    assert journal.written == [], "the journal lacks the change before"
    journal.now[0] += table_file._RETRY_SECONDS - 0.001
    file.catch_up()
    assert journal.written == []
    journal.now[0] += 0.001
    file.catch_up()
    assert (journal.written, file.fault) == ([("save", {"all": 1})], None)
    file.change({}, {})
    assert len(journal.written) == 2
    assert caplog.messages == [
        f"{journal.path} cannot be written, so it is older than the broker's state: full",
        f"{journal.path} can be written again",
    ]


def test_a_slow_disk_is_tried_less_often(journal: Journal, file: TableFile) -> None:
    journal.failure, journal.takes = OSError("full"), 60.0
    file.save()
    journal.failure, journal.takes = None, 0.0
    wait = 60.0 * table_file._RETRY_SHARE
    assert wait > table_file._RETRY_SECONDS
    journal.now[0] += wait - 1
    file.catch_up()
    assert journal.written == []
    journal.now[0] += 1
    file.catch_up()
    assert len(journal.written) == 1


def test_a_failure_is_logged_once(journal: Journal, file: TableFile, caplog: pytest.LogCaptureFixture) -> None:
    journal.failure = OSError("full")
    for _ in range(3):
        file.save()
    assert len(caplog.messages) == 1


def test_a_table_says_what_a_restart_would_lose(journal: Journal, file: TableFile) -> None:
    table = SavedTable()
    table._file = file
    assert table.write_fault is None
    check_written(table.write_fault, "topics")
    journal.failure = OSError("full")
    table.persist()
    assert table.write_fault == f"{journal.path} cannot be written: full"
    with pytest.raises(BrokerError) as refused:
        check_written(table.write_fault, "topics")
    assert refused.value.code == 1
    assert refused.value.remark == (
        "the topics are changed until the next start only, unless the disk recovers before: "
        f"{journal.path} cannot be written: full"
    )
    journal.failure = None
    table.persist()
    table.catch_up()
    assert [what for what, *_ in journal.written] == ["save", "catch up"]
