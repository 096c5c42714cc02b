"""The page of a topic's messages as they come."""

from __future__ import annotations

from rocketmq_py.console.pages import tail
from rocketmq_py.console.state import Console
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import Browser, ConsoleAdmin, browse, read, status


def admin_of_messages(count: int) -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.add_topic("t", 2)
    admin.add_messages(*(message(b"%d" % at, offset=at, stored=STORED + at) for at in range(count)))
    return admin


def test_each_look_goes_on_where_the_last_one_ended_and_commits_nothing() -> None:
    admin = admin_of_messages(3)

    async def work(browser: Browser, console: Console) -> None:
        first = await read(browser, "/topics/t/tail", tags="A")
        assert ([row["body"] for row in first["messages"]], first["skipped"]) == (["2", "1", "0"], 0)
        assert first["at"] == "broker-a:0:3:3 broker-a:1:0:0"
        again = await read(browser, "/topics/t/tail", at=first["at"])
        assert (again["messages"], again["at"]) == ([], first["at"])
        admin.add_messages(message(b"new", queue=1, offset=0, stored=STORED + 9))
        found = await read(browser, "/topics/t/tail", at=first["at"])
        assert ([row["body"] for row in found["messages"]], found["at"]) == (
            ["new"], "broker-a:1:1:1 broker-a:0:3:3",
        )  # fmt: skip
        page = (await browser.get("/topics/t/tail", headers={"accept": "text/html"})).text
        assert 'data-at="broker-a:1:1:1 broker-a:0:3:3"' in page
        assert (await browser.get("/topics/t/tail?format=csv")).text.splitlines()[1].endswith(",new")

    browse(admin, work)
    assert {change[0] for change in admin.changes} == {"pull"}
    assert {change[3] for change in admin.changes} == {"A", "*"}


def test_the_newest_are_shown_and_the_others_counted() -> None:
    admin = admin_of_messages(200)

    async def work(browser: Browser, console: Console) -> None:
        assert [row["body"] for row in (await read(browser, "/topics/t/tail"))["messages"]][-1] == "180"
        found = await read(browser, "/topics/t/tail", at="broker-a:0:0:10")
        assert (len(found["messages"]), found["messages"][0]["body"], found["skipped"]) == (tail.MOST, "199", 140)

    browse(admin, work)


def test_a_malformed_place_is_refused() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await status(browser, "/topics/t/tail", at="x"))[0] == 400
        assert (await status(browser, "/topics/none/tail"))[0] == 404

    browse(admin_of_messages(1), work)


def test_what_a_look_reads_is_within_the_queue() -> None:
    assert tail.since((0, 5), 0, 9) == (5, 9)
    assert tail.since((0, 5), 7, 9) == (7, 9), "messages were deleted"
    assert tail.since((0, 50), 0, 9) == (9, 9), "the topic was made again"
    assert tail.since(None, 0, 9) == (9, 9)
