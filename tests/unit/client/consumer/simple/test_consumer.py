"""The simple consumer against scripted brokers: its requests, their order, and what it returns."""

import asyncio
import contextlib
import logging

import pytest

from rocketmq_py.client.consumer.simple import sources
from rocketmq_py.client.consumer.simple.consumer import SimpleConsumer
from rocketmq_py.core.consumer import flow_control
from rocketmq_py.errors import (
    BrokerError,
    ClosedError,
    ConfigError,
    InvalidReceipt,
    NetworkError,
    NoRouteError,
    PermissionDenied,
    SystemError_,
)
from rocketmq_py.model import ConsumeFromWhere, MessageExt
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.consumer.popbroker import (
    GROUP,
    PATIENCE,
    TOPIC,
    PopBrokers,
    eventually,
    record,
    scenario,
    with_broker,
)


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(flow_control, "STATE_DELAY", 0.001)
    monkeypatch.setattr(sources, "REFRESH_INTERVAL", 0.001)


def consumer(brokers: PopBrokers, topic=TOPIC, tags="*", **options):
    made = SimpleConsumer(GROUP, instance=brokers.instance, **{"pull_delay_after_error": 0.001, **options})
    made.subscribe(topic, tags)
    return made


def offsets(messages):
    return [message.queue_offset for message in messages]


@with_broker()
async def test_it_sends_a_heartbeat_and_pops_available_messages(brokers):
    brokers.has["b"] = [[record(0), record(1)]]
    async with consumer(brokers, tags="a || b", consume_from=ConsumeFromWhere.FIRST_OFFSET) as member:
        [beat] = brokers.asked(Code.HEART_BEAT)
        [told] = HeartbeatData.decode(beat.body).consumer_data_set
        assert (told.group_name, told.consume_type) == (GROUP, "CONSUME_POP")
        await member.receive(5, invisible_duration=7.5, timeout=0)
        [pop] = brokers.asked(Code.POP_MESSAGE)
        wanted = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "-1", "maxMsgNums": "5",
                  "invisibleTime": "7500", "pollTime": "0", "bornTime": "0", "initMode": "0", "exp": "a || b",
                  "expType": "TAG", "order": "false", "bname": "b"}  # fmt: skip
        assert pop.ext == wanted
    assert brokers.asked(Code.UNREGISTER_CLIENT)


@with_broker("a", "b")
async def test_messages_are_acked_with_one_request_per_broker(brokers):
    brokers.has["a"] = [[record(0), record(1)]]
    brokers.has["b"] = [[record(5)]]
    async with consumer(brokers) as member:
        found = await member.receive(timeout=0)
        assert sorted(offsets(found)) == [0, 1, 5]
        await member.ack(found)
        assert sorted(brokers.acked) == [("a", 0), ("a", 1), ("b", 5)]
        assert len(brokers.asked(Code.BATCH_ACK_MESSAGE)) == len(brokers.asked(Code.ACK_MESSAGE)) == 1


@with_broker("a", "b", "c")
async def test_brokers_take_turns(brokers):
    for name in brokers.names:
        brokers.has[name] = [[record(i)] for i in range(4)]
    async with consumer(brokers) as member:
        first = [(await member.receive(1))[0].broker_name for _ in range(6)]
        assert sorted(first[:3]) == sorted(first[3:]) == ["a", "b", "c"]


@with_broker()
async def test_a_receive_returns_as_many_messages_as_requested(brokers):
    brokers.has["b"] = [[record(i) for i in range(32)], [record(i) for i in range(32, 40)]]
    async with consumer(brokers, pops_in_flight=1) as member:
        assert offsets(await member.receive(100)) == list(range(40))
        assert [pop.ext["maxMsgNums"] for pop in brokers.asked(Code.POP_MESSAGE)] == ["32", "32"]


@with_broker("a", "b")
async def test_the_next_broker_is_asked_for_what_is_left(brokers):
    brokers.has["a"] = [[record(0), record(1), record(2)]]
    brokers.has["b"] = [[record(3), record(4), record(5)]]
    async with consumer(brokers) as member:
        assert len(await member.receive(5, timeout=0)) == 6, "brokers give whole batches here"
        assert [pop.ext["maxMsgNums"] for pop in brokers.asked(Code.POP_MESSAGE)] == ["5", "2"]


@with_broker("a", "b")
async def test_it_waits_for_notifications_of_all_brokers_at_once(brokers):
    async with consumer(brokers) as member:
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        await brokers.until(lambda: brokers.waits() == ["a", "b"])
        brokers.arrive("b", record(3))
        assert offsets(await waiting) == [3]
        # The other broker is still waited at: nothing more is asked there by the next call.
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        await brokers.until(lambda: brokers.waits() == ["a", "b"])
        assert len(brokers.asked(Code.NOTIFICATION)) == 3
        brokers.arrive("a", record(9))
        assert offsets(await waiting) == [9]


