"""Request modes: defaults, refusals, what is written when."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.metadata.request_modes import RequestModes
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.bodies.pop import MessageRequestMode, MessageRequestModes
from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.wire.fastjson import dumps_pretty, loads
from tests.unit.broker.workers import AtOnce
from tests.unit.store.memoryfs import MemoryFileSystem


class File(ConfigFile):
    """Keeps what is saved."""

    def __init__(self) -> None:
        super().__init__(Path("/config/table.json"), MemoryFileSystem())
        self.saved: list[Any] = []
        self.data = b""

    def save_text(self, data: bytes) -> None:
        super().save_text(data)
        self.saved.append(loads(data))
        self.data = data


def modes(file: File, **config: Any) -> RequestModes:
    """Topic t and group g exist."""
    topics: Any = SimpleNamespace(get=lambda name: "topic" if name in ("t", "%RETRY%g") else None)
    groups: Any = SimpleNamespace(find=lambda name: "group" if name == "g" else None)
    return RequestModes(file, BrokerConfig(**config), topics, groups, AtOnce())  # type: ignore[arg-type]


def mode(topic: str = "t", group: str = "g", name: str = "POP", share: int = 2) -> MessageRequestMode:
    return MessageRequestMode(topic=topic, consumer_group=group, mode=name, pop_share_queue_num=share)


@pytest.mark.parametrize(
    ("default", "topic", "name", "share"),
    [("PULL", "t", "PULL", 0), ("POP", "t", "POP", 7), ("POP", "%RETRY%g", "PULL", 0)],
)
def test_without_a_mode_the_default_counts(default: str, topic: str, name: str, share: int) -> None:
    subject = modes(File(), default_message_request_mode=default, default_pop_share_queue_num=7)
    assert subject.get(topic, "g") == mode(topic, "g", name, share)


@pytest.mark.parametrize("name", ["PULL", "POP"])
def test_a_mode_is_kept_and_written(name: str) -> None:
    file = File()
    subject = modes(file)
    subject.set(mode(name=name))
    assert subject.get("t", "g") == mode(name=name)
    assert subject.get("t", "h").mode == "PULL"
    again = modes(file)
    again.load()
    assert again.get("t", "g") == mode(name=name)


def test_the_file_is_laid_out_as_java_does() -> None:
    file = File()
    subject = modes(file)
    subject.set(mode())
    subject.set(mode("t", "g", "PULL"))
    assert file.data == dumps_pretty(bean(subject.modes))
    assert b'\n\t\t"t":{\n\t\t\t"g":{\n\t\t\t\t"consumerGroup":"g",' in file.data


@pytest.mark.parametrize(
    ("given", "code", "remark"),
    [
        (mode("%RETRY%g"), 16, "retry topic is not allowed to set mode"),
        (mode("nix"), 17, "topic[nix] not exist"),
        (mode(group="nix"), 26, "subscription group does not exist"),
        (mode(name="PUSH"), 29, "mode 'PUSH' is unknown; use PULL or POP"),
    ],
)
def test_a_mode_that_cannot_be_is_refused(given: MessageRequestMode, code: int, remark: str) -> None:
    file = File()
    with pytest.raises(BrokerError) as refused:
        modes(file).set(given)
    assert (refused.value.code, refused.value.remark, file.saved) == (code, remark, [])


def test_modes_of_the_master_are_written_once() -> None:
    file = File()
    subject = modes(file)
    subject.set(mode("t", "g", "PULL"))
    master = MessageRequestModes(message_request_mode_map={"t": {"g": mode(share=5)}})
    for _ in range(2):
        subject.take_over(master)
    assert subject.get("t", "g") == mode(share=5)
    assert len(file.saved) == 2


def test_an_empty_file_has_no_modes() -> None:
    subject = modes(File())
    subject.load()
    assert subject.modes == MessageRequestModes()
