"""The asyncio producer over a scripted network."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

import pytest

from rocketmq_py.aio import Producer
from rocketmq_py.errors import (
    BadHeader,
    BrokerError,
    ClosedError,
    ConfigError,
    ConnectError,
    MessageIllegal,
    NoRouteError,
    RequestTimeout,
    SystemBusy,
)
from rocketmq_py.model import Message, MessageQueue, SendStatus
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.names import TRACE_TOPIC
from rocketmq_py.wire.command import Command, encode_command
from tests.unit.client.producing import message, run_producer, with_producer
from tests.unit.client.scripted import Answerer, ScriptedNetwork, cluster, queue_of, route_answer, stored


@with_producer(cluster(t={"a": 2, "b": 2}))
async def test_messages_go_to_the_queues_of_all_brokers_in_turn(producer: Producer, network: ScriptedNetwork) -> None:
    results = await asyncio.gather(*(producer.send(message()) for _ in range(12)))
    assert Counter(result.queue for result in results) == dict.fromkeys(
        [MessageQueue("t", name, i) for name in "ab" for i in range(2)], 3
    )
    assert network.codes("ns:1") == [RequestCode.GET_ROUTEINFO_BY_TOPIC]


def test_a_missing_topic_is_sent_to_the_brokers_of_the_default_topic() -> None:
    topics = {"TBW102": {"a": 8, "b": 2}}

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        for _ in range(12):
            await producer.send(message())
        assert Counter(queue_of(request) for _, request in network.sent()) == dict.fromkeys(
            [MessageQueue("t", "a", i) for i in range(4)] + [MessageQueue("t", "b", i) for i in range(2)], 2
        )
        assert {request.ext["c"] + request.ext["d"] for _, request in network.sent()} == {"TBW1024"}
        assert await producer.queues("t") == [MessageQueue("t", "a", i) for i in range(4)] + [
            MessageQueue("t", "b", i) for i in range(2)
        ]
        topics["t"] = {"a": 1}
        await producer.sender._routes.refresh("t")
        assert await producer.queues("t") == [MessageQueue("t", "a", 0)]

    run_producer(body, cluster(topics))


@with_producer(cluster())
async def test_a_missing_route_names_topic_and_name_server(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(NoRouteError, match="'t': name server ns:1 does not know it"):
        await producer.send(message())


def test_a_read_only_topic_is_refused() -> None:
    def answer(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            found = route_answer({"a": 2})
            found.body = found.body.replace(b'"perm":6', b'"perm":4')
            return found
        return cluster()(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        with pytest.raises(NoRouteError, match="no queue that can be written"):
            await producer.send(message())

    run_producer(body, answer)


# -- attempts


def refusing(code: int, *brokers: str) -> Answerer:
    def answer(where: str, request: Command) -> Command | None:
        if where in brokers and request.code == RequestCode.SEND_MESSAGE_V2:
            return Command(code, remark="refused")
        return cluster(t={"a": 4, "b": 4})(where, request)

    return answer


def keys(network: ScriptedNetwork) -> set[str]:
    return {decode_properties(request.ext["i"].encode())["UNIQ_KEY"] for _, request in network.sent()}


@with_producer(refusing(2, "a:1"))
async def test_a_send_to_a_busy_broker_is_retried_elsewhere_with_the_same_key(
    producer: Producer, network: ScriptedNetwork
) -> None:
    await producer.send(message())  # now both ways are tried: route known, connected or not
    network.requests.clear()
    for _ in range(4):
        sent = await producer.send(message())
        assert sent.queue.broker_name == "b"
    assert Counter(where for where, _ in network.sent())["b:1"] == 4
    assert len(keys(network)) == 4


@with_producer(refusing(2, "a:1", "b:1"))
async def test_three_attempts_then_the_last_error_is_raised(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(SystemBusy) as caught:
        await producer.send(message())
    brokers = [where for where, _ in network.sent()]
    assert len(brokers) == 3
    assert brokers[0] != brokers[1] != brokers[2]
    assert caught.value.__notes__[0].startswith("tried 3 times")
    assert len(keys(network)) == 1


@with_producer(refusing(13, "a:1", "b:1"))
async def test_an_illegal_message_is_not_retried(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(BrokerError, match="13"):
        await producer.send(message())
    assert len(network.sent()) == 1


@with_producer(refusing(2, "a:1"))
async def test_a_given_queue_is_tried_once(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(SystemBusy):
        await producer.send(message(), MessageQueue("t", "a", 1))
    assert [queue_of(request) for _, request in network.sent()] == [MessageQueue("t", "a", 1)]
    with pytest.raises(ConfigError, match="topic 't' cannot be sent to queue u@a:1"):
        await producer.send(message(), MessageQueue("u", "a", 1))
    with pytest.raises(NoRouteError, match="broker gone"):
        await producer.send(message(), MessageQueue("t", "gone", 1))


def test_another_broker_is_tried_while_no_name_server_answers() -> None:
    routes = itertools.count()

    def answer(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC and next(routes):
            return None
        return cluster(t={"a": 4, "b": 4})(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        network.unreachable = {"a:1"}
        for _ in range(5):  # the first queue is anyone's guess; of five in a row one is of broker a
            assert (await producer.send(message())).queue.broker_name == "b"
        assert network.codes("ns:1").count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 2

    run_producer(body, answer)


@with_producer(cluster(t={"a": 4, "b": 4}))
async def test_a_send_to_an_unreachable_broker_is_retried_elsewhere(
    producer: Producer, network: ScriptedNetwork
) -> None:
    network.unreachable = {"a:1"}
    results = [await producer.send(message()) for _ in range(4)]
    assert {result.queue.broker_name for result in results} == {"b"}
    network.unreachable = {"a:1", "b:1"}
    producer.sender.connections.drop("b:1")
    with pytest.raises(ConnectError, match=r"brokerIP1.*address_map=\{'[ab]:1'"):
        await producer.send(message())


def test_a_timeout_error_says_that_the_message_may_be_stored() -> None:
    def silent(where: str, request: Command) -> Command | None:
        return None if request.code == RequestCode.SEND_MESSAGE_V2 else cluster(t={"a": 1})(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        for _ in range(2):  # first the long way, then the short one
            with pytest.raises(RequestTimeout, match=r"broker a at a:1 did not answer the send to t@a:0.*may have"):
                await producer.send(message(), timeout=0.2)
        assert len(network.sent()) == 2

    run_producer(body, silent)


def test_a_send_is_repeated_over_a_new_connection_after_go_away() -> None:
    left = [1500, 1500]

    def leaving(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.SEND_MESSAGE_V2 and left:
            return Command(left.pop())
        return cluster(t={"a": 1})(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())
        assert len(network.sent()) == 3

    run_producer(body, leaving)


def test_a_broker_that_moved_is_found_at_its_new_address() -> None:
    where_a = ["old:1"]

    def moving(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            found = route_answer({"a": 1})
            found.body = found.body.replace(b"a:1", where_a[0].encode())
            return found
        return cluster()(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())
        where_a[0] = "new:1"
        network.unreachable = {"old:1"}
        producer.sender.connections.drop("old:1")
        await producer.send(message())
        assert [where for where, _ in network.sent()] == ["old:1", "new:1"]

    run_producer(body, moving)


# -- kinds of sends


@with_producer(cluster(t={"a": 1}))
async def test_invalid_arguments_raise_at_once_and_nothing_is_sent(
    producer: Producer, network: ScriptedNetwork
) -> None:
    with pytest.raises(MessageIllegal):
        producer.send_async(Message("t", b""))
    with pytest.raises(MessageIllegal):
        await producer.send_batch([message(), Message("u", b"x")])
    with pytest.raises(ConfigError, match="sharding key"):
        await producer.send_ordered(message())
    assert network.sent() == []


@with_producer(cluster(t={"a": 8}))
async def test_one_key_goes_to_one_queue_unless_a_selector_decides(
    producer: Producer, network: ScriptedNetwork
) -> None:
    for key in ("N1", "N2", "N1"):
        await producer.send_ordered(message(), key)
    await producer.send_ordered(Message("t", b"x", sharding_key="N1"))
    first, second, third, fourth = (queue_of(request) for _, request in network.sent())
    assert first == third == fourth != second
    picked = await producer.send_ordered(message(), 3, lambda queues, _, index: queues[index])
    assert picked.queue == MessageQueue("t", "a", 3)


@with_producer(cluster(t={"a": 8}))
async def test_a_selector_that_fails_fails_the_send(producer: Producer, network: ScriptedNetwork) -> None:
    for _ in range(2):  # the long way, then the short one
        with pytest.raises(ZeroDivisionError):
            await producer.send_ordered(message(), 0, lambda queues, _, key: queues[1 // key])
        assert network.sent() == []
        await producer.queues("t")


@with_producer(refusing(2, "a:1", "b:1"))
async def test_an_ordered_message_has_one_attempt(producer: Producer, network: ScriptedNetwork) -> None:
    with pytest.raises(SystemBusy):
        await producer.send_ordered(message(), "key")
    assert len(network.sent()) == 1


@with_producer(cluster(t={"a": 1}))
async def test_batches_and_oneway_messages_are_sent(producer: Producer, network: ScriptedNetwork) -> None:
    result = await producer.send_batch([message(), message()])
    assert result.msg_id.count(",") == 1
    for _ in range(2):  # the long way, then the short one
        await producer.send_oneway(message())
        await asyncio.sleep(0)
    batch, *oneways = [request for _, request in network.sent()]
    assert (batch.code, batch.is_oneway) == (320, False)
    assert [(request.code, request.is_oneway) for request in oneways] == [(310, True)] * 2


# -- life


def test_close_waits_for_pending_sends_and_unregisters() -> None:
    held: list[tuple[str, Command]] = []

    def holding(where: str, request: Command) -> Command | None:
        if request.code == RequestCode.SEND_MESSAGE_V2:
            held.append((where, request))
            return None if len(held) > 1 else stored(request)
        return cluster(t={"a": 1})(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())
        pending = producer.send_async(message())
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        assert not closing.done()
        with pytest.raises(ClosedError):
            await producer.send(message())
        answer = stored(held[1][1])
        answer.opaque, answer.flag = held[1][1].opaque, 1
        network.transports["a:1"].deliver(encode_command(answer))
        await closing
        assert (await pending).queue_offset == 5
        await producer.close()

    network = run_producer(body, holding)
    sign_offs = [request for _, request in network.requests if request.code == RequestCode.UNREGISTER_CLIENT]
    assert [request.ext["producerGroup"] for request in sign_offs] == ["g"]


def test_a_cancelled_send_does_not_keep_the_producer_from_closing() -> None:
    def silent(where: str, request: Command) -> Command | None:
        return None if request.code == RequestCode.SEND_MESSAGE_V2 else cluster(t={"a": 1})(where, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        task = asyncio.ensure_future(producer.send(message(), timeout=0.4))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_producer(body, silent)


async def test_a_producer_that_is_not_started_raises() -> None:
    with pytest.raises(ClosedError, match="not started"):
        await Producer("g", "ns:1").send(message())


@with_producer(cluster(t={"a": 1}))
async def test_heartbeats_register_the_producer_group(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(message())
    assert producer._instance is not None
    await producer._instance.heartbeat_all()
    (beat,) = [request for _, request in network.requests if request.code == RequestCode.HEART_BEAT]
    assert b'"producerDataSet":[{"groupName":"g"}]' in beat.body


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({"group": ""}, "group name is empty"),
        ({"group": "a b"}, "illegal characters"),
        ({"group": "g", "namesrv": "localhost"}, "host:port is expected"),
        ({"group": "g", "namesrv": ""}, "no name server is given"),
        ({"group": "g", "namesrv": "h:1", "max_message_size": 0}, "max_message_size"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        Producer(**options)  # type: ignore[arg-type]


def test_the_environment_names_the_name_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="NAMESRV_ADDR"):
        Producer("g")
    monkeypatch.setenv("NAMESRV_ADDR", "a:1;b:2")
    assert repr(Producer("g")) == "Producer(group='g', namesrv='a:1;b:2')"


def without_slaves(*brokers: str) -> Answerer:
    """These brokers store messages, and no slave has them in time."""
    healthy = cluster(t={"a": 1, "b": 1})

    def answer(where: str, request: Command) -> Command | None:
        reply = healthy(where, request)
        if request.code == RequestCode.SEND_MESSAGE_V2 and where in brokers:
            assert reply is not None
            reply.code = ResponseCode.FLUSH_SLAVE_TIMEOUT
        return reply

    return answer


@pytest.mark.parametrize(
    ("brokers", "status", "attempts"),
    [
        (["a:1"], SendStatus.SEND_OK, {1, 2}),
        (["a:1", "b:1"], SendStatus.FLUSH_SLAVE_TIMEOUT, {3}),
    ],
)
def test_a_send_without_replication_is_retried_elsewhere_if_configured(
    brokers: list[str], status: SendStatus, attempts: set[int]
) -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        for _ in range(4):
            before = len(network.sent())
            assert (await producer.send(message())).status is status
            assert len(network.sent()) - before in attempts

    run_producer(body, without_slaves(*brokers), retry_another_broker_when_not_store_ok=True)


def test_a_send_without_replication_is_not_retried_by_default() -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        assert (await producer.send(message(), MessageQueue("t", "a", 0))).status is SendStatus.FLUSH_SLAVE_TIMEOUT
        assert len(network.sent()) == 1

    for options in ({}, {"retry_another_broker_when_not_store_ok": True}):
        run_producer(body, without_slaves("a:1"), **options)


def test_a_route_with_billions_of_queues_is_refused() -> None:
    topics = {"t": {"a": 2**31 - 1}}

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        with pytest.raises(BadHeader, match="topic 't' has 2147483647 queues on broker 'a': at most 8192 are possible"):
            await producer.send(message())
        with pytest.raises(BadHeader, match="2147483647 queues on broker 'a'"):
            await producer.queues("t")
        topics["t"] = {"a": 2}
        await producer.send(message())
        topics["t"] = {"a": 2**31 - 1}
        with pytest.raises(BadHeader):
            await producer.sender._routes.refresh("t")
        await producer.send(message())  # what is known stays in use
        assert len(network.sent()) == 2

    run_producer(body, cluster(topics))


@with_producer(cluster({"shop%t": {"b": 1}}), namespace="shop")
async def test_a_namespace_is_on_the_wire_only(producer: Producer, network: ScriptedNetwork) -> None:
    sent = message()
    result = await producer.send(sent)
    assert (sent.topic, result.queue.topic) == ("t", "t")
    assert sent.msg_id == result.msg_id
    (queue,) = await producer.queues("t")
    assert queue == MessageQueue("t", "b", 0)
    await producer.send(message(), queue)
    await producer.send_ordered(message(), selector=lambda queues, *_: queues[0])
    await producer.send_batch([message(), message()])
    requests = [request for _, request in network.sent()]
    assert {request.ext["b"] for request in requests} == {"shop%t"}
    assert {request.ext["a"] for request in requests} == {"shop%g"}
    assert producer.group == "shop%g"


def test_a_selector_in_a_namespace_sees_queues_without_it() -> None:
    seen: list[MessageQueue] = []

    def select(queues: Sequence[MessageQueue], *_: object) -> MessageQueue:
        seen.extend(queues)
        return queues[1]

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        result = await producer.send_ordered(message(), selector=select)
        assert seen == [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]
        assert result.queue == seen[1]

    run_producer(body, cluster({"shop%t": {"b": 2}}), namespace="shop")


async def test_the_client_id_has_the_address_and_unit_that_are_given() -> None:
    producer = Producer("g", "ns:1", client_ip="10.1.2.3", instance_name="i", unit_name="u")
    await producer.start()
    assert producer._instance is not None
    assert producer._instance.client_id == "10.1.2.3@i@u"
    await producer.close()


@with_producer(refusing(13, "a:1"), retry_response_codes=[13])
async def test_other_response_codes_can_be_retried(producer: Producer, network: ScriptedNetwork) -> None:
    assert (await producer.send(message())).queue.broker_name == "b"


@with_producer(cluster(t={"b": 1}), topics=["t"])
async def test_routes_of_given_topics_are_loaded_at_the_start(producer: Producer, network: ScriptedNetwork) -> None:
    assert network.codes("ns:1") == [RequestCode.GET_ROUTEINFO_BY_TOPIC]
    assert network.codes("b:1") == [RequestCode.HEART_BEAT]
    await producer.send(message())
    assert network.codes("ns:1") == [RequestCode.GET_ROUTEINFO_BY_TOPIC]


@pytest.mark.parametrize("unit_mode", [True, False])
def test_unit_mode_is_a_field_of_every_send(unit_mode: bool) -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())
        await producer.send_batch([message(), message()])
        fields = [request.ext for _, request in network.sent()]
        assert [field["k"] for field in fields] == [str(unit_mode).lower()] * 2
        assert [field["m"] for field in fields] == ["false", "true"]

    run_producer(body, cluster(t={"b": 1}), unit_mode=unit_mode)


def test_sends_are_traced_if_that_is_asked_for() -> None:
    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())

    healthy = cluster({"t": {"b": 1}, TRACE_TOPIC: {"b": 1}})

    def in_a_region(address: str, request: Command) -> Command | None:
        answer = healthy(address, request)
        if answer is not None:
            answer.ext["MSG_REGION"] = "R"
        return answer

    network = run_producer(body, in_a_region, trace=True)
    assert [request.ext["b"] for _, request in network.sent()] == ["t", TRACE_TOPIC]
