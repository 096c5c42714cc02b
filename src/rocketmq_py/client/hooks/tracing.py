"""Message traces: records of sent and consumed messages that a client sends to a trace topic (AsyncTraceDispatcher).

Trace entries are collected and sent in batches in the background. They never delay messages or make them fail: entries
that are added faster than they can be sent are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.hooks.hooks import ConsumeHook, Consumption, ReceiveHook, Reception, SendHook, Sending
from rocketmq_py.client.send.options import Options
from rocketmq_py.client.send.sender import Sender
from rocketmq_py.errors import RocketMQError
from rocketmq_py.model import Message, MessageExt, SendResult, SendStatus, TransactionState
from rocketmq_py.properties import Property
from rocketmq_py.protocol import names
from rocketmq_py.wire.trace import TraceEntry, TraceKind, encode_trace

_log = logging.getLogger(__name__)

Trace = bool | str
"""The option ``trace``. False: no traces; True: to the brokers' default trace topic; a string: to that topic."""

BATCH = 10
"""Maximum number of entries in one batch (Java: traceMsgBatchNum)."""
MOST_WAITING = 2048
MOST_UNDER_WAY = 32
FLUSH_SECONDS = 5.0
SEND_SECONDS = 5.0

_NORMAL, _HALF, _COMMIT, _DELAYED = "Normal_Msg", "Trans_Msg_Half", "Trans_msg_Commit", "Delay_Msg"
_DELAYS = (Property.DELAY_LEVEL, Property.TIMER_DELIVER_MS, Property.TIMER_DELAY_SEC, Property.TIMER_DELAY_MS)
_SUCCESS, _TIME_OUT, _EXCEPTION, _FAILED = 0, 1, 2, 4
"""Values of Java's ConsumeReturnType, for trace entries of consumed messages."""
_REGION = "DefaultRegion"


