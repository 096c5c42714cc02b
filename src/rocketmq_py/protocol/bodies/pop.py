"""JSON bodies of batch acks, of queue assignment by the broker, and of a group's request mode (pull or POP)."""

from __future__ import annotations

from typing import Annotated, Self

import msgspec

from rocketmq_py.protocol.bodies.base import Body
from rocketmq_py.protocol.bodies.client import MessageModelName, MessageQueueBody
from rocketmq_py.protocol.coercion import java_enum
from rocketmq_py.wire.integers import Int32, Int64

PULL = "PULL"
POP = "POP"
RequestMode = Annotated[str, java_enum(PULL, POP)]
"""The request mode of a group for a topic: PULL or POP."""


class BatchAck(Body, kw_only=True, rename={
    "consumer_group": "c", "topic": "t", "retry": "r", "start_offset": "so", "queue_id": "q", "revive_queue_id": "rq",
    "pop_time": "pt", "invisible_time": "it", "bits": "b",
}):  # fmt: skip
    """Acks of messages that one pop returned from one queue.

    ``topic`` is the subscribed topic, ``retry`` the retry flag (see :mod:`rocketmq_py.protocol.pop_handle`). ``bits``
    is the set of the distances of the messages' queue offsets from ``start_offset``, encoded by
    :func:`~rocketmq_py.protocol.pop_handle.encode_bits`. Times are milliseconds.
    """

    consumer_group: str
    topic: str
    retry: str
    start_offset: Int64
    queue_id: Int32
    revive_queue_id: Int32
    pop_time: Int64
    invisible_time: Int64
    bits: str = ""


class BatchAckRequest(Body, kw_only=True):
    """Acks of messages of several pops (request code 200151)."""

    broker_name: str | None = None
    acks: list[BatchAck] = msgspec.field(default_factory=list)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """As :meth:`.Body.decode`; texts in the usual form are decoded in one step."""
        if b"null" not in data:
            try:
                return _decode_acks(data)  # type: ignore[return-value]  # cast() is a call
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # decoded or refused below
        return super().decode(data)


_decode_acks = msgspec.json.Decoder(BatchAckRequest, strict=False).decode


class QueryAssignmentRequest(Body, kw_only=True):
    """Asks the broker which queues of a topic are assigned to a client (request code 400)."""

    topic: str
    consumer_group: str
    client_id: str
    strategy_name: str | None = None
    message_model: MessageModelName = "CLUSTERING"


class MessageQueueAssignment(Body, kw_only=True):
    """An assigned queue and its request mode; in mode POP, queue id -1 stands for all queues of the broker."""

    message_queue: MessageQueueBody
    mode: RequestMode = PULL
    attachments: dict[str, str] | None = None


class QueryAssignmentResponse(Body, kw_only=True):
    """The queues assigned to the client; None if the broker cannot compute them: then the client keeps its queues."""

    message_queue_assignments: list[MessageQueueAssignment] | None = None


class MessageRequestMode(Body, kw_only=True):
    """Sets the request mode of a group for a topic (request code 401).

    ``pop_share_queue_num`` applies to mode POP: the number of following clients whose queues a client pops, too; 0
    means that each client pops all queues.
    """

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: Int32 = 0


class MessageRequestModes(Body, kw_only=True):
    """Request modes by topic and group (request code 402); also the layout of messageRequestMode.json."""

    message_request_mode_map: dict[str, dict[str, MessageRequestMode]] = msgspec.field(default_factory=dict)
