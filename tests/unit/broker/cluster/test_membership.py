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
