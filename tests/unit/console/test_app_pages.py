"""Every page over a cluster in memory: what it says as HTML and JSON, and what changes do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from itertools import count

import httpx
import pytest
from starlette.routing import Route

from rocketmq_py.console.app import create_app
from rocketmq_py.console.pages import waiting
from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageExt
from tests.unit.console.memory import JSON, QUEUE, Cluster, MemoryConnection, browse, message

MESSAGE = "/topics/orders/messages/broker-a/0/1"
PAGES = [
    "/", "/topics", "/topics?kind=dead", "/topics/orders", "/topics/orders/cost", "/topics/orders/messages",
    "/topics/orders/messages?key=k-1", "/topics/orders/messages?since=1h&queue=broker-a:0", MESSAGE,
    f"{MESSAGE}?decoder=hex&body=all", f"{MESSAGE}/life", "/groups", "/groups?sort=lag", "/groups/billing",
    "/groups/billing/history", "/groups/billing/members/c@1", "/groups/billing/dead",
    "/groups/billing/dead/resend?pick=broker-a:0:0", "/groups/billing/reset",
    "/groups/billing/reset?topic=orders&target=earliest", "/groups/billing/reset?topic=orders&target=shift&value=-1",
    "/groups/billing/reset?topic=orders&target=time&value=1h", "/search?q=o", "/audit", "/doctor?topic=orders",
    "/doctor?group=billing", "/rates", "/transactions", "/timers", "/pops", "/holds", "/spark", "/producers",
    "/settings", "/access", "/topics/orders/send?body=b&keys=k&tag=t", "/new-topic", "/new-topic?topic=fresh",
    "/topics/orders/tail", "/topics/orders/change", "/topics/orders/change?read=9", "/topics/orders/delete",
    "/settings/change?key=fileReservedTime&value=48", "/settings/change?key=fileReservedTime", "/access/users/bob",
]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_page_is_html_and_json(path: str, lang: str) -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        page = await browser.get(path, headers={"accept-language": lang})
        assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8"), page.text
        assert f'<html lang="{lang}">' in page.text
        assert "built-in method" not in page.text
        assert (await browser.get(path, headers=JSON)).json()

    browse(work)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/topics/none", 404), ("/groups/none", 404), (f"{MESSAGE}?decoder=x", 400), ("/topics?page=x", 400),
     ("/topics?kind=x", 400), ("/groups?sort=x", 400), ("/topics?format=x", 400), ("/search?format=csv", 406),
     ("/topics/orders/messages?queue=b:9", 404), ("/topics/orders/messages?since=x", 400),
     ("/topics/orders/messages/broker-a/0/99", 404), ("/groups/billing/members/none", 404),
     ("/groups/billing/dead/resend?pick=x", 400), ("/none", 404)],
)  # fmt: skip
def test_what_is_not_there_or_malformed_has_its_status(path: str, status: int) -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        assert (await browser.get(path)).status_code == status

    browse(work)


def test_tables_are_csv_and_a_body_is_downloaded_as_bytes() -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        table = await browser.get("/groups?format=csv")
        assert table.text.splitlines()[1].startswith("billing,2,1,1,1,")
        raw = await browser.get(f"{MESSAGE}?format=raw")
        assert (raw.content, raw.headers["content-type"]) == (b"{}", "application/octet-stream")
        assert raw.headers["content-disposition"].startswith("attachment")
        assert (await browser.get("/topics/orders/jump?queue=broker-a:0&offset=1")).headers["location"] == MESSAGE

    browse(work)


def token_in(page: httpx.Response) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    assert found is not None
    return found[1]


def test_a_dead_letter_is_sent_once_with_the_token_of_its_form() -> None:
    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        url = "/groups/billing/dead/resend"
        form = {"pick": "broker-a:0:0", "csrf": token_in(await browser.get(f"{url}?pick=broker-a:0:0"))}
        assert (await browser.post(url, data=form | {"csrf": "x"})).status_code == 403
        result = (await browser.post(url, data=form, headers=JSON)).json()
        assert result["sent"] == 1
        [sent] = console.connection.sent  # type: ignore[attr-defined]
        assert (sent.topic, sent.body) == ("orders", b"<b>dead</b>")
        [change] = (await browser.get("/audit", headers=JSON)).json()["changes"]
        assert (change["action"], change["group"]) == ("resend", "billing")

    browse(work)


def test_a_reset_is_refused_while_members_are_connected_unless_it_is_forced() -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        url = "/groups/billing/reset"
        form = {"csrf": token_in(await browser.get(f"{url}?topic=orders&target=earliest")), "topic": "orders"}
        form["move"] = "broker-a:0:1:0"
        assert (await browser.post(url, data=form)).status_code == 409
        done = await browser.post(url, data=form | {"force": "yes"}, headers=JSON)
        assert done.json()["set"] == 1, done.text

    browse(work)


def test_a_transaction_that_was_given_up_is_checked_again() -> None:
    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        cluster = console.connection.admin()
        half = message(QUEUE, 1, REAL_TOPIC="orders", PGROUP="shop", TRANSACTION_CHECK_TIMES="15")
        cluster.given_up.append(half)  # type: ignore[attr-defined]
        page = await browser.get("/transactions")
        assert "shop" in page.text
        form = {"csrf": token_in(page), "id": half.offset_msg_id}
        assert (await browser.post("/transactions", data=form)).status_code == 200
        assert cluster.changes[-1][0] == "resume_transaction"  # type: ignore[attr-defined]

    browse(work)


def test_more_transactions_that_were_given_up_than_a_page_shows_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MOST", 2)

    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        numbers = count()

        async def given_up() -> AsyncIterator[MessageExt]:
            for number in numbers:
                yield message(QUEUE, number, REAL_TOPIC="orders", PGROUP="shop")

        console.connection.admin().given_up_transactions = given_up  # type: ignore[method-assign]
        found = (await browser.get("/transactions", headers=JSON)).json()
        assert (len(found["givenUp"]), next(numbers)) == (2, 3)

    browse(work)


@pytest.mark.parametrize(
    "path", ["/groups/billing/reset", "/groups/billing/dead/resend", "/transactions", "/topics/orders/send"]
)
def test_what_changes_is_not_there_read_only(path: str) -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        assert (await browser.post(path, data={})).status_code in (404, 405)

    browse(work, read_only=True)


def test_no_method_changes_anything_read_only() -> None:
    def routes(*, read_only: bool) -> set[tuple[str, str]]:
        app = create_app(Console(MemoryConnection(Cluster()), read_only=read_only))
        return {(one.path, method) for one in app.routes if isinstance(one, Route) for method in one.methods or ()}

    may, may_not = routes(read_only=False), routes(read_only=True)
    assert {method for _, method in may_not} == {"GET", "HEAD"}
    changing = {path for path, method in may if method not in ("GET", "HEAD")}
    assert changing == {
        "/transactions", "/topics/{topic}/send", "/groups/{group}/dead/resend", "/groups/{group}/reset",
        "/new-topic", "/topics/{topic}/change", "/topics/{topic}/delete",
        "/settings/change", "/access/users", "/access/users/{user}",
    }  # fmt: skip

    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        await browser.get("/transactions")  # which gives the browser its cookie
        for path in sorted(changing):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                url = path.replace("{group}", "billing").replace("{topic}", "orders").replace("{user}", "bob")
                for headers in ({}, {"X-HTTP-Method-Override": "POST"}):
                    answer = await browser.request(
                        method, f"{url}?_method=POST", data={"pick": "broker-a:0:0"}, headers=headers
                    )
                    assert answer.status_code in (404, 405), (method, url)
        assert console.connection.admin().changes == []  # type: ignore[attr-defined]
        assert list(console.audit.entries) == []

    browse(work, read_only=True)


def test_names_that_are_asked_for_have_at_most_255_characters() -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        found = (await browser.get(f"/doctor?group=%20{'g' * 300}", headers=JSON)).json()
        assert (found["topic"], found["group"]) == ("", "g" * 255)

    browse(work)


def test_a_language_is_kept_once_it_was_chosen() -> None:
    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        assert "主题" in (await browser.get("/topics?lang=zh")).text
        assert "主题" in (await browser.get("/topics")).text
        assert "主题" not in (await browser.get("/topics?lang=en")).text

    browse(work)


def test_samples_are_kept_while_somebody_looks() -> None:
    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        await browser.get("/rates")
        await browser.get("/groups/billing/history")
        await console.history.sample()
        found = (await browser.get("/rates", headers=JSON)).json()
        assert found["series"][0] == {"name": "broker-a:0 in", "values": [5.0, 5.0]}
        lags = (await browser.get("/groups/billing/history", headers=JSON)).json()
        assert (lags["total"], lags["cells"]) == ([2, 2], [[2, 2]])

    browse(work)
