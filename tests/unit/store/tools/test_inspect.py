"""A store as plain values: what is shown of it, of its queues and of its records, healthy or not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.errors import StoreError
from rocketmq_py.store import MessageStore
from rocketmq_py.store.tools import inspect
from rocketmq_py.store.tools.offline import OfflineStore
from tests.unit.store.helpers import NOW, Stores, fill


@pytest.fixture
def filled(disk_stores: Stores) -> Path:
    """Three messages in queue 0 of topic T, one in queue 1, two of topic U; a millisecond passes for each."""
    store: MessageStore = disk_stores.open()
    for number, (topic, queue_id) in enumerate([("T", 0), ("T", 0), ("T", 0), ("T", 1), ("U", 0), ("U", 0)]):
        disk_stores.clock.now = NOW + number
        fill(store, 1, number, topic=topic, queue_id=queue_id)
    store.flush()
    disk_stores.close()
    return disk_stores.root


@pytest.fixture
def offline(filled: Path) -> Iterator[OfflineStore]:
    with OfflineStore(filled) as store:
        yield store


def test_an_overview(offline: OfflineStore, filled: Path) -> None:
    shown = inspect.overview(offline)
    rows = [
        row
        for topic, queue_id in (("T", 0), ("T", 1), ("U", 0))
        for row in inspect.messages(offline, topic, queue_id, None, 9)
    ]
    end = max(row["physical"] + row["size"] for row in rows)
    assert shown == {
        "store": str(filled), "state": "closed", "logBegin": 0, "logEnd": end, "logFiles": 1, "logFileSize": 4096,
        "oldestMessage": NOW, "newestMessage": NOW + 5, "topics": 2, "queues": 3, "indexFiles": 1,
        "configFiles": shown["configFiles"],
    }  # fmt: skip
    assert all(name.endswith(".json") for name in shown["configFiles"])


def test_the_newest_message_may_be_in_an_earlier_file(filled: Path) -> None:
    (filled / "commitlog" / f"{4096:020d}").write_bytes(bytes(4096))
    with OfflineStore(filled) as store:
        shown = inspect.overview(store)
    assert (shown["logFiles"], shown["newestMessage"]) == (2, NOW + 5)
    assert 0 < shown["logEnd"] < 4096


def test_a_damaged_body_does_not_end_the_overview(filled: Path) -> None:
    with OfflineStore(filled) as store:
        whole = inspect.overview(store)
        at = next(iter(inspect.messages(store, "T", 1, None, 1)))["physical"]
    log = filled / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[at + 100] ^= 1
    log.write_bytes(data)
    with OfflineStore(filled) as store:
        shown = inspect.overview(store)
    assert (shown["logEnd"], shown["newestMessage"]) == (whole["logEnd"], NOW + 5)


def test_an_empty_store_has_no_times(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    with OfflineStore(tmp_path) as store:
        shown = inspect.overview(store)
    assert (shown["oldestMessage"], shown["newestMessage"], shown["logEnd"], shown["topics"]) == (None, None, 0, 0)


def test_queues_have_their_extents(offline: OfflineStore) -> None:
    rows = [
        {"topic": "T", "queue": 0, "min": 0, "max": 3, "messages": 3},
        {"topic": "T", "queue": 1, "min": 0, "max": 1, "messages": 1},
        {"topic": "U", "queue": 0, "min": 0, "max": 2, "messages": 2},
    ]
    assert inspect.queues(offline) == rows
    assert inspect.queues(offline, "U") == rows[2:]
    with pytest.raises(StoreError, match="no consume queue of topic 'x'; it has those of T, U"):
        inspect.queues(offline, "x")


@pytest.mark.parametrize(
    ("offset", "count", "expected"),
    [(None, 9, [0, 1, 2]), (None, 2, [0, 1]), (1, 1, [1]), (2, 9, [2]), (3, 9, []), (-5, 2, [0, 1]), (0, 0, [])],
)
def test_messages_of_a_queue(offline: OfflineStore, offset: int | None, count: int, expected: list[int]) -> None:
    rows = list(inspect.messages(offline, "T", 0, offset, count))
    assert [(row["offset"], row["topic"], row["queue"]) for row in rows] == [(number, "T", 0) for number in expected]
    with pytest.raises(StoreError, match="topic 'T' has no queue 7 in this store; it has 0, 1"):
        inspect.messages(offline, "T", 7, None, 1)


def test_the_fields_of_a_record(offline: OfflineStore) -> None:
    [row] = inspect.messages(offline, "T", 0, 1, 1)
    shown = inspect.record(offline, row["physical"])
    assert row == row | shown
    assert shown == shown | {
        "topic": "T", "queue": 0, "offset": 1, "msgId": "U000001", "stored": NOW + 1, "born": NOW - 5,
        "bornHost": "10.1.2.3:40000", "storeHost": "127.0.0.1:10911", "sysFlag": 0, "flag": 0, "reconsumeTimes": 0,
        "preparedTransactionOffset": 0, "bodySize": 100, "body": "1|" + "." * 62 + "\u2026",
    }  # fmt: skip
    assert shown["properties"] == {"UNIQ_KEY": "U000001", "KEYS": "k1 all", "TAGS": "odd"}


def test_why_there_is_no_record(offline: OfflineStore) -> None:
    [_, row] = inspect.messages(offline, "T", 0, 0, 2)
    end = inspect.overview(offline)["logEnd"]
    for physical, why in (
        (row["physical"] + 1, None),
        (4096, "the log has no such offset"),
        (-1, "it has expired: the log begins at 0"),
        (end, None),
    ):
        shown = inspect.record(offline, physical)
        assert shown["physical"] == physical
        assert shown["error"] == (why or shown["error"])
        assert shown["error"]


def test_a_damaged_record_is_shown_as_such(filled: Path) -> None:
    with OfflineStore(filled) as store:
        [row] = inspect.messages(store, "T", 0, 1, 1)
    with (filled / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(row["physical"] + 100)
        file.write(b"\xff\xff")
    with OfflineStore(filled) as store:
        shown = list(inspect.messages(store, "T", 0, 0, 3))
    assert [("error" in one, one["offset"]) for one in shown] == [(False, 0), (True, 1), (False, 2)]


@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (bytes([10, 0, 0, 1, 0, 0, 0x2A, 0x9F]), "10.0.0.1:10911"),
        (bytes(15) + b"\x01" + (65535).to_bytes(4, "big"), "[::1]:65535"),
    ],
)
def test_hosts(packed: bytes, text: str) -> None:
    assert inspect._host(packed) == text


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", ""),
        (b"a" * 64, "a" * 64),
        (b"a" * 65, "a" * 64 + "\u2026"),
        (b"a" * 63 + "\u00e4".encode(), "a" * 63 + "\u2026"),
        (b"a" * 61 + "\U0001f600".encode(), "a" * 61 + "\u2026"),
        (b"a" * 60 + b"\xff" + b"a" * 9, "0x" + "61" * 60 + "ff616161\u2026"),
        (b"\xff", "0xff"),
        (b"a\n", "0x610a"),
    ],
)
def test_a_preview_is_text_or_hexadecimal(body: bytes, text: str) -> None:
    assert inspect.preview(body) == text
