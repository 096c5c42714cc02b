"""The status of a message, derived from offsets."""

import pytest

from rocketmq_py.cli.message import trace
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper
from rocketmq_py.protocol.bodies.client import ConsumerConnection, SubscriptionData
from tests.unit.cli.messages import message

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def connected(tags=(), model="CLUSTERING"):
    subscription = SubscriptionData(topic="t", sub_string="||".join(tags) or "*", tags_set=list(tags))
    return ConsumerConnection(message_model=model, subscription_table={"t": subscription})


@pytest.mark.parametrize(
    ("members", "at", "retries", "dead", "status"),
    [
        (connected(), 5, [], [], "waiting"),
        (connected(), 6, [], [], "consumed"),
        (None, 6, [], [], "consumed"),
        (None, 0, [], [], "waiting"),
        (connected(["a"]), 6, [], [], "consumed"),
        (connected(["b"]), 6, [], [], "filtered"),
        (connected(model="BROADCASTING"), 0, [], [], "broadcast"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [], "retrying"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [message(topic="%DLQ%g")], "dead"),
    ],
)
def test_the_status_of_a_message_is_derived_from_offsets(members, at, retries, dead, status):
    progress = {Q0: OffsetWrapper(broker_offset=9, consumer_offset=at)}
    assert trace.status(message(TAGS="a"), members, progress, retries, dead) == status


def test_a_consumed_retry_counts_as_consumed():
    retry = message(topic="%RETRY%g", offset=0)
    progress = {retry.queue: OffsetWrapper(broker_offset=1, consumer_offset=1)}
    assert trace.status(message(), connected(), progress, [retry], []) == "consumed"
