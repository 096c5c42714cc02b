"""The request for what a broker holds: who waits for which messages, since when."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from rocketmq_py.broker.pop.long_polling import PopPolling
from rocketmq_py.broker.pull.pull_request_hold import PullRequestHoldService
from rocketmq_py.protocol.bodies.statistics import HeldRequest, HeldRequests
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import ListHeldRequests
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles

MOST_LISTED = 500
MOST_EXAMINED = 10_000
"""Number of held requests of either kind that one answer looks at: some 25 ms, so 50 ms for both."""


class HeldHandlers:
    """Handler of the request code 300100."""

    def __init__(self, pulls: PullRequestHoldService, pops: PopPolling) -> None:
        self._pulls = pulls
        self._pops = pops

    @handles(Code.LIST_HELD_REQUESTS)
    def held(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the pulls, pops and notifications on hold, those that wait for the longest first."""
        del peer, body
        header: ListHeldRequests = request.header
        kinds: tuple[PullRequestHoldService, PopPolling] = (self._pulls, self._pops)
        found = [one for kind in kinds for one in islice(kind, MOST_EXAMINED) if _is_asked_for(header, one)]
        is_cut = len(found) > MOST_LISTED or any(len(kind) > MOST_EXAMINED for kind in kinds)
        listed = nsmallest(MOST_LISTED, found, key=_since)
        return Reply(body=HeldRequests(held=listed, total=sum(len(kind) for kind in kinds), is_cut=is_cut).encode())


def _is_asked_for(header: ListHeldRequests, one: HeldRequest) -> bool:
    return header.topic in (None, "", one.topic) and header.consumer_group in (None, "", one.consumer_group)


def _since(one: HeldRequest) -> int:
    return one.since
