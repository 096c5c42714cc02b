"""Requests and replies, both faces, against our own brokers over real sockets."""

import asyncio
import logging

import pytest

from rocketmq_py import Admin, BrokerError, ClosedError, Message, MessageIllegal, Producer, RequestTimeout, aio, reply
from rocketmq_py.aio import PushConsumer
from rocketmq_py.testing import Cluster
from tests.server.consuming import FIRST, PATIENCE, eventually

SENT_BY_THEN = 3.0
"""A request nobody replies to waits so many seconds; a busy machine has sent it by then."""


class Replier:
    """A consumer that replies with what ``answer`` makes of a request, as soon as it may."""

    def __init__(self, namesrv, topic, group, answer=lambda message: b"re: " + message.body):
        self._producer = aio.Producer(f"{group}-replier", namesrv)
        self._consumer = PushConsumer(group, namesrv, consume_from=FIRST)
        self._consumer.subscribe(topic, "*", self._listen)
        self._answer = answer
        self.requests = []
        self.failures = []
        self.may = asyncio.Event()
        self.may.set()

    async def _listen(self, message):
        self.requests.append(message)
        await self.may.wait()
        try:
            await self._producer.send(reply(message, self._answer(message)))
        except BrokerError as e:
            self.failures.append(e)

    async def __aenter__(self):
        await self._producer.start()
        await self._consumer.start()
        return self

    async def __aexit__(self, *_):
        self.may.set()
        await self._consumer.close()
        await self._producer.close()


async def test_both_clients_get_replies(cluster, topic, group):
    async with Replier(cluster.namesrv, topic, group) as replier, aio.Producer("asker", cluster.namesrv) as producer:
        asked = [producer.request(Message(topic, f"{i}", tags="A"), PATIENCE) for i in range(20)]
        answers = await asyncio.gather(*asked)
        assert [answer.body for answer in answers] == [f"re: {i}".encode() for i in range(20)]
        with Producer("blocking-asker", cluster.namesrv) as blocking:
            answer = await asyncio.to_thread(blocking.request, Message(topic, "hello"), PATIENCE)
        assert answer.body == b"re: hello"
        ids = {request.properties["CORRELATION_ID"] for request in replier.requests}
        assert len(ids) == 21
        assert answer.properties["CORRELATION_ID"] in ids
        assert {"PUSH_REPLY_TIME", "ARRIVE_TIME", "UNIQ_KEY"} <= answer.properties.keys()
        assert (answer.topic, answer.queue_id) == ("DefaultCluster_REPLY_TOPIC", 0)
        assert answer.born_host.startswith("127.0.0.1:")


async def test_a_large_reply_is_compressed(cluster, topic, group):
    large = b"reply " * 20_000
    answering = Replier(cluster.namesrv, topic, group, lambda _: large)
    async with answering, aio.Producer("asker", cluster.namesrv) as producer:
        assert (await producer.request(Message(topic, "x"), PATIENCE)).body == large


async def test_a_first_request_creates_its_topic(cluster, group):
    topic = f"new-{group}"
    async with aio.Producer("asker", cluster.namesrv) as producer:
        answer = asyncio.ensure_future(producer.request(Message(topic, "x"), PATIENCE))
        await eventually(lambda: cluster.brokers[0].services.topics.get(topic))
        async with Replier(cluster.namesrv, topic, group):
            assert (await answer).body == b"re: x"


async def test_a_late_reply_is_logged_and_stored(cluster, topic, group, caplog):
    async with Replier(cluster.namesrv, topic, group) as replier, aio.Producer("asker", cluster.namesrv) as producer:
        replier.may.clear()
        with pytest.raises(RequestTimeout) as caught:
            await producer.request(Message(topic, "x"), SENT_BY_THEN)
        await eventually(lambda: replier.requests)
        correlation_id = replier.requests[0].properties["CORRELATION_ID"]
        assert f"no reply to request {correlation_id} to topic {topic!r} within {SENT_BY_THEN:g} s" in str(caught.value)
        assert "Does a consumer of the topic run" in str(caught.value)
        with caplog.at_level(logging.WARNING):
            replier.may.set()
            await eventually(lambda: "after the request had timed out" in caplog.text)
        assert correlation_id in caplog.text
        assert (await producer.request(Message(topic, "in time"), PATIENCE)).body == b"re: in time"
        assert replier.failures == []


