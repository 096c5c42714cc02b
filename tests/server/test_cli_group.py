"""``rocketmq group`` on an embedded cluster."""

from __future__ import annotations

import json
import threading
import uuid
from typing import Any

import pytest

from rocketmq_py import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    RequestTimeout,
    aio,
)
from rocketmq_py.cli import main
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli, eventually

FIRST = ConsumeFromWhere.FIRST_OFFSET


@pytest.fixture
def cli(rocketmq: Cluster) -> Cli:
    return Cli(rocketmq.namesrv)


@pytest.fixture
def group(rocketmq: Cluster) -> str:
    name = f"g-{uuid.uuid4().hex[:12]}"
    with Admin(rocketmq.namesrv) as admin:
        admin.create_group(name)
    return name


@pytest.fixture
def topic(rocketmq: Cluster) -> str:
    """A topic with 5 messages in its first queue and 1 in its second."""
    name = rocketmq.create_topic(f"t-{uuid.uuid4().hex[:12]}", 2)
    with Producer("p", rocketmq.namesrv) as producer:
        for i in range(6):
            producer.send(Message(name, b"%d" % i), MessageQueue(name, "broker-a", i // 5))
    return name


def offsets(cli: Cli, group: str, topic: str) -> list[int]:
    return [row["offset"] for row in cli.json("group", "lag", group, "--topic", topic)]


# -- looking


def test_groups_are_listed(cli: Cli, group: str) -> None:
    (row,) = cli.json("group", "ls", group)
    assert row == {"group": group, "members": 0, "type": None, "model": None, "topics": [], "lag": 0}
    listed = cli.ok("group", "ls").split()
    assert group in listed
    assert "TOOLS_CONSUMER" not in listed
    assert "TOOLS_CONSUMER" in cli.ok("group", "ls", "-a").split()


def test_a_group_with_a_member_is_shown(cli: Cli, rocketmq: Cluster, group: str, topic: str) -> None:
    got = threading.Semaphore(0)
    with PushConsumer(group, rocketmq.namesrv, consume_from=FIRST) as consumer:
        consumer.on(topic, tags="*")(lambda _: got.release())
        consumer.start()
        for _ in range(6):
            assert got.acquire(timeout=240)
        found = cli.json("group", "describe", group)
        assert (found["type"], found["model"]) == ("push", "clustering")
        (member,) = found["members"]
        assert member["language"] == "PYTHON"
        assert {row["topic"] for row in found["subscriptions"]} == {topic, f"%RETRY%{group}"}
        text = cli.ok("group", "describe", group)
        assert member["clientId"] in text
        refused = cli("group", "delete", group, "-y")
        assert refused.exit_code == Status.FAILED
        assert f"group {group} is in use by {member['clientId']}" in refused.output
        (row,) = cli.json("group", "ls", group)
        assert row["members"] == 1
    assert offsets(cli, group, topic) == [5, 1]
    assert "no members" in cli.ok("group", "describe", group)


@pytest.mark.parametrize("verb", [("describe",), ("lag",), ("delete", "-y"), ("reset", "t", "--earliest")])
def test_a_missing_group_is_named(cli: Cli, verb: tuple[str, ...]) -> None:
    result = cli("group", verb[0], "no-such-group", *verb[1:])
    assert result.exit_code == Status.NOT_FOUND
    assert result.output == "Error: there is no consumer group no-such-group. 'rocketmq group ls' lists them\n"


# -- lag


def test_the_lag_of_a_group_is_shown(cli: Cli, group: str, topic: str) -> None:
    fresh = cli("group", "lag", group)
    assert fresh.exit_code == Status.NOT_FOUND
    assert f"group {group} has committed nothing yet" in fresh.output
    first, second = cli.json("group", "lag", group, "--topic", topic)
    assert first == {
        "topic": topic, "broker": "broker-a", "queue": 0, "offset": 0, "end": 5, "lag": 5, "lastConsumed": None
    }  # fmt: skip
    assert second["lag"] == 1
    assert cli.ok("group", "lag", group, "--topic", topic).splitlines()[-1] == f"{group}: 6 messages wait in 2 queues"
    assert cli.ok("group", "lag", group, "--topic", topic, "--max", 6)
    over = cli("group", "lag", group, "--topic", topic, "--max", 5)
    assert over.exit_code == Status.UNHEALTHY
    assert f"6 messages wait for group {group}, more than 5" in over.stderr


def test_the_lag_can_be_watched(cli: Cli, group: str, topic: str) -> None:
    watched = ("group", "lag", group, "--topic", topic, "--watch", "--interval", 0.1, "-c", 3)
    looks = cli.jsonl(*watched)
    assert [look["group"] for look in looks] == [group] * 3
    assert looks[0]["queues"][0]["outPerS"] is None
    assert looks[2]["queues"][0]["outPerS"] == 0.0
    assert looks[2]["at"] > looks[0]["at"]
    text = cli.ok(*watched)
    assert text.count("messages wait in 2 queues") == 3
    assert "\x1b" not in text
    assert cli("group", "lag", group, "-c", 3).exit_code == Status.USAGE


def test_a_watch_continues_after_a_silent_broker(
    cli: Cli, group: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask, asked = aio.Admin.progress, []

    async def sometimes(self: aio.Admin, *args: Any) -> Any:
        asked.append(args)
        if len(asked) == 2:
            raise RequestTimeout("no answer")
        return await ask(self, *args)

    monkeypatch.setattr(aio.Admin, "progress", sometimes)
    result = cli("group", "lag", group, "--topic", topic, "-w", "--interval", 0.1, "-c", 3, "-o", "jsonl")
    assert (result.exit_code, result.stderr) == (0, "no answer; asked again\n")
    assert len(result.stdout.splitlines()) == 2


def test_a_watch_redraws_the_terminal(
    cli: Cli, group: str, topic: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    words = ["group", "lag", group, "--topic", topic, "-w", "--interval", "0.1", "-c", "2", "--namesrv", cli.namesrv]
    main(words, standalone_mode=False)
    screens = capsys.readouterr().out.split("\x1b[2J\x1b[H")
    assert len(screens) == 3
    assert all(screen.endswith("\n") for screen in screens[1:])


# -- reset


def test_offsets_of_a_group_can_be_reset(cli: Cli, group: str, topic: str) -> None:
    planned = cli.json("group", "reset", group, topic, "--latest", "--dry-run")
    assert planned == [
        {"broker": "broker-a", "queue": 0, "minOffset": 0, "maxOffset": 5, "from": None, "to": 5},
        {"broker": "broker-a", "queue": 1, "minOffset": 0, "maxOffset": 1, "from": None, "to": 1},
    ]
    assert offsets(cli, group, topic) == [0, 0]
    refused = cli("group", "reset", group, topic, "--latest")
    assert refused.exit_code == Status.USAGE
    assert f"Set 2 queues of {topic} to these offsets for group {group}? There is no terminal" in refused.output
    assert f"set 2 queues of {topic} for group {group}" in cli.ok("group", "reset", group, topic, "--latest", "-y")
    assert offsets(cli, group, topic) == [5, 1]
    assert cli.ok("group", "reset", group, topic, "--latest", "-y").endswith("nothing to do\n")
    cli.ok("group", "reset", group, topic, "--shift-by", -2, "-y")
    assert offsets(cli, group, topic) == [3, 0]  # no queue has less than its first offset
    cli.ok("group", "reset", group, topic, "--to-offset", 4, "--queue", "broker-a:0", "-y")
    assert offsets(cli, group, topic) == [4, 0]
    cli.ok("group", "reset", group, topic, "--to-time", "1d", "-y")
    assert offsets(cli, group, topic) == [0, 0]
    cli.ok("group", "reset", group, topic, "--to-time", "now", "-y")
    assert offsets(cli, group, topic) == [5, 1]
    rows = json.loads(cli.ok("group", "reset", group, topic, "--earliest", "-y", "-o", "json"))
    assert [row["to"] for row in rows] == [0, 0]


def test_invalid_reset_targets_are_refused(cli: Cli, group: str, topic: str) -> None:
    for words in ((), ("--earliest", "--latest"), ("--latest", "--queue", "broker-a:9"), ("--to-time", "soon")):
        assert cli("group", "reset", group, topic, *words, "-y").exit_code == Status.USAGE
    assert cli("group", "reset", group, "no-such-topic", "--latest", "-y").exit_code == Status.NOT_FOUND


def test_a_running_member_follows_a_reset(cli: Cli, rocketmq: Cluster, group: str, topic: str) -> None:
    got: list[int] = []
    arrived = threading.Semaphore(0)
    with PushConsumer(group, rocketmq.namesrv, consume_from=FIRST) as consumer:

        @consumer.on(topic)
        def listen(message: object) -> None:
            got.append(message.queue_offset)  # type: ignore[attr-defined]
            arrived.release()

        consumer.start()
        for _ in range(6):
            assert arrived.acquire(timeout=240)
        cli.ok("group", "reset", group, topic, "--to-offset", 3, "--queue", "broker-a:0", "-y")
        for _ in range(2):
            assert arrived.acquire(timeout=240)
    assert sorted(got[6:]) == [3, 4]


# -- delete


def test_a_group_is_deleted(cli: Cli, group: str, topic: str) -> None:
    cli.ok("group", "reset", group, topic, "--latest", "-y")
    refused = cli("group", "delete", group)
    assert refused.exit_code == Status.USAGE
    assert f"Delete consumer group {group}, with a lag of 0 messages?" in refused.output
    assert cli.ok("group", "delete", group, "--yes") == f"deleted group {group}\n"
    assert eventually(lambda: cli.json("group", "ls", group), lambda rows: rows == []) == []


def test_offsets_can_be_kept_without_their_group(cli: Cli, rocketmq: Cluster, group: str, topic: str) -> None:
    cli.ok("group", "reset", group, topic, "--to-offset", 2, "--queue", "broker-a:0", "-y")
    cli.ok("group", "delete", group, "--yes", "--keep-offsets")
    with Admin(rocketmq.namesrv) as admin:
        admin.create_group(group)
        assert admin.group_offset(group, MessageQueue(topic, "broker-a", 0)) == 2
        admin.delete_group(group, clean_offsets=True)
