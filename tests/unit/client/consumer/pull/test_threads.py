"""The blocking pull consumer warns its caller that it is deprecated, once."""

import warnings

import pytest

from rocketmq_py.client.consumer.pull.blocking import PullConsumer
from tests.unit.client.consumer.one_thread import OneThread, on
from tests.unit.client.consumer.push.test_consumer import GROUP, QUEUE, TOPIC, Broker, pulled, record


def test_a_blocking_pull_consumer_warns_where_it_is_made_and_pulls(monkeypatch):
    portal = OneThread().replace(monkeypatch)
    broker = portal.call(Broker)
    broker.pulls[TOPIC, 4] = [pulled(0, 5, record(4))]
    with pytest.warns(DeprecationWarning, match="LitePullConsumer does all of it") as warned:
        member = PullConsumer(GROUP, instance=on(broker.instance))
    assert [each.filename for each in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with member:
            assert [message.queue_offset for message in member.pull(QUEUE, 4).messages] == [4]
    portal.run(broker.instance.stop())
    portal.close()
