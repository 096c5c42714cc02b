"""What a planner sends, field by field, and what each answer means: errors, moved queues, masters that are away."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from rocketmq_py.arrow.options.offsets import Bounds
from rocketmq_py.arrow.options.selection import Assigned, Matching, Topics
from rocketmq_py.arrow.ranges import QueueRange
from rocketmq_py.arrow.remoting.cluster import Cluster
from rocketmq_py.arrow.remoting.message_sizes import message_sizes
from rocketmq_py.arrow.remoting.queues import (
    Addresses,
    QueueRoutes,
    brokers_of,
    of_route,
    readable_number,
    writable_number,
)
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError, PermissionDenied, RocketMQError, SystemBusy
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData, ClusterInfo, QueueData, TopicList, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.arrow.scripted import ScriptedPeer, answer, scripted

Q0, Q1, Q2 = (MessageQueue("t", "broker-a", number) for number in range(3))


def routes(address: str | None, *queues: MessageQueue, slaves: tuple[tuple[int, str], ...] = ()) -> QueueRoutes:
    return QueueRoutes(dict.fromkeys(queues or (Q1,), Addresses(address, slaves, "broker-a")))


def client(peer: ScriptedPeer, retries: int = 0) -> closing[Cluster]:
    return closing(Cluster((peer.address,), 5, retries))


def always(response: Callable[[], Command]) -> Callable[[Command], Command]:
    return lambda _: response()


def asked(act: Callable[[Cluster, QueueRoutes], object]) -> tuple[int, dict[str, str]]:
    """Code and fields of the only request to a broker."""
    with scripted(always(lambda: answer(offset=7))) as peer, client(peer) as cluster:
        act(cluster, routes(peer.address))
        (request,) = peer.requests
    return request.code, request.ext


def test_offsets_are_asked_for_with_the_fields_of_the_protocol() -> None:
    queue = {"topic": "t", "queueId": "1"}
    for act, code, fields in (
        (lambda c, q: c.earliest(q), 31, queue),
        (lambda c, q: c.latest(q), 30, queue),
        (lambda c, q: c.since(q, {Q1: 1700000000000}), 29, {**queue, "timestamp": "1700000000000"}),
        (lambda c, q: c.committed("g", q), 14, {**queue, "consumerGroup": "g", "setZeroIfNotFound": "false"}),
        (lambda c, q: c.commit("g", {Q1: 5}, q), 15, {**queue, "consumerGroup": "g", "commitOffset": "5"}),
    ):
        sent, found = asked(act)
        assert (sent, {name: found.get(name) for name in fields}) == (code, fields)
        assert found["bname"] == "broker-a"


def test_name_servers_are_asked_with_the_fields_of_the_protocol() -> None:
    def known(request: Command) -> Command:
        if request.code == 206:
            return answer(body=TopicList(topic_list=["a", "b"]).encode())
        brokers = {"broker-a": BrokerData(broker_name="broker-a", cluster="c")}
        return answer(body=ClusterInfo(broker_addr_table=brokers).encode())

    with scripted(known) as peer, client(peer) as cluster:
        assert cluster.topics() == ["a", "b"]
        assert cluster.brokers() == {"broker-a"}
        cluster.readable(["t"])
        route = peer.requests[-1]
        assert [request.code for request in peer.requests] == [206, 106, 105]
    assert (route.ext["topic"], route.ext["acceptStandardJsonOnly"]) == ("t", "true")


def test_a_group_is_shown_by_its_retry_topic() -> None:
    """Its queue can be read and written; each master gets it once, if no broker has it."""
    with scripted(always(answer)) as peer, scripted(always(answer)) as other, client(peer) as cluster:
        cluster.show("g", routes(peer.address))
        assert [request.code for request in peer.requests] == [105], "it exists"
        peer.not_yet["%RETRY%g"] = 1
        there = {**routes(peer.address, Q0, Q1).addresses, **routes(other.address, Q2).addresses}
        away = routes(None, MessageQueue("t", "broker-b", 0), slaves=((1, "n:1"),)).addresses
        cluster.show("g", QueueRoutes({**there, **away}))
        (made,) = peer.asked(RequestCode.UPDATE_AND_CREATE_TOPIC)
        (also,) = other.requests
        assert (made.code, also.code) == (17, 17)
        fields = {
            "topic": "%RETRY%g", "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "order": "false",
        }  # fmt: skip
        assert {name: made.ext.get(name) for name in fields} == fields
        peer.not_yet["%RETRY%g"] = 1
        peer.script = always(lambda: answer(ResponseCode.NO_PERMISSION, remark="not you"))
        with pytest.raises(PermissionDenied, match="not you"):
            cluster.show("g", routes(peer.address))


def test_answers_about_offsets() -> None:
    def offsets(request: Command) -> Command:
        if request.code == RequestCode.QUERY_CONSUMER_OFFSET and request.ext["queueId"] == "0":
            return answer(ResponseCode.QUERY_NOT_FOUND, remark="none")
        return answer(offset=-1 if request.code == RequestCode.GET_MIN_OFFSET else 9)

    with scripted(offsets) as peer, client(peer) as cluster:
        queues = routes(peer.address, Q0, Q1)
        assert cluster.earliest(queues) == {Q0: 0, Q1: 0}, "a batch queue without messages begins at -1"
        assert cluster.bounds(queues) == {Q0: Bounds(0, 9), Q1: Bounds(0, 9)}
        assert cluster.committed("g", queues) == {Q1: 9}
        peer.script = always(lambda: answer(ResponseCode.NO_PERMISSION, remark="not you"))
        for act in (
            lambda: cluster.latest(queues), lambda: cluster.committed("g", queues),
            lambda: cluster.commit("g", {Q1: 5}, queues),
        ):  # fmt: skip
            with pytest.raises(PermissionDenied, match="not you"):
                act()


def test_both_ends_of_a_queue_are_one_request_if_the_broker_tells_them() -> None:
    def both(request: Command) -> Command:
        assert request.code == RequestCode.GET_MAX_OFFSET
        assert request.ext["bounds"] == "true"
        return answer(offset=9, minOffset={"0": 4, "1": -1}[request.ext["queueId"]])

    with scripted(both) as peer, client(peer) as cluster:
        assert cluster.bounds(routes(peer.address, Q0, Q1)) == {Q0: Bounds(4, 9), Q1: Bounds(0, 9)}
        assert len(peer.requests) == 2


def test_the_begin_is_asked_of_brokers_that_do_not_tell_it() -> None:
    def one_of_two(request: Command) -> Command:
        if request.code == RequestCode.GET_MIN_OFFSET:
            assert request.ext["queueId"] == "1"
            return answer(offset=11)
        return answer(offset=9, **({"minOffset": 4} if request.ext["queueId"] == "0" else {}))

    with scripted(one_of_two) as peer, client(peer) as cluster:
        found = cluster.bounds(routes(peer.address, Q0, Q1))
    assert found == {Q0: Bounds(4, 9), Q1: Bounds(9, 9)}, "all messages have been removed since the first answer"


def test_only_offsets_of_known_queues_are_committed() -> None:
    with scripted(always(answer)) as peer, client(peer) as cluster:
        cluster.commit("g", {Q1: 5, Q2: 6}, routes(peer.address, Q0, Q1))
        assert [(one.ext["queueId"], one.ext["commitOffset"]) for one in peer.requests] == [("1", "5")]


def test_the_first_offset_of_a_topic_at_a_broker_is_confirmed_before_the_others_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Java broker that gets two at the same time loses one."""
    sent: list[list[MessageQueue]] = []
    ask = Cluster._each_broker

    def counted(cluster: Cluster, queues: QueueRoutes, *rest: Any) -> Any:
        sent.append(sorted(queues.addresses))
        return ask(cluster, queues, *rest)

    monkeypatch.setattr(Cluster, "_each_broker", counted)
    other = MessageQueue("u", "broker-a", 0)
    offsets = {Q0: 1, Q1: 2, Q2: 3, other: 4}
    with scripted(always(answer)) as peer, client(peer) as cluster:
        for group in ("g", "g", "h"):
            cluster.commit(group, offsets, routes(peer.address, *offsets))
    assert sent == [[Q0, other], [Q1, Q2], [], sorted(offsets), [Q0, other], [Q1, Q2]]


