"""Queries of messages, the configuration, the runtime info, unknown requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketmq_py.broker.stats import Meter
from rocketmq_py.protocol.bodies.route import KvTable
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo, NotifyMinBrokerIdChange, ResetMasterFlushOffset
from rocketmq_py.protocol.headers.pull import QueryMessage, ViewMessage
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import pull, send


def find(client: Client, key: str, **more: bool) -> Sequence[str] | int:
    header = QueryMessage(topic="t", key=key, max_num=2, begin_timestamp=0, end_timestamp=2**62, **more)
    answer = client.ask(Code.QUERY_MESSAGE, header)
    assert answer.ext.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    return answer.code or [message.msg_id for message in decode_records(answer.body)]


def test_messages_are_found_by_key(client: Client) -> None:
    for name in ("U1", "U2", "U3"):
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"KEYS": "k", "UNIQ_KEY": name}), b"body")
    assert len(find(client, "k")) == 2  # type: ignore[arg-type]
    assert len(find(client, "k", unique_key_query=True)) == 3  # type: ignore[arg-type]
    assert find(client, "U2", unique_key_query=True) == ["U2"]
    assert find(client, "nothing") == 22


def test_a_message_is_found_by_its_id(client: Client) -> None:
    sent = client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    offset = int(sent.ext["msgId"][16:], 16)
    [message] = decode_records(client.ask(Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=offset)).body)
    assert message.offset_msg_id == sent.ext["msgId"]
    answer = client.ask(Code.VIEW_MESSAGE_BY_ID, ViewMessage(offset=99_999))
    assert (answer.code, answer.remark) == (1, "can not find message by the offset, 99999")


def test_settings_have_the_names_of_java(client: Client) -> None:
    answer = client.ask(Code.GET_BROKER_CONFIG)
    lines = dict(line.split("=", 1) for line in answer.body.decode().splitlines())
    assert lines["brokerName"] == "broker-a"
    assert lines["brokerIP1"] == "127.0.0.1"
    assert lines["autoCreateTopicEnable"] == "true"
    assert lines["flushDiskType"] == "ASYNC_FLUSH"
    assert fastjson.loads(answer.ext["version"]).keys() == {"counter", "stateVersion", "timestamp"}


def test_runtime_info_has_the_keys_of_java(running: InProcess, client: Client) -> None:
    running.turn()
    for _ in range(4):
        client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"body")
        running.turn(1_000)
    client.ask(Code.PULL_MESSAGE, pull())
    client.ask(Code.PULL_MESSAGE, pull(offset=4))
    running.turn(1_000)
    table = KvTable.decode(client.ask(Code.GET_BROKER_RUNTIME_INFO).body).table
    assert table["brokerActive"] == "true"
    assert table["brokerVersionDesc"] == "V5_5_0"
    assert table["msgPutTotalTodayNow"] == "4"
    assert table["msgGetTotalTodayNow"] == "4"
    assert table["scheduleMessageOffset_1"] == "4,4"
    rates = [float(rate) for rate in table["putTps"].split()]
    assert len(rates) == 3
    assert all(rate > 0 for rate in rates)
    assert int(table["commitLogMaxOffset"]) > 0
    assert table["runtime"] == "[ 0 days, 0 hours, 0 minutes, 5 seconds ]"


def test_offsets_of_delay_levels_are_shown(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"body")
    running.turn(1_000)
    assert fastjson.loads(client.ask(Code.GET_ALL_DELAY_OFFSET).body)["offsetTable"] == {"1": 1}


@pytest.mark.parametrize("code", [354, 355, 1_007, 2_003, 29_999])
def test_unknown_requests_are_refused_by_name(client: Client, code: int) -> None:
    answer = client.ask(code)
    assert (answer.code, answer.remark) == (3, f" request type {int(code)} not supported")


def test_a_meter_reaches_as_far_back_as_its_samples() -> None:
    meter = Meter(100)
    assert meter.rate(10_000) == 0.0
    for second in range(21):
        meter.count = second * 5 if second <= 10 else 50
        meter.sample(second * 1_000)
    assert meter.rate(10_000) == 0.0
    assert meter.rate(20_000) == 2.5
    assert meter.rate(600_000) == 2.5


# -- requests of administrators


def test_settings_are_changed_and_answered_after_the_name_servers_know(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []

    async def flush() -> None:
        flushed.append(running.config.split_metadata_size)

    monkeypatch.setattr(running.services.registration, "flush", flush)
    answer = client.ask(Code.UPDATE_BROKER_CONFIG, body=b"splitMetadataSize=7\nmaxMessageSize=5000")
    assert (answer.code, answer.remark) == (0, None)
    assert (running.config.split_metadata_size, flushed) == (7, [7])
    answer = client.ask(Code.UPDATE_BROKER_CONFIG, body=b"reviveQueueNum=3\ndefaultTopicQueueNums=2\nlistenPort=1")
    assert answer.code == 0
    assert answer.remark == "in force from the next start on: defaultTopicQueueNums, listenPort, reviveQueueNum"
    flushed.clear()
    answer = client.ask(Code.UPDATE_BROKER_CONFIG)
    assert (answer.code, answer.remark, flushed) == (0, None, [])
    answer = client.ask(Code.UPDATE_BROKER_CONFIG, body=b"#" * (1 << 20) + b"#")
    assert answer.code == 29


def test_expired_files_are_deleted_on_request(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    deleted: list[int] = []
    monkeypatch.setattr(running.services.store, "delete_expired", lambda: deleted.append(1))
    with caplog.at_level("INFO"):
        assert client.ask(Code.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
        assert deleted == []
        assert client.ask(Code.DELETE_EXPIRED_COMMITLOG).code == 0
    assert deleted == [1]
    assert [record.message for record in caplog.records if "requested" in record.message] == [
        f"{client.peer.address} requested the cleaning of expired consume queues",
        f"{client.peer.address} requested the deletion of expired commit log files",
    ]


def test_queues_of_topics_that_are_gone_are_deleted_on_request(
    running: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("here", "gone", "also-gone"):
        client.ask(Code.SEND_MESSAGE_V2, send(topic), b"body")
    client.ask(Code.SEND_MESSAGE_V2, send(properties={"DELAY": "1"}), b"delayed")
    stored = {topic for topic, _ in running.services.store.queues()}
    for topic in ("gone", "also-gone", "SCHEDULE_TOPIC_XXXX"):
        running.services.topics.table.pop(topic, None)
    with caplog.at_level("INFO"):
        assert client.ask(Code.CLEAN_UNUSED_TOPIC).code == 0
    assert {topic for topic, _ in running.services.store.queues()} == stored - {"gone", "also-gone"}
    said = [record.message for record in caplog.records if "no longer exists" in record.message]
    assert [line.split(",")[0] for line in said] == [
        "deleting the queues of topic also-gone", "deleting the queues of topic gone",
    ]  # fmt: skip


# -- requests of name servers and of brokers of the same name


def test_the_smallest_id_is_told_by_name_servers(tmp_path: Path) -> None:
    with broker(tmp_path, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as running:
        told = NotifyMinBrokerIdChange(min_broker_id=1, broker_name="broker-a", min_broker_addr="s:1")
        assert running.connect().ask(Code.NOTIFY_MIN_BROKER_ID_CHANGE, told).code == 0
        assert running.services.role.is_acting


def test_the_ha_address_is_exchanged(running: InProcess, client: Client, tmp_path: Path) -> None:
    answer = client.ask(Code.EXCHANGE_BROKER_HA_INFO, ExchangeHaInfo())
    assert answer.ext == {
        "masterHaAddress": "127.0.0.1:10912", "masterFlushOffset": "0", "masterAddress": "127.0.0.1:10911",
    }  # fmt: skip
    with broker(tmp_path / "slave", broker_role="SLAVE", broker_id=1) as slave:
        told = ExchangeHaInfo(master_ha_address="m:2", master_address="m:1")
        answer = slave.connect().ask(Code.EXCHANGE_BROKER_HA_INFO, told)
        assert (answer.code, answer.ext, slave.services.role.master) == (0, {}, ("m:1", "m:2"))


def test_the_status_of_replication_is_shown(running: InProcess, client: Client, tmp_path: Path) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    tree = fastjson.loads(client.ask(Code.GET_BROKER_HA_STATUS).body)
    assert (tree["master"], tree["masterCommitLogMaxOffset"]) == (True, running.services.store.max_physical_offset)
    with broker(tmp_path / "slave", broker_role="SLAVE", broker_id=1) as slave:
        told = ResetMasterFlushOffset(master_flush_offset=77)
        assert slave.connect().ask(Code.RESET_MASTER_FLUSH_OFFSET, told).code == 0
        tree = fastjson.loads(slave.connect().ask(Code.GET_BROKER_HA_STATUS).body)
        assert (tree["master"], tree["haClientRuntimeInfo"]["masterFlushOffset"]) == (False, 77)
