"""Users and permissions that are changed by forms."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, NetworkError
from rocketmq_py.protocol.bodies.access import AclInfo, EntryInfo, PolicyInfo, UserInfo
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status, token

BOB = "/access/users/bob"


def admin_of_bob() -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.user_table["bob"] = UserInfo(username="bob", password="hush", user_type="Normal", user_status="enable")
    entry = EntryInfo(resource="Topic:t", actions=["Pub"], decision="Allow")
    admin.acl_table["bob"] = AclInfo(subject="User:bob", policies=[PolicyInfo(policy_type="Custom", entries=[entry])])
    return admin


async def post(browser: Browser, path: str, form: dict[str, Any]) -> tuple[int, Any]:
    answer = await browser.post(path, data=form, headers=JSON)
    return answer.status_code, answer.json()


def changed(admin: ConsoleAdmin) -> list[Any]:
    return [one for one in admin.changes if one[0] != "acls"]


def test_a_user_is_shown_and_added_and_no_password_is_told() -> None:
    admin = admin_of_bob()

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, BOB)
        assert (data["type"], data["status"], data["rules"][0]["resource"]) == ("Normal", "enable", "Topic:t")
        assert "hush" not in (await browser.get(BOB, headers={"accept": "text/html"})).text
        assert (await status(browser, "/access/users/none"))[0] == 404
        csrf = await token(browser, "/access")
        form = {"csrf": csrf, "user": " eve ", "password": "s3cret", "super": "yes"}
        assert (await post(browser, "/access/users", form | {"csrf": "x"}))[0] == 403
        for wrong in ({"user": ""}, {"password": ""}, {"password": "p" * 256}, {"user": "a\nb"}):
            assert (await post(browser, "/access/users", form | wrong))[0] == 400
        assert (await post(browser, "/access/users", form | {"user": "bob"}))[0] == 409
        assert (await post(browser, "/access/users", form))[0] == 200
        [entry] = console.audit.entries
        assert (entry["action"], entry["what"], entry["result"]) == (
            "add user", {"user": "eve", "super": True}, "1 of 1 changed",
        )  # fmt: skip

    browse(admin, work)
    assert changed(admin) == [("create_user", "eve", "s3cret", True)]


@pytest.mark.parametrize(
    ("form", "call"),
    [
        ({"do": "disable"}, ("update_user", "bob", None, None, False)),
        ({"do": "enable"}, ("update_user", "bob", None, None, True)),
        ({"do": "super"}, ("update_user", "bob", None, True, None)),
        ({"do": "normal"}, ("update_user", "bob", None, False, None)),
        ({"do": "password", "password": "new"}, ("update_user", "bob", "new", None, None)),
        ({"do": "delete", "name": "bob"}, ("delete_user", "bob")),
        ({"do": "forget", "resource": "Topic:t"}, ("delete_acl", "bob", "Topic:t")),
        ({"do": "allow", "resources": "Topic:a  Group:b", "action": ["Pub", "Sub"], "ips": "10.0.0.0/8"},
         ("set_acl", "bob", ("Topic:a", "Group:b"), ["Pub", "Sub"], True, ("10.0.0.0/8",))),
        ({"do": "deny", "resources": "*", "action": "All"}, ("set_acl", "bob", ("*",), ["All"], False, ())),
    ],
)  # fmt: skip
def test_each_change_is_one_call_and_one_line_of_the_audit(form: dict[str, Any], call: tuple[Any, ...]) -> None:
    admin = admin_of_bob()

    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, BOB)
        assert (await post(browser, BOB, {"csrf": "x", **form}))[0] == 403
        assert (await post(browser, BOB, {"csrf": csrf, **form}))[0] == 200
        [entry] = console.audit.entries
        assert (entry["action"], entry["what"]["user"]) == (f"{form['do']} user", "bob")
        assert "new" not in str(entry["what"])

    browse(admin, work)
    assert changed(admin) == [call]


def test_what_cannot_be_done_is_refused_and_a_failure_is_told() -> None:
    admin = admin_of_bob()

    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, BOB)
        many = " ".join(f"Topic:{number}" for number in range(51))
        for form in ({}, {"do": "x"}, {"do": "delete"}, {"do": "delete", "name": "Bob"}, {"do": "forget"},
                     {"do": "password"}, {"do": "password", "password": "p" * 256},
                     {"do": "allow", "resources": many, "action": "Pub"}):  # fmt: skip
            assert (await post(browser, BOB, {"csrf": csrf, **form}))[0] == 400, form
        assert (await post(browser, "/access/users/none", {"csrf": csrf, "do": "disable"}))[0] == 404
        assert (changed(admin), list(console.audit.entries)) == ([], [])
        for failure in (BrokerError(1, "full"), NetworkError("away")):
            admin.failures["update_user"] = failure
            code, data = await post(browser, BOB, {"csrf": csrf, "do": "disable"})
            assert (code, data["results"][0]["error"].startswith("some brokers may have it now: ")) == (200, True)
        assert console.audit.entries[0]["result"].startswith("0 of 1 changed: some brokers")

    browse(admin, work)


def test_nobody_locks_themselves_out() -> None:
    admin = admin_of_bob()

    async def work(browser: Browser, console: Console) -> None:
        object.__setattr__(console, "who", "bob")
        assert (await read(browser, BOB))["self"] is True
        csrf = await token(browser, BOB)
        for do in ("disable", "normal", "delete"):
            assert (await post(browser, BOB, {"csrf": csrf, "do": do, "name": "bob"}))[0] == 409
        assert (await post(browser, BOB, {"csrf": csrf, "do": "enable"}))[0] == 200

    browse(admin, work)


def test_a_console_that_only_shows_has_no_forms() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await browser.get(BOB)).status_code == 404
        assert (await browser.post("/access/users", data={"user": "x"})).status_code == 404
        page = (await browser.get("/access", headers={"accept": "text/html"})).text
        assert ('method="post"' in page, "/access/users" in page, "bob" in page) == (False, False, True)

    browse(admin_of_bob(), work, read_only=True)
