"""Ranges of several queues are pulled ahead of their use, small ones of one broker together."""

from __future__ import annotations

import threading
from contextlib import closing
from unittest.mock import patch

import pytest

from rocketmq_py.arrow.ranges import DataLossError, QueueRange
from rocketmq_py.arrow.remoting.connection import IdleConnections
from rocketmq_py.arrow.remoting.fetch import FetchSettings
from rocketmq_py.arrow.remoting.one_pull import OnePull
from rocketmq_py.arrow.remoting.queues import Addresses, LocatedRange
from rocketmq_py.arrow.remoting.shared_pulls import MOST_MESSAGES, MOST_RANGES, grouped, prefetched
from rocketmq_py.core.consumer.pull_window import MAX_PULL
from rocketmq_py.errors import NetworkError, RocketMQError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.blocking import BlockingConnection
from rocketmq_py.wire.command import Command
from tests.unit.arrow.remoting.test_fetch import body_of, found, messages, pull_header, sometimes
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

QUEUE = MessageQueue("orders", "broker-a", 0)


def settings(peer: ScriptedPeer | None = None, retries: int = 3, *, fail: bool = True) -> FetchSettings:
    namesrv = () if peer is None else (peer.address,)
    return FetchSettings(namesrv=namesrv, timeout=5, retries=retries, in_flight=8, fail_on_data_loss=fail)


class Read:
    """A read of ``number`` queues, ``size`` messages each, with a pool of connections; a context manager."""

    def __init__(
        self, peer: ScriptedPeer, number: int, limit: int, *, size: int = 10, retries: int = 3, fail: bool = True,
        addresses: Addresses | None = None,
    ) -> None:  # fmt: skip
        self.idle = IdleConnections()
        at = addresses or Addresses(peer.address)
        self.fetchers = [
            OnePull(
                LocatedRange(QueueRange(QUEUE._replace(queue_id=i), 10 * i, 10 * i + size), at),
                settings(peer, retries, fail=fail), self.idle,
            )
            for i in range(number)
        ]  # fmt: skip
        self._ranges = prefetched(iter(self.fetchers), limit, self.idle)

    def bodies(self) -> list[bytes]:
        return [body_of(fetcher) for fetcher in self._ranges]

    def close(self) -> None:
        self._ranges.close()
        self.idle.close()


def writes(peer: ScriptedPeer, read: Read) -> list[int]:
    """Read everything; return the number of requests of each write."""
    sent: list[int] = []
    send = BlockingConnection.send

    def counted(self, requests):
        opaques = send(self, requests)
        sent.append(len(opaques))
        return opaques

    with patch.object(BlockingConnection, "send", counted):
        assert read.bodies() == [messages(10 * i, 10 * i + 10) for i in range(len(read.fetchers))]
    assert len(peer.asked(RequestCode.PULL_MESSAGE)) == sum(sent)
    return sent


def test_the_pulls_of_small_ranges_are_sent_in_one_write() -> None:
    with scripted(found) as peer, closing(Read(peer, 2 * MOST_RANGES + 6, 4)) as read:
        assert writes(peer, read) == [MOST_RANGES, MOST_RANGES, 6]
        asked = [int(pull.ext["queueId"]) for pull in peer.asked(RequestCode.PULL_MESSAGE)]
        first = asked.index(0)  # another connection's requests may arrive first
        assert [queue for queue in asked[first:] if queue < MOST_RANGES] == list(range(MOST_RANGES))
        assert sorted(asked) == list(range(2 * MOST_RANGES + 6))


def test_a_single_range_is_pulled_by_itself() -> None:
    with scripted(found) as peer, closing(Read(peer, 1, 4)) as read:
        assert writes(peer, read) == [1]


def test_groups_are_pulled_while_earlier_ones_are_read() -> None:
    """A broker that answers the first pull when the third group has been asked for."""
    told = threading.Event()

    def together(request: Command) -> Command:
        if int(request.ext["queueId"]) == 2 * MOST_RANGES:
            told.set()
        assert told.wait(60)
        return found(request)

    with scripted(together) as peer, closing(Read(peer, 4 * MOST_RANGES, 3)) as read:
        next(read._ranges)
        asked = {int(pull.ext["queueId"]) for pull in peer.asked(RequestCode.PULL_MESSAGE)}
        assert max(asked) < 3 * MOST_RANGES
        assert read.bodies() == [messages(10 * i, 10 * i + 10) for i in range(1, 4 * MOST_RANGES)]


def test_connections_of_groups_are_used_again() -> None:
    with scripted(found) as peer, closing(Read(peer, 4 * MOST_RANGES, 1)) as read:
        taken = []
        take = IdleConnections.take

        def noted(self, address):
            taken.append(take(self, address))
            return taken[-1]

        with patch.object(IdleConnections, "take", noted):
            read.bodies()
        assert [one is None for one in taken] == [True, False, False, False]
        assert len({id(one) for one in taken[1:]}) == 1


def test_a_read_that_is_left_closes_its_connections() -> None:
    with scripted(found) as peer:
        read = Read(peer, 2 * MOST_RANGES, 2)
        next(read._ranges)
        opened = []
        close = BlockingConnection.close

        def noted(self):
            opened.append(self)
            close(self)

        with patch.object(BlockingConnection, "close", noted):
            read.close()
        assert len({id(one) for one in opened}) == 2
        assert all(one._socket.fileno() == -1 for one in opened)


