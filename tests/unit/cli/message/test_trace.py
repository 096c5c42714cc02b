"""``rocketmq message trace``: the status of a message, derived from offsets, and its trace entries."""

import json

import pytest

from rocketmq_py.cli.message import trace
from rocketmq_py.cli.output.times import show_time
from rocketmq_py.client import message_state
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.admin import OffsetWrapper
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection, SubscriptionData
from rocketmq_py.wire.trace import TraceEntry, TraceKind, encode_trace
from tests.unit.cli.messages import STORED, message

Q0, Q1 = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1)


def connected(tags=(), model="CLUSTERING"):
    subscription = SubscriptionData(topic="t", sub_string="||".join(tags) or "*", tags_set=list(tags))
    return ConsumerConnection(message_model=model, subscription_table={"t": subscription})


@pytest.mark.parametrize(
    ("members", "at", "retries", "dead", "status"),
    [
        (connected(), 5, [], [], "waiting"),
        (connected(), 6, [], [], "consumed"),
        (None, 6, [], [], "consumed"),
        (None, 0, [], [], "waiting"),
        (connected(["a"]), 6, [], [], "consumed"),
        (connected(["b"]), 6, [], [], "filtered"),
        (connected(model="BROADCASTING"), 0, [], [], "broadcast"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [], "retrying"),
        (connected(), 6, [message(topic="%RETRY%g", offset=0)], [message(topic="%DLQ%g")], "dead"),
    ],
)
def test_the_status_of_a_message_is_derived_from_offsets(members, at, retries, dead, status):
    progress = {Q0: OffsetWrapper(broker_offset=9, consumer_offset=at)}
    assert message_state.status(message(TAGS="a"), members, progress, retries, dead) == status


def test_a_consumed_retry_counts_as_consumed():
    retry = message(topic="%RETRY%g", offset=0)
    progress = {retry.queue: OffsetWrapper(broker_offset=1, consumer_offset=1)}
    assert message_state.status(message(), connected(), progress, [retry], []) == "consumed"


def test_a_filter_by_property_does_not_look_at_tags():
    members = connected(["b"])
    members.subscription_table["t"].expression_type = "SQL92"
    progress = {Q0: OffsetWrapper(broker_offset=9, consumer_offset=6)}
    assert message_state.status(message(TAGS="a"), members, progress, [], []) == "consumed"
    other = ConsumerConnection(message_model="CLUSTERING")
    assert message_state.status(message(TAGS="a"), other, progress, [], []) == "consumed"


def test_the_last_retry_decides():
    first, last = message(topic="%RETRY%g", offset=0), message(topic="%RETRY%g", offset=1)
    progress = {first.queue: OffsetWrapper(broker_offset=2, consumer_offset=1)}
    assert message_state.status(message(), connected(), progress, [first, last], []) == "retrying"
    assert message_state.status(message(), connected(), {Q1: progress[first.queue]}, [], []) == "waiting"


# -- the command


ENTRIES = [
    TraceEntry(kind=TraceKind.SUB_AFTER, msg_id="ID", timestamp=3000, group="g", request_id="r", cost_ms=7,
               success=True, context_code=0),
    TraceEntry(kind=TraceKind.PUB, msg_id="ID", timestamp=STORED, group="p", topic="t", cost_ms=4, success=True,
               store_host="10.0.0.1:10911", body_length=5, message_type="Normal_Msg", offset_msg_id="X"),
    TraceEntry(kind=TraceKind.PUB, msg_id="OTHER", timestamp=1, group="p", topic="t", cost_ms=4, success=True,
               store_host="h:1", body_length=5, message_type="Normal_Msg", offset_msg_id="X"),
]  # fmt: skip