@with_broker()
async def test_a_notification_without_messages_is_requested_again(brokers):
    async with consumer(brokers) as member:
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        for _ in range(2):
            await brokers.until(brokers.waits)
            brokers.reply(Command(0, ext={"hasMsg": "false"}))
        await brokers.until(brokers.waits)
        brokers.arrive("b", record(0))
        assert offsets(await waiting) == [0]


@with_broker()
async def test_notifications_without_messages_cause_no_busy_loop(brokers):
    brokers.special[Code.NOTIFICATION] = lambda _: Command(0, ext={"hasMsg": "true"})
    async with consumer(brokers) as member:
        assert await member.receive(timeout=0.3) == []
        assert len(brokers.asked(Code.POP_MESSAGE)) < 12


@with_broker()
async def test_messages_with_another_tag_of_the_same_hash_are_acked(brokers):
    brokers.has["b"] = [[record(0, properties=b"TAGS\x01BB\x02"), record(1, properties=b"TAGS\x01Aa\x02")]]
    async with consumer(brokers, tags="Aa") as member:
        assert offsets(await member.receive(timeout=0)) == [1]
    assert brokers.acked == [("b", 0)]


@with_broker()
async def test_extending_gives_a_new_receipt_that_is_acked_then(brokers):
    brokers.has["b"] = [[record(4), record(5)]]
    async with consumer(brokers) as member:
        _, message = await member.receive()
        receipt = await member.extend(message, 30)
        assert brokers.extended == [(5, 30000)]
        assert receipt == message.properties["POP_CK"] == "5 1000000 30000 4 0 b 0 5"
        await member.ack(message)
        assert brokers.asked(Code.ACK_MESSAGE)[-1].ext["extraInfo"] == receipt


@with_broker()
async def test_a_message_of_a_retry_topic_is_acked_there(brokers):
    brokers.has["b"] = [[record(2, properties=b"POP_CK\x012 1000000 60000 1 1 b 0 2\x02")]]
    async with consumer(brokers) as member:
        [message] = await member.receive()
        assert message.topic == TOPIC
        await member.extend(message, 30)
        await member.ack(message)
        topics = [brokers.asked(code)[0].ext["topic"] for code in (Code.CHANGE_MESSAGE_INVISIBLETIME, Code.ACK_MESSAGE)]
        assert topics == ["%RETRY%g_T", "%RETRY%g_T"]


@with_broker()
async def test_a_message_is_late_as_soon_as_its_time_is_over(brokers, monkeypatch):
    brokers.has["b"] = [[record(0), record(1), record(2)]]
    async with consumer(brokers) as member:
        found = await member.receive()
        overdue = {0: -0.5, 1: 0.0, 2: 0.5}
        monkeypatch.setattr(member, "_overdue", lambda one: overdue[one.message.queue_offset])
        with pytest.raises(InvalidReceipt) as caught:
            await member.ack(found)
        assert offsets(caught.value.messages) == [2]
        assert sorted(brokers.acked) == [("b", 0), ("b", 1)]


@with_broker()
async def test_an_expired_message_is_named_in_the_error_and_the_rest_is_acked(brokers):
    brokers.has["b"] = [[record(0)], [record(1)]]
    async with consumer(brokers) as member:
        [old] = await member.receive(invisible_duration=1)
        brokers.clock += 5000
        [new] = await member.receive(invisible_duration=60)
        with pytest.raises(InvalidReceipt, match="invisible time") as caught:
            await member.ack([old, new])
        assert list(caught.value.messages) == [old]
        assert brokers.acked == [("b", 1)]
        with pytest.raises(InvalidReceipt):
            await member.extend(old, 10)
        assert not brokers.extended


@pytest.mark.parametrize("code", [Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME])
@with_broker()
async def test_a_receipt_the_broker_does_not_know_is_an_error(brokers, code):
    brokers.has["b"] = [[record(0)]]
    brokers.special[code] = lambda _: Command(ResponseCode.NO_MESSAGE, remark="offset is illegal")
    async with consumer(brokers) as member:
        [message] = await member.receive()
        with pytest.raises(InvalidReceipt, match="offset is illegal") as caught:
            await (member.ack(message) if code is Code.ACK_MESSAGE else member.extend(message, 5))
        assert list(caught.value.messages) == [message]


@with_broker("a", "b")
async def test_a_failing_broker_does_not_prevent_acks_at_others(brokers):
    brokers.has["a"] = [[record(0)]]
    brokers.has["b"] = [[record(5)]]
    async with consumer(brokers) as member:
        found = await member.receive()
        answer = brokers._ack
        brokers.special[Code.ACK_MESSAGE] = lambda request: (
            Command(1, remark="broken") if request.ext["bname"] == "a" else answer("b", request)
        )
        with pytest.raises(SystemError_, match="broken"):
            await member.ack(found)
        assert brokers.acked == [("b", 5)]


