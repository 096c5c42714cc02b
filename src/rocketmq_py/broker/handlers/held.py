"""The request for what a broker holds: who waits for which messages, since when."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from operator import attrgetter

from rocketmq_py.broker.pop.long_polling import PopPolling
from rocketmq_py.broker.pull.pull_request_hold import PullRequestHoldService
from rocketmq_py.protocol.bodies.statistics import HeldRequest, HeldRequests
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import ListHeldRequests
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.server.sliced_work import SlicedWork

MOST_LISTED = 500
MOST_EXAMINED = 10_000
"""Number of held requests of each kind that one answer looks at, in slices."""
AT_ONCE = 100
"""Number of held requests that are looked at in one step."""
_since = attrgetter("since")


class HeldHandlers:
    """Handler of the request code 300100.

    :param slices: runs what takes long in slices.
    """

    def __init__(self, pulls: PullRequestHoldService, pops: PopPolling, slices: SlicedWork) -> None:
        self._pulls = pulls
        self._pops = pops
        self._slices = slices

    @handles(Code.LIST_HELD_REQUESTS)
    async def held(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return the pulls, pops and notifications on hold, those that wait for the longest first."""
        del peer, body
        header: ListHeldRequests = request.header
        kinds: tuple[PullRequestHoldService, PopPolling] = (self._pulls, self._pops)
        total, is_more = sum(len(kind) for kind in kinds), any(len(kind) > MOST_EXAMINED for kind in kinds)
        examined = chain.from_iterable(kind.listed(MOST_EXAMINED) for kind in kinds)
        longest: list[HeldRequest] = []
        matching = await self._slices.run(_keep_longest(longest, header, examined))
        is_cut = is_more or sum(matching) > MOST_LISTED
        return Reply(body=HeldRequests(held=longest, total=total, is_cut=is_cut).encode())


def _keep_longest(
    longest: list[HeldRequest], header: ListHeldRequests, examined: Iterator[HeldRequest]
) -> Iterator[int]:
    """Fill ``longest`` with the requests that wait for the longest, in order; yields how many were asked for."""
    topic, group = header.topic or None, header.consumer_group or None
    while some := list(islice(examined, AT_ONCE)):
        found = [one for one in some if topic in (None, one.topic) and group in (None, one.consumer_group)]
        longest += found
        longest.sort(key=_since)
        del longest[MOST_LISTED:]
        yield len(found)
