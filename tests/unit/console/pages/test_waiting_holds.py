"""The page of what brokers hold until messages arrive."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.console.pages import waiting
from rocketmq_py.console.state import Console
from rocketmq_py.errors import NetworkError, PermissionDenied
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.bodies.statistics import HeldRequest, HeldRequests
from tests.unit.console.browsing import NOW, Browser, ConsoleAdmin, browse, read, status


class Admin(ConsoleAdmin):
    """Two brokers, of which one is Java's and tells nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.info.broker_addr_table["java"] = BrokerData(cluster="c", broker_name="java", broker_addrs={0: "h:2"})
        self.asked: list[tuple[str, str]] = []
        self.answers: dict[str, HeldRequests] = {}

    async def held(self, topic: str = "", group: str = "", *, cluster: str | None = None) -> Any:
        self._check("held")
        self.asked.append((topic, group))
        return self.answers


def one(kind: str, since: int, **more: Any) -> HeldRequest:
    usual: dict[str, Any] = {"topic": "t", "queue_id": 1, "consumer_group": "g", "client_addr": "h:9", "until": NOW}
    return HeldRequest(kind=kind, since=since, **usual | more)


def test_waits_are_listed_and_what_nobody_told_is_unknown() -> None:
    admin = Admin()
    admin.answers["broker-a"] = HeldRequests(
        held=[one("pop", NOW - 1_000, queue_id=-1), one("pull", NOW - 9_000, offset=0)], total=7
    )

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/holds", topic=" t ", group="g")
        assert [(row["kind"], row["queue"], row["offset"], row["waitedMs"]) for row in data["holds"]] == [
            ("pull", 1, 0, 9_000), ("pop", None, None, 1_000),
        ]  # fmt: skip
        assert (data["total"], data["listed"], data["isCut"], data["untold"]) == (7, 2, False, ["java"])
        table = (await browser.get("/holds?format=csv")).text.splitlines()
        assert table[1].startswith("broker-a,pull,t,1,g,h:9,0,")
        page = (await browser.get("/holds", headers={"accept": "text/html"})).text
        assert ("9 s" in page, 'href="/groups/g"' in page, "java" in page) == (True, True, True)
        admin.answers = {}
        admin.unreachable["java"] = NetworkError("away")
        data = await read(browser, "/holds")
        assert (data["total"], data["untold"], len(data["silent"])) == (None, ["broker-a"], 1)
        admin.failures["held"] = PermissionDenied(16, "not yours")
        assert (await status(browser, "/holds"))[0] == 403

    browse(admin, work)
    assert admin.asked[0] == ("t", "g")


def test_a_long_list_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST_HOLDS", 2)
    admin = Admin()
    admin.answers["broker-a"] = HeldRequests(held=[one("pull", at) for at in (3, 1, 2)], total=3)

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/holds")
        assert ([row["since"] for row in data["holds"]], data["isCut"]) == ([1, 2], True)
        admin.answers = {"broker-a": HeldRequests(held=[one("pull", 1)], total=9, is_cut=True)}
        assert (await read(browser, "/holds"))["isCut"] is True

    browse(admin, work)
