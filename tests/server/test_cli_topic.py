"""``rocketmq topic``, ``cluster`` and ``doctor`` on an embedded cluster."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
from click.testing import CliRunner

from rocketmq_py import Message, Producer, aio
from rocketmq_py.cli import main
from rocketmq_py.cli.output.failures import Status
from rocketmq_py.cli.topic import tail
from rocketmq_py.testing import Cluster, TcpProxy
from tests.server.cli import Cli


@pytest.fixture
def cli(rocketmq: Cluster) -> Cli:
    return Cli(rocketmq.namesrv)


@pytest.fixture
def name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


# -- topics


def test_a_topic_is_created_shown_and_deleted(cli: Cli, name: str) -> None:
    assert cli.ok("topic", "create", name, "-q", 2, "--type", "FIFO") == f"created topic {name}\n"
    (listed,) = cli.json("topic", "ls", name)
    assert listed == {
        "topic": name, "brokers": ["broker-a"], "readQueues": 2, "writeQueues": 2, "perm": "rw", "type": "FIFO"
    }  # fmt: skip
    again = cli("topic", "create", name)
    assert (again.exit_code, again.output) == (
        Status.FAILED, f"Error: topic {name} exists already; change it with 'rocketmq topic update'\n"
    )  # fmt: skip
    assert cli.ok("topic", "create", name, "--if-not-exists") == ""
    cli.ok("topic", "update", name, "--write-queues", 1, "--perm", "r", "--attribute", "message.type=")
    found = cli.json("topic", "describe", name)
    assert found["brokers"] == [
        {"broker": "broker-a", "address": found["brokers"][0]["address"], "readQueues": 2, "writeQueues": 1,
         "perm": "r", "order": False, "attributes": {}}
    ]  # fmt: skip
    cli.ok("topic", "update", name, "--perm", "rw")
    cli.ok("message", "send", name, "hello")
    found = cli.json("topic", "describe", name)
    assert found["messages"] == 1
    assert [queue["maxOffset"] for queue in found["queues"]] == [1, 0]
    refused = cli("topic", "delete", name)
    assert refused.exit_code == Status.USAGE
    assert f"Delete topic {name} with 1 messages, consumed by 0 groups? There is no terminal" in refused.output
    assert cli.ok("topic", "delete", name, "--yes") == f"deleted topic {name}\n"
    assert cli.json("topic", "ls", name) == []


def test_a_topic_is_changed_at_its_brokers_only(cli: Cli, rocketmq_topic: str) -> None:
    nowhere = cli("topic", "update", rocketmq_topic, "-q", 9, "--broker", "broker-z")
    assert nowhere.exit_code == Status.NOT_FOUND
    assert f"topic {rocketmq_topic} is not on broker-z. It is on broker-a" in nowhere.output
    cli.ok("topic", "update", rocketmq_topic, "-q", 9, "--broker", "broker-a")
    assert cli.json("topic", "ls", rocketmq_topic)[0]["readQueues"] == 9


def test_internal_topics_are_listed_on_request(cli: Cli, rocketmq_topic: str) -> None:
    listed = cli.ok("topic", "ls").split()
    assert rocketmq_topic in listed
    assert "TBW102" not in listed
    assert "TBW102" in cli.ok("topic", "ls", "--all").split()
    assert [row["topic"] for row in cli.jsonl("topic", "ls", "TBW102")] == ["TBW102"]


@pytest.mark.parametrize("verb", [("describe",), ("update", "-q", "4"), ("delete", "-y"), ("tail",)])
def test_a_missing_topic_is_named(cli: Cli, verb: tuple[str, ...]) -> None:
    result = cli("topic", verb[0], "no-such-topic", *verb[1:])
    assert result.exit_code == Status.NOT_FOUND
    assert "no-such-topic" in result.output
    assert len(result.output.splitlines()) == 1


def test_invalid_topics_are_refused(cli: Cli) -> None:
    result = cli("topic", "create", "no/topic")
    assert result.exit_code == Status.USAGE
    assert "contains illegal characters" in result.output
    assert cli("topic", "create", "t", "--broker", "broker-z").exit_code == Status.USAGE


def test_a_topic_is_described_as_text(cli: Cli, rocketmq_topic: str) -> None:
    text = cli.ok("topic", "describe", rocketmq_topic)
    assert [line.split()[:3] for line in text.splitlines()[-5:]] == [
        ["broker", "queue", "minOffset"], *(["broker-a", str(queue), "0"] for queue in range(4))
    ]  # fmt: skip


# -- tail


def test_tail_prints_the_last_messages(cli: Cli, rocketmq: Cluster, rocketmq_topic: str) -> None:
    with Producer("p", rocketmq.namesrv) as producer:
        for i in range(12):
            producer.send(Message(rocketmq_topic, f"body {i}", tags="even" if i % 2 == 0 else "odd", keys=f"k{i}"))
    lines = cli.ok("topic", "tail", rocketmq_topic, "-n", 3, "--no-follow").splitlines()
    assert [line.split("  ", 2)[2] for line in lines] == ["odd  k9  body 9", "even  k10  body 10", "odd  k11  body 11"]
    rows = cli.jsonl("topic", "tail", rocketmq_topic, "-c", 2, "--tags", "even", "--body", "hex")
    assert [bytes.fromhex(row["body"]) for row in rows] == [b"body 0", b"body 2"]
    documents = cli.ok("topic", "tail", rocketmq_topic, "-n", 2, "--no-follow", "-o", "json")
    first, end = json.JSONDecoder().raw_decode(documents)
    assert first["keys"] == "k10"
    assert json.loads(documents[end:])["keys"] == "k11"


def test_an_invalid_filter_is_refused(cli: Cli, rocketmq_topic: str) -> None:
    result = cli("topic", "tail", rocketmq_topic, "--sql", "a >")
    assert result.exit_code == Status.USAGE
    assert "illegal SQL expression" in result.output


def test_tail_follows_a_topic_through_a_restart_and_new_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "RETRY_SECONDS", 0.05)
    monkeypatch.setattr(tail, "ROUTE_SECONDS", 0.05)

    async def main(cluster: Cluster) -> None:
        topic = cluster.create_topic("orders", 1)
        async with aio.Admin(cluster.namesrv) as admin, aio.Producer("p", cluster.namesrv) as producer:
            await producer.send(Message(topic, b"before"))
            messages = tail.follow(admin, topic, 1)
            assert (await anext(messages)).body == b"before"
            await producer.send(Message(topic, b"first"))
            assert (await anext(messages)).body == b"first"
            await asyncio.to_thread(cluster.stop_broker)
            await asyncio.to_thread(cluster.start_broker)
            await admin.create_topic(topic, 2)
            (_, added) = await admin.queues(topic)
            await producer.send(Message(topic, b"in the new queue"), added)
            assert (await anext(messages)).queue == added
            await messages.aclose()

    with Cluster() as cluster:
        asyncio.run(main(cluster))


async def test_an_error_of_a_poll_ends_the_tail(rocketmq: Cluster) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    async with aio.Admin(rocketmq.namesrv) as admin:
        await admin.create_topic(topic, 1)
        messages = tail.follow(admin, topic, 0, sql="a = 1")
        with pytest.raises(aio.BrokerError, match="SQL92"):  # this broker does not filter
            await anext(messages)


# -- cluster and doctor


def test_the_brokers_of_a_cluster_are_listed(cli: Cli, rocketmq: Cluster) -> None:
    (row,) = cli.json("cluster")
    assert (row["cluster"], row["broker"], row["role"]) == ("DefaultCluster", "broker-a", "master")
    assert row["address"] == rocketmq.addresses[0]
    assert row["version"].startswith("V5")
    assert cli.ok("cluster").splitlines()[1].startswith("DefaultCluster  broker-a")


def test_doctor_finds_nothing_wrong_in_a_healthy_cluster(cli: Cli, rocketmq_topic: str) -> None:
    checks = cli.json("doctor", "--topic", rocketmq_topic)
    assert [check["check"] for check in checks] == [
        "nameserver", "broker", "version", "clock", "disk", "permission", "topic read", "topic write"
    ]  # fmt: skip
    by_name = {check["check"]: check["status"] for check in checks}
    assert by_name.pop("disk") in ("ok", "warn")  # the machine's own
    assert set(by_name.values()) == {"ok"}
    assert cli.ok("doctor").splitlines()[0] == f"{cli.namesrv} (--namesrv)"


def test_doctor_reports_a_missing_name_server(rocketmq: Cluster) -> None:
    result = Cli(f"{rocketmq.namesrv};127.0.0.1:1")("doctor", "-o", "json")
    assert result.exit_code == Status.UNHEALTHY
    up, down, *others = json.loads(result.stdout)
    assert (up["status"], down["target"], down["status"]) == ("ok", "127.0.0.1:1", "fail")
    assert {check["check"] for check in others} == {"broker", "version", "clock", "disk", "permission"}


def test_doctor_reports_problems_of_a_cluster(cli: Cli) -> None:
    result = cli("doctor", "--topic", "no-such-topic", "--group", "no-such-group")
    assert result.exit_code == Status.UNHEALTHY
    assert "fail  topic no-such-topic" in result.output
    assert "fail  group no-such-group" in result.output
    assert "2 fail" in result.output.splitlines()[-1]


def test_the_address_map_redirects_broker_addresses(rocketmq: Cluster, cli: Cli, rocketmq_topic: str) -> None:
    advertised = rocketmq.addresses[0]
    with TcpProxy(advertised) as proxy:
        mapped = ("--map", f"{advertised}={proxy.address}")
        assert cli.json("topic", "describe", rocketmq_topic, *mapped)["topic"] == rocketmq_topic
        proxy.refuse()
        assert cli("topic", "describe", rocketmq_topic, *mapped).exit_code == Status.FAILED


def test_topics_and_groups_are_completed(rocketmq: Cluster, rocketmq_topic: str) -> None:
    def offered(words: str) -> list[str]:
        env = {"_ROCKETMQ_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        return CliRunner().invoke(main, env=env, prog_name="rocketmq").output.split()

    there, nowhere = f"--namesrv {rocketmq.namesrv}", "--namesrv 127.0.0.1:1"
    assert offered(f"rocketmq topic tail {there} {rocketmq_topic[:-3]}") == [f"plain,{rocketmq_topic}"]
    assert offered(f"rocketmq group lag {there} TOOLS_C") == ["plain,TOOLS_CONSUMER"]
    assert offered(f"rocketmq group lag {nowhere} TOOLS_C") == []


def test_an_unreachable_cluster_is_named() -> None:
    result = Cli("127.0.0.1:1")("topic", "ls")
    assert result.exit_code == Status.FAILED
    assert "cannot connect to 127.0.0.1:1" in result.output
    checked = Cli("127.0.0.1:1")("doctor", "-o", "jsonl")
    assert checked.exit_code == Status.UNHEALTHY
    assert json.loads(checked.output)["status"] == "fail"
