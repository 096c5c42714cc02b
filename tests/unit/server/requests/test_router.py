"""Marks on methods become routes; a code belongs to one method."""

import pytest

from rocketmq_py.protocol.codes import RequestCode
from rocketmq_py.server import Reply, Route, Router, handles, handles_runs


class Offsets:
    @handles(RequestCode.GET_MAX_OFFSET, RequestCode.GET_MIN_OFFSET)
    def bounds(self, peer, request, body):
        return Reply()

    @handles(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, lane="query")
    async def search(self, peer, request, body):
        return Reply()

    def helper(self):
        return None


class Other:
    @handles(RequestCode.GET_MIN_OFFSET)
    def minimum(self, peer, request, body):
        return Reply()


def test_marked_methods_are_found_and_others_are_not():
    router = Router(Offsets())
    assert router.codes == (29, 30, 31)
    assert router.route(30).name == "Offsets.bounds"
    assert router.route(10) is None


def test_a_route_knows_its_lane_and_whether_it_waits():
    router = Router(Offsets())
    assert [(route.code, route.lane, route.is_async) for route in router.routes] == [
        (29, "query", True), (30, "admin", False), (31, "admin", False),
    ]  # fmt: skip


class Sends:
    @handles(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    def send(self, peer, request, body):
        return Reply()

    @handles_runs(RequestCode.SEND_MESSAGE_V2)
    def send_together(self, peer, run, begin):
        return None

    @handles(RequestCode.HEART_BEAT, sliced=True)
    def heartbeat(self, peer, request, body):
        return Reply()


def test_a_route_knows_who_takes_many_requests_and_whether_they_share_a_budget():
    sends = Sends()
    router = Router(sends, Offsets())
    assert [(int(route.code), route.run, route.is_sliced) for route in router.routes] == [
        (29, None, False), (30, None, False), (31, None, False), (34, None, True),
        (310, sends.send_together, False), (320, None, False),
    ]  # fmt: skip
    assert router.route(310).method == sends.send
    assert Route(RequestCode.HEART_BEAT, sends.heartbeat, "admin", is_async=False)[4:] == (None, False)
    assert sends.send_together(None, None, 0) is None


def test_two_handlers_of_one_code_are_refused():
    with pytest.raises(ValueError, match=r"GET_MIN_OFFSET \(31\) is handled by both Offsets.bounds and Other.minimum"):
        Router(Offsets(), Other())


def test_no_handlers_are_no_routes():
    assert Router().codes == ()
