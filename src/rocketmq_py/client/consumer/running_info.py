"""Reports the state of a consumer: health, lag, Java's ConsumerRunningInfo. Also consumes one message on request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter, time
from typing import Any

import msgspec

from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.dispatch.concurrent import Listeners
from rocketmq_py.client.consumer.dispatch.listeners import ConsumeRequest, Listener
from rocketmq_py.client.consumer.dispatch.orderly_listeners import OrderlyListener
from rocketmq_py.core.consumer.flow_control import MEBIBYTE
from rocketmq_py.core.consumer.orderly import OrderedQueue, OrderlyRun, RunEnd
from rocketmq_py.core.consumer.process_queue import ProcessQueue
from rocketmq_py.core.consumer.pull_result import restore_topic
from rocketmq_py.core.consumer.stuck_listeners import CallKey, call_position
from rocketmq_py.core.pop.receipts import ALL_QUEUES
from rocketmq_py.model import MessageExt, MessageQueue
from rocketmq_py.protocol.codes import version_name
from rocketmq_py.wire.command import VERSION

_SILENT = 60.0
"""Seconds without a pull after which a queue is not healthy; a pull takes at most 30."""


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """State of a queue that the consumer owns.

    :ivar held: the number of messages that are pulled but not consumed yet.
    :ivar held_bytes: the size of their bodies in bytes.
    :ivar commit_offset: the offset of the next message to consume; None before the first message.
    :ivar behind: how many offsets the last pulled message is before the queue's end.
    :ivar since_pull: seconds since the last pull.
    :ivar since_consume: seconds since the last message was consumed.
    """

    queue: MessageQueue
    held: int
    held_bytes: int
    commit_offset: int | None
    behind: int
    since_pull: float
    since_consume: float


@dataclass(frozen=True, slots=True)
class StuckListener:
    """A listener call that has been running for ``seconds``, with the message of ``queue`` at ``offset``."""

    queue: MessageQueue
    offset: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Health:
    """A snapshot of the health of a consumer.

    :ivar state: ``new``, ``starting``, ``running``, ``closing`` or ``closed``.
    :ivar suspended: True between ``suspend()`` and ``resume()`` of a push consumer.
    :ivar queues: the queues that the consumer owns.
    :ivar rates: the values of Java's ConsumeStatus over the last minute, by topic.
    :ivar stuck: the listener calls that have been running for longer than ``stuck_after`` seconds, the longest first.
    :ivar problems: current errors: missing topics, brokers that are unreachable or refuse requests, members with
        different subscriptions. Empty if there are none.
    :ivar damaged: the number of messages skipped since the start, because they are damaged or cannot be decoded.
    """

    state: str
    suspended: bool
    client_id: str
    group: str
    queues: list[QueueHealth]
    rates: dict[str, dict[str, float]]
    stuck: list[StuckListener]
    problems: list[str]
    damaged: int

    @property
    def ok(self) -> bool:
        """True if the consumer runs, pulled every queue in the last minute, and has no problem or stuck listener."""
        pulled = all(queue.since_pull < _SILENT for queue in self.queues)
        return self.state == ConsumerState.RUNNING.value and pulled and not self.stuck and not self.problems


def health(group: ConsumerGroup) -> Health:
    """Make a snapshot of the health of a consumer."""
    now = group.now()
    return Health(
        state=group.state.value,
        suspended=group.suspended,
        client_id=group.instance.client_id,
        group=group.name,
        queues=[_queue_health(group, process, now) for _, process in sorted(group.queues.items())],
        rates={group.shown_topic(topic): rates for topic, rates in _rates(group).items()},
        stuck=[_stuck_listener(group, key, seconds) for key, seconds in group.stopwatch.stuck(now)],
        problems=sorted({str(problem) for problem in group.problems.values()}),
        damaged=group.skipped.count,
    )


def _stuck_listener(group: ConsumerGroup, key: CallKey, seconds: float) -> StuckListener:
    queue, offset = call_position(key)
    return StuckListener(group.shown(queue), offset, seconds)


def _stuck_text(group: ConsumerGroup) -> str:
    """Listeners that have not returned for long: ``TOPIC BROKER QUEUE OFFSET SECONDS``, separated by semicolons."""
    found = (_stuck_listener(group, key, seconds) for key, seconds in group.stopwatch.stuck(group.now()))
    return ";".join(
        f"{one.queue.topic} {one.queue.broker_name} {one.queue.queue_id} {one.offset} {one.seconds:.0f}"
        for one in found
    )


def _queue_health(group: ConsumerGroup, process: ProcessQueue, now: float) -> QueueHealth:
    return QueueHealth(
        group.shown(process.queue), process.count, process.size, group.offsets.get(process.queue), process.accumulated,
        now - process.pulled_at, now - process.consumed_at,
    )  # fmt: skip


def _rates(group: ConsumerGroup) -> dict[str, dict[str, float]]:
    now = group.now()
    return {topic: group.stats(topic).status(now) for topic in group.subscriptions}


async def lag(group: ConsumerGroup) -> dict[MessageQueue, int]:
    """Ask the brokers how many messages of each owned queue are not consumed yet, or not popped yet if it is popped."""
    queues: set[MessageQueue] = set()
    for queue in group.queues:
        if queue.queue_id == ALL_QUEUES:
            route = await group.instance.routes.get(queue.topic)
            queues.update(each for each in route.read_queues if each.broker_name == queue.broker_name)
        else:
            queues.add(queue)
    return await lag_of(group, sorted(queues))


async def lag_of(group: ConsumerGroup, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """Ask the brokers how many messages of each of ``queues`` follow the group's committed offset."""
    lags = await asyncio.gather(*(_lag_of(group, queue) for queue in queues))
    return dict(zip(map(group.shown, queues), lags, strict=True))


