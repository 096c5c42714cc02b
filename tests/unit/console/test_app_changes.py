"""Pages that change something: resets of offsets and dead letters that are sent again."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import JSON, NOW, Q0, Q1, Browser, ConsoleAdmin, browse, read, status, token

RESET, RESEND = "/groups/g/reset", "/groups/g/dead/resend"
DEAD = MessageQueue("%DLQ%g", "broker-a", 0)


class Admin(ConsoleAdmin):
    async def group_topics(self, group: str) -> list[str]:
        return sorted({queue.topic for queue in self.committed[group]})


def consuming() -> Admin:
    """Group g has consumed 3 of 10 messages of one queue and nothing of another, whose first 2 are deleted."""
    admin = Admin()
    admin.add_topic("t", 2)
    admin.add_group("g")
    admin.add_messages(*(message(b"%d" % at, offset=at, stored=STORED + at) for at in range(10)))
    admin.add_messages(*(message(b"%d" % at, queue=1, offset=at, stored=STORED + at) for at in range(2, 5)))
    admin.deleted_before[Q1] = 2
    admin.commit("g", Q0, 3)
    return admin


def connect(admin: Admin, *client_ids: str) -> None:
    admin.connected["g"] = ConsumerConnection(
        connection_set=[ConnectionInfo(client_id=one, client_addr="h:1") for one in client_ids]
    )


async def post(browser: Browser, path: str, form: Any) -> tuple[int, Any]:
    answer = await browser.post(path, data=form, headers=JSON)
    return answer.status_code, answer.json()


# -- resets


def test_a_reset_is_shown_before_it_is_made() -> None:
    admin = consuming()
    connect(admin, "c1", "c2")

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, RESET)
        assert (data["topics"], data["queues"], data["members"], data["totals"]) == (["t"], None, None, None)
        assert data["targets"] == ["earliest", "latest", "time", "offset", "shift", "group"]
        for missing in ({"topic": "t"}, {"target": "latest"}):
            assert (await read(browser, RESET, **missing))["queues"] is None
        data = await read(browser, RESET, topic="t", target="latest")
        assert [(row["queue"], row["from"], row["to"], row["skipped"], row["move"]) for row in data["queues"]] == [
            (0, 3, 10, 7, "broker-a:0:3:10"), (1, None, 5, 3, "broker-a:1::5"),
        ]  # fmt: skip
        assert data["totals"] == {"again": 0, "skipped": 10, "gone": 0, "changed": 2, "queues": 2}
        assert (data["members"], data["means"]) == (2, None)
        targets: dict[tuple[str, str], list[int]] = {
            ("earliest", ""): [0, 2], ("offset", "4"): [4, 4], ("offset", "0"): [0, 2], ("shift", "-2"): [1, 2],
            ("shift", "1"): [4, 3], ("time", f"{STORED + 4}"): [4, 4], ("time", "2h"): [0, 2],
        }  # fmt: skip
        for (target, value), to in targets.items():
            data = await read(browser, RESET, topic="t", target=target, value=value)
            assert [row["to"] for row in data["queues"]] == to, (target, value)
        assert data["means"] == "2023-11-14 20:15:00.000Z"
        for target, value in (("offset", "-1"), ("offset", ""), ("time", "x"), ("never", ""), ("shift", "1" * 20)):
            assert (await status(browser, RESET, topic="t", target=target, value=value))[0] == 400
        shift = await read(browser, RESET, topic="t", target="shift", value=f"-{10**18}")
        assert [row["to"] for row in shift["queues"]] == [0, 2]
        assert (await status(browser, RESET, topic="t", target="shift", value=f"-{10**18 + 1}"))[0] == 400
        assert (await status(browser, RESET, topic="t", target="shift", value=f"{10**18 + 1}"))[0] == 400
        assert (await status(browser, RESET, topic="gone", target="latest"))[0] == 404

    assert NOW == 1_700_000_100_000
    browse(admin, work)
    assert [change for change in admin.changes if change[0] != "pull"] == []


def test_a_topic_with_very_many_queues_is_not_reset_by_a_page() -> None:
    admin = consuming()
    admin.add_topic("wide", 1_025)
    admin.add_topic("fits", 1_024)

    async def work(browser: Browser, console: Console) -> None:
        code, why = await status(browser, RESET, topic="wide", target="latest")
        assert (code, why) == (400, "topic wide has 1025 queues; a page resets at most 1024")
        answer = await browser.get(RESET, params={"topic": "fits", "target": "latest"}, headers=JSON)
        assert answer.json()["totals"]["queues"] == 1_024

    browse(admin, work)


def test_a_reset_sets_what_was_shown_and_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    admin = consuming()

    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, RESET, topic="t", target="latest")
        moves = ["broker-a:1::5", "broker-a:0:3:10"]
        form = {"csrf": csrf, "topic": "t", "move": moves}
        assert (await post(browser, RESET, {**form, "csrf": "0" * 64}))[0] == 403
        code, _ = await post(browser, RESET, {**form, "move": [*moves, "broker-a:0:3:9"]})
        assert code == 400, "a queue is named twice"
        assert (await post(browser, RESET, {**form, "move": []}))[0] == 400
        assert (await post(browser, RESET, {**form, "move": "x"}))[0] == 400
        await console.groups()
        code, data = await post(browser, RESET, form)
        assert (code, data["set"], data["results"]) == (200, 2, [
            {"broker": "broker-a", "queue": 0, "from": 3, "to": 10, "error": None},
            {"broker": "broker-a", "queue": 1, "from": None, "to": 5, "error": None},
        ])  # fmt: skip
        assert console.connection._kept == {}, "answers from before are forgotten"
        code, data = await post(browser, RESET, form)
        assert (code, data["error"].startswith("offsets moved since the page was made (t@broker-a:0")) == (409, True)
        [change] = (await read(browser, "/audit"))["changes"]
        assert (change["action"], change["group"], change["topic"], change["result"]) == (
            "reset", "g", "t", "2 of 2 set",
        )  # fmt: skip
        assert change["from"] == "127.0.0.1:123"

    with caplog.at_level(logging.WARNING, "rocketmq_py.console.audit"):
        browse(admin, work)
    assert [change for change in admin.changes if change[0] == "reset_group_offset"] == [
        ("reset_group_offset", "g", Q0, 10), ("reset_group_offset", "g", Q1, 5),
    ]  # fmt: skip
    assert json.loads(caplog.records[-1].getMessage())["action"] == "reset"


def test_connected_members_are_reset_only_if_that_is_confirmed() -> None:
    admin = consuming()
    connect(admin, "c1")
    admin.failures["reset_group_offset"] = BrokerError(1, "not now")

    async def work(browser: Browser, console: Console) -> None:
        form = {
            "csrf": await token(browser, RESET, topic="t", target="latest"),
            "topic": "t",
            "move": "broker-a:0:2:10",
        }
        code, data = await post(browser, RESET, form)
        assert (code, data["error"].startswith("1 members of g are connected")) == (409, True)
        code, data = await post(browser, RESET, {**form, "force": "yes"})
        assert (code, data["set"]) == (200, 0)
        assert "not now" in data["results"][0]["error"]
        assert (await read(browser, "/audit"))["changes"][0]["result"] == "0 of 1 set"

    browse(admin, work)


# -- dead letters


def dead_letters() -> Admin:
    admin = consuming()
    admin.add_topic("%DLQ%g", 1)
    for at in range(4):
        origin = {"RETRY_TOPIC": "t"} if at < 2 else {"DLQ_ORIGIN_TOPIC": "gone"} if at == 2 else {}
        admin.add_messages(
            message(
                b"dead%d" % at, topic="%DLQ%g", offset=at, stored=STORED + at, UNIQ_KEY=f"U{at}", KEYS="k", **origin
            )
        )
    return admin


def test_dead_letters_are_listed_newest_first_with_what_was_resent() -> None:
    admin = dead_letters()
    admin.commit("TOOLS_CONSUMER", DEAD, 2)

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/groups/g/dead")
        assert [(row["offset"], row["origin"], row["resent"], row["msgId"]) for row in data["messages"]] == [
            (3, None, False, "U3"), (2, "gone", False, "U2"), (1, "t", True, "U1"), (0, "t", True, "U0"),
        ]  # fmt: skip
        assert (data["total"], data["left"], data["stopped"], data["topic"]) == (4, None, None, "%DLQ%g")
        one = await read(browser, "/groups/g/dead", size=1)
        assert ([row["offset"] for row in one["messages"]], one["total"]) == ([3], 4)
        for size in (0, 201):
            assert (await status(browser, "/groups/g/dead", size=size))[0] == 400
        admin.deleted_before[DEAD] = 1
        assert (await read(browser, "/groups/g/dead"))["total"] == 3
        admin.deleted_before.clear()
        page = await read(browser, "/groups/g/dead", size=3)
        assert [row["offset"] for row in page["messages"]] == [3, 2, 1]
        page = await read(browser, "/groups/g/dead", size=3, left=page["left"])
        assert ([row["offset"] for row in page["messages"]], page["left"]) == ([0], None)
        assert (await read(browser, "/groups/other/dead"))["messages"] == []
        assert (await status(browser, "/groups/g/dead", left="x"))[0] == 400

    browse(admin, work)


def test_dead_letters_are_previewed_and_sent_again() -> None:
    admin = dead_letters()

    async def work(browser: Browser, console: Console) -> None:
        picks = [f"broker-a:0:{at}" for at in range(4)]
        data = await read(browser, RESEND, pick=picks)
        assert [(row["pick"], row["origin"], row["to"]) for row in data["messages"]] == [
            (picks[0], "t", "t"), (picks[1], "t", "t"), (picks[2], "gone", "gone"), (picks[3], None, None),
        ]  # fmt: skip
        data = await read(browser, RESEND, pick=picks[:1], to="group")
        assert (data["to"], data["messages"][0]["to"]) == ("group", "%RETRY%g")
        refused = (
            {}, {"pick": "x"}, {"pick": picks, "to": "x"}, {"pick": [f"broker-a:0:{at}" for at in range(201)]},
        )  # fmt: skip
        for params in refused:
            assert (await status(browser, RESEND, **params))[0] == 400
        code, why = await status(browser, RESEND, pick="broker-a:0:7")
        assert (code, why.endswith("has no message at 7; it has those from 0 to before 4")) == (404, True)

        form = {"csrf": await token(browser, RESEND, pick=picks), "pick": picks, "to": "topic"}
        assert (await post(browser, RESEND, {**form, "csrf": ""}))[0] == 403
        await console.groups()
        code, data = await post(browser, RESEND, form)
        assert (code, data["sent"]) == (200, 2)
        assert [(one["pick"], one["sent"], one["topic"], one["msgId"]) for one in data["results"]] == [
            (picks[0], True, "t", "sent1"), (picks[1], True, "t", "sent2"), (picks[2], False, None, None),
            (picks[3], False, None, None),
        ]  # fmt: skip
        assert [one["error"] for one in data["results"]] == [
            None, None, "topic gone no longer exists", "it does not contain its original topic",
        ]  # fmt: skip
        assert console.connection._kept == {}
        [change] = (await read(browser, "/audit"))["changes"]
        assert (change["what"], change["result"]) == (picks[:2], "2 of 4 sent to topic")
        assert [row["resent"] for row in (await read(browser, "/groups/g/dead"))["messages"]] == [
            False,
            False,
            True,
            True,
        ]

    connection = browse(admin, work)
    assert [(sent.topic, sent.body, sent.keys) for sent in connection.sent] == [
        ("t", b"dead0", "k"), ("t", b"dead1", "k"),
    ]  # fmt: skip
    changes = [change for change in admin.changes if change[0] != "pull"]
    assert changes == [
        ("lock_queue", "TOOLS_CONSUMER", DEAD), ("set_group_offset", "TOOLS_CONSUMER", DEAD, 2),
        ("unlock_queue", "TOOLS_CONSUMER", DEAD),
    ]  # fmt: skip


def test_a_resend_with_a_gap_marks_nothing_and_one_to_the_group_needs_the_group() -> None:
    admin = dead_letters()

    async def work(browser: Browser, console: Console) -> None:
        form = {"csrf": await token(browser, RESEND, pick="broker-a:0:1"), "pick": "broker-a:0:1", "to": "group"}
        code, data = await post(browser, RESEND, form)
        assert (code, data["sent"], data["results"][0]["topic"]) == (200, 1, "%RETRY%g")
        del admin.group_table["g"]
        _, data = await post(browser, RESEND, form)
        assert (data["sent"], data["results"][0]["error"]) == (0, "group g no longer exists")
        _, data = await post(browser, RESEND, {**form, "pick": "broker-a:0:9"})
        assert "has no message at 9" in data["results"][0]["error"]

    connection = browse(admin, work)
    assert connection.sent[0].properties["RETRY_TOPIC"] == "t"
    assert [change for change in admin.changes if change[0] == "set_group_offset"] == []


def test_a_resend_beside_another_one_is_refused() -> None:
    admin = dead_letters()
    admin.locked_elsewhere.add(DEAD)

    async def work(browser: Browser, console: Console) -> None:
        form = {"csrf": await token(browser, RESEND, pick="broker-a:0:1"), "pick": "broker-a:0:1"}
        code, data = await post(browser, RESEND, form)
        assert (code, data["error"]) == (
            409, "another resend holds %DLQ%g; its lock expires within a minute of its end"
        )  # fmt: skip

    assert browse(admin, work).sent == []
