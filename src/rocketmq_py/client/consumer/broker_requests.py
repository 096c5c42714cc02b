"""Requests that brokers send to consumers for operators: reset offsets, return offsets and state, consume one message.

Decodes the requests, finds the consumer by its group, and encodes the answers. (``client_instance`` handles
NOTIFY_CONSUMER_IDS_CHANGED, sent when the members of a group have changed.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.errors import BadHeader
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.group import ConsumeMessageDirectly, ConsumerStatus, GetConsumerRunningInfo
from rocketmq_py.protocol.headers.offset import ResetOffset
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record


class Consumer(Protocol):
    """A consumer that can answer these requests of brokers."""

    async def reset_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, smaller or greater than the current ones; queues it does not own are ignored."""
        ...

    def consume_offsets(self, topic: str) -> dict[MessageQueue, int]:
        """The offset of the next message to consume in each queue of a topic, from memory: maybe not stored yet."""
        ...

    def running_info(self) -> dict[str, Any]:
        """The state of the consumer: the JSON object of Java's ConsumerRunningInfo, with MessageQueues as keys."""
        ...

    def stacks(self) -> str:
        """The stacks of all threads of the process, as text."""
        ...

    async def consume_directly(self, message: MessageExt) -> dict[str, Any]:
        """Pass a message to its listener at once; returns the JSON object of Java's ConsumeMessageDirectlyResult."""
        ...


def serve(instance: ClientInstance) -> None:
    """Register handlers of the requests that brokers send to consumers of ``instance`` for operators.

    They reset offsets, return offsets and the consumer's state, and consume one message.
    """
    requests = _Requests(instance)
    on_request = instance.connections.on_request
    on_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, requests.reset_offset)
    on_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, requests.status)
    on_request(RequestCode.GET_CONSUMER_RUNNING_INFO, requests.running_info)
    on_request(RequestCode.CONSUME_MESSAGE_DIRECTLY, requests.consume_directly)


class _Requests:
    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    def _consumer(self, group: str) -> Consumer | None:
        found = self._instance.consumer(group)
        return found if found is not None and hasattr(found, "running_info") else None  # type: ignore[return-value]

    async def reset_offset(self, _: str, request: Command) -> Command | None:
        header = ResetOffset.from_ext(request.ext)
        consumer = self._consumer(header.group)
        if consumer is not None and request.body:
            await consumer.reset_offsets(_read_offsets(request.body))
        return None

    async def status(self, _: str, request: Command) -> Command:
        header = ConsumerStatus.from_ext(request.ext)
        consumer = self._consumer(header.group)
        if consumer is None:
            return self._unknown(header.group)
        offsets = {_key(queue): offset for queue, offset in consumer.consume_offsets(header.topic).items()}
        return _json({"messageQueueTable": offsets})

    async def running_info(self, _: str, request: Command) -> Command:
        header = GetConsumerRunningInfo.from_ext(request.ext)
        consumer = self._consumer(header.consumer_group)
        if consumer is None:
            return self._unknown(header.consumer_group)
        info = consumer.running_info()
        for table in ("mqTable", "mqPopTable"):
            info[table] = {_key(queue): state for queue, state in info[table].items()}
        if header.jstack_enable:
            info["jstack"] = consumer.stacks()
        return _json(info)

    async def consume_directly(self, _: str, request: Command) -> Command:
        header = ConsumeMessageDirectly.from_ext(request.ext)
        consumer = self._consumer(header.consumer_group)
        if consumer is None:
            return self._unknown(header.consumer_group)
        return _json(await consumer.consume_directly(decode_record(request.body, 0, header.broker_name or "")))

    def _unknown(self, group: str) -> Command:
        return Command(
            ResponseCode.SYSTEM_ERROR, remark=f"client {self._instance.client_id} has no consumer of group {group}"
        )


def _key(queue: MessageQueue) -> tuple[tuple[str, str | int], ...]:
    return ("brokerName", queue.broker_name), ("queueId", queue.queue_id), ("topic", queue.topic)


def _json(value: Mapping[str, Any]) -> Command:
    """A successful answer with a JSON body; queues as keys are encoded as JSON objects, as Java's tools require."""
    return Command(ResponseCode.SUCCESS, body=fastjson.dumps_java(value))


class _OffsetItem(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int
    offset: int = -1


def _read_offsets(body: bytes) -> dict[MessageQueue, int]:
    """Decode a ResetOffsetBody, whose offsets are a table for Java clients and a list for other clients.

    :raises BadHeader: the body cannot be decoded.
    """
    table = fastjson.loads(body).get("offsetTable") or {}
    try:
        if isinstance(table, list):
            items = msgspec.convert(table, list[_OffsetItem], strict=False)
            return {MessageQueue(item.topic, item.broker_name, item.queue_id): item.offset for item in items}
        keys = {key: msgspec.json.decode(key, type=_OffsetItem, strict=False) for key in table}
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise BadHeader(f"the offsets to reset cannot be decoded: {e}") from e
    return {MessageQueue(key.topic, key.broker_name, key.queue_id): int(table[text]) for text, key in keys.items()}
