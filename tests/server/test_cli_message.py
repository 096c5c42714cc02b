"""``rocketmq message`` and ``rocketmq dlq`` on an embedded cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rocketmq_py import Admin, Message, MessageQueue, Producer, RequestTimeout, SendResult, aio
from rocketmq_py.cli.dlq import commands, resend
from rocketmq_py.cli.dlq.resend_lock import ResendLock
from rocketmq_py.cli.message import send as message_send
from rocketmq_py.cli.output.failures import CommandFailure, Status
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli, eventually


@pytest.fixture
def cli(rocketmq: Cluster) -> Cli:
    return Cli(rocketmq.namesrv)


def bodies(cli: Cli, topic: str) -> list[str]:
    return [row["body"] for row in cli.jsonl("topic", "tail", topic, "-n", 100, "--no-follow")]


# -- send


def test_a_message_can_come_from_argument_file_or_input(cli: Cli, rocketmq_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"\x00\xff")
    sent = cli.json("message", "send", rocketmq_topic, "as argument", "-t", "a", "-k", "k1 k2", "-p", "x=y")
    cli.ok("message", "send", rocketmq_topic, "-f", path, "--queue", "broker-a:2")
    cli.ok("message", "send", rocketmq_topic, stdin="from\nstdin")
    cli.ok("message", "send", rocketmq_topic, "last", "--sharding-key", "s")
    assert sent["status"] == "SEND_OK"
    rows = cli.jsonl("topic", "tail", rocketmq_topic, "--no-follow")
    assert [row["body"] for row in rows] == ["as argument", "AP8=", "from\nstdin", "last"]
    first = rows[0]
    assert (first["msgId"], first["offset"], first["queue"]) == (sent["msgId"], sent["offset"], sent["queue"])
    assert (first["tags"], first["keys"], first["properties"]["x"]) == ("a", "k1 k2", "y")
    assert (rows[1]["queue"], rows[1]["bodyEncoding"]) == (2, "base64")


def test_messages_are_sent_from_lines(cli: Cli, rocketmq_topic: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{i}\n\n" for i in range(200)))
    said = cli("message", "send", rocketmq_topic, "--lines", path, "-t", "a")
    assert (said.exit_code, said.stdout) == (0, f"sent 200 messages to {rocketmq_topic}\n")
    rows = cli.jsonl("message", "send", rocketmq_topic, "--lines", "-", "--sharding-key", "s", stdin="x\ny\nz")
    assert [row["offset"] for row in rows] == list(range(rows[0]["offset"], rows[0]["offset"] + 3))
    assert cli.json("topic", "describe", rocketmq_topic)["messages"] == 203


def test_printed_messages_can_be_sent_again(cli: Cli, rocketmq: Cluster, rocketmq_topic: str) -> None:
    other = rocketmq.create_topic(f"t-{uuid.uuid4().hex[:12]}")
    cli.ok("message", "send", rocketmq_topic, "one", "-t", "a", "-k", "k", "-p", "x=y")
    lines = cli.ok("topic", "tail", rocketmq_topic, "--no-follow", "-o", "jsonl")
    cli.ok("message", "send", other, "--jsonl", "-", stdin=lines)
    (row,) = cli.jsonl("topic", "tail", other, "--no-follow")
    assert (row["topic"], row["body"], row["tags"], row["keys"]) == (other, "one", "a", "k")
    assert row["properties"]["x"] == "y"
    assert row["msgId"] != json.loads(lines)["msgId"]


def test_an_invalid_line_ends_the_command(cli: Cli, rocketmq_topic: str) -> None:
    bad = cli("message", "send", rocketmq_topic, "--jsonl", "-", stdin='{"body":"a"}\n{"body":"b"}\n[]\n{"body":"c"}\n')
    assert bad.exit_code == Status.FAILED
    assert "line 3 is no message: it is no JSON object; it and what follows was not sent" in bad.output
    assert f"sent 2 messages to {rocketmq_topic}" in bad.output
    large = cli("message", "send", rocketmq_topic, "--lines", "-", stdin=b"c\n" + b"x" * (5 << 20) + b"\nd\n")
    assert large.exit_code == Status.FAILED
    assert "Error: line 2: " in large.output
    assert "Nothing after line 2 was sent; not sent: 2" in large.output
    ordered = cli("message", "send", rocketmq_topic, "--lines", "-", "--queue", "broker-z:0", stdin="e\nf\n")
    assert ordered.exit_code != 0
    assert "Nothing after line 1 was sent" in ordered.output
    assert sorted(bodies(cli, rocketmq_topic)) == ["a", "b", "c"]


def test_messages_without_an_answer_are_reported_as_maybe_stored(
    cli: Cli, rocketmq_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> SendResult:
        raise RequestTimeout("no answer")

    monkeypatch.setattr(Producer, "send", never)
    result = cli("message", "send", rocketmq_topic, "--lines", "-", "--queue", "broker-a:0", stdin="a\n")
    assert result.exit_code == Status.FAILED
    assert "not answered, may have been stored: 1" in result.output


@pytest.mark.parametrize("ordered", [False, True])
def test_an_interrupt_reports_the_number_of_sent_messages(
    cli: Cli, rocketmq_topic: str, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """Ctrl-C while the first result is being printed, or the second message being sent."""
    send, begun = Producer.send, []

    def interrupted(self: Producer, *args: Any) -> SendResult:
        begun.append(args)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return send(self, *args)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    if ordered:
        monkeypatch.setattr(Producer, "send", interrupted)
    else:
        monkeypatch.setattr(message_send, "sent_row", stop)
    queue = ("--queue", "broker-a:0") if ordered else ()
    result = cli("message", "send", rocketmq_topic, "--lines", "-", "-o", "jsonl", *queue, stdin="a\nb\nc\n")
    assert result.exit_code == Status.INTERRUPTED
    stored = len(bodies(cli, rocketmq_topic))
    assert stored == (1 if ordered else 3)
    assert f"sent {stored} messages to {rocketmq_topic}" in result.stderr
    assert ("the send of line 2 was interrupted, and the message may have been stored" in result.stderr) == ordered


@pytest.mark.parametrize(
    "words",
    [("body", "--lines", "-"), ("--jsonl", "-", "-t", "a"), ("x", "--queue", "broker-a"), ("x", "-p", "KEYS=k"),
     ("x", "--delay-level", "-1"), ("x", "--delay", "-1")],
)  # fmt: skip
def test_contradictory_options_are_refused(cli: Cli, rocketmq_topic: str, words: tuple[str, ...]) -> None:
    assert cli("message", "send", rocketmq_topic, *words, stdin="{}").exit_code == Status.USAGE


def test_a_message_can_be_delayed(cli: Cli, rocketmq_topic: str) -> None:
    assert cli("message", "send", rocketmq_topic, "later", "--delay", "3600").exit_code == 0
    assert cli("message", "send", rocketmq_topic, "now").exit_code == 0
    assert bodies(cli, rocketmq_topic) == ["now"]
    twice = cli("message", "send", rocketmq_topic, "x", "--delay", "1", "--delay-level", "2")
    assert twice.exit_code != 0
    assert "give one of delay_level, delay and deliver_at" in twice.stderr


# -- get, query, trace


def test_a_message_is_found_by_id_and_key(cli: Cli, rocketmq_topic: str) -> None:
    sent = cli.json("message", "send", rocketmq_topic, "grüße", "-k", "k1 k2", "-t", "a")
    row = cli.json("message", "get", sent["offsetMsgId"])
    assert (row["topic"], row["body"], row["msgId"]) == (rocketmq_topic, "grüße", sent["msgId"])
    (found,) = eventually(lambda: cli("message", "query", rocketmq_topic, "k2", "-o", "jsonl").stdout).splitlines()
    assert json.loads(found) == row
    assert cli.json("message", "get", sent["msgId"], "--topic", rocketmq_topic) == row
    assert cli.json("message", "get", sent["offsetMsgId"], "--topic", rocketmq_topic) == row
    assert cli.ok("message", "get", sent["offsetMsgId"], "--raw") == "grüße"
    assert "body            grüße" in cli.ok("message", "get", sent["offsetMsgId"])
    assert "k1 k2" in cli.ok("message", "query", rocketmq_topic, "k1", "--since", "1h")


def test_missing_messages_are_reported(cli: Cli, rocketmq_topic: str) -> None:
    sent = cli.json("message", "send", rocketmq_topic, "x")
    nowhere = sent["offsetMsgId"][:16] + "0000FFFFFFFFFFFF"
    for words, status in (
        (("query", rocketmq_topic, "no-such-key"), Status.NOT_FOUND),
        (("query", "no-such-topic", "k"), Status.NOT_FOUND),
        (("get", nowhere), Status.NOT_FOUND),
        (("get", "no-id"), Status.USAGE),
        (("get", "no-id", "--topic", rocketmq_topic), Status.NOT_FOUND),
        (("trace", "no-id", "--topic", rocketmq_topic), Status.NOT_FOUND),
    ):
        result = cli("message", *words)
        assert result.exit_code == status, result.output
        assert result.stdout == ""


def traced(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def test_the_status_of_a_message_is_derived_from_offsets(cli: Cli, rocketmq: Cluster, rocketmq_topic: str) -> None:
    group = f"g-{uuid.uuid4().hex[:12]}"
    trace_topic = rocketmq.create_topic(f"trace-{uuid.uuid4().hex[:12]}", 1)
    sent = cli.json("message", "send", rocketmq_topic, "x", "-k", "k")
    queue = MessageQueue(rocketmq_topic, "broker-a", sent["queue"])
    pub = traced("Pub", 5, "r", "shop", rocketmq_topic, sent["msgId"], "", "k", "h:1", 1, 7, 0, "OID", "true", "c:1")
    sub = traced("SubAfter", "R", sent["msgId"], 12, "true", "k", 0, 9, group)
    with Producer("p", rocketmq.namesrv) as producer, Admin(rocketmq.namesrv) as admin:
        producer.send(Message(trace_topic, sub + traced("SubAfter", "R", "another", 1, "true", ""), keys=sent["msgId"]))
        producer.send(Message(trace_topic, pub, keys=[sent["msgId"], "k"]))
        producer.send(Message(trace_topic, traced("Pub", "when"), keys=sent["msgId"]))
        eventually(lambda: len(admin.messages_by_key(trace_topic, sent["msgId"])) == 3)
        admin.create_group(group)
        admin.set_group_offset(group, queue, 0)
        words = ("message", "trace", sent["offsetMsgId"], "--trace-topic", trace_topic)
        waiting = cli.json(*words)
        assert waiting["consumers"] == [{"group": group, "status": "waiting", "members": 0, "retries": 0}]
        admin.set_group_offset(group, queue, 1)
    result = cli(*words, "-o", "json")
    assert "of a trace has unexpected fields" in result.stderr
    found = json.loads(result.stdout)
    assert found["message"]["msgId"] == sent["msgId"]
    assert found["consumers"][0]["status"] == "consumed"
    assert [(row["at"], row["what"], row["group"], row["host"], row["costMs"]) for row in found["trace"]] == [
        (5, "Pub", "shop", "c:1", 7), (9, "SubAfter", group, None, 12)
    ]  # fmt: skip
    text = cli.ok(*words)
    assert f"{group}  consumed" in text
    untraced = cli.ok("message", "trace", sent["msgId"], "--topic", rocketmq_topic, "--trace-topic", "no-such-topic")
    assert untraced.endswith("nothing in no-such-topic\n")


# -- dead letters


@pytest.fixture
def dead(rocketmq: Cluster, rocketmq_topic: str) -> str:
    """A group with three dead letters of ``rocketmq_topic``."""
    group = f"g-{uuid.uuid4().hex[:12]}"
    with Admin(rocketmq.namesrv) as admin, Producer("p", rocketmq.namesrv) as producer:
        admin.create_group(group)
        admin.create_topic(f"%DLQ%{group}", 1)
        for i in range(3):
            properties = {"RETRY_TOPIC": rocketmq_topic, "DELAY": "0", "mine": str(i)}
            producer.send(Message(f"%DLQ%{group}", b"dead %d" % i, tags="a", keys=f"k{i}", properties=properties))
    return group


def of_group(cli: Cli, group: str) -> dict[str, Any]:
    (row,) = [row for row in cli.json("dlq", "ls") if row["group"] == group]
    return dict(row)


def test_dead_letters_are_shown(cli: Cli, rocketmq_topic: str, dead: str, tmp_path: Path) -> None:
    listed = of_group(cli, dead)
    assert (listed["messages"], listed["resent"]) == (3, 0)
    assert dead in cli.ok("dlq", "ls")
    rows = cli.json("dlq", "show", dead, "-n", 2)
    assert [(row["body"], row["origin"], row["tags"]) for row in rows] == [
        ("dead 1", rocketmq_topic, "a"), ("dead 2", rocketmq_topic, "a")
    ]  # fmt: skip
    assert "dead 2" in cli.ok("dlq", "show", dead)
    path = tmp_path / "dead.jsonl"
    said = cli("dlq", "export", dead, path)
    assert (said.exit_code, said.stderr) == (0, f"exported 3 dead letters of group {dead}\n")
    assert [json.loads(line)["body"] for line in path.read_text().splitlines()] == ["dead 0", "dead 1", "dead 2"]
    assert cli.ok("dlq", "export", dead) == path.read_text()
    assert cli.ok("dlq", "export", dead, "--until", "1d") == ""


def test_dead_letters_are_resent_once(cli: Cli, rocketmq_topic: str, dead: str) -> None:
    planned = cli.json("dlq", "resend", dead, "--dry-run")
    assert planned == [{"origin": rocketmq_topic, "to": rocketmq_topic, "messages": 3}]
    assert bodies(cli, rocketmq_topic) == []
    refused = cli("dlq", "resend", dead)
    assert refused.exit_code == Status.USAGE
    assert "Send 3 messages again, to every group of those topics?" in refused.output
    said = cli("dlq", "resend", dead, "-n", 2, "-y")
    assert said.exit_code == 0
    assert f"sent 2 of 2 dead letters of group {dead} again" in said.stderr
    assert of_group(cli, dead)["resent"] == 2
    cli.ok("dlq", "resend", dead, "-y")
    assert bodies(cli, rocketmq_topic) == ["dead 0", "dead 1", "dead 2"]
    assert cli.json("dlq", "resend", dead, "-y") == []
    assert len(bodies(cli, rocketmq_topic)) == 3
    (row, *_) = cli.jsonl("topic", "tail", rocketmq_topic, "--no-follow")
    (original, *_) = cli.json("dlq", "show", dead)
    assert row["msgId"] == original["msgId"]
    assert (row["keys"], row["properties"]["mine"]) == ("k0", "0")
    assert "RETRY_TOPIC" not in row["properties"]
    cli.ok("dlq", "resend", dead, "-y", "--from-start", "-n", 1)
    assert sorted(bodies(cli, rocketmq_topic)) == ["dead 0", "dead 0", "dead 1", "dead 2"]


def test_dead_letters_are_resent_to_their_group_only(cli: Cli, rocketmq_topic: str, dead: str) -> None:
    said = cli.json("dlq", "resend", dead, "--to", "group", "-y")
    assert said == [{"origin": rocketmq_topic, "to": f"%RETRY%{dead}", "messages": 3}]
    assert bodies(cli, rocketmq_topic) == []
    rows = cli.jsonl("topic", "tail", f"%RETRY%{dead}", "--no-follow")
    assert {row["properties"]["RETRY_TOPIC"] for row in rows} == {rocketmq_topic}


def test_uncertain_sends_are_reported(
    cli: Cli, rocketmq_topic: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = aio.Producer.send

    async def second_is_lost(self: aio.Producer, message: Message, *args: Any) -> SendResult:
        result = await send(self, message, *args)
        if message.body == b"dead 1":
            raise RequestTimeout("no answer in time")
        return result

    monkeypatch.setattr(aio.Producer, "send", second_is_lost)
    result = cli("dlq", "resend", dead, "-y")
    assert result.exit_code == Status.FAILED
    assert "was sent but not answered, and may have been stored: no answer in time" in result.output
    assert f"sent 1 of 3 dead letters of group {dead} again" in result.output
    assert of_group(cli, dead)["resent"] == 1
    monkeypatch.undo()
    cli.ok("dlq", "resend", dead, "-y")
    rows = cli.jsonl("topic", "tail", rocketmq_topic, "--no-follow")
    assert sorted(row["body"] for row in rows) == ["dead 0", "dead 1", "dead 1", "dead 2"]
    assert len({row["msgId"] for row in rows}) == 3  # the second copy can be told


def test_a_failed_commit_of_the_resend_offset_is_reported(cli: Cli, dead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> None:
        raise RequestTimeout("no answer in time")

    monkeypatch.setattr(resend, "mark_resent", fail)
    result = cli("dlq", "resend", dead, "-y")
    assert result.exit_code == Status.FAILED
    assert "but recording this failed: no answer in time. The next run sends it again" in result.output


@pytest.fixture
def python_s_interrupts() -> Iterator[None]:
    """SIGINT means what it means when Python starts, whatever other tests have made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("python_s_interrupts")
