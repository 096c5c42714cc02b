"""Messages with delay levels: which offsets are written and reported, and what is delivered when."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.broker.records.message_properties import encode
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.timer.delay_levels import DelayService, asks_for_level, restored
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode as Code
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.fixture
def delay(running: InProcess) -> DelayService:
    return running.services.delay


@pytest.fixture
def written(running: InProcess) -> list[Any]:
    """The contents of the file, write by write."""
    found: list[Any] = []
    running.services.delay._save = lambda _, tree: found.append(tree)
    return found


def delayed(client: Client, level: int = 1, body: bytes = b"body", **more: str) -> None:
    answer = client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": str(level)} | more), body)
    assert answer.code == 0


def test_offsets_are_written_after_a_change_only(delay: DelayService, written: list[Any]) -> None:
    delay.persist()
    assert written == []
    delay.commit(3, 7)
    for _ in range(2):
        delay.persist()
    assert [tree["offsetTable"] for tree in written] == [{3: 7}]
    delay.commit(3, 7)
    delay.persist()
    assert len(written) == 1
    delay.commit(3, 8)
    delay.persist()
    assert len(written) == 2


def test_the_version_changes_with_every_two_hundredth_offset(delay: DelayService, running: InProcess) -> None:
    before = delay.version
    for offset in range(199):
        delay.commit(1, offset + 1)
    assert delay.version == before
    running.now += 5
    delay.commit(1, 200)
    assert (delay.version.counter, delay.version.timestamp) == (before.counter + 1, running.now)


def test_a_slave_has_the_offsets_of_its_master_also_smaller_ones(delay: DelayService, written: list[Any]) -> None:
    delay.commit(1, 9)
    delay.persist()
    delay.take_over({"dataVersion": {"counter": 4}, "offsetTable": {"1": 2, "3": 5}})
    assert (delay.offsets, delay.version.counter) == ({1: 2, 3: 5}, 4)
    delay.persist()
    assert len(written) == 2
    delay.take_over({"dataVersion": {"counter": 5}, "offsetTable": {"1": 2, "3": 5}})
    delay.persist()
    assert (len(written), delay.version.counter) == (2, 5)


def test_a_master_raises_offsets_to_those_of_its_slave(delay: DelayService) -> None:
    delay.commit(1, 9)
    delay.commit(2, 3)
    delay.raise_offsets({"offsetTable": {"1": 8, "2": 4, "3": 0, "4": 1}})
    assert delay.offsets == {1: 9, 2: 4, 4: 1}
    delay.raise_offsets({})
    assert delay.offsets == {1: 9, 2: 4, 4: 1}


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({"DELAY": "1"}, True), ({"DELAY": "0"}, False), ({"DELAY": "-1"}, False), ({}, False), ({"DELAY": "x"}, False),
     ({"DELAY": ""}, False), ({"DELAY": "9" * 9}, True), ({"DELAY": "9" * 30}, False)],
)  # fmt: skip
def test_a_level_is_a_positive_number(properties: dict[str, str], expected: bool) -> None:
    assert asks_for_level(properties) is expected


@pytest.mark.parametrize(("after", "count"), [(999, 0), (1_000, 1)])
def test_a_message_is_delivered_when_it_is_due(running: InProcess, client: Client, after: int, count: int) -> None:
    delayed(client, TAGS="A", KEYS="k", UNIQ_KEY="U")
    running.now += after
    assert running.services.tick_delays() is False
    assert running.services.store.queue_range("t", 0)[1] == count
    assert running.services.delay.offsets.get(1, 0) == count


def test_the_levels_do_not_wait_for_each_other(running: InProcess, client: Client) -> None:
    for level in (3, 1, 2):
        delayed(client, level, b"%d" % level)
    running.now += 5_000
    running.services.tick_delays()
    assert running.services.store.queue_range("t", 0)[1] == 2
    assert running.services.delay.offsets == {1: 1, 2: 1, 3: 0}


def test_offsets_outside_of_the_queue_are_corrected(running: InProcess, client: Client, delay: DelayService) -> None:
    delayed(client)
    delay.offsets[1] = 99
    running.now += 2_000
    running.services.tick_delays()
    assert (delay.offsets[1], running.services.store.queue_range("t", 0)[1]) == (1, 0)


def test_due_messages_stay_due_until_they_are_committed(
    running: InProcess, client: Client, delay: DelayService
) -> None:
    for _ in range(3):
        delayed(client)
    running.now += 1_000
    for _ in range(2):
        assert [offset for offset, record in delay.due(1, running.now) if record is not None] == [0, 1, 2]
    assert [offset for offset, _ in delay.due(1, running.now, 2)] == [0, 1]
    assert list(delay.due(1, running.now - 1)) == []
    delay.commit(1, 2)
    assert [offset for offset, _ in delay.due(1, running.now)] == [2]


def test_a_warning_about_refused_writes_is_repeated_after_a_success(
    running: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1, 3):
        delayed(client)
        running.now += 1_000
        running.services.store._writer.refuse("no room")
        for _ in range(3):
            running.services.tick_delays()
        assert caplog.text.count("delayed messages wait, the store refuses writes") == number
        running.services.store._writer.allow()
        running.services.tick_delays()
        assert running.services.store.queue_range("t", 0)[1] == number


@pytest.mark.parametrize(
    ("changes", "is_valid"),
    [({}, True), ({"REAL_TOPIC": None}, False), ({"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC"}, False),
     ({"REAL_TOPIC": "../x"}, False), ({"REAL_QID": "x"}, False), ({"REAL_QID": "-1"}, False),
     ({"REAL_QID": None}, True)],
)  # fmt: skip
def test_only_valid_places_are_delivered_to(
    running: InProcess, client: Client, changes: dict[str, str | None], is_valid: bool, caplog: pytest.LogCaptureFixture
) -> None:
    delayed(client, TAGS="A")
    raw = running.services.store.record_at_queue(SCHEDULE, 0, 0)
    assert raw is not None
    stored = read_stored(raw)
    properties = {k: v for k, v in (decode_properties(stored.properties) | changes).items() if v is not None}
    record = restored(stored._replace(properties=encode(properties).encode()))
    assert (record is not None) is is_valid
    assert ("it has no valid real topic or queue" in caplog.text) is not is_valid
    if record is not None:
        assert (record.topic, record.queue_id, record.body, record.tags_code) == ("t", 0, b"body", 65)
        assert decode_properties(record.properties)["DELAY"] == "1", "as in Java"


def test_very_many_are_delivered_in_parts(running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.broker.timer.delay_levels._AT_ONCE", 2)
    for _ in range(3):
        delayed(client)
    running.now += 1_000
    assert running.services.tick_delays() is True
    assert running.services.store.queue_range("t", 0)[1] == 2
    assert running.services.tick_delays() is False
    assert running.services.store.queue_range("t", 0)[1] == 3


def test_offsets_are_read_at_the_start(tmp_path: Any) -> None:
    with broker(tmp_path) as running:
        running.services.delay.commit(5, 6)
    with broker(tmp_path) as running:
        assert running.services.delay.offsets == {5: 6}
        assert list(running.services.delay.levels) == list(range(1, 19))
