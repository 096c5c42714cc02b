"""A setting that is changed by a form."""

from __future__ import annotations

import re
from typing import Any

from rocketmq_py.console.state import Console
from rocketmq_py.errors import NetworkError, PermissionDenied
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status
from tests.unit.console.pages.test_settings import admin_of

CHANGE = "/settings/change"


async def fields(browser: Browser, **params: str) -> dict[str, Any]:
    text = (await browser.get(CHANGE, params=params, headers={"accept": "text/html"})).text
    found = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text)
    return {**dict(found), "seen": [value for name, value in found if name == "seen"]}


async def post(browser: Browser, form: dict[str, Any]) -> tuple[int, Any]:
    answer = await browser.post(CHANGE, data=form, headers=JSON)
    return answer.status_code, answer.json()


def changed(admin: ConsoleAdmin) -> list[Any]:
    return [one for one in admin.changes if one[0] == "update_broker_config"]


def test_a_setting_is_changed_where_it_is_another_and_the_old_values_are_told() -> None:
    admin = admin_of({"keep": "72"}, {"keep": "48"}, {"other": "1"}, NetworkError("away"))
    admin.remark = "after a restart"

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, CHANGE, key="keep", value="48")
        assert [(row["broker"], row["from"], row["to"]) for row in data["rows"]] == [
            ("b000/0", "72", "48"), ("b001/0", "48", "48"),
        ]  # fmt: skip
        assert [one["broker"] for one in data["silent"]] == ["b003/0"]
        form = await fields(browser, key="keep", value="48")
        assert form["seen"] == ["b000/0|72", "b001/0|48"]
        assert (await post(browser, form | {"csrf": "x"}))[0] == 403
        config = admin.configs["h:00000"]
        assert isinstance(config, dict)
        config["keep"] = "9"
        assert (await post(browser, form))[0] == 409
        config["keep"] = "72"
        assert changed(admin) == []
        code, data = await post(browser, form)
        assert (code, data["results"]) == (200, [{"broker": "b000/0", "error": None, "remark": "after a restart"}])
        [entry] = console.audit.entries
        assert (entry["action"], entry["what"]["key"], entry["what"]["rows"][0]["from"], entry["result"]) == (
            "change setting", "keep", "72", "1 of 1 changed",
        )  # fmt: skip
        assert (await post(browser, form | {"seen": ["b000/0|48", "b001/0|48"]}))[0] == 400, "nothing to change"

    browse(admin, work)
    assert changed(admin) == [("update_broker_config", "h:00000", {"keep": "48"})]


def test_one_broker_may_be_chosen_and_its_refusal_is_shown() -> None:
    admin = admin_of({"keep": "72"}, {"keep": "72"})
    admin.failures["update_broker_config"] = PermissionDenied(16, "not yours")

    async def work(browser: Browser, console: Console) -> None:
        form = await fields(browser, key="keep", value="1", broker="b001/0")
        assert form["seen"] == ["b001/0|72"]
        code, data = await post(browser, form)
        assert (code, "not yours" in data["results"][0]["error"]) == (200, True)
        assert console.audit.entries[0]["result"].startswith("0 of 1 changed: ")

    browse(admin, work)


def test_what_cannot_be_changed_is_refused() -> None:
    admin = admin_of({"keep": "72", "aclSecretKey": "hush"})

    async def work(browser: Browser, console: Console) -> None:
        csrf = (await fields(browser, key="keep", value="1"))["csrf"]
        for key, value, code in (("aclSecretKey", "x", 400), ("none", "1", 404), ("keep", "1\nb=2", 400),
                                 ("keep", "1" * 1025, 400), ("", "1", 400)):  # fmt: skip
            assert (await status(browser, CHANGE, key=key, value=value))[0] == code, key
            assert (await post(browser, {"csrf": csrf, "key": key or "none", "value": value}))[0] in (400, 404)
        assert "hush" not in (await browser.get(f"{CHANGE}?key=keep", headers=JSON)).text

    browse(admin, work)
    assert changed(admin) == []


def test_a_console_that_only_shows_has_no_form() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await browser.get(f"{CHANGE}?key=keep")).status_code == 404
        assert CHANGE not in (await browser.get("/settings", headers={"accept": "text/html"})).text

    browse(admin_of({"keep": "72"}), work, read_only=True)