async def test_a_request_without_a_reply_times_out(cluster, topic):
    async with aio.Producer("asker", cluster.namesrv) as producer:
        with pytest.raises(RequestTimeout, match=r"it is stored as \w+ in "):
            await producer.request(Message(topic, "x"), SENT_BY_THEN)


@pytest.mark.parametrize("face", ["asyncio", "blocking"])
async def test_close_ends_waiting_requests(cluster, topic, group, face):
    async with Replier(cluster.namesrv, topic, group) as replier:
        replier.may.clear()
        if face == "asyncio":
            producer = aio.Producer("asker", cluster.namesrv)
            await producer.start()
            waiting = asyncio.ensure_future(producer.request(Message(topic, "x"), PATIENCE))
            await eventually(lambda: replier.requests)
            await producer.close()
        else:
            blocking = Producer("asker", cluster.namesrv)
            await asyncio.to_thread(blocking.start)
            waiting = asyncio.ensure_future(asyncio.to_thread(blocking.request, Message(topic, "x"), PATIENCE))
            await eventually(lambda: replier.requests)
            await asyncio.to_thread(blocking.close)
        with pytest.raises(ClosedError, match="producer asker is closed: it can receive no reply"):
            await waiting
        replier.may.set()
        await eventually(lambda: replier.failures)
        assert "channel of <" in str(replier.failures[0])


async def test_a_message_that_is_no_request_cannot_be_replied_to(cluster, topic, group):
    async with Replier(cluster.namesrv, topic, group) as replier, aio.Producer("asker", cluster.namesrv) as producer:
        replier.may.clear()
        await producer.send(Message(topic, "just so"))
        await eventually(lambda: replier.requests)
        with pytest.raises(MessageIllegal, match="no property REPLY_TO_CLIENT, CORRELATION_ID"):
            reply(replier.requests[0], "x")


async def test_a_forged_reply_is_ignored(cluster, topic, caplog):
    """A correlation id nobody knows is a line in the log; the requests that wait go on waiting."""
    async with aio.Producer("asker", cluster.namesrv) as producer, aio.Producer("forger", cluster.namesrv) as forger:
        with pytest.raises(RequestTimeout):
            await producer.request(Message(topic, "x"), 0.5)
        waiting = asyncio.ensure_future(producer.request(Message(topic, "y"), PATIENCE))
        async with Replier(cluster.namesrv, topic, "g-forged", lambda message: message.body) as replier:
            assert (await waiting).body == b"y"
        forged = reply(replier.requests[-1], "z")
        forged.properties["CORRELATION_ID"] = "never asked"
        with caplog.at_level(logging.WARNING):
            await forger.send(forged)
            told = "that no request of this client waits for: correlation id never asked, 1 bytes"
            await eventually(lambda: told in caplog.text)


def test_a_reply_can_be_sent_through_any_broker(group):
    """The request's topic is on one broker only; replies go to all brokers of the cluster in turn."""
    topic = f"one-{group}"

    async def ask(namesrv):
        async with Replier(namesrv, topic, group) as replier, aio.Producer("asker", namesrv) as producer:
            bodies = [(await producer.request(Message(topic, f"{i}"), PATIENCE)).body for i in range(8)]
            assert replier.failures == []
            return bodies

    with Cluster(brokers=2) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.create_topic(topic, 1, brokers=["broker-a"])
        assert asyncio.run(ask(cluster.namesrv)) == [f"re: {i}".encode() for i in range(8)]
        stores = [broker.services.store for broker in cluster.brokers]
        assert [store.queue_range("DefaultCluster_REPLY_TOPIC", 0)[1] for store in stores] == [4, 4]
