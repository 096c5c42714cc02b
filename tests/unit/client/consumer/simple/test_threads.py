"""The blocking simple consumer: iteration in the calling thread."""

from rocketmq_py.client.blocking_instance import ClientInstance
from rocketmq_py.client.consumer.simple.blocking import SimpleConsumer
from tests.unit.client.consumer.one_thread import OneThread, on
from tests.unit.client.consumer.popbroker import GROUP, TOPIC, PopBrokers, record


def test_an_iteration_receives_message_by_message_and_ends_with_the_consumer(monkeypatch):
    portal = OneThread().replace(monkeypatch)
    brokers = portal.call(PopBrokers)
    brokers.has["b"] = [[record(0)], [record(1)]]
    member = SimpleConsumer(GROUP, instance=on(brokers.instance))
    member.subscribe(TOPIC)
    with member:
        seen = []
        for message in member:
            seen.append(message.queue_offset)
            member.ack(message)
            if len(seen) == 2:
                member.close()
    assert (seen, brokers.acked) == ([0, 1], [("b", 0), ("b", 1)])
    portal.run(brokers.instance.stop())
    portal.close()


def test_a_blocking_instance_is_shared_until_it_is_closed(monkeypatch):
    portal = OneThread().replace(monkeypatch)
    with ClientInstance("ns:1", instance_name="shared") as shared:
        assert shared.client_id.endswith("@shared")
        member = SimpleConsumer(GROUP, instance=shared)
        assert member.client_id == shared.client_id
        assert repr(shared._aio) == repr(shared)
        member.close()
        portal.call(shared._aio.connections.check_usable)
    portal.close()
