"""No page, in no form, shows of a body what the operator hides."""

from __future__ import annotations

import re
from base64 import b64encode

import httpx
import pytest
from starlette.routing import Route

from rocketmq_py.console.app import create_app
from rocketmq_py.console.masks import Masks
from rocketmq_py.console.state import Console
from tests.unit.console.memory import DEAD, JSON, QUEUE, Cluster, MemoryConnection, browse, message
from tests.unit.console.test_app_pages import MESSAGE, PAGES

SECRET = "s3cr3t-4111"
FORMS = ({"accept": "text/html"}, JSON, {"accept": "text/csv"})
SHOWING = {
    MESSAGE, f"{MESSAGE}?decoder=hex&body=all", f"{MESSAGE}?format=raw", f"{MESSAGE}?decoder=text",
    "/topics/orders/messages", "/topics/orders/messages?key=k-1", "/topics/orders/messages?since=1h&queue=broker-a:0",
    "/topics/orders/tail", "/groups/billing/dead", "/groups/billing/dead/resend?pick=broker-a:0:0", "/transactions",
}  # fmt: skip
"""The pages that show bodies."""


def cluster(body: bytes) -> Cluster:
    found = Cluster()
    found.stored.clear()
    found.add_messages(
        *(message(QUEUE, number, body, UNIQ_KEY=f"{number:032}", KEYS=f"k-{number}") for number in range(3)),
        message(DEAD, 0, body, RETRY_TOPIC="orders", UNIQ_KEY="A" * 32),
    )
    found.halves = [message(QUEUE, 7, body, REAL_TOPIC="orders")]
    found.given_up = [message(QUEUE, 8, body, REAL_TOPIC="orders")]
    return found


def leaks(text: str) -> bool:
    """Return True if a text has the secret, also as a dump or in Base64 at any of the three places of its digits."""
    encoded = [b64encode(b" " * pad + SECRET.encode()).decode()[4:-4] for pad in range(3)]
    dump = SECRET.encode()[:6].hex(" ")
    return SECRET in text or dump in text or any(part in text for part in encoded)


def shown(masks: Masks | None, body: bytes) -> set[str]:
    """Return the pages that show the secret in one of their forms."""
    found: set[str] = set()

    async def work(browser: httpx.AsyncClient, _: Console) -> None:
        for path in sorted({*PAGES, *SHOWING}):
            for form in FORMS:
                answer = await browser.get(path, headers=form)
                if leaks(answer.text):
                    found.add(path)
        page = (await browser.get("/transactions")).text
        token = re.search(r'name="csrf" value="(\w+)"', page)
        assert token is not None
        answer = await browser.post("/transactions", data={"csrf": token[1], "id": "x"})
        assert answer.status_code == 200
        if leaks(answer.text):
            found.add("POST /transactions")

    browse(work, cluster=cluster(body), masks=masks)
    return found


BODY = b'{"card": {"number": "s3cr3t-4111"}, "other": 1}'


def test_these_pages_show_bodies_where_nothing_is_hidden() -> None:
    assert shown(None, BODY) == {*SHOWING, "POST /transactions"}


@pytest.mark.parametrize(
    ("masks", "body"),
    [
        (Masks(are_hidden=True), BODY), (Masks(["s3cr3t-[0-9]+"]), BODY), (Masks(paths=["$.card.number"]), BODY),
        (Masks(paths=["$..number"]), b"no JSON: s3cr3t-4111"), (Masks(["s3cr3t-[0-9]+"]), b"\x00s3cr3t-4111"),
    ],
)  # fmt: skip
def test_no_page_shows_what_is_hidden(masks: Masks, body: bytes) -> None:
    assert shown(masks, body) == set()


def test_these_are_all_pages() -> None:
    app = create_app(Console(MemoryConnection(Cluster())))
    paths = {path.partition("?")[0] for path in PAGES}
    left = [
        route.path
        for route in app.routes
        if isinstance(route, Route) and "GET" in (route.methods or ()) and not any(map(route.path_regex.match, paths))
    ]
    assert left == ["/topics/{topic}/jump", "/messages/{id}"], "these answer with an address only"


def test_a_page_says_that_bodies_are_masked_or_hidden() -> None:
    async def work(browser: httpx.AsyncClient, console: Console) -> None:
        page = (await browser.get(MESSAGE)).text
        assert "hides bodies or parts of them" in page
        assert "format=raw" not in page
        assert (await browser.get(f"{MESSAGE}?format=raw")).status_code == 403
        row = (await browser.get("/topics/orders/messages", headers=JSON)).json()["messages"][0]
        assert (row["body"], row["size"]) == (None, len(BODY))
        assert '<td class="b">hidden</td>' in (await browser.get("/topics/orders/messages")).text
        assert (await browser.get(MESSAGE, headers=JSON)).json()["message"]["body"] == {
            "text": "", "decoder": "hidden", "shownBytes": 0, "bytes": len(BODY), "cut": True, "base64": None,
        }  # fmt: skip

    browse(work, cluster=cluster(BODY), masks=Masks(are_hidden=True))
