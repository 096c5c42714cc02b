"""Requests forwarded to the broker of a physical queue, and answers that are translated when they are sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from rocketmq_py.broker.cluster.route_lookup import ROUTE_MS, RouteCache
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.core.peer import Reply as RemoteReply
from rocketmq_py.core.route import MASTER_ID, TopicRoute
from rocketmq_py.errors import BrokerError, NetworkError, NoRouteError
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.base import Header
from rocketmq_py.remoting.rpc_client import RpcClient
from rocketmq_py.server import Hold, Reply, Responder
from rocketmq_py.server.requests.failures import failure, overloaded
from rocketmq_py.tasks import Background
from rocketmq_py.wire.command import Command

FORWARDED = "forwarded"
"""The key of holds of forwarded requests; the payload is an ``Answer``, which sends requests to other brokers."""
_SECONDS = 3.0
_MOST_RUNNING = 1_000

Answer = Callable[[], Awaitable[Reply]]


def _unchanged(reply: Reply) -> Reply:
    return reply


class TranslatedHold(Hold, frozen=True):
    """A hold whose answer is translated before it is sent."""

    translate: Callable[[Reply], Reply] = _unchanged


class TranslatingResponder(Responder):
    """A responder that translates every answer before it sends it."""

    __slots__ = ("_translate",)

    def __init__(self, responder: Responder, translate: Callable[[Reply], Reply]) -> None:
        super().__init__(responder.peer, responder.opaque)
        self._translate = translate

    def encode(self, reply: Reply) -> bytes:
        return super().encode(self._translate(reply))


class Forwarder:
    """Sends requests to the brokers of physical queues.

    :param clock: returns the time in milliseconds since the epoch.
    """

    def __init__(self, config: BrokerConfig, rpc_client: RpcClient, clock: Callable[[], int]) -> None:
        self._config = config
        self._rpc_client = rpc_client
        self._clock = clock
        self._routes = RouteCache(config, rpc_client, clock)
        self._work = Background()
        self._running = 0

    def run(self, hold: Hold, responder: Responder) -> None:
        """Answer a forwarded request in the background; refuse it with SYSTEM_BUSY if too many are running."""
        if self._running >= _MOST_RUNNING:
            responder.reply(overloaded())
            return
        self._running += 1
        self._work.start(partial(self._answer, hold.payload, responder)())

    async def _answer(self, answer: Answer, responder: Responder) -> None:
        try:
            reply = await answer()
        except (NetworkError, NoRouteError) as e:
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(e))
        except Exception as e:  # noqa: BLE001 - every request gets an answer
            reply = failure(e, "a forwarded request", responder.peer.address)
        finally:
            self._running -= 1
        responder.reply(reply)

    async def ask(self, broker_name: str, topic: str, code: RequestCode, header: Header) -> RemoteReply:
        """Send a request to the master of a broker name, or to a slave without one; return its answer, of any code.

        :raises NoRouteError: at the name servers, the broker does not exist or does not have the topic.
        :raises NetworkError: the broker does not answer.
        """
        route = await self.route(topic)
        addresses = route.brokers.get(broker_name)
        if not addresses:
            self._routes.remove(topic)
            raise NoRouteError(f"no name server knows a broker {broker_name} with topic {topic}")
        address = addresses.get(MASTER_ID) or next(iter(addresses.values()))
        try:
            return await self._rpc_client.invoke(address, Command(code, ext=header.to_ext()), _SECONDS)
        except NetworkError:
            self._routes.remove(topic)
            raise

    async def ask_for(self, broker_name: str, topic: str, code: RequestCode, header: Header) -> RemoteReply:
        """As :meth:`ask`, but the answer must be success.

        :raises BrokerError: the broker answers with another code.
        """
        reply = await self.ask(broker_name, topic, code, header)
        if reply.code:
            raise BrokerError.of(reply.code, reply.remark, broker_name)
        return reply

    async def route(self, topic: str, *, max_age_ms: int = ROUTE_MS) -> TopicRoute:
        """Return the route of a topic.

        :param max_age_ms: the maximum age of a cached route; an older one is queried again.
        :raises NoRouteError: no name server answers.
        """
        return await self._routes.get(topic, max_age_ms=max_age_ms)

    async def stop(self) -> None:
        """Cancel running requests and close the connections."""
        await self._work.stop()
        self._rpc_client.close()
