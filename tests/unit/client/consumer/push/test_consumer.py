"""The push consumer against a scripted broker: its requests, their order, and how it uses the answers."""

import asyncio
import contextlib
import json

import pytest

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.push.consumer import PushConsumer
from rocketmq_py.client.queue_requests import broker_of
from rocketmq_py.core.consumer import flow_control, rebalance
from rocketmq_py.errors import NoRouteError
from rocketmq_py.model import ConsumeFromWhere, MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.client import HeartbeatData
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command, encode_command
from rocketmq_py.wire.record import encode_record
from tests.unit.client.scripted import ScriptedNetwork, made_by, route_answer

GROUP, TOPIC, RETRY = "g", "T", "%RETRY%g"
NS, BROKER, SLAVE = "ns:1", "b:1", "b:2"
QUEUE = MessageQueue(TOPIC, "b", 0)
PATIENCE = 120.0


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    """What takes a second takes a millisecond."""
    monkeypatch.setattr(rebalance, "WAIT_UNBALANCED", 0.001)
    monkeypatch.setattr(flow_control, "STATE_DELAY", 0.001)


def record(offset, body=b"x", properties=b""):
    head = RecordHead(0, 0, 0, 0, 0, offset, 1000 + offset, 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
    return encode_record(head, TOPIC, body, properties)


def pulled(code, next_offset, body=b"", **more):
    ext = {"suggestWhichBrokerId": "0", "nextBeginOffset": str(next_offset), "minOffset": "0", "maxOffset": "9", **more}
    return Command(code, ext=ext, body=body)


class Broker:
    """One broker, one queue per topic. ``pulls`` answers pulls by their offset; what it does not know is held."""

    def __init__(self, **stored):
        self.network = ScriptedNetwork(self.answer)
        self.stored = {TOPIC: 0, RETRY: 0, **stored}
        self.pulls = {}
        self.special = {}
        self.routes = {TOPIC: {"b": 1}, RETRY: {"b": 1}}
        self.instance = ClientInstance(NS)
        self.network.carry(self.instance.connections)
        self.seen = []
        self.arrived = asyncio.Event()

    def consumer(self, listener=None, **options):
        options = {"pull_delay_after_error": 0.001, "first_pull_delay": 0.001, **options}
        made = PushConsumer(GROUP, instance=self.instance, **options)
        made.subscribe(TOPIC, listener=listener or self.take)
        return made

    async def take(self, message):
        self.seen.append(message)
        self.arrived.set()

    @property
    def client_ids(self):
        return [self.instance.client_id]

    def answer(self, address, request):
        if request.code in self.special:
            return self.special[request.code](request)
        topic = request.ext.get("topic")
        if request.code == Code.GET_ROUTEINFO_BY_TOPIC:
            return route_answer(self.routes.get(topic))
        if request.code == Code.GET_CONSUMER_LIST_BY_GROUP:
            return Command(0, body=json.dumps({"consumerIdList": self.client_ids}).encode())
        if request.code == Code.QUERY_CONSUMER_OFFSET:
            stored = self.stored[topic]
            return Command(ResponseCode.QUERY_NOT_FOUND) if stored is None else Command(0, ext={"offset": str(stored)})
        if request.code == Code.PULL_MESSAGE:
            answers = self.pulls.get((topic, int(request.ext["queueOffset"])))
            return answers.pop(0) if answers else None
        return Command(0)

    def asked(self, code, topic=TOPIC, **ext):
        """The requests of a code about a topic, in order."""
        return [
            request
            for _, request in self.network.requests
            if request.code == code
            and request.ext.get("topic", topic) == topic
            and all(request.ext.get(name) == value for name, value in ext.items())
        ]

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not (found := true()):
                self.network.asked.clear()
                with contextlib.suppress(TimeoutError):  # what is waited for may follow no request
                    await asyncio.wait_for(self.network.asked.wait(), 0.01)
        return found

    def push(self, code, body=b"", *, oneway=False, **ext):
        """A request of the broker's own."""
        frame = encode_command(Command(code, 77, 2 if oneway else 0, ext=ext, body=body))
        self.network.transports[BROKER].deliver(frame)


def scenario(function, **stored):
    async def run():
        broker = Broker(**stored)
        try:
            await function(broker)
        finally:
            await broker.instance.stop()

    asyncio.run(run())


with_broker = made_by(scenario)
"""Decorates a test whose first argument is the scripted broker."""


@with_broker()
async def test_it_sends_a_heartbeat_before_it_rebalances_and_pulls_with_the_same_version(broker):
    async with broker.consumer():
        pull = (await broker.until(lambda: broker.asked(Code.PULL_MESSAGE)))[0]
        codes = [code for code in broker.network.codes(BROKER) if code != Code.QUERY_CONSUMER_OFFSET]
        assert codes[:2] == [Code.HEART_BEAT, Code.GET_CONSUMER_LIST_BY_GROUP]
        beats = [HeartbeatData.decode(r.body) for r in broker.asked(Code.HEART_BEAT)]
        told = {s.topic: s for s in beats[-1].consumer_data_set[0].subscription_data_set}
        assert set(told) == {TOPIC, RETRY}
        assert pull.ext["subVersion"] == str(told[TOPIC].sub_version)
        assert (pull.ext["sysFlag"], pull.ext["maxMsgNums"], pull.ext["suspendTimeoutMillis"]) == (
            "2",
            "32",
            "15000",
        )
        assert "subscription" not in pull.ext
    end = broker.network.codes(BROKER)[-1]
    assert end == Code.UNREGISTER_CLIENT


@pytest.mark.parametrize(
    ("mode", "main", "retry"),
    [("LAST_OFFSET", 40, 0), ("FIRST_OFFSET", 0, 0), ("TIMESTAMP", 25, 40)],
)
@with_broker(**{TOPIC: None, RETRY: None})
async def test_a_group_without_offsets_starts_at_the_configured_position(broker, mode, main, retry):
    broker.special[Code.GET_MAX_OFFSET] = lambda request: Command(0, ext={"offset": "40"})
    broker.special[Code.SEARCH_OFFSET_BY_TIMESTAMP] = lambda request: Command(0, ext={"offset": "25"})
    async with broker.consumer(consume_from=ConsumeFromWhere[mode], consume_timestamp="20250102030405"):
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE) and broker.asked(Code.PULL_MESSAGE, RETRY))
    assert broker.asked(Code.PULL_MESSAGE)[0].ext["queueOffset"] == str(main)
    assert broker.asked(Code.PULL_MESSAGE, RETRY)[0].ext["queueOffset"] == str(retry)


