"""Admin's statistics and questions about running clients, on our broker and on Java's, with clients of both."""

from __future__ import annotations

from rocketmq_py import Admin, ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer
from tests.interop.javapeer import JavaPeer
from tests.interop.side import Side, eventually, group


def test_counters_times_producers_and_running_consumers(java: JavaPeer, side: Side) -> None:
    topic, name = side.topic(java, queues=1), group()
    queue = MessageQueue(topic, "broker-a", 0)
    with Admin(side.namesrv) as admin, Producer(f"p-{name}", side.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic, b"%d" % number))
        consumer = PushConsumer(name, side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.on(topic)(lambda _: None)
        with consumer:
            eventually(lambda: admin.group_offset(name, queue), lambda offset: offset == 5)
            [member] = eventually(lambda: admin.producers().get(f"p-{name}", []), len)
            assert admin.producer_members(f"p-{name}")[0].client_id == member.client_id
            found = admin.members(name)
            assert found is not None
            info = admin.running_info(name, found.connection_set[0].client_id, stack=True)
            assert info is not None
            assert info.queues()[queue].commit_offset == 5
            assert info.jstack
        assert admin.running_info(name, "nobody") is None
        assert admin.producer_members("nobody") == []
        times = admin.consume_times(name, topic)[queue]
        assert 0 < times.min_time_stamp <= times.consume_time_stamp <= times.max_time_stamp
        assert times.delay_time == 0
        assert admin.all_progress()[name][queue].lag == 0
        entries = admin.queue_entries(queue, 1, 2)
        assert (entries.min_queue_index, entries.max_queue_index, len(entries.queue_data)) == (0, 5, 2)
        assert admin.queue_entries(queue, 99).queue_data == []
        counted = eventually(lambda: admin.counter("TOPIC_PUT_NUMS", topic), len)
        assert set(counted) == {"broker-a"}
        producer.send(Message(topic, b"later", delay=3600))
        eventually(lambda: admin.timers().get(topic), lambda waiting: waiting == {"broker-a": 1})
        assert admin.counter("TOPIC_PUT_NUMS", "no-such-topic") == {}
