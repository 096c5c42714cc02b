"""Registration at the name servers: encoding, and limits of concurrent requests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from rocketmq_py.broker.cluster import registration
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command
from tests.unit.broker.harness import InProcess, broker


class NameServer(RpcClient):
    """Answers every request and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Command] = []
        self.running = self.most = 0

    async def ask(self, address: str, command: Command, timeout: float) -> Command:
        del address, timeout
        self.requests.append(command)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        return Command(0)

    async def invoke(self, address: str, command: Command, timeout: float) -> Command:
        return await self.ask(address, command, timeout)


def topics(count: int) -> list[TopicConfig]:
    return [TopicConfig(topic_name=f"t{n}", read_queue_nums=1, write_queue_nums=1, perm=6) for n in range(count)]


def registered(running: InProcess, namesrv: NameServer) -> registration.Registration:
    return registration.Registration(
        running.config,
        running.services.topics,
        running.services.mappings.infos,
        lambda **_: namesrv,
        running.services.address,
        running.services.role,
    )


def test_all_topics_are_encoded_again_only_after_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    encode = RegisterBrokerBody.encode
    monkeypatch.setattr(RegisterBrokerBody, "encode", lambda self: encoded.append(1) or encode(self))
    with broker(tmp_path, namesrv_addr="127.0.0.1:9876") as running:
        namesrv = NameServer()
        subject = registered(running, namesrv)

        async def register() -> RegisterBrokerBody:
            await subject._register_all(running.config.namesrv_addresses)
            return RegisterBrokerBody.decode(bytes(namesrv.requests[-1].body))

        asyncio.run(register())
        asyncio.run(register())
        assert len(encoded) == 1
        running.services.topics.put(topics(1))
        body = asyncio.run(register())
        assert len(encoded) == 2
        assert "t0" in body.topic_config_serialize_wrapper.topic_config_table
        running.config.broker_permission = 4
        body = asyncio.run(register())
        assert body.topic_config_serialize_wrapper.topic_config_table["t0"].perm == 4


def test_a_burst_of_topics_is_registered_a_few_at_a_time(tmp_path: Path) -> None:
    with broker(tmp_path, namesrv_addr="127.0.0.1:9876", enable_single_topic_register=True) as running:
        namesrv = NameServer()
        subject = registered(running, namesrv)

        async def flush() -> None:
            subject.topics_changed(topics(100))
            await subject.flush()

        asyncio.run(flush())
        assert [request.code for request in namesrv.requests] == [Code.REGISTER_TOPIC_IN_NAMESRV] * 100
        assert namesrv.most == registration._AT_ONCE
