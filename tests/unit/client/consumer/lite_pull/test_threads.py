"""The blocking lite pull consumer: what polls and iterations return, and what is committed of it."""

import contextlib

import pytest

from rocketmq_py.client.consumer.lite_pull.blocking import LitePullConsumer
from rocketmq_py.errors import ClosedError, ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.lite_pull.test_consumer import GROUP, QUEUE, TOPIC, Broker
from tests.unit.client.consumer.lite_pull.test_consumer_polls import Received, batch
from tests.unit.client.consumer.one_thread import OneThread, on
from tests.unit.client.scripted import route_answer


class Bench:
    """A blocking consumer of one queue at a scripted broker."""

    def __init__(self, portal):
        self.portal = portal
        self.broker = portal.call(Broker)

    def consumer(self, *batches, **options):
        """A consumer whose queue has these batches of offsets, one for each pull."""
        self.broker.pulls = {offsets[0]: [batch(*offsets)] for offsets in batches}
        member = LitePullConsumer(GROUP, instance=on(self.broker.instance), pull_delay_after_error=0.001, **options)
        member.assign(queue for queue in [QUEUE])
        return member

    def started(self, *batches, **options):
        member = self.consumer(*batches, **options)
        member.start()
        self.portal.wait(0.1)
        return member

    def stored(self):
        """The offsets that were stored at the broker, in order."""
        return [int(request.ext["commitOffset"]) for request in self.broker.asked(Code.UPDATE_CONSUMER_OFFSET)]


@pytest.fixture
def bench(monkeypatch):
    portal = OneThread().replace(monkeypatch)
    made = Bench(portal)
    yield made
    portal.run(made.broker.instance.stop())
    portal.close()


def offsets(messages):
    return [message.queue_offset for message in messages]


def test_polls_return_batches_in_order_and_the_end_commits_them(bench):
    hook = Received()
    with bench.consumer([0, 1], [2], [3, 4], hooks=[hook]) as member:
        assert (member.group, member.assignment) == (GROUP, [QUEUE])
        assert member.client_id == bench.broker.instance.client_id
        assert [offsets(member.poll()) for _ in range(2)] == [[0, 1], [2]]
    assert bench.stored() == [3]
    assert hook.offsets == [[0, 1], [2]]
    assert bench.broker.network.codes()[-1] == Code.UNREGISTER_CLIENT
    with pytest.raises(ClosedError):
        member.poll()


def test_messages_that_polls_returned_are_not_committed_if_the_block_raises(bench):
    with contextlib.suppress(KeyError), bench.consumer([0, 1]) as member:
        assert offsets(member.poll()) == [0, 1]
        raise KeyError
    assert bench.stored() == []


@pytest.mark.parametrize("iterates", [False, True])
def test_what_was_returned_is_committed_while_the_next_call_waits(bench, iterates):
    member = bench.started([0, 1], auto_commit_interval=5.0)
    received = iter(member) if iterates else (message for _ in range(2) for message in member.poll(None))
    assert [next(received).queue_offset for _ in range(2)] == [0, 1]
    bench.portal.wait(6)
    held = bench.broker.asked(Code.LITE_PULL_MESSAGE)[-1]
    bench.portal._runner.get_loop().call_later(1, bench.broker.answer_late, held, batch(2))
    assert bench.stored() == []
    assert next(received).queue_offset == 2
    bench.portal.wait(6)
    assert bench.stored()[0] == 2
    member.close()


def test_polls_take_prefetched_messages_without_a_call_into_the_event_loop(bench):
    member = bench.started([0], [1], [2])
    assert offsets(member.poll()) == [0]
    bench.portal.run, run = None, bench.portal.run
    assert [offsets(member.poll()) for _ in range(2)] == [[1], [2]]
    bench.portal.run = run
    member.commit()
    assert bench.stored() == [3]
    member.close()


def test_a_poll_waits_as_long_as_it_may(bench):
    loop = bench.portal._runner.get_loop()
    member = bench.started(broker_suspend_time=1000, timeout_when_suspend=1000)
    for timeout in (0, 7):
        began = loop.time()
        assert member.poll(timeout) == []
        assert loop.time() - began == pytest.approx(timeout, abs=0.1)
    with pytest.raises(ConfigError, match="must not be negative"):
        member.poll(-1)
    held = bench.broker.asked(Code.LITE_PULL_MESSAGE)[-1]
    loop.call_later(100, bench.broker.answer_late, held, batch(0))
    assert offsets(member.poll(None)) == [0]
    member.close()


