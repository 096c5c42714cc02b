"""Queries of messages, the configuration, the runtime info, unknown requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from rocketmq_py.broker.stats import Meter
from rocketmq_py.protocol.bodies.admin import HaStatus
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
    assert table["servesGrpc"] == "true"
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


# -- requests of name servers and other brokers, and of administrators about files


def test_brokers_of_the_same_name_exchange_their_logs(running: InProcess, client: Client) -> None:
    answer = client.ask(Code.EXCHANGE_BROKER_HA_INFO, ExchangeHaInfo())
    assert answer.ext == {
        "masterHaAddress": running.services.role.ha_address, "masterFlushOffset": "0",
        "masterAddress": running.services.address,
    }  # fmt: skip
    told = ExchangeHaInfo(master_address="m:1", master_ha_address="m:2")
    assert client.ask(Code.EXCHANGE_BROKER_HA_INFO, told).ext == {}


def test_the_state_of_replication_is_shown(running: InProcess, client: Client) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    status = HaStatus.decode(client.ask(Code.GET_BROKER_HA_STATUS).body)
    assert (status.master, status.in_sync_slave_nums, status.ha_connection_info) == (True, 0, [])
    assert status.master_commit_log_max_offset == running.services.store.max_physical_offset > 0


def test_a_slave_notes_the_flushed_offset_of_its_master(tmp_path: Path) -> None:
    with broker(tmp_path, broker_role="SLAVE", broker_id=1) as slave:
        client = slave.connect()
        assert client.ask(Code.RESET_MASTER_FLUSH_OFFSET, ResetMasterFlushOffset(master_flush_offset=77)).code == 0
        status = HaStatus.decode(client.ask(Code.GET_BROKER_HA_STATUS).body)
        assert not status.master
        assert fastjson.loads(client.ask(Code.GET_BROKER_HA_STATUS).body)["haClientRuntimeInfo"][
            "masterFlushOffset"
        ] == 77  # fmt: skip


def test_news_of_the_smallest_id_reach_the_role(tmp_path: Path) -> None:
    with broker(tmp_path, broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True) as slave:
        news = NotifyMinBrokerIdChange(min_broker_id=1, broker_name="broker-a", min_broker_addr="s:1")
        assert slave.connect().ask(Code.NOTIFY_MIN_BROKER_ID_CHANGE, news).code == 0
        assert slave.services.role.is_acting


def test_queues_of_topics_that_are_gone_are_deleted(running: InProcess, client: Client) -> None:
    for topic in ("gone", "kept"):
        client.ask(Code.SEND_MESSAGE_V2, send(topic), b"body")
    running.turn()
    del running.services.topics.table["gone"]
    assert client.ask(Code.CLEAN_UNUSED_TOPIC).code == 0
    assert {topic for topic, _ in running.services.store.queues()} == {"kept"}


def test_expired_files_are_deleted_on_request(
    running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    asked: list[str] = []
    monkeypatch.setattr(running.services.store, "delete_expired", lambda: asked.append("files"))
    assert client.ask(Code.DELETE_EXPIRED_COMMITLOG).code == 0
    assert asked == ["files"]
    assert client.ask(Code.CLEAN_EXPIRED_CONSUMEQUEUE).code == 0
    assert asked == ["files"]
    assert [line.partition(" ")[2] for line in caplog.messages if " requested " in line] == [
        "requested the deletion of expired commit log files", "requested the cleaning of expired consume queues"
    ]  # fmt: skip
