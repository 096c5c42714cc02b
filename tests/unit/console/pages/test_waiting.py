"""Transactions, timed messages, pops and producers at the limits of their pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rocketmq_py.console.checkpoints import Checkpoints
from rocketmq_py.console.pages import waiting as module
from rocketmq_py.console.state import Console
from rocketmq_py.console.views.spark import QueryState
from rocketmq_py.errors import NetworkError, NoRouteError, TopicNotExist
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.bodies.statistics import ProducerInfo
from rocketmq_py.protocol.pop_checkpoint import CheckPoint
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import JSON, NOW, Browser, ConsoleAdmin, browse, read, token

REVIVE = "rmq_sys_REVIVE_LOG_c"
TIMERS = "rmq_sys_wheel_timer"


class Admin(ConsoleAdmin):
    timed: Any = None

    async def timers(self, **_: Any) -> Any:
        if isinstance(self.timed, Exception):
            raise self.timed
        return self.timed

    async def producers(self, **_: Any) -> Any:
        return {
            "p": [ProducerInfo(client_id="a", remote_ip="h", language="JAVA", version=453, last_update_timestamp=NOW)],
            "q": [ProducerInfo(client_id="b")],
        }  # fmt: skip


def half(number: int) -> Any:
    return message(b"b", topic="half", offset=number, at=number, REAL_TOPIC="t", PGROUP="p", UNIQ_KEY=f"U{number}")


class WithoutProducers(ConsoleAdmin):
    async def producers(self, **_: Any) -> Any:
        return {}


def test_queries_are_shown_by_their_checkpoints() -> None:
    admin = WithoutProducers()
    admin.add_topic("t", 1)
    queue = MessageQueue("t", "broker-a", 0)
    admin.add_messages(message(offset=0), message(offset=1))
    states = [
        QueryState("/c/late", "q", 5, NOW, 4, NOW, {queue: 1}, {queue: 2}, is_decided=False, decided=4, attempts=3,
                   topics=("out",)),
        QueryState("/c/away", error="<away>"),
    ]  # fmt: skip

    async def work(browser: Browser, console: Console) -> None:
        assert (await read(browser, "/spark"))["queries"] is None
        object.__setattr__(console, "checkpoints", Checkpoints(lambda: states))
        data = await read(browser, "/spark", checkpoint="/etc")
        assert [(one["checkpoint"], one["lag"], one["isRunning"], one["error"]) for one in data["queries"]] == [
            ("/c/late", 1, True, None), ("/c/away", None, False, "<away>"),
        ]  # fmt: skip
        page = (await browser.get("/spark")).text
        assert "4: 3 tasks count; out · the running one is undecided" in page
        assert "&lt;away&gt;" in page
        assert '<a href="/topics/t">t</a>' in page

    browse(admin, work)


def test_two_hundred_open_transactions_and_as_many_that_were_given_up_are_shown() -> None:
    admin = Admin()

    async def work(browser: Browser, console: Console) -> None:
        for count, left_out in ((199, 0), (200, 0), (201, 1), (205, 5)):
            admin.halves = admin.given_up = [half(number) for number in range(count)]
            data = (await browser.get("/transactions", headers=JSON)).json()
            shown = min(count, 200)
            assert (len(data["open"]), len(data["givenUp"]), data["leftOut"]) == (shown, shown, left_out)
        first = data["open"][0]
        assert (first["topic"], first["group"], first["checks"], first["since"], first["msgId"], first["offset"]) == (
            "t", "p", 0, STORED - 1, "U0", 0,
        )  # fmt: skip
        for error in (NoRouteError("none"), TopicNotExist(17, "none")):

            async def nothing(error: Exception = error) -> Any:
                raise error

            admin.open_transactions = nothing  # type: ignore[method-assign]
            assert (await browser.get("/transactions", headers=JSON)).json()["open"] == []

    browse(admin, work)


def test_a_transaction_is_checked_again_with_the_token_of_the_form_and_recorded() -> None:
    admin = Admin()
    admin.given_up = [half(1)]
    admin.unreachable = {"b": NetworkError("gone")}

    async def work(browser: Browser, console: Console) -> None:
        found = half(1).offset_msg_id
        csrf = await token(browser, "/transactions")
        for form in ({"id": found}, {"id": found, "csrf": "x"}):
            assert (await browser.post("/transactions", data=form, headers=JSON)).status_code == 403
        assert admin.changes == []
        answer = await browser.post("/transactions", data={"id": found, "csrf": csrf}, headers=JSON)
        assert (answer.status_code, len(answer.json()["givenUp"])) == (200, 1)
        assert answer.json()["silent"] == [{"broker": "b", "error": "gone"}]
        [change] = (await read(browser, "/audit"))["changes"]
        assert (change["action"], change["what"], change["result"]) == ("resume transaction", found, "asked")

    browse(admin, work)
    assert admin.changes == [("resume_transaction", half(1).offset_msg_id)]


def test_timed_messages_are_counted_by_topic_and_hour() -> None:
    admin = Admin()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/timers")
        assert (data["topics"], data["later"], data["read"], data["unread"]) == (None, 0, 0, False)
        admin.timed = {"u": {"a": 1}, "t": {"a": 2, "b": 3}}
        admin.add_topic(TIMERS, 1)
        admin.add_messages(*(
            message(topic=TIMERS, offset=at, UNIQ_KEY=f"U{at}", REAL_TOPIC="t", TIMER_OUT_MS=str(NOW + due))
            for at, due in enumerate((1, 3_600_000, 86_399_999, 86_400_000))
        ))  # fmt: skip
        data = await read(browser, "/timers")
        assert data["topics"] == [{"topic": "t", "waiting": 5}, {"topic": "u", "waiting": 1}]
        assert [(number, row["due"]) for number, row in enumerate(data["hours"]) if row["due"]] == [
            (0, 1),
            (1, 1),
            (23, 1),
        ]
        assert [row["from"] for row in data["hours"]] == [NOW + hour * 3_600_000 for hour in range(24)]
        assert (data["later"], data["read"], data["unread"], data["silent"]) == (1, 4, False, [])
        admin.timed = NetworkError("gone")
        assert (await read(browser, "/timers"))["topics"] is None

    browse(admin, work)


def point(number: int) -> bytes:
    return CheckPoint(broker_name="broker-a", group="g", invisible_ms=60_000, count=1, pop_time=NOW, queue_id=0,
                      start_offset=number, topic="t").encode()  # fmt: skip


def test_two_hundred_pops_are_shown_of_all_clusters() -> None:
    admin = Admin()
    admin.info.broker_addr_table["broker-b"] = BrokerData(cluster="d", broker_name="broker-b", broker_addrs={0: "h:1"})

    async def work(browser: Browser, console: Console) -> None:
        assert (await read(browser, "/pops"))["pops"] == []
        admin.add_topic(REVIVE, 1)
        admin.add_topic("rmq_sys_REVIVE_LOG_d", 1)
        admin.add_messages(message(point(500), topic="rmq_sys_REVIVE_LOG_d", offset=0, TAGS="ck"))
        for number in range(199):
            admin.add_messages(message(point(number), topic=REVIVE, offset=number, TAGS="ck"))
        for count, left_out in ((200, 0), (201, 1), (202, 2)):
            data = (await browser.get("/pops", headers=JSON)).json()
            assert (len(data["pops"]), data["leftOut"], data["read"], data["unread"]) == (200, left_out, count, False)
            admin.add_messages(message(point(count - 1), topic=REVIVE, offset=count - 1, TAGS="ck"))
        admin.deleted_before[MessageQueue(REVIVE, "broker-a", 0)] = 200
        assert (await read(browser, "/pops"))["read"] == 3

    browse(admin, work)


def test_five_thousand_records_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module.MOST_SCANNED == 5_000
    monkeypatch.setattr(module, "MOST_SCANNED", 2)
    admin = Admin()
    for topic in (TIMERS, REVIVE):
        admin.add_topic(topic, 1)
        admin.add_messages(*(message(b"x", topic=topic, offset=at) for at in range(3)))

    async def work(browser: Browser, console: Console) -> None:
        for path in ("/timers", "/pops"):
            data = await read(browser, path)
            assert (data["read"], data["unread"]) == (2, True)

    browse(admin, work)


def test_producers_are_listed() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await read(browser, "/producers"))["producers"] == [
            {"group": "p", "clientId": "a", "address": "h", "language": "JAVA", "version": "V5_2_0",
             "lastHeartbeat": NOW},
            {"group": "q", "clientId": "b", "address": "", "language": "OTHER", "version": "V4_0",
             "lastHeartbeat": None},
        ]  # fmt: skip
        table = (await browser.get("/producers?format=csv")).text.splitlines()
        assert table[0] == "group,clientId,address,language,version,lastHeartbeat"

    browse(Admin(), work)


def test_pages_beyond_sixty_four_at_a_time_wait_for_their_turn_and_changes_do_not() -> None:
    class Slow(ConsoleAdmin):
        def __init__(self) -> None:
            super().__init__()
            self.asked, self.may_answer = 0, asyncio.Event()

        async def open_transactions(self) -> Any:
            self.asked += 1
            await self.may_answer.wait()
            return []

    admin = Slow()

    async def work(browser: Browser, console: Console) -> None:
        pages = [asyncio.ensure_future(browser.get("/transactions", headers=JSON)) for _ in range(70)]
        for _ in range(1_000):  # turns of the loop; nothing here waits for anything else
            await asyncio.sleep(0)
        assert admin.asked == 64
        change = await browser.post("/transactions", data={"csrf": "wrong"}, headers=JSON)
        assert change.status_code == 403
        admin.may_answer.set()
        assert {(await page).status_code for page in pages} == {200}
        assert admin.asked == 70

    browse(admin, work)


def test_open_rows_of_spark_queries_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithProducers(ConsoleAdmin):
        async def producers(self, *_: Any, **__: Any) -> Any:
            self._check("producers")
            return {}

    admin = WithProducers()
    properties = {
        "SPARK_QUERY_ID": "q",
        "SPARK_BATCH_ID": "7",
        "SPARK_ATTEMPT": "a",
        "PGROUP": "p-q",
        "REAL_TOPIC": "t",
    }
    admin.halves = [message(b"x", topic="half", **properties)]
    admin.given_up = [message(b"x", topic="half", offset=at, **properties) for at in range(3)]

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/spark")
        [row] = data["batches"]
        assert (row["query"], row["batch"], row["open"], row["givenUp"], row["members"]) == ("q", "7", 1, 3, [])
        assert (data["isCut"], data["leftOut"]) == (False, 0)
        monkeypatch.setattr(module, "MOST_SCANNED", 2)
        data = await read(browser, "/spark")
        assert (data["isCut"], data["batches"][0]["givenUp"]) == (True, 2)
        admin.failures["producers"] = NetworkError("away")
        assert (await read(browser, "/spark"))["batches"][0]["members"] is None
        assert (await browser.get("/spark?format=csv")).text.splitlines()[0].startswith("query,batch,group,")

    browse(admin, work)
