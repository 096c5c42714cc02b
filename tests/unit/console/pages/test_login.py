"""Logins and logouts in a browser."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from rocketmq_py.console.app import create_app
from rocketmq_py.console.login import Sessions
from rocketmq_py.console.state import Console
from rocketmq_py.errors import BrokerError, ConnectError
from tests.unit.console.memory import Cluster, MemoryConnection

Work = Callable[[httpx.AsyncClient, Console, Sessions], Awaitable[None]]
HTML = {"accept": "text/html"}


def browse(work: Work, *, failure: Exception | None = None, guarded: bool = True) -> None:
    """Run a test with a browser of a console whose cluster accepts the secret key ``right``."""

    async def run() -> None:
        def connect(credentials: Any) -> MemoryConnection:
            cluster = Cluster()
            if failure is not None:
                cluster.failures["cluster"] = failure
            return MemoryConnection(cluster, not guarded or credentials.secret_key == "right")

        sessions, console = Sessions(connect, lambda: 0.0), Console(MemoryConnection(Cluster()))
        transport = httpx.ASGITransport(create_app(console, (), sessions))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as browser:
            await work(browser, console, sessions)
        await sessions.close()

    asyncio.run(run())


async def token(browser: httpx.AsyncClient, path: str = "/login") -> str:
    found = re.search(r'name="csrf" value="(\w+)"', (await browser.get(path)).text)
    assert found is not None
    return found[1]


async def login(browser: httpx.AsyncClient, **fields: str) -> httpx.Response:
    form = {"csrf": await token(browser), "key": "anna", "secret": "right"}
    return await browser.post("/login", data=form | fields)


def test_a_browser_is_sent_to_the_form_and_comes_back() -> None:
    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        for path, there in (("/topics?q=a%20b", "%2Ftopics%3Fq%3Da%2520b"), ("/groups", "%2Fgroups"),
                            ("/topics?format=xml", "%2Ftopics%3Fformat%3Dxml")):  # fmt: skip
            away = await browser.get(path, headers=HTML)
            assert (away.status_code, away.headers["location"]) == (303, f"/login?next={there}")
        assert 'name="next" value="/topics?q=a%20b"' in (await browser.get("/login?next=/topics?q=a%2520b")).text
        assert 'name="next" value="/"' in (await browser.get("/login?next=//other")).text
        answer = await browser.get("/topics", headers={"accept": "application/json"})
        assert (answer.status_code, answer.json()["error"]) == (401, "log in first: /login")
        assert (await browser.get("/topics?format=csv")).status_code == 401
        answer = await browser.post("/transactions", headers=HTML, data={"a": "b"})
        assert answer.status_code == 401
        before = browser.cookies["rocketmq_console"]
        answer = await login(browser, next="/topics?q=a")
        assert (answer.status_code, answer.headers["location"]) == (303, "/topics?q=a")
        cookie = browser.cookies["rocketmq_console"]
        assert cookie != before, "whoever knew the old cookie has no session"
        assert (await sessions.find(cookie), await sessions.find(before)) != (None, None)
        page = await browser.get("/topics", headers=HTML)
        assert (page.status_code, "anna <button>" in page.text) == (200, True)
        again = await login(browser, key="berta")
        assert (again.status_code, again.headers["location"]) == (303, "/")
        assert await sessions.find(cookie) is None, "the session before it has ended"
        assert "berta <button>" in (await browser.get("/topics", headers=HTML)).text

    browse(work)


def test_a_logout_ends_the_session_and_needs_the_token_of_the_page() -> None:
    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        await login(browser)
        cookie = browser.cookies["rocketmq_console"]
        csrf = await token(browser, "/topics")
        wrong = await browser.post("/logout", data={"csrf": "x"})
        assert (wrong.status_code, wrong.headers["content-type"]) == (403, "text/plain; charset=utf-8")
        assert wrong.text == "the form is not from this console, or older than its last start: reload the page\n"
        assert (await browser.post("/logout")).status_code == 415
        assert await sessions.find(cookie) is not None
        gone = await browser.post("/logout", data={"csrf": csrf})
        assert (gone.status_code, gone.headers["location"]) == (303, "/login")
        assert await sessions.find(cookie) is None
        assert browser.cookies["rocketmq_console"] != cookie
        assert (await browser.get("/topics", headers=HTML)).status_code == 303

    browse(work)


@pytest.mark.parametrize(
    ("fields", "failure", "guarded", "reason", "status"),
    [
        ({"secret": "wrong"}, None, True, "refused", 401), ({"secret": ""}, None, True, "refused", 401),
        ({}, None, False, "unchecked", 403), ({}, ConnectError("away"), True, "away", 504),
        ({}, TimeoutError(), True, "away", 504), ({}, BrokerError(1, "no"), True, "unchecked", 403),
    ],
)  # fmt: skip
def test_a_login_that_fails_says_why(
    fields: dict[str, str], failure: Exception | None, guarded: bool, reason: str, status: int
) -> None:
    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        recorded: list[dict[str, Any]] = []
        record = console.audit.record

        def noted(request: Any, action: str, **what: Any) -> None:
            recorded.append(what | {"action": action, "who": request.state.who})
            record(request, action, **what)

        console.audit.record = noted  # type: ignore[method-assign]
        answer = await login(browser, **fields, next="/a?b=c")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/login?reason={reason}&next=%2Fa%3Fb%3Dc")
        assert recorded == [
            {"action": "login", "who": None, "is_kept": False, "what": "anna", "result": f"refused: {status}"}
        ]
        assert list(console.audit.entries) == []
        assert 'id="reason"' in (await browser.get(f"/login?reason={reason}")).text
        assert 'id="reason"' not in (await browser.get("/login?reason=other")).text

    browse(work, failure=failure, guarded=guarded)


def test_many_guesses_at_a_time_ask_the_cluster_few_times_and_are_all_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def counted(connection: Any) -> bool:
        asked.append(connection)
        await asyncio.sleep(0)
        return False

    monkeypatch.setattr("rocketmq_py.console.login.is_accepted", counted)

    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        csrf = await token(browser)
        forms = [{"csrf": csrf, "key": f"user-{number}", "secret": f"guess-{number}"} for number in range(100)]
        answers = await asyncio.gather(*(browser.post("/login", data=form) for form in forms))
        reasons = [answer.headers["location"] for answer in answers]
        assert sum("reason=refused" in reason for reason in reasons) == 5
        assert sum("reason=wait" in reason for reason in reasons) == 95
        assert list(console.audit.entries) == [], "guesses do not push changes out of the page"

    browse(work)
    assert len(asked) == 2 * 5, "one proof of five attempts: with the secret key, and with another one"
    said = [json.loads(record.getMessage()) for record in caplog.records if '"login"' in record.getMessage()]
    assert {entry["what"] for entry in said} == {f"user-{number}" for number in range(100)}
    assert sorted(entry["result"] for entry in said) == ["refused: 401"] * 5 + ["refused: 429"] * 95
    assert "guess-" not in caplog.text


def test_logins_are_recorded_and_those_after_many_failures_wait() -> None:
    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        await login(browser)
        [entry] = console.audit.entries
        assert (entry["action"], entry["what"], entry["result"], entry["who"]) == ("login", "anna", "accepted", "anna")
        assert "<td>login</td>" in (await browser.get("/audit", headers=HTML)).text
        for _ in range(5):
            await login(browser, secret="wrong", key="b" * 300)
        assert (await login(browser, key="b" * 300)).headers["location"].startswith("/login?reason=wait&")

    browse(work)


def test_a_login_without_the_token_or_the_form_is_refused() -> None:
    async def work(browser: httpx.AsyncClient, console: Console, sessions: Sessions) -> None:
        answer = await browser.post("/login", data={"key": "anna", "secret": "right"})
        assert (answer.status_code, answer.headers["content-type"]) == (403, "text/plain; charset=utf-8")
        assert answer.text.endswith("reload the page\n")
        assert (await browser.post("/login")).status_code == 415
        assert list(console.audit.entries) == []

    browse(work)
