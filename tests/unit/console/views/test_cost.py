"""The cost of a topic: sums, shares, an estimate of what is stored."""

from rocketmq_py.console.views.cost import row, share, stored_bytes
from rocketmq_py.protocol.bodies.statistics import CounterValues, CounterWindow


def test_sums_are_over_brokers_and_unknown_is_not_zero():
    one = CounterValues(stats_minute=CounterWindow(sum=1), stats_day=CounterWindow(sum=5))
    assert row("in", None, "bytes", {"a": one, "b": one})["day"] == 10
    assert row("in", None, "bytes", {})["day"] is None


def test_shares_and_estimates_need_their_figures():
    assert (share(1, 4), share(None, 4), share(1, 0)) == (0.25, None, None)
    assert stored_bytes(10, {"day": 2}, {"day": 300}) == 1500
    assert stored_bytes(None, {"day": 2}, {"day": 1}) is stored_bytes(1, {"day": None}, {"day": 1}) is None
