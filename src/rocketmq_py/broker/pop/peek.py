"""Looking at what could be popped, without popping it.

Knows what Java answers to those who peek, who want to be told of messages, and who ask how many wait
(PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.parts import PopParts
from rocketmq_py.broker.pop.pop import HeldPop, pop_filters, wait_refusal
from rocketmq_py.broker.pop.reading import PopReader
from rocketmq_py.core.pop.long_polling import Poll, PollKey, PollTable
from rocketmq_py.core.pop.order import OrderKey, OrderTable
from rocketmq_py.protocol.bodies.topic import TopicConfig
from rocketmq_py.protocol.codes import ResponseCode as Code
from rocketmq_py.protocol.headers.pop import (
    Notification,
    NotificationResponse,
    PeekMessage,
    PollingInfo,
    PollingInfoResponse,
    PopResponse,
)
from rocketmq_py.protocol.pop_handle import pop_retry_topic
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.server.requests.reply import Buffer

_PEEKING = "peeking message"


class NotifyKey(PollKey):
    """What those wait for who only want to be told."""

    __slots__ = ()


class PeekService:
    """Answers requests that leave everything where it is."""

    def __init__(self, parts: PopParts, checks: PopChecks, reading: PopReader, orders: OrderTable) -> None:
        self._topics = parts.topics
        self._clock = parts.clock
        self._checks = checks
        self._reading = reading
        self._orders = orders
        self.pick: Callable[[int], int] = random.randrange
        """A random number below another: which queue comes first, and whether the retry topic does."""
        self._config = parts.config
        self.told: PollTable[Any] = PollTable()
        """Those who wait to be told."""
        self.waits: PollTable[Any] = PollTable()
        """The pops that wait."""

    # -- peek

    def peek(self, peer: Peer, header: PeekMessage) -> Reply:
        """The next messages of a group."""
        self._checks.may_read(_PEEKING)
        topic = self._checks.reading(peer, header)
        pieces: list[Buffer] = []
        count = rest = 0
        for name, queue_id in self._places(header, topic):
            start = self._reading.seen(header.consumer_group, name, queue_id)
            rest += self._reading.rest(header.consumer_group, name, queue_id)
            if count < header.max_msg_nums:
                _, found = self._reading.get(name, queue_id, start, header.max_msg_nums - count, None, None)
                count += found.count
                pieces.append(found.body)
        answer = PopResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest)
        if count:
            return Reply(Code.SUCCESS, "FOUND", answer, body=pieces)
        return Reply(Code.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", answer)

    def _places(self, header: PeekMessage | Notification, topic: TopicConfig) -> list[tuple[str, int]]:
        """Topic and queue of every place to look at: the retry topic first, one time in five, else last."""
        chance, group = self.pick(100), header.consumer_group
        wanted = self._queues(topic, chance) if header.queue_id < 0 else [(topic.topic_name, header.queue_id)]
        config = self._config
        forms = [config.enable_retry_topic_v2]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            forms.append(False)
        names = [pop_retry_topic(header.topic, group, v2=v2) for v2 in forms]
        found = [retry for name in names if (retry := self._topics.get(name)) is not None]
        retries = [place for retry in found for place in self._queues(retry, chance)]
        return [*retries, *wanted] if chance % 5 == 0 else [*wanted, *retries]

    def _queues(self, topic: TopicConfig, chance: int) -> list[tuple[str, int]]:
        queues = topic.read_queue_nums
        return [(topic.topic_name, (chance + i) % queues) for i in range(queues)]

    # -- being told

    def notify(self, peer: Peer, request: Request, born: int | None = None) -> Reply | Hold:
        """Tell a client that there is something to pop, as soon as there is.

        :param born: when the client asked; its header says so unless it waited.
        """
        header: Notification = request.header
        self._checks.may_read(_PEEKING)
        topic = self._checks.reading(peer, header)
        if any(self._has_message(header, name, queue_id) for name, queue_id in self._places(header, topic)):
            return Reply(header=NotificationResponse(has_msg=True, polling_full=False))
        now = self._clock()
        born = born or header.born_time or now
        key = NotifyKey(header.topic, header.consumer_group, header.queue_id)
        deadline = born + header.poll_time
        refusal = wait_refusal(self._config, self.told, key, deadline - now, header.poll_time)
        if refusal is None:
            tags_filter, record_filter = pop_filters(header)
            return Hold(key, deadline, Poll(deadline, tags_filter, record_filter, HeldPop(peer, request, born)))
        return Reply(header=NotificationResponse(has_msg=False, polling_full=refusal is Code.POLLING_FULL))

    def _has_message(self, header: Notification, topic: str, queue_id: int) -> bool:
        key = OrderKey(header.topic, header.consumer_group, queue_id)
        if header.order and self._orders.is_blocked(key, header.attempt_id, self._clock()):
            return False
        return self._reading.rest(header.consumer_group, topic, queue_id) > 0

    # -- who waits

    def polling_info(self, peer: Peer, header: PollingInfo) -> Reply:
        """How many pops wait."""
        self._checks.may_read(_PEEKING)
        self._checks.reading(peer, header)
        key = PollKey(header.topic, header.consumer_group, header.queue_id)
        return Reply(header=PollingInfoResponse(polling_num=self.waits.count(key)))
