"""Topics that are created, changed and deleted by forms."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rocketmq_py.console.pages import topic_changes
from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, NetworkError
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection
from rocketmq_py.protocol.bodies.route import BrokerData
from tests.unit.cli.messages import message
from tests.unit.console.browsing import JSON, Q1, Browser, ConsoleAdmin, browse, read, status

NEW, CHANGE, DELETE = "/new-topic", "/topics/t/change", "/topics/t/delete"
HTML = {"accept": "text/html"}


def cluster() -> ConsoleAdmin:
    """Two masters and a slave; topic t with three messages on broker-a, consumed by g."""
    admin = ConsoleAdmin()
    admin.info.broker_addr_table["broker-b"] = BrokerData(cluster="c", broker_name="broker-b", broker_addrs={0: "h:2"})
    admin.info.broker_addr_table["slave"] = BrokerData(cluster="c", broker_name="slave", broker_addrs={1: "h:3"})
    admin.add_topic("t", 2, order=True, perm=7, attributes={"message.type": "FIFO", "x": "y"})
    admin.add_topic("t", 4, broker="broker-b")
    admin.add_messages(*(message(b"a", queue=1, offset=at) for at in range(3)))
    admin.deleted_before[Q1] = 1
    admin.add_group("g")
    admin.consuming["t"] = ["g"]
    admin.commit("g", Q1, 1, 3)
    return admin


def connect(admin: ConsoleAdmin) -> None:
    admin.connected["g"] = ConsumerConnection(connection_set=[ConnectionInfo(client_id="c", client_addr="h:1")])


async def fields(browser: Browser, path: str, **params: str) -> dict[str, Any]:
    """The hidden fields of a page's form."""
    text = (await browser.get(path, params=params, headers=HTML)).text
    found: dict[str, Any] = {"seen": []}
    for name, value in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text):
        if name == "seen":
            found["seen"].append(value)
        else:
            found[name] = value
    return found


async def post(browser: Browser, path: str, form: dict[str, Any]) -> tuple[int, Any]:
    answer = await browser.post(path, data=form, headers=JSON)
    return answer.status_code, answer.json()


def changed(admin: ConsoleAdmin) -> list[Any]:
    return [one for one in admin.changes if one[0] in ("create_topic", "delete_topic")]


def test_a_topic_is_created_on_the_masters_that_were_shown() -> None:
    admin = cluster()

    async def work(browser: Browser, console: Console) -> None:
        assert (await read(browser, NEW))["rows"] is None
        data = await read(browser, NEW, topic="fresh", read="3", type="DELAY")
        assert [(row["broker"], row["readFrom"], row["readTo"], row["writeTo"], row["permTo"], row["typeTo"])
                for row in data["rows"]] == [
            ("broker-a", None, 3, 8, "rw", "DELAY"), ("broker-b", None, 3, 8, "rw", "DELAY"),
        ]  # fmt: skip
        assert (await browser.get(f"{NEW}?topic=fresh&format=csv")).text.splitlines()[1].startswith("broker-a,?,8,?,8,")
        form = await fields(browser, NEW, topic="fresh", read="3", type="DELAY")
        assert (await post(browser, NEW, form | {"csrf": "x"}))[0] == 403
        assert (await post(browser, NEW, form | {"seen": form["seen"][:1]}))[0] == 409
        assert changed(admin) == []
        code, data = await post(browser, NEW, form)
        assert (code, data["results"]) == (
            200, [{"broker": "broker-a", "error": None}, {"broker": "broker-b", "error": None}],
        )  # fmt: skip
        [entry] = console.audit.entries
        assert (entry["action"], entry["topic"], entry["result"]) == ("create topic", "fresh", "2 of 2 changed")

    browse(admin, work)
    kind = {"message.type": "DELAY"}
    assert changed(admin) == [
        ("create_topic", "fresh", 3, 8, 6, False, kind, None, ("broker-a",)),
        ("create_topic", "fresh", 3, 8, 6, False, kind, None, ("broker-b",)),
    ]


@pytest.mark.parametrize(
    ("params", "code"),
    [({"topic": "t"}, 409), ({"topic": "a b"}, 400), ({"topic": "x", "read": "0"}, 400),
     ({"topic": "x", "write": "1025"}, 400), ({"topic": "x", "perm": "7"}, 400), ({"topic": "x", "type": "fifo"}, 400),
     ({"topic": "rmq_sys_x"}, 400)],
)  # fmt: skip
def test_what_cannot_be_a_topic_is_refused_in_preview_and_act(params: dict[str, str], code: int) -> None:
    admin = cluster()

    async def work(browser: Browser, console: Console) -> None:
        assert (await status(browser, NEW, **params))[0] == code
        csrf = (await fields(browser, NEW, topic="fresh"))["csrf"]
        assert (await post(browser, NEW, params | {"csrf": csrf}))[0] == code
        assert not console.audit.entries

    browse(admin, work)
    assert changed(admin) == []