def test_offsets_of_a_slave_are_marked() -> None:
    with scripted(always(lambda: answer(offset=7))) as slave, client(slave) as cluster:
        there = routes(slave.address, Q0).addresses
        away = routes(None, Q1, slaves=((1, slave.address),)).addresses
        ends = cluster.ends(QueueRoutes({**there, **away}))
    assert (ends.offsets, ends.from_slaves) == ({Q0: 7, Q1: 7}, {Q1})


def test_a_master_that_does_not_answer_is_avoided_for_a_while() -> None:
    with scripted(always(lambda: answer(offset=1))) as slave, scripted(lambda _: None) as master:
        queues = routes(master.address, slaves=((1, slave.address),))
        with client(slave) as cluster:
            assert cluster.ends(queues).from_slaves == {Q1}
            assert cluster.latest(queues) == {Q1: 1}
            assert len(master.requests) == 1
        with client(slave) as cluster:
            slave.script = lambda _: None
            with pytest.raises(NetworkError):
                cluster.latest(queues)
        assert len(master.requests) == 2, "each once without retries"
        with client(slave, retries=2) as cluster, pytest.raises(NetworkError):
            cluster.latest(queues)
        assert len(master.requests) == 4, "they take turns"


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_busy_broker_is_asked_again(retries: int) -> None:
    with scripted(always(lambda: answer(ResponseCode.SYSTEM_BUSY, remark="busy"))) as peer:
        with client(peer, retries) as cluster, pytest.raises(SystemBusy):
            cluster.latest(routes(peer.address))
        assert len(peer.requests) == 1 + retries


