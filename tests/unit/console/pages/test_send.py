"""The form that sends a message."""

from __future__ import annotations

from typing import Any

from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, NoRouteError
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, token

SEND = "/topics/t/send"


class Admin(ConsoleAdmin):
    """Has a topic t with two queues."""

    def __init__(self) -> None:
        super().__init__()
        self.add_topic("t", 2)


async def post(browser: Browser, path: str = SEND, **form: str) -> tuple[int, Any]:
    answer = await browser.post(path, data=form, headers=JSON)
    return answer.status_code, answer.json()


def test_a_message_is_sent_and_its_place_is_told() -> None:
    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, SEND)
        code, data = await post(browser, csrf=csrf, body="grüße <b>", keys=" k1  k2 ", tag=" A ")
        assert (code, data["sent"]) == (
            200, {"topic": "t", "broker": "broker-a", "queue": 1, "offset": 1, "msgId": "sent1"}
        )  # fmt: skip
        [entry] = console.audit.entries
        assert (entry["action"], entry["topic"], entry["what"], entry["result"]) == (
            "send", "t", "sent1", "11 bytes were sent",
        )  # fmt: skip
        page = (await browser.post(SEND, data={"csrf": csrf, "body": "x<b>"}, headers={"accept": "text/html"})).text
        assert ('href="/topics/t/messages/broker-a/1/2"' in page, "x&lt;b&gt;" in page, "x<b>" in page) == (
            True, True, False,
        )  # fmt: skip

    first, second = browse(Admin(), work).sent
    assert (first.topic, bytes(first.body), first.keys, first.tags) == ("t", "grüße <b>".encode(), "k1 k2", "A")
    assert (second.keys, second.tags) == (None, None)


def test_an_address_fills_in_the_form() -> None:
    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, SEND, body="b", keys="k", tag="T")
        assert [data[name] for name in ("topic", "body", "keys", "tag", "sent")] == ["t", "b", "k", "T", None]
        assert 'value="k"' in (await browser.get(f"{SEND}?keys=k")).text

    browse(Admin(), work)


def test_what_cannot_be_sent_is_refused() -> None:
    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, SEND)
        assert (await post(browser, csrf="wrong", body="x"))[0] == 403
        for form in ({"body": ""}, {}, {"body": "x", "keys": "k" * 1_025}, {"body": "x", "tag": "t" * 1_025}):
            assert (await post(browser, csrf=csrf, **form))[0] == 400, form
        assert (await post(browser, csrf=csrf, body="x", keys="k" * 1_024, tag="t" * 1_024))[0] == 200
        assert (await post(browser, "/topics/none/send", csrf=csrf, body="x"))[0] == 404
        assert (await browser.get("/topics/none/send")).status_code == 404
        assert len(console.audit.entries) == 1

    assert len(browse(Admin(), work).sent) == 1


def test_a_console_that_only_shows_has_no_form() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await browser.get(SEND)).status_code == 404
        assert (await browser.post(SEND, data={"body": "x"})).status_code == 404
        assert f'"{SEND}"' not in (await browser.get("/topics/t", headers={"accept": "text/html"})).text

    browse(Admin(), work, read_only=True)


def test_a_refusal_of_the_broker_is_shown_and_is_no_change() -> None:
    class Refusing(Admin):
        refusal: Exception | None = None

        async def route(self, topic: str) -> Any:
            if self.refusal is not None:
                raise self.refusal
            return await super().route(topic)

    admin = Refusing()

    async def work(browser: Browser, console: Console) -> None:
        csrf = await token(browser, SEND)
        admin.refusal = BrokerError(1, "full")
        code, data = await post(browser, csrf=csrf, body="x")
        assert (code, "full" in data["error"]) == (502, True)
        admin.refusal = NoRouteError("t")
        assert (await post(browser, csrf=csrf, body="x"))[0] == 404
        assert not console.audit.entries

    assert not browse(admin, work).sent
