"""The future that a blocked thread waits for."""

from __future__ import annotations

import threading

import pytest

from rocketmq_py.client.send.futures import ThreadFuture, resolve
from rocketmq_py.errors import ClosedError
from rocketmq_py.model import MessageQueue, SendResult, SendStatus

RESULT = SendResult(SendStatus.SEND_OK, "id", MessageQueue("T", "b", 0), 7, "offset id")
PATIENCE = 120.0


def test_a_thread_waits_until_there_is_a_result() -> None:
    future, begun = ThreadFuture(), threading.Event()
    got: list[SendResult] = []

    def wait() -> None:
        begun.set()
        got.append(future.result())

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(PATIENCE)
    assert not future.done()
    assert not got
    resolve(future, RESULT)
    thread.join(PATIENCE)
    assert got == [RESULT]
    assert future.done()


def test_the_error_is_raised() -> None:
    future = ThreadFuture()
    error = ClosedError("the producer is closed")
    resolve(future, error)
    assert future.done()
    with pytest.raises(ClosedError) as raised:
        future.result()
    assert raised.value is error


def test_the_first_outcome_stays() -> None:
    future = ThreadFuture()
    resolve(future, RESULT)
    resolve(future, ClosedError("later"))
    assert future.result() == RESULT
