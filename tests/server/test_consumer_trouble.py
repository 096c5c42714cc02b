"""What goes wrong around consumers is said and costs no message: listeners, groups that do not fit together, queues
that vanish, clocks, forks.
"""

import asyncio
import os
import threading

import pytest

from rocketmq_py import ForkedError, LitePullConsumer, PushConsumer as BlockingConsumer
from rocketmq_py.aio import Admin, Message, MessageQueue, Producer, PushConsumer
from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer import consumer_group
from rocketmq_py.client.consumer.push import pull_loop
from rocketmq_py.core.consumer import rebalance
from rocketmq_py.testing import Cluster
from tests.server.consuming import FIRST, PATIENCE, Seen, eventually

BROKER_LOG, CLIENT_LOG = "rocketmq_py.broker.cluster.clients", "rocketmq_py.client.consumer.rebalance.group_check"


@pytest.fixture(scope="module")
def cluster():
    """Delay levels are all one second."""
    with Cluster(message_delay_level=" ".join(["1s"] * 18)) as running:
        yield running


@pytest.fixture
def hurry(monkeypatch):
    """Brokers hold pulls no longer than 0.2 s, and an unbalanced group is balanced again after 0.05 s."""
    monkeypatch.setattr(pull_loop, "SUSPEND_SECONDS", 0.2)
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.05)


def consumer(cluster, group, topic, listener, tags="*", **options):
    made = PushConsumer(group, cluster.namesrv, **{"consume_from": FIRST, "rebalance_interval": 0.2, **options})
    made.subscribe(topic, tags, listener)
    return made


async def send(cluster, topic, bodies, queue=None, **properties):
    async with Producer("sender", cluster.namesrv) as producer:
        for body in bodies:
            await producer.send(Message(topic, body, **properties), queue=queue)


def said(caplog, text, logger=None):
    return [
        record.getMessage()
        for record in caplog.records
        if text in record.getMessage() and logger in (None, record.name)
    ]


@pytest.mark.parametrize("fault", ["raises", "nonsense", "exits"])
def test_a_failed_listener_is_logged_and_gets_the_message_again(cluster, topic, group, fault, caplog):
    async def scenario():
        seen = Seen()

        def listen(message):
            seen(message)
            if message.reconsume_times:
                return None
            if fault == "raises":
                raise ValueError("on purpose")
            if fault == "exits":
                raise SystemExit(3)
            return "fine"

        await send(cluster, topic, ["one"])
        async with consumer(cluster, group, topic, listen):
            await seen.count(2)

    asyncio.run(scenario())
    assert said(caplog, "'fine'" if fault == "nonsense" else "the listener failed on")


def test_a_stuck_listener_is_logged_and_its_message_redelivered(cluster, topic, group, caplog):
    go = threading.Event()

    async def scenario():
        seen, again = Seen(), Seen()

        def this_hangs(message):
            seen(message)
            if message.reconsume_times:
                again(message)
            else:
                assert go.wait(PATIENCE)

        await send(cluster, topic, ["one"])
        async with consumer(cluster, group, topic, this_hangs, stuck_after=0.2, consume_timeout=0.6) as member:
            await eventually(lambda: member.health().stuck)
            await again.count(1)
            assert again.messages[0].reconsume_times == 1
            async with Admin(cluster.namesrv) as admin:
                queue = MessageQueue(topic, "broker-a", seen.messages[0].queue_id)
                await member.persist_offsets()
                async with asyncio.timeout(PATIENCE):
                    while await admin.group_offset(group, queue) != 1:  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
            assert "in this_hangs" in said(caplog, "has been at work")[0]
            go.set()

    asyncio.run(scenario())


@pytest.mark.parametrize("differ", ["tags", "topics"])
async def test_different_subscriptions_in_a_group_are_logged_by_broker_and_member(
    cluster, topic, group, differ, caplog, hurry
):
    other = topic if differ == "tags" else cluster.create_topic(f"{topic}-other", 1)
    async with consumer(cluster, group, topic, Seen(), "a"), consumer(cluster, group, other, Seen(), "b"):
        await eventually(lambda: said(caplog, "different subscriptions", CLIENT_LOG))
        await eventually(lambda: said(caplog, "different subscriptions", BROKER_LOG))
    for logger in (CLIENT_LOG, BROKER_LOG):
        [first, *_] = said(caplog, "different subscriptions", logger)
        assert group in first
        assert ("'a' here, 'b' there" in first or "'b' here, 'a' there" in first) is (differ == "tags")
        assert ("not subscribed" in first) is (differ == "topics")


def test_members_with_equal_subscriptions_log_nothing(cluster, topic, group, caplog, hurry):
    async def scenario():
        async with (
            consumer(cluster, group, topic, Seen(), "a || b") as one,
            consumer(cluster, group, topic, Seen(), "b||a") as two,
        ):
            await eventually(lambda: two.queues and len({*one.queues, *two.queues}) == 5)

    asyncio.run(scenario())
    assert not said(caplog, "different subscriptions")


