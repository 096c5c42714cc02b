"""The members of a broker name and the smallest id, with name servers that are gone or have no answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.unit.broker.rpc import Others, reply


class NameServers(RpcClient):
    """Answers by address; an address that is not known is not there."""

    def __init__(self, **answers: bytes) -> None:
        super().__init__()
        self.answers = answers
        self.asked: list[str] = []

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        self.asked.append(address)
        body = self.answers.get(address.partition(":")[0])
        if body is None:
            raise ConnectError(f"cannot connect to {address}")
        return Reply(0, command.opaque, body=body)


NOBODY = b'{"brokerMemberGroup":{"cluster":"c","brokerName":"broker-a","brokerAddrs":{}}}'
BOTH = b'{"brokerMemberGroup":{"cluster":"c","brokerName":"broker-a","brokerAddrs":{0:"m:1",1:"s:1"}}}'


def membership(outward: RpcClient, renewed: list[int] | None = None) -> tuple[Membership, Role]:
    config = BrokerConfig(
        broker_role="SLAVE", broker_id=1, enable_slave_acting_master=True, namesrv_addr="one:1;two:1;three:1"
    )
    role = Role(config, 10911)
    heard: list[int] = [] if renewed is None else renewed
    return Membership(config, role, outward, "s:1", lambda: heard.append(1)), role


@pytest.mark.parametrize("body", [b"[]", b'{"brokerMemberGroup":null}', b"", b"no JSON", b"\xff", b"{"])
def test_a_malformed_answer_is_ignored(body: bytes) -> None:
    servers = NameServers(one=body, two=body, three=BOTH)
    assert asyncio.run(membership(servers)[0].members()) == {0: "m:1", 1: "s:1"}


async def test_queries_go_on_after_malformed_answers() -> None:
    group, role = membership(NameServers(one=b"", two=b"", three=b""))
    group.start()
    await asyncio.sleep(3)
    group._rpc_client.answers["one"] = BOTH.replace(b'0:"m:1",', b"")  # type: ignore[attr-defined]
    await asyncio.sleep(2)
    assert role.is_acting
    await group.stop()


# -- heartbeats and queries


class Servers(Others):
    """Two name servers; ``down`` ones do not answer."""

    def __init__(self) -> None:
        super().__init__(self._said)
        self.down: set[str] = set()

    def _said(self, address: str, command: Command) -> Reply | Exception:
        if address in self.down:
            return ConnectError(f"{address} is down")
        return reply(body=BOTH if command.code == GET_MEMBERS else b"")


GET_MEMBERS, HEARTBEAT = 901, 904


def beating(servers: Servers, renewed: list[int], **settings: Any) -> tuple[Membership, Role]:
    config = BrokerConfig(
        **{"broker_role": "SLAVE", "broker_id": 1, "broker_name": "here", "broker_cluster_name": "c",
           "enable_slave_acting_master": True, "namesrv_addr": "one:1;two:1"} | settings
    )  # fmt: skip
    role = Role(config, 10911)
    return Membership(config, role, servers, "10.0.0.5:10911", lambda: renewed.append(1)), role


async def test_heartbeats_and_queries_are_sent_every_second(caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers()
    servers.down.add("one:1")
    group, role = beating(servers, [])
    group.start()
    assert servers.asked == []
    await asyncio.sleep(2.5)
    beats = [asked for asked in servers.asked if asked.command.code == HEARTBEAT]
    assert [asked.address for asked in beats] == ["one:1", "two:1"] * 2
    assert {asked.timeout for asked in servers.asked} == {1.0}
    assert beats[0].command.ext == {
        "clusterName": "c", "brokerAddr": "10.0.0.5:10911", "brokerName": "here", "brokerId": "1",
    }  # fmt: skip
    queries = [asked for asked in servers.asked if asked.command.code == GET_MEMBERS]
    assert [asked.address for asked in queries] == ["one:1", "two:1"] * 2
    assert queries[0].command.ext == {"clusterName": "c", "brokerName": "here"}
    assert role.alive_replicas == 2
    assert not caplog.records
    await group.stop()
    assert servers.is_closed
    await asyncio.sleep(10)
    assert len(servers.asked) == 8
    await group.stop()


async def test_the_intervals_are_those_of_the_settings() -> None:
    servers = Servers()
    group, _ = beating(
        servers, [], broker_heartbeat_interval=3_000, sync_broker_member_group_period=10_000,
        send_heartbeat_timeout_millis=500,
    )  # fmt: skip
    group.start()
    await asyncio.sleep(20.5)
    assert [servers.codes("two:1").count(HEARTBEAT), servers.codes("one:1").count(GET_MEMBERS)] == [6, 2]
    assert {asked.timeout for asked in servers.asked} == {0.5}
    await group.stop()


async def test_without_the_setting_nothing_is_sent() -> None:
    servers = Servers()
    group, _ = beating(servers, [], enable_slave_acting_master=False)
    group.start()
    await asyncio.sleep(10)
    assert servers.asked == []
    await group.stop()
    assert servers.is_closed


async def test_the_smallest_id_of_the_members_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    servers, renewed = Servers(), list[int]()
    group, role = beating(servers, renewed)
    await group._query_members()
    assert (role.is_acting, renewed) == (False, [])
    heard: list[tuple[int, str | None]] = []
    update = role.update_smallest_id
    monkeypatch.setattr(role, "update_smallest_id", lambda *told: heard.append(told) or update(*told))
    monkeypatch.setattr("tests.unit.broker.cluster.test_membership_queries.BOTH", BOTH.replace(b"0:", b"2:"))
    await group._query_members()
    assert (role.is_acting, renewed, heard) == (True, [1], [(1, "s:1")])
    assert role.alive_replicas == 2


async def test_a_warning_is_repeated_after_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    servers = Servers()
    group, _ = beating(servers, [])
    for down in (["one:1", "two:1"], [], ["one:1", "two:1"]):
        servers.down = set(down)
        await group.members()
    assert [record.message for record in caplog.records] == [
        "no name server returns the members of broker here: two:1 is down"
    ] * 2
