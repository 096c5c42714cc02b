"""Pages about consumer groups and messages: what they show, what is not known, where they lead."""

from __future__ import annotations

import json

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, NetworkError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection, MessageQueueBody, SubscriptionData
from rocketmq_py.protocol.bodies.statistics import ConsumeRates, ConsumerRunningInfo, ConsumeTimes, HeldQueue
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import JSON, NOW, Q0, Q1, Browser, ConsoleAdmin, browse, read, status

# -- groups


def key(queue: int) -> str:
    return json.dumps({"topic": "t", "brokerName": "broker-a", "queueId": queue})


def consuming() -> ConsoleAdmin:
    """Group g has two members, of which one answers; h has offsets only, i nothing, and one is internal."""
    admin = ConsoleAdmin()
    admin.add_topic("t", 2)
    admin.add_topic("%DLQ%g", 1)
    for name in ("g", "i", "CID_RMQ_SYS_TRANS"):
        admin.add_group(name, retry_max_times=5)
    admin.add_messages(*(message(b"%d" % at, offset=at, stored=STORED + at) for at in range(10)))
    admin.deleted_before[Q0] = 4
    admin.commit("g", Q0, 3, 10, consumed_at=STORED)
    admin.commit("g", Q1, 2, 2)
    admin.commit("h", Q0, 1, 101)
    admin.connected["g"] = ConsumerConnection(
        connection_set=[
            ConnectionInfo(client_id="c1", client_addr="h:1", language="JAVA", version=453),
            ConnectionInfo(client_id="c2", client_addr="h:2"),
        ],
        subscription_table={"t": SubscriptionData(topic="t", sub_string="a || b")},
        message_model="CLUSTERING",
    )
    held = HeldQueue(cached_count=7, last_pull_timestamp=STORED)
    admin.running = {
        "c1": ConsumerRunningInfo(
            mq_table={key(0): held, key(1): HeldQueue(dropped=True, cached_count=2)}, mq_pop_table={key(1): {}},
            status_table={"t": ConsumeRates(consume_ok_tps=1.254, consume_failed_tps=0.5),
                          "u": ConsumeRates(consume_ok_tps=1)},
        )
    }  # fmt: skip
    admin.times[Q0] = ConsumeTimes(message_queue=MessageQueueBody(topic="t", broker_name="broker-a", queue_id=0),
                                   delay_time=1_500)  # fmt: skip
    admin.times[Q1] = ConsumeTimes(message_queue=MessageQueueBody(topic="t", broker_name="broker-a", queue_id=1),
                                   delay_time=99)  # fmt: skip
    return admin


def test_groups_are_listed_by_name_or_lag() -> None:
    admin = consuming()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/groups")
        assert [(row["group"], row["lag"], row["topics"], row["queues"], row["members"]) for row in data["groups"]] == [
            ("g", 7, 1, 2, 2), ("h", 100, 1, 1, 0), ("i", None, None, None, 0),
        ]  # fmt: skip
        first = data["groups"][0]
        assert (first["lastConsumed"], first["deadLetters"]) == (STORED, True)
        assert [row["deadLetters"] for row in data["groups"]] == [True, False, False]
        assert [row["lastConsumed"] for row in data["groups"][1:]] == [None, None]
        data = await read(browser, "/groups", sort="lag")
        assert [row["group"] for row in data["groups"]] == ["h", "g", "i"]
        assert [row["group"] for row in (await read(browser, "/groups", q="H"))["groups"]] == ["h"]
        data = await read(browser, "/groups", size=2, page=2)
        assert ([row["group"] for row in data["groups"]], data["pages"]["pages"]) == (["i"], 2)
        for params in ({"sort": "x"}, {"size": "201"}, {"size": "0"}, {"page": "0"}):
            assert (await status(browser, "/groups", **params))[0] == 400
        await read(browser, "/groups", size=200)
        console.connection.forget()
        admin.failures["all_progress"] = BrokerError(1, "no")
        data = await read(browser, "/groups")
        assert [(row["group"], row["lag"], row["queues"]) for row in data["groups"]] == [
            ("g", None, None), ("i", None, None),
        ]  # fmt: skip
        assert (await read(browser, "/groups/i"))["lag"] is None

    browse(admin, work)


