"""SQL92 filters against Java: the same verdicts on thousands of expressions, the same messages from either broker."""

from __future__ import annotations

import base64
import json
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from rocketmq_py import ConfigError, ConsumeFromWhere, Message, Producer, PushConsumer
from rocketmq_py.core.sql92 import EvaluationError, compile_sql
from rocketmq_py.errors import SqlIllegal
from tests.interop.javapeer import PEER, START_SECONDS, JavaPeer, JavaServer, PeerError
from tests.interop.ours import OurServers
from tests.interop.side import Inbox, Side, group
from tests.sql92_cases import Cases

Case = tuple[str, dict[str, str]]

EXPRESSIONS, MESSAGES_EACH = 3000, 3

SQL = "a > 5 AND (kind IS NULL OR kind NOT IN ('x', 'y'))"
SENT = [{"a": "1"}, {"a": "10"}, {"a": "ten"}, {"b": "10"}, {"a": "7", "kind": "x"}, {"a": "9", "kind": "z"}]
WANTED = [b"1", b"5"]


@pytest.fixture(scope="module")
def ours(servers: OurServers) -> Side:
    server = servers.serve(enablePropertyFilter="true")
    return Side("ours", server.namesrv, server.broker)


@pytest.fixture(scope="module")
def theirs(java: JavaPeer, java_broker: JavaServer) -> Iterator[Side]:
    """The shared Java broker, which filters as long as this module runs."""
    for_all = ("updateBrokerConfig", "-b", java_broker.address, "-k", "enablePropertyFilter", "-v")
    java.admin(*for_all, "true")
    yield Side("java", java_broker.namesrv, java_broker.address)
    java.admin(*for_all, "false")


def send(side: Side, topic: str) -> None:
    """The messages of SENT, their bodies their places; all wanted ones stand before or at the end."""
    with Producer(group="p", namesrv=side.namesrv, send_timeout=30) as producer:
        for place, properties in enumerate(SENT):
            producer.send(Message(topic, str(place).encode(), properties=properties))


def consume(side: Side, topic: str, sql: str) -> list[bytes]:
    """What our consumer gets until the last wanted message; there is one queue, so nothing else is to come."""
    inbox = Inbox()
    with PushConsumer(group(), side.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
        consumer.subscribe(topic, sql=sql, listener=inbox)
        consumer.start()
        return [seen.body for seen in inbox.wait(len(WANTED))]


def our_verdict(expression: str, properties: dict[str, str]) -> str:
    try:
        return {True: "true", False: "false", None: "null"}[compile_sql(expression).evaluate(properties)]
    except SqlIllegal:
        return "illegal"
    except EvaluationError:
        return "error"


def java_verdicts(cases: list[Case]) -> list[str]:
    lines = "".join(json.dumps({"expr": expression, "props": properties}) + "\n" for expression, properties in cases)
    done = subprocess.run([str(PEER), "filter"], input=lines, capture_output=True, text=True, check=True,
                          timeout=START_SECONDS)  # fmt: skip
    return [json.loads(line)["verdict"] for line in done.stdout.splitlines()]


def test_java_evaluates_expressions_alike(java: JavaPeer) -> None:
    supply = Cases(seed=92)
    cases = []
    for _ in range(EXPRESSIONS):
        expression = supply.expression()
        cases += [(expression, supply.properties()) for _ in range(MESSAGES_EACH)]
    theirs = java_verdicts(cases)
    assert len(theirs) == len(cases)
    ours = [our_verdict(*case) for case in cases]
    differing = [(case, ours, java) for case, ours, java in zip(cases, ours, theirs, strict=True) if ours != java]
    assert differing[:5] == []
    assert min(Counter(ours)[verdict] for verdict in ("true", "false", "null", "error", "illegal")) > 500


def test_our_consumer_filters_at_a_java_broker(java: JavaPeer, theirs: Side) -> None:
    topic = theirs.topic(java, queues=1)
    send(theirs, topic)
    assert sorted(consume(theirs, topic, SQL)) == WANTED


def test_a_java_consumer_filters_at_our_broker(java: JavaPeer, ours: Side) -> None:
    topic = ours.topic(java, queues=1)
    send(ours, topic)
    rows = java.consume(ours.namesrv, topic, group(), len(WANTED), sql=SQL, linger_ms=500, from_="first")
    assert sorted(base64.b64decode(row["body"]) for row in rows) == WANTED


def test_a_java_consumer_gets_the_error_of_its_expression(java: JavaPeer, ours: Side) -> None:
    topic = ours.topic(java, queues=1)
    with pytest.raises(PeerError, match=r"CODE: 23 .*character 3: only numbers and properties"):
        java.consumer(ours.namesrv, topic, group(), n=1, sql="a > 'x'")


def test_our_consumer_reports_a_java_broker_without_sql_filters(java: JavaPeer, java_broker: JavaServer) -> None:
    java.admin("updateBrokerConfig", "-b", java_broker.address, "-k", "enablePropertyFilter", "-v", "false")
    side = Side("java", java_broker.namesrv, java_broker.address)
    with pytest.raises(ConfigError, match=r"set enablePropertyFilter=true in its broker\.conf"):
        consume(side, side.topic(java, queues=1), SQL)
