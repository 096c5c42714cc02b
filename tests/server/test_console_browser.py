"""The console in a browser: its forms, its keys, and the content security policy it runs under."""

import os
import shutil
import uuid

import pytest

from rocketmq_py import Admin, Message, Producer
from rocketmq_py.properties import Property
from rocketmq_py.testing import Cluster
from tests.server.test_console_command import console

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not BROWSER or not DRIVER, reason="needs chromium and chromedriver")

SECONDS = 240.0
"""Longer than a page takes, also on a busy machine."""
HOSTILE = "<img src=x onerror=\"document.title='changed'\">"


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"):
        options.add_argument(word)
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # which does not start for root
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def served(cluster: Cluster):
    with console(cluster.namesrv) as running:
        yield running.addresses["console"]


def until(browser, condition):
    return WebDriverWait(browser, SECONDS).until(condition)


def test_a_dead_letter_is_resent_with_the_forms_of_the_pages(cluster: Cluster, topic, browser, served):
    group = f"g-{uuid.uuid4().hex[:12]}"
    with Admin(cluster.namesrv) as admin, Producer("p", cluster.namesrv) as producer:
        admin.create_group(group)
        admin.create_topic(f"%DLQ%{group}", 1)
        dead = Message(f"%DLQ%{group}", HOSTILE)
        dead.properties[Property.RETRY_TOPIC] = topic
        producer.send(dead)
    browser.get(f"{served}/groups/{group}/dead")
    assert HOSTILE in browser.find_element(By.CSS_SELECTOR, "td.b").text
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    until(browser, lambda seen: seen.current_url.startswith(f"{served}/groups/{group}/dead/resend?pick="))
    browser.find_element(By.CSS_SELECTOR, "form[method=post] button").click()
    assert until(browser, lambda seen: seen.find_elements(By.ID, "sent"))[0].text == "1"
    browser.get(f"{served}/topics/{topic}/messages")
    assert HOSTILE in browser.find_element(By.TAG_NAME, "table").text
    assert "changed" not in browser.title


def test_keys_go_to_pages_and_nothing_violates_the_policy(topic, browser, served):
    browser.get_log("browser")
    browser.get(served)
    browser.find_element(By.TAG_NAME, "body").send_keys("gt")
    until(browser, lambda seen: seen.current_url == f"{served}/topics")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    field = browser.switch_to.active_element
    assert field.get_attribute("id") == "q"
    field.send_keys(topic)
    field.submit()
    until(browser, lambda seen: "/search?q=" in seen.current_url)
    assert browser.find_elements(By.LINK_TEXT, topic)
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
