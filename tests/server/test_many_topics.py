"""Hundreds of new topics and groups survive a kill and are registered together."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rocketmq_py.broker import Broker, BrokerConfig
from rocketmq_py.broker.cluster import registration
from rocketmq_py.errors import ConnectError, ConnectionLost
from rocketmq_py.namesrv import NameServer, NamesrvConfig
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.bodies.route import TopicList
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.topic import CreateTopic, TopicName
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server.runner import started
from rocketmq_py.wire.command import Command
from tests.interop.ours import READY, first_line

SECONDS = 240.0
"""Longer than anything here takes; only a test that fails waits for it."""
MANY = 300


def create(topic: str) -> Command:
    header = CreateTopic(
        topic=topic, default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG", order=False,
    )  # fmt: skip
    return Command(Code.UPDATE_AND_CREATE_TOPIC, ext=header.to_ext())


def create_group(group: str) -> Command:
    return Command(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=SubscriptionGroupConfig(group_name=group).encode())


def make(root: Path, namesrv: str = "") -> Broker:
    return Broker(
        BrokerConfig(listen_port=0, bind_address="127.0.0.1", store_path_root_dir=str(root), namesrv_addr=namesrv)
    )


class Served:
    """Name server and broker as a process of their own."""

    def __init__(self, store: Path) -> None:
        ports = ["--namesrv-port", "0", "--port", "0"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rocketmq_py.cli", "serve", "--store", str(store), *ports],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        found = READY.search(first_line(self.process))
        assert found is not None
        self.address = found[2]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


async def create_until_killed(served: Served) -> tuple[list[str], list[str]]:
    """Topics and groups that were acknowledged before the process was killed, in the midst of more."""
    caller, topics, groups = RpcClient(), list[str](), list[str]()
    try:
        for number in range(10 * MANY):
            if number == MANY:
                served.process.send_signal(signal.SIGKILL)
            assert (await caller.invoke(served.address, create(f"t-{number}"), SECONDS)).code == 0
            topics.append(f"t-{number}")
            assert (await caller.invoke(served.address, create_group(f"g-{number}"), SECONDS)).code == 0
            groups.append(f"g-{number}")
    except (ConnectError, ConnectionLost):
        pass
    finally:
        caller.close()
    return topics, groups


@pytest.mark.skipif(os.name != "posix", reason="kills processes")
def test_created_topics_survive_a_kill(tmp_path: Path) -> None:
    served = Served(tmp_path / "store")
    try:
        topics, groups = asyncio.run(create_until_killed(served))
    finally:
        served.kill()
    assert MANY <= len(topics) < 10 * MANY

    async def scenario() -> None:
        async with started(make(tmp_path / "store")) as broker:
            assert broker.services.topics.table.keys() >= set(topics)
            assert broker.services.groups.table.keys() >= set(groups)

    asyncio.run(scenario())
    assert not list((tmp_path / "store" / "config").glob("*.journal")), "at rest there are only Java's files"


def test_concurrently_created_topics_are_registered_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    invoke = RpcClient.invoke

    async def counted(self: RpcClient, address: str, command: Command, timeout: float):
        if command.code == Code.REGISTER_BROKER:
            told.append(len(command.body))
        return await invoke(self, address, command, timeout)

    async def created_and_known(caller: RpcClient, broker: Broker, namesrv: str, topic: str) -> bool:
        assert (await caller.invoke(broker.address, create(topic), SECONDS)).code == 0
        ext = TopicName(topic=topic).to_ext()
        return (await caller.invoke(namesrv, Command(Code.GET_ROUTEINFO_BY_TOPIC, ext=ext), SECONDS)).code == 0

    async def scenario() -> None:
        async with (
            started(NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"))) as namesrv,
            started(make(tmp_path, namesrv.address)) as broker,
        ):
            monkeypatch.setattr(RpcClient, "invoke", counted)
            monkeypatch.setattr(registration, "_FLUSH_SECONDS", SECONDS)
            caller = RpcClient()
            topics = [f"t-{number}" for number in range(MANY)]
            known = await asyncio.gather(
                *(created_and_known(caller, broker, namesrv.address, topic) for topic in topics)
            )
            assert all(known), "a topic is answered when name servers know of it"
            listed = await caller.invoke(namesrv.address, Command(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), SECONDS)
            assert set(TopicList.decode(listed.body).topic_list) >= set(topics)
            caller.close()

    asyncio.run(scenario())
    assert 0 < len(told) < MANY // 2
