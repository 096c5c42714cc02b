"""The sources of a simple consumer: which are popped, in what turn, and how long a wait takes."""

import asyncio

import pytest

from rocketmq_py.client.consumer.simple.sources import Sources
from rocketmq_py.errors import BrokerError, NoRouteError, RequestTimeout
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import eventually
from tests.unit.client.consumer.scripted_group import NOW, TOPIC, ScriptedGroup

ROUTE = 105


class Calls:
    """Notification requests that end when a test says so: ``asked`` has the brokers with their futures, in order."""

    def __init__(self):
        self.asked = []

    async def notified(self, queue, *, poll, order):
        assert queue.queue_id == -1
        answer = asyncio.get_running_loop().create_future()
        self.asked.append((queue.topic, queue.broker_name, poll, order, answer))
        return await answer

    def answer(self, result, at=-1):
        future = self.asked[at][-1]
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def brokers(self):
        return [name for _, name, *_ in self.asked]


class Bench(ScriptedGroup):
    """Sources of topic T at the brokers a, b and c."""

    def __init__(self, *, order=False, **options):
        super().__init__(**options)
        self.routes = {TOPIC: {"a": 1, "b": 2, "c": 1}}
        self.calls = Calls()
        self.order = order

    async def __aenter__(self):
        await super().__aenter__()
        self.group.subscribe(TOPIC, "*")
        self.sources = Sources(self.group, self.calls, poll=7.0, order=self.order)
        await self.sources.refresh()
        return self

    async def __aexit__(self, *_):
        await self.sources.close()
        await super().__aexit__(*_)

    def of(self, broker):
        return next(source for source in self.sources.all if source.queue.broker_name == broker)

    def ready(self):
        return [source.queue.broker_name for source in self.sources.ready()]

    async def waited(self, seconds=None):
        """How long a wait takes, in seconds."""
        began = asyncio.get_running_loop().time()
        await self.sources.wait(seconds)
        return asyncio.get_running_loop().time() - began

    def found_nothing(self, *brokers):
        for broker in brokers or "abc":
            self.of(broker).found(0)


async def test_each_broker_is_one_source_and_each_begins_a_round_in_turn():
    async with Bench() as bench:
        assert [source.queue for source in bench.sources.all] == [MessageQueue(TOPIC, name, -1) for name in "abc"]
        assert [bench.ready() for _ in range(4)] == [[*"bca"], [*"cab"], [*"abc"], [*"bca"]]
        bench.of("c").found(0)
        bench.of("a").found(3)
        assert bench.ready() == ["a", "b"]
        bench.group.subscriptions.clear()
        await bench.sources.refresh()
        assert (bench.sources.all, bench.ready()) == ([], [])


async def test_brokers_without_messages_are_asked_to_notify_once_and_are_popped_again_after_that():
    async with Bench(order=True) as bench:
        bench.found_nothing()
        assert bench.ready() == []
        bench.of("a").asked_at = 0.0
        assert await bench.waited() == pytest.approx(1.0, abs=0.05), "routes are looked at every second"
        assert [asked[:4] for asked in bench.calls.asked] == [(TOPIC, name, 7.0, True) for name in "abc"]
        assert bench.of("a").asked_at > 0.0
        assert await bench.waited(0.3) == pytest.approx(0.3, abs=0.05)
        assert len(bench.calls.asked) == 3, "they are still asked"
        asyncio.get_running_loop().call_later(0.2, bench.calls.answer, True, 1)
        await bench.sources.refresh()
        assert await bench.waited() == pytest.approx(0.2, abs=0.05)
        assert bench.ready() == ["b"]
        bench.calls.answer(False, 0)
        await asyncio.sleep(0.001)
        assert bench.ready() == ["b"], "nothing came at the other one"
        bench.found_nothing("b")
        await bench.sources.refresh()
        await bench.waited(0.1)
        assert bench.calls.brokers() == [*"abcab"]
        assert all(source.attempts is not None for source in bench.sources.all)
    async with Bench() as bench:
        assert bench.of("a").attempts is None


async def test_a_broker_whose_notifications_are_wrong_again_and_again_is_popped_after_growing_pauses():
    async with Bench() as bench:
        source, pauses = bench.of("a"), []
        for _ in range(11):
            source.found(0)
            source.notified(NOW)
            pauses.append(round(max(source.paused_until - NOW, 0.0), 3))
        assert pauses == [0.0, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0, 1.0]
        source.found(1)
        source.found(0)
        source.notified(NOW)
        assert source.paused_until == 0.0