@with_broker()
async def test_only_what_was_received_can_be_acked(brokers):
    async with consumer(brokers) as member:
        stranger = MessageExt((0,) * 9 + (b"", 0, b"", 0, 0, 1), TOPIC, b"", b"")
        with pytest.raises(ConfigError, match="no receipt"):
            await member.ack(stranger)
        stranger.add_properties({"POP_CK": "nonsense"})
        with pytest.raises(ConfigError, match="nonsense"):
            await member.extend(stranger, 5)


@with_broker()
async def test_messages_of_a_cancelled_receive_go_to_the_next(brokers):
    held = []
    brokers.special[Code.POP_MESSAGE] = held.append
    async with consumer(brokers) as member:
        call = asyncio.ensure_future(member.receive(timeout=None))
        await brokers.until(lambda: held)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        del brokers.special[Code.POP_MESSAGE]
        brokers.held.append(("b", held[0]))
        brokers.reply(brokers.popped([record(7)], held[0]))
        assert offsets(await member.receive(timeout=PATIENCE)) == [7]


@with_broker()
async def test_unreceived_messages_are_returned_at_close(brokers):
    held = []
    brokers.special[Code.POP_MESSAGE] = held.append
    member = consumer(brokers)
    await member.start()
    call = asyncio.ensure_future(member.receive(timeout=None))
    await brokers.until(lambda: held)
    call.cancel()
    brokers.held.append(("b", held[0]))
    await asyncio.gather(call, return_exceptions=True)
    brokers.reply(brokers.popped([record(7)], held[0]))
    await eventually(lambda: member._spare)
    await member.close()
    assert brokers.extended == [(7, 1000)]


def test_a_failing_broker_does_not_hide_the_others(caplog):
    async def run(brokers):
        brokers.has["a"] = [[record(1)]]
        brokers.network.unreachable.add("b:1")
        async with consumer(brokers) as member:
            assert offsets(await member.receive(timeout=PATIENCE)) == [1]
            await member.receive(timeout=0.01)
            trouble = {source.broker_name: source.trouble for source in member.health().sources}
            assert trouble["a"] is None
            assert "cannot connect to b:1" in trouble["b"]
            assert not member.health().ok

    with caplog.at_level(logging.WARNING):
        scenario(run, "a", "b")


@with_broker()
async def test_the_reason_is_raised_when_no_broker_can_be_reached(brokers):
    brokers.special[Code.POP_MESSAGE] = lambda _: Command(ResponseCode.POLLING_FULL, remark="too many")
    async with consumer(brokers) as member:
        with pytest.raises(BrokerError, match="too many"):
            await member.receive(timeout=0.05)
        del brokers.special[Code.POP_MESSAGE]
        brokers.has["b"] = [[record(1)]]
        assert offsets(await member.receive()) == [1]
        assert member.health().ok


@with_broker()
async def test_a_receive_says_why_no_broker_answers(brokers):
    async with consumer(brokers) as member:
        brokers.network.unreachable.add("b:1")
        brokers.network.transports["b:1"].close()
        with pytest.raises(NetworkError, match="b:1"):
            await member.receive(timeout=0.01)


@with_broker()
async def test_a_permanent_error_is_raised_at_once(brokers):
    brokers.special[Code.POP_MESSAGE] = lambda _: Command(ResponseCode.NO_PERMISSION, remark="not for you")
    async with consumer(brokers) as member:
        with pytest.raises(PermissionDenied, match="not for you"):
            await member.receive(timeout=None)


@with_broker()
async def test_the_route_is_read_again_after_a_broker_cannot_be_reached(brokers):
    async with consumer(brokers) as member:
        asked = len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC))
        source = member._sources.ready()[0]
        brokers.network.unreachable.add("b:1")
        brokers.network.transports["b:1"].close()
        assert await member._pop(source, 1, 1.0) == []
        assert len(brokers.asked(Code.GET_ROUTEINFO_BY_TOPIC)) == asked + 1


@with_broker()
async def test_a_broker_with_too_many_held_pops_is_retried(brokers):
    full = [Command(0, ext={"hasMsg": "false", "pollingFull": "true"})]
    brokers.special[Code.NOTIFICATION] = lambda request: full.pop() if full else brokers._hold("b", request)
    async with consumer(brokers) as member:
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        await brokers.until(brokers.waits)
        brokers.arrive("b", record(0))
        assert offsets(await waiting) == [0]


