"""The overview and the search at their limits."""

from __future__ import annotations

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.route import BrokerData
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read


def test_the_overview_asks_two_hundred_and_fifty_six_brokers() -> None:
    admin = ConsoleAdmin()
    admin.info.broker_addr_table.clear()
    for number in range(257):
        data = BrokerData(cluster="c", broker_name=f"b{number:03}", broker_addrs={0: f"h:{number:05}"})
        admin.info.broker_addr_table[data.broker_name] = data
        admin.states[f"h:{number:05}"] = {"brokerVersionDesc": "V"}
    admin.states["h:00003"] = BrokerError(1, "no")

    async def work(browser: Browser, console: Console) -> None:
        data = (await browser.get("/", headers=JSON)).json()
        assert (data["asked"], len(data["brokers"])) == (256, 257)
        versions = [row["version"] for row in data["brokers"]]
        assert versions == ["V"] * 3 + [None] + ["V"] * 252 + [None]
        assert "no" in data["brokers"][3]["error"]

    browse(admin, work)


def test_a_hundred_names_are_found_and_the_others_are_counted() -> None:
    admin = ConsoleAdmin()
    for number in range(100):
        admin.add_topic(f"name{number:03}")
        admin.add_group(f"name{number:03}")

    async def work(browser: Browser, console: Console) -> None:
        for count, more in ((100, 0), (101, 1), (102, 2)):
            data = (await browser.get("/search?q=NAME", headers=JSON)).json()
            assert (len(data["topics"]), data["moreTopics"], len(data["groups"]), data["moreGroups"]) == (
                100, more, 100, more,
            )  # fmt: skip
            admin.add_topic(f"name{count:03}")
            admin.add_group(f"name{count:03}")
            console.connection.forget()
        assert (await read(browser, "/search", q="x" * 300))["q"] == "x" * 255

    browse(admin, work)


def test_changes_are_a_table() -> None:
    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/audit")
        assert data == {"changes": []}
        assert (await browser.get("/audit?format=csv")).text == "at,who,from,action,group,topic,what,result\r\n"

    browse(ConsoleAdmin(), work)
