"""Members, lives of messages and costs of topics at the limits of their pages."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.bodies.statistics import ConsumerRunningInfo, CounterValues, CounterWindow, HeldQueue
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import NOW, Browser, ConsoleAdmin, browse, read, status

KEY = '{"topic":"t","brokerName":"broker-a","queueId":1}'


def lived(groups: int = 1) -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.add_topic("t", 1)
    for topic in ("%RETRY%g0", "%DLQ%g0", "RMQ_SYS_TRACE_TOPIC"):
        admin.add_topic(topic, 1)
    admin.consuming["t"] = [f"g{number}" for number in range(groups)]
    admin.add_messages(message(b"a", offset=0, UNIQ_KEY="U"), message(b"b", offset=1, stored=STORED + 9, UNIQ_KEY="U"))
    admin.add_messages(message(b"a", topic="%RETRY%g0", offset=0, stored=STORED + 3, UNIQ_KEY="U"))
    admin.add_messages(message(b"a", topic="%DLQ%g0", offset=4, stored=STORED + 6, UNIQ_KEY="U"))
    entry = ["Pub", str(STORED - 5), "r", "p", "t", "U", "A", "k", "10.0.0.9:1", "20", "12", "0", "OFF", "true", "c:1"]
    trace = ("\x01".join(entry) + "\x02").encode()
    admin.add_messages(message(trace, topic="RMQ_SYS_TRACE_TOPIC", offset=0, UNIQ_KEY="T", KEYS="U"))
    return admin


def test_the_life_of_a_message_is_told_by_time() -> None:
    admin = lived()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/topics/t/messages/broker-a/0/0/life")
        names = ("event", "group", "topic", "offset")
        events = [(one["at"] - STORED, *(one[name] for name in names)) for one in data["events"]]
        assert events == [
            (-5, "traced", "p", "t", None), (0, "sent", None, "t", 0), (3, "retried", "g0", "%RETRY%g0", 0),
            (6, "dead", "g0", "%DLQ%g0", 4), (9, "resent_as", None, "t", 1),
        ]  # fmt: skip
        assert data["events"][1] == {
            "at": STORED, "event": "sent", "group": None, "topic": "t", "broker": "broker-a", "queue": 0, "offset": 0,
            "attempts": 2, "what": None,
        }  # fmt: skip
        assert (data["msgId"], data["topic"], data["broker"], data["queue"], data["offset"]) == (
            "U", "t", "broker-a", 0, 0,
        )  # fmt: skip
        assert (data["groupsLeftOut"], data["silent"]) == (0, [])
        for place, code in ((f"{2**31 - 1}/0", 404), (f"{2**31}/0", 400), ("0/9", 404), ("0/x", 400)):
            assert (await status(browser, f"/topics/t/messages/broker-a/{place}/life"))[0] == code, place
            assert (await status(browser, f"/topics/t/messages/broker-a/{place}"))[0] == code, place
        del admin.topic_table["RMQ_SYS_TRACE_TOPIC"]
        data = await read(browser, "/topics/t/messages/broker-a/0/0/life")
        assert "traced" not in [one["event"] for one in data["events"]]

    browse(admin, work)


@pytest.mark.parametrize(("groups", "left_out"), [(19, 0), (20, 0), (21, 1), (23, 3)])
def test_the_life_in_twenty_groups_is_looked_at(groups: int, left_out: int) -> None:
    admin, asked = lived(groups), list[str]()
    answer = admin.messages_by_key

    async def noted(topic: str, *args: Any, **more: Any) -> Any:
        asked.append(topic)
        return await answer(topic, *args, **more)

    admin.messages_by_key = noted  # type: ignore[method-assign]

    async def work(browser: Browser, console: Console) -> None:
        data = (await browser.get("/topics/t/messages/broker-a/0/0/life?format=json")).json()
        assert data["groupsLeftOut"] == left_out
        for prefix in ("%RETRY%g", "%DLQ%g"):
            assert sum(topic.startswith(prefix) for topic in asked) == min(20, groups)
        data = (await browser.get("/topics/t/cost?format=json")).json()
        assert (data["groupsLeftOut"], len(data["counters"])) == (left_out, 2 + 2 * min(20, groups))

    browse(admin, work)


def test_a_member_shows_its_queues_settings_and_stacks() -> None:
    admin = ConsoleAdmin()
    held = HeldQueue(cached_count=3, cached_max_offset=9, cached_min_offset=4, last_consume_timestamp=NOW - 61_000)

    async def work(browser: Browser, console: Console) -> None:
        for size, shown, is_cut in ((262_143, 262_143, False), (262_144, 262_144, False), (262_145, 262_144, True)):
            admin.running["c"] = ConsumerRunningInfo(
                jstack="x" * size, mq_table={KEY: held},
                properties={"pullThresholdForQueue": "2", "b": "1", "stuckListeners": "x"},
            )  # fmt: skip
            data = (await browser.get("/groups/g/members/c?format=json")).json()
            assert (len(data["stack"]), data["stackCut"]) == (shown, is_cut)
        assert (data["group"], data["clientId"]) == ("g", "c")
        assert data["limits"] == {"count": 2, "mib": None, "span": None}
        assert data["settings"] == {"b": "1", "pullThresholdForQueue": "2"}
        assert data["queues"] == [
            {"topic": "t", "broker": "broker-a", "queue": 1, "cached": 3, "cachedMiB": 0, "span": 5, "paused": "count",
             "lastPull": None, "lastConsume": NOW - 61_000, "locked": False, "stuckSeconds": 61}
        ]  # fmt: skip
        admin.running["c"] = ConsumerRunningInfo()
        data = await read(browser, "/groups/g/members/c")
        assert (data["stack"], data["stackCut"], data["queues"]) == ("", False, [])
        admin.running["c"] = None
        assert await status(browser, "/groups/g/members/c") == (404, "member c of group g does not answer")

    browse(admin, work)


def counted(day: int) -> CounterValues:
    return CounterValues(
        stats_minute=CounterWindow(sum=1), stats_hour=CounterWindow(sum=2), stats_day=CounterWindow(sum=day)
    )


def test_the_cost_of_a_topic() -> None:
    admin = lived()
    admin.info.broker_addr_table["broker-a"].broker_addrs[1] = "10.0.0.9:1"
    admin.info.broker_addr_table["broker-b"] = BrokerData(cluster="d", broker_name="broker-b", broker_addrs={0: "h:1"})
    admin.counters = {
        ("TOPIC_PUT_NUMS", "t"): {"broker-a": counted(10)}, ("TOPIC_PUT_SIZE", "t"): {"broker-a": counted(2_000)},
        ("GROUP_GET_NUMS", "t@g0"): {"broker-a": counted(7), "broker-b": counted(1)},
        ("BROKER_PUT_NUMS", "c"): {"broker-a": counted(30)}, ("BROKER_PUT_NUMS", "d"): {"broker-b": counted(10)},
    }  # fmt: skip

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/topics/t/cost")
        assert [tuple(row.values()) for row in data["counters"]] == [
            ("in", None, "messages", 1, 2, 10), ("in", None, "bytes", 1, 2, 2_000), ("out", "g0", "messages", 2, 4, 8),
            ("out", "g0", "bytes", None, None, None),
        ]  # fmt: skip
        assert (data["topic"], data["copies"], data["share"], data["storedBytes"], data["groupsLeftOut"]) == (
            "t", {"broker-a": 2}, 0.25, 400, 0,
        )  # fmt: skip
        del admin.counters["BROKER_PUT_NUMS", "d"]
        assert (await read(browser, "/topics/t/cost"))["share"] == 0.3333
        admin.failures["counter"] = BrokerError(1, "no")
        data = await read(browser, "/topics/t/cost")
        assert (data["share"], data["storedBytes"], data["counters"][0]["day"]) == (None, None, None)

    browse(admin, work)


@pytest.mark.parametrize(("query", "asked"), [("", (None, None)), ("?topic=t&group=%20g%20", ("t", "g"))])
def test_the_doctor_examines_what_is_asked_for(monkeypatch: pytest.MonkeyPatch, query: str, asked: object) -> None:
    told: list[Any] = []

    async def examine(admin_of: Any, namesrv: str, *names: str | None) -> list[Any]:
        told.append((namesrv, *names))
        return []

    monkeypatch.setattr("rocketmq_py.console.pages.details.examine", examine)

    async def work(browser: Browser, console: Console) -> None:
        data = (await browser.get(f"/doctor{query}", headers={"accept": "application/json"})).json()
        assert data["checks"] == []

    browse(ConsoleAdmin(), work)
    assert told == [("ns:9876", *asked)]  # type: ignore[misc]
