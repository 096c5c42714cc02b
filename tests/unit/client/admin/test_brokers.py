"""Requests about one broker."""

from __future__ import annotations

import json

import pytest

from rocketmq_py.aio import Admin
from rocketmq_py.errors import MessageRefused
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.admin.scripted_cluster import ScriptedCluster, body, refused, with_admin


@with_admin()
async def test_the_state_of_a_broker_is_a_table(admin: Admin, cluster: ScriptedCluster) -> None:
    cluster.answers[Code.GET_BROKER_RUNTIME_INFO] = lambda *_: body(b'{"table":{"putTps":"1.0"}}')
    assert await admin.broker_state("a:2") == {"putTps": "1.0"}
    assert cluster.asked(Code.GET_BROKER_RUNTIME_INFO) == ["a:2"]


@with_admin()
async def test_a_configuration_is_read_line_by_line(admin: Admin, cluster: ScriptedCluster) -> None:
    text = b"#a comment=1\n\nbrokerName = b\nempty=\nopts=-Dx=y\n"
    cluster.answers[Code.GET_BROKER_CONFIG] = lambda *_: body(text)
    assert await admin.broker_config("a:1") == {"brokerName": "b", "empty": "", "opts": "-Dx=y"}


@with_admin()
async def test_changes_of_a_configuration_are_sent_as_lines(admin: Admin, cluster: ScriptedCluster) -> None:
    assert await admin.update_broker_config("a:1", {"brokerPermission": "4", "x": "y"}) == ""
    [sent] = cluster.bodies(Code.UPDATE_BROKER_CONFIG)
    assert sorted(sent.decode().split()) == ["brokerPermission=4", "x=y"]
    cluster.answers[Code.UPDATE_BROKER_CONFIG] = lambda *_: Command(0, remark="after a restart: x")
    assert await admin.update_broker_config("a:1", {"x": "y"}) == "after a restart: x"
    cluster.answers[Code.UPDATE_BROKER_CONFIG] = lambda *_: refused(ResponseCode.MESSAGE_ILLEGAL)
    with pytest.raises(MessageRefused):
        await admin.update_broker_config("a:1", {"x": "y"})


@with_admin()
async def test_replication_of_a_master_and_of_a_slave(admin: Admin, cluster: ScriptedCluster) -> None:
    slave = {"addr": "s:2", "slaveAckOffset": 5, "diff": 1, "inSync": True}
    status = {"master": True, "masterCommitLogMaxOffset": 6, "inSyncSlaveNums": 1, "haConnectionInfo": [slave]}
    cluster.answers[Code.GET_BROKER_HA_STATUS] = lambda *_: body(json.dumps(status).encode())
    found = await admin.replication("a:1")
    assert (found.master, found.master_commit_log_max_offset, found.in_sync_slave_nums) == (True, 6, 1)
    [one] = found.ha_connection_info
    assert (one.addr, one.slave_ack_offset, one.diff, one.in_sync) == ("s:2", 5, 1, True)
    status.update(master=False, haConnectionInfo=[])
    assert not (await admin.replication("a:1")).master
