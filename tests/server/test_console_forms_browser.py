"""Login, settings, users, several clusters, a proxy's users and saved filters of the console, in a browser.

With ROCKETMQ_PY_SCREENSHOTS set to a folder, pages that need a login are stored there in both themes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.testing import Cluster
from tests.server.test_access import GUARDED, ROOT
from tests.server.test_console_browser import browser, pytestmark, until
from tests.server.test_console_command import console
from tests.server.test_serve import Served

__all__ = ["browser", "pytestmark"]

By = pytest.importorskip("selenium.webdriver.common.by", reason="needs selenium").By

SCREENSHOTS = os.environ.get("ROCKETMQ_PY_SCREENSHOTS")


def picture(browser: Any, name: str) -> None:
    """Store how a page looks in both themes."""
    if not SCREENSHOTS:
        return
    browser.set_window_size(1100, 760)
    for theme in ("dark", "light"):
        feature = {"name": "prefers-color-scheme", "value": theme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.save_screenshot(str(Path(SCREENSHOTS) / f"{name}-{theme}.png"))


def one(browser: Any, selector: str) -> Any:
    """Wait for an element and return it."""
    return until(browser, lambda seen: seen.find_elements(By.CSS_SELECTOR, selector))[0]


def done(browser: Any) -> None:
    """Wait for the page that says what a change did: it succeeded on every broker."""
    until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "Back"))
    assert one(browser, "main tbody .error").text == ""


def complaints(browser: Any) -> list[str]:
    """What the browser has complained about, such as scripts that the policy forbids."""
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(store_dir=tmp_path_factory.mktemp("guarded"), access=GUARDED) as cluster:
        cluster.create_topic("orders")
        yield cluster


@pytest.fixture(scope="module")
def address(guarded: Cluster) -> Iterator[str]:
    with console(guarded.namesrv, "--login") as served:
        yield served.addresses["console"]


def log_in(browser: Any, address: str, path: str) -> None:
    browser.delete_all_cookies()
    browser.get(address + path)
    until(browser, lambda seen: seen.current_url.startswith(f"{address}/login?next="))
    one(browser, "input[name=key]").send_keys(ROOT.access_key)
    one(browser, "input[name=secret]").send_keys(ROOT.secret_key)
    one(browser, "main form[method=post] button").click()
    until(browser, lambda seen: seen.current_url == address + path)


def test_the_form_says_why_a_login_failed_and_leads_on_afterwards(browser: Any, address: str) -> None:
    browser.get(f"{address}/topics")
    picture(browser, "login")
    one(browser, "input[name=key]").send_keys(ROOT.access_key)
    one(browser, "input[name=secret]").send_keys("wrong")
    one(browser, "main form[method=post] button").click()
    until(browser, lambda seen: "reason=refused" in seen.current_url)
    assert "does not accept this access key" in one(browser, "main").text
    log_in(browser, address, "/topics")
    assert browser.find_elements(By.LINK_TEXT, "orders")
    one(browser, "header form[method=post] button").click()
    until(browser, lambda seen: seen.current_url == f"{address}/login")
    browser.get(f"{address}/topics/orders")
    until(browser, lambda seen: "/login?next=" in seen.current_url)


def test_a_user_is_added_gets_a_rule_and_is_removed(browser: Any, guarded: Cluster, address: str) -> None:
    browser.get_log("browser")
    log_in(browser, address, "/access")
    one(browser, "input[name=user]").send_keys("reader")
    one(browser, "input[name=password]").send_keys("reader-secret")
    one(browser, "form[action$='/access/users'] button").click()
    done(browser)
    browser.get(f"{address}/access")
    link = until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "reader"))[0]
    link.click()
    one(browser, "input[name=resources]").send_keys("Topic:orders*")
    one(browser, "input[name=action][value=Sub]").click()
    one(browser, "button[value=allow]").click()
    done(browser)
    browser.get(f"{address}/access/users/reader")
    until(browser, lambda seen: "Topic:orders*" in one(seen, "main table").text)
    picture(browser, "user")
    one(browser, "button[value=disable]").click()
    done(browser)
    with Admin(guarded.namesrv, credentials=ROOT) as admin:
        [user] = [user for user in admin.users() if user.username == "reader"]
        assert user.user_status == "disable"
    browser.get(f"{address}/access/users/reader")
    one(browser, "#typed").send_keys("reader")
    one(browser, "form:has(#typed) button").click()
    done(browser)
    browser.get(f"{address}/access")
    assert not browser.find_elements(By.LINK_TEXT, "reader")
    assert complaints(browser) == []


def test_a_setting_is_changed_after_its_preview(browser: Any, guarded: Cluster, address: str) -> None:
    log_in(browser, address, "/settings?q=fileReservedTime")
    until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "fileReservedTime"))[0].click()
    field = one(browser, "input[name=value]:not([type=hidden])")
    field.clear()
    field.send_keys("49")
    field.submit()
    until(browser, lambda seen: "value=49" in seen.current_url)
    one(browser, "main form[method=post] button").click()
    done(browser)
    with Admin(guarded.namesrv, credentials=ROOT) as admin:
        [master] = [data.broker_addrs[0] for data in admin.cluster().broker_addr_table.values()]
        assert admin.broker_config(master)["fileReservedTime"] == "49"
    browser.get(f"{address}/audit")
    assert ROOT.access_key in one(browser, "main table").text


def test_clusters_are_switched_at_the_top(browser: Any, cluster: Cluster, guarded: Cluster, topic: str) -> None:
    words = ("--cluster", f"east={cluster.namesrv}", "--cluster", f"west={guarded.namesrv}")
    with Served("console", "--port", 0, *words) as served:
        address = served.addresses["console"]
        browser.get(f"{address}/")
        until(browser, lambda seen: seen.current_url == f"{address}/clusters/east/")
        one(browser, "body").send_keys("gt")
        until(browser, lambda seen: seen.current_url == f"{address}/clusters/east/topics")
        assert browser.find_elements(By.LINK_TEXT, topic)
        browser.find_element(By.LINK_TEXT, "west").click()
        until(browser, lambda seen: seen.current_url == f"{address}/clusters/west/")
        assert one(browser, "#clusters [aria-current]").text == "west"


def test_the_users_of_a_proxy_see_what_their_roles_may_do(
    browser: Any, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    roles = tmp_path / "roles"
    roles.write_text("admin: ann\noperator: bob\nviewer: *\n")
    words = ("--auth-header", "X-User", "--auth-from", "127.0.0.1", "--proxy-roles", roles)
    with console(cluster.namesrv, *words) as served:
        address = served.addresses["console"]
        browser.execute_cdp_cmd("Network.enable", {})
        try:
            for user, word, links in (("ann", "admin", 3), ("bob", "operator", 1), ("eve", "viewer", 0)):
                browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"X-User": user}})
                browser.get(f"{address}/topics/{topic}")
                assert f"{user} ({word})" in one(browser, "header").text
                found = browser.find_elements(
                    By.CSS_SELECTOR, "a[href$='/send'], a[href$='/change'], a[href$='/delete']"
                )
                assert len(found) == links, user
            browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {"X-User": "bob"}})
            browser.get(f"{address}/topics/{topic}/send")
            one(browser, "textarea[name=body]").send_keys("by bob")
            one(browser, "main form[method=post] button").click()
            one(browser, "#sent")
            browser.get(f"{address}/audit")
            assert "bob" in one(browser, "main table").text
        finally:
            browser.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": {}})


def test_filters_are_kept_in_the_browser_and_found_messages_are_linked(
    browser: Any, cluster: Cluster, topic: str
) -> None:
    with Producer("p", cluster.namesrv) as producer:
        for number in range(3):
            sent = Message(topic, f"body {number}", keys=f"k{number}")
            sent.properties["shop"] = str(number % 2)
            producer.send(sent)
    with console(cluster.namesrv) as served:
        address = f"{served.addresses['console']}/topics/{topic}/messages"
        browser.get_log("browser")
        browser.get(address)
        one(browser, "input[name=property]").send_keys("shop")
        one(browser, "input[name=value]").send_keys("0")
        one(browser, "input[name=value]").submit()
        until(browser, lambda seen: "property=shop" in seen.current_url)
        assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 2
        one(browser, "#filter").send_keys("<b>shop 0</b>")
        one(browser, "#save button").click()
        browser.get(address)
        assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 3
        until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "<b>shop 0</b>"))[0].click()
        until(browser, lambda seen: seen.current_url == f"{address}?property=shop&value=0")
        assert len(browser.find_elements(By.CSS_SELECTOR, "main tbody tr")) == 2
        one(browser, "#saved button").click()
        until(browser, lambda seen: not seen.find_elements(By.CSS_SELECTOR, "#saved li"))
        browser.refresh()
        one(browser, "#save:not([hidden])")
        assert not browser.find_elements(By.CSS_SELECTOR, "#saved li")
        assert complaints(browser) == []
