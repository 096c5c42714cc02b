"""A slave: refused requests, pulls, and that it appends nothing of its own to its master's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.cluster import AllGroups, AllTopics
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.protocol.headers.send import ConsumerSendMsgBack
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess, broker
from tests.unit.broker.requests import pop, pull, send

REJECTED = (2, "[REJECTREQUEST]system busy, start flow control for a while")
WAITS = {"sys_flag": 2 | 4}


def slave(root: Path, **config: Any) -> Any:
    return broker(root, **{"broker_role": "SLAVE", "broker_id": 1, "slave_read_enable": True} | config)


def written_by_a_master(root: Path, count: int = 3) -> None:
    """The store as replication would have left it."""
    with broker(root) as master:
        client = master.connect()
        master.services.groups.put([SubscriptionGroupConfig(group_name="g")])
        for _ in range(count):
            assert client.ask(Code.SEND_MESSAGE_V2, send(), b"body").code == 0
        assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed").code == 0
        due = str(START_MS + 5_000)
        assert client.ask(Code.SEND_MESSAGE_V2, send(properties={"TIMER_DELIVER_MS": due}), b"timed").code == 0


def say(running: InProcess, master: str | None) -> None:
    running.services.role.update_master("name server", master, "127.0.0.1:10912" if master else None)


def answered(client: Client, offset: int, **more: Any) -> tuple[int, str, str]:
    found = client.ask(Code.PULL_MESSAGE, pull(offset=offset, **more))
    return found.code, found.ext["suggestWhichBrokerId"], found.ext["nextBeginOffset"]


# -- what it refuses


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_a_slave_refuses_messages_so_that_producers_retry_elsewhere(tmp_path: Path, code: Code) -> None:
    with slave(tmp_path) as running:
        answer = running.connect().ask(code, send(), b"body")
        assert (answer.code, answer.remark) == REJECTED
        assert running.services.store.max_physical_offset == 0


def test_a_slave_refuses_sent_back_messages(tmp_path: Path) -> None:
    with slave(tmp_path) as running:
        header = ConsumerSendMsgBack(offset=0, group="g", delay_level=0, origin_msg_id="", origin_topic="t")
        answer = running.connect().ask(Code.CONSUMER_SEND_MSG_BACK, header)
        assert (answer.code, answer.remark) == REJECTED


def test_a_slave_that_may_act_explains_its_refusal(tmp_path: Path) -> None:
    """With Java's codes, whether it acts or not."""
    with slave(tmp_path, enable_slave_acting_master=True) as running:
        client = running.connect()
        answer = client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
        assert (answer.code, answer.remark) == (14, "broker broker-a (id 1) is a slave: messages are sent to masters")
        header = ConsumerSendMsgBack(offset=0, group="g", delay_level=0)
        answer = client.ask(Code.CONSUMER_SEND_MSG_BACK, header)
        assert answer.code == 1
        assert "no master is here" in (answer.remark or "")


def test_a_slave_resets_no_offsets(tmp_path: Path) -> None:
    with slave(tmp_path) as running:
        header = ResetOffset(topic="t", group="g", timestamp=0, is_force=True)
        answer = running.connect().ask(Code.INVOKE_BROKER_TO_RESET_OFFSET, header)
        assert (answer.code, answer.remark) == (1, "Can not reset offset in slave broker")


