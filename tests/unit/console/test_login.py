"""Logins: what proves a key, how failures are delayed, and when sessions end."""

import asyncio

import pytest

from rocketmq_py.console import login as module
from rocketmq_py.console.login import IDLE_SECONDS, LONGEST_SECONDS, Sessions, Throttle, is_accepted
from rocketmq_py.console.pages.login import local_path
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, ConnectError, PermissionDenied
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


def test_whoever_guesses_for_a_day_has_few_attempts():
    clock = Clock()
    throttle, admitted = Throttle(clock), 0
    for second in range(24 * 3600):
        clock.now = float(second)
        try:
            throttle.check("address h", f"key {second}")
        except Refused:
            continue
        admitted += 1
    assert 5 < admitted <= 5 + 9 + 24 * 3600 / 300


def test_whoever_waits_until_failures_are_forgotten_has_no_more_attempts():
    clock = Clock()
    throttle, admitted = Throttle(clock), 0
    for _ in range(24):
        for _ in range(20):
            try:
                throttle.check("address h")
            except Refused:
                continue
            admitted += 1
        clock.now += 3600
    assert admitted == 24 * 5


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


def test_limits_of_sessions_and_failures():
    assert (IDLE_SECONDS, LONGEST_SECONDS, module.MOST_SESSIONS) == (1_800, 43_200, 256)
    assert (module.FREE_FAILURES, module.MOST_DELAY, module._FORGET_SECONDS, module._MOST_WATCHED) == (
        5,
        300,
        3_600,
        4_096,
    )


def test_the_names_that_failed_last_are_watched(monkeypatch):
    monkeypatch.setattr(module, "_MOST_WATCHED", 2)
    throttle = Throttle(Clock())
    for name in ("a", "b", "a", "c"):
        throttle.check(name)
    assert throttle._failures == {"a": (2, 0.0), "c": (1, 0.0)}


def test_failures_are_forgotten_an_hour_after_the_last():
    clock = Clock()
    throttle = Throttle(clock)
    throttle.check("a")
    clock.now = 3_599.0
    throttle.check("a")
    assert throttle._failures["a"] == (2, 3_599.0)
    clock.now += 3_600
    throttle.check("a")
    assert throttle._failures["a"] == (1, 7_199.0)


def test_a_wait_ends_at_its_time():
    clock = Clock()
    throttle = Throttle(clock)
    throttle._failures["a"] = (6, clock.now)
    clock.now += 1.5
    with pytest.raises(Refused, match="again in 1 seconds") as refused:
        throttle.check("b", "a")
    assert refused.value.status == 429
    assert "b" not in throttle._failures, "an attempt that is refused does not count"
    clock.now += 0.5
    throttle.check("a")


def test_each_connection_that_proved_a_key_is_closed():
    made = []

    async def run():
        class Noted(MemoryConnection):
            closed = 0

            async def close(self):
                self.closed += 1
                await super().close()

        def connect(credentials):
            made.append((credentials, Noted(Cluster(), credentials.secret_key == "right")))
            return made[-1][1]

        sessions, console = Sessions(connect, Clock()), Console(MemoryConnection(Cluster()))
        cookie = await sessions.login(console, "h", "anna", "right")
        (wrong, first), (given, second), (kept, session) = made
        assert (wrong.access_key, given.secret_key, kept.secret_key) == ("anna", "right", "right")
        assert wrong.secret_key not in ("", "right")
        assert [one.closed for one in (first, second, session)] == [1, 1, 0]
        await sessions.logout(None)
        await sessions.logout("other")
        assert await sessions.find(None) is None
        assert await sessions.find(cookie) is not None
        await sessions.logout(cookie)
        assert (session.closed, await sessions.find(cookie)) == (1, None)
        await sessions.login(console, "h", "anna", "right")
        await sessions.close()
        assert made[-1][1].closed == 1

    asyncio.run(run())


class Answers(MemoryConnection):
    """A connection to a broker with three addresses, whose answers are the test's."""

    def __init__(self, *answers):
        cluster = Cluster()
        [data] = cluster.info.broker_addr_table.values()
        data.broker_addrs.clear()
        data.broker_addrs.update({number: f"h:{number}" for number in reversed(range(len(answers)))})
        super().__init__(cluster)
        self.answers, self.asked = answers, []

    async def invoke(self, address, code, body):
        self.asked.append(address)
        answer = self.answers[int(address[2:])]
        if answer is not None:
            raise answer


AWAY, NO = ConnectError("away"), PermissionDenied(16, "no")


@pytest.mark.parametrize(
    ("answers", "accepted", "asked"),
    [((None, NO), True, 1), ((NO, None), False, 1), ((AWAY, None, NO), True, 2), ((AWAY, NO, None), False, 2)],
)
def test_the_first_broker_that_answers_decides(answers, accepted, asked):
    connection = Answers(*answers)
    assert asyncio.run(is_accepted(connection)) is accepted
    assert connection.asked == [f"h:{number}" for number in range(asked)]


def test_a_cluster_that_refuses_its_names_or_has_no_broker():
    connection = Answers(AWAY, AWAY)
    with pytest.raises(ConnectError, match="away"):
        asyncio.run(is_accepted(connection))
    with pytest.raises(BrokerError, match="no broker is registered that could check the access key"):
        asyncio.run(is_accepted(Answers()))
    connection.cluster.failures["cluster"] = NO
    assert asyncio.run(is_accepted(connection)) is False
