"""Copies topics and groups of one broker to the empty store of another that joins its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rocketmq_py.store.config.config_files import ConfigFile
from rocketmq_py.store.config.config_journal import JournaledFile

_TABLES = {"topics.json": "topicConfigTable", "subscriptionGroup.json": "subscriptionGroupTable"}


def copy_tables(source: Path, target: Path, source_name: str) -> None:
    """Copy topics and groups from one store to another, so that producers spread their messages over both brokers.

    Files that the target has stay as they are. Neither broker may be running.

    :param source: root of the store to copy from; nothing is copied if it has no tables yet.
    :param target: root of the other store.
    :param source_name: name of the source's broker: topics named after it are its own and are not copied.
    :raises OSError: a file cannot be read or written.
    """
    own = {source_name, f"rmq_sys_SYNC_BROKER_MEMBER_{source_name}"}
    for name, member in _TABLES.items():
        path = target / "config" / name
        tree = None if path.exists() else JournaledFile(source / "config" / name).load()
        if isinstance(tree, dict) and isinstance(tree.get(member), dict):
            ConfigFile(path).save(_without(tree, member, own))


def _without(tree: dict[str, Any], member: str, names: set[str]) -> dict[str, Any]:
    return {**tree, member: {name: entry for name, entry in tree[member].items() if name not in names}}
