"""Members of one group as plain connections, which join, wait in a pull, and disconnect, all at the same time."""

from __future__ import annotations

import asyncio
import resource
from typing import Self

from benchmarks.errors import BenchError
from benchmarks.growth.tables import QUEUES
from rocketmq_py.protocol.bodies.client import ConsumerData, HeartbeatData, SubscriptionData
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.group import GroupHeader
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

GROUP = "members"
_HELD_MILLIS = 600_000
_TIMEOUT = 120.0


class Members:
    """Connections of one group's members to one broker. A context manager that closes them."""

    def __init__(self, members: list[_Member]) -> None:
        self._members = members

    @classmethod
    async def connect(cls, address: str, topic: str, number: int) -> Self:
        """Open the connections; nothing is sent yet."""
        _allow_descriptors(number + 1_000)
        host, _, port = address.rpartition(":")
        members = []
        for index in range(number):
            reader, writer = await asyncio.open_connection(host, int(port))
            members.append(_Member(reader, writer, topic, index))
        return cls(members)

    async def join(self) -> None:
        """Send all heartbeats at once; each member then requests the list of members, as notified clients do.

        :raises BenchError: a request of a member is refused.
        :raises TimeoutError: a member has no answer within two minutes.
        """
        await asyncio.wait_for(asyncio.gather(*(member.join() for member in self._members)), _TIMEOUT)

    async def hold(self) -> None:
        """Send a pull for each member, which the broker holds because there is no message."""
        await asyncio.gather(*(member.hold() for member in self._members))

    def vanish(self) -> None:
        """Abort all connections at once."""
        for member in self._members:
            member.cut()
        self._members.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.vanish()


class _Member:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic: str, index: int) -> None:
        self._writer = writer
        self._topic = topic
        self._index = index
        self._answers: asyncio.Queue[int] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read(reader))

    async def join(self) -> None:
        subscription = SubscriptionData(topic=self._topic)
        data = ConsumerData(group_name=GROUP, subscription_data_set=[subscription])
        beat = HeartbeatData(client_id=f"member-{self._index}", consumer_data_set=[data])
        await self._ask(Command(RequestCode.HEART_BEAT, body=beat.encode()))
        header = GroupHeader(consumer_group=GROUP)
        await self._ask(Command(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ext=header.to_ext()))

    async def hold(self) -> None:
        header = PullMessage(
            consumer_group=GROUP, topic=self._topic, queue_id=self._index % QUEUES, queue_offset=0, max_msg_nums=32,
            sys_flag=6, commit_offset=0, suspend_timeout_millis=_HELD_MILLIS, sub_version=0, subscription="*",
        )  # fmt: skip
        self._writer.write(encode_command(Command(RequestCode.PULL_MESSAGE, ext=header.to_ext())))
        await self._writer.drain()

    def cut(self) -> None:
        self._reading.cancel()
        self._writer.transport.abort()

    async def _ask(self, command: Command) -> None:
        self._writer.write(encode_command(command))
        await self._writer.drain()
        if (code := await self._answers.get()) != 0:
            raise BenchError(f"request {command.code} of member {self._index} answered {code}")

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Put the codes of answers into the queue, and -1 at the end of the stream; notifications are ignored."""
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for frame in decoder.feed(data):
                answer = decode_command(frame)
                if answer.is_response:
                    self._answers.put_nowait(answer.code)
        self._answers.put_nowait(-1)


def _allow_descriptors(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        if hard != resource.RLIM_INFINITY and hard < number:
            raise BenchError(f"{number} descriptors are needed, and this user may have {hard}: see ulimit -Hn")
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