def test_a_change_keeps_what_is_not_named_and_tells_what_nobody_reads_then() -> None:
    admin = cluster()

    async def work(browser: Browser, console: Console) -> None:
        plain = await read(browser, CHANGE)
        assert (plain["changed"], [row["permFrom"] for row in plain["rows"]]) == (0, ["rw", "rw"])
        data = await read(browser, CHANGE, read="1")
        assert [(row["readFrom"], row["readTo"], row["hidden"]) for row in data["rows"]] == [(2, 1, 2), (4, 1, 0)]
        assert (data["changed"], data["hidden"]) == (2, 2)
        assert (await read(browser, CHANGE, perm="w"))["hidden"] == 2
        assert (await read(browser, CHANGE, perm="r"))["hidden"] == 0
        form = await fields(browser, CHANGE, read="4", type="NORMAL")
        admin.topic_table["t"]["broker-a"].read_queue_nums = 3
        assert (await post(browser, CHANGE, form))[0] == 409
        admin.topic_table["t"]["broker-a"].read_queue_nums = 2
        code, data = await post(browser, CHANGE, form)
        assert (code, len(data["results"])) == (200, 2)
        assert (await post(browser, CHANGE, form | {"read": "", "type": ""}))[0] == 400
        assert (await status(browser, "/topics/none/change"))[0] == 404

    browse(admin, work)
    assert changed(admin) == [
        ("create_topic", "t", 4, 2, 7, True, {"message.type": "NORMAL"}, None, ("broker-a",)),
        ("create_topic", "t", 4, 4, 6, False, {"message.type": "NORMAL"}, None, ("broker-b",)),
    ]


def test_messages_of_unknown_number_are_unknown() -> None:
    class Silent(ConsoleAdmin):
        async def topic_stats(self, topic: str) -> Any:
            raise NetworkError("away")

        async def topic_groups(self, topic: str) -> Any:
            raise NetworkError("away")

    admin = Silent()
    admin.add_topic("t", 2)

    async def work(browser: Browser, console: Console) -> None:
        assert (await read(browser, CHANGE, read="1"))["hidden"] is None
        data = await read(browser, DELETE)
        assert (data["queues"], data["groups"]) == ([{"broker": "broker-a", "queues": 2, "messages": None}], None)
        csrf = (await fields(browser, DELETE))["csrf"]
        assert (await post(browser, DELETE, {"csrf": csrf, "name": "t"}))[0] == 504

    browse(admin, work)
    assert changed(admin) == []


def test_a_topic_is_deleted_when_its_name_was_typed() -> None:
    admin = cluster()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, DELETE)
        assert data["queues"] == [{"broker": "broker-a", "queues": 2, "messages": 2},
                                  {"broker": "broker-b", "queues": 4, "messages": 0}]  # fmt: skip
        assert data["groups"] == [{"group": "g", "members": 0, "lag": 2}]
        csrf = (await fields(browser, DELETE))["csrf"]
        for name in ("", "T", "t "):
            assert (await post(browser, DELETE, {"csrf": csrf, "name": name}))[0] == 400
        assert (await post(browser, DELETE, {"csrf": "x", "name": "t"}))[0] == 403
        assert changed(admin) == []
        assert (await post(browser, DELETE, {"csrf": csrf, "name": "t"}))[0] == 200
        [entry] = console.audit.entries
        assert (entry["action"], entry["what"]["groups"], entry["result"]) == ("delete topic", ["g"], "2 of 2 changed")

    browse(admin, work)
    assert changed(admin) == [("delete_topic", "t")]


def test_a_topic_that_members_may_consume_is_deleted_only_if_that_is_confirmed() -> None:
    admin = cluster()
    connect(admin)

    async def work(browser: Browser, console: Console) -> None:
        form = {"csrf": (await fields(browser, DELETE))["csrf"], "name": "t"}
        code, data = await post(browser, DELETE, form)
        assert (code, "(g)" in data["error"]) == (409, True)
        admin.connected.clear()
        admin.consuming["t"] = [f"g{number}" for number in range(topic_changes.MOST_GROUPS + 1)]
        assert (await read(browser, DELETE))["groupsLeftOut"] == 1
        assert (await post(browser, DELETE, form))[0] == 409, "groups that were not asked may have members"
        admin.failures["delete_topic"] = BrokerError(1, "full")
        code, data = await post(browser, DELETE, form | {"force": "yes"})
        why = "it may be deleted on some brokers only: code 1: full"
        assert (code, {row["error"] for row in data["results"]}) == (200, {why})
        assert console.audit.entries[0]["result"] == f"0 of 2 changed: {why}"

    browse(admin, work)


def test_topics_of_the_brokers_are_not_changed() -> None:
    admin = cluster()
    admin.add_topic("inner")
    admin.system = ["inner"]

    async def work(browser: Browser, console: Console) -> None:
        csrf = (await fields(browser, DELETE))["csrf"]
        assert (await read(browser, "/topics/inner/delete"))["internal"] is True
        assert (await post(browser, "/topics/inner/delete", {"csrf": csrf, "name": "inner"}))[0] == 400
        assert (await post(browser, "/topics/inner/change", {"csrf": csrf, "read": "3"}))[0] == 400

    browse(admin, work)
    assert changed(admin) == []


def test_a_console_that_only_shows_has_none_of_it() -> None:
    async def work(browser: Browser, console: Console) -> None:
        for path in (NEW, CHANGE, DELETE):
            assert (await browser.get(path)).status_code == 404
            assert (await browser.post(path, data={"name": "t"})).status_code == 404
        assert NEW not in (await browser.get("/topics", headers=HTML)).text
        assert DELETE not in (await browser.get("/topics/t", headers=HTML)).text

    browse(cluster(), work, read_only=True)