@with_broker()
async def test_pulls_commit_offsets_and_close_stores_them(broker):
    broker.pulls[TOPIC, 0] = [pulled(0, 2, record(0) + record(1))]
    async with broker.consumer() as member:
        second = (await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="2")))[0]
        assert (second.ext["commitOffset"], second.ext["sysFlag"]) == ("2", "3"), "the listener came first"
        assert member.consume_offsets(TOPIC) == {QUEUE: 2}
        broker.network.transports[BROKER].deliver(late_answer(broker, pulled(19, 2)))
        third = (await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="2")[1:]))[0]
        assert (third.ext["commitOffset"], third.ext["sysFlag"]) == ("0", "2"), "the second has told it"
    stored = broker.asked(Code.UPDATE_CONSUMER_OFFSET)[-1]
    assert (stored.ext["commitOffset"], stored.is_oneway) == ("2", False)


def late_answer(broker, answer, topic=TOPIC):
    """The answer to the newest pull, which was held."""
    answer.opaque, answer.flag = broker.asked(Code.PULL_MESSAGE, topic)[-1].opaque, 1
    return encode_command(answer)


@with_broker()
async def test_filtered_messages_move_the_offset_of_an_empty_queue(broker):
    broker.pulls[TOPIC, 0] = [pulled(20, 7)]
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="7"))
        assert member.consume_offsets(TOPIC) == {QUEUE: 7}


@with_broker(**{TOPIC: 5})
async def test_it_reads_from_the_suggested_slave_without_committing_there(broker):
    data = TopicRouteData(
        queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(broker_name="b", broker_addrs={0: BROKER, 1: SLAVE})],
    )
    broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = lambda request: Command(0, body=data.encode())
    broker.pulls[TOPIC, 5] = [pulled(20, 6, suggestWhichBrokerId="1")]
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="6"))
    pulls = [(where, r.ext) for where, r in broker.network.requests if r.ext.get("queueOffset") in ("5", "6")]
    assert [(where, ext["sysFlag"]) for where, ext in pulls] == [(BROKER, "3"), (SLAVE, "2")]


@with_broker()
async def test_a_broker_without_our_subscription_gets_a_heartbeat(broker):
    broker.pulls[TOPIC, 0] = [Command(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark="who?")]
    async with broker.consumer() as member:
        member._group.announced_at -= 1.0
        beats = len(broker.asked(Code.HEART_BEAT))
        await broker.until(lambda: len(broker.asked(Code.PULL_MESSAGE, queueOffset="0")) == 2)
        assert len(broker.asked(Code.HEART_BEAT)) > beats


