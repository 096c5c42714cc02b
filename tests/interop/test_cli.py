"""Every verb of the command on both brokers, with Java's clients and tools as witnesses."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from typing import Any

from rocketmq_py import Admin, aio
from rocketmq_py.cli.topic.tail import follow
from tests.interop.javapeer import JavaPeer, JavaProcess, JavaServer, Row
from tests.interop.ours import OurServer
from tests.interop.side import WAIT_SECONDS, Side, eventually, group
from tests.server.cli import Cli


def fresh() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def test_topic_commands_work_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli, topic = Cli(side.namesrv), fresh()

    def route() -> str:
        return java.say_admin("topicRoute", "-n", side.namesrv, "-t", topic)

    cli.ok("topic", "create", topic, "-q", 3, "--type", "FIFO")
    eventually(route, lambda text: re.search(r'"readQueueNums":\s*3', text))
    cli.ok("topic", "update", topic, "--queues", 5, "--perm", "r", "--attribute", "message.type=")
    eventually(route, lambda text: re.search(r'"writeQueueNums":\s*5', text) and re.search(r'"perm":\s*4', text))
    cli.ok("topic", "update", topic, "--perm", "rw")
    eventually(route, lambda text: re.search(r'"perm":\s*6', text))
    java.produce(side.namesrv, topic, 4, queue=2)
    found = eventually(
        lambda: cli.json("topic", "describe", topic),
        lambda told: [queue["messages"] for queue in told["queues"]] == [0, 0, 4, 0, 0],
    )
    (broker,) = found["brokers"]
    assert (broker["address"], broker["attributes"]) == (side.broker, {})
    assert [row["topic"] for row in cli.json("topic", "ls", topic)] == [topic]
    assert not {"TBW102", "broker-a", "DefaultCluster"} & {row["topic"] for row in cli.json("topic", "ls")}
    cli.ok("topic", "delete", topic, "--yes")
    assert topic not in java.admin("topicList", "-n", side.namesrv).split()
    assert cli("topic", "describe", topic).exit_code == 3


def test_message_commands_work_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli, topic = Cli(side.namesrv), side.topic(java, queues=1)
    sent = cli.json("message", "send", topic, "from the command line", "-t", "a", "-k", "k1 k2", "-p", "x=y")

    assert sent["msgId"] in eventually(
        lambda: java.admin("queryMsgByKey", "-n", side.namesrv, "-t", topic, "-k", "k2"),
        lambda text: sent["msgId"] in text,
    )
    assert sent["offsetMsgId"] in java.admin("queryMsgById", "-n", side.namesrv, "-i", sent["offsetMsgId"], "-t", topic)
    theirs = java.produce(side.namesrv, topic, 3, keys="j-{i}", tags="b", body="from java {i}")
    rows = eventually(lambda: cli.jsonl("topic", "tail", topic, "--no-follow"), lambda found: len(found) == 4)
    assert [row["body"] for row in rows] == [
        "from the command line", "from java 0", "from java 1", "from java 2"
    ]  # fmt: skip
    assert cli.jsonl("topic", "tail", topic, "-c", 1, "--tags", "b")[0] == rows[1]
    assert cli.json("message", "get", theirs[0]["offsetMsgId"]) == rows[1]
    assert eventually(lambda: cli("message", "query", topic, "j-2", "-o", "json").stdout, bool)
    assert cli.json("message", "query", topic, "j-1") == [rows[2]]
    assert cli.json("message", "get", theirs[2]["msgId"], "--topic", topic) == rows[3]
    cli.ok("message", "send", topic, "--lines", "-", stdin="".join(f"{i}\n" for i in range(100)))
    eventually(lambda: cli.json("topic", "describe", topic)["messages"], lambda count: count == 104)


def test_tail_follows_a_topic_on_both_brokers(java: JavaPeer, side: Side) -> None:
    topic = side.topic(java, queues=2)
    java.produce(side.namesrv, topic, 1, body="before", tags="a")

    async def main() -> list[bytes]:
        async with aio.Admin(side.namesrv) as admin:
            messages = follow(admin, topic, 1, tags="a")
            seen = [(await anext(messages)).body]
            for number, tags in enumerate(("a", "b", "a")):
                await asyncio.to_thread(java.produce, side.namesrv, topic, 1, body=f"new {number}", tags=tags)
            seen += [(await anext(messages)).body for _ in range(2)]
            await messages.aclose()
        return seen

    seen = asyncio.run(main())
    assert seen[0] == b"before"
    assert set(seen[1:]) == {b"new 0", b"new 2"}


def consumed(consumer: JavaProcess, offsets: set[int]) -> None:
    """Waits until these messages have been delivered, in whatever order."""
    left = set(offsets)

    def is_last(row: Row) -> bool:
        if row["type"] == "msg":
            left.discard(row["queueOffset"])
        return not left

    consumer.until(is_last)


def test_group_commands_work_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli, topic, name = Cli(side.namesrv), side.topic(java, queues=1), group()
    (sent, *_) = java.produce(side.namesrv, topic, 5)
    with java.consumer(side.namesrv, topic, name, from_="first", sub="*") as consumer:
        consumed(consumer, {0, 1, 2, 3, 4})
        found = cli.json("group", "describe", name)
        assert (found["type"], found["model"]) == ("push", "clustering")
        assert [member["language"] for member in found["members"]] == ["JAVA"]
        assert topic in {row["topic"] for row in found["subscriptions"]}
        lag = ("group", "lag", name, "--topic", topic)
        eventually(lambda: cli.json(*lag)[0], lambda row: (row["offset"], row["end"], row["lag"]) == (5, 5, 0))
        became = cli.json("message", "trace", sent["offsetMsgId"])
        assert became["consumers"] == [{"group": name, "status": "consumed", "members": 1, "retries": 0}]
        track = java.admin("queryMsgById", "-n", side.namesrv, "-i", sent["offsetMsgId"], "-t", topic)
        assert re.search(rf"consumerGroup={name}, trackType=CONSUMED\b", track)
        assert cli.json("group", "ls", name)[0]["members"] == 1
        assert cli("group", "delete", name, "-y").exit_code == 1
        (planned,) = cli.json("group", "reset", name, topic, "--shift-by", -2, "-y")
        assert (planned["from"], planned["to"]) == (5, 3)
        java.produce(side.namesrv, topic, 1)  # ends the wait of the consumer's pull
        consumed(consumer, {3, 4, 5})
    eventually(lambda: cli.json("group", "describe", name)["members"], lambda members: not members, WAIT_SECONDS)
    (watched, _) = cli.jsonl(*lag, "--watch", "--interval", 0.1, "-c", 2)
    assert watched["queues"][0]["end"] == 6
    cli.ok("group", "reset", name, topic, "--earliest", "-y")
    assert cli("group", "lag", name, "--max", 5).exit_code == 4
    cli.ok("group", "delete", name, "-y")
    assert cli.json("group", "ls", name) == []


def test_dead_letter_commands_work_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli, topic, name = Cli(side.namesrv), side.topic(java, queues=1), group()
    java.produce(side.namesrv, topic, 3, keys="k-{i}", tags="a", body="dead {i}", prop="x=y{i}")
    with java.consumer(side.namesrv, topic, name, from_="first", fail_times=9, max_reconsume=0):
        eventually(lambda: cli("dlq", "show", name, "-o", "json").stdout.count("reconsumeTimes"), lambda n: n == 3)
    rows = cli.json("dlq", "show", name)
    assert {(row["body"], row["origin"], row["keys"]) for row in rows} == {
        (f"dead {i}", topic, f"k-{i}") for i in range(3)
    }  # fmt: skip
    assert [row["messages"] for row in cli.json("dlq", "ls") if row["group"] == name] == [3]
    assert len(cli.ok("dlq", "export", name).splitlines()) == 3
    assert cli.json("dlq", "resend", name, "-n", 2, "-y") == [{"origin": topic, "to": topic, "messages": 2}]
    assert cli.json("dlq", "resend", name, "-y") == [{"origin": topic, "to": topic, "messages": 1}]
    assert cli.json("dlq", "resend", name, "-y") == []
    resent = eventually(
        lambda: cli.jsonl("topic", "tail", topic, "-n", 3, "--no-follow"),
        lambda found: [row["msgId"] for row in found] == [row["msgId"] for row in rows],
    )
    assert [row["properties"]["x"] for row in resent] == [f"y{row['body'][-1]}" for row in rows]
    alone = cli.json("dlq", "resend", name, "--from-start", "--to", "group", "-y")
    assert alone == [{"origin": topic, "to": f"%RETRY%{name}", "messages": 3}]
    retried = java.consume(side.namesrv, topic, name, 3, from_="last")
    assert {row["topic"] for row in retried} == {topic}


def line(*fields: object) -> str:
    return "\x01".join(map(str, fields)) + "\x02"


def test_trace_commands_show_traces_of_both_clients(java: JavaPeer, side: Side) -> None:
    cli, topic, traces, name = Cli(side.namesrv), side.topic(java, queues=1), side.topic(java, queues=1), group()
    (sent,) = java.produce(side.namesrv, topic, 1, tags="a")
    msg_id, at = sent["msgId"], 1_700_000_000_000
    pub = line("Pub", at, "r", "shop", topic, msg_id, "a", "k", "10.0.0.1:1", 5, 17, 0, sent["offsetMsgId"], "true")
    sub = line("SubAfter", "R1", msg_id, 23, "true", "k", 0, at + 1000, name)
    for text in (pub, sub):
        cli.ok("message", "send", traces, text, "-k", msg_id)
    words = ("message", "trace", sent["offsetMsgId"], "--trace-topic", traces)
    found = eventually(lambda: cli.json(*words), lambda told: len(told["trace"]) == 2)
    assert found["consumers"] == []
    ours = [(row["what"], row["group"], row["costMs"], row["success"]) for row in found["trace"]]
    assert ours == [("Pub", "shop", 17, True), ("SubAfter", name, 23, True)]
    told = java.admin("queryMsgTraceById", "-n", side.namesrv, "-i", msg_id, "-t", traces)
    assert re.search(r"^Pub +shop .* 17ms +success", told, re.MULTILINE)
    assert re.search(rf"^Sub +{name} .* 23ms +success", told, re.MULTILINE)


def test_cluster_and_doctor_work_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli, topic, name = Cli(side.namesrv), side.topic(java), group()
    with Admin(side.namesrv) as admin:
        admin.create_group(name)
    (row,) = cli.json("cluster")
    assert (row["cluster"], row["broker"], row["address"], row["error"]) == (
        "DefaultCluster", "broker-a", side.broker, None
    )  # fmt: skip
    checks = cli("doctor", "--topic", topic, "--group", name, "-o", "json")
    told = {check["check"]: check["status"] for check in json.loads(checks.stdout)}
    told.pop("disk")  # the machine's own
    assert set(told) == {"nameserver", "broker", "version", "clock", "permission", "topic read", "topic write", "group"}
    assert set(told.values()) == {"ok"}


OPAQUE = {"properties", "attributes"}
"""Names of members that hold what users and brokers please."""


def shape(value: Any) -> Any:
    """What is where, whatever its value."""
    if isinstance(value, dict):
        return {name: "..." if name in OPAQUE else shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def shapes(namesrv: str) -> dict[str, Any]:
    """The shape of what every verb prints for programs, after the same story."""
    cli, topic, name = Cli(namesrv), fresh(), group()
    cli.ok("topic", "create", topic, "-q", 1)
    with Admin(namesrv) as admin:
        admin.create_group(name)
        admin.create_topic(f"%DLQ%{name}", 1)
    sent = cli.json("message", "send", topic, "x", "-k", "k", "-t", "a")
    cli.ok("message", "send", f"%DLQ%{name}", "--jsonl", "-", stdin=json.dumps({"body": "x"}))
    reset = cli.json("group", "reset", name, topic, "--latest", "-y")
    eventually(lambda: cli("message", "query", topic, "k").exit_code, lambda status: status == 0)
    eventually(lambda: cli("dlq", "show", name, "-o", "json").stdout, lambda text: "msgId" in text)
    told = {
        "send": sent,
        "reset": reset,
        "get": cli.json("message", "get", sent["offsetMsgId"]),
        "query": cli.json("message", "query", topic, "k"),
        "trace": cli.json("message", "trace", sent["offsetMsgId"]),
        "tail": cli.jsonl("topic", "tail", topic, "--no-follow"),
        "topics": cli.json("topic", "ls", topic),
        "topic": cli.json("topic", "describe", topic),
        "groups": cli.json("group", "ls", name),
        "group": cli.json("group", "describe", name),
        "lag": cli.json("group", "lag", name),
        "watch": cli.jsonl("group", "lag", name, "--watch", "--interval", 0.1, "-c", 2)[1],
        "dlq": [row for row in cli.json("dlq", "ls") if row["group"] == name],
        "dead": cli.json("dlq", "show", name),
        "resend": cli.json("dlq", "resend", name, "--dry-run"),
        "cluster": cli.json("cluster"),
        "replicas": cli.json("broker", "replicas"),
        "doctor": json.loads(cli("doctor", "--topic", topic, "--group", name, "-o", "json").stdout),
    }
    return {verb: shape(value) for verb, value in told.items()}


def test_json_output_has_the_same_shape_on_both_brokers(our_server: OurServer, java_broker: JavaServer) -> None:
    ours = shapes(our_server.namesrv)
    assert ours == shapes(java_broker.namesrv)
    assert all(ours.values())


def test_broker_settings_are_shown_and_changed_on_both_brokers(java: JavaPeer, side: Side) -> None:
    cli = Cli(side.namesrv)
    every = cli.json("broker", "settings", "broker-a")
    before = every["fileReservedTime"]
    assert {"brokerName", "flushDiskType", "listenPort"} <= every.keys()
    try:
        assert cli.ok("broker", "set", "broker-a", "fileReservedTime=73") == "fileReservedTime=73\n"
        assert "fileReservedTime=73" in re.sub(r"\s*=\s*", "=", java.admin("getBrokerConfig", "-b", side.broker))
        unknown = cli("broker", "set", side.broker, "fileReservedTim=74")
        assert (unknown.exit_code, "did you mean 'fileReservedTime'?" in unknown.stderr) == (1, True)
    finally:
        cli.ok("broker", "set", side.broker, f"fileReservedTime={before}")
    [row] = cli.json("broker", "replicas")
    assert (row["broker"], row["master"], row["slave"]) == ("broker-a", side.broker, None)
