"""Registrations as brokers make them."""

import pytest

from rocketmq_py.namesrv import Registry
from rocketmq_py.namesrv.registry import Leaving
from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.topic import RegisterBrokerBody, TopicConfig, TopicConfigTable
from rocketmq_py.protocol.headers.namesrv import RegisterBroker

NOW = 1_700_000_000_000


def result_of(steps):
    """The value of a generator that is run to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


class Site:
    """A registry and a short way to register brokers at it; time is ``now``."""

    def __init__(self, **options):
        self.registry = Registry(**options)
        self.now = NOW

    def register(self, *what, **options):
        return result_of(self.steps(*what, **options))

    def steps(self, name="broker-a", broker_id=0, address=None, *, topics=("T", "U"), cluster="C", counter=1,
                 state=0, perm=6, queues=4, owner=None, filters=(), sys_flag=0, **header):  # fmt: skip
        address = address or f"10.0.0.{broker_id + 1}:10911"
        head = RegisterBroker(
            broker_name=name, broker_addr=address, cluster_name=cluster, ha_server_addr=f"ha-of-{address}",
            broker_id=broker_id, **header,
        )  # fmt: skip
        table = {
            topic: TopicConfig(
                topic_name=topic, perm=perm, read_queue_nums=queues, write_queue_nums=queues, topic_sys_flag=sys_flag
            )
            for topic in topics
        }
        wrapper = TopicConfigTable(
            topic_config_table=table, data_version=DataVersion(counter=counter, state_version=state)
        )
        body = RegisterBrokerBody(topic_config_serialize_wrapper=wrapper, filter_server_list=list(filters))
        return self.registry.register(head, body, owner or address, self.now)

    def leave(self, name="broker-a", broker_id=0, address=None, *, cluster="C"):
        address = address or f"10.0.0.{broker_id + 1}:10911"
        self.registry.unregister([Leaving(cluster, address, name, broker_id)])

    def queues(self, topic="T"):
        route = self.registry.route(topic)
        return None if route is None else {queue.broker_name: queue for queue in route.queue_datas}

    def addresses(self, topic="T"):
        return {broker.broker_name: broker.broker_addrs for broker in self.registry.route(topic).broker_datas}


@pytest.fixture
def site():
    return Site()


@pytest.fixture
def make_site():
    return Site
