"""Rates and lags over time, as their pages show them."""

from __future__ import annotations

from rocketmq_py.console.history import GroupSamples
from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageQueue
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def test_rates_have_a_series_for_each_broker_and_the_newest_thirty_rows() -> None:
    async def work(browser: Browser, console: Console) -> None:
        history = console.history
        history._rates_seen = 0.0
        history.rates.append((1, {"b:0": (1.0, 2.0)}))
        for at in range(2, 33):
            history.rates.append((at, {"c:0": (0.5 * at, None), "b:0": (3.0, 4.0)}))
        data = (await browser.get("/rates", headers=JSON)).json()
        assert (data["intervalSeconds"], data["at"]) == (5.0, list(range(1, 33)))
        assert [(one["name"], one["values"][:2]) for one in data["series"]] == [
            ("b:0 in", [1.0, 3.0]), ("b:0 out", [2.0, 4.0]), ("c:0 in", [None, 1.0]), ("c:0 out", [None, None]),
        ]  # fmt: skip
        assert [(row["at"], row["broker"]) for row in data["rows"]] == [
            (at, name) for at in range(32, 2, -1) for name in ("b:0", "c:0")
        ]
        assert data["rows"][:2] == [
            {"at": 32, "broker": "b:0", "inPerSecond": 3.0, "outPerSecond": 4.0},
            {"at": 32, "broker": "c:0", "inPerSecond": 16.0, "outPerSecond": None},
        ]

    browse(ConsoleAdmin(), work)


def test_lags_of_a_group_have_their_extremes_and_the_last_thirty_times() -> None:
    samples = GroupSamples()
    samples.add(1, {Q1: 5, Q0: -1}, {Q0: "x"})
    samples.add(2, {Q1: 9, Q0: -1}, {Q0: "y"})
    for at in range(3, 33):
        samples.add(at, {Q1: 7 if at < 32 else 6, Q0: -1}, None)
    lost = GroupSamples()
    lost.add(1, {Q0: -2, Q1: 0}, None)

    async def work(browser: Browser, console: Console) -> None:
        console.history._groups["g"] = samples
        console.history._groups["h"] = lost
        data = (await browser.get("/groups/g/history", headers=JSON)).json()
        assert data["queues"] == [
            {"topic": "t", "broker": "broker-a", "queue": 0, "lag": None, "least": None, "most": None, "lost": False},
            {"topic": "t", "broker": "broker-a", "queue": 1, "lag": 6, "least": 5, "most": 9, "lost": False},
        ]
        totals = [5, 9, *[7] * 29, 6]
        assert (data["total"], data["series"], data["at"]) == (
            totals, [{"name": "lag", "values": totals}], list(range(1, 33)),
        )  # fmt: skip
        assert [(one["at"], one["lag"]) for one in data["last"]] == [(32, 6), *((at, 7) for at in range(31, 2, -1))]
        assert (data["group"], data["intervalSeconds"], data["leftOut"]) == ("g", 5.0, 0)
        assert [cells[:2] for cells in data["cells"]] == [[-1, -1], [5, 9]]
        assert [(one["at"], one["before"], one["after"]) for one in data["changes"]] == [(2, "x", "y")]
        data = (await browser.get("/groups/h/history", headers=JSON)).json()
        assert [(row["lag"], row["lost"]) for row in data["queues"]] == [(0, True), (0, False)]

    browse(ConsoleAdmin(), work)