@pytest.mark.parametrize("code", [ResponseCode.FLOW_CONTROL, ResponseCode.SYSTEM_ERROR])
@with_broker()
async def test_a_failed_pull_is_retried(broker, code, caplog):
    broker.pulls[TOPIC, 0] = [Command(code, remark="not now"), pulled(0, 1, record(0))]
    async with broker.consumer():
        await asyncio.wait_for(broker.arrived.wait(), PATIENCE)
    assert f"pulling T@b:0 at 0 failed, again in {'0.02' if code == 215 else '0.001'} s" in caplog.text


@pytest.mark.parametrize(
    ("code", "asks"),
    [(ResponseCode.SERVICE_NOT_AVAILABLE, True), (ResponseCode.SYSTEM_ERROR, False)],
)
@with_broker()
async def test_a_failure_that_may_come_from_an_old_route_refreshes_it(broker, code, asks):
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="0"))
    before = len(broker.asked(Code.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC))
    again = Broker()
    again.pulls[TOPIC, 0] = [Command(code, remark="not now"), pulled(0, 1, record(0))]
    async with again.consumer():
        await asyncio.wait_for(again.arrived.wait(), PATIENCE)
        assert len(again.asked(Code.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)) == before + asks
    await again.instance.stop()


@with_broker()
async def test_a_corrupt_pull_answer_loses_no_message(broker, caplog):
    broker.pulls[TOPIC, 0] = [pulled(0, 1, b"garbage"), pulled(0, 1, record(0))]
    async with broker.consumer():
        await asyncio.wait_for(broker.arrived.wait(), PATIENCE)
    assert [m.queue_offset for m in broker.seen] == [0]
    assert not caplog.records, "the second answer is whole"


@with_broker()
async def test_a_group_change_notification_triggers_a_rebalance(broker):
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        ids = [*broker.client_ids, "0-comes-first"]
        broker.special[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda request: Command(
            0, body=json.dumps({"consumerIdList": ids}).encode()
        )
        broker.push(Code.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True, consumerGroup=GROUP)
        stored = await broker.until(lambda: broker.asked(Code.UPDATE_CONSUMER_OFFSET, RETRY))
        assert stored[0].is_oneway
        assert member.queues == []


@with_broker()
async def test_an_unknown_member_sends_a_heartbeat_and_keeps_its_queues(broker):
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        beats = len(broker.asked(Code.HEART_BEAT))
        broker.special[Code.GET_CONSUMER_LIST_BY_GROUP] = lambda request: Command(1, remark="no consumer")
        broker.push(Code.NOTIFY_CONSUMER_IDS_CHANGED, oneway=True, consumerGroup=GROUP)
        await broker.until(lambda: len(broker.asked(Code.HEART_BEAT)) > beats)
        assert len(member.queues) == 2


OFFSETS = {f'{{"brokerName":"b","queueId":0,"topic":"{TOPIC}"}}': 3}
AS_TABLE = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:3}}'
ITEMS = [
    {"topic": "T", "brokerName": "b", "queueId": 0, "offset": 3},
    {"topic": "other", "brokerName": "b", "queueId": 1},
]
AS_LIST = json.dumps({"offsetTable": ITEMS}).encode()


@pytest.mark.parametrize("body", [json.dumps({"offsetTable": OFFSETS}).encode(), AS_TABLE, AS_LIST])
@with_broker(**{TOPIC: 8})
async def test_a_broker_can_reset_offsets(broker, body):
    broker.special[Code.UPDATE_CONSUMER_OFFSET] = lambda request: (
        broker.stored.__setitem__(request.ext["topic"], int(request.ext["commitOffset"])) or Command(0)
    )
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="8"))
        broker.push(
            Code.RESET_CONSUMER_CLIENT_OFFSET,
            body,
            oneway=True,
            topic=TOPIC,
            group=GROUP,
            timestamp="0",
            isForce="true",
        )
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="3"))


def answers(broker):
    """What was written to the broker as answers, decoded."""
    return [request for _, request in broker.network.requests if request.is_response]


async def ask(broker, code, body=b"", **ext):
    broker.push(code, body, **ext)
    answer = (await broker.until(lambda: answers(broker)))[-1]
    return answer.code, answer.remark, answer.body


@with_broker(**{TOPIC: 8})
async def test_a_broker_can_ask_for_offsets_and_state(broker):
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        code, _, body = await ask(broker, Code.GET_CONSUMER_STATUS_FROM_CLIENT, topic=TOPIC, group=GROUP)
        assert (code, body) == (0, b'{"messageQueueTable":{{"brokerName":"b","queueId":0,"topic":"T"}:8}}')
        broker.network.requests.clear()
        code, _, body = await ask(broker, Code.GET_CONSUMER_RUNNING_INFO, consumerGroup=GROUP, clientId="me")
        assert b'"mqTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"commitOffset":8,' in body
        assert b'"PROP_CONSUME_TYPE":"CONSUME_PASSIVELY"' in body


