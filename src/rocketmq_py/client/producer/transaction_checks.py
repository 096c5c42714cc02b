"""Transaction checks: brokers ask whether a transaction was committed; a pool runs the application's answers."""

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


class CheckRequest(NamedTuple):
    """A check: the broker at ``address`` asks for the outcome of the transaction of ``message``, the half message."""

    address: str
    header: CheckTransactionState
    message: MessageExt


@runtime_checkable
class AnswersChecks(Protocol):
    """A producer that answers checks; ``check_requested`` is called in the event loop and must not block."""

    def check_requested(self, check: CheckRequest) -> None: ...


Answer = Callable[[CheckRequest, TransactionState, Exception | None], Awaitable[None]]
"""Sends the outcome of a transaction to the broker; the exception is that of the check function, else None."""


def serve(instance: ClientInstance) -> None:
    """Register the handler of CHECK_TRANSACTION_STATE: it passes a check to the producer of the message's group."""

    def checked(address: str, request: Command) -> None:
        header = CheckTransactionState.from_ext(request.ext)
        try:
            message = decode_record(request.body, 0, header.bname or "")
        except CorruptRecord as e:
            _log.error("broker %s checks a transaction whose message cannot be decoded: %s", address, e)
            return
        message.transaction_id = message.properties.get(Property.UNIQUE_KEY)
        group = message.properties.get(Property.PRODUCER_GROUP, "")
        producer: object = instance.producer(group)
        if isinstance(producer, AnswersChecks):
            producer.check_requested(CheckRequest(address, header, message))
        else:
            _log.warning(
                "broker %s checks a transaction of group %r, which has no transaction producer here", address, group
            )

    instance.connections.on_request(RequestCode.CHECK_TRANSACTION_STATE, checked)


class CheckPool:
    """Runs the application's check function, a bounded number of calls at a time. Use it in one event loop only.

    A plain function runs in threads of the pool, an ``async def`` one in the loop.

    :param check: returns the state of a message's transaction.
    :param answer: sends that state to the broker.
    :param threads: maximum number of checks that run at the same time.
    :param waiting: maximum number of checks that wait; further ones are dropped, and the broker repeats them.
    :raises ConfigError: ``threads`` is less than 1, or ``waiting`` less than 0.
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
        self._queue: deque[CheckRequest] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        """Number of tasks that look at the queue again; one that ended may be in ``_tasks`` for a turn of the loop."""
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def submit(self, check: CheckRequest) -> None:
        """Run a check in the background; drop it if ``waiting`` checks wait already or the pool is closed."""
        if self._closed:
            return
        if len(self._queue) >= self._most_waiting and self._working >= self._size:
            _log.warning(
                "%d transaction checks wait already: the one of broker %s for %s is dropped, the broker repeats it",
                len(self._queue), check.address, check.message.msg_id,
            )  # fmt: skip
            return
        self._queue.append(check)
        if self._working < self._size:
            self._working += 1
            task = asyncio.ensure_future(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Drop waiting checks, and wait until the running ones have ended."""
        self._closed = True
        self._queue.clear()
        await asyncio.gather(*self._tasks)
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._answer_one(self._queue.popleft())
        finally:
            self._working -= 1

    async def _answer_one(self, check: CheckRequest) -> None:
        failure: Exception | None = None
        try:
            state = state_of(await self._ask(check.message), "check_local_transaction")
        except Exception as e:  # noqa: BLE001 - any failure: the broker repeats the check
            _log.exception("the check of transaction %s failed", check.message.msg_id)
            state, failure = TransactionState.UNKNOWN, e
        try:
            await self._answer(check, state, failure)
        except RocketMQError as e:
            _log.warning(
                "the answer to broker %s about transaction %s could not be sent, the broker repeats the check: %s",
                check.address, check.message.msg_id, e,
            )  # fmt: skip

    async def _ask(self, message: MessageExt) -> object:
        if inspect.iscoroutinefunction(self._check):
            return await self._check(message)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._size, "rocketmq-transaction-check")
        said = await asyncio.get_running_loop().run_in_executor(self._threads, self._check, message)
        return await said if inspect.isawaitable(said) else said