class Tracer:
    """Sends the trace entries of one producer or consumer to the trace topic; any thread may add entries.

    :param trace: the option ``trace`` of the producer or consumer: True, or the name of the trace topic.
    :param group: the group of the producer or consumer.
    :param kind: ``PRODUCE`` or ``CONSUME``.
    :raises ConfigError: an illegal topic name.
    """

    def __init__(self, trace: Trace, group: str, kind: str) -> None:
        self.topic = names.check_topic(trace) if isinstance(trace, str) else names.TRACE_TOPIC
        self.group = group
        self._kind = kind
        self._waiting: deque[tuple[str, TraceEntry]] = deque()
        self._instance: ClientInstance | None = None
        self._sender: Sender | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due: asyncio.TimerHandle | None = None
        self._under_way = 0
        self._dropped = 0
        self._is_lost = False

    @classmethod
    def of(cls, trace: Trace, group: str, kind: str) -> Tracer | None:
        """Make a tracer; None if ``trace`` is False, that is, if nothing is to be traced. Parameters and errors as of
        the class.
        """
        return cls(trace, group, kind) if trace else None

    # -- life

    def start(self, instance: ClientInstance) -> None:
        """Start to send over the connections of ``instance``. Call it in the event loop that sends."""
        self._loop = asyncio.get_running_loop()
        self._instance = instance
        group = f"_INNER_TRACE_PRODUCER-{self.group}-{self._kind}-1"
        self._sender = Sender(group[: names.MAX_GROUP_LENGTH], instance, Options(send_timeout=SEND_SECONDS))

    async def close(self) -> None:
        """Send the waiting entries for at most ``SEND_SECONDS``; log how many were not sent."""
        if self._sender is None:
            return
        if self._due is not None:
            self._due.cancel()
        deadline = time.monotonic() + SEND_SECONDS
        while self._waiting and time.monotonic() < deadline:
            self._send(self._take(BATCH))
            await asyncio.sleep(0)
        await self._sender.close()
        lost = len(self._waiting) + self._dropped
        if lost:
            _log.warning("%d traces of group %s were not sent to topic %s", lost, self.group, self.topic)

    # -- from any thread

    def add(self, entries: Iterable[tuple[str, TraceEntry]]) -> None:
        """Queue entries for sending, each with the topic of its message; drop them if ``MOST_WAITING`` wait already."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        for entry in entries:
            if len(self._waiting) >= MOST_WAITING:
                self._drop()
                continue
            self._waiting.append(entry)
            if self._due is None or len(self._waiting) == BATCH:
                loop.call_soon_threadsafe(self._look)

    def _drop(self) -> None:
        self._dropped += 1
        if self._dropped == 1:
            _log.warning(
                "traces of group %s come faster than topic %s takes them: some are dropped (messages are not); the "
                "number is logged at the end", self.group, self.topic,
            )  # fmt: skip

    def address_of(self, broker_name: str) -> str | None:
        """The ``host:port`` of a broker's master; None if no cached route has one."""
        return self._instance.routes.master(broker_name) if self._instance is not None else None

    # -- in the loop

    def _look(self) -> None:
        """Send the waiting entries that fill batches; schedule the sending of the others after ``FLUSH_SECONDS``."""
        while len(self._waiting) >= BATCH and self._under_way < MOST_UNDER_WAY:
            self._send(self._take(BATCH))
        if self._waiting and self._due is None and self._loop is not None:
            self._due = self._loop.call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._due = None
        if self._waiting and self._under_way < MOST_UNDER_WAY:
            self._send(self._take(BATCH))
        self._look()

    def _take(self, most: int) -> list[tuple[str, TraceEntry]]:
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]

    def _send(self, batch: list[tuple[str, TraceEntry]]) -> None:
        """Send one trace message for each topic of the traced messages, as Java's dispatcher does."""
        by_topic: dict[str, list[TraceEntry]] = {}
        for topic, entry in batch:
            by_topic.setdefault(topic, []).append(entry)
        for entries in by_topic.values():
            assert self._loop is not None
            assert self._sender is not None
            sent: asyncio.Future[SendResult] = self._loop.create_future()
            sent.add_done_callback(self._sent)
            self._under_way += 1
            try:
                self._sender.send(self._sender.delivery(_message(self.topic, entries)), sent)
            except RocketMQError as e:
                sent.set_exception(e)

    def _sent(self, sent: asyncio.Future[SendResult]) -> None:
        self._under_way -= 1
        failure = sent.exception()
        if failure is not None and not self._is_lost:
            _log.warning("traces of group %s are lost, messages are not: %s", self.group, failure)
        elif failure is None and self._is_lost:
            _log.warning("traces of group %s are written to topic %s again", self.group, self.topic)
        self._is_lost = failure is not None
        if len(self._waiting) >= BATCH:
            self._look()


def _message(topic: str, entries: list[TraceEntry]) -> Message:
    """Make a trace message; its keys are the ids and keys of the traced messages, to find it by them."""
    keys: dict[str, None] = {}
    for entry in entries:
        keys[entry.msg_id] = None
        keys.update(dict.fromkeys((entry.keys or "").split()))
    return Message(topic, encode_trace(entries), keys=keys)


# -- hooks that make entries