def test_a_slave_store_refuses_appends(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        end = running.services.store.max_physical_offset
        answer = running.connect().ask(Code.POP_MESSAGE, pop())
        assert answer.code == 14
        assert "is a slave that does not act as master" in (answer.remark or "")
        assert running.services.store.max_physical_offset == end
        assert not running.services.store.is_writable


def test_a_slave_does_not_deliver_delayed_messages(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        end = running.services.store.max_physical_offset
        for _ in range(10):
            running.turn(1_000)
        assert running.services.store.max_physical_offset == end


# -- pulls


def test_reads_need_slave_read_enable(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path, slave_read_enable=False) as running:
        client = running.connect()
        answer = client.ask(Code.PULL_MESSAGE, pull())
        assert (answer.code, answer.remark) == REJECTED
        running.config.slave_read_enable = True
        assert client.ask(Code.PULL_MESSAGE, pull()).code == 0


def test_consumers_in_memory_range_go_back_to_the_master(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert answered(client, 0) == (0, "0", "3")
        assert answered(client, 3) == (19, "0", "3")


def test_consumers_far_behind_stay_at_the_slave(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path, store={"access_message_in_memory_max_ratio": 0}) as running:
        assert answered(running.connect(), 0) == (0, "1", "3")


def test_consumers_wait_at_the_slave_until_the_master_returns(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert client.call(Code.PULL_MESSAGE, pull(offset=3, **WAITS)) is None
        say(running, "127.0.0.1:10911")
        running.turn()
        (answer,) = client.heard
        assert (answer.code, answer.ext["suggestWhichBrokerId"]) == (19, "0")


def test_a_consumer_ahead_of_the_slave_is_not_set_back(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    with slave(tmp_path) as running:
        client = running.connect()
        assert answered(client, 7) == (19, "0", "7")
        assert client.call(Code.PULL_MESSAGE, pull(offset=7, **WAITS)) is None
        say(running, "127.0.0.1:10911")
        running.turn()
        assert [answer.code for answer in client.heard] == [20]
        assert answered(client, 7) == (20, "0", "7")
        running.config.offset_check_in_slave = True
        assert answered(client, 7) == (21, "0", "3")


def test_a_master_redirects_consumers_far_behind_to_a_slave(tmp_path: Path) -> None:
    written_by_a_master(tmp_path)
    far = {"access_message_in_memory_max_ratio": 0}
    with broker(tmp_path, slave_read_enable=True, store=far) as running:
        assert answered(running.connect(), 0) == (0, "1", "3")


# -- what it takes over


def test_topics_are_copied_from_the_master(tmp_path: Path) -> None:
    version = DataVersion(counter=7, timestamp=5)
    with slave(tmp_path) as running:
        topics = running.services.topics
        topics.put([TopicConfig(topic_name="gone")])
        topics.take_over(version, {"t": TopicConfig(topic_name="t", read_queue_nums=2)})
    with slave(tmp_path) as running:
        topics = running.services.topics
        assert topics.version == version
        assert topics.get("gone") is None
        assert topics.table["t"].read_queue_nums == 2


def test_groups_are_copied_from_the_master(tmp_path: Path) -> None:
    told = SubscriptionGroupTable(
        subscription_group_table={"h": SubscriptionGroupConfig(group_name="h", retry_max_times=3)},
        forbidden_table={"h": {"t": 4}}, data_version=DataVersion(counter=7),
    )  # fmt: skip
    with slave(tmp_path) as running:
        running.services.groups.put([SubscriptionGroupConfig(group_name="gone")])
        running.services.groups.take_over(told)
    with slave(tmp_path) as running:
        groups = running.services.groups
        assert groups.get("gone") is None
        assert groups.table["h"].retry_max_times == 3
        assert groups.is_read_forbidden("h", "t")


@pytest.mark.parametrize(("keeps", "queues"), [(False, {0: 5, 1: 9}), (True, {0: 8, 1: 9, 2: 2})])
def test_offsets_are_copied_unless_larger_ones_are_kept(tmp_path: Path, keeps: bool, queues: dict[int, int]) -> None:
    tree = fastjson.loads(b'{"dataVersion":{"counter":3},"offsetTable":{"t@g":{0:5,1:9}}}')
    with slave(tmp_path) as running:
        offsets = running.services.offsets
        for queue, offset in {0: 8, 1: 1, 2: 2}.items():
            offsets.commit("g", "t", queue, offset, "here")
        offsets.commit("mine", "t", 0, 1, "here")
        offsets.take_over(tree, keeps_larger=keeps)
    with slave(tmp_path) as running:
        table = running.services.offsets.table
        assert table == {"t@g": queues, "t@mine": {0: 1}}
        assert running.services.offsets.version.counter == 3


def test_delay_offsets_and_modes_are_copied_from_the_master(tmp_path: Path) -> None:
    mode = MessageRequestMode(topic="t", consumer_group="g", mode="POP", pop_share_queue_num=0)
    with slave(tmp_path) as running:
        running.services.delay.take_over({"dataVersion": {"counter": 2}, "offsetTable": {"3": 4}})
        running.services.modes.take_over(MessageRequestModes(message_request_mode_map={"t": {"g": mode}}))
    with slave(tmp_path) as running:
        assert running.services.delay.offsets == {3: 4}
        assert running.services.modes.get("t", "g") == mode


def test_a_promoted_slave_delivers_the_remaining_delayed_messages(tmp_path: Path) -> None:
    """Entries are written as far as the master has; the master's word on what has been delivered counts."""
    written_by_a_master(tmp_path / "store")
    with broker(tmp_path / "store") as master:
        check = master.services.timers.checkpoint()
        assert check is not None
    with slave(tmp_path / "store") as running:
        running.services.timers.take_over(check)
        running.turn(10_000)
    with broker(tmp_path / "store", now=START_MS + 10_000) as promoted:
        promoted.turn(100)
        promoted.turn(2_000)
        bodies = client_bodies(promoted)
    assert sorted(bodies) == [b"body"] * 3 + [b"delayed", b"timed"]


def client_bodies(running: InProcess) -> list[bytes]:
    return [message.body for message in decode_records(running.connect().ask(Code.PULL_MESSAGE, pull()).body)]


# -- what a master tells, a part at a time


def test_topics_and_groups_are_copied_in_pages(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    names: list[str] = []
    version = ""
    while True:
        answer = client.ask(Code.GET_ALL_TOPIC_CONFIG, AllTopics(topic_seq=len(names), data_version=version))
        tree = fastjson.loads(answer.body)
        if not tree["topicConfigTable"]:
            break
        assert len(tree["topicConfigTable"]) <= 5
        names += tree["topicConfigTable"]
        version = fastjson.dumps(tree["dataVersion"]).decode()
    assert sorted(names) == sorted(running.services.topics.table)
    assert answer.ext["totalTopicNum"] == str(len(names))
    answer = client.ask(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, AllGroups(group_seq=0, max_group_num=3))
    assert len(fastjson.loads(answer.body)["subscriptionGroupTable"]) == 3


def test_pages_of_an_older_version_start_over(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    first = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG, AllTopics(topic_seq=0)).body)
    running.services.topics.announce_all()
    asked = AllTopics(topic_seq=5, data_version=fastjson.dumps(first["dataVersion"]).decode())
    again = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG, asked).body)
    assert again["topicConfigTable"].keys() == first["topicConfigTable"].keys()


def test_requests_without_paging_get_everything(running: InProcess, client: Client) -> None:
    running.config.split_metadata_size = 5
    tree = fastjson.loads(client.ask(Code.GET_ALL_TOPIC_CONFIG).body)
    assert tree["topicConfigTable"].keys() == running.services.topics.table.keys()
