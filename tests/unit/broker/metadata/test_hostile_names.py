"""Topic and group names that lead out of the store are refused in requests and ignored in files."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rocketmq_py.broker.config.broker_config import configure
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.broker.timer.delay_levels import restored
from rocketmq_py.broker.timer.timed_message import read_timed
from rocketmq_py.errors import ConfigError
from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.topic import TopicConfig, TopicConfigList
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack, RecallMessage
from rocketmq_py.protocol.headers.topic import CreateTopic, TopicName
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.wire.record import encode_record
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pop, pull, send

HOSTILE = ["../../victim", "..", ".", "{victim}", "../config", "a\\b", "C:x", "a\nb", "t/../../../victim"]
LARGE = 2 << 20
HEAD = RecordHead(0, 0, 0, 0, 3, 41, 1_000, 0, 5_000, bytes(8), 6_000, bytes(8), 2, 0, 0)


def contents(folder: Path) -> dict[str, bytes | int]:
    """What the files of a folder have; of large ones, which are those of timers, the time of the last change."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {
        name: path.read_bytes() if path.stat().st_size < LARGE else path.stat().st_mtime_ns
        for name, path in files.items()
    }


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file").write_text("mine")
    return folder


@pytest.mark.parametrize("name", HOSTILE)
def test_no_topic_of_such_a_name_is_deleted(running: InProcess, client: Client, victim: Path, name: str) -> None:
    topic = name.format(victim=victim)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0
    running.services._config_thread.submit(len, "").result()  # it has written the new topic
    before = contents(victim.parent)
    answer = client.ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic))
    assert answer.code == 29
    assert answer.remark is not None
    assert answer.remark.startswith(f"The specified topic: {topic!r} cannot be the name of a folder: it ")
    assert contents(victim.parent) == before
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


@pytest.mark.parametrize("topic", ["%RETRY%g", "a|b", "%DLQ%g"])
def test_topics_of_odd_names_are_deleted_with_their_folders(running: InProcess, client: Client, topic: str) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g")])
    for name in (topic, "t"):
        assert client.ask(Code.SEND_MESSAGE_V2, send(name), b"body").code == 0
    running.services.store._queues.spill()
    folder = running.services.store.layout.consume_queue
    assert topic in {path.name for path in folder.iterdir()}
    assert client.ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic=topic)).code == 0
    assert topic not in {path.name for path in folder.iterdir()}
    assert running.services.topics.get(topic) is None
    assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


@pytest.mark.parametrize("name", [*HOSTILE, "%RETRY%../../victim", "%DLQ%a/b"])
def test_no_topic_with_such_a_name_is_created(running: InProcess, client: Client, victim: Path, name: str) -> None:
    topic, known = name.format(victim=victim), set(running.services.topics.table)
    header = CreateTopic(
        topic=topic, default_topic="TBW102", read_queue_nums=1, write_queue_nums=1, perm=6,
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    assert client.ask_task(Code.UPDATE_AND_CREATE_TOPIC, header).code == 29
    many = TopicConfigList(topic_config_list=[TopicConfig(topic_name=topic)]).encode()
    assert client.ask_task(Code.UPDATE_AND_CREATE_TOPIC_LIST, body=many).code == 29
    assert client.ask(Code.SEND_MESSAGE_V2, send(topic), b"body").code == 29
    assert client.ask(Code.SEND_MESSAGE, send(topic), b"body").code != 0
    assert set(running.services.topics.table) == known
    assert list((victim.parent / "store").glob("consumequeue/*")) == []


@pytest.mark.parametrize("group", ["../g", "..", "a/b", "a\\b"])
def test_no_group_with_such_a_name_is_created(running: InProcess, client: Client, group: str) -> None:
    groups, topics = set(running.services.groups.table), set(running.services.topics.table)
    wanted = SubscriptionGroupConfig(group_name=group).encode()
    assert client.ask(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=wanted).code == 29
    assert client.ask(Code.HEART_BEAT, body=heartbeat(group=group, t="*")).code == 0
    back = ConsumerSendMsgBack(offset=0, group=group, delay_level=0)
    assert client.ask(Code.CONSUMER_SEND_MSG_BACK, back).code == 26
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    assert client.ask(Code.PULL_MESSAGE, pull(consumer_group=group)).code == 26
    assert client.ask(Code.POP_MESSAGE, pop(consumer_group=group)).code == 26
    assert set(running.services.groups.table) == groups
    assert set(running.services.topics.table) == topics | {"t"}


def test_messages_that_could_not_be_revived_are_not_popped(running: InProcess, client: Client) -> None:
    topic, long, short = "t" * 127, "g" * 130, "g" * 100
    assert client.ask(Code.SEND_MESSAGE_V2, send(topic), b"body").code == 0
    refused = client.ask(Code.POP_MESSAGE, pop(topic, consumer_group=long))
    assert refused.code == 29
    assert "it has 265 bytes, 255 are possible" in (refused.remark or "")
    assert client.ask(Code.POP_MESSAGE, pop(topic, consumer_group=short)).code == 0
    assert client.ask(Code.SEND_MESSAGE_V2, send(topic), b"more").code == 0


def test_a_message_of_a_group_with_too_long_a_name_is_not_sent_back(running: InProcess, client: Client) -> None:
    """Its retry topic could not have a folder; the store goes on."""
    group = "g" * 255
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0
    client.ask(Code.HEART_BEAT, body=heartbeat(group=group, t="*"))
    answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBack(offset=0, group=group, delay_level=-1))
    assert answer.code == 13
    assert "cannot have a consume queue: it has 260 bytes" in (answer.remark or "")
    running.turn(1_000)
    assert client.ask(Code.SEND_MESSAGE_V2, send(), b"more").code == 0


