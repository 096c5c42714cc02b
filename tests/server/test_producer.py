"""Both faces of the producer, and the administration, against our own broker over real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from rocketmq_py import (
    Admin,
    ClosedError,
    ConfigError,
    Message,
    MessageExt,
    MessageIllegal,
    MessageQueue,
    NetworkError,
    NoRouteError,
    Producer,
    RequestTimeout,
    SendStatus,
    aio,
)
from rocketmq_py.errors import ConnectError, ConnectionLost
from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.protocol.headers.pull import PullMessage
from rocketmq_py.remoting import blocking
from rocketmq_py.remoting.connection_pool import ConnectionPool
from rocketmq_py.testing import Cluster, TcpProxy
from rocketmq_py.wire.record import decode_records


@pytest.fixture
def producer(rocketmq: Cluster) -> Iterator[Producer]:
    with Producer("g", rocketmq.namesrv) as running:
        yield running


@pytest.fixture
def admin(rocketmq: Cluster) -> Iterator[Admin]:
    with Admin(rocketmq.namesrv) as running:
        yield running


def stored(cluster: Cluster, *queues: MessageQueue) -> list[MessageExt]:
    """Every message of the queues, as the broker gives it."""

    async def pull(connections: ConnectionPool, queue: MessageQueue) -> list[MessageExt]:
        header = PullMessage(
            consumer_group="look", topic=queue.topic, queue_id=queue.queue_id, queue_offset=0, max_msg_nums=32,
            sys_flag=4, commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
        )  # fmt: skip
        answer = await connections.invoke(cluster.addresses[0], RequestCode.PULL_MESSAGE, header, check=False)
        return decode_records(answer.body, queue.broker_name)

    async def main() -> list[MessageExt]:
        connections = ConnectionPool()
        found = [await pull(connections, queue) for queue in queues]
        await connections.close()
        return [message for messages in found for message in messages]

    return asyncio.run(main())


# -- what arrives


def test_sent_messages_are_stored(rocketmq: Cluster, rocketmq_topic: str, producer: Producer) -> None:
    message = Message(rocketmq_topic, "grüße", tags="a", keys=["k1", "k2"], flag=7, properties={"x": "y"})
    result = producer.send(message)
    assert (result.status, result.queue_offset, result.msg_id) == (SendStatus.SEND_OK, 0, message.msg_id)
    (found,) = stored(rocketmq, result.queue)
    assert (found.body.decode(), found.tags, found.keys, found.flag) == ("grüße", "a", "k1 k2", 7)
    assert (found.properties["x"], found.msg_id, found.offset_msg_id) == ("y", result.msg_id, result.offset_msg_id)


def test_a_large_body_is_delivered_unchanged(rocketmq: Cluster, rocketmq_topic: str, producer: Producer) -> None:
    body = os.urandom(2000) * 1000
    result = producer.send(Message(rocketmq_topic, body))
    (found,) = stored(rocketmq, result.queue)
    assert found.body == body
    assert found.store_size < len(body) / 2  # it travelled compressed


def test_a_batch_is_stored_contiguously(rocketmq: Cluster, rocketmq_topic: str, producer: Producer) -> None:
    messages = [Message(rocketmq_topic, f"{i}", tags=f"T{i}") for i in range(5)]
    result = producer.send_batch(messages)
    found = stored(rocketmq, result.queue)
    assert [(m.body, m.tags, m.queue_offset) for m in found] == [(b"%d" % i, f"T{i}", i) for i in range(5)]
    assert ",".join(m.msg_id for m in found) == result.msg_id


def test_oneway_messages_are_stored_before_close_returns(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with Producer("g", rocketmq.namesrv) as producer:
        queues = producer.queues(rocketmq_topic)
        for i in range(20):
            producer.send_oneway(Message(rocketmq_topic, f"{i}"))
        producer.send(Message(rocketmq_topic, "last"))  # the same connection: what was written first is stored first
    assert len(stored(rocketmq, *queues)) == 21


def test_messages_of_one_key_keep_their_order(rocketmq: Cluster, rocketmq_topic: str, producer: Producer) -> None:
    queues = {producer.send_ordered(Message(rocketmq_topic, f"{i}"), "N14228").queue for i in range(10)}
    assert len(queues) == 1
    assert [m.body for m in stored(rocketmq, *queues)] == [b"%d" % i for i in range(10)]


def test_the_first_message_creates_its_topic(rocketmq: Cluster, producer: Producer, admin: Admin) -> None:
    for _ in range(8):
        producer.send(Message("made-by-sending", "x"))
    assert len(admin.queues("made-by-sending")) == 4
    assert len(stored(rocketmq, *admin.queues("made-by-sending"))) == 8


# -- many at once


def test_many_threads_can_share_a_producer(rocketmq_topic: str, producer: Producer, admin: Admin) -> None:
    results = []

    def work() -> None:
        results.extend(producer.send(Message(rocketmq_topic, "x")) for _ in range(100))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(result.queue, result.queue_offset) for result in results}) == 800
    assert sum(admin.max_offset(queue) for queue in admin.queues(rocketmq_topic)) == 800
    per_queue = Counter(result.queue for result in results)
    assert max(per_queue.values()) == min(per_queue.values())


def test_a_thousand_futures_complete(rocketmq_topic: str, producer: Producer) -> None:
    futures = [producer.send_async(Message(rocketmq_topic, "x" * 1000)) for _ in range(1000)]
    places = {(result.queue, result.queue_offset) for result in (future.result(240) for future in futures)}
    assert len(places) == 1000


async def test_asyncio_sends_run_concurrently(rocketmq: Cluster, rocketmq_topic: str) -> None:
    async with aio.Producer("g", rocketmq.namesrv) as producer:
        results = await asyncio.gather(*(producer.send(Message(rocketmq_topic, "x")) for _ in range(1000)))
        assert len({(result.queue, result.queue_offset) for result in results}) == 1000


def test_close_waits_for_pending_sends(rocketmq: Cluster, rocketmq_topic: str) -> None:
    producer = Producer("g", rocketmq.namesrv)
    producer.start()
    futures = [producer.send_async(Message(rocketmq_topic, "x")) for _ in range(200)]
    producer.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(ClosedError):
        producer.send(Message(rocketmq_topic, "x"))


# -- trouble


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        (Message("t", bytes(4 * 1024 * 1024 + 1)), "4194305 bytes, 4194304 are allowed"),
        (Message("no such name!", "x"), "illegal characters"),
        (Message("t", ""), "the body is empty"),
    ],
)
def test_an_illegal_message_does_not_break_the_producer(
    producer: Producer, rocketmq_topic: str, message: Message, fault: str
) -> None:
    with pytest.raises(MessageIllegal, match=fault):
        producer.send(message)
    assert producer.send(Message(rocketmq_topic, "x")).status is SendStatus.SEND_OK


def test_a_wrong_queue_is_refused_by_the_broker(producer: Producer, rocketmq_topic: str) -> None:
    known = producer.queues(rocketmq_topic)[0]
    with pytest.raises(aio.BrokerError, match=f"{rocketmq_topic}|queue"):
        producer.send(Message(rocketmq_topic, "x"), known._replace(queue_id=99))
    assert producer.send(Message(rocketmq_topic, "x"), known).queue == known


def test_an_unreachable_name_server_is_named() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        namesrv = f"127.0.0.1:{free.getsockname()[1]}"
    refused = pytest.raises(NetworkError, match=f"{namesrv}: Connection refused. Does a name server run there")
    with Producer("g", namesrv) as producer, refused:
        producer.send(Message("t", "x"), timeout=3)


def test_the_next_name_server_is_used(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        for _ in range(4):  # the first one asked is drawn by lot
            with Producer("g", f"{nobody};{rocketmq.namesrv}") as producer:
                producer.send(Message(rocketmq_topic, "x"))


def test_a_broken_connection_is_reopened(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped) as producer:
            producer.send(Message(rocketmq_topic, "x"))
            assert proxy.connections == 1
            proxy.kill()
            producer.send(Message(rocketmq_topic, "x"))


def test_a_connection_closed_by_the_broker_is_detected_before_use(
    rocketmq: Cluster, rocketmq_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_FRESH_SECONDS", 0.0)
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped, retries=0) as producer:
            for _ in range(3):
                producer.send(Message(rocketmq_topic, "x"))
            proxy.kill()
            producer.send(Message(rocketmq_topic, "x"))


def test_idle_connections_of_threads_are_closed(
    rocketmq: Cluster, rocketmq_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(8)
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped) as producer:
            producer.send(Message(rocketmq_topic, "x"))

            def selector(queues: Sequence[MessageQueue], *_: object) -> MessageQueue:
                together.wait(30)  # nobody goes on before all are here, so several need one at a time
                return queues[0]

            threads = [
                threading.Thread(target=producer.send_ordered, args=(Message(rocketmq_topic, "x"), None, selector))
                for _ in range(8)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            monkeypatch.setattr(blocking, "_IDLE_SECONDS", 0.0)
            while proxy.connections > 2:  # the loop's and this thread's; the proxy sees the others end in its own time
                producer.send(Message(rocketmq_topic, "x"))


def test_without_retries_a_broken_connection_raises(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped, retries=0) as producer:
            for _ in range(2):
                producer.send(Message(rocketmq_topic, "x"))
            proxy.refuse()
            with pytest.raises(NetworkError, match=f"{rocketmq.addresses[0]}"):
                producer.send(Message(rocketmq_topic, "x"))


def test_a_silent_broker_fails_a_send_after_the_timeout(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped) as producer:
            producer.send(Message(rocketmq_topic, "x"))
            proxy.silence()
            with pytest.raises(RequestTimeout, match="may have been stored"):
                producer.send(Message(rocketmq_topic, "x"), timeout=0.05)
            future = producer.send_async(Message(rocketmq_topic, "x"), timeout=0.05)
            assert isinstance(future.exception(30), RequestTimeout)
            proxy.resume()
            producer.send(Message(rocketmq_topic, "x"))


def test_an_unreachable_advertised_address_is_named(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        proxy.stop()
        refused = pytest.raises(NetworkError, match=r"mapped to .*refused.*brokerIP1.*address_map")
        with Producer("g", rocketmq.namesrv, address_map=mapped) as producer, refused:
            producer.send(Message(rocketmq_topic, "x"), timeout=3)


def test_a_send_survives_a_restart_of_the_only_broker(rocketmq_topic: str) -> None:
    """With shipped options it costs time only, for blocking sends and for those in the background."""
    with Cluster() as cluster:
        cluster.create_topic(rocketmq_topic)
        with Producer("g", cluster.namesrv) as producer:
            producer.send(Message(rocketmq_topic, "before"))
            cluster.stop_broker()
            futures = [producer.send_async(Message(rocketmq_topic, "while"), timeout=30) for _ in range(100)]
            restart = threading.Timer(0.5, cluster.start_broker)
            restart.start()
            producer.send(Message(rocketmq_topic, "while"), timeout=30)
            assert all(future.result(240).status is SendStatus.SEND_OK for future in futures)
            restart.join()


def test_a_broker_given_as_name_server_is_named_as_the_error(rocketmq: Cluster, rocketmq_topic: str) -> None:
    with (
        Producer("g", rocketmq.addresses[0]) as producer,
        pytest.raises(ConfigError, match=rf"{rocketmq.addresses[0]} is not a name server"),
    ):
        producer.send(Message(rocketmq_topic, "x"))


def test_a_silent_broker_does_not_fill_memory(rocketmq: Cluster, rocketmq_topic: str) -> None:
    """``send_async`` waits until there is room; what is in progress stays below the limit."""
    limit, size = 1 << 20, 21_000
    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer(
            "g", rocketmq.namesrv, address_map=mapped, retries=0, send_timeout=0.2, max_pending_bytes=limit,
            compress_over=None,
        ) as producer:  # fmt: skip
            producer.send(Message(rocketmq_topic, "x"))
            proxy.silence()
            window, futures = producer._aio.sender._window, []
            for _ in range(200):
                futures.append(producer.send_async(Message(rocketmq_topic, bytes(size))))
                assert window.bytes <= limit + size
            assert {type(future.exception(30)) for future in futures} <= {RequestTimeout, ConnectError, ConnectionLost}
            proxy.resume()


# -- processes and the interpreter


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_must_create_its_own_producer(rocketmq: Cluster, rocketmq_topic: str) -> None:
    script = """
        import os, sys
        from rocketmq_py import ForkedError, Message, Producer
        namesrv, topic = sys.argv[1:]
        with Producer("g", namesrv) as producer:
            producer.send(Message(topic, "parent"))
            child = os.fork()
            if child == 0:
                for call in (lambda: producer.send(Message(topic, "x")), lambda: producer.queues(topic)):
                    try:
                        call()
                    except ForkedError:
                        pass
                    else:
                        os._exit(1)
                with Producer("g", namesrv) as own:
                    own.send(Message(topic, "child"))
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            producer.send(Message(topic, "parent"))
    """
    run_script(script, rocketmq.namesrv, rocketmq_topic)


def test_the_interpreter_exits_with_open_clients(rocketmq: Cluster, rocketmq_topic: str) -> None:
    script = """
        import sys
        from rocketmq_py import Message, Producer
        producer = Producer("g", sys.argv[1])
        producer.start()
        producer.send(Message(sys.argv[2], "x"))
        producer.send_async(Message(sys.argv[2], "x"))
    """
    run_script(script, rocketmq.namesrv, rocketmq_topic)


def run_script(script: str, *arguments: str) -> None:
    lines = script.splitlines()
    text = "\n".join(line[8:] for line in lines)
    subprocess.run([sys.executable, "-X", "dev", "-c", text, *arguments], check=True, timeout=60)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers here")
def test_a_wait_can_be_interrupted(rocketmq: Cluster, rocketmq_topic: str) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    with TcpProxy(rocketmq.addresses[0]) as proxy:
        mapped = {rocketmq.addresses[0]: proxy.address}
        with Producer("g", rocketmq.namesrv, address_map=mapped) as producer:
            producer.send(Message(rocketmq_topic, "x"))
            proxy.silence()
            before = signal.signal(signal.SIGALRM, interrupt)
            try:
                with pytest.raises(Interrupted):  # noqa: PT012 - the timer may be over before the send
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    producer.send(Message(rocketmq_topic, "x"), timeout=60)
            finally:
                signal.signal(signal.SIGALRM, before)
            proxy.resume()
            producer.send(Message(rocketmq_topic, "x"))


# -- administration


def test_topics_are_created_and_deleted(rocketmq: Cluster, admin: Admin) -> None:
    admin.create_topic("mine", 3)
    assert "mine" in admin.topics()
    assert admin.queues("mine") == [MessageQueue("mine", "broker-a", i) for i in range(3)]
    assert admin.cluster().broker_addr_table["broker-a"].broker_addrs == {0: rocketmq.addresses[0]}
    admin.delete_topic("mine")
    with pytest.raises(NoRouteError, match="'mine'"):
        admin.queues("mine")
    with pytest.raises(ConfigError, match=r"no master of cluster 'nowhere'.*DefaultCluster"):
        admin.create_topic("mine", cluster="nowhere")


def test_offsets_and_lag_are_returned(rocketmq_topic: str, producer: Producer, admin: Admin) -> None:
    results = [producer.send(Message(rocketmq_topic, f"{i}")) for i in range(8)]
    queue = results[0].queue
    held = sum(result.queue == queue for result in results)
    assert (admin.min_offset(queue), admin.max_offset(queue)) == (0, held)
    assert admin.offset_at(queue, 0) == 0
    assert admin.group_offset("nobody", queue) is None
    assert admin.group_offsets("nobody", rocketmq_topic) == {}
    assert admin.lag("nobody", rocketmq_topic) == 8
    assert admin.lag("nobody", "%RETRY%nobody") == 0
    admin.create_group("somebody")
    admin.set_group_offset("somebody", queue, 1)
    assert admin.group_offsets("somebody", rocketmq_topic) == {queue: 1}
    assert admin.lags("somebody", rocketmq_topic)[queue] == held - 1
    admin.delete_group("somebody", clean_offsets=True)
    assert admin.group_offset("somebody", queue) is None
