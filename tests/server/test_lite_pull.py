"""The lite pull consumer, asyncio face, against our own broker."""

import asyncio
import datetime

import pytest

from rocketmq_py.aio import (
    Admin,
    ClosedError,
    ConfigError,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageModel,
    MessageQueue,
    NoRouteError,
    NotAssigned,
    OffsetIllegal,
    Producer,
)
from rocketmq_py.client.consumer.offsets.local_offsets import load
from rocketmq_py.errors import TopicNotExist
from tests.server.consuming import FIRST, PATIENCE


async def send(namesrv, topic, count, queue=None, **properties):
    async with Producer("sender", namesrv) as producer:
        return [await producer.send(Message(topic, f"{i:03}", **properties), queue=queue) for i in range(count)]


def consumer(cluster, group, **options):
    return LitePullConsumer(group, cluster.namesrv, **{"consume_from": FIRST, **options})


def first_queue(topic):
    return MessageQueue(topic, "broker-a", 0)


def numbers(count):
    return [f"{i:03}" for i in range(count)]


def bodies(messages):
    return sorted(message.body.decode() for message in messages)


async def collect(member, count):
    found = []
    while len(found) < count:
        polled = await member.poll(PATIENCE)
        assert polled, found
        found += polled
    return found


async def eventually(look, wanted):
    """Waits for a state nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not wanted(seen := await look()):  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.02)
    return seen


async def test_subscribed_messages_are_polled_once_and_committed_at_close(cluster, topic, group):
    await send(cluster.namesrv, topic, 40, tags="a", keys="k")
    async with consumer(cluster, group) as member:
        member.subscribe(topic)
        found = await collect(member, 40)
        assert bodies(found) == numbers(40)
        assert {len(member.assignment), len({m.queue for m in found})} == {4}
        assert (found[0].tags, found[0].keys, found[0].properties["MIN_OFFSET"]) == ("a", "k", "0")
        assert await member.poll(0) == []
    async with Admin(cluster.namesrv) as admin:
        assert sum((await admin.group_offsets(group, topic)).values()) == 40
        assert f"%RETRY%{group}" not in {m.topic for m in found}


async def test_a_poll_returns_a_batch_of_one_queue_in_order(cluster, topic, group):
    await send(cluster.namesrv, topic, 30)
    async with consumer(cluster, group, pull_batch_size=4) as member:
        member.subscribe(topic)
        seen = {}
        for _ in range(8):
            polled = await member.poll()
            assert len(polled) <= 4
            queue, offsets = polled[0].queue, [m.queue_offset for m in polled]
            assert {m.queue for m in polled} == {queue}
            start = seen.get(queue, 0)
            assert offsets == list(range(start, start + len(polled)))
            seen[queue] = offsets[-1] + 1


async def test_iteration_commits_each_message_and_ends_with_close(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 6, queue=queue)
    async with consumer(cluster, group) as member:
        member.assign([queue])
        async for message in member:
            if message.queue_offset == 2:
                break
    found = []
    member = consumer(cluster, group)
    async with member:
        member.assign([queue])
        async for message in member:
            found.append(message.queue_offset)
            if len(found) == 3:
                closing = asyncio.ensure_future(member.close())
    await closing
    assert found == [3, 4, 5]


async def test_the_last_poll_of_a_failed_block_is_redelivered(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 3, queue=queue)

    async def failing():
        async with consumer(cluster, group) as member:
            member.assign([queue])
            await member.poll()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    async with consumer(cluster, group) as member:
        member.assign([queue])
        assert [m.queue_offset for m in await member.poll()] == [0, 1, 2]


async def test_a_poll_commits_the_messages_of_earlier_polls(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 4, queue=queue)
    async with consumer(cluster, group, pull_batch_size=2, auto_commit_interval=600.0) as member:
        member.assign([queue])
        assert len(await member.poll()) == 2
        member._commit_at = 0.0  # as if the interval were over
        assert len(await member.poll()) == 2
        assert await member.committed(queue) == 2
        await member.poll(0)
        assert await member.committed(queue) == 2  # not due yet


async def test_all_or_given_offsets_can_be_committed(cluster, topic, group):
    queue, other = first_queue(topic), MessageQueue(topic, "broker-a", 1)
    await send(cluster.namesrv, topic, 5, queue=queue)
    async with consumer(cluster, group, auto_commit=False) as member, Admin(cluster.namesrv) as admin:
        member.assign([queue])
        await member.poll()
        assert await admin.group_offset(group, queue) is None
        await member.commit()
        assert await admin.group_offset(group, queue) == 5
        await member.commit({queue: 2})
        assert (await admin.group_offset(group, queue), await member.committed(queue)) == (2, 2)
        with pytest.raises(NotAssigned, match=r"queue .*:1 is not assigned"):
            await member.commit({other: 1})
        with pytest.raises(OffsetIllegal, match="negative"):
            await member.commit({queue: -1})
    async with Admin(cluster.namesrv) as admin:
        assert await admin.group_offset(group, queue) == 2


async def test_seek_moves_the_position(cluster, topic, group):
    queue = first_queue(topic)
    results = await send(cluster.namesrv, topic, 8, queue=queue)
    async with consumer(cluster, group, pull_batch_size=3) as member:
        member.assign([queue])
        await collect(member, 8)
        await member.seek(queue, 6)
        assert [m.queue_offset for m in await member.poll()] == [6, 7]
        await member.seek_to_begin(queue)
        assert [m.queue_offset for m in await member.poll()] == [0, 1, 2]
        await member.seek_to_end(queue)
        await member.commit()
        assert await member.committed(queue) == 8
        await send(cluster.namesrv, topic, 1, queue=queue)
        assert [m.queue_offset for m in await member.poll()] == [results[-1].queue_offset + 1]
        with pytest.raises(OffsetIllegal, match=r"offset 10 of .* begins at 0 and ends at 9"):
            await member.seek(queue, 10)
        with pytest.raises(NotAssigned):
            await member.seek(queue._replace(queue_id=3), 0)


async def test_the_offset_for_a_time_can_be_sought(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 2, queue=queue)
    async with consumer(cluster, group) as member:
        member.assign([queue])
        last = (await collect(member, 2))[-1]
        now = datetime.datetime.now(datetime.UTC)
        assert await member.offset_for_timestamp(queue, 0) == 0
        assert await member.offset_for_timestamp(queue, last.store_timestamp) in (0, 1)
        assert await member.offset_for_timestamp(queue, now + datetime.timedelta(hours=1)) == 2


async def test_a_paused_queue_is_not_pulled_until_it_is_resumed(cluster, topic, group):
    one, two = MessageQueue(topic, "broker-a", 0), MessageQueue(topic, "broker-a", 1)
    async with consumer(cluster, group) as member:
        member.assign([one, two])
        member.pause([one, MessageQueue("other", "broker-a", 0)])
        assert member.paused == [one]
        await member.seek_to_begin(one)  # a queue stays paused wherever it is
        await send(cluster.namesrv, topic, 1, queue=one)
        await send(cluster.namesrv, topic, 1, queue=two)
        assert (await member.poll())[0].queue == two
        assert await member.poll(0.1) == []
        member.resume([one])
        assert (await member.poll())[0].queue == one


async def test_assigning_other_queues_keeps_common_positions(cluster, topic, group):
    zero, one, two = (MessageQueue(topic, "broker-a", i) for i in range(3))
    for queue in (zero, one, two):
        await send(cluster.namesrv, topic, 2, queue=queue)
    async with consumer(cluster, group) as member:
        member.assign([zero, one])
        await collect(member, 4)
        member.assign([one, two])
        assert member.assignment == [one, two]
        assert {m.queue for m in await collect(member, 2)} == {two}
        assert await member.poll(0) == []


async def test_tags_are_filtered_in_both_modes_and_offsets_move(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 3, queue=queue, tags="BB")  # the hash of Aa
    await send(cluster.namesrv, topic, 1, queue=queue, tags="Aa")
    await send(cluster.namesrv, topic, 2, queue=queue, tags="other")
    async with consumer(cluster, group, broker_suspend_time=0.1) as member:
        member.assign([queue], "Aa")
        assert [m.queue_offset for m in await member.poll()] == [3]

        async def position():
            await member.commit()
            return await member.committed(queue)

        await eventually(position, lambda offset: offset == 6)
    async with consumer(cluster, f"{group}-2") as member:
        member.subscribe(topic, "other || Aa")
        assert len(await collect(member, 3)) == 3


async def test_members_share_the_queues_and_the_last_gets_all(cluster, topic, group):
    one, two = consumer(cluster, group), consumer(cluster, group)
    one.subscribe(topic)
    two.subscribe(topic)

    async def owned():
        return sorted([*one.assignment, *two.assignment]), len(one.assignment)

    async with one:
        async with two:
            shared, _ = await eventually(owned, lambda seen: seen[1] == 2 and len(seen[0]) == 4)
            assert len(set(shared)) == 4
        await eventually(owned, lambda seen: seen[1] == 4)
        await send(cluster.namesrv, topic, 8)
        assert bodies(await collect(one, 8)) == numbers(8)


async def test_a_group_without_offsets_starts_at_the_time_asked_for(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 2, queue=queue)
    mode = ConsumeFromWhere.TIMESTAMP
    async with consumer(cluster, group, consume_from=mode, consume_timestamp="20200101000000") as member:
        member.assign([queue])
        assert len(await member.poll()) == 2


async def test_an_unsubscribed_topic_is_not_delivered(cluster, topic, group):
    await send(cluster.namesrv, topic, 4)
    other = cluster.create_topic(f"{topic}-other", 1)
    await send(cluster.namesrv, other, 1)
    async with consumer(cluster, group) as member:
        member.subscribe(topic)
        await collect(member, 4)
        member.unsubscribe(topic)
        assert member.assignment == []
        member.subscribe(other)
        assert [m.topic for m in await member.poll(PATIENCE)] == [other]


async def test_a_listener_is_notified_of_new_queues_and_can_assign_them(cluster, topic, group):
    async with consumer(cluster, group, metadata_check_interval=0.02) as member, Admin(cluster.namesrv) as admin:
        heard = asyncio.Event()

        def changed(topic, queues):
            member.assign(queues)
            heard.set()

        queues = await member.queues(topic)
        assert len(queues) == 4
        member.assign(queues)
        member.on_queues_changed(topic, changed)
        await eventually(lambda: asyncio.sleep(0, member._watch._seen), lambda seen: topic in seen)
        await admin.create_topic(topic, 6)
        await asyncio.wait_for(heard.wait(), PATIENCE)
        assert len(member.assignment) == 6
        await send(cluster.namesrv, topic, 1, queue=MessageQueue(topic, "broker-a", 5))
        assert (await member.poll(PATIENCE))[0].queue_id == 5


async def test_invalid_calls_raise(cluster, topic, group):
    member = consumer(cluster, group)
    with pytest.raises(ClosedError, match="is not started"):
        await member.poll()
    with pytest.raises(ClosedError, match="is not started"):
        await anext(member)
    async with member:
        with pytest.raises(ConfigError, match="nothing to poll"):
            await member.poll()
        with pytest.raises(ConfigError, match="no queue to assign"):
            member.assign([])
        with pytest.raises(NoRouteError, match="no-such-topic"):
            await member.queues("no-such-topic")
        member.assign(await member.queues(topic))
        with pytest.raises(ConfigError, match=r"is assigned: subscribe\(\) and assign\(\) exclude each other"):
            member.subscribe(topic)
        with pytest.raises(ConfigError, match="must not be negative"):
            await member.poll(-1)
        waiting = asyncio.ensure_future(member.poll(None))
        await asyncio.sleep(0)
    with pytest.raises(ClosedError, match="is closed"):
        await waiting
    for call in (member.start(), member.poll(), member.commit(), member.seek(first_queue(topic), 0)):
        with pytest.raises(ClosedError, match="is closed"):
            await call
    with pytest.raises(ClosedError):
        member.assign([first_queue(topic)])
    await member.close()
    assert "closed, assigned, 0 queues" in repr(member)


@pytest.mark.parametrize("assign", [False, True])
async def test_broadcasting_members_get_everything_and_store_offsets_locally(cluster, topic, group, tmp_path, assign):
    await send(cluster.namesrv, topic, 12)
    common = {"message_model": MessageModel.BROADCASTING, "local_offset_dir": tmp_path}

    async def joined(name):
        member = consumer(cluster, group, instance_name=name, **common)
        await member.start()
        if assign:
            member.assign(await member.queues(topic))
        else:
            member.subscribe(topic)
        return member

    first, second = await joined("one"), await joined("two")
    for member in (first, second):
        assert bodies(await collect(member, 12)) == numbers(12)
    await first.commit()
    path = tmp_path / first.client_id / group / "offsets.json"
    assert sum(load(path).values()) == 12
    await first.close()
    await second.close(commit=False)
    async with Admin(cluster.namesrv) as admin:
        assert not await admin.group_offsets(group, topic)

    await send(cluster.namesrv, topic, 2)
    first, second = await joined("one"), await joined("two")
    assert bodies(await collect(first, 2)) == numbers(2)
    assert len(await collect(second, 14)) == 14, "what was polled and not committed comes again"
    await first.close()
    await second.close()


async def test_health_and_lag_show_held_and_uncommitted_messages(cluster, topic, group):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 6, queue)
    async with consumer(cluster, group, auto_commit=False, pull_batch_size=2) as member:
        member.subscribe(topic)
        assert len(await member.poll(PATIENCE)) == 2

        async def held():
            return next((each.held for each in member.health().queues if each.queue == queue), 0)

        await eventually(held, lambda number: number == 4)
        health = member.health()
        assert (health.state, health.group, health.ok, health.stuck) == ("running", group, True, [])
        assert (await member.lag())[queue] == 6
        await member.commit()
        assert (await member.lag())[queue] == 4
    assert member.health().state == "closed"


async def test_a_recreated_topic_starts_at_its_beginning(cluster, topic, group, caplog):
    queue = first_queue(topic)
    await send(cluster.namesrv, topic, 5, queue)
    async with consumer(cluster, group, pull_batch_size=2, broker_suspend_time=1.0) as member:
        member.assign([queue])
        assert len(await member.poll(PATIENCE)) == 2
        await member.commit()
        async with Admin(cluster.namesrv) as admin:
            await admin.delete_topic(topic)

            async def log():
                return caplog.text

            await eventually(log, lambda text: "was deleted" in text)
            with pytest.raises(TopicNotExist):  # and what was held is void
                await member.poll(6)
            await admin.create_topic(topic, 1)
        await send(cluster.namesrv, topic, 3, queue)
        assert bodies(await collect(member, 3)) == numbers(3)
        await member.commit()
        assert await member.committed(queue) == 3