async def test_a_source_that_failed_is_popped_again_after_its_pause(caplog):
    async with Bench(pull_delay_after_error=0.5) as bench:
        bench.found_nothing()
        source = bench.of("b")
        source.failed(RequestTimeout("no answer"), NOW)
        assert (source.is_ready, bench.ready()) == (True, [])
        assert await bench.waited() == pytest.approx(0.5, abs=0.05)
        bench.clock = NOW + 0.5
        assert bench.ready() == ["b"]
        assert bench.group.problems.keys() == {("source", source.queue)}
        source.notified(NOW)
        assert (source.error, bench.group.problems) == (None, {}), "it has answered a notification"
        source.failed(BrokerError.of(215, "busy", "b:1"), NOW)
        assert source.paused_until == pytest.approx(NOW + 0.02)
        [told, *_] = caplog.records
        assert told.getMessage() == "receiving from T of broker b failed: no answer"
        source.found(1)
        assert (source.error, bench.group.problems) == (None, {})
        assert caplog.records[-1].getMessage() == "receiving from T of broker b works again"


async def test_a_failed_notification_pauses_its_source_and_refreshes_an_old_route():
    async with Bench(pull_delay_after_error=0.5) as bench:
        bench.found_nothing()
        await bench.waited(0.1)
        bench.network.requests.clear()
        bench.calls.answer(RequestTimeout("no answer"), 2)
        source = bench.of("c")
        await eventually(bench.network.codes)
        assert (str(source.error), source.paused_until) == ("no answer", NOW + 0.5)
        assert bench.network.codes() == [ROUTE]


async def test_a_fault_in_a_notification_is_logged_and_its_source_is_popped_again(caplog):
    async with Bench() as bench:
        bench.found_nothing()
        await bench.waited(0.1)
        bench.calls.answer(ValueError("on purpose"), 0)
        await asyncio.sleep(0.01)
        assert "watching T@a:-1 failed" in caplog.text
        assert bench.ready() == []
        bench.clock += 1.0
        assert bench.ready() == ["a"]


async def test_brokers_and_topics_come_and_go():
    async with Bench() as bench:
        bench.found_nothing()
        await bench.waited(0.1)
        kept, gone = bench.of("b"), bench.of("a")
        gone.failed(RequestTimeout("no answer"), NOW)
        bench.routes[TOPIC] = {"b": 2, "d": 1}
        await bench.instance.routes.refresh(TOPIC)
        await bench.sources.refresh()
        assert [source.queue.broker_name for source in bench.sources.all] == ["b", "d"]
        assert bench.of("b") is kept
        assert bench.group.problems == {}, "nobody asks it any more"
        await asyncio.sleep(0.001)
        assert [asked[-1].cancelled() for asked in bench.calls.asked] == [True, False, True]
        assert bench.ready() == ["d"]


async def test_topics_without_a_route_are_a_problem_until_they_have_one_or_are_unsubscribed(caplog):
    async with Bench() as bench:
        for topic in ("U", "V"):
            bench.group.subscribe(topic, "*")
        for _ in range(2):
            await bench.sources.refresh()
        assert isinstance(bench.sources.missing, NoRouteError)
        assert bench.group.problems.keys() == {("topic", "U"), ("topic", "V")}
        assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
            "topic U is not consumed for now", "topic V is not consumed for now",
        ]  # fmt: skip
        bench.routes["U"] = {"a": 1}
        del bench.group.subscriptions["V"]
        await bench.sources.refresh()
        assert (bench.sources.missing, bench.group.problems) == (None, {})
        assert caplog.records[-1].getMessage() == "topic U is consumed again"
        assert len(bench.sources.all) == 4


async def test_a_wake_or_the_end_of_all_ends_a_wait():
    async with Bench() as bench:
        bench.found_nothing()
        loop = asyncio.get_running_loop()
        loop.call_later(0.2, bench.sources.wake)
        assert await bench.waited() == pytest.approx(0.2, abs=0.05)
        assert await bench.waited() == pytest.approx(0.0, abs=0.05), "not lost before the next look at routes"
        await bench.sources.refresh()
        loop.call_later(0.3, lambda: loop.create_task(bench.sources.close()))
        assert await bench.waited() == pytest.approx(0.3, abs=0.05)
        await asyncio.sleep(0.001)
        assert all(asked[-1].cancelled() for asked in bench.calls.asked)
        assert all(source.watch is None for source in bench.sources.all)


async def test_a_refused_route_is_a_problem_as_a_missing_one():
    async with Bench() as bench:
        bench.special[ROUTE] = lambda *_: Command(ResponseCode.NO_PERMISSION, remark="not for you")
        bench.group.subscribe("U", "*")
        await bench.sources.refresh()
        assert "not for you" in str(bench.sources.missing)
        assert len(bench.sources.all) == 3
