"""What an application does with a lite pull consumer: polls, commits, seeks, subscriptions and assigned queues."""

import asyncio
import contextlib
import datetime
from time import time_ns
from unittest.mock import patch

import pytest

from rocketmq_py.client.consumer.lite_pull import pull_loop
from rocketmq_py.core.consumer import flow_control
from rocketmq_py.errors import ClosedError, ConfigError, NotAssigned, OffsetIllegal
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command, encode_command
from tests.unit.client.consumer.lite_pull.test_consumer import GROUP, QUEUE, TOPIC, pulled, record, with_broker
from tests.unit.client.scripted import route_answer


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes seconds takes a millisecond."""
    for module, name in ((flow_control, "STATE_DELAY"), (pull_loop, "START_DELAY")):
        monkeypatch.setattr(module, name, 0.001)


# -- polls


def batch(*offsets):
    """The answer to a pull with the messages of these offsets."""
    return pulled(0, offsets[-1] + 1, b"".join(record(offset) for offset in offsets))


class Received:
    """A hook that notes what it was told."""

    def __init__(self):
        self.offsets = []

    def received(self, reception):
        self.offsets.append([message.queue_offset for message in reception.messages])
        assert reception.group == GROUP
        assert 0 < reception.began_ns <= time_ns()


@with_broker()
async def test_a_poll_waits_for_messages_as_long_as_it_may(broker):
    loop = asyncio.get_running_loop()
    async with broker.assigned(broker_suspend_time=1000, timeout_when_suspend=1000) as member:
        held = await broker.pull(0)
        for timeout, seconds in ((0, 0.0), (7, 7.0), (5.0, 5.0)):
            began = loop.time()
            assert await (member.poll(timeout) if timeout != 5.0 else member.poll()) == []
            assert loop.time() - began == pytest.approx(seconds, abs=0.1)
        loop.call_later(100, broker.answer_late, held, batch(0, 1))
        began = loop.time()
        assert [message.queue_offset for message in await member.poll(None)] == [0, 1]
        assert loop.time() - began == pytest.approx(100, abs=0.1)


@with_broker()
async def test_what_a_poll_cannot_do_is_refused(broker):
    member = broker.consumer()
    with pytest.raises(ClosedError, match="the consumer of group g is not started"):
        await member.poll()
    async with member:
        with pytest.raises(ConfigError, match="timeout=-1 must not be negative"):
            await member.poll(-1)
        with pytest.raises(ConfigError, match="has nothing to poll"):
            await member.poll()
    with pytest.raises(ClosedError, match="is closed; make a new one"):
        await member.poll()


@with_broker()
async def test_hooks_see_what_polls_and_iterations_return(broker):
    broker.pulls = {0: [batch(0, 1)], 2: [batch(2, 3)]}
    hook = Received()
    async with broker.assigned(hooks=[hook]) as member:
        await broker.pull(4)
        await member.poll()
        assert [(await anext(member)).queue_offset, (await anext(member)).queue_offset] == [2, 3]
        await member.poll(0)
    assert hook.offsets == [[0, 1], [2], [3]]


@with_broker()
async def test_an_iteration_waits_for_the_next_message_if_one_is_gone_meanwhile(broker):
    broker.pulls[0] = [batch(0, 1)]
    async with broker.assigned() as member:
        kind, gone = type(member._queues.cache), [None]
        take = kind.take_one
        with patch.object(kind, "take_one", lambda cache: gone.pop() if gone else take(cache)):
            assert [(await anext(member)).queue_offset, (await anext(member)).queue_offset] == [0, 1]
        assert not gone


@with_broker()
async def test_an_iteration_commits_message_by_message_and_ends_with_the_consumer(broker):
    broker.pulls[0] = [batch(0, 1, 2)]
    async with broker.assigned() as member:
        seen = []

        async def read():
            async for message in member:
                seen.append(message.queue_offset)
                if message.queue_offset == 1:
                    await member.commit()
                    assert await member.committed(QUEUE) == 2

        reading = asyncio.ensure_future(read())
        await broker.pull(3)
        await asyncio.sleep(1)
        assert seen == [0, 1, 2]
        assert not reading.done()
        await member.close()
        await reading
    with pytest.raises(StopAsyncIteration):
        await anext(member)
    with pytest.raises(ClosedError, match="not started"):
        await anext(broker.assigned())


@with_broker()
async def test_a_poll_that_waits_ends_when_the_consumer_is_closed(broker):
    async with broker.assigned() as member:
        waiting = asyncio.ensure_future(member.poll(None))
        await broker.pull(0)
        await member.close()
        with pytest.raises(ClosedError, match="closed"):
            await waiting


@with_broker()
async def test_a_poll_commits_what_earlier_polls_returned_but_not_too_often(broker):
    broker.pulls = {offset: [batch(offset)] for offset in range(4)}
    async with broker.assigned(auto_commit_interval=5) as member:
        committed = []
        for wait in (0, 4.5, 1, 1, 4.5):
            await asyncio.sleep(wait)
            await member.poll(0.1)
            committed.append(member.consume_offsets(TOPIC).get(QUEUE, 0))
    assert committed == [0, 0, 2, 2, 4]


@pytest.mark.parametrize("auto_commit", [True, False])
@with_broker()
async def test_the_end_stores_what_polls_returned_unless_the_application_commits_or_failed(broker, auto_commit):
    for fails in (False, True):
        broker.pulls[0] = [batch(0, 1)]
        broker.network.requests.clear()
        with contextlib.suppress(KeyError):
            async with broker.assigned(auto_commit=auto_commit) as member:
                assert len(await member.poll()) == 2
                await member.poll(0)
                if fails:
                    raise KeyError
        stored = [(r.ext["commitOffset"], r.is_oneway) for r in broker.asked(Code.UPDATE_CONSUMER_OFFSET)]
        assert stored == ([("2", False)] if auto_commit and not fails else []), fails
        assert broker.network.codes()[-1] == Code.UNREGISTER_CLIENT


# -- offsets


def bounds(broker, first, end):
    broker.special[Code.GET_MIN_OFFSET] = lambda request: Command(0, ext={"offset": str(first)})
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": str(end)})


@with_broker()
async def test_any_offset_of_the_queue_can_be_sought(broker):
    bounds(broker, 5, 9)
    async with broker.assigned() as member:
        for offset in (5, 9):
            await member.seek(QUEUE, offset)
            await broker.pull(offset)
        for offset in (4, 10):
            with pytest.raises(OffsetIllegal, match=f"offset {offset} of .* begins at 5 and ends at 9"):
                await member.seek(QUEUE, offset)
        await member.seek_to_begin(QUEUE)
        await broker.pull(5, times=2)
        await member.seek_to_end(QUEUE)
        await broker.pull(9, times=2)
        assert await member.committed(QUEUE) == 0, "nothing is committed by that"
        await member.commit()
        assert await member.committed(QUEUE) == 9


@with_broker()
async def test_calls_about_queues_that_it_does_not_own_are_refused(broker):
    bounds(broker, 0, 9)
    member = broker.assigned()
    calls = {
        "seek": lambda queue: member.seek(queue, 3), "seek_to_begin": member.seek_to_begin,
        "seek_to_end": member.seek_to_end, "commit": lambda queue: member.commit({queue: 3}),
        "committed": member.committed,
        "offset_for_timestamp": lambda queue: member.offset_for_timestamp(queue, 3),
    }  # fmt: skip
    for call in calls.values():
        with pytest.raises(ClosedError, match="not started"):
            await call(QUEUE)
    async with member:
        for name in ("seek", "seek_to_begin", "seek_to_end", "commit"):
            with pytest.raises(NotAssigned, match=r"queue .* is not assigned to this consumer of group g$"):
                await calls[name](MessageQueue(TOPIC, "b", 7))
        assert not broker.asked(Code.GET_MIN_OFFSET) + broker.asked(Code.GET_MAX_OFFSET), "no broker is asked"
        with pytest.raises(OffsetIllegal, match=r"offset -1 of .* cannot be committed: it is negative"):
            await member.commit({QUEUE: -1})
        await member.commit({QUEUE: 0})
    assert [r.ext["commitOffset"] for r in broker.asked(Code.UPDATE_CONSUMER_OFFSET)] == ["0", "0"]
    for call in (*calls.values(), lambda _: member.commit()):
        with pytest.raises(ClosedError, match="closed"):
            await call(QUEUE)


@with_broker()
async def test_a_queue_that_a_rebalance_may_have_taken_is_refused_with_that_hint(broker):
    bounds(broker, 0, 9)
    member = broker.consumer()
    member.subscribe(TOPIC)
    async with member:
        await broker.pull(0)
        with pytest.raises(NotAssigned, match="is the group rebalancing"):
            await member.seek(MessageQueue(TOPIC, "b", 7), 3)
        member._group.queues[QUEUE].dropped = True
        with pytest.raises(NotAssigned, match="is the group rebalancing"):
            await member.seek(QUEUE, 3)


@with_broker()
async def test_commits_of_given_offsets_are_stored_and_may_go_back(broker):
    broker.pulls[0] = [batch(0, 1, 2)]
    async with broker.assigned(auto_commit=False) as member:
        await member.poll()
        for offset in (3, 1):
            await member.commit({QUEUE: offset})
            stored = broker.asked(Code.UPDATE_CONSUMER_OFFSET)[-1]
            assert (stored.ext["commitOffset"], stored.is_oneway) == (str(offset), False)
            assert await member.committed(QUEUE) == offset


@with_broker()
async def test_the_committed_offset_is_that_in_memory_or_else_the_brokers(broker):
    broker.stored = 6
    async with broker.assigned() as member:
        assert await member.committed(MessageQueue(TOPIC, "b", 3)) == 6
        broker.stored = None
        assert await member.committed(MessageQueue(TOPIC, "b", 3)) is None
        await member.commit({QUEUE: 2})
        assert await member.committed(QUEUE) == 2


@with_broker()
async def test_offsets_are_looked_up_by_time(broker):
    broker.special[Code.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: Command(
        0, ext={"offset": request.ext["timestamp"]}
    )
    when = datetime.datetime(2025, 1, 2, 3, 4, 5, 678000, tzinfo=datetime.UTC)
    async with broker.assigned() as member:
        assert await member.offset_for_timestamp(QUEUE, 17) == 17
        assert await member.offset_for_timestamp(QUEUE, when) == 1735787045678
        assert await member.queues(TOPIC) == [QUEUE]


# -- subscriptions and assigned queues


@with_broker()
async def test_subscribing_and_assigning_exclude_each_other(broker):
    subscribed, assigned = broker.consumer(), broker.consumer()
    with pytest.raises(ConfigError, match="no queue to assign to consumer group g"):
        assigned.assign([])
    subscribed.subscribe(TOPIC)
    assigned.assign([QUEUE])
    with pytest.raises(ConfigError, match="the consumer of group g is subscribed: "):
        subscribed.assign([QUEUE])
    with pytest.raises(ConfigError, match="the consumer of group g is assigned: "):
        assigned.subscribe(TOPIC)
    with pytest.raises(ConfigError, match="topic"):
        assigned.assign([MessageQueue("a b", "b", 0)])
    await assigned.close()
    for call in (lambda: assigned.subscribe(TOPIC), lambda: assigned.assign([QUEUE])):
        with pytest.raises(ClosedError, match="make a new one"):
            call()


@with_broker()
async def test_topics_can_be_subscribed_and_unsubscribed_while_it_runs(broker):
    async with broker.consumer() as member:
        assert repr(member) == "LitePullConsumer(group='g', running, neither subscribed nor assigned, 0 queues)"
        member.subscribe(TOPIC)
        await broker.pull(0)
        assert repr(member) == "LitePullConsumer(group='g', running, subscribed, 1 queues)"
        held = await broker.pull(0)
        member.unsubscribe(TOPIC)
        assert (member.assignment, member.topics()) == ([], set())
        broker.answer_late(held, batch(0))
        assert await member.poll(0.1) == []
        member.subscribe(TOPIC)
        await broker.pull(0, times=2)
        assert member.assignment == [QUEUE]


@with_broker()
async def test_a_change_of_members_triggers_a_rebalance_if_topics_are_subscribed(broker):
    async with broker.assigned() as member:
        await member.on_ids_changed()
        assert not broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP)
    member = broker.consumer()
    member.subscribe(TOPIC)
    async with member:
        asked = len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP))
        await member.on_ids_changed()
        await asyncio.sleep(1.5)
        assert len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP)) == asked + 1


@with_broker()
async def test_assigned_queues_keep_their_positions_and_the_others_are_given_up(broker):
    second = MessageQueue(TOPIC, "b", 1)
    broker.pulls[0] = [batch(0, 1)]
    async with broker.assigned() as member:
        await member.poll()
        await broker.pull(2)
        member.assign([QUEUE, second, QUEUE])
        assert member.assignment == [QUEUE, second]
        await asyncio.sleep(0.1)
        assert len(broker.asked(Code.LITE_PULL_MESSAGE, queueId="0")) == 2, "its pull goes on"
        assert broker.asked(Code.LITE_PULL_MESSAGE, queueId="1")
        member.assign([second])
        assert member.assignment == [second]
        await member.commit()
        assert await member.committed(QUEUE) == 0, "its position is forgotten"


@with_broker()
async def test_the_filter_of_assigned_queues_has_the_time_as_its_version(broker):
    member = broker.consumer()
    member.assign([QUEUE], sql="a > 1")
    async with member:
        version = int((await broker.pull(0)).ext["subVersion"])
    assert version == pytest.approx(time_ns() // 1_000_000, abs=60_000)


@with_broker()
async def test_paused_queues_are_those_it_owns_and_still_return_what_is_cached(broker):
    broker.pulls = {0: [batch(0)], 1: [batch(1)]}
    async with broker.assigned() as member:
        await broker.pull(2)
        member.pause([QUEUE, MessageQueue(TOPIC, "b", 7)])
        assert member.paused == [QUEUE]
        assert [len(await member.poll()) for _ in range(2)] == [1, 1]
        member.resume([QUEUE, MessageQueue(TOPIC, "b", 7)])
        assert member.paused == []


@with_broker()
async def test_a_failed_start_commits_nothing_and_closes_the_consumer(broker):
    broker.special[Code.CHECK_CLIENT_CONFIG] = lambda request: Command(1, remark="not enabled")
    member = broker.consumer()
    member.assign([QUEUE], sql="a > 1")
    with pytest.raises(ConfigError):
        await member.start()
    assert "closed" in repr(member)
    with pytest.raises(ClosedError, match="make a new one"):
        await member.start()


@with_broker()
async def test_listeners_of_queues_see_topics_without_the_namespace(broker):
    seen = []
    queues = {"ns%T": {"b": 1}}
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: route_answer(queues.get(request.ext["topic"]))
    async with broker.consumer(namespace="ns", metadata_check_interval=1) as member:
        member.on_queues_changed(TOPIC, lambda topic, found: seen.append((topic, found)))
        await asyncio.sleep(1.5)
        assert seen == [], "nothing has changed yet"
        queues["ns%T"] = {"b": 2}
        await asyncio.sleep(1)
        assert seen == [(TOPIC, [QUEUE, MessageQueue(TOPIC, "b", 1)])]
        with pytest.raises(ConfigError):
            member.on_queues_changed("a b", print)


# -- deleted topics


@with_broker()
async def test_after_its_topic_was_deleted_a_queue_begins_at_the_offset_that_brokers_have_then(broker, caplog):
    broker.pulls = {0: [batch(0, 1)], 2: [Command(ResponseCode.TOPIC_NOT_EXIST, remark="gone")]}
    broker.stored = 0
    async with broker.assigned() as member:
        await broker.pull(2)
        broker.stored = 40
        await broker.pull(40)
        assert await member.poll(0) == [], "the cached messages are of the old topic"
        assert member.consume_offsets(TOPIC) == {}
        assert "the topic of T@b:0 was deleted: its cached messages are discarded" in caplog.text


@with_broker()
async def test_a_topic_that_a_broker_never_had_is_asked_for_again_without_a_word_about_deletion(broker, caplog):
    broker.pulls[0] = [Command(ResponseCode.TOPIC_NOT_EXIST, remark="not yet")]
    async with broker.assigned():
        await broker.pull(0, times=2)
    assert "not yet" in caplog.text
    assert "deleted" not in caplog.text


# -- a member of its client


@pytest.mark.parametrize("trace", [None, "traces"])
@with_broker()
async def test_polls_are_traced_if_that_is_asked_for(broker, trace):
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: route_answer({"b": 1})
    broker.pulls[0] = [batch(0)]
    async with broker.assigned(**({"trace": trace} if trace else {})) as member:
        await member.poll()
    sent = [request.ext["b"] for _, request in broker.network.sent()]
    assert sent == (["traces"] if trace else [])


@with_broker()
async def test_it_announces_itself_before_it_pulls_and_goes_on_to_send_heartbeats(broker):
    before = time_ns() // 1_000_000
    async with broker.assigned() as member:
        await broker.pull(0)
        codes = broker.network.codes()
        assert codes.index(Code.HEART_BEAT) < codes.index(Code.LITE_PULL_MESSAGE)
        started = int(member.running_info()["properties"]["PROP_CONSUMER_START_TIMESTAMP"])
        assert before <= started <= time_ns() // 1_000_000
        beats = len(broker.asked(Code.HEART_BEAT))
        await asyncio.sleep(65)
        assert len(broker.asked(Code.HEART_BEAT)) >= beats + 2
        frame = encode_command(
            Command(Code.GET_CONSUMER_RUNNING_INFO, 77, 0, ext={"consumerGroup": GROUP, "clientId": "me"})
        )
        broker.network.transports["b:1"].deliver(frame)
        await asyncio.sleep(0.01)
        [answer] = [request for _, request in broker.network.requests if request.is_response]
        assert (answer.code, b"PROP_CONSUME_TYPE" in answer.body) == (0, True)


@with_broker()
async def test_other_topics_are_rebalanced_at_once(broker):
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: route_answer({"b": 1})
    async with broker.consumer() as member:
        member.subscribe(TOPIC)
        await asyncio.sleep(5)
        asked = len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP))
        member.subscribe("U")
        await asyncio.sleep(0.1)
        assert [queue.topic for queue in member.assignment] == [TOPIC, "U"]
        await asyncio.sleep(5)
        member.unsubscribe("U")
        await asyncio.sleep(0.1)
        assert len(broker.asked(Code.GET_CONSUMER_LIST_BY_GROUP)) == asked + 3


@with_broker()
async def test_it_sends_nothing_after_its_end(broker):
    member = broker.consumer(metadata_check_interval=1)
    member.subscribe(TOPIC)
    late = broker.consumer(metadata_check_interval=1)
    async with member:
        member.on_queues_changed(TOPIC, print)
        await asyncio.sleep(5)
    async with late:
        late.subscribe(TOPIC)
    await broker.instance._jobs.stop()
    broker.network.requests.clear()
    await asyncio.sleep(100)
    assert broker.network.codes() == []


@with_broker()
async def test_a_queue_is_pulled_as_soon_as_polls_have_made_room(broker, monkeypatch):
    """Without a wake it would be pulled only after the pause of a full queue."""
    full = flow_control.COUNT_EXCEEDED._replace(delay=1000.0)
    monkeypatch.setattr(flow_control, "COUNT_EXCEEDED", full)
    for poll in (lambda member: member.poll(), anext):
        broker.pulls = {0: [batch(0)], 1: [batch(1)]}
        broker.network.requests.clear()
        async with broker.assigned(pull_threshold_for_queue=1, auto_commit=False) as member:
            await broker.pull(1)
            await asyncio.sleep(1)
            assert not broker.asked(Code.LITE_PULL_MESSAGE, queueOffset="2")
            await poll(member)
            await asyncio.sleep(1)
            assert broker.asked(Code.LITE_PULL_MESSAGE, queueOffset="2")


# -- the pull loop


@with_broker()
async def test_failed_pulls_pause_and_the_start_of_a_queue_pauses_longer(broker, monkeypatch):
    monkeypatch.undo()
    times, loop = [], asyncio.get_running_loop()

    def refuse(request):
        times.append(round(loop.time() - began, 1))
        return Command(1, remark="not now")

    for code, pauses in ((Code.QUERY_CONSUMER_OFFSET, 3.0), (Code.LITE_PULL_MESSAGE, 2.0)):
        broker.special = {code: refuse}
        began = loop.time()
        times.clear()
        async with broker.assigned(pull_delay_after_error=2.0):
            await asyncio.sleep(7)
        assert times == pytest.approx([0.0, pauses, 2 * pauses, 3 * pauses][: len(times)], abs=0.4)
        assert len(times) >= 3


@with_broker()
async def test_a_fault_in_an_answer_pauses_the_queue_and_loses_no_message(broker, caplog):
    broker.pulls[0] = [batch(0)]
    async with broker.assigned(pull_delay_after_error=2.0) as member:
        member._queues._loops[member._group.queues[QUEUE]][0]._handle = None
        await asyncio.sleep(1)
        assert len(broker.asked(Code.LITE_PULL_MESSAGE, queueOffset="0")) == 1
        await asyncio.sleep(2)
        assert len(broker.asked(Code.LITE_PULL_MESSAGE, queueOffset="0")) == 2
    assert "pulling T@b:0 at 0 failed" in caplog.text


@with_broker()
async def test_the_next_pull_goes_to_the_replica_that_the_answer_suggests(broker):
    data = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0: "b:1", 1: "b:2"})],
    )
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: Command(0, body=data.encode())
    body = record(0)
    broker.pulls = {0: [pulled(0, 1, body, suggestWhichBrokerId="1")], 1: [pulled(ResponseCode.PULL_NOT_FOUND, 2)]}
    async with broker.assigned() as member:
        await broker.pull(2)
        assert len(await member.poll()) == 1
    pulls = [(where, r.ext["queueOffset"]) for where, r in broker.network.requests if r.code == Code.LITE_PULL_MESSAGE]
    assert pulls == [("b:1", "0"), ("b:2", "1"), ("b:1", "2")]


@with_broker()
async def test_a_route_that_may_be_old_is_refreshed_before_the_next_pull(broker):
    for code, times in ((ResponseCode.SERVICE_NOT_AVAILABLE, 1), (ResponseCode.SYSTEM_ERROR, 0)):
        async with broker.assigned() as member:
            await broker.pull(0)
            broker.network.requests.clear()
            member.assign([MessageQueue(TOPIC, "b", 1)])
            broker.pulls[0] = [Command(code, remark="not now")]
            await asyncio.sleep(1)
            assert len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC)) == times, code


@with_broker()
async def test_the_next_pull_is_sent_before_an_answer_is_decoded(broker):
    """So that the broker reads while the client decodes."""
    answers, cached = {"0": batch(0, 1), "2": batch(2)}, []

    def answer(request):
        cached.append((request.ext["queueOffset"], member._group.queues[QUEUE].count))
        return answers.pop(request.ext["queueOffset"], None)

    broker.special[Code.LITE_PULL_MESSAGE] = answer
    async with broker.assigned() as member:
        await broker.pull(3)
    assert cached == [("0", 0), ("2", 0), ("3", 2)]


@with_broker()
async def test_no_task_is_left_of_a_closed_consumer(broker):
    def tasks():
        return {task for task in asyncio.all_tasks() if not task.done()}

    await broker.instance.start()
    before = tasks()
    member = broker.consumer(trace="traces")
    member.on_queues_changed(TOPIC, print)
    async with member:
        member.subscribe(TOPIC)
        await asyncio.sleep(1)
        assert len(tasks()) > len(before)
    await asyncio.sleep(0)
    assert tasks() == before