def test_a_group_shows_queues_owners_members_and_subscriptions() -> None:
    admin = consuming()
    answer = admin.running_info

    async def running_info(group: str, client_id: str, **_: object) -> object:
        if client_id == "c2":
            raise NetworkError("gone")
        return await answer(group, client_id)

    admin.running_info = running_info  # type: ignore[method-assign]

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/groups/g")
        first, second = data["queues"]
        assert first == {
            "topic": "t", "broker": "broker-a", "queue": 0, "minOffset": 4, "committed": 3, "maxOffset": 10, "lag": 7,
            "expired": 1, "waitingMs": 1_500, "lastConsumed": STORED, "owner": "c1", "held": 7, "lastPull": STORED,
        }  # fmt: skip
        assert (second["expired"], second["waitingMs"], second["owner"], second["held"], second["lastConsumed"]) == (
            0, 0, "c1", None, None,
        )  # fmt: skip
        assert (data["lag"], data["model"], data["notAsked"], data["deadLetters"]) == (7, "CLUSTERING", 0, True)
        assert data["topics"] == [{"topic": "t", "queues": 2, "lag": 7, "lastConsumed": STORED}]
        one, two = data["members"]
        assert (one["clientId"], one["address"], one["language"], one["queues"], one["held"]) == (
            "c1", "h:1", "JAVA", 3, 9,
        )  # fmt: skip
        assert (one["consumedPerSecond"], one["failedPerSecond"]) == (2.25, 0.5)
        assert [two[name] for name in ("queues", "held", "consumedPerSecond", "failedPerSecond")] == [None] * 4
        assert data["subscriptions"] == [{"topic": "t", "type": "TAG", "expression": "a || b"}]
        assert data["configs"] == [
            {"broker": "broker-a", "consumeEnable": True, "broadcastEnable": True, "orderly": False, "retryMaxTimes": 5}
        ]  # fmt: skip
        only_offsets = await read(browser, "/groups/h")
        assert (only_offsets["lag"], only_offsets["model"], only_offsets["members"]) == (100, None, [])
        assert (await status(browser, "/groups/nobody")) == (404, "there is no consumer group nobody")
        many = [ConnectionInfo(client_id=f"m{number}", client_addr="h:1") for number in range(35)]
        admin.connected["g"] = ConsumerConnection(connection_set=many)
        admin.running = {one.client_id: ConsumerRunningInfo() for one in many}
        data = await read(browser, "/groups/g")
        assert (data["notAsked"], [row["queues"] for row in data["members"]]) == (3, [0] * 32 + [None] * 3)
        for name in ("consume_times", "route"):
            admin.failures[name] = BrokerError(1, "no")
        admin.deleted_before.clear()
        row = (await read(browser, "/groups/g"))["queues"][0]
        assert row["waitingMs"] is None

    browse(admin, work)


def test_pages_show_fifty_rows_unless_told_otherwise() -> None:
    admin = ConsoleAdmin()
    admin.add_topic("%DLQ%g", 1)
    for number in range(60):
        admin.add_group(f"g{number:02}")
        admin.add_topic(f"t{number:02}", 1)
        admin.add_messages(message(topic="%DLQ%g", offset=number), message(topic="t00", offset=number))
        admin.commit("g", MessageQueue(f"t{number:02}", "broker-a", 0), 0, 60)
    asked: list[str] = []

    async def topic_stats(topic: str) -> dict[MessageQueue, TopicOffset]:
        asked.append(topic)
        return await ConsoleAdmin.topic_stats(admin, topic)

    async def work(browser: Browser, console: Console) -> None:
        for path, name in (("/topics", "topics"), ("/groups", "groups"), ("/groups/g/dead", "messages"),
                           ("/topics/t00/messages", "messages")):  # fmt: skip
            assert len((await read(browser, path))[name]) == 50, path
        asked.clear()
        admin.topic_stats = topic_stats  # type: ignore[method-assign]
        page = await browser.get("/groups/g", headers=JSON)
        assert len(page.json()["queues"]) == 60
        assert asked == [f"t{number:02}" for number in range(20)], "a page asks about so many topics at most"

    browse(admin, work)