async def _lag_of(group: ConsumerGroup, queue: MessageQueue) -> int:
    offsets = group.offsets
    end = await offsets.max_offset(queue)
    done = offsets.get(queue)
    if done is None:
        done = await offsets.fetch(queue)
    if done is None:
        done = await offsets.min_offset(queue)
    return max(0, end - done)


def running_info(group: ConsumerGroup) -> dict[str, Any]:
    """The JSON object of Java's ConsumerRunningInfo; the keys of ``mqTable`` and ``mqPopTable`` are MessageQueues."""
    options = group.options
    return {
        "properties": {
            "PROP_NAMESERVER_ADDR": f"{group.instance.name_servers};",
            "PROP_THREADPOOL_CORE_SIZE": str(group.threads),
            "PROP_CONSUMEORDERLY": str(options.orderly).lower(),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CLIENT_VERSION": version_name(VERSION),
            "PROP_CONSUMER_START_TIMESTAMP": str(int(group.started_at * 1000)),
            "consumerGroup": group.name,
            "messageModel": options.message_model.value,
            "consumeFromWhere": options.consume_from.value,
            "consumeMessageBatchMaxSize": str(options.consume_batch_size),
            "pullBatchSize": str(options.pull_batch_size),
            "maxReconsumeTimes": str(options.max_reconsume_times),
            "pullThresholdForQueue": str(options.pull_threshold_for_queue),
            "pullThresholdSizeForQueue": str(options.pull_threshold_size_for_queue),
            "consumeConcurrentlyMaxSpan": str(options.consume_max_span),
            "stuckListeners": _stuck_text(group),
        },
        "subscriptionSet": [msgspec.to_builtins(subscription) for subscription in group.subscriptions.values()],
        "mqTable": {
            queue: _queue_info(group, process)
            for queue, process in group.queues.items()
            if not process.has_invisible_time
        },
        "mqPopTable": {
            queue: _pop_info(group, process) for queue, process in group.queues.items() if process.has_invisible_time
        },
        "statusTable": _rates(group),
        "userConsumerInfo": {},
    }


def _pop_info(group: ConsumerGroup, process: ProcessQueue) -> dict[str, Any]:
    popped_at = int((time() - group.now() + process.pulled_at) * 1000)
    return {"waitAckCount": process.count, "droped": process.dropped, "lastPopTimestamp": popped_at}


def _queue_info(group: ConsumerGroup, process: ProcessQueue) -> dict[str, Any]:
    wall = time() - group.now()
    kept = process.kept if isinstance(process, OrderedQueue) else ()
    locked_at = process.locked_at if isinstance(process, OrderedQueue) else None
    return {
        "commitOffset": group.offsets.get(process.queue) or 0,
        "cachedMsgMinOffset": max(process.min_offset, 0),
        "cachedMsgMaxOffset": max(process.max_offset, 0) if process.count else 0,
        "cachedMsgCount": process.count,
        "cachedMsgSizeInMiB": process.size // MEBIBYTE,
        "transactionMsgMinOffset": kept[0].queue_offset if kept else 0,
        "transactionMsgMaxOffset": kept[-1].queue_offset if kept else 0,
        "transactionMsgCount": len(kept),
        "locked": locked_at is not None,
        "tryUnlockTimes": 0,
        "lastLockTimestamp": int((wall + locked_at) * 1000) if locked_at is not None else 0,
        "droped": process.dropped,
        "lastPullTimestamp": int((wall + process.pulled_at) * 1000),
        "lastConsumeTimestamp": int((wall + process.consumed_at) * 1000),
    }


async def consume_directly(group: ConsumerGroup, listeners: Listeners[Any], message: MessageExt) -> dict[str, Any]:
    """Pass a message to the listener of its topic; offsets do not change.

    :returns: the JSON object of Java's ConsumeMessageDirectlyResult.
    """
    restore_topic([message], group.retry_topic)
    group.show([message])
    listener = listeners.of(message.topic)
    began = perf_counter()
    answer = {"order": group.options.orderly, "autoCommit": True}
    if listener is None:
        return {**answer, "consumeResult": "CR_THROW_EXCEPTION", "spentTimeMills": 0,
                "remark": f"group {group.name} has no listener for topic {message.topic}"}  # fmt: skip
    done = await (_in_order if group.options.orderly else _alone)(listener, message)
    return {**answer, "consumeResult": "CR_SUCCESS" if done else "CR_LATER",
            "spentTimeMills": int((perf_counter() - began) * 1000)}  # fmt: skip


async def _alone(listener: Listener, message: MessageExt) -> bool:
    request = ConsumeRequest(ProcessQueue(message.queue, 0.0), message.topic, [message], listener)
    if listener.is_async:
        await listener.arun(request)
    else:
        await asyncio.to_thread(listener.run, request)
    return bool(request.done)


async def _in_order(listener: OrderlyListener, message: MessageExt) -> bool:
    run = OrderlyRun(OrderedQueue(message.queue, 0.0, needs_lock=False), [message], 1)
    if listener.is_async:
        await listener.aconsume(run)
    else:
        await asyncio.to_thread(listener.consume, run)
    return run.end is RunEnd.EMPTY
