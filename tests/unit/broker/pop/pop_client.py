"""A client for tests of pops: reads messages out of answers and acks them."""

from __future__ import annotations

from typing import Any, NamedTuple

from rocketmq_py.model import MessageExt
from rocketmq_py.protocol import pop_handle
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.pop import AckMessage, ChangeInvisibleTime
from rocketmq_py.protocol.pop_handle import ExtraInfo
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import pop, send

REVIVE_MS = 62_300
"""After so long what a pop of a minute took is surely back."""


class Popped(NamedTuple):
    """A message and its handle."""

    message: MessageExt
    handle: ExtraInfo

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def topic(self) -> str:
        """Where it was popped from."""
        return pop_handle.real_topic(self.message.topic, "g", self.handle.retry)


def make_topic(running: InProcess, queues: int = 1, **more: Any) -> None:
    """Topic ``t``."""
    running.services.topics.put([TopicConfig(topic_name="t", read_queue_nums=queues, write_queue_nums=queues, **more)])


def put(client: Client, *bodies: bytes, queue_id: int = 0, **more: Any) -> None:
    for body in bodies:
        assert client.ask(Code.SEND_MESSAGE_V2, send(queue_id=queue_id, **more), body).code == 0


def popped(answer: Command) -> list[Popped]:
    """The messages of an answer with their handles, as a client makes them."""
    ext = answer.ext
    starts = pop_handle.parse_start_offsets(ext.get("startOffsetInfo"))
    found = []
    for message in decode_records(answer.body):
        text = message.properties.get("POP_CK")
        info = ExtraInfo.parse(text) if text else ExtraInfo(
            starts[pop_handle.NORMAL, message.queue_id], int(ext["popTime"]), int(ext["invisibleTime"]),
            int(ext["reviveQid"]), pop_handle.NORMAL, "broker-a", message.queue_id, message.queue_offset,
        )  # fmt: skip
        found.append(Popped(message, info))
    return found


def bodies(messages: list[Popped]) -> list[bytes]:
    return [one.body for one in messages]


def take(client: Client, **more: Any) -> list[Popped]:
    """What a pop brings."""
    answer = client.ask(Code.POP_MESSAGE, pop(**more))
    assert answer.code in (0, 210), answer
    return popped(answer)


def ack(client: Client, one: Popped, group: str = "g") -> Command:
    info = one.handle
    header = AckMessage(
        consumer_group=group, topic=one.topic, queue_id=info.queue_id, extra_info=info.encode(),
        offset=one.message.queue_offset,
    )  # fmt: skip
    return client.ask(Code.ACK_MESSAGE, header)


def change_invisible(client: Client, one: Popped, invisible_ms: int) -> Command:
    info = one.handle
    header = ChangeInvisibleTime(
        consumer_group="g", topic=one.topic, queue_id=info.queue_id, extra_info=info.encode(),
        offset=one.message.queue_offset, invisible_time=invisible_ms,
    )  # fmt: skip
    return client.ask(Code.CHANGE_MESSAGE_INVISIBLETIME, header)


def extended(one: Popped, answer: Command) -> Popped:
    """The message with the handle it has after its time was changed."""
    info = one.handle._replace(
        start_offset=one.message.queue_offset, pop_time=int(answer.ext["popTime"]),
        invisible_ms=int(answer.ext["invisibleTime"]), revive_queue=int(answer.ext["reviveQid"]),
    )  # fmt: skip
    return Popped(one.message, info)
