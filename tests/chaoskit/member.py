"""A consumer in a process of its own, which may be killed: ``python -m tests.chaoskit.member``.

Takes its options as one JSON object on the command line (:class:`MemberOptions`), prints READY, and then
reports the start and end of every message on standard output, a line each (:class:`~tests.chaoskit.audit.Report`).
Stops cleanly on SIGTERM and when its standard input ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from signal import SIGTERM

import msgspec

from rocketmq_py.aio import ConsumeFromWhere, MessageExt, PushConsumer
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.core.consumer import orderly as locking
from rocketmq_py.model import MessageQueue
from rocketmq_py.server.runner import run
from tests.chaoskit.audit import MessageId, Report, Step

STDOUT = 1
FREQUENT = 1.0
"""Seconds between looks at the routes and writes of offsets, so that little time is lost in small tests."""


class MemberOptions(msgspec.Struct):
    """What a member is to do.

    :param name: how it calls itself in its reports.
    :param address_map: other addresses for those brokers advertise.
    :param lock_seconds: how long it trusts the lock of a queue it consumes in order.
    :param work_seconds: how long its listener takes for a message.
    """

    name: str
    namesrv: str
    group: str
    topic: str
    address_map: dict[str, str] = {}
    orderly: bool = False
    lock_seconds: float = locking.LOCK_LIVE
    work_seconds: float = 0.0


def line_of(report: Report) -> bytes:
    """A report as a line of text."""
    queue, message_id = report.queue, report.message_id
    words = (
        report.step.value,
        f"{report.at:.6f}",
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        report.offset,
        message_id,
    )
    return " ".join(map(str, words)).encode() + b"\n"


def report_of(line: str, member: str) -> Report:
    """The report that is in a line of text."""
    step, at, topic, broker, queue_id, offset, message_id = line.split()
    queue = MessageQueue(topic, broker, int(queue_id))
    return Report(float(at), member, Step(step), queue, int(offset), MessageId.of(message_id))


async def consume(options: MemberOptions) -> None:
    """Consume and report until cancelled."""

    def tell(step: Step, message: MessageExt) -> None:
        queue = MessageQueue(message.topic, message.queue.broker_name, message.queue_id)
        report = Report(time.monotonic(), options.name, step, queue, message.queue_offset, MessageId.of(message.body))
        os.write(STDOUT, line_of(report))  # in one piece, and out of this process before the listener is done

    async def listen(message: MessageExt) -> None:
        tell(Step.BEGIN, message)
        if options.work_seconds:
            await asyncio.sleep(options.work_seconds)
        tell(Step.END, message)

    instance = ClientInstance(
        options.namesrv, instance_name=options.name, address_map=options.address_map, route_interval=FREQUENT,
        offset_interval=FREQUENT,
    )  # fmt: skip
    consumer = PushConsumer(
        options.group, listener=listen, instance=instance, orderly=options.orderly,
        consume_from=ConsumeFromWhere.FIRST_OFFSET,
    )  # fmt: skip
    consumer.subscribe(options.topic)
    try:
        async with consumer:
            os.write(STDOUT, b"READY\n")
            await asyncio.Event().wait()
    finally:
        await instance.stop()


def shorten_locks(seconds: float) -> None:
    """Make locks live as long as told in this process, and everything about them happen as much sooner."""
    share = seconds / locking.LOCK_LIVE
    for name in ("LOCK_LIVE", "LOCK_REFRESH", "RELOCK_DELAY"):
        setattr(locking, name, getattr(locking, name) * share)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os.kill(os.getpid(), SIGTERM)


def main() -> None:
    """Obey the options on the command line."""
    options = msgspec.json.decode(sys.argv[1], type=MemberOptions)
    shorten_locks(options.lock_seconds)
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    run(consume(options))


if __name__ == "__main__":
    main()
