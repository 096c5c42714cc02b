"""Topics and groups whose configuration is lost come back from consume queues and offsets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rocketmq_py.broker.metadata.lost_entries import queue_numbers, waiting_queues
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.topic import CreateTopic, TopicName
from rocketmq_py.protocol.names import HALF_TOPIC
from rocketmq_py.store import NewRecord
from tests.unit.broker.harness import InProcess, broker
from tests.unit.broker.requests import pull, send


def fill(running: InProcess) -> None:
    """Topic ``orders`` of 6 queues with messages in the queues 0 and 3, and offsets of a group."""
    client = running.connect()
    for topic, attributes in (("orders", None), ("batched", "+queue.type=BatchCQ")):
        header = CreateTopic(
            topic=topic, default_topic="TBW102", read_queue_nums=6, write_queue_nums=6, perm=6,
            topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False, attributes=attributes,
        )  # fmt: skip
        assert client.ask_task(Code.UPDATE_AND_CREATE_TOPIC, header).code == 0
    for queue_id in (0, 3):
        assert client.ask(Code.SEND_MESSAGE_V2, send("orders", queue_id), b"x").code == 0
    running.services.offsets.commit("readers", "orders", 4, 0, "c")
    running.services.groups.find("readers")


def remove(root: Path, *names: str) -> None:
    for name in names:
        for path in (root / "config").glob(f"{name}*"):
            path.unlink()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_lost_topics_and_groups_come_back_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with broker(tmp_path) as running:
        fill(running)
    remove(tmp_path, "topics.json", "subscriptionGroup.json")
    with broker(tmp_path) as running:
        found = running.services.topics.get("orders")
        assert found is not None
        assert (found.read_queue_nums, found.write_queue_nums, found.perm) == (5, 5, 6)
        assert running.services.groups.get("readers") is not None
        assert running.connect().ask(Code.PULL_MESSAGE, pull("orders", queue_id=3)).code == 0
    topics, groups = warnings(caplog)
    assert topics.startswith("topics with messages are missing in topics.json;")
    assert topics.endswith("known: orders (5)")
    assert groups.endswith("they are created again with default settings: readers")
    caplog.clear()
    with broker(tmp_path) as running:
        assert running.services.topics.get("orders") is not None
    assert not warnings(caplog)


def test_a_lost_configuration_folder_leaves_the_topics(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        fill(running)
    shutil.rmtree(tmp_path / "config")
    with broker(tmp_path) as running:
        found = running.services.topics.get("orders")
        assert found is not None
        assert found.read_queue_nums == 4


def test_a_deleted_group_stays_deleted(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        fill(running)
        assert running.services.groups.delete("readers")
    with broker(tmp_path) as running:
        assert running.services.offsets.query("readers", "orders", 4) == 0
        assert running.services.groups.get("readers") is None


def test_queues_without_a_topic_of_their_own_make_no_topic() -> None:
    queues = [("%LMQ%device", 0), ("known", 0), ("far", 9000), ("lost", 2), ("lost", 0)]
    assert queue_numbers(queues, {"lost@g": [7, 9000], "known@g": [3], "lost@h": []}, {"known"}) == {"lost": 8}


def test_a_deleted_topic_stays_deleted(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        fill(running)
        assert running.connect().ask_task(Code.DELETE_TOPIC_IN_BROKER, TopicName(topic="orders")).code == 0
    for _ in range(3):
        with broker(tmp_path) as running:
            assert running.services.topics.get("orders") is None


@pytest.mark.parametrize(
    ("lost", "is_rebuilt"), [((), False), (("topics.json.sum",), False), (("topics.json",), True)],
    ids=["ours", "Java's", "none"],
)  # fmt: skip
def test_queues_of_a_topic_are_rebuilt_unless_another_broker_has_deleted_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: tuple[str, ...], *, is_rebuilt: bool
) -> None:
    """The times in the checkpoint are others, and the topic is neither in ``topics.json`` nor in ``consumequeue``."""
    with broker(tmp_path) as running:
        fill(running)
        assert running.connect().ask(Code.SEND_MESSAGE_V2, send("other"), b"x").code == 0
        assert running.services.topics.delete("orders")
    with (tmp_path / "checkpoint").open("r+b") as file:
        file.write((1 << 40).to_bytes(8, "big"))
    shutil.rmtree(tmp_path / "consumequeue" / "orders")
    remove(tmp_path, *lost)
    with broker(tmp_path) as running:
        assert running.services.store.has_queue("orders", 0) == is_rebuilt
    assert ("end before the entries that they had" in caplog.text) == is_rebuilt


def test_lost_queues_of_a_topic_are_rebuilt_although_the_checkpoint_is_damaged(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        fill(running)
        assert running.connect().ask(Code.SEND_MESSAGE_V2, send("other"), b"x").code == 0
    with (tmp_path / "checkpoint").open("r+b") as file:
        file.write((1 << 40).to_bytes(8, "big"))
    shutil.rmtree(tmp_path / "consumequeue" / "orders")
    with broker(tmp_path) as running:
        assert running.connect().ask(Code.PULL_MESSAGE, pull("orders", queue_id=3)).code == 0


def test_topics_of_messages_that_wait_come_back(tmp_path: Path) -> None:
    """Those of delayed, timed and half messages, and not those of what was delivered."""
    with broker(tmp_path) as running:
        client = running.connect()
        for topic, properties, flags in (
            ("done", {"DELAY": "1"}, 0), ("delayed", {"DELAY": "4"}, 0), ("timed", {"TIMER_DELAY_SEC": "300"}, 0),
            ("half", {"TRAN_MSG": "true", "PGROUP": "p"}, 4),
        ):  # fmt: skip
            header = send(topic, 2, {"UNIQ_KEY": topic, **properties}, sys_flag=flags)
            assert client.ask(Code.SEND_MESSAGE_V2, header, b"x").code == 0
            running.turn(2_000)
        assert running.services.delay.offsets[1] == 1
        running.services.delay.persist()
        running.services.store.delete_topic("done")
    remove(tmp_path, "topics.json")
    with broker(tmp_path) as running:
        table = running.services.topics.table
        assert {name for name in ("done", "delayed", "timed", "half") if name in table} == {"delayed", "timed", "half"}
        assert {table[name].read_queue_nums for name in ("delayed", "timed", "half")} == {3}


def test_what_names_no_topic_it_waits_for_is_passed_over(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        store = running.services.store
        for properties in (
            b"", b"REAL_TOPIC\x01../x\x02", b"REAL_TOPIC\x01a\x02REAL_QID\x01x\x02",
            b"REAL_TOPIC\x01b\x02REAL_QID\x01-7\x02", b"REAL_TOPIC\x01c\x02",
        ):  # fmt: skip
            store.append(NewRecord(HALF_TOPIC, 0, b"x", properties))
        store.append(NewRecord("other", 0, b"x", b"REAL_TOPIC\x01d\x02"))
        store.commit_pending()
        assert list(waiting_queues(store, {})) == [("b", 0), ("c", 0)]
        assert list(waiting_queues(store, {(HALF_TOPIC, 0): 4})) == [("c", 0)]


def test_the_newest_waiting_messages_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketmq_py.broker.metadata.lost_entries._MOST_WAITING", 2)
    with broker(tmp_path) as running:
        store = running.services.store
        for topic in "abc":
            store.append(NewRecord(HALF_TOPIC, 0, b"x", b"REAL_TOPIC\x01%s\x02" % topic.encode()))
        store.commit_pending()
        assert list(waiting_queues(store, {})) == [("b", 0), ("c", 0)]