@pytest.mark.parametrize("every", [2, 7, 33])
def test_lost_connections_are_made_up_for(every: int) -> None:
    with scripted(sometimes(every, lambda _: None)) as peer, closing(Read(peer, 70, 3, retries=8)) as read:
        assert read.bodies() == [messages(10 * i, 10 * i + 10) for i in range(70)]


def test_a_busy_broker_is_asked_again_for_the_ranges_it_refused() -> None:
    busy = sometimes(5, lambda _: answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]"))
    with scripted(busy) as peer, closing(Read(peer, 40, 2, retries=8)) as read:
        assert read.bodies() == [messages(10 * i, 10 * i + 10) for i in range(40)]
        assert len(peer.asked(RequestCode.PULL_MESSAGE)) == 49, "each fifth was refused"


def test_short_answers_are_completed() -> None:
    with scripted(lambda request: found(request, 32)) as peer, closing(Read(peer, 5, 2, size=100)) as read:
        assert read.bodies() == [messages(10 * i, 10 * i + 100) for i in range(5)]


def test_ranges_of_a_missing_broker_cannot_start() -> None:
    with scripted(found) as peer:
        pass
    with closing(Read(peer, 2, 2, retries=1)) as read, pytest.raises(NetworkError, match="cannot connect"):
        read.bodies()


def test_a_slave_takes_over_for_an_absent_master() -> None:
    with scripted(found) as gone:
        pass
    with scripted(found) as peer:
        at = Addresses(gone.address, ((1, peer.address),))
        with closing(Read(peer, 3, 2, addresses=at)) as read:
            assert read.bodies() == [messages(10 * i, 10 * i + 10) for i in range(3)]


def test_the_error_of_a_range_is_raised_at_this_range() -> None:
    def third_is_gone(request: Command) -> Command:
        if request.ext["queueId"] == "2":
            return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(25, least=25, most=30))
        return found(request)

    with scripted(third_is_gone) as peer, closing(Read(peer, 5, 2)) as read:
        assert [body_of(next(read._ranges)) for _ in range(2)] == [messages(0, 10), messages(10, 20)]
        fetcher = next(read._ranges)
        with pytest.raises(DataLossError, match="offsets 20 to 24 of orders@broker-a:2 have been removed"):
            body_of(fetcher)
        assert body_of(next(read._ranges)) == messages(30, 40)


def test_lost_messages_are_skipped_if_the_query_allows_that() -> None:
    def gone(request: Command) -> Command:
        if int(request.ext["queueOffset"]) == 20:
            return answer(ResponseCode.PULL_OFFSET_MOVED, **pull_header(25, least=25, most=30))
        return found(request)

    with scripted(gone) as peer, closing(Read(peer, 3, 2, fail=False)) as read:
        assert read.bodies()[2] == messages(25, 30)
        assert read.fetchers[2].skipped == 5


NEAR = Addresses("a:1")


def alone(*sizes: int, at: Addresses = NEAR) -> list[OnePull]:
    return [OnePull(LocatedRange(QueueRange(QUEUE, 0, size), at), settings()) for size in sizes]


def groups(fetchers: list[OnePull]) -> list[list[int]]:
    return [[fetcher.size for fetcher in group] for group in grouped(fetchers)]


def test_which_ranges_are_pulled_together() -> None:
    assert groups([]) == []
    assert groups(alone(5, MAX_PULL, 7)) == [[5, MAX_PULL, 7]]
    assert groups(alone(5, MAX_PULL + 1, 7, 8)) == [[5], [MAX_PULL + 1], [7, 8]]
    assert groups(alone(*[1] * (MOST_RANGES + 1))) == [[1] * MOST_RANGES, [1]]
    assert groups(alone(*[MAX_PULL] * 6)) == [[MAX_PULL] * 4, [MAX_PULL] * 2]
    assert groups(alone(*[1000] * 4, MOST_MESSAGES - 4000, 1)) == [[1000] * 4 + [MOST_MESSAGES - 4000], [1]]
    assert groups(alone(1, 2) + alone(3, at=Addresses("b:1"))) == [[1, 2], [3]]
    slave = Addresses(None, ((1, "a:1"),))
    assert groups(alone(1, 2, at=slave)) == [[1], [2]], "a slave is asked in another way"


def test_attempts_are_counted_for_each_range() -> None:
    def second_is_refused(request: Command) -> Command:
        if request.ext["queueId"] == "1":
            return answer(ResponseCode.SYSTEM_BUSY, remark="[OVERLOAD]")
        return found(request)

    with scripted(second_is_refused) as peer, closing(Read(peer, 3, 2, retries=2)) as read:
        assert body_of(next(read._ranges)) == messages(0, 10)
        refused = next(read._ranges)
        with pytest.raises(RocketMQError, match=r"\[OVERLOAD\]"):
            body_of(refused)
        assert len([pull for pull in peer.asked(RequestCode.PULL_MESSAGE) if pull.ext["queueId"] == "1"]) == 3
