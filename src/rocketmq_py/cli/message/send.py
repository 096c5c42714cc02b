"""``rocketmq message send``: one message from the command line, or many from lines."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, BinaryIO

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

AT_ONCE = 64
"""How many messages are under way at the same time, where their order does not matter."""


@click.command("send")
@click.argument("topic", shell_complete=complete_topic)
@click.argument("body", required=False)
@click.option("-f", "--file", type=click.File("rb"), metavar="FILE", help="The body is what FILE holds; - for stdin.")
@click.option("--lines", type=click.File("rb"), metavar="FILE", help="Every line of FILE is a message; - for stdin.")
@click.option("--jsonl", type=click.File("rb"), metavar="FILE",
              help="Every line of FILE is a message as -o jsonl prints them; - for stdin.")  # fmt: skip
@click.option("-t", "--tags", metavar="TAG", help="Its tag.")
@click.option("-k", "--keys", metavar="'K1 K2'", help="Its keys, separated by spaces.")
@click.option("-p", "--property", "properties", metavar="NAME=VALUE", multiple=True, help="A property.")
@click.option("--sharding-key", metavar="KEY", help="Messages with the same key go to the same queue, in order.")
@click.option("--delay-level", type=click.IntRange(min=0), default=0, metavar="N", help="One of the broker's delays.")
@click.option("--delay", type=click.FloatRange(min=0), metavar="SECONDS", help="Delivered after so many seconds.")
@click.option("--queue", metavar="BROKER:N", help="To this queue.")
@cluster_options
@output_option
def send(  # noqa: PLR0913 - one for each option
    topic: str, body: str | None, target: Target, output: str, *, file: BinaryIO | None, lines: BinaryIO | None,
    jsonl: BinaryIO | None, tags: str | None, keys: str | None, properties: tuple[str, ...], sharding_key: str | None,
    delay_level: int, delay: float | None, queue: str | None,
) -> None:  # fmt: skip
    """Send BODY to TOPIC; without BODY and FILE what stdin holds, if it is no terminal.

    Of many messages the first that fails ends it: which are sent is told, and nothing is sent a second time.
    """
    if sum(source is not None for source in (body, file, lines, jsonl)) > 1:
        raise click.UsageError("BODY, --file, --lines and --jsonl exclude each other")
    named: dict[str, Any] = {
        "tags": tags, "keys": keys, "sharding_key": sharding_key, "delay_level": delay_level, "delay": delay,
        "properties": parse_properties(properties),
    }  # fmt: skip
    if jsonl is not None and any(named.values()):
        raise click.UsageError("with --jsonl every line says its own tag, keys and properties")
    ordered = sharding_key is not None or queue is not None
    chosen = _queue(topic, queue)
    if lines is None and jsonl is None:
        _send_one(target, _message(topic, _body(body, file), named), chosen, output)
    elif jsonl is not None:
        _send_many(target, topic, jsonl, lambda line: _of_json(topic, line), chosen, output, ordered=ordered)
    elif lines is not None:
        _send_many(target, topic, lines, lambda line: _message(topic, line, named), chosen, output, ordered=ordered)


def _message(topic: str, body: bytes, named: dict[str, Any]) -> Message:
    from rocketmq_py.model import Message

    return Message(topic, body, **named)


def _of_json(topic: str, line: bytes) -> Message:
    """The message of a line.

    :raises ValueError: it is none.
    """
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one kind of error for one kind of fault
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
    """Where a message went."""
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
    """A blocking producer that tries once and waits as long as the command line says."""
    from rocketmq_py.client.producer.blocking import Producer

    return Producer(
        PRODUCER_GROUP, target.namesrv, address_map=target.address_map, tls=target.tls,
        credentials=target.credentials, send_timeout=target.timeout, retries=0,
    )  # fmt: skip


def _send_one(target: Target, message: Message, queue: MessageQueue | None, output: str) -> None:
    with connect(target) as producer:
        echo_record(sent_row(_in_order(producer, message, queue)), output)


def _in_order(producer: Producer, message: Message, queue: MessageQueue | None) -> SendResult:
    if queue is None and message.sharding_key is not None:
        return producer.send_ordered(message)
    return producer.send(message, queue)


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
    lines = _Lines(queue)
    try:
        # Leaving the producer waits for what is under way, also after Ctrl-C: the count below is the whole truth.
        with connect(target) as producer, progress(f"sending to {topic}") as tell:
            send_all = lines.one_by_one if ordered else lines.many_at_once
            for result in send_all(producer, _messages(source, make)):
                tell(1)
                if output != TABLE:
                    echo_record(sent_row(result), output)
    finally:
        click.echo(f"sent {len(lines.sent)} messages to {topic}{lines.doubt()}", err=output != TABLE)


def _messages(source: BinaryIO, make: Callable[[bytes], Message]) -> Iterator[tuple[int, Message]]:
    """The messages of lines that are not empty, with the lines' numbers."""
    for number, line in enumerate(source, 1):
        text = line.rstrip(b"\r\n")
        if not text:
            continue
        try:
            yield number, make(text)
        except ValueError as e:
            raise CommandFailure(f"line {number} is no message: {e}; it and what follows was not sent") from e