@pytest.mark.parametrize(("fails", "result"), [(False, "CR_SUCCESS"), (True, "CR_LATER")])
@with_broker()
async def test_a_broker_can_have_one_message_consumed(broker, fails, result):
    def listen(message):
        broker.seen.append(message)
        if fails:
            raise ValueError("on purpose")

    async with broker.consumer(listen):
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        _, _, body = await ask(
            broker, Code.CONSUME_MESSAGE_DIRECTLY, record(4, b"now"), consumerGroup=GROUP, brokerName="b"
        )
        assert json.loads(body)["consumeResult"] == result
        assert [(m.body, m.broker_name) for m in broker.seen] == [(b"now", "b")]


@with_broker()
async def test_requests_for_an_unknown_group_are_answered(broker):
    async with broker.consumer():
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        code, remark, _ = await ask(broker, Code.GET_CONSUMER_RUNNING_INFO, consumerGroup="other", clientId="me")
        assert (code, "has no consumer of group other" in remark) == (1, True)


@with_broker()
async def test_tags_can_be_changed_while_it_runs(broker):
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        member.subscribe(TOPIC, "a || b")
        await member._group.announce()
        assert b'"tagsSet":["a","b"]' in broker.asked(Code.HEART_BEAT)[-1].body
        broker.network.transports[BROKER].deliver(late_answer(broker, pulled(19, 8)))
        version = str(member._group.subscriptions[TOPIC].sub_version)
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE)[-1].ext["subVersion"] == version)


@with_broker(**{TOPIC: 8})
async def test_offsets_are_persisted_periodically_without_waiting_for_an_answer(broker):
    async with broker.consumer() as member:
        await broker.until(lambda: broker.asked(Code.PULL_MESSAGE))
        member._group.offsets.update(MessageQueue(TOPIC, "b", 7), 3)  # of a queue that is no longer ours
        await member.persist_offsets()
        [sent] = await broker.until(lambda: broker.asked(Code.UPDATE_CONSUMER_OFFSET))
        assert sent.is_oneway
        assert (sent.ext["queueId"], sent.ext["commitOffset"]) == ("0", "8")


@with_broker()
async def test_a_broker_without_a_route_triggers_a_lookup(broker):
    elsewhere = MessageQueue(TOPIC, "c", 0)
    await broker.instance.routes.get(TOPIC)
    with pytest.raises(NoRouteError, match="no route names broker 'c'"):
        await broker_of(broker.instance, elsewhere)
    broker.routes[TOPIC] = {"b": 1, "c": 1}
    assert await broker_of(broker.instance, elsewhere) == "c:1"


def test_it_pulls_from_the_chosen_replica():
    """Java: connectBrokerByUser and defaultBrokerId."""

    def route(request):
        data = TopicRouteData(
            queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
            broker_datas=[BrokerData(broker_name="b", broker_addrs={0: BROKER, 2: SLAVE})],
        )
        return Command(0, body=data.encode())

    async def run(broker):
        broker.special[Code.GET_ROUTEINFO_BY_TOPIC] = route
        broker.pulls[TOPIC, 0] = [pulled(0, 1, record(0), suggestWhichBrokerId="0")]
        async with broker.consumer(pull_from_broker_id=2):
            await broker.until(lambda: broker.asked(Code.PULL_MESSAGE, queueOffset="1"))
        pulls = [where for where, r in broker.network.requests if r.code == Code.PULL_MESSAGE]
        assert set(pulls) == {SLAVE}

    scenario(run)


async def test_a_consumer_that_was_never_started_says_so_when_its_with_block_ends(caplog):
    async with PushConsumer(GROUP, "ns:1") as consumer:
        consumer.subscribe(TOPIC, listener=print)
    assert "the consumer of group g is closed and was never started: call start()" in caplog.text


async def test_a_consumer_without_subscriptions_closes_silently(caplog):
    async with PushConsumer(GROUP, "ns:1"):
        pass
    assert "never started" not in caplog.text


@with_broker()
async def test_after_a_pull_that_failed_one_pull_is_in_flight_until_the_next_answer(broker):
    """Nobody knows any more where the queue ends."""
    first = b"".join(map(record, range(4)))
    refused = Command(ResponseCode.SYSTEM_ERROR, remark="no")
    broker.pulls = {(TOPIC, 0): [pulled(0, 4, first, maxOffset="100")], (TOPIC, 4): [refused]}
    async with broker.consumer(pulls_in_flight=3, pull_batch_size=4):
        await broker.until(lambda: len(broker.asked(Code.PULL_MESSAGE)) > 4)
        await asyncio.sleep(5)
    offsets = [int(request.ext["queueOffset"]) for request in broker.asked(Code.PULL_MESSAGE)]
    assert offsets == [0, 4, 8, 12, 4]
