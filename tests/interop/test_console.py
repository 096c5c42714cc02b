"""The console in a browser, on our servers and on Java's: what a stranger can do, and every page in both themes.

With ROCKETMQ_PY_SCREENSHOTS set to a folder, the pages on our servers are stored there as they look: in the dark theme,
and with the long tests in the light one.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
import pytest

from rocketmq_py import Admin, ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.properties import Property
from tests.interop.side import Side
from tests.server.test_console_browser import browser, pytestmark, until
from tests.server.test_console_command import console

__all__ = ["browser", "pytestmark"]

By = pytest.importorskip("selenium.webdriver.common.by", reason="needs selenium").By

SCREENSHOTS = os.environ.get("ROCKETMQ_PY_SCREENSHOTS")


class Shop(NamedTuple):
    """What the pages show: a topic, a group with a member that is stuck and a dead letter, and the console."""

    address: str
    namesrv: str
    topic: str
    group: str
    client: str
    offset_path: str


@pytest.fixture(scope="module")
def shop(side: Side) -> Iterator[Shop]:
    word = uuid.uuid4().hex[:6]
    topic, group = f"orders-{word}", f"billing-{word}"
    may_end, arrived = threading.Event(), threading.Event()

    def listener(_: Any) -> None:
        arrived.set()
        may_end.wait()

    with Admin(side.namesrv) as admin, Producer("shop", side.namesrv) as producer:
        admin.create_topic(topic, 4)
        admin.create_group(group)
        admin.create_topic(f"%DLQ%{group}", 1)
        for queue in admin.queues(topic):
            admin.set_group_offset(group, queue, 0)
        consumer = PushConsumer(group, side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET, listener=listener)
        consumer.subscribe(topic)
        with consumer, console(side.namesrv) as served, ExitStack() as stack:
            stack.callback(may_end.set)  # the consumer waits for its listeners when it closes
            for number in range(40):
                body = json.dumps({"order": number, "total": f"{number * 7}.50"}) if number else "<b>bold</b>"
                last = producer.send(Message(topic, body.encode(), tags="paid", keys=f"order-{number}"))
            dead = Message(f"%DLQ%{group}", b"<b>broken</b>", keys="order-x")
            dead.properties[Property.RETRY_TOPIC] = topic
            producer.send(dead)
            reset_another_group(admin, served.addresses["console"], f"archive-{word}", topic)
            assert arrived.wait(240)
            connected = admin.members(group)
            assert connected is not None
            client = connected.connection_set[0].client_id
            path = f"/topics/{topic}/messages/{last.queue.broker_name}/{last.queue.queue_id}/{last.queue_offset}"
            yield Shop(served.addresses["console"], side.namesrv, topic, group, client, path)


def reset_another_group(admin: Admin, address: str, group: str, topic: str) -> None:
    """Reset a group without members as its page does, so that the page of changes has one."""
    admin.create_group(group)
    for queue in admin.queues(topic):
        admin.set_group_offset(group, queue, 0)
    with httpx.Client(base_url=address, timeout=240) as program:
        page = program.get(f"/groups/{group}/reset", params={"topic": topic, "target": "latest"}).text
        found = {name: re.findall(rf'name="{name}" value="([^"]+)"', page) for name in ("csrf", "move")}
        assert found["move"], page
        assert program.post(f"/groups/{group}/reset", data={"topic": topic, **found}).status_code == 200


def pages(shop: Shop) -> dict[str, str]:
    """The path of every page by the name of its screenshot."""
    topic, group = f"/topics/{shop.topic}", f"/groups/{shop.group}"
    return {
        "cluster": "/", "rates": "/rates", "doctor": f"/doctor?topic={shop.topic}&group={shop.group}",
        "producers": "/producers", "transactions": "/transactions", "timers": "/timers", "pops": "/pops",
        "holds": "/holds", "spark": "/spark",
        "settings": "/settings", "change-setting": "/settings/change?key=fileReservedTime&value=48",
        "access": "/access",
        "topics": "/topics", "topic": topic, "cost": f"{topic}/cost", "send": f"{topic}/send",
        "new-topic": "/new-topic?topic=fresh&type=FIFO", "change-topic": f"{topic}/change?read=2",
        "delete-topic": f"{topic}/delete",
        "messages": f"{topic}/messages", "tail": f"{topic}/tail", "message": shop.offset_path,
        "life": f"{shop.offset_path}/life", "groups": "/groups", "group": group,
        "history": f"{group}/history", "member": f"{group}/members/{quote(shop.client, safe='')}",
        "dead": f"{group}/dead", "resend": f"{group}/dead/resend?pick=broker-a:0:0",
        "reset": f"{group}/reset?topic={shop.topic}&target=earliest", "search": "/search?q=order", "audit": "/audit",
    }  # fmt: skip


THEMES = {"ours": ("dark", "light"), "java": ("light", "dark")}
"""By side: in which theme pages are drawn in every run, and in which in the long tests."""


def test_every_page_is_drawn_without_an_error_and_from_here(side: Side, shop: Shop, browser: Any) -> None:
    draw_every_page(side, shop, browser, THEMES[side.name][0])


@pytest.mark.long
def test_every_page_is_drawn_in_the_other_theme(side: Side, shop: Shop, browser: Any) -> None:
    draw_every_page(side, shop, browser, THEMES[side.name][1])


def draw_every_page(side: Side, shop: Shop, browser: Any, theme: str) -> None:
    """Look at each page for what must be there, and at what it loads; the browser has nothing to complain about."""
    feature = {"name": "prefers-color-scheme", "value": theme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.set_window_size(1100, 760)
    browser.get_log("browser")
    for name, path in pages(shop).items():
        browser.get(shop.address + path)
        if name in ("audit", "resend", "search"):
            assert browser.find_elements(By.CSS_SELECTOR, "main tbody tr, main li a"), path
        assert browser.find_elements(By.LINK_TEXT, "Topics"), path
        assert browser.find_elements(By.LINK_TEXT, "Groups"), path
        for plot in browser.find_elements(By.CSS_SELECTOR, "[data-plot], [data-heat]"):
            until(browser, lambda _, plot=plot: plot.get_attribute("data-samples"))
        dark = browser.execute_script("return matchMedia('(prefers-color-scheme: dark)').matches")
        assert dark is (theme == "dark")
        loaded = browser.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
        assert [one for one in loaded if not one.startswith(shop.address)] == [], path
        if SCREENSHOTS and side.name == "ours":
            browser.save_screenshot(str(Path(SCREENSHOTS) / f"{name}-{theme}.png"))
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_stranger_finds_a_message_and_reads_it(shop: Shop, browser: Any) -> None:
    browser.get(shop.address)
    browser.find_element(By.LINK_TEXT, "Topics").click()
    browser.find_element(By.LINK_TEXT, shop.topic).click()
    browser.find_element(By.LINK_TEXT, "Messages").click()
    rows = browser.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert "order-39" in rows[0].text
    field = browser.find_element(By.NAME, "key")
    field.send_keys("order-7\n")
    until(browser, lambda seen: "key=order-7" in seen.current_url)
    until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "order-7"))[0].click()
    until(browser, lambda seen: seen.find_elements(By.ID, "body"))
    assert browser.find_element(By.ID, "body").text == '{\n  "order": 7,\n  "total": "49.50"\n}'
    browser.get(f"{shop.address}/topics/{shop.topic}/messages?key=order-0")
    browser.find_element(By.LINK_TEXT, "order-0").click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "body"))[0].text == "<b>bold</b>"


def test_a_stranger_resends_a_dead_letter(shop: Shop, browser: Any) -> None:
    browser.get(f"{shop.address}/groups/{shop.group}")
    assert int(browser.find_element(By.ID, "lag").text) > 0
    assert browser.find_elements(By.CSS_SELECTOR, "[data-plot]")
    browser.find_element(By.LINK_TEXT, "Dead letters").click()
    browser.find_element(By.XPATH, "//button[.='Resend']").click()
    until(browser, lambda seen: "/dead/resend" in seen.current_url)
    browser.find_element(By.CSS_SELECTOR, "form[action$='/dead/resend'] button").click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "sent"))[0].text == "1"
    browser.get(f"{shop.address}/topics/{shop.topic}/messages")
    assert "<b>broken</b>" in browser.find_element(By.CSS_SELECTOR, "tbody tr").text


def test_a_stranger_looks_at_a_reset_and_makes_it(shop: Shop, browser: Any) -> None:
    browser.get(f"{shop.address}/groups/{shop.group}")
    browser.find_element(By.LINK_TEXT, "Reset offsets").click()
    browser.find_element(By.NAME, "topic").send_keys(shop.topic)
    browser.find_element(By.XPATH, "//select[@name='target']/option[@value='latest']").click()
    browser.find_element(By.XPATH, "//button[.='What if?']").click()
    until(browser, lambda seen: "target=latest" in seen.current_url)
    assert "nothing is changed yet" in browser.find_element(By.TAG_NAME, "main").text
    before = lags(shop)
    browser.find_element(By.CSS_SELECTOR, "form[method='post'] button").click()
    until(browser, lambda seen: "members" in seen.find_element(By.TAG_NAME, "main").text.lower())
    assert lags(shop) == before, "members are connected, and nobody said that they are to be reset, too"
    browser.back()
    browser.find_element(By.CSS_SELECTOR, "input[type='checkbox']").click()
    browser.find_element(By.CSS_SELECTOR, "form[method='post'] button").click()
    until(browser, lambda _: sum(lags(shop)) == 0)
    browser.get(f"{shop.address}/audit")
    assert "reset" in browser.find_element(By.CSS_SELECTOR, "tbody tr").text


def lags(shop: Shop) -> list[int]:
    """How many messages of the topic each queue has that the group has not consumed."""
    with Admin(shop.namesrv) as admin:
        found = admin.progress(shop.group)
    return [state.broker_offset - state.consumer_offset for queue, state in found.items() if queue.topic == shop.topic]


def test_programs_get_json_and_changes_need_a_token(shop: Shop) -> None:
    with httpx.Client(base_url=shop.address, timeout=240) as program:
        for name, path in pages(shop).items():
            found = program.get(path, headers={"accept": "application/json"})
            assert (found.status_code, name) == (200, name), found.text
            assert found.json()
        assert program.post(f"/groups/{shop.group}/dead/resend", data={"pick": "broker-a:0:0"}).status_code == 403
    with console(shop.namesrv, "--read-only") as served:
        page = httpx.get(f"{served.addresses['console']}/groups/{shop.group}/dead", timeout=240).text
        assert "Resend" not in page


def test_the_language_is_chosen_and_kept(shop: Shop, browser: Any) -> None:
    browser.get(f"{shop.address}/topics")
    browser.find_element(By.LINK_TEXT, "中文").click()
    until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "主题"))
    browser.get(f"{shop.address}/groups")
    assert browser.find_elements(By.LINK_TEXT, "主题")
    browser.find_element(By.LINK_TEXT, "English").click()
    until(browser, lambda seen: seen.find_elements(By.LINK_TEXT, "Topics"))


def test_a_stranger_sends_a_message_and_reads_it(shop: Shop, browser: Any) -> None:
    browser.get(f"{shop.address}/topics/{shop.topic}")
    browser.find_element(By.LINK_TEXT, "Send a message").click()
    until(browser, lambda seen: seen.find_elements(By.NAME, "body"))[0].send_keys("<i>by hand</i>")
    browser.find_element(By.NAME, "keys").send_keys("by-hand")
    browser.find_element(By.XPATH, "//main//button[.='Send a message']").click()
    until(browser, lambda seen: seen.find_elements(By.ID, "sent"))[0].click()
    until(browser, lambda seen: seen.find_elements(By.ID, "body"))
    assert browser.find_element(By.ID, "body").text == "<i>by hand</i>"
    browser.get(f"{shop.address}/topics/{shop.topic}/messages?key=by-hand")
    assert browser.find_elements(By.LINK_TEXT, "by-hand")


def test_a_stranger_creates_a_topic_changes_it_and_deletes_it(shop: Shop, browser: Any) -> None:
    name = f"made-{uuid.uuid4().hex[:8]}"
    browser.get(f"{shop.address}/topics")
    browser.find_element(By.LINK_TEXT, "Create a topic").click()
    until(browser, lambda seen: seen.find_elements(By.NAME, "topic"))[0].send_keys(f"{name}\n")
    until(browser, lambda seen: seen.find_elements(By.CSS_SELECTOR, "form[method='post'] button"))[0].click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "changed"))[0].text == "1"
    browser.get(f"{shop.address}/topics/{name}/change?read=2")
    browser.find_element(By.CSS_SELECTOR, "form[action$='/change'] button").click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "changed"))[0].text == "1"
    with Admin(shop.namesrv) as admin:
        [config] = admin.topic_config(name).values()
        assert (config.read_queue_nums, config.write_queue_nums, config.attributes) == (
            2,
            8,
            {"message.type": "NORMAL"},
        )
        browser.get(f"{shop.address}/topics/{name}")
        browser.find_element(By.LINK_TEXT, "Delete").click()
        until(browser, lambda seen: seen.find_elements(By.ID, "typed"))[0].send_keys(f"{name}\n")
        assert until(browser, lambda seen: seen.find_elements(By.ID, "changed"))[0].text == "1"
        assert name not in admin.topics()


def test_messages_appear_as_they_come(shop: Shop, browser: Any) -> None:
    browser.get(f"{shop.address}/topics/{shop.topic}")
    browser.find_element(By.LINK_TEXT, "Live messages").click()
    until(browser, lambda seen: seen.find_elements(By.ID, "tail"))
    with Producer("shop", shop.namesrv) as producer:
        producer.send(Message(shop.topic, b"<i>just now</i>", keys="now"))
    until(browser, lambda seen: "<i>just now</i>" in seen.find_element(By.ID, "tail").text)
    link = browser.find_element(By.CSS_SELECTOR, "#tail a")
    link.click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "body"))[0].text == "<i>just now</i>"
