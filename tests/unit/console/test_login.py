"""Logins: what proves a key, how failures are delayed, and when sessions end."""

import asyncio

import pytest

from rocketmq_py.console.login import IDLE_SECONDS, LONGEST_SECONDS, Sessions, Throttle, is_accepted
from rocketmq_py.console.pages.login import local_path
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console
from rocketmq_py.errors import ConnectError
from tests.unit.console.memory import Cluster, MemoryConnection


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_the_first_failures_are_free_then_the_delay_doubles():
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(5):
        throttle.check("a", "b")
    for delay in (1, 2, 4, 8):
        with pytest.raises(Refused, match=f"again in {delay + 1} seconds"):
            throttle.check("a", "c")
        throttle.check("c")
        throttle.succeeded("c")
        clock.now += delay
        throttle.check("a")
    throttle.succeeded("a")
    throttle.check("a")


def test_the_delay_has_a_limit_and_failures_are_forgotten():
    clock = Clock()
    throttle = Throttle(clock)
    for _ in range(30):
        clock.now += 301
        throttle.check("a")
    with pytest.raises(Refused, match="301 seconds"):
        throttle.check("a")
    clock.now += 3601
    for _ in range(5):
        throttle.check("a")


def test_names_that_are_watched_are_bounded():
    throttle = Throttle(Clock())
    for number in range(5000):
        throttle.check(f"key {number}")
    assert len(throttle._failures) == 4096


def logged_in(work, *, guarded=True):
    """Run ``work(sessions, console, clock)`` on a cluster that accepts the secret ``right``."""

    async def run():
        clock = Clock()

        def connect(credentials):
            return MemoryConnection(Cluster(), not guarded or credentials.secret_key == "right")

        sessions, console = Sessions(connect, clock), Console(MemoryConnection(Cluster()))
        await work(sessions, console, clock)
        await sessions.close()

    asyncio.run(run())


def test_a_session_lasts_until_it_is_idle_or_old():
    async def work(sessions, console, clock):
        cookie = await sessions.login(console, "h", "anna", "right")
        found = await sessions.find(cookie)
        assert (found.who, found.connection is console.connection) == ("anna", False)
        for _ in range(int(LONGEST_SECONDS / IDLE_SECONDS)):
            clock.now += IDLE_SECONDS
            assert await sessions.find(cookie) is not None
        clock.now += 1
        assert await sessions.find(cookie) is None
        cookie = await sessions.login(console, "h", "anna", "right")
        clock.now += IDLE_SECONDS + 1
        assert await sessions.find(cookie) is None

    logged_in(work)


@pytest.mark.parametrize(
    ("key", "secret", "guarded", "status"),
    [("a", "wrong", True, 401), ("", "right", True, 401), ("a", "", True, 401), ("a", "right", False, 403)],
)
def test_a_login_is_refused(key, secret, guarded, status):
    async def work(sessions, console, _):
        with pytest.raises(Refused) as refused:
            await sessions.login(console, "h", key, secret)
        assert refused.value.status == status

    logged_in(work, guarded=guarded)


def test_a_login_forgets_the_failures_before_it():
    async def work(sessions, console, _):
        async def fail():
            with pytest.raises(Refused, match="accept"):
                await sessions.login(console, "h", "a", "wrong")

        for _ in range(3):
            await fail()
        await sessions.login(console, "h", "a", "right")
        for _ in range(5):
            await fail()
        with pytest.raises(Refused, match="again in"):
            await sessions.login(console, "h", "a", "right")

    logged_in(work)


def test_the_session_that_was_idle_for_the_longest_makes_room(monkeypatch):
    monkeypatch.setattr("rocketmq_py.console.login.MOST_SESSIONS", 2)

    async def work(sessions, console, _):
        first, second = [await sessions.login(console, "h", "a", "right") for _ in range(2)]
        await sessions.find(first)
        third = await sessions.login(console, "h", "a", "right")
        assert [await sessions.find(one) is None for one in (first, second, third)] == [False, True, False]

    logged_in(work)


def test_a_broker_that_does_not_answer_proves_nothing():
    class Away(MemoryConnection):
        async def invoke(self, address, code, body):
            raise ConnectError(f"{address} is away")

    with pytest.raises(ConnectError):
        asyncio.run(is_accepted(Away(Cluster())))


@pytest.mark.parametrize(
    ("asked", "to"),
    [("/topics?q=x", "/topics?q=x"), ("", "/"), ("//e.example", "/"), ("/\\e", "/"), ("http://e", "/"), ("/a\nb", "/")],
)
def test_a_login_leads_to_this_console_only(asked, to):
    assert local_path(asked) == to
