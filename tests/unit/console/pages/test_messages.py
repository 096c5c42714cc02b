"""Messages: limits of queues, groups and texts."""

from __future__ import annotations

from typing import Any

from rocketmq_py.console.pages import messages as module
from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status


def test_the_queues_that_were_written_last_are_read() -> None:
    admin = ConsoleAdmin()
    for count in (255, 256, 257):
        admin.add_topic(f"t{count}", count)
        for number in range(count):
            admin.add_messages(message(topic=f"t{count}", queue=number, offset=0, stored=STORED + number))

    async def work(browser: Browser, console: Console) -> None:
        for count, left_out in ((255, 0), (256, 0), (257, 1)):
            admin.changes.clear()
            data = (await browser.get(f"/topics/t{count}/messages?size=2", headers=JSON)).json()
            assert data["queuesLeftOut"] == left_out
            asked = {change[1].queue_id for change in admin.changes if change[0] == "pull"}
            assert asked == set(range(left_out, count))
            assert [row["queue"] for row in data["messages"]] == [count - 1, count - 2]

    browse(admin, work)


def test_messages_are_found_by_a_property() -> None:
    admin = ConsoleAdmin()
    admin.add_topic("t", 1)
    admin.add_messages(
        *(message(offset=number, stored=STORED + number, KEYS="k", **more)
          for number, more in enumerate(({"a": "1"}, {"a": "2"}, {}, {"a": "1", "b": "<x>"}, {"a": "11"})))
    )  # fmt: skip

    async def work(browser: Browser, console: Console) -> None:
        for asked, offsets in (
            ({"property": "a", "value": "1"}, [3, 0]), ({"property": "a"}, [4, 3, 1, 0]), ({"property": "A"}, []),
            ({"property": "a", "value": "1", "size": "1"}, [3]), ({"value": "1"}, [4, 3, 2, 1, 0]),
            ({"property": " a ", "value": " 1 "}, [3, 0]), ({"property": "a", "value": "1", "key": "k"}, [3, 0]),
            ({"property": "KEYS", "value": "k", "since": str(STORED + 3)}, [4, 3]),
        ):  # fmt: skip
            data = await read(browser, "/topics/t/messages", **asked)
            assert [row["offset"] for row in data["messages"]] == offsets, asked
        data = await read(browser, "/topics/t/messages", property="a", value="1", size="1")
        older = await read(browser, "/topics/t/messages", property="a", value="1", size="1", left=data["left"])
        assert [row["offset"] for row in older["messages"]] == [0]
        page = (await browser.get("/topics/t/messages?property=b&value=%3Cx%3E&size=1")).text
        assert 'name="value" value="&lt;x&gt;"' in page
        rows = (await browser.get("/topics/t/messages?property=a&value=2&format=csv")).text.splitlines()
        assert len(rows) == 2

    browse(admin, work)


def test_what_cannot_be_read_is_named() -> None:
    admin = ConsoleAdmin()
    admin.add_topic("t", 1)

    async def work(browser: Browser, console: Console) -> None:
        assert await status(browser, "/topics/t/messages", queue="b:9") == (
            404, "topic t has no queue b:9; write BROKER:NUMBER",
        )  # fmt: skip
        assert await status(browser, "/topics/t/messages", until="x") == (
            400, "until='x' is no time: write 2026-01-31T12:30 (UTC), or 2h for two hours ago",
        )  # fmt: skip
        data = await read(browser, "/topics/t/messages", key=" ", tags=" ")
        assert (data["asked"]["key"], data["messages"], data["lookedAt"], data["more"]) == ("", [], 0, False)

    browse(admin, work)


def test_queues_of_brokers_without_a_first_message_begin_at_zero() -> None:
    admin = ConsoleAdmin()
    admin.add_topic("t", 1)
    queue = MessageQueue("t", "broker-a", 0)
    admin.add_messages(message(offset=0), message(offset=1))

    async def stats(topic: str) -> Any:
        return {queue: TopicOffset(min_offset=-1, max_offset=2)}

    admin.topic_stats = stats  # type: ignore[method-assign]

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/topics/t/messages")
        assert ([row["offset"] for row in data["messages"]], data["lookedAt"]) == ([1, 0], 2)

    browse(admin, work)


def test_a_key_finds_at_most_sixty_four_messages() -> None:
    assert (module.MOST_BY_KEY, module.MOST_GROUPS) == (64, 20)
    admin = ConsoleAdmin()
    admin.add_topic("t", 1)
    admin.add_messages(*(message(offset=at, KEYS="k") for at in range(63)))

    async def work(browser: Browser, console: Console) -> None:
        for count, shown, more in ((63, 63, False), (64, 64, True), (65, 64, True)):
            data = (await browser.get("/topics/t/messages?key=k", headers=JSON)).json()
            assert (len(data["messages"]), data["more"]) == (shown, more)
            admin.add_messages(message(offset=count, KEYS="k"))

    browse(admin, work)


def test_four_groups_are_asked_about_a_message_at_a_time_and_one_message_is_read() -> None:
    import asyncio

    admin = ConsoleAdmin()
    admin.add_topic("t", 1)
    admin.add_messages(message(b"{}", offset=0, UNIQ_KEY="U"), message(offset=1))
    admin.consuming["t"] = [f"g{number}" for number in range(9)]
    running, most, read_at_once = 0, 0, list[int]()
    pull = admin.pull

    async def members(group: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async def pulled(*args: Any, max_messages: int = 32, **more: Any) -> Any:
        read_at_once.append(max_messages)
        return await pull(*args, max_messages=max_messages, **more)

    admin.members = members  # type: ignore[assignment,method-assign]
    admin.pull = pulled  # type: ignore[method-assign]

    async def work(browser: Browser, console: Console) -> None:
        data = (await browser.get("/topics/t/messages/broker-a/0/0", headers=JSON)).json()
        assert [row["group"] for row in data["groups"]] == [f"g{number}" for number in range(9)]
        assert (data["groupsLeftOut"], data["decoders"], data["trace"], data["traceDamaged"]) == (
            0, ["auto", "json", "text", "hex"], [], 0,
        )  # fmt: skip
        assert data["groups"][0]["status"] == "waiting"

    browse(admin, work)
    assert (most, read_at_once) == (4, [1])
