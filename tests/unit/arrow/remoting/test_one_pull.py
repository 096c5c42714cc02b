"""A range whose messages all come with one response needs no fetcher; any other response is a fetcher's."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting import one_pull
from rocketmq_py.arrow.remoting.fetch import Fetcher
from rocketmq_py.arrow.remoting.one_pull import OnePull
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.core.consumer.pull_window import MAX_PULL, FetchedChunk
from rocketmq_py.core.peer import Reply, _decode_reply
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command, encode_json_header
from tests.unit.arrow.remoting.test_fetch import QUEUE, found, messages, pull_header
from tests.unit.arrow.remoting.test_shared_pulls import settings
from tests.unit.arrow.scripted import answer, scripted


def reply(command: Command) -> Reply:
    """A response as a client decodes it."""
    decoded = _decode_reply(encode_json_header(command))
    decoded.body = command.body
    return decoded


def one(start: int, stop: int, address: str = "a:1", **more: Any) -> OnePull:
    return OnePull(LocatedRange(QueueRange(QUEUE, start, stop), Addresses(address)), settings(**more))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Fetcher]:
    """The fetchers that are made from now on."""
    fetchers: list[Fetcher] = []

    class Noted(Fetcher):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            fetchers.append(self)

    monkeypatch.setattr(one_pull, "Fetcher", Noted)
    return fetchers


def test_one_response_with_all_messages_is_taken_as_it_is(made: list[Fetcher]) -> None:
    for reached in (15, 16):
        fetch = one(5, 15)
        assert (fetch.size, fetch.shared_address, fetch.is_asked) == (10, "a:1", False)
        code, fields, body = fetch.first_pull()
        assert (code, body, fetch.is_asked) == (RequestCode.PULL_MESSAGE, b"", True)
        assert {name: fields[name] for name in ("topic", "bname", "queueId", "queueOffset", "maxMsgNums")} == {
            "topic": "orders", "bname": "broker-a", "queueId": "0", "queueOffset": "5", "maxMsgNums": "10",
        }  # fmt: skip
        fetch.answered(reply(answer(body=b"messages", **pull_header(reached))))
        assert not fetch.is_asked
        assert list(fetch.chunks()) == [[FetchedChunk(b"messages", 5, 15)]]
        assert (fetch.between, fetch.skipped) == (0, 0)
        fetch.close()
    assert made == []


@pytest.mark.parametrize(
    "odd",
    [
        answer(body=messages(5, 9), **pull_header(9)),
        answer(body=messages(5, 14), **pull_header(15), damaged="14"),
        answer(ResponseCode.SYSTEM_BUSY, body=b"x", remark="[OVERLOAD]", **pull_header(15)),
        answer(ResponseCode.PULL_RETRY_IMMEDIATELY, body=b"", remark="MESSAGE_WAS_REMOVING", **pull_header(15)),
        answer(body=b"", **pull_header(15)),
    ],
    ids=["short", "damaged", "busy", "gone", "empty"],
)
def test_any_other_response_is_handled_as_that_of_a_fetcher(odd: Command, made: list[Fetcher]) -> None:
    with scripted(found) as peer, closing(one(5, 15, peer.address, peer=peer)) as fetch:
        fetch.first_pull()
        fetch.answered(reply(odd))
        chunks = [chunk for some in fetch.chunks() for chunk in some]
        assert len(made) == 1
        if odd.ext.get("damaged"):
            assert chunks == [FetchedChunk(b"", 5, 15, is_damaged=True)]
            assert peer.asked(RequestCode.PULL_MESSAGE) == []
        else:
            assert b"".join(chunk.body for chunk in chunks) == messages(5, 15)
            first = int(peer.asked(RequestCode.PULL_MESSAGE)[0].ext["queueOffset"])
            assert first == (9 if odd.body == messages(5, 9) else 5)


def test_records_of_a_physical_queue_are_a_matter_of_the_fetcher(made: list[Fetcher]) -> None:
    fetch = one(5, 15)
    assert fetch._whole(reply(answer(body=b"x", **pull_header(15)))) is not None
    assert fetch._whole(reply(answer(body=b"x", **pull_header(15), offsetDelta=0))) is None
    assert made == []


def test_a_range_without_a_response_or_by_itself_is_pulled_by_a_fetcher(made: list[Fetcher]) -> None:
    with scripted(found) as peer:
        with closing(one(5, 15, peer.address, peer=peer)) as fetch:
            fetch.first_pull()
            fetch.unanswered()
            assert not fetch.is_asked
            assert b"".join(chunk.body for some in fetch.chunks() for chunk in some) == messages(5, 15)
        with closing(one(7, 9, peer.address, peer=peer)) as fetch:
            fetch.begin()
            assert len(made) == 2
            assert b"".join(chunk.body for some in fetch.chunks() for chunk in some) == messages(7, 9)
            assert not fetch.is_compacted()
        assert len(made) == 2
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == 2


def test_who_may_be_pulled_with_others() -> None:
    assert one(0, MAX_PULL).shared_address == "a:1"
    assert one(0, MAX_PULL + 1).shared_address is None
    slave = LocatedRange(QueueRange(QUEUE, 0, 1), Addresses(None, ((1, "a:2"),)))
    assert OnePull(slave, settings()).shared_address is None
