"""Queries of messages, the configuration, the runtime info, unknown requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.cluster import ExchangeHaInfo, NotifyMinBrokerIdChange, ResetMasterFlushOffset
from rocketmq_py.protocol.headers.pull import QueryMessage
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess, broker
from tests.unit.broker.requests import send


def find(client: Client, key: str, **more: bool) -> Sequence[str] | int:
    header = QueryMessage(topic="t", key=key, max_num=2, begin_timestamp=0, end_timestamp=2**62, **more)
    answer = client.ask(Code.QUERY_MESSAGE, header)
    assert answer.ext.keys() == {"indexLastUpdateTimestamp", "indexLastUpdatePhyoffset"}
    return answer.code or [message.msg_id for message in decode_records(answer.body)]


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