@pytest.fixture
def traced(admin):
    """Group g has consumed the message at the second attempt, idle has not consumed it."""
    admin.add_topic("t")
    admin.add_topic("%RETRY%g")
    admin.add_topic("RMQ_SYS_TRACE_TOPIC")
    admin.add_messages(message(UNIQ_KEY="ID", TAGS="a"), message(topic="%RETRY%g", offset=0, UNIQ_KEY="ID"))
    admin.add_messages(message(encode_trace(ENTRIES), topic="RMQ_SYS_TRACE_TOPIC", KEYS="ID OTHER", UNIQ_KEY="T"))
    admin.consuming["t"] = ["g", "idle"]
    admin.connected["g"] = connected()
    member = ConnectionInfo(client_id="c", client_addr="h:1", language="JAVA", version=513)
    admin.connected["g"].connection_set = [member]
    admin.commit("g", Q0, 6, 6)
    admin.commit("g", MessageQueue("%RETRY%g", "broker-a", 0), 1, 1)
    return admin


def test_a_message_is_traced_through_its_groups(traced, run):
    found = json.loads(run("message trace ID --topic t -o json").stdout)
    assert list(found) == ["message", "consumers", "trace"]
    assert sorted(found["message"]) == sorted(
        ["topic", "broker", "queue", "offset", "msgId", "offsetMsgId", "tags", "keys", "born", "bornHost", "stored",
         "storeHost"]
    )  # fmt: skip
    assert (found["message"]["msgId"], found["message"]["offset"]) == ("ID", 5)
    assert found["consumers"] == [
        {"group": "g", "status": "consumed", "members": 1, "retries": 1},
        {"group": "idle", "status": "waiting", "members": 0, "retries": 0},
    ]
    after, sent = found["trace"]
    assert {name: after[name] for name in ("at", "what", "group", "host", "costMs", "success")} == {
        "at": 3000, "what": "SubAfter", "group": "g", "host": None, "costMs": 7, "success": True,
    }  # fmt: skip
    assert (sent["at"], sent["what"], sent["group"], sent["host"], sent["costMs"]) == (
        STORED, "Pub", "p", "10.0.0.1:10911", 4,
    )  # fmt: skip
    assert sent["fields"]["body_length"] == 5


def test_a_trace_is_three_tables(traced, run):
    lines = run("message trace ID --topic t").output.splitlines()
    assert lines[0] == "topic        t"
    assert lines[10].split() == ["stored", *show_time(STORED).split()]
    assert not any(line.startswith("body") for line in lines)
    assert [lines[number + 1].split() for number, line in enumerate(lines) if not line] == [
        ["group", "status", "members", "retries"], ["at", "what", "group", "host", "costMs", "success"],
    ]  # fmt: skip
    assert lines[-1].startswith(f"{show_time(STORED)}  Pub")


def test_what_nobody_consumed_or_traced_is_said(traced, run):
    traced.consuming.clear()
    lines = run("message trace ID --topic t --trace-topic nix").output.splitlines()
    assert lines[-4:] == ["", "no group has consumed the topic", "", "nothing in nix"]


def test_a_damaged_trace_is_skipped_and_named(traced, run):
    traced.add_messages(message(b"Pub\x01x\x02", topic="RMQ_SYS_TRACE_TOPIC", offset=9, KEYS="ID", UNIQ_KEY="D"))
    result = run("message trace ID --topic t -o json")
    assert result.exit_code == 0
    assert result.stderr.startswith("RMQ_SYS_TRACE_TOPIC@broker-a:0 at 9 is skipped: ")
    assert len(json.loads(result.stdout)["trace"]) == 2


def test_a_client_host_goes_before_the_host_of_the_store():
    entry = TraceEntry(kind=TraceKind.PUB, msg_id="ID", client_host="c", store_host="s")
    assert trace.trace_row(entry)["host"] == "c"


def test_dead_letters_are_found(traced, run):
    traced.add_topic("%DLQ%g")
    traced.add_messages(message(topic="%DLQ%g", offset=0, UNIQ_KEY="ID"))
    found = json.loads(run("message trace ID --topic t -o json").stdout)
    assert [row["status"] for row in found["consumers"]] == ["dead", "waiting"]
