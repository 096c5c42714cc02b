"""Bursts and outages: cold producers, back pressure, retries that back off."""

from __future__ import annotations

import asyncio
import itertools
import time
import zlib
from concurrent.futures import Future
from typing import Any, cast

import pytest

from rocketmq_py.aio import ClientInstance, Producer
from rocketmq_py.client.send.futures import SendFuture
from rocketmq_py.client.send.gates import Gates
from rocketmq_py.client.send.options import Options
from rocketmq_py.core.producer.accumulator import BatchLimits
from rocketmq_py.core.producer.outgoing_message import OutgoingMessage
from rocketmq_py.core.producer.send_attempts import SendAttempts
from rocketmq_py.errors import (
    ClosedError,
    ConfigError,
    ConnectError,
    NoRouteError,
    RequestTimeout,
    RocketMQError,
    TooManySends,
)
from rocketmq_py.model import Message, MessageQueue, SendResult, SendStatus
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.remoting.connection import Connection
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.signing import Credentials, sign
from tests.unit.client.producing import message, run_producer, with_producer
from tests.unit.client.scripted import ScriptedNetwork, cluster, route_answer, stored
from tests.virtual_time import Clock


def delay_connects(network: ScriptedNetwork, producer: Producer, seconds: float) -> list[str]:
    """Connections to brokers take a while; returns the addresses connected to."""
    pool = producer.sender.connections
    connect, connected = pool._opening._work, list[str]()

    async def slow(address: str) -> Connection:
        connected.append(address)
        await asyncio.sleep(seconds)
        return await connect(address)

    pool._opening._work = slow
    return connected


def test_sends_of_a_cold_producer_share_one_lookup_and_one_connection() -> None:
    tasks_at_most = 0

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        nonlocal tasks_at_most
        connected = delay_connects(network, producer, 0.05)
        futures = [producer.send_async(message()) for _ in range(3000)]
        await asyncio.sleep(0.02)
        tasks_at_most = len(asyncio.all_tasks())
        await asyncio.gather(*futures)
        assert network.codes("ns:1") == [RequestCode.GET_ROUTEINFO_BY_TOPIC]
        assert sorted(connected) == ["b:1", "ns:1"]

    run_producer(body, cluster(t={"b": 4}))
    assert tasks_at_most < 20  # a send that waits has none of its own


@with_producer(cluster(t={"b": 1}))
async def test_sends_keep_their_order_through_the_first_connect(producer: Producer, network: ScriptedNetwork) -> None:
    delay_connects(network, producer, 0.01)
    queue = None
    bodies = [b"%d" % n for n in range(2500)]
    futures = [producer.send_async(message(each), queue) for each in bodies[:2000]]
    await asyncio.sleep(0.015)
    futures += [producer.send_async(message(each), queue) for each in bodies[2000:]]
    await asyncio.gather(*futures)
    assert [request.body for _, request in network.sent()] == bodies


@with_producer(cluster(t={"b": 1}))
async def test_the_loop_turn_of_a_send_does_not_count_towards_its_timeout(
    producer: Producer, network: ScriptedNetwork, virtual_clock: Clock
) -> None:
    delay_connects(network, producer, 0.05)
    futures = [producer.send_async(message(), timeout=0.2) for _ in range(10)]
    virtual_clock.skip(0.3)  # the program keeps the loop busy for longer than the timeout
    await asyncio.gather(*futures)


@with_producer(cluster(t={"b": 1}))
async def test_answers_received_while_the_loop_was_busy_count_as_in_time(
    producer: Producer, network: ScriptedNetwork, virtual_clock: Clock
) -> None:
    await producer.send(message())
    network.answer = lambda *_: None
    future = producer.send_async(message(), timeout=0.2)
    await asyncio.sleep(0)
    (_, request) = network.sent()[-1]
    virtual_clock.skip(0.4)  # as above
    answer = stored(request)
    answer.opaque, answer.flag = request.opaque, 1
    asyncio.get_running_loop().call_later(0.1, network.transports["b:1"].deliver, encode_command(answer))
    assert await future


