"""Brokers' questions about transactions, and the pool that answers them.

Knows who of a client is asked, and how many questions are worked on and wait at one time. Refuses to know how answers
travel.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, runtime_checkable

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.producer.transaction import Check, state_of
from rocketmq_py.errors import ConfigError, CorruptRecord, RocketMQError
from rocketmq_py.model import MessageExt, TransactionState
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.transaction import CheckTransactionState
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record

_log = logging.getLogger(__name__)


class Question(NamedTuple):
    """A broker at ``address`` wants to know how a transaction ended."""

    address: str
    header: CheckTransactionState
    message: MessageExt


@runtime_checkable
class Asked(Protocol):
    """A producer that brokers may ask."""

    def asked(self, question: Question) -> None: ...


Answer = Callable[[Question, TransactionState, Exception | None], Awaitable[None]]
"""Tells the broker; the exception is what the check raised."""


def serve(instance: ClientInstance) -> None:
    """Have the producers of ``instance`` hear what brokers ask about their transactions."""

    def asked(address: str, request: Command) -> None:
        header = CheckTransactionState.from_ext(request.ext)
        try:
            message = decode_record(request.body, 0, header.bname or "")
        except CorruptRecord as e:
            _log.error("broker %s asks about a transaction whose message cannot be read: %s", address, e)
            return
        message.transaction_id = message.properties.get(Property.UNIQUE_KEY)
        group = message.properties.get(Property.PRODUCER_GROUP, "")
        producer: object = instance.producer(group)
        if isinstance(producer, Asked):
            producer.asked(Question(address, header, message))
        else:
            _log.warning("broker %s asks about a transaction of group %r, which has no producer here", address, group)

    instance.connections.on_request(RequestCode.CHECK_TRANSACTION_STATE, asked)


class CheckPool:
    """Answers questions, some at a time; belongs to the event loop it is used in.

    Plain checks run in threads of its own, so that they keep neither the loop nor anybody's listeners waiting.

    :param threads: how many checks run at a time.
    :param waiting: how many more may wait; questions beyond are dropped, and asked again by the broker.
    """

    def __init__(self, check: Check, answer: Answer, threads: int, waiting: int) -> None:
        if threads < 1 or waiting < 0:
            raise ConfigError(
                f"check_threads={threads} must be at least 1, check_request_hold_max={waiting} at least 0"
            )
        self._check = check
        self._answer = answer
        self._size = threads
        self._most_waiting = waiting
        self._line: deque[Question] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def submit(self, question: Question) -> None:
        """Have a question answered."""
        if self._closed:
            return
        if len(self._line) >= self._most_waiting and len(self._tasks) >= self._size:
            _log.warning(
                "%d questions about transactions wait already: the one of broker %s about %s is dropped, it will ask "
                "again", len(self._line), question.address, question.message.msg_id,
            )  # fmt: skip
            return
        self._line.append(question)
        if len(self._tasks) < self._size:
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop the questions that wait, and return when those being worked on are answered."""
        self._closed = True
        self._line.clear()
        await asyncio.gather(*self._tasks)
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _work(self) -> None:
        while self._line:
            question = self._line.popleft()
            failure: Exception | None = None
            try:
                state = state_of(await self._ask(question.message), "check_local_transaction")
            except Exception as e:  # noqa: BLE001 - whatever it is: the broker will ask again
                _log.exception("the check of transaction %s failed", question.message.msg_id)
                state, failure = TransactionState.UNKNOWN, e
            try:
                await self._answer(question, state, failure)
            except RocketMQError as e:
                _log.warning("broker %s did not hear how transaction %s ended, and will ask again: %s",
                             question.address, question.message.msg_id, e)  # fmt: skip

    async def _ask(self, message: MessageExt) -> object:
        if inspect.iscoroutinefunction(self._check):
            return await self._check(message)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, "rocketmq-transaction-check")
        said = await asyncio.get_running_loop().run_in_executor(self._threads, self._check, message)
        return await said if inspect.isawaitable(said) else said