def test_a_topic_that_a_master_does_not_have_is_final() -> None:
    with scripted(always(lambda: answer(ResponseCode.TOPIC_NOT_EXIST, remark="no"))) as peer:
        with client(peer, 3) as cluster, pytest.raises(BrokerError, match="no"):
            cluster.latest(routes(peer.address))
        assert len(peer.requests) == 1


def test_a_logical_queue_that_has_moved_is_asked_for_at_its_new_broker() -> None:
    """The route is looked up again, and the queues passed get the new address."""
    moved, stays = MessageQueue("t", "broker-b", 0), Q0

    def old(request: Command) -> Command:
        is_moved = request.ext["bname"] == "broker-b"
        return answer(ResponseCode.NOT_LEADER_FOR_QUEUE, remark="moved") if is_moved else answer(offset=1)

    with scripted(old) as peer, scripted(always(lambda: answer(offset=9))) as new, client(peer, 3) as cluster:
        peer.brokers = [
            BrokerData(broker_name=name, cluster="c", broker_addrs={0: at.address})
            for name, at in (("broker-a", peer), ("broker-b", new))
        ]
        peer.route = lambda queues: TopicRouteData(  # type: ignore[method-assign]
            queue_datas=[
                QueueData(broker_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=6)
                for name in ("broker-a", "broker-b")
            ],
            broker_datas=peer.brokers,
        )
        queues = routes(peer.address, stays, moved)
        assert cluster.latest(queues) == {stays: 1, moved: 9}
        assert queues.addresses[moved].master == new.address
        assert queues.addresses[stays].master == peer.address
        assert len(peer.asked(RequestCode.GET_MAX_OFFSET)) == 2, "the moved queue once, the other once"
        assert len(peer.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC)) == 1
        gone = routes(peer.address, MessageQueue("t", "broker-b", 7))
        with pytest.raises(RocketMQError, match="moved"):
            cluster.latest(gone)


# -- selections and routes


def test_selected_queues() -> None:
    with scripted(always(lambda: answer(body=TopicList(topic_list=["t", "u", "other"]).encode())), queues=2) as peer:
        peer.not_yet["u"] = 1 << 30
        with client(peer) as cluster:
            pattern = cluster.selected(Matching(re.compile("t|u")))
            assert set(pattern.addresses) == {Q0, Q1}, "a topic that matches may be deleted meanwhile"
            assert set(cluster.selected(Assigned(frozenset({Q1}))).addresses) == {Q1}
            with pytest.raises(NoRouteError, match="t@broker-a:5 does not exist or cannot be read"):
                cluster.selected(Assigned(frozenset({Q1, Q2._replace(queue_id=5), Q2._replace(queue_id=6)})))
            found = cluster.selected(Assigned(frozenset({Q1, Q2})), missing=True)
            assert set(found.addresses) == {Q1}
            with pytest.raises(NoRouteError, match="topic 'u' does not exist"):
                cluster.selected(Topics(("t", "u")))


def test_no_question_for_no_topics() -> None:
    with scripted(always(answer)) as peer, client(peer) as cluster:
        assert cluster.readable([]).addresses == {}
        assert peer.requests == []


def test_the_masters_of_a_topic() -> None:
    with scripted(always(answer)) as peer, client(peer) as cluster:
        peer.brokers += [
            BrokerData(broker_name="no-master", cluster="c", broker_addrs={1: "n:1"}),
            BrokerData(broker_name="nobody", cluster="c", broker_addrs={}),
        ]
        assert cluster.masters("t") == {"broker-a": peer.address}
        peer.not_yet["t"] = 1
        with pytest.raises(NoRouteError, match=r"topic 't' does not exist, say the name servers\. Create it first"):
            cluster.masters("t")


def test_queues_of_a_new_topic_are_those_that_its_first_message_will_create() -> None:
    with scripted(always(answer), queues=3) as peer, client(peer) as cluster:
        assert len(cluster.writable("t").addresses) == 3
        peer.not_yet["t"] = 9
        assert [queue.queue_id for queue in cluster.writable("t").addresses] == [0, 1, 2, 3]
        peer.not_yet.update({"t": 9, "TBW102": 9})
        with pytest.raises(NoRouteError, match="topic 't' does not exist"):
            cluster.writable("t")