@with_producer(cluster(t={"b": 1}), retries=0)
async def test_a_short_timeout_ends_while_others_still_wait_for_the_connection(
    producer: Producer, network: ScriptedNetwork
) -> None:
    delay_connects(network, producer, 0.3)
    patient = producer.send_async(message(), timeout=5)
    began = time.monotonic()
    with pytest.raises((ConnectError, RequestTimeout)):
        await producer.send(message(), timeout=0.1)
    assert time.monotonic() - began < 0.6
    await patient


@with_producer(cluster(t={"b": 1}), max_pending_sends=8, retries=0)
async def test_sends_in_progress_are_bounded_by_number(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(message())
    held: list[Command] = []
    network.answer = lambda _, request: held.append(request)  # type: ignore[func-returns-value]
    futures = [producer.send_async(message(b"%d" % n), timeout=0.3) for n in range(50)]
    await asyncio.sleep(0.05)
    assert len(held) == 8
    network.answer = cluster(t={"b": 1})
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert sum(isinstance(result, RequestTimeout) for result in results) == 8
    assert [request.body for _, request in network.sent()][9:] == [b"%d" % n for n in range(8, 50)]


@with_producer(cluster(t={"b": 1}), max_pending_bytes=2500, retries=0)
async def test_sends_in_progress_are_bounded_by_bytes(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(message())
    network.answer = lambda *_: None
    futures = [producer.send_async(message(bytes(1000)), timeout=0.1) for _ in range(10)]
    await asyncio.sleep(0.02)
    assert len(network.sent()) == 1 + 3
    network.answer = cluster(t={"b": 1})
    await asyncio.gather(*futures, return_exceptions=True)
    assert len(network.sent()) == 1 + 10


@with_producer(cluster(t={"b": 1}), max_pending_sends=2, when_full="raise")
async def test_a_full_window_raises_if_configured(producer: Producer, network: ScriptedNetwork) -> None:
    futures = [producer.send_async(message()) for _ in range(2)]
    with pytest.raises(TooManySends, match=r"2 sends with 2 bytes are in progress.*max_pending_sends"):
        producer.send_async(message())
    await asyncio.gather(*futures)
    await producer.send(message())


@with_producer(cluster(t={"b": 1}), max_pending_sends=3)
async def test_closing_waits_for_sends_that_wait_for_room(producer: Producer, network: ScriptedNetwork) -> None:
    futures = [producer.send_async(message()) for _ in range(20)]
    await producer.close()
    assert all(future.done() for future in futures)
    assert len(network.sent()) == 20


@pytest.mark.parametrize("options", [{"max_pending_sends": 0}, {"max_pending_bytes": 0}, {"when_full": "drop"}])
def test_invalid_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        Producer("g", "ns:1", **options)  # type: ignore[arg-type]


@with_producer(cluster(t={"b": 1}))
async def test_a_broker_restart_within_the_timeout_fails_no_send(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(message())
    network.unreachable.add("b:1")
    network.transports["b:1"].close()
    await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    loop.call_later(0.7, network.unreachable.discard, "b:1")
    began = time.monotonic()
    await asyncio.gather(*(producer.send(message()) for _ in range(50)))
    assert 0.65 < time.monotonic() - began < 2.5


def test_a_retry_that_reaches_no_broker_goes_back_to_the_other() -> None:
    networks: list[ScriptedNetwork] = []
    asked: list[str] = []

    def busy(address: str, request: Command) -> Command | None:
        if request.code == RequestCode.SEND_MESSAGE_V2:
            asked.append(address)
            if len(asked) == 1:
                networks[0].unreachable.update({"a:1", "b:1"} - {address})
                return Command(ResponseCode.SYSTEM_BUSY)
        return cluster(t={"a": 1, "b": 1})(address, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        networks.append(network)
        await producer.queues("t")
        connected = delay_connects(network, producer, 0.0)
        await producer.send(message())
        assert len(asked) == 2
        assert asked[0] == asked[1]
        assert set(connected) == {"a:1", "b:1"}

    run_producer(body, busy)


@with_producer(cluster(t={"b": 1}))
async def test_large_bodies_are_compressed_as_java_does(producer: Producer, network: ScriptedNetwork) -> None:
    text = b"".join(b"%d " % (i * i) for i in range(2000))
    for body in (text[:4095], text):
        await producer.send(message(body))
    assert zlib.compress(text, 5) not in (zlib.compress(text, 4), zlib.compress(text, 6))
    assert [request.body for _, request in network.sent()] == [text[:4095], zlib.compress(text, 5)]


async def test_sends_are_signed_with_all_their_fields() -> None:
    network = ScriptedNetwork(cluster(t={"b": 1}))
    instance = ClientInstance("ns:1", timeout=1.0, credentials=Credentials("ak", "secret"))
    network.carry(instance.connections)
    async with Producer("g", instance=instance, compress_over=None) as producer:
        await producer.send(message())
        await producer.send_batch([message(b"a"), message(b"b")])
    await instance.stop()
    sends = [request for _, request in network.sent()]
    assert [request.ext["AccessKey"] for request in sends] == ["ak", "ak"]
    assert [request.ext["Signature"] for request in sends] == [sign(r.ext, r.body, "secret") for r in sends]


def test_retries_of_refusals_back_off() -> None:
    times: list[float] = []

    def busy(address: str, request: Command) -> Command | None:
        if request.code == RequestCode.SEND_MESSAGE_V2:
            times.append(time.monotonic())
            return Command(2, remark="busy")
        return cluster(t={"b": 1})(address, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        with pytest.raises(Exception, match="busy"):
            await producer.send(message(), timeout=1.0)

    run_producer(body, busy, retries=1000)
    assert 5 <= len(times) <= 14
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps[0] < 0.15 < max(gaps)


@pytest.mark.parametrize(
    ("options", "limit"),
    [({"batch_buffer_bytes": 10}, 30), ({"batch_buffer_bytes": 10, "batch_linger": 1.0}, 10),
     ({"batch_buffer_bytes": 90, "batch_linger": 1.0}, 30)],
)  # fmt: skip
def test_the_buffer_of_batches_limits_only_producers_that_make_them(options: dict[str, Any], limit: int) -> None:
    window = Options(max_pending_bytes=30, batch=BatchLimits(options.get("batch_linger", 0.0)),
                     batch_buffer_bytes=options["batch_buffer_bytes"]).window  # fmt: skip
    window.enter(limit - 1)
    assert not window.is_full
    window.enter(1)
    assert window.is_full


def test_a_route_without_a_master_is_looked_up_until_it_has_one() -> None:
    masterless = True

    def failover(address: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return route_answer({"b": 1}, broker_id=1 if masterless else 0)
        return cluster(t={"b": 1})(address, request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        nonlocal masterless
        with pytest.raises(NoRouteError, match="none of its brokers has a master"):
            await producer.send(message(), timeout=0.2)
        asyncio.get_running_loop().call_later(0.5, end)
        began = time.monotonic()
        await producer.send(message())
        assert time.monotonic() - began > 0.4

    def end() -> None:
        nonlocal masterless
        masterless = False

    run_producer(body, failover)


@with_producer(cluster(t={"b": 1}))
async def test_a_thread_that_sees_a_route_before_its_addresses_spoils_no_later_send(
    producer: Producer, network: ScriptedNetwork
) -> None:
    """Threads choose the queues of their sends themselves, at any moment of a look-up."""
    routes, sender, early = producer.sender._routes, producer.sender, []
    changed = routes._changed

    def seen_by_a_thread() -> None:
        early.append(sender.target(sender.delivery(message())))
        changed()

    routes._changed = seen_by_a_thread  # type: ignore[method-assign]
    await producer.send(message())
    assert early == [None]
    assert network.codes("b:1") == [RequestCode.SEND_MESSAGE_V2]


def test_a_new_master_in_the_route_of_one_topic_is_used_for_all() -> None:
    masters = {"t": "b:1", "u": "b:2"}

    def moved(address: str, request: Command) -> Command | None:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = request.ext["topic"]
            data = TopicRouteData(
                queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
                broker_datas=[BrokerData(broker_name="b", broker_addrs={0: masters[topic]})],
            )
            return Command(0, body=data.encode())
        return stored(request)

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        await producer.send(message())
        await producer.send(Message("u", b"1"))
        await producer.send(message())
        assert len(network.codes("b:1")) == 1
        assert len(network.codes("b:2")) == 2

    run_producer(body, moved)


async def test_a_send_that_waits_again_waits_for_the_next_operation() -> None:
    operations: list[str] = []

    async def work(key: str, _: float) -> None:
        operations.append(key)
        await asyncio.sleep(0)

    went_on: list[int] = []

    def go_on(delivery: SendAttempts, future: SendFuture) -> None:
        went_on.append(len(operations))
        if len(operations) < 4:
            gates.wait("t", delivery, future)
        else:
            future.set_result(SendResult(SendStatus.SEND_OK, "", MessageQueue("t", "b", 0), 0, ""))

    gates = Gates(work, go_on, lambda *_: None, lambda _: RequestTimeout("late"))
    future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    delivery = SendAttempts(cast(OutgoingMessage, None), time.monotonic() + 60)
    gates.wait("t", delivery, future)
    await asyncio.wait_for(future, 30)
    await asyncio.sleep(0)
    assert went_on == [1, 2, 3, 4]
    assert not gates.closed


@with_producer(cluster())
async def test_a_topic_that_does_not_exist_fails_without_retries(producer: Producer, network: ScriptedNetwork) -> None:
    began = time.monotonic()
    with pytest.raises(NoRouteError):
        await producer.send(message())
    assert time.monotonic() - began < 0.5


def test_another_event_loop_is_named_in_the_error() -> None:
    network = ScriptedNetwork(cluster(t={"b": 1}))
    made: list[Producer] = []

    async def first() -> None:
        instance = ClientInstance("ns:1", timeout=1.0)
        network.carry(instance.connections)
        producer = Producer("g", instance=instance)
        await producer.start()
        made.append(producer)

    async def second() -> None:
        with pytest.raises(ClosedError, match="started in an event loop that is closed"):
            await made[0].send(message())

    asyncio.run(first())
    asyncio.run(second())


@with_producer(cluster(t={"b": 1}), max_pending_sends=2, retries=0)
async def test_a_thread_waits_for_room(producer: Producer, network: ScriptedNetwork) -> None:
    """The blocking producer's ``send_async``."""
    await producer.send(message())
    held: list[Command] = []
    answers, network.answer = network.answer, lambda _, request: held.append(request)  # type: ignore[func-returns-value]
    sender, loop = producer.sender, asyncio.get_running_loop()
    admitted: list[int] = []

    def send_from_a_thread() -> None:
        for number in range(3):
            delivery = sender.delivery(message(), None, 60)
            sender.admit_when_possible(delivery, lambda: None)
            admitted.append(number)
            loop.call_soon_threadsafe(sender.start, delivery, Future[SendResult]())

    async def answer(count: int) -> None:
        """Answer what is held, once so many requests are."""
        while len(held) < count:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.001)
        while held:
            answer = stored(held[0])
            answer.opaque, answer.flag = held.pop(0).opaque, 1
            network.transports["b:1"].deliver(encode_command(answer))

    sending = asyncio.ensure_future(asyncio.to_thread(send_from_a_thread))
    while not sender._blocked:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.001)
    assert admitted == [0, 1], "two fit, the third waits"
    await answer(2)
    await sending
    assert admitted == [0, 1, 2]
    await answer(1)
    network.answer = answers  # the close unregisters


@with_producer(cluster(t={"b": 1}), max_pending_sends=1, retries=0)
async def test_a_thread_that_must_not_block_is_refused_when_full(producer: Producer, network: ScriptedNetwork) -> None:
    await producer.send(message())
    network.answer = lambda *_: None
    future = producer.send_async(message(), timeout=0.1)

    def refuse() -> None:
        raise ConfigError("the loop's own thread")

    sender = producer.sender
    with pytest.raises(ConfigError, match="own thread"):
        sender.admit_when_possible(sender.delivery(message()), refuse)
    with pytest.raises(RequestTimeout):
        await future


@with_producer(cluster(t={"b": 1}), max_pending_sends=1)
async def test_a_send_of_a_thread_that_ends_lets_a_waiting_one_start(
    producer: Producer, network: ScriptedNetwork
) -> None:
    sender = producer.sender
    delivery = sender.delivery(message())
    await asyncio.to_thread(sender.admit_when_possible, delivery, lambda: None)
    waiting = producer.send_async(message())
    await asyncio.sleep(0.01)
    assert not network.sent()
    sender.leave(delivery)
    await waiting
    sender.leave(delivery)
    assert sender._window.is_full is False


@with_producer(cluster(t={"b": 1}), max_pending_sends=1)
async def test_a_close_waits_for_sends_of_threads_and_ends_the_waits_of_others(
    producer: Producer, network: ScriptedNetwork
) -> None:
    sender = producer.sender
    direct, admitted = sender.delivery(message()), sender.delivery(message())
    sender.occupy_thread(direct)
    sender.admit_when_possible(admitted, lambda: None)
    blocked = [
        asyncio.ensure_future(asyncio.to_thread(sender.admit_when_possible, sender.delivery(message()), lambda: None))
        for _ in range(2)
    ]
    while sender._blocked < 2:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.001)
    closing = asyncio.ensure_future(sender.close())
    await asyncio.sleep(0.001)
    sender.leave(admitted)
    await asyncio.sleep(0.001)
    assert not closing.done()
    await asyncio.to_thread(sender.free_thread, direct)
    await closing
    ended = await asyncio.gather(*blocked, return_exceptions=True)
    assert [type(error) for error in ended] == [ClosedError] * 2
    assert sender._blocked == 0


@with_producer(cluster(t={"b": 1}, u={"b": 1}))
async def test_connections_are_opened_before_the_sends_of_a_new_topic_start(
    producer: Producer, network: ScriptedNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender, waits = producer.sender, list[str]()
    wait = sender._connecting.wait

    def note(address: str, *more: Any) -> None:
        waits.append(address)
        wait(address, *more)

    monkeypatch.setattr(sender._connecting, "wait", note)
    connected = delay_connects(network, producer, 0.04)
    await producer.send(message())
    assert (waits, connected) == ([], ["ns:1", "b:1"])
    sender.connections.drop("b:1")
    delay_connects(network, producer, 0.2)
    await producer.send(Message("u", b"x"))
    assert waits == ["b:1"], "a slow connect does not delay sends to other brokers"


@with_producer(cluster(t={"b": 1}))
async def test_the_task_of_a_retry_is_kept_until_it_ends(producer: Producer, network: ScriptedNetwork) -> None:
    sender, future = producer.sender, Future[SendResult]()
    sender.retry(sender.delivery(message()), None, future)
    assert len(sender._tasks) == 1
    assert (await asyncio.wrap_future(future)).queue.broker_name == "b"
    assert not sender._tasks


@with_producer(cluster(t={"b": 1}))
async def test_a_send_whose_retry_is_cancelled_has_an_end(producer: Producer, network: ScriptedNetwork) -> None:
    sender = producer.sender
    future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    sender.retry(sender.delivery(message()), None, future)
    [task] = sender._tasks
    task.cancel()
    with pytest.raises(ClosedError, match="its producer was stopped"):
        await future
    assert not sender._tasks


@with_producer(cluster(t={"b": 1}))
async def test_a_failed_lookup_fails_only_the_waiting_sends(
    producer: Producer, network: ScriptedNetwork, caplog: pytest.LogCaptureFixture
) -> None:
    gates = producer.sender._looking_up
    work = gates._work

    async def faulty(topic: str, seconds: float) -> None:
        raise ValueError("a fault")

    gates._work = faulty
    with pytest.raises(RocketMQError, match="ValueError: a fault"):
        await producer.send(message())
    assert "what sends of t wait for has failed" in caplog.text
    gates._work = work
    await producer.send(message())


def test_an_open_gate_has_no_timer() -> None:
    """Sends that come while others go on have short timeouts; none of them is over, so nothing is left to expire."""
    faults: list[object] = []

    async def body(producer: Producer, network: ScriptedNetwork) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        delay_connects(network, producer, 0.01)
        futures = [producer.send_async(message()) for _ in range(3000)]
        while "b:1" not in network.transports:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)
        futures += [producer.send_async(message(), timeout=20) for _ in range(10)]
        await asyncio.gather(*futures)
        await asyncio.sleep(30)

    run_producer(body, cluster(t={"b": 1}))
    assert faults == []
