"""Blocking producers, consumers and administration clients that share a client."""

import pytest

from rocketmq_py import Admin, ClientInstance, ConfigError, ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.testing import Cluster
from tests.server.test_serve_brokers import until


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as running:
        running.create_topic("shared", 2)
        yield running


def test_members_share_the_client_id(cluster):
    got = []
    with ClientInstance(cluster.namesrv, instance_name="together", heartbeat_interval=1.0) as shared:
        assert shared.client_id.endswith("@together")
        consumer = PushConsumer("readers", instance=shared, consume_from=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("shared", listener=lambda message: got.append(message.body))
        with Producer("writers", instance=shared) as producer, Admin(instance=shared) as admin, consumer:
            for number in range(4):
                producer.send(Message("shared", b"%d" % number))
            until(lambda: len(got) == 4)
            found = admin.members("readers")
            assert {member.client_id for member in found.connection_set} == {shared.client_id}
        with Producer("writers", instance=shared) as again:  # members come and go, the client stays
            again.send(Message("shared", b"again"))


def test_a_client_has_one_member_of_a_group(cluster):
    with ClientInstance(cluster.namesrv) as shared, Producer("same", instance=shared) as first:
        first.send(Message("shared", b"x"))
        with pytest.raises(ConfigError, match="same"):
            Producer("same", instance=shared).start()
