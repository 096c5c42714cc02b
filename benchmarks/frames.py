"""Requests as bytes, made before the clock starts.

The load generator must never be what is measured, so a whole cycle of requests stands in one buffer: sending n of them
is one slice. Between cycles only the unique keys in it change (one NumPy scatter), so that no two messages share a key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.headers.send import SendMessageV2
from rocketmq_py.wire.batch import encode_batch
from rocketmq_py.wire.command import Command, encode_command

GROUP = "benchmark"
DIGITS = 8
"""Hexadecimal digits of the counter at the end of every unique key."""
_KEY_HEAD = "7F00000100004AAC18B4"
_KEY_TAIL = "@" * DIGITS
_SUSPEND_MILLIS = 15_000
_SUBSCRIPTION_IN_REQUEST = 4
_BODY = bytes(32 + i * 7 % 91 for i in range(1 << 14)).replace(b'"', b"'").replace(b"@", b"a")


@dataclass(slots=True)
class Requests:
    """A cycle of encoded requests: ``buffer[bounds[i]:bounds[i + 1]]`` is the i-th.

    :param messages_each: messages one request carries or asks for.
    :param answer_body: bytes of body every answer must have; 0 for sends.
    """

    buffer: bytearray
    bounds: list[int]
    messages_each: int
    answer_body: int
    _digits: np.ndarray[tuple[int, int], np.dtype[np.intp]]
    _next_key: int = 0

    @property
    def count(self) -> int:
        return len(self.bounds) - 1

    def renew_keys(self) -> None:
        """Gives every message of the cycle a unique key it has not had before."""
        messages = len(self._digits)
        if messages:
            numbers = np.arange(self._next_key, self._next_key + messages, dtype=np.uint32)
            nibbles = (numbers[:, None] >> np.arange(4 * DIGITS - 4, -1, -4, dtype=np.uint32)) & 15
            np.frombuffer(self.buffer, np.uint8)[self._digits] = np.where(nibbles < 10, nibbles + 48, nibbles + 55)
            self._next_key += messages


def body(size: int) -> bytes:
    """A message body of ``size`` printable bytes without a quotation mark."""
    return (_BODY * (size // len(_BODY) + 1))[:size]


def _properties(key: str) -> str:
    return f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def send_requests(
    topic: str, queues: int, size: int, count: int = 8192, *, run: int = 1, more: Mapping[str, str] | None = None
) -> Requests:
    """Single sends of ``size`` bytes (code 310), ``run`` to a queue and then as many to the next.

    :param more: further properties of every message.
    """
    payload = body(size)
    properties = _properties(_KEY_HEAD + "0000" + _KEY_TAIL)
    properties += "".join(f"{name}\x01{value}\x02" for name, value in (more or {}).items())

    def one(i: int) -> Command:
        queue = i // run % queues
        header = _send_header(topic, queue, properties, batch=False)
        return Command(RequestCode.SEND_MESSAGE_V2, opaque=i, ext=header.to_ext(), body=payload)

    return _requests(map(one, range(count)), messages_each=1)


def topic_requests(topics: Sequence[str], size: int, count: int) -> Requests:
    """Single sends of ``size`` bytes to queue 0 of each topic in turn."""
    payload, properties = body(size), _properties(_KEY_HEAD + "0000" + _KEY_TAIL)

    def one(i: int) -> Command:
        header = _send_header(topics[i % len(topics)], 0, properties, batch=False)
        return Command(RequestCode.SEND_MESSAGE_V2, opaque=i, ext=header.to_ext(), body=payload)

    return _requests(map(one, range(count)), messages_each=1)


def batch_requests(topic: str, queues: int, size: int, each: int, count: int = 1024) -> Requests:
    """Batches of ``each`` messages of ``size`` bytes (code 320), queue after queue."""
    inner = (0, body(size), _properties(_KEY_HEAD + "0001" + _KEY_TAIL).encode())
    payload = encode_batch([inner] * each)

    def one(i: int) -> Command:
        header = _send_header(topic, i % queues, _properties(_KEY_HEAD + "0002" + _KEY_TAIL), batch=True)
        return Command(RequestCode.SEND_BATCH_MESSAGE, opaque=i, ext=header.to_ext(), body=payload)

    return _requests(map(one, range(count)), messages_each=each)


def pull_requests(topic: str, queues: int, each: int, messages: int, answer_body: int) -> Requests:
    """Pulls of ``each`` messages (code 11) that read a backlog of ``messages`` once, queue after queue.

    :param answer_body: size in bytes of ``each`` stored messages.
    """

    def one(i: int) -> Command:
        header = PullMessage(
            consumer_group=GROUP, topic=topic, queue_id=i % queues, queue_offset=i // queues * each, max_msg_nums=each,
            sys_flag=_SUBSCRIPTION_IN_REQUEST, commit_offset=0, suspend_timeout_millis=_SUSPEND_MILLIS,
            subscription="*", sub_version=0, expression_type="TAG",
        )  # fmt: skip
        return Command(RequestCode.PULL_MESSAGE, opaque=i, ext=header.to_ext())

    return _requests(map(one, range(messages // each)), messages_each=each, answer_body=answer_body)


def _send_header(topic: str, queue_id: int, properties: str, *, batch: bool) -> SendMessageV2:
    return SendMessageV2(
        producer_group=GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=4, queue_id=queue_id,
        sys_flag=0, born_timestamp=time.time_ns() // 1_000_000, flag=0, properties=properties, reconsume_times=0,
        unit_mode=False, batch=batch, bname="broker-a",
    )  # fmt: skip


def _requests(commands: Iterator[Command], messages_each: int, answer_body: int = 0) -> Requests:
    frames = [encode_command(command) for command in commands]
    bounds = [0]
    for frame in frames:
        bounds.append(bounds[-1] + len(frame))
    buffer = bytearray().join(frames)
    starts = list(_occurrences(buffer.find, _KEY_TAIL.encode()))
    digits = np.array(starts, dtype=np.intp)[:, None] + np.arange(DIGITS, dtype=np.intp)
    return Requests(buffer, bounds, messages_each, answer_body, digits)


def _occurrences(find: Callable[[bytes, int], int], wanted: bytes) -> Iterator[int]:
    position = find(wanted, 0)
    while position >= 0:
        yield position
        position = find(wanted, position + len(wanted))


def queue_shares(count: int, queues: int) -> list[int]:
    """How many of ``count`` requests go to each queue when they go queue after queue."""
    return [count // queues + (queue < count % queues) for queue in range(queues)]
