"""Messages delivered at a time of their own, with a clock in the test's hands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rocketmq_py.broker.timer import timers as timers_module
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.headers.send import RecallMessage
from rocketmq_py.protocol.recall_handle import RecallHandle
from rocketmq_py.store import StoreConfig
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import START_MS, Client, InProcess
from tests.unit.broker.requests import send

SEND, RECALL, CHECKPOINT, METRICS, RUNTIME = 310, 370, 60, 61, 28
DAY = 24 * 3600 * 1000


@pytest.fixture
def running(tmp_path: Path) -> Iterator[InProcess]:
    running = InProcess(tmp_path, recall_message_enable=True)
    yield running
    running.services.close()


@pytest.fixture
def client(running: InProcess) -> Client:
    return running.connect()


def timed(running: InProcess, name: str, after_ms: int, topic: str = "t", **more: str) -> dict[str, str]:
    properties = {"TIMER_DELIVER_MS": str(running.now + after_ms), "UNIQ_KEY": name, **more}
    answer = running.connect().ask(SEND, send(topic, 0, properties), name.encode())
    assert answer.code == 0, answer.remark
    return answer.ext


def delivered(running: InProcess, topic: str = "t") -> list[str]:
    store = running.services.store
    bodies = []
    for offset in range(store.queue_range(topic, 0)[1]):
        raw = store.record_at_queue(topic, 0, offset)
        assert raw is not None
        bodies += [message.body.decode() for message in decode_records(raw)]
    return bodies


def pass_time(running: InProcess, milliseconds: int, step: int = 50) -> None:
    until = running.now + milliseconds
    while running.now < until:
        running.turn(min(step, until - running.now))


def crash(running: InProcess) -> None:
    """What a kill leaves: what was written stays, nothing is closed in order."""
    timers = running.services.timers
    timers._files = None
    running.services.store.commit_pending()
    running.services.close()
    (Path(running.config.store_path_root_dir) / "abort").write_text("")


def test_timed_messages_are_delivered_when_due(running: InProcess) -> None:
    for name, after in (("c", 2_900), ("a", 1), ("b", 1_500), ("d", 61_000)):
        assert "recallHandle" in timed(running, name, after)
    assert delivered(running) == []
    due = {"a": 1, "b": 1_500, "c": 2_900, "d": 61_000}
    for name, after in due.items():
        pass_time(running, START_MS + after - 1 - running.now)
        assert name not in delivered(running)
        running.turn(1)
        assert delivered(running)[-1] == name
    assert delivered(running) == ["a", "b", "c", "d"]


def test_the_first_message_without_an_entry_is_known_until_all_have_one(running: InProcess) -> None:
    timers = running.services.timers
    assert (timers.unread, timers.first_unread) == (0, [])
    for number in range(2):
        timed(running, f"{number}", 5_000)
        assert (timers.unread, timers.first_unread) == (1, [("rmq_sys_wheel_timer", 0, number)])
        running.turn(50)
        assert (timers.unread, timers.first_unread) == (0, [])


@pytest.mark.parametrize(
    ("properties", "after"),
    [
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "9000", "TIMER_DELIVER_MS": "1"}, 2_000),
        ({"TIMER_DELAY_MS": "1200", "TIMER_DELIVER_MS": "1"}, 1_200),
        ({"TIMER_DELAY_MS": "+1000"}, 1_000),
    ],
)
def test_delivery_time_properties_have_a_precedence(
    running: InProcess, client: Client, properties: dict[str, str], after: int
) -> None:
    assert client.ask(SEND, send("t", 0, properties), b"x").code == 0
    pass_time(running, after - 1)
    assert delivered(running) == []
    running.turn(1)
    assert delivered(running) == ["x"]


@pytest.mark.parametrize("properties", [{"TIMER_DELIVER_MS": "1"}, {"TIMER_DELAY_SEC": "0"}, {"TIMER_DELAY_MS": "-5"}])
def test_a_past_time_is_delivered_at_once(running: InProcess, client: Client, properties: dict[str, str]) -> None:
    answer = client.ask(SEND, send("t", 0, properties), b"x")
    assert answer.code == 0
    assert "recallHandle" not in answer.ext
    assert delivered(running) == ["x"]


class Passing(InProcess):
    """A millisecond passes whenever somebody looks."""

    def clock(self) -> int:
        self.now += 1
        return self.now


def test_a_time_reached_within_one_read_is_delivered_by_the_timer(tmp_path: Path) -> None:
    """All messages of a read bear the time the first one was stored."""
    running = Passing(tmp_path)
    begin, count = running.now, 60
    ext = [send("t", 0, {"TIMER_DELIVER_MS": str(begin + number)}).to_ext() for number in range(count)]
    answers = running.connect().read([Command(SEND, number, ext=one, body=b"x") for number, one in enumerate(ext)])
    assert {answer.code for answer in answers} == {0}
    pass_time(running, 1_000)
    store = running.services.store
    raws = [store.record_at_queue("t", 0, offset) for offset in range(store.queue_range("t", 0)[1])]
    messages = [message for raw in raws if raw is not None for message in decode_records(raw)]
    assert len(messages) == count
    assert all(message.store_timestamp >= int(message.properties["TIMER_DELIVER_MS"]) for message in messages)
    running.services.close()


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELIVER_MS": str(START_MS + 10 * 365 * DAY)}, {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELIVER_MS": "tomorrow"}, {"TIMER_DELAY_MS": "1.5"}, {"TIMER_DELAY_SEC": "9" * 40},
        {"TIMER_DELIVER_MS": "5", "TIMER_DEL_UNIQKEY": "k"},
    ],
)  # fmt: skip
def test_invalid_and_too_distant_times_are_refused(
    running: InProcess, client: Client, properties: dict[str, str]
) -> None:
    answer = client.ask(SEND, send("t", 0, properties), b"x")
    assert answer.code == 13
    assert "should not be bigger than the max delay 259200000ms" in (answer.remark or "")
    assert running.services.store.max_physical_offset == 0


def test_timed_messages_are_refused_without_timers(tmp_path: Path) -> None:
    running = InProcess(tmp_path, {"timer_wheel_enable": False})
    answer = running.connect().ask(SEND, send("t", 0, {"TIMER_DELAY_SEC": "5"}), b"x")
    assert (answer.code, answer.remark) == (1, "accurate timer message is not enabled, timerWheelEnable is false")
    assert running.connect().ask(CHECKPOINT).code == running.connect().ask(METRICS).code == 1
    running.services.close()
    assert not (tmp_path / "timerwheel").exists()


def test_a_delay_level_takes_precedence_and_is_capped(running: InProcess, client: Client) -> None:
    assert client.ask(SEND, send("t", 0, {"DELAY": "99", "TIMER_DELAY_SEC": "1"}), b"x").code == 0
    assert running.services.store.queue_range("SCHEDULE_TOPIC_XXXX", 17) == (0, 1)
    raw = running.services.store.record_at_queue("SCHEDULE_TOPIC_XXXX", 17, 0)
    assert raw is not None
    (message,) = decode_records(raw)
    assert message.properties["DELAY"] == "18"
    assert "TIMER_DELAY_SEC" not in message.properties


def test_a_delivered_message_has_its_original_properties(running: InProcess) -> None:
    timed(running, "a", 1_500, TAGS="red", mine="kept")
    pass_time(running, 1_500)
    raw = running.services.store.record_at_queue("t", 0, 0)
    assert raw is not None
    (message,) = decode_records(raw)
    told = decode_properties(message.raw_properties)
    assert told["TIMER_OUT_MS"] == str(START_MS + 1_000)
    assert told["TIMER_DELIVER_MS"] == str(START_MS + 1_500)
    assert told["TIMER_ENQUEUE_MS"] == str(START_MS)
    assert told["TIMER_DEQUEUE_MS"] == str(START_MS + 1_500)
    assert (told["mine"], told["TAGS"], told["UNIQ_KEY"]) == ("kept", "red", "a")
    assert [code for _, _, code in running.services.store.queue_entries("t", 0, 0, 1)] == [112785]  # "red".hashCode()


def test_a_recalled_message_is_not_delivered(running: InProcess, client: Client) -> None:
    handles = {name: timed(running, name, 30_000)["recallHandle"] for name in ("a", "b", "c")}
    pass_time(running, 25_000)  # b is on the agenda by now
    answer = client.ask(RECALL, RecallMessage(topic="t", recall_handle=handles["b"]))
    assert (answer.code, answer.ext["msgId"]) == (0, "b")
    pass_time(running, 6_000)
    assert delivered(running) == ["a", "c"]
    late = client.ask(RECALL, RecallMessage(topic="t", recall_handle=handles["a"]))
    assert (late.code, late.remark) == (604, "recall failed, timestamp invalid")


def handle(topic: str = "t", broker: str = "broker-a", timestamp: int = START_MS + 5_000) -> str:
    return RecallHandle(topic, broker, timestamp, "k").encode()


@pytest.mark.parametrize(
    ("topic", "text", "code", "words"),
    [
        ("nothing", handle(), 17, "recall failed, the topic[nothing] not exist"),
        ("t", "%%%", 604, "recall handle is invalid"), ("t", "djIgYQ==", 604, "recall handle is invalid"),
        ("t", handle("other"), 604, "recall failed, topic not match"),
        ("t", handle(broker="broker-b"), 604, "recall failed, broker service not available"),
        ("t", handle(timestamp=START_MS), 604, "recall failed, timestamp invalid"),
        ("t", handle(timestamp=START_MS + 4 * DAY), 604, "recall failed, timestamp invalid"),
    ],
)  # fmt: skip
def test_invalid_recalls_are_refused(client: Client, topic: str, text: str, code: int, words: str) -> None:
    client.ask(SEND, send("t"), b"x")
    answer = client.ask(RECALL, RecallMessage(topic=topic, recall_handle=text))
    assert (answer.code, answer.remark) == (code, words)


def test_recall_is_off_by_default(tmp_path: Path) -> None:
    running = InProcess(tmp_path)
    answer = running.connect().ask(RECALL, RecallMessage(topic="t", recall_handle=handle()))
    assert (answer.code, answer.remark) == (16, "recall failed, operation is forbidden")
    running.services.close()


def test_distant_messages_go_round_the_wheel(tmp_path: Path) -> None:
    running = InProcess(tmp_path, {"timer_roll_window_slot": 20}, recall_message_enable=True)
    timed(running, "far", 65_500)
    recalled = timed(running, "not", 64_500)["recallHandle"]
    assert running.connect().ask(RECALL, RecallMessage(topic="t", recall_handle=recalled)).code == 0
    pass_time(running, 65_499)
    assert delivered(running) == []
    running.turn(1)
    assert delivered(running) == ["far"]
    raw = running.services.store.record_at_queue("t", 0, 0)
    assert raw is not None
    assert int(decode_records(raw)[0].properties["TIMER_ROLL_TIMES"]) >= 3
    running.services.close()


def test_very_many_messages_are_delivered_over_several_ticks(running: InProcess) -> None:
    n = 1_200
    for i in range(n):
        timed(running, f"{i}", 20_500)
    pass_time(running, 20_499)
    assert delivered(running) == []
    before = 0
    running.now += 1
    while before < n:
        running.turn(20)
        after = running.services.store.queue_range("t", 0)[1]
        assert 0 < after - before <= 500, "a tick does a part and no more"
        before = after
    assert delivered(running) == [f"{i}" for i in range(n)], "in the order they came"


@pytest.mark.parametrize("killed", [False, True])
def test_after_a_restart_the_rest_of_a_slot_is_delivered_once(tmp_path: Path, *, killed: bool) -> None:
    running = InProcess(tmp_path)
    for name, after in (("a", 2_100), ("b", 2_500), ("c", 2_900), ("d", 9_000)):
        timed(running, name, after)
    pass_time(running, 2_500)
    assert delivered(running) == ["a", "b"]
    crash(running) if killed else running.services.close()
    again = InProcess(tmp_path, now=running.now + 100)
    again.turn()
    assert delivered(again) == ["a", "b"]
    pass_time(again, 400)
    assert delivered(again) == ["a", "b", "c"]
    again.services.close()
    last = InProcess(tmp_path, now=again.now + DAY)
    pass_time(last, 5_000, 1_000)
    assert delivered(last) == ["a", "b", "c", "d"]
    last.services.close()


def test_a_marked_message_missing_from_the_log_is_delivered_again(tmp_path: Path) -> None:
    """A machine that fails may keep the mark of a delivery, and not the message delivered."""
    running = InProcess(tmp_path)
    timed(running, "a", 1_500)
    timed(running, "b", 2_500)
    pass_time(running, 1_000)
    (position,) = (entry.position for entry in running.services.timers._agenda._waiting[START_MS + 1_500].entries)
    files = running.services.timers._files
    assert files is not None
    files.log.mark([(position, 77)])
    crash(running)
    again = InProcess(tmp_path, now=running.now)
    pass_time(again, 2_000)
    assert delivered(again) == ["a", "b"]
    again.services.close()


@pytest.mark.parametrize("missing", ["timerwheel", "timerlog", "both", "all"])
def test_missing_timer_files_are_rebuilt_from_the_queue(tmp_path: Path, missing: str) -> None:
    running = InProcess(tmp_path)
    timed(running, "over", 1_000)
    timed(running, "a", 60_000)
    pass_time(running, 5_000)
    running.services.close()
    if missing in ("timerwheel", "both", "all"):
        (tmp_path / "timerwheel").unlink()
    if missing in ("timerlog", "both", "all"):
        for file in (tmp_path / "timerlog").iterdir():
            file.unlink()
    if missing == "all":
        (tmp_path / "config" / "timercheck").unlink()
    again = InProcess(tmp_path, now=running.now)
    pass_time(again, 60_000, 500)
    # Without the checkpoint nobody knows that "over" was delivered: as in Java it comes once more, and nothing is lost.
    assert delivered(again) == (["over", "over", "a"] if missing == "all" else ["over", "a"])
    again.services.close()


def part(path: Path, at: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(length)


def test_timer_files_equal_those_of_java(tmp_path: Path) -> None:
    running = InProcess(tmp_path, {"mapped_file_size_timer_log": StoreConfig().mapped_file_size_timer_log})
    timed(running, "a", 5_500)
    timed(running, "b", 5_700)
    pass_time(running, 100)
    assert (tmp_path / "timerwheel").stat().st_size == 7 * 24 * 3600 * 2 * 32
    number = (START_MS + 5_000) // 1000
    slot = part(tmp_path / "timerwheel", number % (7 * 24 * 3600 * 2) * 32, 32)
    assert [int.from_bytes(slot[i : i + 8], "big") for i in (0, 8, 16)] == [number, 0, 52]
    assert int.from_bytes(slot[24:28], "big") == 2
    assert (tmp_path / "timerlog" / f"{0:020d}").stat().st_size == 100 * 1024 * 1024
    log = part(tmp_path / "timerlog" / f"{0:020d}", 0, 2 * 52)
    assert log[:4] == (52).to_bytes(4, "big")
    assert log[4:12] == (-1).to_bytes(8, "big", signed=True)
    assert log[12:16] == (1).to_bytes(4, "big")
    assert log[16:24] == START_MS.to_bytes(8, "big")
    assert log[24:28] == (5_000).to_bytes(4, "big")
    assert log[52 + 4 : 52 + 12] == bytes(8), "the second entry points to the first"
    files = running.services.timers._files
    assert files is not None
    files._thread.submit(lambda: None).result()  # what was to be put on disk is there
    running.turn(50)
    check = (tmp_path / "config" / "timercheck").read_bytes()
    assert [int.from_bytes(check[at : at + 8], "big") for at in (8, 16, 24)] == [2 * 52, 2, 2]
    assert running.connect().ask(CHECKPOINT).body == check[:56]
    running.services.close()


def test_the_timer_status_is_returned(running: InProcess, client: Client) -> None:
    for i in range(3):
        timed(running, f"{i}", 5_500 + i)
    pass_time(running, 1_000)
    told = msgspec.json.decode(client.ask(METRICS).body)
    assert told["timingCount"]["t"]["count"] == 3
    table = msgspec.json.decode(client.ask(RUNTIME).body)["table"]
    assert (table["timerCongestNum"], table["timerOffsetBehind"], table["timerReadBehind"]) == ("3", "0", "0")
    pass_time(running, 6_000)
    told = msgspec.json.decode(client.ask(METRICS).body)
    assert told["timingCount"]["t"]["count"] == 0
    table = msgspec.json.decode(client.ask(RUNTIME).body)["table"]
    assert float(table["timerDequeueTps"]) > 0
    timed(running, "late", 60_000)
    pass_time(running, 2_000)
    table = msgspec.json.decode(client.ask(RUNTIME).body)["table"]
    assert float(table["timerEnqueueTps"]) > 0


def test_timed_messages_wait_while_the_store_refuses_writes(running: InProcess, client: Client) -> None:
    for name in ("a", "b"):
        timed(running, name, 1_000)
    running.services.store._writer.refuse("for the test")
    pass_time(running, 3_000)
    assert delivered(running) == []
    assert msgspec.json.decode(client.ask(METRICS).body)["timingCount"]["t"]["count"] == 2
    running.services.store._writer.allow()
    running.turn(20)
    assert delivered(running) == ["a", "b"]
    assert msgspec.json.decode(client.ask(METRICS).body)["timingCount"]["t"]["count"] == 0


def test_invalid_messages_in_the_timer_topic_are_dropped(
    running: InProcess, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    for properties in ({}, {"REAL_TOPIC": "RMQ_SYS_TRANS_HALF_TOPIC", "REAL_QID": "0", "TIMER_OUT_MS": "1"},
                       {"REAL_TOPIC": "t", "REAL_QID": "x", "TIMER_OUT_MS": "1"}):  # fmt: skip
        assert client.ask(SEND, send("rmq_sys_wheel_timer", 0, {"UNIQ_KEY": "u", **properties}), b"x").code == 0
    timed(running, "a", 500)
    pass_time(running, 1_000)
    assert delivered(running) == ["a"]
    assert caplog.text.count("it has no valid real topic or time") == 3


# -- settings


def test_timer_stop_dequeue_pauses_delivery(running: InProcess) -> None:
    config = running.services.store.config
    timed(running, "a", 1_000)
    pass_time(running, 200)
    config.timer_stop_dequeue = True
    pass_time(running, 3_000)
    assert delivered(running) == []
    assert running.services.timers.behind_ms > 1_000
    config.timer_stop_dequeue = False
    running.turn()
    assert delivered(running) == ["a"]


def test_timer_stop_enqueue_keeps_messages_out_of_the_wheel(running: InProcess) -> None:
    config = running.services.store.config
    config.timer_stop_enqueue = True
    timed(running, "a", 1_000)
    pass_time(running, 3_000)
    assert (delivered(running), running.services.timers.unread) == ([], 1)
    config.timer_stop_enqueue = False
    pass_time(running, 2_000)
    assert (delivered(running), running.services.timers.unread) == (["a"], 0)


def test_a_congested_slot_refuses_messages(running: InProcess, client: Client) -> None:
    running.services.store.config.timer_congest_num_each_slot = 2
    due = running.now + 5_000
    for name in "abc":
        timed(running, name, 5_000)
        running.turn()
    properties = {"TIMER_DELIVER_MS": str(due), "UNIQ_KEY": "d"}
    refused = client.ask(SEND, send("t", 0, properties), b"d")
    assert refused.code == 1
    assert refused.remark is not None
    assert refused.remark.startswith("timer message is under flow control, max num limit is 4 or the current value is")
    timed(running, "later", 7_000)
    pass_time(running, 9_000)
    assert delivered(running) == ["a", "b", "c", "later"]


def test_very_many_due_messages_are_delivered_without_waiting_for_ticks(running: InProcess) -> None:
    timers, count = running.services.timers, 700
    for number in range(count):
        timed(running, str(number), 2_000)
    while timers.tick(running.now):
        pass
    assert timers.unread == 0
    running.now += 3_000
    while timers.tick(running.now):
        pass
    assert sorted(map(int, delivered(running))) == list(range(count))


def test_very_many_delayed_messages_are_delivered_without_waiting_for_ticks(running: InProcess) -> None:
    count, client = 450, running.connect()
    for number in range(count):
        assert client.ask(SEND, send("t", 0, {"DELAY": str(1 + number % 2)}), str(number).encode()).code == 0
    assert not running.services.tick_delays()
    assert delivered(running) == []
    running.now += 5_001
    parts, before = 1, 0
    while running.services.tick_delays():
        after = len(delivered(running))
        assert 0 < after - before <= 200, "a part of each level, then others have their turn"
        parts, before = parts + 1, after
    assert parts > 2
    assert sorted(map(int, delivered(running))) == list(range(count))


def test_a_message_cancels_messages_of_its_own_topic_only(running: InProcess) -> None:
    """TIMER_DEL_UNIQKEY is a property that any producer may send."""
    timed(running, "victim", 3_000)
    timed(running, "own", 3_000, topic="other")
    for key in ("victim", "t+victim", "other+own"):
        timed(running, f"cancels {key}", 3_000, topic="other", TIMER_DEL_UNIQKEY=key)
    pass_time(running, 4_000)
    assert delivered(running) == ["victim"]
    assert delivered(running, "other") == []


def test_the_counts_of_topics_are_written_with_the_other_files(running: InProcess) -> None:
    timed(running, "a", 5_000)
    pass_time(running, 1_100)
    written = Path(running.config.store_path_root_dir) / "config" / "timermetrics"
    assert msgspec.json.decode(written.read_bytes())["timingCount"]["t"]["count"] == 1


def test_the_counts_of_topics_are_written_when_a_broker_stops(tmp_path: Path) -> None:
    running = InProcess(tmp_path)
    timed(running, "a", 5_000)
    pass_time(running, 100)
    running.services.timers.close()
    counts = running.services.timers.metrics.tree()["timingCount"]
    running.services.close()
    again = InProcess(tmp_path, now=running.now)
    assert isinstance(counts, dict)
    assert counts["t"]["count"] == 1
    assert again.services.timers.metrics.tree()["timingCount"] == counts
    again.services.close()


def test_many_messages_that_are_due_soon_are_loaded_in_turns_that_follow_at_once(running: InProcess) -> None:
    for number in range(450):
        timed(running, str(number), 30_000)
    timers = running.services.timers
    while timers.tick(running.now):
        pass
    running.now += 25_000
    assert [timers.tick(running.now) for _ in range(4)] == [True, True, False, False]
    assert delivered(running) == []
    running.now += 6_000
    while timers.tick(running.now):
        pass
    assert sorted(map(int, delivered(running))) == list(range(450))


def test_slots_of_a_long_pause_are_looked_at_in_turns_that_follow_at_once(
    running: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers_module, "_SLOTS_AT_ONCE", 5)
    timed(running, "late", 60_000)
    timers = running.services.timers
    while timers.tick(running.now):
        pass
    running.now += 3_600_000
    turns = 1
    while timers.tick(running.now):
        turns += 1
    assert turns > 3_600 / 5
    assert delivered(running) == ["late"]
