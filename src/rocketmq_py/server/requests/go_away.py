"""Move clients to other servers before a server stops: requests of those that understand GO_AWAY are answered with it,
requests of other clients are served until the server stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection
from typing import cast

from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server.peer import Peer
from rocketmq_py.server.reply import Reply
from rocketmq_py.server.requests.router import Handler, Outcome, Route

V5_3_1 = 475
"""The number of version 5.3.1 in Java's MQVersion. Clients of later versions make a new connection after GO_AWAY, and
send their request again."""

_QUIET_SECONDS = 1.0
"""If none of the requests arrives for this long, all clients that send them count as gone."""
_LOOK_SECONDS = 0.1


class GoAway:
    """Answers requests with GO_AWAY if their clients understand it.

    :param codes: codes of the requests to answer so; others are served.
    """

    def __init__(self, codes: Collection[RequestCode]) -> None:
        self._codes = codes
        self.asked = 0
        """Number of requests with these codes that have arrived, including those that were served."""

    def over(self, route: Route) -> Route:
        """Return a route that answers ``route``'s requests with GO_AWAY if their clients understand it.

        Returns ``route`` itself if its code is not among the codes.
        """
        if route.code not in self._codes:
            return route
        return Route(route.code, self._later(route) if route.is_async else self._now(route), route.lane, route.is_async)

    def _now(self, route: Route) -> Handler:
        def handle(peer: Peer, request: Request, body: bytes) -> Outcome:
            return self._sent_away(request) or cast("Outcome", route.method(peer, request, body))

        return handle

    def _later(self, route: Route) -> Handler:
        async def handle(peer: Peer, request: Request, body: bytes) -> Outcome:
            return self._sent_away(request) or await cast("Awaitable[Outcome]", route.method(peer, request, body))

        return handle

    def _sent_away(self, request: Request) -> Reply | None:
        """Return the GO_AWAY reply; None to serve the request, such as every one-way request, which gets no answer."""
        self.asked += 1
        if request.version <= V5_3_1 or request.is_oneway:
            return None
        return Reply(ResponseCode.GO_AWAY, "please go away")

    async def wait(self, seconds: float) -> None:
        """Wait until none of these requests has arrived for a second, or until ``seconds`` have passed."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        seen, quiet_since = self.asked, loop.time()
        while loop.time() < min(end, quiet_since + _QUIET_SECONDS):
            await asyncio.sleep(_LOOK_SECONDS)
            if self.asked != seen:
                seen, quiet_since = self.asked, loop.time()