@pytest.mark.parametrize("topic", ["../../victim", "..", "/abs"])
def test_recall_handles_with_such_topics_are_refused(tmp_path: Path, topic: str) -> None:
    with broker(tmp_path, recall_message_enable=True) as running:
        client = running.connect()
        handle = RecallHandle(topic, "broker-a", START_MS + 60_000, "K").encode()
        assert client.ask(Code.RECALL_MESSAGE, RecallMessage(topic=topic, recall_handle=handle)).code == 17
        assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0
        assert client.ask(Code.RECALL_MESSAGE, RecallMessage(topic="t", recall_handle=handle)).code == 604
        assert {key[0] for key in running.services.store.queues()} == {"t"}


# -- what is kept, and what a master tells


def test_topics_and_groups_of_a_master_with_such_names_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topics = {name: TopicConfig(topic_name=name) for name in ("t", "broker.b", "../../victim", "..")}
    groups = {name: SubscriptionGroupConfig(group_name=name) for name in ("g", "a/b")}
    with broker(tmp_path, broker_role="SLAVE", broker_id=1) as slave, caplog.at_level(logging.WARNING):
        slave.services.topics.take_over(DataVersion(counter=7, timestamp=5), topics)
        slave.services.groups.take_over(
            SubscriptionGroupTable(subscription_group_table=groups, data_version=DataVersion(counter=7))
        )
        assert set(slave.services.topics.table) == {"t", "broker.b"}
        assert set(slave.services.groups.table) == {"g"}
    ignored = "2 topics of the master with names that cannot be folder names are ignored, for example '../../victim'"
    assert ignored in caplog.text
    assert "1 groups of the master" in caplog.text


def test_topics_and_groups_in_files_with_such_names_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "config"
    config.mkdir()
    (config / "topics.json").write_text('{"topicConfigTable":{"../x":{"topicName":"../x"},"t":{"topicName":"t"}}}')
    (config / "subscriptionGroup.json").write_text('{"subscriptionGroupTable":{"a/b":{"groupName":"a/b"}}}')
    with caplog.at_level(logging.WARNING), broker(tmp_path) as running:
        assert "../x" not in running.services.topics.table
        assert "t" in running.services.topics.table
        assert "a/b" not in running.services.groups.table
    assert "topics.json with names that cannot be folder names are ignored, for example '../x'" in caplog.text


@pytest.mark.parametrize("topic", ["../../victim", "..", "a/b", "a\\b"])
def test_delayed_and_timed_messages_with_such_topics_are_dropped(topic: str) -> None:
    properties = f"REAL_TOPIC\x01{topic}\x02REAL_QID\x010\x02TIMER_OUT_MS\x017000\x02UNIQ_KEY\x01K\x02".encode()
    assert read_timed(encode_record(HEAD, "rmq_sys_wheel_timer", b"body", properties)) is None
    assert restored(read_stored(encode_record(HEAD, "SCHEDULE_TOPIC_XXXX", b"body", properties))) is None


@pytest.mark.parametrize("queue_id", ["x", "-1", "1.5", "8192", "\u0663" * 11, "9" * 5_000])
def test_delayed_and_timed_messages_with_impossible_queues_are_dropped(queue_id: str) -> None:
    properties = f"REAL_TOPIC\x01t\x02REAL_QID\x01{queue_id}\x02TIMER_OUT_MS\x017000\x02UNIQ_KEY\x01K\x02".encode()
    assert read_timed(encode_record(HEAD, "rmq_sys_wheel_timer", b"body", properties)) is None
    assert restored(read_stored(encode_record(HEAD, "SCHEDULE_TOPIC_XXXX", b"body", properties))) is None


def test_a_timed_message_with_an_impossible_time_is_dropped() -> None:
    properties = f"REAL_TOPIC\x01t\x02REAL_QID\x010\x02TIMER_OUT_MS\x01{'9' * 5_000}\x02".encode()
    assert read_timed(encode_record(HEAD, "rmq_sys_wheel_timer", b"body", properties)) is None


@pytest.mark.parametrize("level", ["9" * 5_000, "1" + "0" * 19, "\u00b2"])
def test_a_delay_level_that_is_no_number_of_java_is_ignored(running: InProcess, client: Client, level: str) -> None:
    assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": level}), b"body").code == 0
    assert running.services.store.queue_range("t", 0) == (0, 1)


# -- settings


@pytest.mark.parametrize("key", ["storePathRootDir", "storePathCommitLog", "brokerConfigPath", "authConfigPath"])
def test_paths_are_not_changed_by_requests(running: InProcess, client: Client, tmp_path: Path, key: str) -> None:
    answer = client.ask_task(Code.UPDATE_BROKER_CONFIG, body=f"traceOn=false\n{key}={tmp_path}/x\n".encode())
    assert (answer.code, answer.remark) == (16, "Can not update config in black list.")
    assert not (tmp_path / "store" / "config" / "broker.properties").exists()
    assert running.config.trace_on


@pytest.mark.parametrize("key", ["brokerName", "brokerClusterName"])
@pytest.mark.parametrize("name", ["../x", "..", "a/b", "a\\b", ""])
def test_no_broker_or_cluster_has_such_a_name(key: str, name: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is .*: letters, digits"):
        configure({key: name})