def test_two_clients_with_one_id_get_all_messages_and_a_warning(cluster, topic, group, caplog, hurry):
    async def scenario():
        one, two = Seen(), Seen()
        async with (
            consumer(cluster, group, topic, one, instance_name="same") as first,
            consumer(cluster, group, topic, two, instance_name="same") as second,
        ):
            assert first.client_id == second.client_id
            await eventually(lambda: said(caplog, "used by more than one consumer"))
            await send(cluster, topic, [f"{i}" for i in range(20)])
            await eventually(lambda: {m.body for m in one.messages} | {m.body for m in two.messages} == {
                b"%d" % i for i in range(20)
            })  # fmt: skip

    asyncio.run(scenario())
    assert "instance_name" in said(caplog, "used by more than one consumer")[0]


async def test_a_shrunk_topic_loses_only_its_removed_queues(cluster, topic, group, hurry, caplog):
    seen = Seen()
    instance = ClientInstance(cluster.namesrv, route_interval=0.2)
    async with consumer(cluster, group, topic, seen, instance=instance) as member:
        await send(cluster, topic, ["before"], MessageQueue(topic, "broker-a", 3))
        await seen.count(1)
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic(topic, 2)
        await eventually(lambda: len([queue for queue in member.queues if queue.topic == topic]) == 2)
        await send(cluster, topic, ["after"], MessageQueue(topic, "broker-a", 1))
        await seen.count(2)
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic(topic, 4)
        await eventually(lambda: len([queue for queue in member.queues if queue.topic == topic]) == 4)
        await send(cluster, topic, ["grown"], MessageQueue(topic, "broker-a", 3))
        await seen.count(3)
    await instance.stop()
    assert seen.bodies == ["before", "after", "grown"]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_recreated_topic_is_logged_and_consumed_again(cluster, topic, group, hurry, caplog, orderly):
    seen, other = Seen(), cluster.create_topic(f"{topic}-other", 1)
    instance = ClientInstance(cluster.namesrv, route_interval=0.2)
    member = consumer(cluster, group, topic, seen, instance=instance, orderly=orderly)
    member.subscribe(other, listener=seen)
    async with member:
        await send(cluster, topic, ["first"], MessageQueue(topic, "broker-a", 0))
        await seen.count(1)
        async with Admin(cluster.namesrv) as admin:
            await admin.delete_topic(topic)
        await eventually(lambda: said(caplog, f"{topic}@broker-a:0 is released"))
        await send(cluster, other, ["meanwhile"])
        await seen.count(2)
        async with Admin(cluster.namesrv) as admin:
            await admin.create_topic(topic, 4)
        await send(cluster, topic, ["second"], MessageQueue(topic, "broker-a", 0))
        await seen.count(3)
    await instance.stop()
    assert seen.bodies == ["first", "meanwhile", "second"]


async def test_a_clock_set_back_does_not_block_new_subscriptions(cluster, topic, group, monkeypatch, hurry):
    seen = Seen()
    async with consumer(cluster, group, topic, seen, "a") as member:
        now = consumer_group.time
        monkeypatch.setattr(consumer_group, "time", lambda: now() - 86400)
        member.subscribe(topic, "b", seen)
        registry = cluster.brokers[0].services.clients.consumers
        await eventually(lambda: registry.groups[group].subscriptions[topic].sub_string == "b")
        await send(cluster, topic, ["no"], tags="a")
        await send(cluster, topic, ["yes"], tags="b")
        await seen.count(1)
    assert seen.bodies == ["yes"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_cannot_use_the_consumer_of_its_parent(cluster, topic, group):
    arrived = threading.Event()
    with BlockingConsumer(group, cluster.namesrv, listener=lambda _: arrived.set(), consume_from=FIRST) as member:
        member.subscribe(topic)
        member.start()
        with LitePullConsumer(f"{group}-lite", cluster.namesrv, consume_from=FIRST) as lite:
            lite.subscribe(topic)
            calls = [member.lag, member.health, member.close, lite.poll, lite.commit, lite.health, lite.close]
            reader, writer = os.pipe()
            child = os.fork()
            if not child:
                os.write(writer, b"".join(b"f" if _forked(call) else b"-" for call in calls))
                os._exit(0)
            os.close(writer)
            with os.fdopen(reader, "rb") as pipe:
                assert pipe.read() == b"f" * len(calls)
            os.waitpid(child, 0)
            asyncio.run(send(cluster, topic, ["one"]))
            assert arrived.wait(PATIENCE)
            assert lite.poll(PATIENCE)


def _forked(call):
    try:
        call()
    except ForkedError:
        return True
    except BaseException:  # noqa: BLE001 - a child must not run into the test's own ends
        return False
    return False
