"""``rocketmq message send``: send one message, or one message per line of a file."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from rocketmq_py.cli.connect.connect import PRODUCER_GROUP, Target, cluster_options, complete_topic
from rocketmq_py.cli.message.rows import message_of_row, parse_properties
from rocketmq_py.cli.output.failures import CommandFailure, status_of
from rocketmq_py.cli.output.prompts import progress
from rocketmq_py.cli.output.tables import TABLE, Row, echo_record, output_option
from rocketmq_py.cli.queues import parse_queues

if TYPE_CHECKING:
    from rocketmq_py.client.producer.blocking import Producer
    from rocketmq_py.errors import RocketMQError
    from rocketmq_py.model import Message, MessageQueue, SendResult

MAX_PENDING_SENDS = 64
"""Maximum number of concurrent sends if order does not matter."""
LONGEST_PAUSE = 0.5
"""Longest pause in seconds before a message that a busy broker refused is sent again."""


@click.command("send")
@click.argument("topic", shell_complete=complete_topic)
@click.argument("body", required=False)
@click.option("-f", "--file", type=click.File("rb"), metavar="FILE", help="Read the body from FILE; - for stdin.")
@click.option(
    "--lines", type=click.File("rb"), metavar="FILE", help="Send every line of FILE as a message; - for stdin."
)
@click.option("--jsonl", type=click.File("rb"), metavar="FILE",
              help="Send every line of FILE, a message as -o jsonl prints it; - for stdin.")  # fmt: skip
@click.option("-t", "--tags", metavar="TAG", help="Tag of the message.")
@click.option("-k", "--keys", metavar="'K1 K2'", help="Keys of the message, separated by spaces.")
@click.option("-p", "--property", "properties", metavar="NAME=VALUE", multiple=True, help="A property of the message.")
@click.option("--sharding-key", metavar="KEY", help="Messages with the same key go to the same queue, in order.")
@click.option("--delay-level", type=click.IntRange(min=0), default=0, metavar="N", help="Delay level of the broker.")
@click.option("--delay", type=click.FloatRange(min=0), metavar="SECONDS", help="Deliver after this many seconds.")
@click.option("--queue", metavar="BROKER:N", help="Send to this queue.")
@cluster_options
@output_option
def send(  # noqa: PLR0913 - one for each option
    topic: str, body: str | None, target: Target, output: str, *, file: BinaryIO | None, lines: BinaryIO | None,
    jsonl: BinaryIO | None, tags: str | None, keys: str | None, properties: tuple[str, ...], sharding_key: str | None,
    delay_level: int, delay: float | None, queue: str | None,
) -> None:  # fmt: skip
    """Send BODY to TOPIC; without BODY and FILE, send the contents of stdin unless it is a terminal.

    A message that a busy broker refuses is sent again, until --timeout. With several messages, the first other failure
    ends the command. It reports which messages were sent.
    """
    if sum(source is not None for source in (body, file, lines, jsonl)) > 1:
        raise click.UsageError("BODY, --file, --lines and --jsonl exclude each other")
    fields: dict[str, Any] = {
        "tags": tags, "keys": keys, "sharding_key": sharding_key, "delay_level": delay_level, "delay": delay,
        "properties": parse_properties(properties),
    }  # fmt: skip
    if jsonl is not None and any(fields.values()):
        raise click.UsageError("with --jsonl every line has its own tag, keys and properties")
    ordered = sharding_key is not None or queue is not None
    chosen = _queue(topic, queue)
    if lines is None and jsonl is None:
        _send_one(target, _message(topic, _body(body, file), fields), chosen, output)
    elif jsonl is not None:
        _send_many(target, topic, jsonl, lambda line: _message_of_json(topic, line), chosen, output, ordered=ordered)
    elif lines is not None:
        _send_many(target, topic, lines, lambda line: _message(topic, line, fields), chosen, output, ordered=ordered)


def _message(topic: str, body: bytes, fields: dict[str, Any]) -> Message:
    from rocketmq_py.model import Message

    return Message(topic, body, **fields)


def _message_of_json(topic: str, line: bytes) -> Message:
    """Return the message to ``topic`` that a line of JSON describes.

    :raises ValueError: the line is not a message.
    """
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - callers handle ValueError only
    return message_of_row(topic, row)


def _body(body: str | None, file: BinaryIO | None) -> bytes:
    if body is not None:
        return body.encode()
    if file is not None:
        return file.read()
    if sys.stdin.isatty():
        raise click.UsageError("there is no message: give BODY, --file, --lines or --jsonl, or pipe one in")
    return sys.stdin.buffer.read()


def _queue(topic: str, text: str | None) -> MessageQueue | None:
    from rocketmq_py.model import MessageQueue

    if text is None:
        return None
    ((broker, number),) = parse_queues((text,))
    return MessageQueue(topic, broker, number)


def sent_row(result: SendResult) -> Row:
    """Return the output row of the result of a send."""
    return {
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": result.queue_offset,
        "msgId": result.msg_id,
        "offsetMsgId": result.offset_msg_id,
        "status": result.status.name,
        "recallHandle": result.recall_handle,
    }


def connect(target: Target) -> Producer:
    """Return a blocking producer without retries, with the timeout of the command line; it is not started."""
    from rocketmq_py.client.producer.blocking import Producer

    return Producer(
        PRODUCER_GROUP, target.namesrv, address_map=target.address_map, tls=target.tls,
        credentials=target.credentials, send_timeout=target.timeout, retries=0,
    )  # fmt: skip


def _send_one(target: Target, message: Message, queue: MessageQueue | None, output: str) -> None:
    with connect(target) as producer:
        echo_record(sent_row(_accepted(lambda: _send_message(producer, message, queue), target.timeout)), output)


def _send_message(producer: Producer, message: Message, queue: MessageQueue | None) -> SendResult:
    if queue is None and message.sharding_key is not None:
        return producer.send_ordered(message)
    return producer.send(message, queue)


def _accepted(
    send: Callable[[], SendResult], seconds: float, first: Callable[[], SendResult] | None = None
) -> SendResult:
    """Send a message again, with growing pauses, while the broker refuses it because it is busy.

    Such a broker has not stored the message, so that no attempt stores it twice.

    :param send: sends the message and awaits the result.
    :param seconds: time after which the next refusal is raised.
    :param first: awaits a first attempt that has begun; None to begin with ``send``.
    :raises RocketMQError: the error of an attempt that is not such a refusal, or the last refusal.
    """
    from rocketmq_py.core.backoff import Backoff
    from rocketmq_py.errors import BrokerError
    from rocketmq_py.protocol.codes import ResponseCode

    backoff = Backoff(max_seconds=LONGEST_PAUSE)
    until = time.monotonic() + seconds
    attempt, refusals = first or send, 0
    while True:
        try:
            return attempt()
        except BrokerError as e:
            refusals += 1
            pause = backoff.seconds(refusals, random.random())
            if e.code != ResponseCode.SYSTEM_BUSY or time.monotonic() + pause > until:
                raise
        attempt = send
        time.sleep(pause)


def _send_many(
    target: Target,
    topic: str,
    source: BinaryIO,
    make: Callable[[bytes], Message],
    queue: MessageQueue | None,
    output: str,
    *,
    ordered: bool,
) -> None:
    sender = _LineSender(queue, target.timeout)
    try:
        # On exit, also after Ctrl-C, the producer waits for pending sends, so the count printed below is complete.
        with connect(target) as producer, progress(f"sending to {topic}") as advance:
            send_all = sender.send_in_order if ordered else sender.send_concurrently
            for result in send_all(producer, _messages(source, make)):
                advance(1)
                if output != TABLE:
                    echo_record(sent_row(result), output)
    finally:
        click.echo(f"sent {len(sender.sent)} messages to {topic}{sender.interrupted_send()}", err=output != TABLE)


def _messages(source: BinaryIO, make: Callable[[bytes], Message]) -> Iterator[tuple[int, Message]]:
    """Yield line number (from 1) and message of each line of ``source`` that is not empty.

    :param make: converts a line to a message.
    :raises CommandFailure: a line is not a message.
    """
    for number, line in enumerate(source, 1):
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        try:
            yield number, make(text)
        except ValueError as e:
            raise CommandFailure(f"line {number} is no message: {e}; it and what follows was not sent") from e


class _PendingSend(NamedTuple):
    """A send in progress."""

    line: int
    """Number of the message's line."""
    future: Future[SendResult]
    message: Message