def test_a_poll_whose_messages_another_thread_takes_waits_for_the_rest_of_its_time(bench):
    loop = bench.portal._runner.get_loop()
    member = bench.started([0], broker_suspend_time=1000, timeout_when_suspend=1000)
    aio, fill = member._aio, member._aio.fill_handoff
    stolen = []

    async def steal(timeout):
        """Fills the handoff, and takes the first batch as another thread may do."""
        await fill(timeout)
        taken = aio.handoff.take() if not stolen else None
        if taken is not None:
            taken.at = len(taken.messages)
            aio.handoff.taken(taken)
            stolen.append(taken.messages[0].queue_offset)

    aio.fill_handoff = steal
    began = loop.time()
    assert member.poll(5) == []
    assert loop.time() - began == pytest.approx(5, abs=0.1)
    assert stolen == [0]
    stolen.clear()
    for seconds, offset in ((3, 1), (10, 2)):
        loop.call_later(
            seconds,
            lambda offset=offset: bench.broker.answer_late(
                bench.broker.asked(Code.LITE_PULL_MESSAGE)[-1], batch(offset)
            ),
        )
    assert offsets(member.poll(None)) == [2]
    assert stolen == [1]
    member.close()


def test_an_iteration_commits_what_it_has_returned(bench):
    hook = Received()
    with bench.consumer([0, 1, 2], [3], hooks=[hook]) as member:
        for message in member:
            if message.queue_offset == 1:
                break
        assert offsets(member.poll()) == [2], "the rest of the batch comes first"
        assert offsets(next(iter(member)) for _ in range(1)) == [3]
    assert hook.offsets == [[0], [1], [2], [3]]
    assert bench.stored() == [4]


def test_an_iteration_ends_with_the_consumer(bench):
    member = bench.started([0])
    loop = bench.portal._runner.get_loop()
    loop.call_later(60, lambda: loop.create_task(member._aio.close()))
    assert offsets(member) == [0]
    member.close()
    assert bench.stored() == [1]
    with pytest.raises(ClosedError, match="not started"):
        next(iter(bench.consumer()))


def test_messages_of_a_queue_that_is_given_up_are_not_returned(bench):
    member = bench.started([0, 1, 2])
    messages = iter(member)
    assert next(messages).queue_offset == 0
    member.assign([MessageQueue(TOPIC, "b", 1)])
    loop = bench.portal._runner.get_loop()
    loop.call_later(60, lambda: loop.create_task(member._aio.close()))
    assert offsets(messages) == []
    member.close()


def test_a_plain_or_async_listener_hears_of_new_queues_in_a_thread_of_its_own(bench):
    heard = []

    async def told(topic, queues):
        heard.append((topic, len(queues)))

    for listener in (lambda topic, queues: heard.append((topic, len(queues))), told):
        heard.clear()
        count = [1]
        bench.broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request, count=count: route_answer({"b": count[0]})
        with bench.consumer(metadata_check_interval=0.01) as member:
            member.on_queues_changed(TOPIC, listener)
            bench.portal.wait(0.02)
            count[0] = 2
            while not heard:
                bench.portal.wait(0.005)
        assert heard == [(TOPIC, 2)]


def test_calls_reach_the_consumer_in_the_loop(bench):
    for code, offset in ((Code.GET_MIN_OFFSET, 0), (Code.GET_MAX_OFFSET, 9)):
        bench.broker.special[code] = lambda request, offset=offset: Command(0, ext={"offset": str(offset)})
    member = bench.started()
    member.seek(QUEUE, 4)
    member.commit()
    assert (member.committed(QUEUE), bench.stored()) == (4, [4])
    member.pause([QUEUE])
    assert member.paused == [QUEUE]
    member.resume([QUEUE])
    assert (member.queues(TOPIC), member.lag(), member.health().ok) == ([QUEUE], {QUEUE: 5}, True)
    assert repr(member) == repr(member._aio)
    member.close()
    member.close()
