"""Writes files below ``config/`` in the format of Java brokers, so that a broker starts with many topics or groups."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

BYSTANDER = "bystander"
QUEUES = 8


def topic_names(count: int) -> list[str]:
    """Return ``grown-0`` and so on, the topics of ``rocketmq-load --topic grown --topics COUNT``."""
    return [f"grown-{number}" for number in range(count)]


def group_names(count: int) -> list[str]:
    """Return ``group-0`` and so on."""
    return [f"group-{number}" for number in range(count)]


def write_topics(store: Path, names: Iterable[str]) -> None:
    """Write topics with eight queues: the given ones, and that of the steady producer."""
    _write(store, "topics.json", {"topicConfigTable": {name: _topic(name) for name in [*names, BYSTANDER]}})


def write_groups(store: Path, names: Iterable[str], topic: str) -> None:
    """Write groups, each with offset 0 in all queues of one topic."""
    groups = list(names)
    _write(store, "subscriptionGroup.json", {"subscriptionGroupTable": {name: _group(name) for name in groups}})
    offsets = {f"{topic}@{name}": {str(queue): 0 for queue in range(QUEUES)} for name in groups}
    _write(store, "consumerOffset.json", {"offsetTable": offsets})


def _topic(name: str) -> dict[str, Any]:
    return {
        "attributes": {}, "order": False, "perm": 6, "readQueueNums": QUEUES, "topicFilterType": "SINGLE_TAG",
        "topicName": name, "topicSysFlag": 0, "writeQueueNums": QUEUES,
    }  # fmt: skip


def _group(name: str) -> dict[str, Any]:
    return {
        "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True, "consumeFromMinEnable": True,
        "consumeMessageOrderly": False, "groupName": name, "groupSysFlag": 0, "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16, "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
    }  # fmt: skip


def _write(store: Path, name: str, table: dict[str, Any]) -> None:
    version = {"counter": 1, "stateVersion": 0, "timestamp": 1_700_000_000_000}
    path = store / "config" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**table, "dataVersion": version}))