def test_an_interrupt_finishes_the_current_dead_letter(
    cli: Cli, rocketmq_topic: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = resend.mark_resent

    async def interrupted(admin: aio.Admin, queue: MessageQueue, offset: int) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)  # the interrupt arrives between what was sent and its mark
        await mark(admin, queue, offset)

    monkeypatch.setattr(resend, "mark_resent", interrupted)
    result = cli("dlq", "resend", dead, "-y")
    assert result.exit_code == Status.INTERRUPTED
    assert f"sent 1 of 3 dead letters of group {dead} again" in result.output
    monkeypatch.undo()
    assert of_group(cli, dead)["resent"] == 1
    cli.ok("dlq", "resend", dead, "-y")
    assert bodies(cli, rocketmq_topic) == ["dead 0", "dead 1", "dead 2"]


def test_only_one_resend_runs_at_a_time(cli: Cli, rocketmq: Cluster, rocketmq_topic: str, dead: str) -> None:
    queue = MessageQueue(f"%DLQ%{dead}", "broker-a", 0)
    with Admin(rocketmq.namesrv) as other:
        assert other.lock_queue("TOOLS_CONSUMER", queue)
        result = cli("dlq", "resend", dead, "-y")
        assert result.exit_code == Status.FAILED
        assert f"another run is sending the dead letters of %DLQ%{dead}. Wait for it" in result.output
        assert bodies(cli, rocketmq_topic) == []
        other.unlock_queue("TOOLS_CONSUMER", queue)
        cli.ok("dlq", "resend", dead, "-y")
        assert other.lock_queue("TOOLS_CONSUMER", queue)  # given back
        other.unlock_queue("TOOLS_CONSUMER", queue)


