"""Scripted brokers that serve POP and record requests."""

import asyncio
import json

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.model import RecordHead
from rocketmq_py.protocol.bodies.pop import BatchAckRequest
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.pop_handle import ExtraInfo, decode_bits
from rocketmq_py.wire.command import Command, decode_command, encode_command
from rocketmq_py.wire.frame import FrameDecoder
from rocketmq_py.wire.record import encode_record
from tests.unit.client.scripted import ScriptedNetwork, made_by, route_answer

GROUP, TOPIC, RETRY = "g", "T", "%RETRY%g"
NS = "ns:1"
PATIENCE = 120.0
POP_TIME = 1_000_000


def record(offset, queue_id=0, properties=b"", times=0):
    head = RecordHead(0, 0, 0, queue_id, 0, offset, 1000 + offset, 0, 1, bytes(8), 2, bytes(8), times, 0, 0)
    return encode_record(head, TOPIC, b"x", properties)


class PopBrokers:
    """Brokers by name. ``has`` are batches of records each gives to one pop after the other; polls are held.

    ``assigned`` is what a client gets of a topic (400): (broker, queue id, mode) each, or None.
    """

    def __init__(self, *names):
        self.names = names or ("b",)
        self.network = ScriptedNetwork(self.answer)
        self.has = {name: [] for name in self.names}
        self.held = []  # requests that wait at a broker: address and request
        self.special = {}
        self.assigned = {}
        self.topics = {TOPIC}
        self.master_id = 0
        self.acked = []  # broker and offset
        self.extended = []  # offset and milliseconds
        self.clock = POP_TIME
        self.instance = ClientInstance(NS)
        self.network.carry(self.instance.connections)

    # -- what brokers do

    def answer(self, address, request):
        if request.code in self.special:
            return self.special[request.code](request)
        name = address.partition(":")[0]
        serve = {
            Code.GET_ROUTEINFO_BY_TOPIC: self._route,
            Code.POP_MESSAGE: self._pop,
            Code.NOTIFICATION: self._hold,
            Code.ACK_MESSAGE: self._ack,
            Code.BATCH_ACK_MESSAGE: self._ack_batch,
            Code.CHANGE_MESSAGE_INVISIBLETIME: self._extend,
            Code.QUERY_ASSIGNMENT: self._assign,
            Code.PULL_MESSAGE: lambda _, __: None,
        }.get(request.code)
        if serve is not None:
            return serve(name, request)
        if request.code == Code.GET_CONSUMER_LIST_BY_GROUP:
            return Command(0, body=json.dumps({"consumerIdList": [self.instance.client_id]}).encode())
        if request.code in (Code.QUERY_CONSUMER_OFFSET, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET):
            return Command(0, ext={"offset": "0"})
        return Command(0)

    def _route(self, _, request):
        known = request.ext["topic"] in self.topics
        return route_answer(dict.fromkeys(self.names, 1) if known else None, self.master_id)

    def _pop(self, name, request):
        batches = self.has[name]
        if batches:
            return self.popped(batches.pop(0), request)
        return self._hold(name, request) if int(request.ext["pollTime"]) else Command(ResponseCode.POLLING_TIMEOUT)

    def popped(self, records, request):
        ext = {"popTime": str(self.clock), "invisibleTime": request.ext["invisibleTime"], "reviveQid": "0",
               "restNum": "0"}  # fmt: skip
        return Command(0, ext=ext, body=b"".join(records))

    def _hold(self, name, request):
        self.held.append((name, request))

    def _ack(self, name, request):
        receipt = ExtraInfo.parse(request.ext["extraInfo"])
        assert (receipt.queue_id, receipt.offset) == (int(request.ext["queueId"]), int(request.ext["offset"]))
        self.acked.append((name, receipt.offset))
        return Command(0)

    def _ack_batch(self, name, request):
        body = BatchAckRequest.decode(request.body)
        assert body.broker_name == name
        self.acked += [(name, ack.start_offset + bit) for ack in body.acks for bit in decode_bits(ack.bits)]
        return Command(0)

    def _extend(self, _, request):
        self.extended.append((int(request.ext["offset"]), int(request.ext["invisibleTime"])))
        ext = {"popTime": str(self.clock), "invisibleTime": request.ext["invisibleTime"], "reviveQid": "4"}
        return Command(0, ext=ext)

    def _assign(self, _, request):
        topic = json.loads(request.body)["topic"]
        mine = self.assigned.get(topic)
        if mine is None:
            return Command(0, body=b"{}")
        rows = [
            {"messageQueue": {"topic": topic, "brokerName": broker, "queueId": queue}, "mode": mode}
            for broker, queue, mode in mine
        ]
        return Command(0, body=json.dumps({"messageQueueAssignments": rows}).encode())

    # -- what tests do

    def reply(self, answer, at=0):
        """Answers a request that is held."""
        name, request = self.held.pop(at)
        answer.opaque, answer.flag = request.opaque, 1
        self.network.transports[f"{name}:1"].deliver(encode_command(answer))

    def arrive(self, name, *records):
        """Messages come, and whoever waits for word of them at the broker gets it."""
        self.has[name].append(list(records))
        at = next(i for i, (where, held) in enumerate(self.held) if where == name and held.code == Code.NOTIFICATION)
        self.reply(Command(0, ext={"hasMsg": "true"}), at)

    def asked(self, code):
        """The requests of a code, in order."""
        return [request for _, request in self.network.requests if request.code == code]

    def ask(self, code, **ext):
        """A request of the first broker's own."""
        self.network.transports[f"{self.names[0]}:1"].deliver(encode_command(Command(code, 77, 0, ext=ext)))

    def answers(self):
        """What it was answered."""
        frames = FrameDecoder()
        written = [
            decode_command(frame)
            for each in self.network.transports.values()
            for frame in frames.feed(b"".join(each.written))
        ]
        return [command for command in written if command.flag & 1 and command.opaque == 77]

    async def until(self, true):
        async with asyncio.timeout(PATIENCE):
            while not (found := true()):
                self.network.asked.clear()
                await self.network.asked.wait()
        return found

    def waits(self, code=Code.NOTIFICATION):
        """The brokers where a request of a code is held."""
        return sorted(name for name, request in self.held if request.code == code)


async def eventually(true):
    """Waits for a state nobody announces."""
    async with asyncio.timeout(PATIENCE):
        while not true():  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)


def scenario(function, *names):
    """Runs an async function of brokers of those names."""

    async def run():
        brokers = PopBrokers(*names)
        try:
            await function(brokers)
        finally:
            await brokers.instance.stop()

    asyncio.run(run())


with_broker = made_by(scenario)
"""Decorates a test whose first argument is the scripted brokers."""
