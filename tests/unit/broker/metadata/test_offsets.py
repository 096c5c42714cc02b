"""Committed offsets, resets, and the range of queues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.offset import (
    GetMaxOffset,
    QueryConsumerOffset,
    QueueHeader,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from rocketmq_py.wire import fastjson
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import pull, send


def query(client: Client, topic: str = "t", group: str = "g", queue: int = 0, zero: bool | None = None) -> int | None:
    header = QueryConsumerOffset(consumer_group=group, topic=topic, queue_id=queue, set_zero_if_not_found=zero)
    answer = client.ask(Code.QUERY_CONSUMER_OFFSET, header)
    assert answer.code in (0, 22)
    return int(answer.ext["offset"]) if answer.code == 0 else None


def commit(client: Client, offset: int, topic: str = "t", group: str = "g") -> int:
    header = UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=0, commit_offset=offset)
    return client.ask(Code.UPDATE_CONSUMER_OFFSET, header).code


def put(client: Client, count: int = 1) -> None:
    for _ in range(count):
        client.ask(Code.SEND_MESSAGE_V2, send(), b"body")


def known_group(running: InProcess) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g")])


def test_a_new_group_of_a_young_queue_gets_its_beginning(client: Client) -> None:
    assert query(client) is None
    put(client)
    assert query(client) == 0
    assert query(client, zero=False) is None
    assert query(client, queue=3) is None


def test_a_smaller_committed_offset_replaces_a_larger_one(running: InProcess, client: Client) -> None:
    known_group(running)
    put(client)
    assert (commit(client, 5), query(client)) == (0, 5)
    assert (commit(client, 3), query(client)) == (0, 3)


def test_only_known_groups_and_topics_commit(running: InProcess, client: Client) -> None:
    assert commit(client, 1) == 26
    known_group(running)
    assert commit(client, 1) == 17
    put(client)
    assert commit(client, 1) == 0


def test_the_smallest_and_largest_offset_are_returned(client: Client) -> None:
    put(client, 3)
    assert client.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=0)).ext == {"offset": "3"}
    both = client.ask(Code.GET_MAX_OFFSET, GetMaxOffset(topic="t", queue_id=0, bounds=True))
    assert both.ext == {"offset": "3", "minOffset": "0"}
    assert client.ask(Code.GET_MIN_OFFSET, QueueHeader(topic="t", queue_id=0)).ext == {"offset": "0"}
    for unknown in (GetMaxOffset(topic="nothing", queue_id=0), GetMaxOffset(topic="t", queue_id=99)):
        assert client.ask(Code.GET_MAX_OFFSET, unknown).ext == {"offset": "0"}


def test_offsets_are_found_by_time(running: InProcess, client: Client) -> None:
    for _ in range(3):
        put(client)
        running.now += 1_000
    for boundary, offset in (("LOWER", "1"), ("upper", "0"), (None, "1")):
        header = SearchOffset(topic="t", queue_id=0, timestamp=START_MS + 500, boundary_type=boundary)
        assert client.ask(Code.SEARCH_OFFSET_BY_TIMESTAMP, header).ext == {"offset": offset}
    earliest = client.ask(Code.GET_EARLIEST_MSG_STORETIME, QueueHeader(topic="t", queue_id=0))
    assert earliest.ext == {"timestamp": str(START_MS)}
    assert client.ask(Code.GET_EARLIEST_MSG_STORETIME, QueueHeader(topic="t", queue_id=9)).ext == {"timestamp": "-1"}


def test_a_reset_is_pending_until_the_next_pull(running: InProcess, client: Client) -> None:
    known_group(running)
    put(client, 4)
    commit(client, 4)
    answer = client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, ResetOffset(topic="t", group="g", timestamp=0))
    table = fastjson.loads(answer.body)["offsetTable"]
    assert table[fastjson.object_key({"brokerName": "broker-a", "queueId": 0, "topic": "t"})] == 0
    assert len(table) == 4
    assert query(client) == 0
    assert commit(client, 4) == 0
    assert query(client) == 0
    assert client.ask(Code.PULL_MESSAGE, pull(offset=4)).code == 21
    assert (commit(client, 2), query(client)) == (0, 2)


@pytest.mark.parametrize(("timestamp", "offset"), [(-1, 4), (0, 0)])
def test_a_reset_to_a_time_is_applied(running: InProcess, client: Client, timestamp: int, offset: int) -> None:
    known_group(running)
    put(client, 4)
    header = ResetOffset(topic="t", group="g", timestamp=timestamp, queue_id=0)
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).code == 0
    assert query(client) == offset


@pytest.mark.parametrize(("offset", "code"), [(2, 0), (9, 1)])
def test_a_reset_to_an_offset_must_lie_in_the_queue(running: InProcess, client: Client, offset: int, code: int) -> None:
    known_group(running)
    put(client, 4)
    header = ResetOffset(topic="t", group="g", timestamp=0, queue_id=0, offset=offset)
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).code == code


def test_a_pull_of_one_queue_does_not_take_the_resets_of_others(running: InProcess) -> None:
    offsets = running.services.offsets
    for queue_id in range(3):
        offsets.reset("g", "t", queue_id, queue_id)
    offsets.reset("other", "t", 1, 7)
    assert offsets.take_reset("g", "t", 9) is None
    assert offsets.take_reset("g", "t", 1) == 1
    assert offsets.take_reset("g", "t", 1) is None
    assert [offsets.has_reset("g", "t", queue_id) for queue_id in range(3)] == [True, False, True]
    assert [offsets.take_reset("g", "t", queue_id) for queue_id in range(3)] == [0, None, 2]
    assert offsets.take_reset("other", "t", 1) == 7
    assert not offsets._resets, "what is taken leaves nothing behind"


def test_resets_of_unknown_topics_and_groups_are_refused(running: InProcess, client: Client) -> None:
    header = ResetOffset(topic="t", group="g", timestamp=0)
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).code == 17
    running.services.topics.put([TopicConfig(topic_name="t")])
    assert client.ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header).code == 26


# -- the file


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        client = running.connect()
        known_group(running)
        put(client)
        commit(client, 1)
    with broker(tmp_path) as running:
        assert query(running.connect()) == 1


def test_the_file_is_written_when_something_changed_and_as_java_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "config" / "consumerOffset.json"
    with broker(tmp_path) as running:
        offsets, saver = running.services.offsets, running.services.saver
        offsets.persist()
        saver.wait()
        assert not file.exists()
        for queue in (1, 0):
            offsets.commit("g", "t", queue, 5 + queue, "c")
        offsets.persist()
        saver.wait()
        text = file.read_text()
        assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":0,\n\t\t"stateVersion":0,\n\t\t"timestamp":17')
        assert '"groupTopicMap":{\n\t\t"g":[\n\t\t\t"t"\n\t\t]\n\t},' in text
        assert "0:5,1:6" in text.replace("\n", "").replace("\t", "")
        written = file.stat().st_mtime_ns
        offsets.commit("g", "t", 0, 5, "c")
        offsets.persist()
        saver.wait()
        assert file.stat().st_mtime_ns == written


def test_the_version_goes_up_with_every_so_many_commits(tmp_path: Path) -> None:
    with broker(tmp_path, consumer_offset_update_version_step=3) as running:
        offsets = running.services.offsets
        for i in range(7):
            offsets.commit("g", "t", 0, i, "c")
        assert offsets.version.counter == 2


def test_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        for i in (1, 2):
            running.services.offsets.commit("g", "t", 0, i, "c")
            running.services.offsets.persist()
            running.services.saver.wait()
    (tmp_path / "config" / "consumerOffset.json").write_text('{"offsetTable":{"t@g"')
    with broker(tmp_path) as running:
        assert running.services.offsets.query("g", "t", 0) == 2


def test_offsets_of_groups_and_topics_are_removed_and_copied(running: InProcess) -> None:
    offsets = running.services.offsets
    for topic, group in (("t", "g"), ("u", "g"), ("t", "h")):
        offsets.commit(group, topic, 0, 5, "c")
    assert (offsets.topics_of("g"), offsets.groups_of("t")) == (["t", "u"], ["g", "h"])
    offsets.clone("g", "new", "t")
    offsets.clone("g", "new", "nothing")
    assert offsets.query("new", "t", 0) == 5
    offsets.remove_group("g")
    assert (offsets.topics_of("g"), offsets.groups_of("t")) == ([], ["h", "new"])
    offsets.remove_topic("t")
    assert offsets.table == {}


def test_a_slave_gets_every_offset(client: Client, running: InProcess) -> None:
    running.services.offsets.commit("g", "t", 0, 5, "c")
    tree = fastjson.loads(client.ask(Code.GET_ALL_CONSUMER_OFFSET).body)
    assert tree["offsetTable"] == {"t@g": {"0": 5}}
    assert json.dumps(tree["dataVersion"])


def test_a_failing_disk_is_logged_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "config").mkdir()
    blocked = tmp_path / "config" / "consumerOffset.json"
    with broker(tmp_path) as running:
        blocked.mkdir()
        running.services.offsets.commit("g", "t", 0, 1, "c")
        running.services.offsets.persist()
        running.services.saver.wait()
        assert f"{blocked} cannot be written" in caplog.text
        blocked.rmdir()
        running.services.offsets.commit("g", "t", 0, 2, "c")
    with broker(tmp_path) as running:
        assert running.services.offsets.query("g", "t", 0) == 2
