"""How many brokers a SYNC_MASTER, ours or Java's, wants to have a message, and its answer where there are fewer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocketmq_py.core.peer import Reply
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.interop.javapeer import JavaPeer
from tests.interop.ours import OurServer, OurServers
from tests.interop.side import eventually

SETTINGS = {
    "inSyncReplicas": 2, "slaveTimeout": 500, "enableSlaveActingMaster": "true", "waitTimeMillsInSendQueue": 30_000,
    "mappedFileSizeCommitLog": 64 << 20,
}  # fmt: skip
TOO_FEW = (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")


@dataclass(slots=True)
class Master:
    """A SYNC_MASTER.

    :ivar join: starts a slave of it.
    """

    address: str
    join: Callable[[], OurServer]

    def ask(self, command: Command) -> Reply:
        async def ask() -> Reply:
            with closing(RpcClient()) as caller:
                return await caller.invoke(self.address, command, 60)

        return asyncio.run(ask())

    def set(self, key: str, value: object) -> None:
        answer = self.ask(Command(Code.UPDATE_BROKER_CONFIG, body=f"{key}={value}\n".encode()))
        assert answer.code == 0, answer

    def send(self, *, wait: bool = True) -> tuple[int, str | None]:
        """Code and remark of the answer to a send."""
        header = SendMessageV2(
            producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0, sys_flag=0,
            born_timestamp=1, flag=0, properties="" if wait else "WAIT\x01false\x02",
        )  # fmt: skip
        answer = self.ask(Command(Code.SEND_MESSAGE_V2, ext=header.to_ext(), body=b"m"))
        return answer.code, answer.remark


@pytest.fixture(params=["ours", "java"])
def master(request: pytest.FixtureRequest, servers: OurServers, java: JavaPeer, tmp_path: Path) -> Iterator[Master]:
    namesrv = servers.namesrv().namesrv
    if request.param == "ours":
        ours = servers.serve(tmp_path / "master", "--namesrv", namesrv, "--role", "SYNC_MASTER", **SETTINGS)
        address, kill = ours.broker, ours.kill
    else:
        theirs = java.broker(namesrv, role="SYNC_MASTER", conf=SETTINGS)
        address, kill = theirs.address, theirs.process.kill

    def join() -> OurServer:
        return servers.serve(tmp_path / "slave", "--namesrv", namesrv, "--role", "SLAVE", "--id", "1", **SETTINGS)

    yield Master(address, join)
    kill()


def test_a_sync_master_requires_the_same_replicas(master: Master) -> None:
    assert master.send() == TOO_FEW
    assert master.send(wait=False)[0] == ResponseCode.SUCCESS
    master.set("enableAutoInSyncReplicas", "true")
    assert master.send()[0] == ResponseCode.SUCCESS, "the master alone will do"
    master.set("minInSyncReplicas", 2)
    assert master.send() == TOO_FEW
    slave = master.join()
    eventually(master.send, lambda told: told[0] == ResponseCode.SUCCESS)
    slave.kill()
    eventually(master.send, lambda told: told == TOO_FEW)
    master.set("minInSyncReplicas", 1)
    assert master.send()[0] == ResponseCode.SUCCESS
