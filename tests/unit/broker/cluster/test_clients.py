"""Heartbeats, membership, and notifications of changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.broker.body_limits import BODY_LIMITS
from rocketmq_py.broker.cluster.clients import MAX_CLIENT_IDS, MAX_CONSUMER_GROUPS, MAX_PRODUCER_GROUPS
from rocketmq_py.broker.cluster.member_notifier import INTERVAL_MS
from rocketmq_py.protocol.bodies.client import (
    CheckClientConfig,
    ConsumerConnection,
    ConsumerData,
    ConsumerIdList,
    HeartbeatData,
    LockBatchRequest,
    LockBatchResponse,
    MessageQueueBody,
    ProducerConnection,
    ProducerData,
    SubscriptionData,
)
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.group import GroupHeader, ProducerGroupHeader, UnregisterClient
from rocketmq_py.store.config.config_journal import JournaledFile
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import heartbeat


def beat(client: Client, client_id: str, group: str | None = "g", **topics: str) -> dict[str, str]:
    answer = client.ask(Code.HEART_BEAT, body=heartbeat(client_id, group, **topics or {"t": "*"}))
    assert answer.code == 0
    return answer.ext


def told(client: Client) -> list[str]:
    """The groups that a client was notified of since the last call."""
    client.broker.turn(INTERVAL_MS)
    groups = [said.ext["consumerGroup"] for said in client.heard]
    assert all(said.code == Code.NOTIFY_CONSUMER_IDS_CHANGED and said.is_oneway for said in client.heard)
    client.heard.clear()
    return groups


def test_every_member_is_notified_when_one_joins(running: InProcess) -> None:
    first, second = running.connect(), running.connect()
    assert beat(first, "one") == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert told(first) == ["g"]
    beat(second, "two")
    assert (told(first), told(second)) == (["g"], ["g"])
    beat(second, "two")
    assert (told(first), told(second)) == ([], [])


def test_a_heartbeat_creates_group_and_retry_topic(running: InProcess, client: Client) -> None:
    beat(client, "one")
    assert running.services.groups.get("g") is not None
    topic = running.services.topics.get("%RETRY%g")
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)


def test_a_heartbeat_of_a_group_that_may_not_be_created_is_answered_and_ignored(tmp_path: Path) -> None:
    with broker(tmp_path, auto_create_subscription_group=False) as running:
        client = running.connect()
        beat(client, "one")
        assert running.services.clients.consumers.groups == {}


@pytest.mark.parametrize("leaving", ["unregisters", "disconnects", "is silent"])
def test_the_others_are_notified_when_one_leaves(running: InProcess, leaving: str) -> None:
    first, second = running.connect(), running.connect()
    beat(first, "one")
    beat(second, "two")
    told(first)
    if leaving == "unregisters":
        second.ask(Code.UNREGISTER_CLIENT, UnregisterClient(client_id="two", consumer_group="g"))
    elif leaving == "disconnects":
        second.leave()
    else:
        running.now += 120_001
        beat(first, "one")
        running.services.clients.expire()
    assert told(first) == ([] if leaving == "is silent" else ["g"])
    answer = first.ask(Code.GET_CONSUMER_LIST_BY_GROUP, GroupHeader(consumer_group="g"))
    assert ConsumerIdList.decode(answer.body).consumer_id_list == ["one"]


def test_broadcasting_groups_are_not_notified(running: InProcess, client: Client) -> None:
    data = HeartbeatData(client_id="c", consumer_data_set=[ConsumerData(group_name="g", message_model="BROADCASTING")])
    client.ask(Code.HEART_BEAT, body=data.encode())
    assert told(client) == []


def test_notifications_of_a_group_can_be_switched_off(running: InProcess, client: Client) -> None:
    running.services.groups.put([SubscriptionGroupConfig(group_name="g", notify_consumer_ids_changed_enable=False)])
    beat(client, "one")
    assert told(client) == []


def test_the_list_of_a_group_without_members_is_an_error(client: Client) -> None:
    answer = client.ask(Code.GET_CONSUMER_LIST_BY_GROUP, GroupHeader(consumer_group="g"))
    assert (answer.code, answer.remark) == (1, "no consumer for this group, g")


def test_a_version_2_heartbeat_answer_says_when_to_send_subscriptions(running: InProcess, client: Client) -> None:
    def second_version(fingerprint: int, without_sub: bool) -> str:
        subscriptions = [] if without_sub else [SubscriptionData.parse("t", "A", 1)]
        data = HeartbeatData(
            client_id="c", heartbeat_fingerprint=fingerprint, without_sub=without_sub,
            consumer_data_set=[ConsumerData(group_name="g", subscription_data_set=subscriptions)],
        )  # fmt: skip
        return client.ask(Code.HEART_BEAT, body=data.encode()).ext["IS_SUB_CHANGE"]

    assert second_version(11, without_sub=False) == "false"
    assert second_version(11, without_sub=True) == "false"
    assert running.services.clients.consumers.subscription("g", "t") is not None
    assert second_version(12, without_sub=True) == "true"


def test_garbage_for_a_heartbeat_is_answered(client: Client) -> None:
    answer = client.ask(Code.HEART_BEAT, body=b"{nonsense")
    assert answer.code == 1
    assert "HeartbeatData" in (answer.remark or "")


def test_who_is_connected_to_a_consumer_group(client: Client) -> None:
    unknown = client.ask(Code.GET_CONSUMER_CONNECTION_LIST, GroupHeader(consumer_group="g"))
    assert (unknown.code, unknown.remark) == (206, "the consumer group[g] not online")
    beat(client, "one", t="A")
    answer = client.ask(Code.GET_CONSUMER_CONNECTION_LIST, GroupHeader(consumer_group="g"))
    found = ConsumerConnection.decode(answer.body)
    [connection] = found.connection_set
    assert (connection.client_id, connection.client_addr) == ("one", client.peer.address)
    assert (connection.language, connection.version) == ("PYTHON", 513)
    assert found.subscription_table["t"].tags_set == ["A"]
    assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")


def test_who_is_connected_to_a_producer_group(client: Client) -> None:
    header = ProducerGroupHeader(producer_group="p")
    assert client.ask(Code.GET_PRODUCER_CONNECTION_LIST, header).code == 1
    client.ask(Code.HEART_BEAT, body=heartbeat("one", None, "p"))
    found = ProducerConnection.decode(client.ask(Code.GET_PRODUCER_CONNECTION_LIST, header).body)
    assert [connection.client_id for connection in found.connection_set] == ["one"]
    client.ask(Code.UNREGISTER_CLIENT, UnregisterClient(client_id="one", producer_group="p"))
    assert client.ask(Code.GET_PRODUCER_CONNECTION_LIST, header).code == 1


@pytest.mark.parametrize(("kind", "code"), [("TAG", 0), ("SQL92", 1)])
def test_whether_the_broker_can_filter(client: Client, kind: str, code: int) -> None:
    wanted = SubscriptionData(topic="t", sub_string="a", expression_type=kind)
    body = CheckClientConfig(client_id="c", group="g", subscription_data=wanted).encode()
    assert client.ask(Code.CHECK_CLIENT_CONFIG, body=body).code == code


def test_queues_are_locked_by_one_client_at_a_time(running: InProcess) -> None:
    def lock(client_id: str, code: Code = Code.LOCK_BATCH_MQ) -> list[int]:
        queues = [MessageQueueBody(topic="t", broker_name="broker-a", queue_id=queue) for queue in (0, 1)]
        body = LockBatchRequest(consumer_group="g", client_id=client_id, mq_set=queues).encode()
        answer = running.connect().ask(code, body=body)
        assert answer.code == 0
        return [mq.queue_id for mq in LockBatchResponse.decode(answer.body).lock_ok_mq_set] if answer.body else []

    assert lock("one") == [0, 1]
    assert lock("two") == []
    lock("one", Code.UNLOCK_BATCH_MQ)
    assert lock("two") == [0, 1]
    running.now += 60_001
    assert lock("one") == [0, 1]


def groups_of(count: int, consumers: bool) -> bytes:
    names = [f"g{number}" for number in range(count)]
    data = HeartbeatData(
        client_id="c",
        consumer_data_set=[ConsumerData(group_name=name) for name in names] if consumers else [],
        producer_data_set=[] if consumers else [ProducerData(group_name=name) for name in names],
    )
    return data.encode()


@pytest.mark.parametrize(("consumers", "most"), [(True, MAX_CONSUMER_GROUPS), (False, MAX_PRODUCER_GROUPS)])
def test_a_connection_has_a_bounded_number_of_groups(
    running: InProcess, client: Client, consumers: bool, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    kind = "consumer" if consumers else "producer"
    for _ in range(2):
        refused = client.ask(Code.HEART_BEAT, body=groups_of(most + 1, consumers))
        remark = f"{most + 1} {kind} groups are too many for one connection: at most {most} are possible"
        assert (refused.code, refused.remark) == (29, remark)
    assert not running.services.clients.consumers.groups
    assert caplog.text.count(f" at 127.0.0.1:50001 is refused: code 29: {remark}") == 2
    assert client.ask(Code.HEART_BEAT, body=groups_of(most, consumers)).code == 0
    assert client.ask(Code.HEART_BEAT, body=groups_of(most, consumers)).code == 0
    one_more = heartbeat("c", "more" if consumers else None, None if consumers else "more")
    assert client.ask(Code.HEART_BEAT, body=one_more).code == 29
    assert running.connect().ask(Code.HEART_BEAT, body=one_more).code == 0


def test_a_connection_has_a_bounded_number_of_client_ids(running: InProcess, client: Client) -> None:
    codes = [client.ask(Code.HEART_BEAT, body=heartbeat(f"c{n}", None, "p")).code for n in range(MAX_CLIENT_IDS + 1)]
    assert codes == [0] * MAX_CLIENT_IDS + [29]
    assert client.ask(Code.HEART_BEAT, body=heartbeat("c0", None, "p")).code == 0
    client.leave()
    assert running.services.clients.producers.find("c0") is None


def test_new_groups_of_a_heartbeat_are_written_together(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    change = JournaledFile.change
    monkeypatch.setattr(
        JournaledFile, "change", lambda self, *rest: (written.append(self.path.name), change(self, *rest))
    )
    assert client.ask(Code.HEART_BEAT, body=groups_of(100, consumers=True)).code == 0
    assert sorted(written) == ["subscriptionGroup.json", "topics.json"]
    assert client.ask(Code.HEART_BEAT, body=groups_of(100, consumers=True)).code == 0
    assert len(written) == 2
    assert {f"%RETRY%g{number}" for number in range(100)} <= running.services.topics.table.keys()


def test_a_body_that_is_too_long_is_refused(client: Client) -> None:
    refused = client.ask(Code.HEART_BEAT, body=b" " * (BODY_LIMITS[Code.HEART_BEAT] + 1))
    assert refused.remark == "the body of request HEART_BEAT has 1048577 bytes: at most 1048576 are possible"
