"""Login to the console with access keys of a guarded cluster, its cookies, TLS, and attacks on both."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Awaitable, Callable

import httpx
import pytest

from rocketmq_py import Admin, Credentials
from rocketmq_py.console.app import create_app
from rocketmq_py.console.connection import Connection
from rocketmq_py.console.login import IDLE_SECONDS, Sessions
from rocketmq_py.console.state import Console
from rocketmq_py.testing import Cluster
from tests.certificates import Authority
from tests.server.test_access import GUARDED, ROOT, add_user, allow
from tests.server.test_serve import Served

JSON = {"accept": "application/json"}
READER = Credentials("reader", "reader-secret")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory):
    with Cluster(store_dir=tmp_path_factory.mktemp("guarded"), access=GUARDED) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("payments")
        add_user(cluster, READER.access_key, READER.secret_key)
        allow(cluster, READER.access_key, "Topic:orders", actions=("Get",))
        yield cluster


class Clock:
    """A clock that tests turn."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def browse(
    namesrv: str, work: Callable[[httpx.AsyncClient, Clock], Awaitable[None]], base: str = "http://127.0.0.1:8080"
) -> None:
    async def run() -> None:
        connection, clock = Connection(namesrv), Clock()
        sessions = Sessions(lambda who: Connection(namesrv, credentials=who), clock)
        transport = httpx.ASGITransport(create_app(Console(connection), (), sessions))
        try:
            async with httpx.AsyncClient(transport=transport, base_url=base) as browser:
                await work(browser, clock)
        finally:
            await sessions.close()
            await connection.close()

    asyncio.run(run())


async def log_in(browser: httpx.AsyncClient, who: Credentials, to: str = "/") -> httpx.Response:
    page = await browser.get("/login", params={"next": to})
    found = re.search(r'name="csrf" value="(\w+)"', page.text)
    form = {"key": who.access_key, "secret": who.secret_key, "next": to, "csrf": found[1] if found else ""}
    return await browser.post("/login", data=form)


def test_pages_need_a_login_and_act_with_the_rights_of_its_user(guarded: Cluster) -> None:
    async def work(browser: httpx.AsyncClient, _: Clock) -> None:
        sent_on = await browser.get("/topics/orders?page=1")
        assert (sent_on.status_code, sent_on.headers["location"]) == (303, "/login?next=%2Ftopics%2Forders%3Fpage%3D1")
        assert (await browser.get("/topics", headers=JSON)).status_code == 401
        assert (await browser.post("/groups/g/reset", data={})).status_code == 401
        done = await log_in(browser, READER, "/topics/orders")
        assert (done.status_code, done.headers["location"]) == (303, "/topics/orders")
        assert (await browser.get("/topics/orders")).status_code == 200
        assert "reader" in (await browser.get("/topics/orders")).text
        assert (await browser.get("/topics/payments")).status_code == 403
        assert (await log_in(browser, ROOT)).status_code == 303
        assert (await browser.get("/topics/payments")).status_code == 200, "the session is that of the last login"

    browse(guarded.namesrv, work)