class _LineSender:
    """Sends one message per line, and records the lines whose messages are stored.

    :param queue: the queue to send to; None lets the producer choose.
    :param busy_seconds: how long a message is sent again that a busy broker refuses.
    """

    def __init__(self, queue: MessageQueue | None, busy_seconds: float) -> None:
        self.sent: list[int] = []
        """Numbers of the lines whose messages are stored, in the order of completion."""
        self._queue = queue
        self._busy_seconds = busy_seconds
        self._pending_line: int | None = None

    def interrupted_send(self) -> str:
        """Return a note about the line whose send was interrupted; empty if there is none."""
        if self._pending_line is None:
            return ""
        return f"; the send of line {self._pending_line} was interrupted, and the message may have been stored"

    def send_in_order(self, producer: Producer, messages: Iterable[tuple[int, Message]]) -> Iterator[SendResult]:
        """Send each message after the previous one is stored; yield the results in order.

        :raises CommandFailure: a send failed; the messages after it are not sent.
        """
        from rocketmq_py.errors import RocketMQError

        for number, message in messages:
            self._pending_line = number
            try:
                result = self._await(producer, message)
            except RocketMQError as e:
                self._pending_line = None
                raise _failed({number: e}, number) from e
            self.sent.append(number)
            self._pending_line = None
            yield result

    def send_concurrently(self, producer: Producer, messages: Iterable[tuple[int, Message]]) -> Iterator[SendResult]:
        """Send up to ``MAX_PENDING_SENDS`` messages at the same time; yield the results in order.

        :raises CommandFailure: a send failed. No new send starts after that, and pending sends are awaited.
        """
        from rocketmq_py.errors import RocketMQError

        pending: deque[_PendingSend] = deque()
        failures: dict[int, RocketMQError] = {}
        last = 0
        try:
            for number, message in messages:
                last = number
                pending.append(_PendingSend(number, self._begin(producer, number, message), message))
                yield from self._await_results(producer, pending, MAX_PENDING_SENDS, failures)
                if failures:
                    break
        except RocketMQError as e:
            failures[last] = e
        except CommandFailure:
            yield from self._await_results(producer, pending, 0, failures)
            raise
        yield from self._await_results(producer, pending, 0, failures)
        if failures:
            raise _failed(failures, last)

    def _begin(self, producer: Producer, number: int, message: Message) -> Future[SendResult]:
        future = producer.send_async(message, self._queue)
        future.add_done_callback(lambda done: None if done.exception() else self.sent.append(number))
        return future

    def _await(self, producer: Producer, message: Message, first: Callable[[], SendResult] | None = None) -> SendResult:
        return _accepted(lambda: _send_message(producer, message, self._queue), self._busy_seconds, first)

    def _await_results(
        self, producer: Producer, pending: deque[_PendingSend], most: int, failures: dict[int, RocketMQError]
    ) -> Iterator[SendResult]:
        """Await the oldest sends until at most ``most`` are pending; yield their results in order.

        :param pending: the sends; awaited ones are removed.
        :param failures: the errors of failed sends are added here, by line number.
        """
        from rocketmq_py.errors import RocketMQError

        while len(pending) > most:
            send = pending.popleft()
            try:
                result = self._await(producer, send.message, send.future.result)
            except RocketMQError as e:
                failures[send.line] = e
                continue
            if send.future.exception() is not None:
                self.sent.append(send.line)
            yield result


def _failed(failures: Mapping[int, RocketMQError], last: int) -> CommandFailure:
    """Return the error that lists the lines that were not sent, and those that may have been stored.

    :param failures: errors by line number.
    :param last: the last line whose send was started.
    """
    from rocketmq_py.errors import ConnectError, NetworkError

    first = min(failures)
    unsure = sorted(n for n, e in failures.items() if isinstance(e, NetworkError) and not isinstance(e, ConnectError))
    failed = sorted(failures.keys() - set(unsure))
    text = f"line {first}: {failures[first]}. Nothing after line {last} was sent"
    if failed:
        text += f"; not sent: {', '.join(map(str, failed))}"
    if unsure:
        text += f"; not answered, may have been stored: {', '.join(map(str, unsure))}"
    return CommandFailure(text, status_of(failures[first]))
