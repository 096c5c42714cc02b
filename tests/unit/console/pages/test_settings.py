"""The pages of settings and of users."""

from __future__ import annotations

from typing import Any

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, NetworkError, PermissionDenied
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from rocketmq_py.protocol.bodies.route import BrokerData
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status


def admin_of(*brokers: dict[str, str] | Exception) -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.info.broker_addr_table.clear()
    for number, config in enumerate(brokers):
        name, address = f"b{number:03}", f"h:{number:05}"
        admin.info.broker_addr_table[name] = BrokerData(cluster="c", broker_name=name, broker_addrs={0: address})
        admin.configs[address] = config
    return admin


def test_settings_are_narrowed_by_name_and_to_those_that_differ() -> None:
    admin = admin_of({"brokerId": "0", "fileReservedTime": "72"}, {"brokerId": "0", "fileReservedTime": "48"})

    async def work(browser: Browser, console: Console) -> None:
        def keys(data: Any) -> list[tuple[str, str]]:
            return [(row["key"], row["value"]) for row in data["settings"]]

        reserved = [("fileReservedTime", "72"), ("fileReservedTime", "48")]
        assert keys(await read(browser, "/settings")) == [("brokerId", "0"), *reserved]
        assert keys(await read(browser, "/settings", differs="1")) == reserved
        assert keys(await read(browser, "/settings", q="RESERVED")) == reserved
        assert keys(await read(browser, "/settings", q="id", differs="1")) == []
        assert (await read(browser, "/settings", q="x" * 300))["q"] == "x" * 255
        assert keys(await read(browser, "/settings", differs="0")) == [("brokerId", "0"), *reserved]
        page = (await browser.get("/settings?differs=1", headers={"accept": "text/html"})).text
        assert ("checked" in page, "b000/0" in page, "b001/0" in page) == (True, True, True)
        table = (await browser.get("/settings?format=csv")).text.splitlines()
        assert table[0] == "key,value,brokers,differs"

    browse(admin, work)


def test_brokers_that_do_not_answer_are_named_and_a_hidden_page_is_refused() -> None:
    admin = admin_of({"a": "1"}, NetworkError("away"), BrokerError(1, "no"))

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/settings")
        assert next((one["broker"], one["error"]) for one in data["silent"]) == ("b001/0", "away")
        assert (len(data["silent"]), [row["key"] for row in data["settings"]]) == (2, ["a"])
        admin.configs["h:00000"] = PermissionDenied(16, "not yours")
        assert (await status(browser, "/settings"))[0] == 403

    browse(admin, work)


def test_sixty_four_brokers_are_asked() -> None:
    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/settings")
        assert (data["brokersLeftOut"], len(data["settings"][0]["brokers"])) == (1, 64)

    browse(admin_of(*({"a": "1"} for _ in range(65))), work)


def test_users_and_permissions_are_shown_and_passwords_are_not() -> None:
    admin = ConsoleAdmin()
    admin.user_table["bob"] = UserInfo(username="bob", password="hush", user_type="Normal", user_status="enable")
    entry = EntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow")
    admin.acl_table["bob"] = AclInfo(subject="User:bob", policies=[PolicyInfo(policy_type="Custom", entries=[entry])])

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/access")
        assert data["users"] == [{"user": "bob", "type": "Normal", "status": "enable"}]
        assert [(row["subject"], row["resource"], row["actions"]) for row in data["rules"]] == [
            ("User:bob", "Topic:t", ["Pub"])
        ]
        for headers in (JSON, {"accept": "text/html"}):
            assert "hush" not in (await browser.get("/access", headers=headers)).text
        assert (await browser.get("/access?format=csv")).text.splitlines()[1].startswith("User:bob,Custom,Topic:t,")

    browse(admin, work)


def test_users_of_a_broker_that_keeps_none_are_unknown_and_of_one_that_refuses_are_not_told() -> None:
    class Without(ConsoleAdmin):
        error: Exception = BrokerError(3, "not supported")

        async def users(self, *_: Any, **__: Any) -> Any:
            raise self.error

    admin = Without()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/access")
        assert (data["users"], data["rules"]) == (None, None)
        admin.error = PermissionDenied(16, "not yours")
        assert (await status(browser, "/access"))[0] == 403
        admin.error = NetworkError("away")
        assert (await status(browser, "/access"))[0] == 504

    browse(admin, work)