class _Lines:
    """Sends messages of lines, and knows at any time what became of them.

    :param queue: where to; None for wherever a producer sends.
    """

    def __init__(self, queue: MessageQueue | None) -> None:
        self.sent: list[int] = []
        """The numbers of the lines that are stored."""
        self._queue = queue
        self._under_way: int | None = None

    def doubt(self) -> str:
        """What to say of a line whose sending was interrupted."""
        if self._under_way is None:
            return ""
        return f"; line {self._under_way} was under way when this was interrupted, and may have been stored"

    def one_by_one(self, producer: Producer, messages: Iterable[tuple[int, Message]]) -> Iterator[SendResult]:
        """Results in the order of the messages, each of which is sent when the one before is stored."""
        from rocketmq_py.errors import RocketMQError

        for number, message in messages:
            self._under_way = number
            try:
                result = _in_order(producer, message, self._queue)
            except RocketMQError as e:
                self._under_way = None
                raise _failed({number: e}, number) from e
            self.sent.append(number)
            self._under_way = None
            yield result

    def many_at_once(self, producer: Producer, messages: Iterable[tuple[int, Message]]) -> Iterator[SendResult]:
        """Results in the order of the messages. After a failure nothing more is sent, but what is under way counts."""
        from rocketmq_py.errors import RocketMQError

        pending: deque[tuple[int, Future[SendResult]]] = deque()
        failures: dict[int, RocketMQError] = {}
        last = 0
        try:
            for number, message in messages:
                last = number
                pending.append((number, self._begin(producer, number, message)))
                yield from _settle(pending, AT_ONCE, failures)
                if failures:
                    break
        except RocketMQError as e:
            failures[last] = e
        except CommandFailure:
            yield from _settle(pending, 0, failures)
            raise
        yield from _settle(pending, 0, failures)
        if failures:
            raise _failed(failures, last)

    def _begin(self, producer: Producer, number: int, message: Message) -> Future[SendResult]:
        future = producer.send_async(message, self._queue)
        future.add_done_callback(lambda done: None if done.exception() else self.sent.append(number))
        return future


def _settle(
    pending: deque[tuple[int, Future[SendResult]]], most: int, failures: dict[int, RocketMQError]
) -> Iterator[SendResult]:
    """Waits until at most so many are under way; what failed goes to ``failures``."""
    from rocketmq_py.errors import RocketMQError

    while len(pending) > most:
        number, future = pending.popleft()
        try:
            yield future.result()
        except RocketMQError as e:
            failures[number] = e


def _failed(failures: Mapping[int, RocketMQError], last: int) -> CommandFailure:
    """What is to be said of lines that were not sent, or perhaps not; ``last`` is the last one that was tried."""
    from rocketmq_py.errors import ConnectError, NetworkError

    first = min(failures)
    unsure = sorted(n for n, e in failures.items() if isinstance(e, NetworkError) and not isinstance(e, ConnectError))
    failed = sorted(failures.keys() - set(unsure))
    text = f"line {first}: {failures[first]}. Nothing after line {last} was sent"
    if failed:
        text += f"; not sent: {', '.join(map(str, failed))}"
    if unsure:
        text += f"; not answered, and perhaps stored nonetheless: {', '.join(map(str, unsure))}"
    return CommandFailure(text, status_of(failures[first]))
