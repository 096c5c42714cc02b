"""Pages about brokers and topics, the search, and what every answer has."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace

import pytest

from rocketmq_py.console.app import _status, _templates
from rocketmq_py.console.connection import each
from rocketmq_py.console.security import Audit, Refused, check_bind, is_loopback
from rocketmq_py.console.state import Console
from rocketmq_py.console.times import parse_time, show_span, show_time
from rocketmq_py.console.views import cluster as cluster_view, topics as topic_view
from rocketmq_py.console.words import language
from rocketmq_py.errors import (
    BrokerError,
    ConfigError,
    NetworkError,
    NoRouteError,
    PermissionDenied,
    RequestTimeout,
)
from rocketmq_py.protocol.bodies.admin import TopicOffset
from rocketmq_py.protocol.bodies.route import BrokerData
from tests.unit.cli.messages import STORED, message
from tests.unit.console.browsing import Q0, Q1, Browser, ConsoleAdmin, browse, read, status

STATE = {
    "brokerVersionDesc": "V5_3_2", "putTps": "12.5 10 9", "getTransferredTps": "", "msgPutTotalTodayNow": "110",
    "msgPutTotalTodayMorning": "10", "msgGetTotalTodayNow": "7", "commitLogDiskRatio": "0.12345",
    "bootTimestamp": "1700000000000",
}  # fmt: skip


def admin_of_topics() -> ConsoleAdmin:
    admin = ConsoleAdmin()
    admin.add_topic("t", 2, attributes={"message.type": "FIFO"})
    admin.add_topic("other", 1)
    admin.add_topic("%RETRY%g", 1)
    admin.add_topic("%DLQ%g", 1)
    admin.add_topic("inner", 1)
    admin.system = ["inner"]
    admin.consuming["t"] = ["g"]
    admin.add_messages(message(b"a", offset=0), message(b"b", offset=1, stored=STORED + 5))
    admin.add_messages(message(b"c", queue=1, offset=0, stored=STORED + 1))
    return admin


def test_the_overview_shows_masters_and_slaves_and_why_one_is_silent() -> None:
    admin = ConsoleAdmin()
    admin.info.broker_addr_table["broker-b"] = BrokerData(
        cluster="c", broker_name="broker-b", broker_addrs={0: "10.0.0.2:10911", 1: "10.0.0.3:10911"}
    )
    admin.states = {"10.0.0.1:10911": STATE, "10.0.0.2:10911": NetworkError("gone")}

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/")
        assert (data["namesrv"], data["asked"]) == ("ns:9876", 3)
        rows = [(row["broker"], row["id"], row["role"], row["error"], row["version"]) for row in data["brokers"]]
        assert rows == [
            ("broker-a", 0, "master", None, "V5_3_2"), ("broker-b", 0, "master", "gone", None),
            ("broker-b", 1, "slave", None, None),
        ]  # fmt: skip
        first = data["brokers"][0]
        assert (first["inPerSecond"], first["outPerSecond"], first["inToday"], first["outToday"]) == (
            12.5, None, 100, None,
        )  # fmt: skip
        assert (first["diskUsed"], first["upSince"], first["cluster"]) == (0.123, 1700000000000, "c")
        table = (await browser.get("/?format=csv")).text.splitlines()
        assert table[1] == "c,broker-a,0,master,10.0.0.1:10911,V5_3_2,12.5,?,100,?,0.123,1700000000000,?"

    browse(admin, work)


def test_figures_that_are_no_numbers_are_not_known() -> None:
    figures = {"1" * 19: int("1" * 19), "1" * 20: None, "x": None, "": None, "-1": None, "\u0661": None}
    assert {text: cluster_view._whole(text) for text in figures} == figures
    decimals = {"0": 0.0, "1.23456": 1.235, "-1": None, "inf": None, "nan": None, "x": None}
    assert {text: cluster_view._decimal(text) for text in decimals} == decimals
    assert cluster_view._whole(None) is cluster_view._decimal(None) is None


def test_changes_are_recorded_with_the_time() -> None:
    audit = Audit()
    told: list[str] = []
    audit.on_record = told.append
    before = time.time_ns() // 1_000_000
    for number in range(1_001):
        request = SimpleNamespace(client=None, state=SimpleNamespace(who="ann"))
        audit.record(request, "reset", what=number)  # type: ignore[arg-type]
    assert told == ["reset"] * 1_001
    assert before <= audit.entries[0]["at"] <= time.time_ns() // 1_000_000
    newest = audit.entries[0]
    assert (newest["what"], newest["from"], newest["who"], len(audit.entries)) == (1_000, None, "ann", 1_000)


def test_topics_are_listed_by_kind_name_and_page() -> None:
    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/topics")
        assert [row["topic"] for row in data["topics"]] == ["other", "t"]
        assert data["topics"][1] == {
            "topic": "t", "kind": "normal", "type": "FIFO", "brokers": 1, "readQueues": 2, "writeQueues": 2,
            "perm": "rw", "messages": 3, "lastStored": STORED + 5,
        }  # fmt: skip
        kinds = {"retry": ["%RETRY%g"], "dead": ["%DLQ%g"], "system": ["inner"], "": [
            "%DLQ%g", "%RETRY%g", "inner", "other", "t"]}  # fmt: skip
        for kind, names in kinds.items():
            found = await read(browser, "/topics", kind=kind)
            assert [row["topic"] for row in found["topics"]] == names
        found = await read(browser, "/topics", kind="", size=2, page=2, q="")
        assert [row["topic"] for row in found["topics"]] == ["inner", "other"]
        assert found["pages"] == {"page": 2, "pages": 3, "total": 5, "size": 2}
        assert (await read(browser, "/topics", kind="", size=2, page=9))["pages"]["page"] == 3
        assert [row["topic"] for row in (await read(browser, "/topics", q="OTH"))["topics"]] == ["other"]
        assert (await status(browser, "/topics", kind="x"))[0] == 400
        for size in ("0", "201", "x", "1.5"):
            code, why = await status(browser, "/topics", size=size)
            assert (code, f"size={size!r} is not a number from 1 to 200" in why) == (400, True)
        assert len((await read(browser, "/topics", size=200))["topics"]) == 2

    browse(admin_of_topics(), work)


def test_a_topic_shows_queues_configurations_routes_and_rates() -> None:
    admin = admin_of_topics()
    rate = SimpleNamespace(stats_minute=SimpleNamespace(tps=1.254), stats_day=SimpleNamespace(sum=7))
    admin.counters["TOPIC_PUT_NUMS", "t"] = {"broker-a": rate, "broker-b": rate}

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/topics/t")
        assert (data["inPerSecond"], data["inLastDay"], data["groups"], data["kind"]) == (2.51, 14, ["g"], "normal")
        assert data["queues"][0] == {
            "broker": "broker-a", "queue": 0, "minOffset": 0, "maxOffset": 2, "messages": 2, "lastStored": STORED + 5,
        }  # fmt: skip
        assert data["configs"] == [
            {"broker": "broker-a", "readQueues": 2, "writeQueues": 2, "perm": "rw", "order": False,
             "attributes": {"message.type": "FIFO"}}
        ]  # fmt: skip
        assert data["routes"] == [{"broker": "broker-a", "addresses": {"0": "10.0.0.1:10911"}}]
        assert data["pages"]["total"] == 2
        other = await read(browser, "/topics/other")
        assert (other["inPerSecond"], other["inLastDay"], other["queues"][0]["lastStored"]) == (None, None, None)
        assert (await status(browser, "/topics/gone"))[0] == 404
        admin.failures["counter"] = BrokerError(1, "no")
        assert (await read(browser, "/topics/t"))["inPerSecond"] is None

    browse(admin, work)


def test_rows_of_topics_say_what_is_not_known() -> None:
    row = topic_view.topic_row("t", "normal", {}, None)
    assert {name for name, value in row.items() if value is None} == {
        "type", "brokers", "readQueues", "writeQueues", "perm", "messages", "lastStored",
    }  # fmt: skip
    removed = {Q0: TopicOffset(min_offset=9, max_offset=5), Q1: TopicOffset(min_offset=-1, max_offset=5)}
    assert [row["messages"] for row in topic_view.queue_rows(removed)] == [0, 5]
    assert [topic_view.perm_text(perm) for perm in (0, 2, 4, 6, 7)] == ["–", "w", "r", "rw", "rw"]


def test_the_search_finds_topics_groups_and_ids() -> None:
    admin = admin_of_topics()
    for number in range(103):
        admin.add_group(f"Group-{number:03}")

    async def work(browser: Browser, console: Console) -> None:
        data = await read(browser, "/search", q=" gROUP ")
        assert (data["q"], len(data["groups"]), data["moreGroups"], data["topics"]) == ("gROUP", 100, 3, [])
        data = await read(browser, "/search", q="T")
        assert (set(data["topics"]), data["moreTopics"], data["messageId"]) == (
            {"t", "other", "%RETRY%g"}, 0, None,
        )  # fmt: skip
        data = await read(browser, "/search", q="")
        assert (data["topics"], data["groups"]) == ([], [])
        for text, is_id in (("0A" * 16, True), ("0a" * 28, True), ("0a" * 15, False), ("0g" * 16, False)):
            assert (await read(browser, "/search", q=text))["messageId"] == (text if is_id else None)

    browse(admin, work)


def test_answers_about_the_whole_cluster_are_kept_for_three_seconds_unless_they_failed() -> None:
    async def work(browser: Browser, console: Console) -> None:
        connection, asked = console.connection, []

        async def ask(admin: object) -> int:
            asked.append(admin)
            if len(asked) == 1:
                raise NetworkError("gone")
            return len(asked)

        with pytest.raises(NetworkError):
            await connection.shared("x", ask)
        values = []
        for moment in (0.0, 3.0, 3.1, 6.0):
            connection.time = moment  # type: ignore[attr-defined]
            values.append((await connection.shared("x", ask)).value)
        assert values == [2, 2, 3, 3]
        connection.forget()
        assert (await connection.shared("x", ask)).value == 4
        assert (await connection.shared("y", ask)).value == 5

    browse(ConsoleAdmin(), work)


async def test_a_page_has_a_bounded_number_of_requests_in_flight() -> None:
    import asyncio

    running, most = 0, 0

    async def ask(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return -number

    assert await each(range(40), ask) == [-number for number in range(40)]
    assert most == 16


def test_answers_are_protected_and_others_are_refused() -> None:
    async def work(browser: Browser, console: Console) -> None:
        page = await browser.get("/topics")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert (page.headers["cache-control"], page.headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert "httponly" in page.headers["set-cookie"].lower()
        assert "set-cookie" not in (await browser.get("/topics")).headers
        for host, code in (("evil.example", 421), ("localhost:1", 200), ("[::1]:8080", 200), ("mine", 200), ("[", 421)):
            assert (await browser.get("/topics", headers={"host": host})).status_code == code, host
        for method in ("HEAD", "GET"):
            headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
            assert (await browser.request(method, "/topics", headers=headers)).status_code == 200
        assert (await browser.get("/topics", params={"q": "x" * 16_383})).status_code == 414
        assert (await browser.get("/topics", params={"q": "x" * 16_000})).status_code == 200
        changes = {
            ("origin", "http://evil.example"): 403, ("origin", "http://127.0.0.1:8080"): 415,
            ("sec-fetch-site", "cross-site"): 403, ("sec-fetch-site", "same-origin"): 415,
            ("sec-fetch-site", "none"): 415, ("content-length", "524289"): 413, ("content-length", "x"): 413,
        }  # fmt: skip
        for (name, value), code in changes.items():
            answer = await browser.post("/groups/g/reset", headers={name: value})
            assert answer.status_code == code, (name, value, answer.text)
        form = {"content-type": "application/x-www-form-urlencoded"}
        for body, code in ((b"a=1&" * 4_097, 400), (b"\xff", 400), (b"x" * 524_288, 403)):
            assert (await browser.post("/groups/g/reset", content=body, headers=form)).status_code == code

        async def parts() -> object:
            for _ in range(9):
                yield bytes(65_536)

        assert (await browser.post("/groups/g/reset", content=parts(), headers=form)).status_code == 413  # type: ignore[arg-type]
        assert (await browser.get("/nothing")).status_code == 404
        assert (await browser.get("/topics?format=xml")).status_code == 400
        assert (await browser.get("/search?format=csv")).status_code == 406
        csv = await browser.get("/topics", headers={"accept": "text/csv"})
        assert csv.text.startswith("topic,kind,type")
        for accepted in ("*/*", "text/*", "application/xhtml+xml", "image/png", ""):
            answer = await browser.get("/topics", headers={"accept": accepted})
            assert answer.headers["content-type"].startswith("text/html")

    browse(admin_of_topics(), work, host="mine")


def test_a_console_that_only_reads_has_no_pages_for_changes() -> None:
    async def work(browser: Browser, console: Console) -> None:
        for path in ("/groups/g/reset", "/groups/g/dead/resend"):
            assert (await browser.get(path)).status_code == 404
            assert (await browser.post(path)).status_code == 404
        assert "read-only" in (await browser.get("/topics")).text

    browse(admin_of_topics(), work, read_only=True)

    async def may_change(browser: Browser, console: Console) -> None:
        assert "read-only" not in (await browser.get("/topics")).text
        assert Console(console.connection).read_only is False

    browse(admin_of_topics(), may_change)


def test_a_page_that_takes_too_long_is_given_up() -> None:
    admin = admin_of_topics()

    async def work(browser: Browser, console: Console) -> None:
        async def forever(*_: object) -> None:
            import asyncio

            await asyncio.sleep(31)

        admin.route = forever  # type: ignore[assignment,method-assign]
        code, why = await status(browser, "/topics/t")
        assert (code, why) == (504, "the cluster did not answer within 30 seconds")

    browse(admin, work)


def test_errors_have_their_statuses() -> None:
    found = {
        Refused(409, "x"): 409, NoRouteError("x"): 404, PermissionDenied(16, "x"): 403, ConfigError("x"): 400,
        NetworkError("x"): 504, RequestTimeout("x"): 504, TimeoutError(): 504, BrokerError(1, "x"): 502,
    }  # fmt: skip
    assert {error: _status(error) for error in found} == found


def test_it_listens_where_only_this_machine_reaches_it_unless_told_otherwise() -> None:
    for host, is_local in (("127.0.0.1", True), ("[::1]", True), ("localhost", True), ("0.0.0.0", False), ("h", False)):
        assert is_loopback(host) is is_local
        check_bind(host, insecure=True)
        if is_local:
            check_bind(host, insecure=False)
        else:
            with pytest.raises(ConfigError, match="has no login"):
                check_bind(host, insecure=False)


def test_times_and_spans_are_shown_and_parsed() -> None:
    assert show_time(1_700_000_000_007) == "2023-11-14 22:13:20.007Z"
    assert [show_time(value) for value in (None, 0, -1, 10**17)] == [None] * 4
    assert show_time(1) == "1970-01-01 00:00:00.001Z"
    assert [parse_time(text, 10**9) for text in ("2s", "3m", "1h", "1d")] == [
        10**9 - 2_000, 10**9 - 180_000, 10**9 - 3_600_000, 10**9 - 86_400_000,
    ]  # fmt: skip
    assert parse_time(" 1700000000007 ", 5) == 1_700_000_000_007
    assert parse_time("2023-11-14T22:13:20", 5) == parse_time("2023-11-14T23:13:20+01:00", 5) == 1_700_000_000_000
    for text in ("", "x", "5w"):
        with pytest.raises(ValueError, match=r".*"):
            parse_time(text, 5)
    spans = {0: "0 ms", 999: "999 ms", 1_000: "1 s", 59_999: "59 s", 60_000: "1 min", 7_200_000: "2 h", 10**9: "11 d"}
    assert {value: show_span(value) for value in spans} == spans
    assert (show_span(None), show_span(-1)) == (None, None)
    assert (language("xx", "de, en;q=0.5"), language(None, ""), language("EN", "")) == ("en", "en", "en")


def test_filters_of_templates_show_what_is_unknown() -> None:
    filters = _templates().filters
    assert [filters["time"](value) for value in (1_700_000_000_007, 0, None)] == ["2023-11-14 22:13:20.007Z", "?", "?"]
    assert [filters["span"](value) for value in (0, 1_000, -1, None)] == ["0 ms", "1 s", "?", "?"]
    assert [filters["known"](value) for value in (0, "", None)] == [0, "", "?"]
    assert [filters["seg"](value) for value in ("a/b %", 5)] == ["a%2Fb%20%25", "5"]
    assert _templates().autoescape is True


def test_a_language_is_remembered_for_a_year() -> None:
    async def work(browser: Browser, console: Console) -> None:
        chosen = (await browser.get("/topics?lang=zh")).headers.get_list("set-cookie")[-1]
        assert chosen == ("rocketmq_console_language=zh; HttpOnly; Max-Age=31536000; Path=/; SameSite=strict")
        assert "set-cookie" not in (await browser.get("/topics")).headers

    browse(admin_of_topics(), work)


def test_a_table_is_a_file_and_an_error_is_a_page(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rocketmq_py.console.app")
    admin = admin_of_topics()

    async def work(browser: Browser, console: Console) -> None:
        table = await browser.get("/topics?format=csv")
        assert table.headers["content-type"] == "text/csv; charset=utf-8"
        assert table.headers["content-disposition"] == 'attachment; filename="rocketmq.csv"'
        error = await browser.get("/topics/gone?format=csv")
        assert (error.status_code, error.headers["content-type"]) == (404, "text/html; charset=utf-8")
        error = await browser.get("/search?format=csv")
        assert (error.text, error.status_code) == ("this page is no table, and has no CSV\n", 406)
        error = await browser.get("/nothing")
        assert (error.text, error.status_code) == ("Not Found\n", 404)
        assert caplog.messages == [], "what a browser asks wrongly is not logged"
        admin.failures["route"] = BrokerError(1, "no such luck")
        code, why = await status(browser, "/topics/t")
        assert (code, "no such luck" in why) == (502, True)
        [line] = caplog.messages
        assert line.startswith("a page failed: ")

    browse(admin, work)


def test_files_of_the_console_are_served() -> None:
    async def work(browser: Browser, console: Console) -> None:
        assert (await browser.get("/static/console.css")).headers["content-type"].startswith("text/css")
        assert (await browser.get("/static/../app.py")).status_code == 404

    browse(ConsoleAdmin(), work)
