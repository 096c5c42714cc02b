"""A scripted broker that serves slices of a log as Java's do, whatever they contain; and a slave."""

import json

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.model import MessageQueue, RecordHead
from rocketmq_py.protocol.bodies.pop import BatchAckRequest
from rocketmq_py.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.pop_handle import decode_bits
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import encode_record
from tests.unit.client.scripted import ScriptedNetwork

GROUP, TOPIC = "g", "T"
MASTER, SLAVE = "b:1", "b:2"
QUEUE = MessageQueue(TOPIC, "b", 0)
POP_TIME = 1_000_000


class Log:
    """The records of one queue, one after the other, and where each is."""

    def __init__(self, count, body=200):
        self.entries, self.data = [], bytearray()
        for offset in range(count):
            head = RecordHead(0, 0, 0, 0, 0, offset, len(self.data), 0, 1, bytes(8), 2, bytes(8), 0, 0, 0)
            record = encode_record(head, TOPIC, bytes([offset % 256]) * body, b"TAGS\x01A\x02")
            self.entries.append((len(self.data), len(record)))
            self.data += record

    def write(self, at, data):
        self.data[at : at + len(data)] = data

    def flip(self, offset, byte, bit=0):
        """Flip one bit of the record at a queue offset."""
        self.data[self.entries[offset][0] + byte] ^= 1 << bit

    def slices(self, offset, count):
        return b"".join(bytes(self.data[at : at + size]) for at, size in self.entries[offset : offset + count])


class DamagedBroker:
    """A master, and a slave if it has a log; ``left_out`` are offsets that the master says are damaged."""

    def __init__(self, log, slave=None):
        self.logs = {MASTER: log} | ({SLAVE: slave} if slave else {})
        self.left_out = set()
        self.network = ScriptedNetwork(self.answer)
        self.instance = ClientInstance("ns:1")
        self.network.carry(self.instance.connections)
        self.acked = []
        self.popped = False

    def pulls(self, address=MASTER):
        """Offset and number of messages of each pull."""
        return [
            (int(request.ext["queueOffset"]), int(request.ext["maxMsgNums"]))
            for where, request in self.network.requests
            if request.code in (Code.PULL_MESSAGE, Code.LITE_PULL_MESSAGE)
            and where == address
            and request.ext["topic"] == TOPIC
        ]

    def answer(self, address, request):
        serve = {
            Code.GET_ROUTEINFO_BY_TOPIC: self._route,
            Code.GET_CONSUMER_LIST_BY_GROUP: self._members,
            Code.QUERY_CONSUMER_OFFSET: lambda *_: Command(0, ext={"offset": "0"}),
            Code.PULL_MESSAGE: self._pull,
            Code.LITE_PULL_MESSAGE: self._pull,
            Code.POP_MESSAGE: self._pop,
            Code.ACK_MESSAGE: self._ack,
            Code.BATCH_ACK_MESSAGE: self._ack_batch,
            Code.LOCK_BATCH_MQ: self._lock,
            Code.QUERY_ASSIGNMENT: self._assign,
            Code.NOTIFICATION: lambda *_: None,
        }.get(request.code)
        return serve(address, request) if serve else Command(0)

    def _members(self, _, request):
        return Command(0, body=json.dumps({"consumerIdList": [self.instance.client_id]}).encode())

    def _ack(self, _, request):
        self.acked.append(int(request.ext["offset"]))
        return Command(0)

    def _ack_batch(self, _, request):
        for ack in BatchAckRequest.decode(request.body).acks:
            self.acked += [ack.start_offset + bit for bit in decode_bits(ack.bits)]
        return Command(0)

    def _assign(self, _, request):
        """The queue of the topic, to be popped."""
        has = json.loads(request.body)["topic"] == TOPIC
        queue = {"brokerName": "b", "queueId": -1, "topic": TOPIC}
        rows = [{"messageQueue": queue, "mode": "POP"}] if has else []
        return Command(0, body=json.dumps({"messageQueueAssignments": rows}).encode())

    def _lock(self, _, request):
        return Command(0, body=json.dumps({"lockOKMQSet": json.loads(request.body)["mqSet"]}).encode())

    def _route(self, *_):
        addresses = dict(enumerate(self.logs))
        data = TopicRouteData(
            queue_datas=[QueueData(broker_name="b", read_queue_nums=1, write_queue_nums=1, perm=6)],
            broker_datas=[BrokerData(broker_name="b", broker_addrs=addresses)],
        )
        return Command(0, body=data.encode())

    def _pull(self, address, request):
        ext = request.ext
        if ext["topic"] != TOPIC:
            return None
        log, offset, most = self.logs[address], int(ext["queueOffset"]), int(ext["maxMsgNums"])
        end = len(log.entries)
        if offset >= end:
            return (
                None if int(ext["suspendTimeoutMillis"]) else Command(ResponseCode.PULL_NOT_FOUND, ext=bounds(end, end))
            )
        following = min(offset + most, end)
        wanted = range(offset, following)
        gone = sorted(self.left_out.intersection(wanted)) if address == MASTER else []
        body = b"".join(log.slices(at, 1) for at in wanted if at not in gone)
        more = {"damaged": ",".join(map(str, gone))} if gone else {}
        code = ResponseCode.SUCCESS if body else ResponseCode.PULL_RETRY_IMMEDIATELY
        return Command(code, ext=bounds(following, end) | more, body=body)

    def _pop(self, address, _):
        if self.popped:
            return None
        self.popped = True
        log = self.logs[address]
        count = len(log.entries)
        ext = {
            "popTime": str(POP_TIME), "invisibleTime": "60000", "reviveQid": "0", "restNum": "0",
            "startOffsetInfo": "0 0 0", "msgOffsetInfo": f"0 0 {','.join(map(str, range(count)))}",
        }  # fmt: skip
        return Command(0, ext=ext, body=log.slices(0, count))


def bounds(following, end):
    return {
        "suggestWhichBrokerId": "0", "nextBeginOffset": str(following), "minOffset": "0", "maxOffset": str(end)
    }  # fmt: skip
