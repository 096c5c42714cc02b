"""The request for what a broker holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from rocketmq_py.broker.handlers import held
from rocketmq_py.protocol.bodies.statistics import HeldRequest, HeldRequests
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import ListHeldRequests
from rocketmq_py.protocol.headers.pop import Notification
from rocketmq_py.protocol.requests import Request
from tests.unit.broker.handlers.test_long_answers import Turns
from tests.unit.broker.harness import START_MS, Client, InProcess
from tests.unit.broker.pop.pop_client import make_topic, put
from tests.unit.broker.requests import pop, pull

WAIT: dict[str, Any] = {"poll_time": 15_000, "born_time": START_MS}


def ask(client: Client, **narrowed: str) -> HeldRequests:
    answer = client.ask(Code.LIST_HELD_REQUESTS, ListHeldRequests(**narrowed))
    assert answer.code == 0, answer.remark
    return HeldRequests.decode(answer.body)


def hold_one_of_each(running: InProcess) -> None:
    make_topic(running, 2)
    waiting = running.connect()
    assert waiting.call(Code.PULL_MESSAGE, pull(sys_flag=6, suspend_timeout_millis=20_000)) is None
    running.now += 1_000
    assert waiting.call(Code.POP_MESSAGE, pop(**(WAIT | {"born_time": START_MS + 1_000}))) is None
    notification = Notification(
        consumer_group="g2", topic="t", queue_id=1, poll_time=15_000, born_time=START_MS + 1_500
    )
    assert waiting.call(Code.NOTIFICATION, notification) is None


def test_pulls_pops_and_notifications_are_listed_the_longest_wait_first(running: InProcess, client: Client) -> None:
    assert (ask(client).held, ask(client).total) == ([], 0)
    hold_one_of_each(running)
    found = ask(client)
    assert (found.total, found.is_cut) == (3, False)
    assert [(one.kind, one.topic, one.queue_id, one.offset) for one in found.held] == [
        ("pull", "t", 0, 0), ("pop", "t", -1, None), ("notification", "t", 1, None),
    ]  # fmt: skip
    assert [(one.since - START_MS, one.until - START_MS) for one in found.held] == [
        (0, 20_000), (1_000, 16_000), (1_500, 16_500),
    ]  # fmt: skip
    assert all(one.client_addr for one in found.held)


def test_the_list_is_narrowed_by_topic_and_group(running: InProcess, client: Client) -> None:
    hold_one_of_each(running)
    assert [one.kind for one in ask(client, consumer_group="g2").held] == ["notification"]
    assert ask(client, topic="other").held == []
    assert (len(ask(client, topic="t").held), ask(client, topic="other").total) == (3, 3)


def test_what_was_answered_is_no_longer_listed(running: InProcess, client: Client) -> None:
    hold_one_of_each(running)
    put(client, b"a", queue_id=0)
    running.turn()
    assert [one.kind for one in ask(client).held] == ["notification"]


def test_a_long_list_is_cut_and_says_so(running: InProcess, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    hold_one_of_each(running)
    monkeypatch.setattr(held, "MOST_LISTED", 2)
    found = ask(client)
    assert ([one.kind for one in found.held], found.total, found.is_cut) == (["pull", "pop"], 3, True)
    monkeypatch.setattr(held, "MOST_LISTED", 9)
    assert ask(client).is_cut is False
    monkeypatch.setattr(held, "MOST_EXAMINED", 1)
    found = ask(client)
    assert ([one.kind for one in found.held], found.is_cut) == (["pull", "pop"], True)


class Waiting:
    """Held requests, each of which began a millisecond before the one that is listed before it.

    :ivar steps: those that were asked for, each with the turn of the event loop in which that was.
    """

    def __init__(self, count: int, turns: Turns) -> None:
        self.count, self.turns = count, turns
        self.steps: list[int] = []

    def __len__(self) -> int:
        return self.count

    def listed(self, most: int) -> Iterator[HeldRequest]:
        return islice(map(self._one, range(self.count)), most)

    def _one(self, number: int) -> HeldRequest:
        self.steps.append(self.turns.count)
        return HeldRequest(kind="pull", topic="t", queue_id=0, consumer_group="g", client_addr="a",
                           since=START_MS - number, until=START_MS)  # fmt: skip


async def test_many_held_requests_are_looked_at_in_small_steps() -> None:
    turns, unused = Turns(), Any
    pulls, pops = Waiting(3_000, turns), Waiting(2_000, turns)
    services: Any = pulls, pops
    reply = await held.HeldHandlers(*services, turns.slices).held(unused, Request(header=ListHeldRequests()), b"")
    found = HeldRequests.decode(bytes(reply.body))
    assert (found.total, found.is_cut, len(found.held)) == (5_000, True, held.MOST_LISTED)
    # A turn has no time left after one step.
    assert max(Counter(pulls.steps + pops.steps).values()) == held.AT_ONCE
    assert [one.since for one in found.held] == [START_MS - number for number in range(2_999, 2_499, -1)]


def test_what_is_answered_while_the_list_is_made_does_no_harm(running: InProcess, client: Client) -> None:
    hold_one_of_each(running)
    for kind in (running.services.pull_request_hold, running.services.pop.polling):
        assert len(list(kind.listed(1))) == 1
    lists = [kind.listed(9) for kind in (running.services.pull_request_hold, running.services.pop.polling)]
    assert [next(one).kind for one in lists] == ["pull", "pop"]
    put(client, b"a", queue_id=0)
    running.turn()
    assert [[one.kind for one in rest] for rest in lists] == [[], ["notification"]]