class Counted(ConsoleAdmin):
    """A cluster of 1,000 topics of 8 queues, 500 groups and 10,000 dead letters, which counts what is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, int] = {}
        for number in range(1_000):
            self.add_topic(f"t{number:03}", 8)
        for number in range(500):
            self.add_group(f"g{number:03}")
            for queue in range(8):
                self.commit(f"g{number:03}", MessageQueue(f"t{number:03}", "broker-a", queue), 0, number)
        for number in range(1_000):
            for queue in range(8):
                self.commit("g000", MessageQueue(f"t{number:03}", "broker-a", queue), 0, number)
        self.add_topic("%DLQ%g001", 1)
        self.add_messages(*(message(topic="%DLQ%g001", offset=number) for number in range(10_000)))

    def _check(self, name: str) -> None:
        self.asked[name] = self.asked.get(name, 0) + 1
        super()._check(name)


def test_pages_of_a_large_cluster_have_bounded_rows_and_ask_a_bounded_number_of_times() -> None:
    admin = Counted()

    async def work(browser: Browser, console: Console) -> None:
        for path, rows, asked in (
            ("/topics", 51, 52), ("/topics?page=20", 51, 50), ("/topics?size=200", 201, 200), ("/topics/t001", 11, 8),
            ("/groups", 51, 54), ("/groups?sort=lag", 51, 50), ("/groups?size=200", 201, 200),
            ("/groups/g001", 13, 8), ("/groups/g000", 516, 64), ("/groups/g000?page=32", 324, 62),
            ("/groups/g001/dead", 51, 16), ("/groups/g001/dead?size=200", 201, 22),
        ):  # fmt: skip
            admin.asked.clear()
            page = await browser.get(path)
            assert page.status_code == 200, path
            assert page.text.count("<tr") <= rows, path
            assert sum(admin.asked.values()) <= asked, (path, admin.asked)
        data = (await browser.get("/groups/g000", headers=JSON)).json()
        assert (len(data["topics"]), data["topicsLeftOut"], data["topics"][0]["lag"]) == (256, 744, 8 * 999)
        assert data["lag"] == 8 * sum(range(1_000))
        assert (len(data["queues"]), data["pages"]["total"]) == (256, 8_000)
        last = (await browser.get("/groups/g000?page=32", headers=JSON)).json()["queues"][-1]
        assert (last["topic"], last["queue"], last["minOffset"]) == ("t999", 7, 0), "its own topics are asked about"

    browse(admin, work)


# -- messages


def stored() -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.add_topic("t", 2)
    for at in range(6):
        admin.add_messages(
            message(
                b'{"n":%d}' % at,
                queue=at % 2,
                offset=at // 2,
                stored=STORED + 1_000 * at,
                at=1024 * at,
                UNIQ_KEY=f"U{at}",
                KEYS="k" if at < 2 else "other",
                TAGS="A",
            )
        )
    return admin


def test_messages_are_listed_newest_first_in_parts() -> None:
    admin = stored()

    async def work(browser: Browser, console: Console) -> None:
        url = "/topics/t/messages"
        data = await read(browser, url, size=4)
        assert [row["msgId"] for row in data["messages"]] == ["U5", "U4", "U3", "U2"]
        assert (data["stopped"], data["queuesLeftOut"], data["more"], data["lookedAt"]) == (None, 0, False, 6)
        assert data["left"]
        data = await read(browser, url, size=4, left=data["left"])
        assert ([row["msgId"] for row in data["messages"]], data["left"]) == (["U1", "U0"], None)
        assert data["messages"][0] == {
            "stored": STORED + 1_000, "topic": "t", "broker": "broker-a", "queue": 1, "offset": 0, "msgId": "U1",
            "tags": "A", "keys": "k", "size": 7, "body": '{"n":1}',
        }  # fmt: skip
        found = {
            "key": ({"key": "k"}, ["U1", "U0"]), "id": ({"key": "U3"}, ["U3"]),
            "queue": ({"queue": "broker-a:1"}, ["U5", "U3", "U1"]),
            "since": ({"since": str(STORED + 4_000)}, ["U5", "U4"]),
            "until": ({"until": str(STORED + 1_000)}, ["U1", "U0"]),
            "both": ({"since": str(STORED + 1_000), "until": str(STORED + 2_999)}, ["U2", "U1"]),
        }  # fmt: skip
        for name, (params, ids) in found.items():
            data = await read(browser, url, **params)
            assert [row["msgId"] for row in data["messages"]] == ids, name
        for params, code in (
            ({"queue": "x:1"}, 404),
            ({"since": "x"}, 400),
            ({"size": "201"}, 400),
            ({"left": "x"}, 400),
        ):
            assert (await status(browser, url, **params))[0] == code
        await read(browser, url, tags="A || B")
        assert {change[3] for change in admin.changes if change[0] == "pull"} == {"*", "A || B"}
        admin.add_messages(*(message(b"m", offset=3 + at, stored=NOW, UNIQ_KEY=f"M{at}", KEYS="m") for at in range(64)))
        data = await read(browser, url, key="m")
        assert (len(data["messages"]), data["more"], data["lookedAt"]) == (64, True, None)
        assert (await read(browser, url, key="k"))["more"] is False

    browse(admin, work)


def test_a_form_and_an_id_lead_to_a_message() -> None:
    admin = stored()

    async def work(browser: Browser, console: Console) -> None:
        jump = await browser.get("/topics/t/jump", params={"queue": "broker:a/b:1", "offset": "7"})
        assert (jump.status_code, jump.headers["location"]) == (303, "/topics/t/messages/broker%3Aa%2Fb/1/7")
        jump = await browser.get("/topics/a%25b/jump", params={"queue": "1", "offset": "7"})
        assert jump.headers["location"] == "/topics/a%25b/messages/-/1/7"
        for params in ({"queue": "x", "offset": "1"}, {"queue": "b:1", "offset": "-1"}):
            assert (await browser.get("/topics/t/jump", params=params)).status_code == 400
        one = admin.stored[Q1][2]
        moved = await browser.get(f"/messages/{one.offset_msg_id}")
        assert (moved.status_code, moved.headers["location"]) == (303, "/topics/t/messages/broker-a/1/2")
        assert (await browser.get(f"/messages/{'0' * 32}")).status_code == 404
        assert (await browser.get("/messages/x")).status_code == 400

    browse(admin, work)


def test_a_message_shows_its_fields_body_groups_and_trace() -> None:
    admin = stored()
    admin.consuming["t"] = [f"g{number}" for number in range(23)]
    for number in range(23):
        admin.commit(f"g{number}", Q1, 2)
    entry = ["Pub", str(STORED), "r", "g", "t", "U3", "A", "k", "10.0.0.9:1", "20", "12", "0", "OFF", "true", "c:1"]
    trace = ("\x01".join(entry) + "\x02").encode()
    admin.add_topic("RMQ_SYS_TRACE_TOPIC", 1)
    admin.add_messages(
        message(trace, topic="RMQ_SYS_TRACE_TOPIC", offset=0, UNIQ_KEY="T0", KEYS="U3"),
        message(b"Pub\x01x\x02", topic="RMQ_SYS_TRACE_TOPIC", offset=1, UNIQ_KEY="T1", KEYS="U3"),
    )
    admin.add_messages(message(b"x" * 70_000, offset=3, UNIQ_KEY="U6", own="mine"))

    async def work(browser: Browser, console: Console) -> None:
        url = "/topics/t/messages/broker-a"
        data = await read(browser, f"{url}/1/1")
        assert data["message"]["body"] == {
            "text": '{\n  "n": 3\n}', "decoder": "json", "shownBytes": 7, "bytes": 7, "cut": False,
            "base64": "eyJuIjozfQ==",
        }  # fmt: skip
        assert data["message"]["systemProperties"]["UNIQ_KEY"] == "U3"
        assert (data["message"]["flag"], data["message"]["storeSize"]) == (7, 100)
        assert ([row["group"] for row in data["groups"]], data["groupsLeftOut"]) == ([f"g{n}" for n in range(20)], 3)
        assert {row["status"] for row in data["groups"]} == {"consumed"}
        assert [(row["group"], row["costMs"], row["success"]) for row in data["trace"]] == [("g", 12, True)]
        assert data["traceDamaged"] == 1
        hexadecimal = await read(browser, f"{url}/1/1", decoder="hex")
        assert hexadecimal["message"]["body"]["decoder"] == "hex"
        raw = await browser.get(f"{url}/1/1", params={"format": "raw"})
        assert (raw.content, raw.headers["content-type"]) == (b'{"n":3}', "application/octet-stream")
        assert 'filename="message-1-1.bin"' in raw.headers["content-disposition"]
        long = (await read(browser, f"{url}/0/3"))["message"]
        assert (long["body"]["cut"], long["body"]["base64"], long["properties"]) == (True, None, {"own": "mine"})
        long = (await read(browser, f"{url}/0/3", body="all"))["message"]
        assert (long["body"]["cut"], long["body"]["shownBytes"]) == (False, 70_000)
        assert (await status(browser, f"{url}/1/1", decoder="x"))[0] == 400
        code, why = await status(browser, f"{url}/1/99")
        assert (code, why.endswith("has no message at 99; it has those from 0 to before 3")) == (404, True)
        assert (await status(browser, f"{url}/{2**31}/1"))[0] == 400
        admin.failures["messages_by_key"] = BrokerError(1, "no")
        data = await read(browser, f"{url}/1/1")
        assert (data["trace"], data["traceDamaged"], data["groups"], data["groupsLeftOut"]) == (None, 0, [], 23)

        async def refused(_: str) -> list[str]:
            raise BrokerError(1, "no")

        admin.topic_groups = refused  # type: ignore[method-assign]
        data = await read(browser, f"{url}/1/1")
        assert (data["groups"], data["groupsLeftOut"]) == (None, 0), "nobody knows: not that there is none"

    browse(admin, work)
