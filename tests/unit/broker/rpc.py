"""Other servers without connections: a client for requests whose answers a test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from rocketmq_py.core.peer import Reply
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.wire.command import Command


class Asked(NamedTuple):
    """A request, where it was sent to and how many seconds it might take."""

    address: str
    command: Command
    timeout: float


Answer = Callable[[str, Command], Reply | Exception]


class Others(RpcClient):
    """Answers by a function; an exception is raised instead. ``asked`` are the requests in their order.

    ``turns``: an answer takes so many turns of the event loop.
    """

    def __init__(self, answer: Answer, on_lost: Callable[[str], None] = lambda _: None) -> None:
        super().__init__()
        self.answer = answer
        self.on_lost = on_lost
        self.asked: list[Asked] = []
        self.turns = 0
        self.is_closed = False

    async def invoke(self, address: str, command: Command, timeout: float) -> Reply:
        self.asked.append(Asked(address, command, timeout))
        for _ in range(self.turns):
            await asyncio.sleep(0)
        answer = self.answer(address, command)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.is_closed = True

    def codes(self, address: str | None = None) -> list[int]:
        """The codes of the requests in their order, of those to one address if it is given."""
        return [asked.command.code for asked in self.asked if address in (None, asked.address)]


def reply(code: int = 0, body: bytes = b"", remark: str | None = None, **ext: str) -> Reply:
    return Reply(code, 1, remark=remark, fields=msgspec.Raw(msgspec.json.encode(ext)), body=body)


def route(brokers: dict[str, dict[int, str]], queues: int = 1, only: Iterable[str] | None = None) -> Reply:
    """A name server's answer: brokers by name, with addresses by id; ``only`` some of them have the topic's queues."""
    found = [
        QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6)
        for name in (brokers if only is None else only)
    ]
    data = [BrokerData(cluster="c", broker_name=name, broker_addrs=ids) for name, ids in brokers.items()]
    return reply(body=TopicRouteData(queue_datas=found, broker_datas=data).encode())
