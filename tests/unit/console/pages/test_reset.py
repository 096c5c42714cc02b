"""Resets at the limits of what one request may name."""

from __future__ import annotations

from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from tests.unit.cli.messages import message
from tests.unit.console.browsing import JSON, Q0, Browser, ConsoleAdmin, browse, read, status, token

RESET = "/groups/g/reset"


class Admin(ConsoleAdmin):
    async def group_topics(self, group: str) -> list[str]:
        return ["t"]


def test_from_one_to_a_thousand_and_twenty_four_queues_are_reset() -> None:
    admin = Admin()
    admin.add_topic("t", 1)

    async def work(browser: Browser, console: Console) -> None:
        form = {"csrf": await token(browser, RESET, topic="t", target="latest"), "topic": "t", "force": "yes"}
        many = [f"b:{number}::1" for number in range(1_025)]
        for moves, code in (
            ([], 400), (["b:0::1", "b:0:1:2"], 400), (many, 400), (["b:0::1", "b:0::1"], 200), (many[:-1], 200)
        ):  # fmt: skip
            answer = await browser.post(RESET, data=form | {"move": moves}, headers=JSON)
            assert answer.status_code == code, (len(moves), answer.text)
            if code == 400:
                assert answer.json()["error"] == "a reset names each queue once, from 1 to 1024 queues"
        assert (answer.json()["set"], answer.json()["group"], answer.json()["topic"]) == (1_024, "g", "t")

    browse(admin, work)


def test_a_reset_that_is_not_confirmed_looks_at_members_and_offsets() -> None:
    admin = Admin()
    admin.add_topic("t", 1)
    admin.commit("g", MessageQueue("t", "b", 0), 3)

    async def work(browser: Browser, console: Console) -> None:
        form = {"csrf": await token(browser, RESET, topic="t", target="latest"), "topic": "t", "move": "b:0:3:5"}
        admin.connected["g"] = ConsumerConnection(connection_set=[])
        answer = await browser.post(RESET, data=form | {"move": "b:0:2:5"}, headers=JSON)
        assert (answer.status_code, answer.json()["error"]) == (
            409, "offsets moved since the page was made (t@b:0): look at it again",
        )  # fmt: skip
        admin.connected["g"] = ConsumerConnection(connection_set=[ConnectionInfo(client_id="c", client_addr="h:1")])
        answer = await browser.post(RESET, data=form | {"force": "no"}, headers=JSON)
        assert (answer.status_code, answer.json()["error"]) == (
            409, "1 members of g are connected: stop them, or confirm that they are reset, too",
        )  # fmt: skip
        assert [change for change in admin.changes if change[0] == "reset_group_offset"] == []
        admin.connected.clear()
        assert (await browser.post(RESET, data=form, headers=JSON)).json()["results"] == [
            {"broker": "b", "queue": 0, "from": 3, "to": 5, "error": None}
        ]

    browse(admin, work)


def test_offsets_of_another_group_are_looked_at_and_copied() -> None:
    class TwoGroups(Admin):
        async def group_offsets(self, group: str, topic: str) -> dict[MessageQueue, int]:
            return {queue: state.consumer_offset for queue, state in self.committed[group].items()}

    admin = TwoGroups()
    admin.add_topic("t", 2)
    admin.add_messages(*(message(b"x", offset=at) for at in range(10)))
    admin.commit("from", Q0, 7)
    admin.commit("g", Q0, 3)

    async def work(browser: Browser, console: Console) -> None:
        params = {"topic": "t", "target": "group"}
        data = await read(browser, "/groups/g/reset", **params, value="from")
        assert [(row["from"], row["to"], row["skipped"], row["move"]) for row in data["queues"]] == [
            (3, 7, 4, "broker-a:0:3:7"), (None, None, 0, None),
        ]  # fmt: skip
        assert data["totals"]["changed"] == 1
        form = {"csrf": await token(browser, "/groups/g/reset", **params, value="from"), "topic": "t",
                "move": "broker-a:0:3:7"}  # fmt: skip
        page = (await browser.get("/groups/g/reset", params=params | {"value": "from"})).text
        assert page.count('name="move"') == 1
        assert (await browser.post("/groups/g/reset", data=form, headers=JSON)).json()["set"] == 1
        for value, code in (("g", 400), ("nobody", 404), ("a b", 400), ("", 400)):
            assert (await status(browser, "/groups/g/reset", **params, value=value))[0] == code, value

    browse(admin, work)
    assert [change for change in admin.changes if change[0] == "reset_group_offset"] == [
        ("reset_group_offset", "g", Q0, 7)
    ]
