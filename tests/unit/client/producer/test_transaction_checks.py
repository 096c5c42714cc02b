"""Checks of brokers: a bounded number runs, a bounded number waits, all others are left to the broker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from rocketmq_py.aio import ClientInstance
from rocketmq_py.client.producer import transaction_checks
from rocketmq_py.client.producer.transaction_checks import CheckPool, CheckRequest
from rocketmq_py.errors import ConfigError, NetworkError
from rocketmq_py.model import MessageExt, RecordHead, TransactionState
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.transaction import CheckTransactionState
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record, encode_record

COMMIT, UNKNOWN = TransactionState.COMMIT, TransactionState.UNKNOWN


def record(properties: str = "UNIQ_KEY\x01ID\x02PGROUP\x01g\x02") -> bytes:
    head = RecordHead(0, 0, 0, 0, 0, 0, 0, 0, 1, bytes(8), 2, bytes(8), 0, 0, 1)
    return encode_record(head, "t", b"x", properties.encode())


def check(number: int = 0) -> CheckRequest:
    header = CheckTransactionState(tran_state_table_offset=number, commit_log_offset=number)
    return CheckRequest(f"b:{number}", header, decode_record(record(), 0, "b"))


def numbers(checks: list[CheckRequest]) -> list[int]:
    return [one.header.commit_log_offset for one in checks]


class Pool:
    """A pool whose answers are written down; an ``async`` check waits until it is let go."""

    def __init__(self, threads: int = 1, waiting: int = 2, failing: Exception | None = None) -> None:
        self.asked = 0
        self.go = asyncio.Event()
        self.failing = failing
        self.answers: list[tuple[CheckRequest, TransactionState, Exception | None]] = []
        self.pool = CheckPool(self._check, self._answer, threads, waiting)

    async def _check(self, message: MessageExt) -> TransactionState:
        self.asked += 1
        await self.go.wait()
        return COMMIT

    async def _answer(self, one: CheckRequest, state: TransactionState, why: Exception | None) -> None:
        self.answers.append((one, state, why))
        if self.failing is not None:
            raise self.failing

    def answered(self) -> list[int]:
        return numbers([one for one, *_ in self.answers])


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize(("threads", "waiting", "kept"), [(1, 2, 3), (2, 2, 4), (1, 0, 1), (3, 0, 3)])
def test_checks_beyond_those_that_wait_are_dropped(threads: int, waiting: int, kept: int) -> None:
    async def main() -> None:
        made = Pool(threads, waiting)
        for number in range(threads):
            made.pool.submit(check(number))
            await turns()
            assert made.asked == number + 1
        for number in range(threads, kept + 2):
            made.pool.submit(check(number))
        await turns()
        assert made.asked == threads
        made.go.set()
        await turns()
        assert sorted(made.answered()) == list(range(kept))
        made.pool.submit(check(9))
        await turns()
        assert made.answered()[-1] == 9
        await made.pool.close()

    asyncio.run(main())


@pytest.mark.parametrize(("threads", "waiting"), [(0, 0), (1, -1), (-1, 5)])
def test_impossible_limits_are_refused(threads: int, waiting: int) -> None:
    async def answer(*_: object) -> None: ...

    with pytest.raises(ConfigError, match=f"check_threads={threads} .* check_request_hold_max={waiting} "):
        CheckPool(print, answer, threads, waiting)


def test_close_awaits_running_checks_and_drops_waiting_ones() -> None:
    async def main() -> None:
        made = Pool()
        made.pool.submit(check(0))
        await turns()
        made.pool.submit(check(1))
        closing = asyncio.ensure_future(made.pool.close())
        await turns()
        assert not closing.done()
        made.pool.submit(check(2))
        made.go.set()
        await closing
        await turns()
        assert made.answered() == [0]
        made.pool.submit(check(3))
        await turns()
        assert made.asked == 1

    asyncio.run(main())


def test_an_answer_that_cannot_be_sent_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        made = Pool(failing=NetworkError("gone"))
        made.go.set()
        made.pool.submit(check(0))
        made.pool.submit(check(1))
        await turns()
        assert made.answered() == [0, 1]
        await made.pool.close()

    asyncio.run(main())
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


async def asynchronous(message: MessageExt) -> TransactionState:
    return COMMIT


def plain(message: MessageExt) -> TransactionState:
    assert threading.current_thread().name.startswith("rocketmq-transaction-check")
    return COMMIT


def awaitable(message: MessageExt) -> Awaitable[TransactionState]:
    return asynchronous(message)


def failing(message: MessageExt) -> TransactionState:
    raise ValueError("on purpose")


@pytest.mark.parametrize(
    ("function", "state", "failed"),
    [(asynchronous, COMMIT, False), (plain, COMMIT, False), (awaitable, COMMIT, False), (failing, UNKNOWN, True)],
)
def test_a_check_may_be_plain_or_async(
    function: Callable[[MessageExt], TransactionState], state: TransactionState, failed: bool
) -> None:
    async def main() -> None:
        got: asyncio.Future[tuple[TransactionState, Exception | None]] = asyncio.get_running_loop().create_future()

        async def answer(_: CheckRequest, state: TransactionState, why: Exception | None) -> None:
            got.set_result((state, why))

        pool = CheckPool(function, answer, 1, 0)
        pool.submit(check())
        said, why = await got
        assert said is state
        assert isinstance(why, ValueError) is failed
        await pool.close()

    asyncio.run(main())


def test_checks_share_threads_and_one_that_comes_as_another_ends_is_answered() -> None:
    threads = list[threading.Thread]()

    def noting(message: MessageExt) -> TransactionState:
        threads.append(threading.current_thread())
        return COMMIT

    async def main() -> None:
        answered: asyncio.Queue[TransactionState] = asyncio.Queue()

        async def answer(_: CheckRequest, state: TransactionState, why: Exception | None) -> None:
            answered.put_nowait(state)

        pool = CheckPool(noting, answer, 1, 0)
        for _ in range(2):
            pool.submit(check())
            assert await answered.get() is COMMIT
        await pool.close()

    asyncio.run(main())
    assert threads[0] is threads[1]


class Answers:
    """A transaction producer of group g."""

    group = "g"

    def __init__(self) -> None:
        self.checks: list[CheckRequest] = []

    def check_requested(self, check: CheckRequest) -> None:
        self.checks.append(check)


@pytest.mark.parametrize(
    ("body", "served", "level"),
    [
        (record(), 1, None),
        (record("PGROUP\x01other\x02"), 0, "WARNING"),
        (record(""), 0, "WARNING"),
        (b"no record", 0, "ERROR"),
    ],
)
def test_a_check_goes_to_the_producer_of_its_group(
    body: bytes, served: int, level: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    handlers: dict[int, Callable[[str, Command], object]] = {}
    producer = Answers()

    async def main() -> None:
        instance = ClientInstance("ns:1")
        instance.connections.on_request = handlers.__setitem__  # type: ignore[method-assign, assignment]
        instance.producer = {"g": producer}.get  # type: ignore[method-assign, assignment]
        transaction_checks.serve(instance)
        ext = {"tranStateTableOffset": "5", "commitLogOffset": "6", "bname": "b"}
        assert handlers[RequestCode.CHECK_TRANSACTION_STATE]("b:1", Command(39, ext=ext, body=body)) is None
        await instance.stop()

    asyncio.run(main())
    assert len(producer.checks) == served
    assert [one.levelname for one in caplog.records] == ([level] if level else [])
    for one in producer.checks:
        assert (one.address, one.header.tran_state_table_offset) == ("b:1", 5)
        assert (one.message.broker_name, one.message.transaction_id) == ("b", "ID")
