"""Administrative requests before and after a load: create a topic, get offsets."""

from __future__ import annotations

import socket
import struct
import time
from typing import Self

import msgspec

from benchmarks.errors import BenchError
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.protocol.headers.offset import GetMaxOffset
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder

_READ_WRITE = 6
_VISIBLE_SECONDS = 30.0
_ANSWER_SECONDS = 60


class Control:
    """One connection to a broker for administration; ``address`` is ``host:port``. A context manager."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = connect(address)
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, code: RequestCode, header: Header) -> Command:
        """Send a request and return its answer.

        :raises BenchError: the answer is not a success, or does not come in time.
        """
        return self.ask(Command(code, ext=header.to_ext()))

    def ask(self, command: Command) -> Command:
        """As :meth:`call`, for a complete command, whose ``opaque`` is replaced."""
        self._opaque += 1
        self._socket.sendall(encode_command(msgspec.structs.replace(command, opaque=self._opaque)))
        decoder = FrameDecoder()
        while not (frames := decoder.feed(self._receive())):
            pass
        answer = decode_command(frames[0])
        if answer.code:
            raise BenchError(f"{self.address}: request {command.code} answered {answer.code}: {answer.remark}")
        return answer

    def _receive(self) -> bytes:
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            raise BenchError(f"{self.address}: no answer for {_ANSWER_SECONDS} s") from None
        if not data:
            raise BenchError(f"{self.address}: closed the connection")
        return data

    def create_group(self, group: str) -> None:
        """Create a consumer group."""
        body = SubscriptionGroupConfig(group_name=group).encode()
        self.ask(Command(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))

    def create_topic(self, topic: str, queues: int) -> None:
        """Create a topic with ``queues`` readable and writable queues."""
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues, perm=_READ_WRITE,
            topic_filter_type="SINGLE_TAG", order=False, topic_sys_flag=0,
        )  # fmt: skip
        self.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    def max_offsets(self, topic: str, queues: int) -> list[int]:
        """Return the offset after the last message of each queue."""
        answers = (self.call(RequestCode.GET_MAX_OFFSET, GetMaxOffset(topic=topic, queue_id=q)) for q in range(queues))
        return [int(answer.ext["offset"]) for answer in answers]

    def expect_offsets(self, topic: str, wanted: list[int]) -> None:
        """Wait until the maximum offsets of the queues are ``wanted``: messages are readable a little after the answer.

        :raises BenchError: an offset is larger, or smaller after 30 s.
        """
        deadline = time.monotonic() + _VISIBLE_SECONDS
        while (found := self.max_offsets(topic, len(wanted))) != wanted:
            if time.monotonic() > deadline or any(f > w for f, w in zip(found, wanted, strict=True)):
                raise BenchError(f"{self.address}: queues of {topic} end at {found}, sent was up to {wanted}")


def connect(address: str) -> socket.socket:
    """Open a blocking connection to ``host:port`` whose reads fail after a minute (SO_RCVTIMEO)."""
    host, _, port = address.rpartition(":")
    link = socket.create_connection((host, int(port)))
    link.settimeout(None)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", _ANSWER_SECONDS, 0))
    return link