def test_a_wrong_secret_is_refused_and_repeated_failures_wait(
    guarded: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(browser: httpx.AsyncClient, clock: Clock) -> None:
        for _ in range(5):
            refused = await log_in(browser, Credentials("root", "a-wrong-guess"))
            assert refused.headers["location"] == "/login?reason=refused&next=%2F"
        assert (await browser.get("/", headers=JSON)).status_code == 401
        assert "reason=wait" in (await log_in(browser, ROOT)).headers["location"], "also for the right secret"
        clock.now += 2
        assert (await log_in(browser, ROOT)).headers["location"] == "/"
        changes = (await browser.get("/audit", headers=JSON)).json()["changes"]
        assert [(entry["action"], entry["what"], entry["who"]) for entry in changes] == [("login", "root", "root")]

    browse(guarded.namesrv, work)
    assert "a-wrong-guess" not in caplog.text
    assert ROOT.secret_key not in caplog.text


def test_nobody_logs_in_to_a_cluster_that_does_not_check_keys(rocketmq: Cluster) -> None:
    async def work(browser: httpx.AsyncClient, _: Clock) -> None:
        assert "reason=unchecked" in (await log_in(browser, ROOT)).headers["location"]
        assert (await browser.get("/", headers=JSON)).status_code == 401

    browse(rocketmq.namesrv, work)


def test_a_session_has_a_new_cookie_and_ends_with_logout_or_when_idle(guarded: Cluster) -> None:
    async def work(browser: httpx.AsyncClient, clock: Clock) -> None:
        await browser.get("/login")
        before = browser.cookies["rocketmq_console"]
        done = await log_in(browser, ROOT)
        cookie = browser.cookies["rocketmq_console"]
        assert cookie != before
        for word in ("HttpOnly", "SameSite=strict", "Path=/"):
            assert word in done.headers["set-cookie"]
        page = await browser.get("/")
        assert page.status_code == 200
        assert page.headers["cache-control"] == "no-store"
        assert ROOT.secret_key not in page.text
        token = re.search(r'action="/logout"><input type="hidden" name="csrf" value="(\w+)"', page.text)
        assert token is not None
        assert (await browser.post("/logout", data={"csrf": "0"})).status_code == 403
        assert (await browser.post("/logout", data={"csrf": token[1]})).status_code == 303
        browser.cookies.set("rocketmq_console", cookie)
        assert (await browser.get("/", headers=JSON)).status_code == 401, "the old cookie is worth nothing"
        browser.cookies.clear()
        await log_in(browser, ROOT)
        clock.now += IDLE_SECONDS + 1
        assert (await browser.get("/", headers=JSON)).status_code == 401

    browse(guarded.namesrv, work)


def test_attacks_on_the_login_are_refused(guarded: Cluster) -> None:
    async def work(browser: httpx.AsyncClient, _: Clock) -> None:
        form = {"key": "root", "secret": ROOT.secret_key}
        assert (await browser.post("/login", data=form)).status_code == 403, "no token"
        foreign = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        assert (await browser.post("/login", data=form, headers=foreign)).status_code == 403
        assert (await browser.post("/login", json=form)).status_code == 415
        for elsewhere in ("//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/\n/x"):
            assert (await log_in(browser, ROOT, elsewhere)).headers["location"] == "/"
        guessed = "A" * 43
        browser.cookies.clear()
        browser.cookies.set("rocketmq_console", guessed)
        assert (await browser.get("/", headers=JSON)).status_code == 401
        shown = await browser.get('/login?reason=<script>&next="><script>alert(1)</script>')
        assert "<script>alert" not in shown.text

    browse(guarded.namesrv, work)


def test_with_tls_the_cookie_belongs_to_this_host_and_is_sent_with_tls_only(guarded: Cluster) -> None:
    async def work(browser: httpx.AsyncClient, _: Clock) -> None:
        done = await log_in(browser, ROOT)
        assert done.headers["set-cookie"].startswith("__Host-rocketmq_console=")
        assert "Secure" in done.headers["set-cookie"]
        assert (await browser.get("/")).status_code == 200

    browse(guarded.namesrv, work, "https://127.0.0.1:8080")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def trusting(authority: Authority, address: str) -> httpx.Client:
    context = ssl.create_default_context(cafile=authority.ca)
    return httpx.Client(base_url=address, verify=context, timeout=240)


def test_a_console_with_login_and_tls_may_listen_everywhere(cluster: Cluster, authority: Authority) -> None:
    pair = authority.issue("console")
    words = ("console", "--port", 0, "--namesrv", cluster.namesrv, "--host", "0.0.0.0", "--login")
    with Served(*words) as served:
        assert served.line == ""
        status, said = served.stop()
    assert (status, "without TLS they can read the secret keys" in said) == (2, True)
    with Served(*words, "--https-cert", pair.cert, "--https-key", pair.key) as served:
        address = served.addresses["console"]
        assert address.startswith("https://0.0.0.0:")
        with trusting(authority, address.replace("0.0.0.0", "127.0.0.1")) as browser:
            assert browser.get("/", headers=JSON).status_code == 401
            assert "__Host-" in browser.get("/login").headers["set-cookie"]
        assert served.stop()[0] == 0


def test_a_certificate_that_cannot_be_read_is_an_error_of_one_line(cluster: Cluster, tmp_path) -> None:
    with Served("console", "--port", 0, "--namesrv", cluster.namesrv, "--https-cert", tmp_path / "none.pem") as served:
        status, said = served.stop()
    assert (served.line, status, said.count("\n")) == ("", 2, 1)


def test_a_console_beside_a_guarded_broker_with_tls_has_both(tmp_path, authority: Authority) -> None:
    pair = authority.issue("broker")
    settings = [word for key, value in GUARDED.items() for word in ("--set", f"{key}={value}")]
    with Served(
        "serve", "--store", tmp_path, "--port", 0, "--namesrv-port", 0, "--console", 0, "--tls-cert", pair.cert,
        "--tls-key", pair.key, "--tls-mode", "enforcing", *settings,
    ) as served, trusting(authority, served.addresses["console"]) as browser:  # fmt: skip
        page = browser.get("/login")
        token = re.search(r'name="csrf" value="(\w+)"', page.text)
        assert token is not None
        form = {"key": "root", "secret": ROOT.secret_key, "csrf": token[1]}
        assert browser.post("/login", data=form).headers["location"] == "/"
        [broker] = browser.get("/", headers=JSON).json()["brokers"]
        assert (broker["broker"], broker["error"]) == ("broker-a", None)
        tls = ssl.create_default_context(cafile=authority.ca)
        with Admin(served.addresses["namesrv"], tls=tls, credentials=ROOT) as admin:
            assert admin.producers() == {}


def test_the_secret_is_not_in_what_a_console_prints(guarded: Cluster) -> None:
    with Served("console", "--port", 0, "--namesrv", guarded.namesrv, "--login") as served:
        with httpx.Client(base_url=served.addresses["console"], timeout=240) as browser:
            token = re.search(r'name="csrf" value="(\w+)"', browser.get("/login").text)
            assert token is not None
            for secret in ("a-wrong-guess", ROOT.secret_key):
                browser.post("/login", data={"key": "root", "secret": secret, "csrf": token[1]})
        status, said = served.stop()
    assert status == 0
    assert [json.loads(line[line.index("{") :])["result"] for line in said.splitlines() if '"login"' in line] == [
        "refused: 401", "accepted",
    ]  # fmt: skip
    assert ROOT.secret_key not in said
    assert "a-wrong-guess" not in said