@with_broker()
async def test_a_failed_start_releases_everything(brokers):
    brokers.special[Code.CHECK_CLIENT_CONFIG] = lambda _: Command(1, remark="no SQL here")
    member = SimpleConsumer(GROUP, instance=brokers.instance)
    member.subscribe(TOPIC, sql="a > 1")
    with pytest.raises(ConfigError, match="no SQL here"):
        await member.start()
    assert brokers.instance.consumer(GROUP) is None
    with pytest.raises(ClosedError):
        await member.start()


@with_broker()
async def test_a_topic_can_be_created_later(brokers):
    brokers.topics.clear()
    async with consumer(brokers) as member:
        assert not member.health().ok
        with pytest.raises(NoRouteError, match=TOPIC):
            await member.receive(timeout=0.01)
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        brokers.topics.add(TOPIC)
        brokers.has["b"] = [[record(1)]]
        assert offsets(await waiting) == [1]
        assert member.health().ok


@with_broker()
async def test_a_start_without_a_name_server_raises(brokers):
    brokers.network.unreachable.add("ns:1")
    with pytest.raises(NetworkError, match="ns:1"):
        await consumer(brokers).start()
    member = SimpleConsumer("other", instance=brokers.instance)
    with pytest.raises(NetworkError, match="ns:1"):
        await member.start()


@with_broker()
async def test_topics_can_be_subscribed_and_unsubscribed_while_it_runs(brokers):
    brokers.topics.add("U")
    brokers.has["b"] = [[record(1)]]
    async with consumer(brokers) as member:
        member.unsubscribe(TOPIC)
        with pytest.raises(ConfigError, match="no topic"):
            await member.receive()
        member.subscribe("U")
        [message] = await member.receive()
        assert message.topic == "U"
        assert [source.topic for source in member.health().sources] == ["U"]


@with_broker()
async def test_iterating_ends_when_it_is_closed(brokers):
    brokers.has["b"] = [[record(0)], [record(1)]]
    seen = []
    async with consumer(brokers) as member:
        async for message in member:
            seen.append(message.queue_offset)
            if len(seen) == 2:
                await member.close()
    assert seen == [0, 1]


@with_broker()
async def test_brokers_without_batch_acks_get_single_acks(brokers):
    brokers.special[Code.BATCH_ACK_MESSAGE] = lambda _: Command(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    brokers.has["b"] = [[record(0), record(1)]]
    async with consumer(brokers) as member:
        await member.ack(await member.receive())
    assert brokers.acked == [("b", 0), ("b", 1)]


@with_broker()
async def test_concurrent_orderly_receives_have_their_own_attempt_ids(brokers):
    brokers.has["b"] = [[record(0)], [record(1)]]
    async with consumer(brokers, orderly=True) as member:
        found = await asyncio.gather(member.receive(), member.receive())
        assert sorted(offsets([*found[0], *found[1]])) == [0, 1]
        names = [request.ext["attemptId"] for request in brokers.asked(Code.POP_MESSAGE)]
        assert len(set(names)) == len(names) == 2


@with_broker()
async def test_an_orderly_consumer_requests_orderly_pops(brokers):
    async with consumer(brokers, orderly=True) as member:
        waiting = asyncio.ensure_future(member.receive(timeout=None))
        await brokers.until(brokers.waits)
        assert brokers.asked(Code.POP_MESSAGE)[0].ext["order"] == "true"
        assert brokers.asked(Code.NOTIFICATION)[0].ext["order"] == "true"
        waiting.cancel()


@with_broker()
async def test_a_consumer_that_is_not_started_raises(brokers):
    member = consumer(brokers)
    with pytest.raises(ClosedError, match="not started"):
        await member.receive()
    await member.start()
    waiting = asyncio.ensure_future(member.receive(timeout=None))
    await brokers.until(brokers.waits)
    await member.close()
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError, match="closed"):
        member.subscribe("U")
    await member.close()
    assert "closed" in repr(member)


@pytest.mark.parametrize(
    "options",
    [
        {"invisible_duration": 0.5},
        {"poll_time": 0},
        {"consume_from": ConsumeFromWhere.TIMESTAMP},
        {"pops_in_flight": 0},
    ],
)
def test_invalid_options_are_refused(options):
    with pytest.raises(ConfigError):
        SimpleConsumer(GROUP, "ns:1", **options)


@with_broker()
async def test_invalid_arguments_are_refused(brokers):
    brokers.has["b"] = [[record(0)]]
    async with consumer(brokers) as member:
        for wrong in ({"max_messages": 0}, {"timeout": -1}, {"invisible_duration": 0.1}):
            with pytest.raises(ConfigError):
                await member.receive(**wrong)
        [message] = await member.receive()
        with pytest.raises(ConfigError):
            await member.extend(message, -1)
