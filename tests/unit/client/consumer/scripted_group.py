"""A consumer group on scripted brokers, for the parts of a consumer that decide who consumes a queue."""

import asyncio
import json

from rocketmq_py.client.client_instance import ClientInstance
from rocketmq_py.client.consumer.consumer_group import ConsumerGroup, ConsumerState
from rocketmq_py.client.consumer.options import PushOptions
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import ConsumerData
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.wire.command import Command
from tests.unit.client.scripted import ScriptedNetwork, route_answer

GROUP, TOPIC, NS = "g", "T", "ns:1"
NOW = 1000.0


class ScriptedGroup:
    """A group whose brokers, by name ``x`` at ``x:1``, grant locks and keep offsets.

    :ivar routes: queues by broker name, of each topic; None: the topic does not exist.
    :ivar stored: the committed offsets at the brokers.
    :ivar refused: queues whose locks another member has.
    :ivar members: the client ids of the group; ``me`` stands for this one.
    :ivar special: answers by code instead of the usual ones: a function of address and request.
    :ivar clock: what ``group.now()`` returns; None is the time of the event loop.
    """

    def __init__(self, **options):
        self.network = ScriptedNetwork(self.answer)
        self.routes = {TOPIC: {"b": 2}}
        self.stored = {}
        self.refused = set()
        self.members = ["me"]
        self.special = {}
        self.clock = NOW
        self.instance = ClientInstance(NS, timeout=1.0)
        self.network.carry(self.instance.connections)
        self.group = ConsumerGroup(GROUP, self.instance, PushOptions(**options))
        self.group.now = lambda: asyncio.get_running_loop().time() if self.clock is None else self.clock
        self.group.state = ConsumerState.RUNNING
        self._times = []

    async def __aenter__(self):
        for topic in [topic for topic, queues in self.routes.items() if queues]:
            await self.instance.routes.get(topic)
        self.instance.register(_Membership(self.group))
        self.network.requests.clear()
        return self

    async def __aexit__(self, *_):
        await self.instance.stop()

    def answer(self, address, request):
        self._times.append((request.code, asyncio.get_running_loop().time()))
        if request.code in self.special:
            return self.special[request.code](address, request)
        serve = {
            Code.GET_ROUTEINFO_BY_TOPIC: lambda: route_answer(self.routes.get(request.ext["topic"])),
            Code.GET_CONSUMER_LIST_BY_GROUP: self._members,
            Code.LOCK_BATCH_MQ: lambda: self._lock(request),
            Code.QUERY_CONSUMER_OFFSET: lambda: self._query(address, request),
            Code.UPDATE_CONSUMER_OFFSET: lambda: self._update(address, request),
        }.get(request.code)
        return Command(0) if serve is None else serve()

    def _members(self):
        ids = [self.instance.client_id if member == "me" else member for member in self.members]
        return Command(0, body=json.dumps({"consumerIdList": ids}).encode())

    def _lock(self, request):
        asked = json.loads(request.body)["mqSet"]
        granted = [each for each in asked if named(each) not in self.refused]
        return Command(0, body=json.dumps({"lockOKMQSet": granted}).encode())

    def _query(self, address, request):
        offset = self.stored.get(_queue(address, request))
        return Command(ResponseCode.QUERY_NOT_FOUND) if offset is None else Command(0, ext={"offset": str(offset)})

    def _update(self, address, request):
        self.stored[_queue(address, request)] = int(request.ext["commitOffset"])
        return Command(0)

    def asked(self, code):
        """The requests of a code, in order."""
        return [request for _, request in self.network.requests if request.code == code]

    def times(self, code, since):
        """When requests of a code came, in seconds after ``since``, to a tenth."""
        return [round(when - since, 1) for known, when in self._times if known == code and when >= since]

    def about(self, *codes):
        """The requests of these codes that name queues in their bodies: code, address and queues."""
        return [
            (request.code, address, sorted(named(each) for each in json.loads(request.body)["mqSet"]))
            for address, request in self.network.requests
            if request.code in codes
        ]


class _Membership:
    """The entry of the group in heartbeats."""

    group = GROUP

    def __init__(self, state):
        self._state = state

    def heartbeat(self):
        return ConsumerData(group_name=GROUP, subscription_data_set=list(self._state.subscriptions.values()))

    def topics(self):
        return set(self._state.subscriptions)


def named(queue):
    """The queue that a JSON object describes."""
    return MessageQueue(queue["topic"], queue["brokerName"], queue["queueId"])


def _queue(address, request):
    return MessageQueue(request.ext["topic"], address.partition(":")[0], int(request.ext["queueId"]))
