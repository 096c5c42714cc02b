"""A full disk is reported in plain words, and the broker goes on where it can."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata import table_file
from rocketmq_py.broker.services import Services
from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.topic import CreateTopic
from rocketmq_py.store import StoreConfig
from tests.chaoskit.node import FullDiskFileSystem
from tests.unit.broker.harness import SMALL, START_MS, Client, InProcess, broker
from tests.unit.broker.requests import heartbeat, pull, send

FULL = "No space left on device"
TABLES = ("topics.json", "subscriptionGroup.json")


class FullConfig(FullDiskFileSystem):
    """A disk that is full for the files of topics and groups only; a start needs room for other ones."""

    def check(self, path: Path) -> None:
        if path.name.startswith(TABLES):
            super().check(path)


@pytest.fixture
def disk() -> FullDiskFileSystem:
    return FullConfig()


def services(root: Path, disk: FullDiskFileSystem) -> Services:
    config = BrokerConfig(store_path_root_dir=str(root))
    return Services(config, StoreConfig(**SMALL), 10911, lambda: START_MS, lambda _: None, fs=disk)


@pytest.fixture
def running(tmp_path: Path, disk: FullDiskFileSystem, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    monkeypatch.setattr(table_file, "_RETRY_SECONDS", 0.0)
    monkeypatch.setattr(table_file, "_RETRY_SHARE", 0)
    with broker(tmp_path / "store", fs=disk) as opened:
        yield opened
        disk.is_full = False


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if name in record.getMessage()]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_start_on_a_full_disk_names_the_reason(tmp_path: Path, is_first: bool) -> None:
    disk = FullDiskFileSystem()
    if not is_first:
        before = services(tmp_path, disk)
        before.open()
        before.close()
    disk.is_full = True
    with pytest.raises(StoreNotWritable, match=f"cannot be opened for writing: .*{FULL}.*; free disk space"):
        services(tmp_path, disk).open()
    disk.is_full = False
    again = services(tmp_path, disk)
    again.open()
    again.close()


def test_a_start_succeeds_without_room_for_the_tables(
    tmp_path: Path, disk: FullDiskFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    before = services(tmp_path, disk)
    before.open()
    before.close()
    for file in (tmp_path / "config").iterdir():
        if file.name.startswith(TABLES):
            file.unlink()
    disk.is_full = True
    started = services(tmp_path, disk)
    started.open()
    for name in TABLES:
        [line] = lines(caplog, name)
        assert f"{name} cannot be written, so it is older than the broker's state" in line
        assert FULL in line
    disk.is_full = False
    started.close()
    assert (tmp_path / "config" / "topics.json").exists()


def test_a_new_group_pulls_from_a_full_disk(
    running: InProcess, client: Client, disk: FullDiskFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    client.ask(Code.SEND_MESSAGE_V2, send(), b"body")
    disk.is_full = True
    for group in ("one", "two"):
        assert client.ask(Code.PULL_MESSAGE, pull(consumer_group=group)).code == 0
        assert client.ask(Code.HEART_BEAT, body=heartbeat("c", group, t="*")).code == 0
    assert {record.levelno for record in caplog.records if record.exc_info} == set()
    assert len(lines(caplog, "subscriptionGroup.json cannot be written")) == 1
    assert len(lines(caplog, "topics.json cannot be written")) == 1
    running.services.catch_up()
    assert len(lines(caplog, "cannot be written")) == 2
    disk.is_full = False
    running.services.catch_up()
    assert len(lines(caplog, "can be written again")) == 2
    for name, expected in (("subscriptionGroup.json", '"two"'), ("topics.json", '"%RETRY%two"')):
        assert expected in (running.config.store_root / "config" / name).read_text()


def test_creating_topics_or_groups_on_a_full_disk_is_refused_with_the_reason(
    running: InProcess, client: Client, disk: FullDiskFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    header = CreateTopic(
        topic="new", default_topic="TBW102", read_queue_nums=4, write_queue_nums=4, perm=6,
        topic_filter_type="SINGLE_TAG", topic_sys_flag=0, order=False,
    )  # fmt: skip
    disk.is_full = True
    answer = client.ask_task(Code.UPDATE_AND_CREATE_TOPIC, header)
    assert answer.code == 1
    assert (answer.remark or "").startswith("the topics are changed until the next start only")
    assert FULL in (answer.remark or "")
    answer = client.ask(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=SubscriptionGroupConfig(group_name="new").encode()
    )
    assert answer.code == 1
    assert "the consumer groups are changed until the next start only" in (answer.remark or "")
    assert running.services.topics.get("new") is not None
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]


def test_a_stop_on_a_full_disk_closes_the_store(tmp_path: Path, disk: FullDiskFileSystem) -> None:
    started = services(tmp_path, disk)
    started.open()
    disk.is_full = True
    started.topics.announce_all()
    started.close()
    disk.is_full = False
    again = services(tmp_path, disk)
    again.open()
    again.close()
