"""The members of a broker name and the smallest id, with name servers that are gone or have no answer."""

from __future__ import annotations

import asyncio

import pytest

from rocketmq_py.broker.cluster.membership import Membership
from rocketmq_py.broker.cluster.role import Role
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply
from rocketmq_py.errors import ConnectError
from rocketmq_py.protocol.headers.cluster import NotifyMinBrokerIdChange
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command


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


def test_the_first_name_server_with_members_is_used() -> None:
    servers = NameServers(two=NOBODY, three=BOTH)
    assert asyncio.run(membership(servers)[0].members()) == {0: "m:1", 1: "s:1"}
    assert servers.asked == ["one:1", "two:1", "three:1"]


def test_without_an_answer_there_are_no_members_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    group, role = membership(NameServers())
    for _ in range(3):
        assert asyncio.run(group.members()) == {}
    assert caplog.text.count("no name server returns the members of broker") == 1
    assert not role.is_acting


def test_a_malformed_answer_is_ignored() -> None:
    servers = NameServers(one=b"[]", two=b'{"brokerMemberGroup":null}', three=BOTH)
    assert asyncio.run(membership(servers)[0].members())


def test_notifications_of_its_own_name_count_once() -> None:
    renewed: list[int] = []
    group, role = membership(NameServers(), renewed)
    group.notified(NotifyMinBrokerIdChange(min_broker_id=1, broker_name="broker-b", min_broker_addr="x:1"))
    group.notified(NotifyMinBrokerIdChange(broker_name="broker-a"))
    assert not role.is_acting
    for _ in range(2):
        group.notified(NotifyMinBrokerIdChange(min_broker_id=1, broker_name="broker-a", min_broker_addr="s:1"))
    assert role.is_acting
    assert renewed == [1]


@pytest.mark.parametrize(("answer", "alive"), [(BOTH, 2), (BOTH.replace(b'1:"s:1"', b'2:"s:2"'), 3), (NOBODY, 5)])
def test_members_are_counted_this_one_always(answer: bytes, alive: int) -> None:
    """As many as there are to be are taken to be there, as long as nobody has told."""
    group, role = membership(NameServers(one=answer))
    role.alive_replicas = 5
    asyncio.run(group._query_members())
    assert role.alive_replicas == alive


# -- in the background


class Beats(NameServers):
    """Notes requests with their times; every name server answers with both members unless it is ``down``."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, dict[str, str], float, float]] = []
        self.down: set[str] = set()
        self.closed = 0

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        at = asyncio.get_running_loop().time()
        self.seen.append((address, int(command.code), dict(command.ext), timeout, at))
        if address in self.down:
            raise ConnectError(f"cannot connect to {address}")
        return Reply(0, command.opaque, body=BOTH)

    def close(self) -> None:
        self.closed += 1


async def lived(group: Membership, seconds: float) -> None:
    group.start()
    await asyncio.sleep(seconds)
    await group.stop()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_heartbeats_go_to_every_name_server_every_second() -> None:
    servers = Beats()
    servers.down = {"one:1"}
    asyncio.run(lived(membership(servers)[0], 3.5))
    beats = [seen for seen in servers.seen if seen[1] == 904]
    assert [address for address, *_ in beats] == ["one:1", "two:1", "three:1"] * 3
    assert beats[3][4] - beats[0][4] == pytest.approx(1.0, abs=0.4)
    assert beats[0][2] == {"clusterName": "DefaultCluster", "brokerAddr": "s:1", "brokerName": "broker-a",
                           "brokerId": "1"}  # fmt: skip
    assert beats[0][3] == 1.0
    assert servers.closed == 1


def test_members_are_asked_for_every_second() -> None:
    servers = Beats()
    group, role = membership(servers)
    asyncio.run(lived(group, 2.5))
    queries = [seen for seen in servers.seen if seen[1] == 901]
    assert [address for address, *_ in queries] == ["one:1"] * 2
    assert queries[0][2] == {"clusterName": "DefaultCluster", "brokerName": "broker-a"}
    assert (role.alive_replicas, role.is_acting) == (2, False)


def test_without_the_setting_nothing_is_sent() -> None:
    servers = Beats()
    config = BrokerConfig(broker_role="SLAVE", broker_id=1, namesrv_addr="one:1")
    asyncio.run(lived(Membership(config, Role(config, 10911), servers, "s:1", lambda: None), 5))
    assert servers.seen == []


def test_a_slave_acts_when_it_is_the_smallest_and_stops_when_the_master_is_back() -> None:
    renewed: list[int] = []
    servers = NameServers(one=BOTH.replace(b'0:"m:1",', b""))
    group, role = membership(servers, renewed)
    asyncio.run(group._query_members())
    assert (role.is_acting, renewed) == (True, [1])
    servers.answers["one"] = BOTH
    asyncio.run(group._query_members())
    assert (role.is_acting, renewed) == (False, [1, 1])


def test_name_servers_that_fail_again_are_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    servers = NameServers()
    group, _ = membership(servers)
    for answers in ({}, {"three": BOTH}, {}):
        servers.answers = answers
        for _ in range(2):
            asyncio.run(group.members())
    assert caplog.text.count("no name server returns the members of broker broker-a: cannot connect to three:1") == 2
