"""Lists of topics and queues at the limits of their pages."""

from __future__ import annotations

from rocketmq_py.console.state import Console
from rocketmq_py.model import MessageQueue
from tests.unit.console.browsing import JSON, Browser, ConsoleAdmin, browse, read, status


def test_a_page_shows_two_hundred_and_fifty_six_queues() -> None:
    admin = ConsoleAdmin()
    for count in (255, 256, 257):
        admin.add_topic(f"t{count}", count)
        admin.add_group(f"g{count}")
        for number in range(count):
            admin.commit(f"g{count}", MessageQueue(f"t{count}", "broker-a", number), 0, 1)

    async def work(browser: Browser, console: Console) -> None:
        for count, shown, pages in ((255, 255, 1), (256, 256, 1), (257, 256, 2)):
            for path in (f"/topics/t{count}", f"/groups/g{count}"):
                data = (await browser.get(path, headers=JSON)).json()
                assert (len(data["queues"]), data["pages"]["pages"], data["pages"]["size"]) == (shown, pages, 256)
        data = (await browser.get("/topics/t257?page=2", headers=JSON)).json()
        assert [row["queue"] for row in data["queues"]] == [256]
        assert (await status(browser, "/topics/t257", page=0))[0] == 400

    browse(admin, work)


def test_the_next_page_keeps_what_was_asked_for() -> None:
    admin = ConsoleAdmin()
    for number in range(3):
        admin.add_topic(f"a{number}")

    async def work(browser: Browser, console: Console) -> None:
        page = (await browser.get("/topics?q=a&kind=&size=1&page=2&lang=en&left=x")).text
        for number in (1, 3):
            assert f'href="/topics?q=a&amp;kind=&amp;size=1&amp;page={number}"' in page
        assert 'href="/topics?q=a&amp;kind=&amp;size=1&amp;lang=zh"' in page
        assert 'href="/topics?q=a&amp;kind=&amp;size=1&amp;format=csv"' in page
        assert "format=csv" not in (await browser.get("/search?q=a")).text, "a page that is no table"
        assert (await read(browser, "/topics", q="y" * 300))["q"] == "y" * 255

    browse(admin, work)
