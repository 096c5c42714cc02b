"""Tables of a slave and of a start: which listeners hear of what, and what is written to their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketmq_py.protocol.bodies.base import DataVersion
from rocketmq_py.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupTable
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.unit.broker.harness import InProcess, broker


def heard(running: InProcess) -> list[list[str]]:
    """The topics that the listener hears of, call by call."""
    calls: list[list[str]] = []
    running.services.topics._on_change = lambda topics: calls.append(sorted(topic.topic_name for topic in topics))
    return calls


def test_a_slave_tells_which_topics_differ(running: InProcess) -> None:
    topics = running.services.topics
    topics.put([TopicConfig(topic_name="same"), TopicConfig(topic_name="other", perm=4)])
    calls = heard(running)
    version = DataVersion(counter=9, timestamp=5)
    table = {name: TopicConfig(topic_name=name) for name in ("same", "other", "new")}
    topics.take_over(version, table)
    assert calls == [["new", "other"]]
    assert topics.table.keys() == table.keys()
    topics.take_over(version, {})
    assert (calls, topics.table.keys()) == ([["new", "other"]], table.keys()), "the same version has the same topics"


def test_order_topics_are_marked_once(running: InProcess) -> None:
    topics = running.services.topics
    topics.put([TopicConfig(topic_name="a"), TopicConfig(topic_name="b", order=True), TopicConfig(topic_name="c")])
    calls, before = heard(running), topics.version
    topics.set_order_topics(["b", "absent"])
    assert (calls, topics.version) == ([], before)
    topics.set_order_topics(["a", "b"])
    assert calls == [["a"]]
    assert topics.version.counter == before.counter + 1
    assert [topics.table[name].order for name in "abc"] == [True, True, False]
    topics.set_order_topics(["a", "b"])
    assert len(calls) == 1


def test_all_topics_are_announced_with_another_version(running: InProcess) -> None:
    calls, before = heard(running), running.services.topics.version
    running.services.topics.announce_all()
    assert calls == [sorted(running.services.topics.table)]
    assert running.services.topics.version.counter == before.counter + 1


@pytest.mark.parametrize("table", ["topics", "subscriptionGroup"])
def test_changes_in_the_journal_are_in_the_file_after_the_next_start(tmp_path: Path, table: str) -> None:
    """A broker that finds a journal writes the whole file until it stops, so that a journal does not grow for ever."""
    config = tmp_path / "config"
    with broker(tmp_path) as running:
        running.services.topics.put([TopicConfig(topic_name="added")])
        running.services.groups.put([SubscriptionGroupConfig(group_name="added")])
        running.services.saver._thread.submit(int).result()  # the jobs before it are done then
        before = {path.name: path.read_bytes() for path in config.iterdir() if path.name.startswith(table)}
    for path in config.iterdir():  # as a kill leaves them
        if path.name.startswith(table):
            path.unlink()
    for name, data in before.items():
        (config / name).write_bytes(data)
    with broker(tmp_path) as running:
        assert running.services.topics.get("added") is not None
        assert running.services.groups.get("added") is not None
    assert b'"added"' in (config / f"{table}.json").read_bytes()


def test_a_slave_takes_over_groups_once_for_each_version(running: InProcess) -> None:
    groups = running.services.groups
    told = SubscriptionGroupTable(
        subscription_group_table={"h": SubscriptionGroupConfig(group_name="h")}, data_version=DataVersion(counter=7)
    )
    groups.take_over(told)
    groups.table.pop("h")
    groups.take_over(told)
    assert groups.get("h") is None


# -- offsets


def saves(running: InProcess) -> list[object]:
    """What is written to the file of offsets, write by write."""
    written: list[object] = []
    running.services.offsets._save = lambda _, tree: written.append(tree)
    return written


def test_offsets_are_written_only_after_a_change(running: InProcess) -> None:
    offsets = running.services.offsets
    offsets.persist()
    written = saves(running)
    offsets.persist()
    assert written == []
    offsets.commit("g", "t", 0, 5, "here")
    for _ in range(2):
        offsets.persist()
    assert len(written) == 1
    offsets.commit("g", "t", 0, 5, "here")
    offsets.pulled("g", "t", 0, 9)
    offsets.persist()
    assert len(written) == 1, "nothing has changed"


@pytest.mark.parametrize("what", ["group", "topic"])
def test_what_is_removed_is_written(running: InProcess, what: str) -> None:
    offsets = running.services.offsets
    for group, topic in (("g", "t"), ("g", "u"), ("h", "t")):
        offsets.commit(group, topic, 0, 5, "here")
    offsets.pulled("p", "q", 0, 9)
    offsets.persist()
    written = saves(running)
    remove = {"group": lambda: offsets.remove_group("g"), "topic": lambda: offsets.remove_topic("t")}[what]
    remove()
    offsets.persist()
    assert len(written) == 1
    assert offsets.table.keys() == ({"t@h"} if what == "group" else {"u@g"})
    remove()
    offsets.persist()
    assert len(written) == 1, "there was nothing to remove"


def test_cloned_offsets_are_copies_and_are_written(running: InProcess) -> None:
    offsets = running.services.offsets
    offsets.commit("g", "t", 0, 5, "here")
    offsets.persist()
    written = saves(running)
    offsets.clone("g", "h", "absent")
    offsets.persist()
    assert written == []
    offsets.clone("g", "h", "t")
    offsets.persist()
    assert len(written) == 1
    offsets.commit("h", "t", 0, 6, "here")
    assert (offsets.query("g", "t", 0), offsets.query("h", "t", 0)) == (5, 6)
    assert sorted(offsets.groups_of("t")) == ["g", "h"]


def test_the_version_changes_with_every_fifth_hundred_commit(running: InProcess) -> None:
    offsets = running.services.offsets
    before = offsets.version.counter
    for number in range(499):
        offsets.commit("g", "t", 0, number, "here")
    assert offsets.version.counter == before
    offsets.commit("g", "t", 0, 499, "here")
    assert offsets.version.counter == before + 1


def test_a_smaller_offset_is_logged(running: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    offsets = running.services.offsets
    for offset in (5, 6, 6, 4):
        offsets.commit("g", "t", 0, offset, "here")
    assert [record.message for record in caplog.records] == [
        "here commits a smaller offset for t@g queue 0: 6 before, 4 now"
    ]


def test_a_reset_is_taken_once_and_for_its_queue_only(running: InProcess) -> None:
    offsets = running.services.offsets
    offsets.reset("g", "t", 0, 5)
    offsets.reset("g", "t", 1, 6)
    offsets.commit("g", "t", 0, 9, "here")
    assert (offsets.query("g", "t", 0), offsets.has_reset("g", "t", 2), offsets.has_reset("h", "t", 0)) == (
        5, False, False,
    )  # fmt: skip
    assert offsets.take_reset("g", "t", 2) is None
    assert (offsets.take_reset("g", "t", 0), offsets.take_reset("g", "t", 0)) == (5, None)
    assert (offsets.query("g", "t", 0), offsets.has_reset("g", "t", 1)) == (9, True)
    assert offsets.take_reset("g", "t", 1) == 6
    assert offsets._resets == {}
    assert offsets.take_reset("g", "t", 1) is None


def test_the_offset_of_the_last_pull_is_that_of_its_queue(running: InProcess) -> None:
    offsets = running.services.offsets
    assert offsets.query_pulled("g", "t", 0) == -1
    offsets.commit("g", "t", 0, 5, "here")
    assert offsets.query_pulled("g", "t", 0) == 5
    offsets.pulled("g", "t", 0, 8)
    offsets.pulled("g", "t", 1, 0)
    assert [offsets.query_pulled("g", "t", queue) for queue in range(3)] == [8, 0, -1]


def test_offsets_of_some_groups_are_left_out(running: InProcess) -> None:
    offsets = running.services.offsets
    for group, offset in (("a", 1), ("b", 2), ("c", 3)):
        offsets.commit(group, "t", 0, offset, "here")
    offsets.commit("a", "u", 0, 9, "here")
    assert offsets.committed("t", ["b"]) == {0: [1, 3]}
    assert offsets.committed("t") == {0: [1, 2, 3]}
    assert offsets.topics_of("a") == ["t", "u"]
