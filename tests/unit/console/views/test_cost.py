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


def test_each_span_has_its_own_sum():
    windows = {f"stats_{name}": CounterWindow(sum=sum_) for name, sum_ in (("minute", 1), ("hour", 2), ("day", 3))}
    one = CounterValues(**windows)
    found = row("out", "g", "messages", {"a": one, "b": one})
    assert found == {"direction": "out", "group": "g", "unit": "messages", "minute": 2, "hour": 4, "day": 6}
    assert row("out", "g", "messages", None) == found | dict.fromkeys(["minute", "hour", "day"])


def test_a_share_is_rounded_and_at_most_all_and_nothing_of_something_is_nothing():
    assert [share(*pair) for pair in ((5, 4), (1, 3), (0, 4), (0, None), (None, None))] == [
        1.0,
        0.3333,
        0.0,
        None,
        None,
    ]
    assert stored_bytes(10, {"day": 0}, {"day": 300}) is None
    assert stored_bytes(0, {"day": 2}, {"day": 300}) == stored_bytes(10, {"day": 2}, {"day": 0}) == 0
    assert stored_bytes(10, {"day": 3}, {"day": 10}) == 33
    assert stored_bytes(10, {"day": 3}, {"day": None}) is None
