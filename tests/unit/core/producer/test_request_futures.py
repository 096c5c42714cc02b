from __future__ import annotations

from rocketmq_py.core.producer.request_futures import Ended, RequestFutures


def test_a_reply_completes_its_request_once() -> None:
    awaited: RequestFutures[str] = RequestFutures()
    awaited.add("1", "t", "waiter")
    assert (awaited.take("2"), awaited.take("1"), awaited.take("1")) == (None, "waiter", None)
    awaited.end("1", 5.0)
    assert awaited.ended("1") is None


def test_a_late_reply_is_recognised_once() -> None:
    awaited: RequestFutures[str] = RequestFutures()
    awaited.add("1", "t", "waiter")
    awaited.end("1", 5.0)
    assert awaited.take("1") is None
    assert (awaited.ended("1"), awaited.ended("1")) == (Ended("t", 5.0), None)


def test_only_the_latest_timed_out_requests_are_remembered() -> None:
    awaited: RequestFutures[None] = RequestFutures()
    for number in range(1025):
        awaited.add(str(number), "t", None)
        awaited.end(str(number), float(number))
    assert (awaited.ended("0"), awaited.ended("1")) == (None, Ended("t", 1.0))
    assert len(awaited) == 0


def test_all_open_requests_are_abandoned_together() -> None:
    awaited: RequestFutures[str] = RequestFutures()
    awaited.add("1", "t", "a")
    awaited.add("2", "u", "b")
    assert len(awaited) == 2
    assert awaited.abandon(7.0) == ["a", "b"]
    assert (awaited.abandon(8.0), awaited.ended("2")) == ([], Ended("u", 7.0))
