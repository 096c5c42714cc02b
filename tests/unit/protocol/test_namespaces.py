"""Namespaces as clients add and remove them."""

from __future__ import annotations

from typing import Any

import pytest

from rocketmq_py.errors import ConfigError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.namespaces import (
    check_namespace,
    namespace_of,
    queue_without_namespace,
    retry_topic_with_namespace,
    with_namespace,
    without_namespace,
)
from tests.golden import files


@pytest.mark.parametrize(
    ("name", "wire"),
    [
        ("orders", "shop%orders"),
        ("%RETRY%group", "%RETRY%shop%group"),
        ("%DLQ%group", "%DLQ%shop%group"),
        ("shop%orders", "shop%orders"),
        ("shops", "shop%shops"),
    ],
)
def test_a_name_gets_the_namespace_once(name: str, wire: str) -> None:
    assert with_namespace("shop", name) == wire
    assert with_namespace("shop", wire) == wire
    assert without_namespace("shop", wire) == name.replace("shop%", "")


@pytest.mark.parametrize("name", ["TBW102", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_wheel_timer", "CID_RMQ_SYS_TRANS"])
def test_system_names_have_no_namespace(name: str) -> None:
    assert with_namespace("shop", name) == name


@pytest.mark.parametrize("namespace", [None, ""])
def test_names_without_a_namespace_are_unchanged(namespace: str | None) -> None:
    assert with_namespace(namespace, "orders") == without_namespace(namespace, "orders") == "orders"


def test_another_namespace_is_kept() -> None:
    assert without_namespace("shop", "other%orders") == "other%orders"


def test_queues_lose_the_namespace() -> None:
    assert queue_without_namespace("shop", MessageQueue("shop%t", "b", 1)) == MessageQueue("t", "b", 1)


@pytest.mark.parametrize("namespace", ["a%b", "a b", "a/b"])
def test_an_illegal_namespace_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="namespace"):
        check_namespace(namespace)


@pytest.mark.parametrize(
    "fact", files.facts("namespace"), ids=lambda fact: f"{fact['namespace'] or 'none'}-{fact['resource'] or 'empty'}"
)
def test_names_are_translated_as_the_java_client_does(fact: dict[str, Any]) -> None:
    namespace, name = fact["namespace"], fact["resource"]
    assert with_namespace(namespace, name) == fact["wrapped"]
    assert without_namespace(namespace, name) == fact["without"]
    assert namespace_of(name) == fact["of"]
    assert without_namespace(namespace_of(name), name) == fact["withoutAny"]
    if fact["retry"] is not None:
        assert retry_topic_with_namespace(namespace, name) == fact["retry"]
