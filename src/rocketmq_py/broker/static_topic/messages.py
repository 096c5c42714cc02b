"""Sends to and pulls from logical queues: requests are translated to a physical queue, and answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rocketmq_py.accelerator import SendRun
from rocketmq_py.broker.handlers.messages import Puller, Sender
from rocketmq_py.broker.metadata.queue_mappings import TopicQueueMappings
from rocketmq_py.broker.send.ack_waiter import WaitingSend
from rocketmq_py.broker.static_topic.forward import FORWARDED, Forwarder, TranslatedHold
from rocketmq_py.core.broker.static_topic import (
    PullOutcome,
    find_item,
    has_end,
    logical_offset_of_send,
    physical_offset,
    translate_pull,
)
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.static_topic import MappingDetail, MappingItem
from rocketmq_py.protocol.codes import STORED, RequestCode, ResponseCode
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.protocol.requests import Request
from rocketmq_py.protocol.sys_flag import PULL_COMMIT_OFFSET, PULL_SUSPEND, TRANSACTION_PREPARED
from rocketmq_py.server import Hold, Peer, Reply, RunReply

_PULLED = (
    ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)  # fmt: skip

Send = Callable[[Peer, Request, bytes], Reply | Hold]


class LogicalQueue(NamedTuple):
    """A logical queue that this broker leads.

    ``items`` are its physical queues in the order of their offsets; the last one, the leader, is at this broker.
    """

    detail: MappingDetail
    queue_id: int
    items: list[MappingItem]

    @property
    def leader(self) -> MappingItem:
        return self.items[-1]

    def is_here(self, item: MappingItem) -> bool:
        """True if a physical queue is at this broker."""
        return item.bname == self.detail.bname


def leading_queue(detail: MappingDetail, queue_id: int) -> LogicalQueue:
    """Return a logical queue that this broker leads, by its id.

    :raises BrokerError: NOT_LEADER_FOR_QUEUE, another broker leads it, or it does not exist.
    """
    items = detail.hosted_queues.get(queue_id)
    if not items or items[-1].bname != detail.bname:
        remark = f"{detail.topic}-{queue_id} does not exit in request process of current broker {detail.bname}"
        raise BrokerError.of(ResponseCode.NOT_LEADER_FOR_QUEUE, remark)
    return LogicalQueue(detail, queue_id, items)


class StaticTopicSender:
    """Stores sends to logical queues in their physical queues; passes all other sends on unchanged."""

    def __init__(self, sender: Sender, mappings: TopicQueueMappings) -> None:
        self._sender = sender
        self._send = sender.send
        self._mappings = mappings

    def send(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store one message; the answer has the logical queue id and offset."""
        if not self._mappings.table:
            return self._send(peer, request, body)
        return self._translated(self._send, peer, request, body)

    def send_batch(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store the messages of a batch; the answer has the logical queue id and offset."""
        if not self._mappings.table:
            return self._sender.send_batch(peer, request, body)
        return self._translated(self._sender.send_batch, peer, request, body)

    def send_halves(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Store half messages; the answer has the logical queue id."""
        return self._translated(self._sender.send_halves, peer, request, body)

    def send_run(self, peer: Peer, run: SendRun, begin: int) -> RunReply | None:
        """Store consecutive plain sends of a run from index ``begin`` on; None while this broker has static topics."""
        return None if self._mappings.table else self._sender.send_run(peer, run, begin)

    def _translated(self, send: Send, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        header = request.header
        detail = self._mappings.table.get(header.topic)
        if detail is None:
            return send(peer, request, body)
        queue = leading_queue(detail, _chosen(detail, header.queue_id))
        header.queue_id = queue.leader.queue_id
        outcome = send(peer, request, body)
        reply = outcome.payload.reply if isinstance(outcome, Hold) else outcome
        assert isinstance(outcome, Reply) or isinstance(outcome.payload, WaitingSend)
        if reply.code in STORED and reply.ext is not None and "queueOffset" in reply.ext:
            reply.ext["queueId"] = str(queue.queue_id)
            if not header.sys_flag & TRANSACTION_PREPARED:  # the offset of a half message is one of the half topic
                reply.ext["queueOffset"] = str(logical_offset_of_send(queue.leader, int(reply.ext["queueOffset"])))
        return outcome


def _chosen(detail: MappingDetail, queue_id: int) -> int:
    """Return the logical queue of a send; for a negative ``queue_id``, one that this broker leads."""
    if queue_id >= 0:
        return queue_id
    return next((n for n, items in detail.hosted_queues.items() if items and items[-1].bname == detail.bname), queue_id)


class StaticTopicPuller:
    """Answers pulls from logical queues; passes all other pulls on unchanged.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self, puller: Puller, mappings: TopicQueueMappings, forwarder: Forwarder, clock: Callable[[], int]
    ) -> None:
        self._puller = puller
        self._mappings = mappings
        self._forwarder = forwarder
        self._clock = clock

    def pull(self, peer: Peer, request: Request, *, may_hold: bool = True) -> Reply | Hold:
        """Answer a pull; in a logical queue, from the physical queue with the offset, here or at another broker."""
        header: PullMessage = request.header
        detail = self._mappings.table.get(header.topic) if self._mappings.table else None
        if detail is None or header.lo is False:
            return self._puller.pull(peer, request, may_hold=may_hold)
        queue = leading_queue(detail, header.queue_id)
        item = find_item(queue.items, header.queue_offset)
        if item is None:
            return Reply(ResponseCode.PULL_NOT_FOUND, "the logical queue has no offsets yet", ext=_EMPTY.copy())
        if not queue.is_here(item):
            asked = msgspec.structs.replace(
                self._physical(header, queue, item), lo=False, bname=item.bname,
                sys_flag=header.sys_flag & ~(PULL_SUSPEND | PULL_COMMIT_OFFSET),
            )  # fmt: skip
            return Hold(FORWARDED, self._clock(), lambda: self._pull_there(queue, item, asked))
        physical = self._physical(header, queue, item)
        for name in ("queue_id", "queue_offset", "max_msg_nums", "commit_offset", "sys_flag"):
            setattr(header, name, getattr(physical, name))
        outcome = self._puller.pull(peer, request, may_hold=may_hold)

        def translate(reply: Reply) -> Reply:
            return _translated_pull(queue, item, physical.queue_offset, reply)

        if isinstance(outcome, Hold):
            return TranslatedHold(outcome.key, outcome.deadline_ms, outcome.payload, translate)
        return translate(outcome)

    def _physical(self, header: PullMessage, queue: LogicalQueue, item: MappingItem) -> PullMessage:
        """Translate a pull to a physical queue; do not commit an offset that belongs to another physical queue."""
        most = header.max_msg_nums
        if has_end(item):
            most = min(most, item.end_offset - item.start_offset)
        flags = header.sys_flag
        if find_item(queue.items, header.commit_offset) is not item:
            flags &= ~PULL_COMMIT_OFFSET
        return msgspec.structs.replace(
            header, queue_id=item.queue_id, queue_offset=physical_offset(item, header.queue_offset), max_msg_nums=most,
            commit_offset=physical_offset(item, header.commit_offset), sys_flag=flags,
        )  # fmt: skip

    async def _pull_there(self, queue: LogicalQueue, item: MappingItem, header: PullMessage) -> Reply:
        topic = queue.detail.topic
        found = await self._forwarder.ask(item.bname, topic, RequestCode.PULL_MESSAGE, header)
        reply = Reply(found.code, found.remark, ext=dict(found.ext), body=bytes(found.body))
        return _translated_pull(queue, item, header.queue_offset, reply)


_EMPTY = {"suggestWhichBrokerId": "0", "nextBeginOffset": "0", "minOffset": "0", "maxOffset": "0"}


def _translated_pull(queue: LogicalQueue, item: MappingItem, asked: int, reply: Reply) -> Reply:
    ext = reply.ext
    if reply.code not in _PULLED or ext is None or "nextBeginOffset" not in ext:
        return reply
    found = PullOutcome(reply.code, *(int(ext[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset")))
    outcome, delta = translate_pull(queue.items, item, asked, found)
    reply.code = outcome.code
    ext["nextBeginOffset"], ext["minOffset"] = str(outcome.next_offset), str(outcome.min_offset)
    ext["maxOffset"], ext["offsetDelta"] = str(outcome.max_offset), str(delta)
    if "damaged" in ext:
        ext["damaged"] = ",".join(str(int(offset) + delta) for offset in ext["damaged"].split(","))
    return reply
