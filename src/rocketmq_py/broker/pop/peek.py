"""Requests that look at queues without popping: PEEK_MESSAGE, NOTIFICATION and POLLING_INFO.

The answers are those of PeekMessageProcessor, NotificationProcessor and PollingInfoProcessor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.pop.checks import PopChecks
from rocketmq_py.broker.pop.long_polling import HeldPop, NotifyKey, PopPolling
from rocketmq_py.broker.pop.pop import pop_filters
from rocketmq_py.broker.pop.reader import PopReader
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.core.pop.long_polling import Poll, PollKey
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
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.server.reply import Buffer
from rocketmq_py.store.fs.residency import Residency

_PEEKING = "peeking message"


class PeekService:
    """Answers PEEK_MESSAGE, NOTIFICATION and POLLING_INFO, which change nothing.

    :param polling: holds notification requests and counts held pops.
    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(
        self,
        config: BrokerConfig,
        checks: PopChecks,
        reader: PopReader,
        orders: OrderTable,
        polling: PopPolling,
        clock: Callable[[], int],
    ) -> None:
        self._config = config
        self._checks = checks
        self._reader = reader
        self._orders = orders
        self._polling = polling
        self._clock = clock
        self.random_below: Callable[[int], int] = random.randrange
        """Returns a random number below its argument; it selects the first queue, and the order of retry and topic."""

    # -- peek

    def peek(self, peer: Peer, header: PeekMessage) -> Reply | Hold:
        """Return the next messages of a group without popping them; they stay visible."""
        self._checks.check_broker_readable(_PEEKING)
        queues = self._queues_to_read(header, self._checks.check_readable(peer, header))
        return answer_when_loaded(partial(self._peek, header, queues), self._reader.new_residency())

    def _peek(self, header: PeekMessage, queues: Sequence[tuple[str, int]], residency: Residency | None) -> Reply:
        pieces: list[Buffer] = []
        count = rest = 0
        for name, queue_id in queues:
            if not self._reader.is_readable(name, queue_id):
                continue
            start = self._reader.next_offset(header.consumer_group, name, queue_id)
            rest += self._reader.rest(header.consumer_group, name, queue_id)
            if count < header.max_msg_nums:
                _, found = self._reader.get(name, queue_id, start, header.max_msg_nums - count, None, None, residency)
                count += found.count
                pieces.append(found.body)
        answer = PopResponse(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest)
        if count:
            return Reply(Code.SUCCESS, "FOUND", answer, body=pieces)
        return Reply(Code.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE", answer)

    def _queues_to_read(self, header: PeekMessage | Notification, topic: TopicConfig) -> list[tuple[str, int]]:
        """Return topic and id of all queues to read; in one of five calls the retry topic's are first, else last."""
        chance, group = self.random_below(100), header.consumer_group
        wanted = self._queues(topic, chance) if header.queue_id < 0 else [(topic.topic_name, header.queue_id)]
        config = self._config
        forms = [config.enable_retry_topic_v2]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            forms.append(False)
        found = [retry for v2 in forms if (retry := self._reader.retry_topic(header.topic, group, v2=v2)) is not None]
        retries = [queue for retry in found for queue in self._queues(retry, chance)]
        return [*retries, *wanted] if chance % 5 == 0 else [*wanted, *retries]

    def _queues(self, topic: TopicConfig, chance: int) -> list[tuple[str, int]]:
        queues = topic.read_queue_nums
        return [(topic.topic_name, (chance + i) % queues) for i in range(queues)]

    # -- notifications

    def notify(self, peer: Peer, request: Request, born: int | None = None) -> Reply | Hold:
        """Answer if there is a message to pop; otherwise hold the request until its polling time is over.

        :param born: when the client made the request, in milliseconds; by default the time in its header.
        """
        header: Notification = request.header
        self._checks.check_broker_readable(_PEEKING)
        topic = self._checks.check_readable(peer, header)
        if any(self._has_message(header, name, queue_id) for name, queue_id in self._queues_to_read(header, topic)):
            return Reply(header=NotificationResponse(has_msg=True, polling_full=False))
        now = self._clock()
        born = born or header.born_time or now
        key = NotifyKey(header.topic, header.consumer_group, header.queue_id)
        deadline = born + header.poll_time
        refusal = self._polling.notifications.refusal(key, deadline - now, header.poll_time)
        if refusal is None:
            accepts, wants = pop_filters(header)
            held = HeldPop(self._notify_again, peer, request, born)
            return Hold(key, deadline, Poll(deadline, accepts, wants, held))
        return Reply(header=NotificationResponse(has_msg=False, polling_full=refusal is Code.POLLING_FULL))

    def _notify_again(self, held: HeldPop) -> Reply | Hold:
        return self.notify(held.peer, held.request, held.born)

    def _has_message(self, header: Notification, topic: str, queue_id: int) -> bool:
        if not self._reader.is_readable(topic, queue_id):
            return False
        key = OrderKey(header.topic, header.consumer_group, queue_id)
        if header.order and self._orders.is_blocked(key, header.attempt_id, self._clock()):
            return False
        return self._reader.rest(header.consumer_group, topic, queue_id) > 0

    # -- held pops

    def polling_info(self, peer: Peer, header: PollingInfo) -> Reply:
        """Return the number of held pops of a group for a topic and queue."""
        self._checks.check_broker_readable(_PEEKING)
        self._checks.check_readable(peer, header)
        key = PollKey(header.topic, header.consumer_group, header.queue_id)
        return Reply(header=PollingInfoResponse(polling_num=self._polling.pops.table.count(key)))