def test_a_name_server_that_fails_is_asked_again() -> None:
    class Failing:
        def __init__(self) -> None:
            self.left = 2

        def __call__(self, request: Command) -> Command | None:
            self.left -= 1
            return None if self.left >= 0 else answer(body=TopicList(topic_list=["a"]).encode())

    with scripted(Failing()) as peer, client(peer, 2) as cluster:
        assert cluster.topics() == ["a"]
    with scripted(Failing()) as peer, client(peer, 1) as cluster, pytest.raises(NetworkError, match=peer.address):
        cluster.topics()


def route(**more: Any) -> TopicRouteData:
    data = {"read_queue_nums": 3, "write_queue_nums": 2, "perm": 6} | more
    return TopicRouteData(
        queue_datas=[QueueData(broker_name=name, **data) for name in ("broker-a", "unknown")],
        broker_datas=[BrokerData(broker_name="broker-a", cluster="c", broker_addrs={2: "s2:1", 0: "m:1", 1: "s1:1"})],
    )


def test_addresses_and_queues_of_a_route() -> None:
    found = brokers_of(route())["broker-a"]
    assert found == Addresses("m:1", ((1, "s1:1"), (2, "s2:1")), "broker-a")
    assert (found.all, found.of(0), found.of(2), found.of(3)) == (("m:1", "s1:1", "s2:1"), "m:1", "s2:1", None)
    assert found._replace(master=None).all == ("s1:1", "s2:1")
    for perm, readable, writable in ((6, 3, 2), (4, 3, 0), (2, 0, 2), (0, 0, 0)):
        both = [of_route("t", route(perm=perm), number) for number in (readable_number, writable_number)]
        assert [len(one) for one in both] == [readable, writable]
    assert set(of_route("t", route(), writable_number)) == {Q0, Q1}


def test_routes_are_split_by_broker() -> None:
    one, other = Addresses("a:1", (), "a"), Addresses("b:1", (), "b")
    queues = QueueRoutes({Q2: one, Q1: other, Q0: one})
    assert queues.by_address() == {one: [Q0, Q2], other: [Q1]}
    assert queues.by_broker() == [QueueRoutes({Q0: one, Q2: one}), QueueRoutes({Q1: other})]
    assert queues.only([Q1, Q0._replace(topic="u")]) == QueueRoutes({Q1: other})


# -- sizes of messages


def test_a_size_is_asked_for_with_a_small_pull_that_commits_nothing() -> None:
    pulled = {"suggestWhichBrokerId": 0, "minOffset": 0, "maxOffset": 100}

    def ask(response: Command, *wanted: QueueRange) -> dict[str, float]:
        with scripted(always(lambda: response)) as peer, client(peer) as cluster:
            found = message_sizes(cluster, wanted, routes(peer.address), "g")
            requests.extend(peer.requests)
        return found

    requests: list[Command] = []
    wanted = QueueRange(Q1, 10, 31)
    assert ask(answer(body=b"x" * 90, nextBeginOffset=23, **pulled), wanted) == {"t": 30.0}
    assert ask(answer(body=b"", nextBeginOffset=23, **pulled), wanted) == {}
    assert ask(answer(body=b"x", nextBeginOffset=20, **pulled), wanted) == {}
    assert ask(answer(body=b"x", nextBeginOffset=21, **pulled), wanted) == {"t": 1.0}
    assert ask(answer(ResponseCode.PULL_NOT_FOUND, b"x", nextBeginOffset=23, **pulled), wanted) == {}
    fields = {
        "consumerGroup": "g", "topic": "t", "queueId": "1", "queueOffset": "20", "maxMsgNums": "8", "sysFlag": "4",
        "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
        "expressionType": "TAG", "maxMsgBytes": "16384", "bname": "broker-a",
    }  # fmt: skip
    assert requests[0].code == 11
    assert {name: requests[0].ext.get(name) for name in fields} == fields


def test_a_name_server_that_refuses_is_asked_again_on_another_connection() -> None:
    """There may be several behind one address."""
    with (
        scripted(always(lambda: answer(body=TopicList(topic_list=["a"]).encode()))) as peer,
        client(peer, 1) as cluster,
    ):
        made: list[object] = []
        process, respond = peer.process_request, peer.respond
        peer.process_request = lambda *one: (made.append(one), process(*one))[1]  # type: ignore[method-assign]
        refusals = iter([True])
        peer.respond = lambda one: (  # type: ignore[method-assign]
            answer(ResponseCode.SYSTEM_ERROR) if next(refusals, False) else respond(one)
        )
        assert cluster.topics() == ["a"]
        assert len(made) == 2
        assert cluster.topics() == ["a"]
        assert len(made) == 2


def test_the_size_of_messages_of_a_broker_without_addresses_is_not_known() -> None:
    with scripted(always(answer)) as peer, client(peer) as cluster:
        assert message_sizes(cluster, [QueueRange(Q1, 10, 30)], QueueRoutes({Q1: Addresses()}), "g") == {}
        assert peer.requests == []