def test_dead_letters_resent_by_another_run_are_skipped(
    cli: Cli, rocketmq: Cluster, rocketmq_topic: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire = ResendLock.acquire

    async def late(lock: ResendLock) -> None:
        async with aio.Admin(rocketmq.namesrv) as admin:
            await resend.mark_resent(admin, MessageQueue(f"%DLQ%{dead}", "broker-a", 0), 2)
        await acquire(lock)

    monkeypatch.setattr(ResendLock, "acquire", late)
    assert f"sent 1 of 3 dead letters of group {dead} again" in cli("dlq", "resend", dead, "-y").output
    assert bodies(cli, rocketmq_topic) == ["dead 2"]


def test_the_resend_lock_is_renewed_in_time(rocketmq: Cluster, rocketmq_topic: str) -> None:
    queue, now = MessageQueue(rocketmq_topic, "broker-a", 0), [0.0]

    async def main() -> None:
        async with aio.Admin(rocketmq.namesrv) as admin, aio.Admin(rocketmq.namesrv) as other:
            lock = ResendLock(admin, [queue], lambda: now[0])
            await lock.acquire()
            await admin.unlock_queue("TOOLS_CONSUMER", queue)
            assert await other.lock_queue("TOOLS_CONSUMER", queue)
            await lock.acquire()  # not renewed yet
            now[0] = 20.0
            with pytest.raises(CommandFailure, match="another run"):
                await lock.acquire()

    asyncio.run(main())


def test_a_failed_export_does_not_change_the_file(
    cli: Cli, dead: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "dead.jsonl"
    path.write_text("before")

    def fail(*_: Any) -> None:
        raise RequestTimeout("no answer")

    monkeypatch.setattr(commands, "dead_row", fail)
    failed = cli("dlq", "export", dead, path)
    assert (failed.exit_code, failed.stderr) == (Status.FAILED, "Error: no answer\n")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("dead.jsonl", "before")]
    nowhere = cli("dlq", "export", dead, tmp_path / "no" / "such" / "directory")
    assert nowhere.exit_code == Status.FAILED
    assert "cannot be written: No such file or directory" in nowhere.output


def test_dead_letters_that_cannot_be_resent_are_reported(
    cli: Cli, rocketmq: Cluster, rocketmq_topic: str, dead: str
) -> None:
    cli.ok("topic", "delete", rocketmq_topic, "-y")
    gone = cli("dlq", "resend", dead, "-y")
    assert gone.exit_code == Status.NOT_FOUND
    assert f"topic {rocketmq_topic}, where dead letters of group {dead} came from, no longer exists" in gone.output
    cli.ok("message", "send", f"%DLQ%{dead}", "whence?")
    unknown = cli("dlq", "resend", dead, "-y")
    assert unknown.exit_code == Status.FAILED
    assert f"1 dead letters of group {dead} do not contain their original topic" in unknown.output
    cli.ok("topic", "update", f"%DLQ%{dead}", "--perm", "w")
    unreadable = cli("dlq", "show", dead)
    assert unreadable.exit_code == Status.FAILED
    assert f"topic %DLQ%{dead} is not readable; allow reads with: rocketmq topic update '%DLQ%{dead}' --perm rw" in (
        unreadable.output
    )


@pytest.mark.parametrize("verb", ["show", "export", "resend"])
def test_a_group_without_dead_letters_is_reported(cli: Cli, verb: str) -> None:
    result = cli("dlq", verb, "no-such-group")
    assert result.exit_code == Status.NOT_FOUND
    assert "consumer group no-such-group has no dead letters" in result.output


# -- Ctrl-C


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_ctrl_c_ends_a_tail_without_output(cli: Cli, rocketmq_topic: str) -> None:
    cli.ok("message", "send", rocketmq_topic, "seen")
    command = [sys.executable, "-m", "rocketmq_py.cli", "topic", "tail", rocketmq_topic, "--namesrv", cli.namesrv]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert tail.stderr is not None
        assert tail.stdout.readline().endswith(b"seen\n")
        tail.send_signal(signal.SIGINT)
        assert tail.wait(240) == Status.INTERRUPTED
        assert tail.stderr.read() == b""
