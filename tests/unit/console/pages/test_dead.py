"""Dead letters: limits, marks, and how they are sent."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.console.pages.dead import _move_marks, _obstacle, _picks, _receiver
from rocketmq_py.console.security import Refused
from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import TopicOffset
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status, token

DEAD = MessageQueue("%DLQ%g", "broker-a", 0)
RESEND = "/groups/g/dead/resend"


def test_from_one_to_two_hundred_are_chosen_each_once() -> None:
    texts = [f"b:0:{number}" for number in range(201)]
    assert len(_picks("t", texts[:200])) == 200
    assert _picks("t", ["b:1:0", "b:0:9", "b:0:9"]) == [(MessageQueue("t", "b", 0), 9), (MessageQueue("t", "b", 1), 0)]
    for wrong, why in (
        ([], "no dead letter is chosen"),
        (texts, "201 dead letters are more than one request resends: 200"),
    ):
        with pytest.raises(Refused, match=why) as refused:
            _picks("t", wrong)
        assert refused.value.status == 400
    with pytest.raises(Refused, match="to='x' is not one of topic, group"):
        _receiver("x")
    assert [_receiver(text) for text in ("topic", "group")] == ["topic", "group"]


@pytest.mark.parametrize(
    ("mark", "first", "sent", "moved"),
    [
        (None, 0, [0, 1], 2), (None, 0, [1, 2], None), (None, 2, [2, 3], 4), (1, 0, [1, 3], 2), (3, 0, [1, 2], None),
        (1, 3, [3], 4), (0, 0, [], None), (5, 0, [5, 6, 7], 8),
    ],
)  # fmt: skip
async def test_a_mark_moves_over_what_was_sent_without_a_gap(
    mark: int | None, first: int, sent: list[int], moved: int | None
) -> None:
    admin = ConsoleAdmin()
    admin.deleted_before[DEAD] = first
    if mark is not None:
        admin.commit("TOOLS_CONSUMER", DEAD, mark)
    other = MessageQueue("%DLQ%g", "broker-a", 1)
    results = [{"queue": DEAD, "offset": offset, "sent": offset in sent} for offset in range(9)]
    await _move_marks(admin, [*results, {"queue": other, "offset": 7, "sent": True}])
    marks = [change for change in admin.changes if change[0] == "set_group_offset"]
    assert marks == ([("set_group_offset", "TOOLS_CONSUMER", DEAD, moved)] if moved is not None else [])


async def test_what_a_dead_letter_needs() -> None:
    admin = ConsoleAdmin()
    letter = message(topic=DEAD.topic, RETRY_TOPIC="t")
    assert await _obstacle(admin, message(topic=DEAD.topic), "g", "group") == "it does not contain its original topic"
    assert await _obstacle(admin, letter, "g", "topic") == "topic t no longer exists"
    assert await _obstacle(admin, letter, "g", "group") == "group g no longer exists"
    admin.add_topic("t")
    admin.add_group("g")
    assert await _obstacle(admin, letter, "g", "topic") is await _obstacle(admin, letter, "g", "group") is None


def letters() -> ConsoleAdmin:
    admin = ConsoleAdmin()
    for topic in ("t", DEAD.topic):
        admin.add_topic(topic, 1)
    admin.add_messages(
        message(b"<b>", topic=DEAD.topic, offset=0, RETRY_TOPIC="t", UNIQ_KEY="U0", KEYS="k"),
        message(b"y", topic=DEAD.topic, offset=1, RETRY_TOPIC="t", UNIQ_KEY="U1", __SHARDINGKEY="s"),
    )
    return admin


def test_letters_with_a_sharding_key_are_sent_in_order() -> None:
    admin, sent = letters(), list[tuple[str, bytes]]()

    @asynccontextmanager
    async def producer() -> Any:
        async def send(one: Any) -> Any:
            sent.append(("any", one.body))
            return SimpleNamespace(msg_id="m")

        async def send_ordered(one: Any) -> Any:
            sent.append(("ordered", one.body))
            return SimpleNamespace(msg_id="n")

        yield SimpleNamespace(send=send, send_ordered=send_ordered)

    async def work(browser: Browser, console: Console) -> None:
        console.connection.producer = producer  # type: ignore[method-assign]
        form = {"csrf": await token(browser, RESEND, pick="broker-a:0:0"), "pick": ["broker-a:0:0", "broker-a:0:1"]}
        data = (await browser.post(RESEND, data=form, headers=JSON)).json()
        assert data == {
            "group": "g", "to": "topic", "sent": 2, "results": [
                {"pick": "broker-a:0:0", "sent": True, "topic": "t", "msgId": "m", "error": None},
                {"pick": "broker-a:0:1", "sent": True, "topic": "t", "msgId": "n", "error": None},
            ],
        }  # fmt: skip

    browse(admin, work)
    assert sent == [("any", b"<b>"), ("ordered", b"y")]


def test_a_preview_says_what_would_be_sent_and_no_letter_is_markup() -> None:
    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, RESEND, pick="broker-a:0:0")
        [row] = data["messages"]
        assert row == {
            "stored": STORED, "topic": DEAD.topic, "broker": "broker-a", "queue": 0, "offset": 0, "msgId": "U0",
            "tags": None, "keys": "k", "size": 3, "body": "<b>", "pick": "broker-a:0:0", "origin": "t", "to": "t",
        }  # fmt: skip
        page = (await browser.get(f"{RESEND}?pick=broker-a:0:0")).text
        assert ("&lt;b&gt;" in page, '<td class="b"><b>' in page) == (True, False)
        assert data["token"] == console.tokens.of(browser.cookies["rocketmq_console"])

    browse(letters(), work)


def test_letters_are_counted_from_the_first_that_is_there() -> None:
    admin = letters()

    async def stats(topic: str) -> Any:
        return {
            MessageQueue(topic, "broker-a", 0): TopicOffset(min_offset=-1, max_offset=2),
            MessageQueue(topic, "broker-a", 1): TopicOffset(min_offset=9, max_offset=5),
        }

    admin.topic_stats = stats  # type: ignore[method-assign]

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/groups/g/dead")
        assert (data["group"], data["total"], data["lookedAt"]) == ("g", 2, 2)
        assert [row["offset"] for row in data["messages"]] == [1, 0]
        assert len((await read(browser, "/groups/g/dead", size=200))["messages"]) == 2
        assert (await status(browser, "/groups/g/dead", size=201))[0] == 400

    browse(admin, work)