class SendTrace(SendHook):
    """Send hook that traces successful sends; failed ones are not traced, as in Java."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def before(self, sending: Sending) -> None:
        sending.notes[self] = _now_ms()

    def after(self, sending: Sending) -> None:
        result = sending.result
        if result is None or not result.trace_on or result.region_id is None:
            return
        if sending.messages and not sending.messages[0].topic.startswith(self._tracer.topic):
            self._tracer.add(self._entries(sending, result))

    def _entries(self, sending: Sending, result: SendResult) -> Iterator[tuple[str, TraceEntry]]:
        """Make one entry for each message of a batch, so that each can be found by its id."""
        offset_ids = result.offset_msg_id.split(",")
        address = self._tracer.address_of(result.queue.broker_name)
        for number, message in enumerate(sending.messages):
            yield message.topic, TraceEntry(
                kind=TraceKind.PUB, timestamp=sending.notes[self], region=result.region_id, group=sending.group,
                topic=message.topic, msg_id=message.msg_id or result.msg_id, tags=message.tags, keys=message.keys,
                store_host=address, body_length=len(message.body),
                cost_ms=round(sending.seconds * 1000 / len(sending.messages)), message_type=_type_of(message),
                offset_msg_id=offset_ids[min(number, len(offset_ids) - 1)],
                success=result.status is SendStatus.SEND_OK,
            )  # fmt: skip


class ConsumeTrace(ConsumeHook):
    """Consume hook that traces the messages of a listener's call before it, and its outcome after it.

    :param timeout: seconds after which a call counts as timed out in the trace.
    """

    def __init__(self, tracer: Tracer, timeout: float) -> None:
        self._tracer = tracer
        self._timeout = timeout

    def before(self, consumption: Consumption) -> None:
        consumed = consumption.notes[self] = _Consumed(consumption.group, consumption.messages)
        self._tracer.add(consumed.begun())

    def after(self, consumption: Consumption) -> None:
        consumed: _Consumed = consumption.notes[self]
        cost_ms = round(consumption.seconds * 1000 / len(consumption.messages))
        self._tracer.add(consumed.ended(cost_ms, self._code(consumption), success=bool(consumption.succeeded)))

    def _code(self, consumption: Consumption) -> int:
        if consumption.error is not None:
            return _EXCEPTION
        if consumption.seconds >= self._timeout:
            return _TIME_OUT
        return _SUCCESS if consumption.succeeded else _FAILED


class PollTrace(ReceiveHook):
    """Receive hook that traces polled messages as consumed at once, as in Java: the client cannot see their outcome."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def received(self, reception: Reception) -> None:
        consumed = _Consumed(reception.group, reception.messages)
        self._tracer.add(consumed.begun())
        self._tracer.add(consumed.ended(0, _SUCCESS, success=True))


class _Consumed:
    """Makes the trace entries of messages that are consumed in one call; the entries have the same request id.

    Messages with the property TRACE_ON=false are left out.
    """

    __slots__ = ("_group", "_id", "_messages")

    def __init__(self, group: str, messages: Sequence[MessageExt]) -> None:
        self._group = group
        self._id = uuid.uuid4().hex.upper()
        self._messages = [m for m in messages if m.properties.get(Property.TRACE_SWITCH) != "false"]

    def begun(self) -> Iterator[tuple[str, TraceEntry]]:
        now = _now_ms()
        for m in self._messages:
            yield m.topic, TraceEntry(
                kind=TraceKind.SUB_BEFORE, timestamp=now, region=m.properties.get(Property.MSG_REGION),
                group=self._group, request_id=self._id, msg_id=m.msg_id, retry_times=m.reconsume_times, keys=m.keys,
            )  # fmt: skip

    def ended(self, cost_ms: int, code: int, *, success: bool) -> Iterator[tuple[str, TraceEntry]]:
        now = _now_ms()
        for m in self._messages:
            yield m.topic, TraceEntry(
                kind=TraceKind.SUB_AFTER, request_id=self._id, msg_id=m.msg_id, cost_ms=cost_ms, success=success,
                keys=m.keys, context_code=code, timestamp=now, group=self._group,
            )  # fmt: skip


def trace_end(
    tracer: Tracer, message: Message | MessageExt, msg_id: str, broker_name: str, state: TransactionState, *,
    from_check: bool = False,
) -> None:  # fmt: skip
    """Add a trace entry for a commit or rollback that a producer sends.

    :param msg_id: the unique key of the message.
    :param from_check: True if it answers a broker's check.
    """
    entry = TraceEntry(
        kind=TraceKind.END_TRANSACTION, timestamp=_now_ms(),
        region=message.properties.get(Property.MSG_REGION) or _REGION, group=tracer.group, topic=message.topic,
        msg_id=msg_id, tags=message.tags, keys=message.keys, store_host=tracer.address_of(broker_name),
        message_type=_COMMIT, transaction_id=message.transaction_id, transaction_state=state.value,
        from_check=from_check,
    )  # fmt: skip
    tracer.add([(message.topic, entry)])


def _type_of(message: Message) -> str:
    properties = message.properties
    if properties.get(Property.TRANSACTION_PREPARED) == "true":
        return _HALF
    return _DELAYED if any(name in properties for name in _DELAYS) else _NORMAL


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
