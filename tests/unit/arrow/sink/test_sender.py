"""Sending: nothing is lost where a broker is busy or gone, bound messages keep their order. No Spark needed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import count

import pytest

from rocketmq_py.arrow.bad_records import BadRecordPolicy, Mode
from rocketmq_py.arrow.sink.rows import RowMessage
from rocketmq_py.arrow.sink.sender import BatchSender, InflightLimit, SendSettings
from rocketmq_py.errors import ConfigError, NoRouteError, PermissionDenied, SystemBusy
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.batch import decode_batch
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.java_hash import string_hash
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted


class Store:
    """Keeps what is sent, and does something else with every n-th send: refuse it, or cut the connection after it."""

    def __init__(self, refuse_every: int = 1 << 40, cut_every: int = 1 << 40) -> None:
        self.stored: list[tuple[int, list[bytes]]] = []
        self._refuse, self._cut = refuse_every, cut_every
        self._number = count(1)

    def __call__(self, request: Command) -> Command | None:
        number = next(self._number)
        if number % self._refuse == 0:
            return answer(ResponseCode.SYSTEM_BUSY, remark="[TIMEOUT_CLEAN_QUEUE]")
        bodies = [body for _, body, _ in decode_batch(request.body)]
        self.stored.append((int(request.ext["e"]), bodies))
        if number % self._cut == 0:
            return None
        return answer(msgId="A", queueId=request.ext["e"], queueOffset=0)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, bodies in self.stored for body in bodies]


def send(peer: ScriptedPeer, messages: Iterable[RowMessage], *, retries: int = 5, max_batch_bytes: int = 200) -> None:
    sender = BatchSender(
        SendSettings(
            namesrv=(peer.address,), producer_group="g", timeout=5, retries=retries, in_flight=4,
            max_batch_bytes=max_batch_bytes,
        )
    )  # fmt: skip
    try:
        for message in messages:
            sender.send(message)
        sender.flush()
    finally:
        sender.close()


def message(i: int, sharding_key: str | None = None, queue_id: int | None = None) -> RowMessage:
    return RowMessage("orders", b"%05d" % i, b"", sharding_key, queue_id)


EXPECTED = [b"%05d" % i for i in range(300)]


def test_messages_are_sent_in_batches_to_all_queues() -> None:
    store = Store()
    with scripted(store, queues=4) as peer:
        send(peer, map(message, range(300)))
        batches = len(peer.asked(RequestCode.SEND_BATCH_MESSAGE))
    assert sorted(store.bodies) == EXPECTED
    assert batches == -(-300 // (200 // 27))
    assert {queue for queue, _ in store.stored} == {0, 1, 2, 3}


@pytest.mark.parametrize("store", [Store(refuse_every=3), Store(cut_every=7)], ids=["busy", "cut"])
def test_refusals_and_lost_connections_lose_no_message(store: Store) -> None:
    with scripted(store, queues=4) as peer:
        send(peer, map(message, range(300)))
    assert set(store.bodies) == set(EXPECTED)


@pytest.mark.parametrize("store", [Store(), Store(refuse_every=3), Store(cut_every=7)], ids=["well", "busy", "cut"])
def test_messages_of_one_sharding_key_keep_their_order(store: Store) -> None:
    with scripted(store, queues=4) as peer:
        send(peer, (message(i, sharding_key=f"key-{i % 3}") for i in range(300)))
    for key in range(3):
        queue = abs(string_hash(f"key-{key}")) % 4
        bodies = [body for at, bodies in store.stored if at == queue for body in bodies if int(body) % 3 == key]
        first_seen = list(dict.fromkeys(bodies))
        assert first_seen == EXPECTED[key::3]


def test_a_row_can_name_its_queue() -> None:
    store = Store()
    with scripted(store, queues=4) as peer:
        send(peer, (message(i, queue_id=i % 4) for i in range(20)))
        with pytest.raises(ConfigError, match="topic orders has no queue 4"):
            send(peer, [message(0, queue_id=4)])
    assert all(int(body) % 4 == queue for queue, bodies in store.stored for body in bodies)


def test_a_missing_write_permission_fails_the_write_with_the_number_of_sent_rows() -> None:
    with (
        scripted(lambda _: answer(ResponseCode.NO_PERMISSION, remark="sending is forbidden")) as peer,
        pytest.raises(PermissionDenied, match="sending is forbidden") as told,
    ):
        send(peer, [message(0)])
    assert told.value.__notes__ == ["while 1 messages were sent to orders@broker-a:0"]


def test_unflushed_messages_count_as_stored() -> None:
    with scripted(lambda _: answer(ResponseCode.FLUSH_DISK_TIMEOUT, remark="slow disk")) as peer:
        send(peer, [message(0)], retries=0)
        assert len(peer.asked(RequestCode.SEND_BATCH_MESSAGE)) == 1


def too_long(request: Command) -> Command:
    """A broker that takes no bodies longer than five bytes."""
    is_batch = request.code == RequestCode.SEND_BATCH_MESSAGE
    bodies = [body for _, body, _ in decode_batch(request.body)] if is_batch else [request.body]
    if max(map(len, bodies)) > 5 and not request.ext["b"].startswith("%DLQ%"):
        return answer(ResponseCode.MESSAGE_ILLEGAL, remark="the message is too large")
    return answer(msgId="A", queueId=0, queueOffset=0)


@pytest.mark.parametrize("mode", [Mode.DLQ, Mode.PERMISSIVE])
def test_a_refused_row_does_not_stop_others(mode: Mode) -> None:
    bad = BadRecordPolicy(mode, "%DLQ%g")
    rows = [message(i) for i in range(20)]
    rows[7] = rows[7]._replace(body=b"0000007", properties=b"KEYS\x01k7\x02")
    with scripted(too_long) as peer:
        sender = BatchSender(SendSettings(namesrv=(peer.address,), producer_group="g", timeout=5, retries=5,
                in_flight=4,
                                     max_batch_bytes=1000), bad)  # fmt: skip
        for row in rows:
            sender.send(row)
        sender.flush()
        sender.close()
        taken: dict[str, list[tuple[bytes, bytes]]] = {}
        for request in peer.asked(RequestCode.SEND_BATCH_MESSAGE):
            found = [(body, properties) for _, body, properties in decode_batch(request.body)]
            if too_long(request).code == 0:
                taken.setdefault(request.ext["b"], []).extend(found)
    assert sorted(body for body, _ in taken["orders"]) == [b"%05d" % i for i in range(20) if i != 7]
    letters = taken.get("%DLQ%g", [])
    assert (len(letters), bad.count) == (1 if mode is Mode.DLQ else 0, 1)
    for body, properties in letters:
        told = decode_properties(properties)
        assert (body, told["KEYS"], told["DLQ_ORIGIN_TOPIC"]) == (b"0000007", "k7", "orders")
        assert "the message is too large" in told["SPARK_BAD_REASON"]


@pytest.mark.parametrize(("unknown", "queues"), [(0, {0, 1}), (1, {0, 1}), (9, {0, 1, 2, 3})])
def test_queues_of_a_missing_topic_are_assumed_only_if_unknown(unknown: int, queues: set[int]) -> None:
    """A name server that has just been started hears of it between the questions for the topic and for the template."""
    store = Store()
    with scripted(store, queues=2) as peer:
        peer.not_yet["orders"] = unknown
        send(peer, map(message, range(300)))
    assert {queue for queue, _ in store.stored} == queues


class Shrunk(Store):
    """A topic that has fewer queues than the route says, until it is asked for again."""

    def __init__(self, queues: int) -> None:
        super().__init__()
        self._queues = queues
        self.peer: ScriptedPeer | None = None

    def __call__(self, request: Command) -> Command | None:
        assert self.peer is not None
        if int(request.ext["e"]) >= self._queues:
            self.peer.queues = self._queues
            return answer(ResponseCode.INVALID_PARAMETER, remark=f"request queueId[{request.ext['e']}] is illegal")
        return super().__call__(request)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_missing_queue_is_not_an_error_of_the_row(mode: Mode) -> None:
    bad, store = BadRecordPolicy(mode, "%DLQ%g"), Shrunk(2)
    with scripted(store, queues=4) as peer:
        store.peer = peer
        settings = SendSettings(
            namesrv=(peer.address,), producer_group="g", timeout=5, retries=5, in_flight=4, max_batch_bytes=200
        )
        with contextlib.closing(BatchSender(settings, bad)) as sender:
            for i in range(300):
                sender.send(message(i))
            sender.flush()
    assert sorted(store.bodies) == EXPECTED
    assert bad.count == 0


def test_a_removed_queue_of_a_sharding_key_fails_the_task() -> None:
    store = Shrunk(2)
    gone = next(str(key) for key in count() if abs(string_hash(str(key))) % 4 == 3)
    with scripted(store, queues=4) as peer:
        store.peer = peer
        with pytest.raises(NoRouteError, match="no broker takes messages"):
            send(peer, [message(0, sharding_key=gone)], retries=1)


def test_a_delayed_message_is_sent_alone_and_in_order() -> None:
    seen: list[tuple[int, bytes, str]] = []

    def keep(request: Command) -> Command:
        is_batch = request.code == RequestCode.SEND_BATCH_MESSAGE
        found = decode_batch(request.body) if is_batch else [(0, request.body, request.ext["i"].encode())]
        seen.extend((request.code, body, properties.decode()) for _, body, properties in found)
        return answer(msgId="A", queueId=0, queueOffset=0)

    rows = [message(i, queue_id=0) for i in range(5)]
    rows[2] = rows[2]._replace(properties=b"DELAY\x013\x02", waits=True)
    with scripted(keep) as peer:
        send(peer, rows)
    assert [body for _, body, _ in seen] == [b"%05d" % i for i in range(5)]
    assert seen[2] == (RequestCode.SEND_MESSAGE_V2, b"00002", "DELAY\x013\x02")
    assert {code for code, *_ in seen[:2] + seen[3:]} == {RequestCode.SEND_BATCH_MESSAGE}


def test_a_busy_broker_gets_smaller_batches() -> None:
    room = InflightLimit(8)
    for _ in range(5):
        room.busy()
    assert int(room) == 1
    for _ in range(100):
        room.taken()
    assert int(room) == 8


def test_a_broker_that_stays_busy_fails_the_write_with_a_hint() -> None:
    with (
        scripted(lambda _: answer(ResponseCode.SYSTEM_BUSY, remark="[TIMEOUT_CLEAN_QUEUE]")) as peer,
        pytest.raises(SystemBusy, match="TIMEOUT_CLEAN_QUEUE") as told,
    ):
        send(peer, [message(0)], retries=2)
    assert told.value.__notes__[-1] == "sending to orders failed 3 times in a row; option numRetries allows for more"


@pytest.mark.parametrize(("code", "routes"), [(ResponseCode.SYSTEM_BUSY, 1), (ResponseCode.TOPIC_NOT_EXIST, 2)])
def test_a_route_is_asked_for_again_only_after_an_error_that_it_may_cure(code: ResponseCode, routes: int) -> None:
    refusals = [answer(code, remark="[TIMEOUT_CLEAN_QUEUE]")]

    def refuse_once(request: Command) -> Command:
        return refusals.pop() if refusals else answer(msgId="m", queueId=request.ext["e"], queueOffset=0)

    with scripted(refuse_once) as peer:
        send(peer, [message(0)])
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == routes
