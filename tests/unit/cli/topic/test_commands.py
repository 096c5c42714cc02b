"""``rocketmq topic``: rows, attribute options, and what each command asks of a cluster and prints."""

import json

import click
import pytest

from rocketmq_py.cli.topic import commands as topic_commands
from rocketmq_py.errors import ConnectError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.route import BrokerData
from rocketmq_py.protocol.bodies.topic import TopicConfig
from tests.unit.cli.messages import STORED, message


def test_a_topic_listing_hides_internal_topics():
    system = {"DefaultCluster"}
    names = ["orders", "%RETRY%g", "%DLQ%g", "TBW102", "rmq_sys_x", "DefaultCluster"]
    assert [name for name in names if topic_commands.is_listed(name, None, system)] == ["orders"]
    assert [name for name in names if topic_commands.is_listed(name, None, ())] == names
    assert [name for name in names if topic_commands.is_listed(name, "%DLQ%*", system)] == ["%DLQ%g"]
    assert [name for name in names if topic_commands.is_listed(name, "*s", system)] == ["orders"]


@pytest.mark.parametrize("pattern", ["?DLQ?g", "[%]DLQ%g", "*g"])
def test_a_pattern_that_begins_with_a_wildcard_does_not_name_an_internal_topic(pattern):
    assert not topic_commands.is_listed("%DLQ%g", pattern, {"DefaultCluster"})


def test_a_topic_on_two_brokers_is_one_row():
    config = TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=2, perm=6)
    narrow = TopicConfig(topic_name="t", read_queue_nums=4, write_queue_nums=2, perm=4,
                         attributes={"message.type": "FIFO"})  # fmt: skip
    assert topic_commands.topic_row("t", {"b": narrow, "a": config}) == {
        "topic": "t", "brokers": ["a", "b"], "readQueues": 8, "writeQueues": 4, "perm": "r/rw", "type": "FIFO/NORMAL",
    }  # fmt: skip
    assert [topic_commands.permission(perm) for perm in (6, 4, 2, 0, 7)] == ["rw", "r", "w", "none", "rw"]


def test_permissions_have_the_numbers_of_the_protocol():
    assert topic_commands.PERMISSIONS == {"rw": 6, "r": 4, "w": 2, "none": 0}


def test_attribute_options_are_parsed():
    assert topic_commands.parse_attributes("fifo", ("a=b", "c=")) == {"message.type": "FIFO", "a": "b", "c": None}
    assert topic_commands.parse_attributes(None, (" a = b ",)) == {"a": "b"}
    for text in ("a", "=b"):
        with pytest.raises(click.BadParameter, match=f"'{text}' is no attribute NAME=VALUE"):
            topic_commands.parse_attributes(None, (text,))


# -- ls


def names(result):
    assert result.exit_code == 0, result.output
    return [row["topic"] for row in json.loads(result.stdout)]


def test_ls_hides_internal_topics_unless_told(admin, run):
    for name in ("orders", "bills", "DefaultCluster", "%RETRY%g"):
        admin.add_topic(name)
    admin.system = ["DefaultCluster"]
    assert names(run("topic ls -o json")) == ["orders", "bills"]
    assert names(run("topic ls -a -o json")) == ["orders", "bills", "DefaultCluster", "%RETRY%g"]
    assert names(run("topic ls or* -o json")) == ["orders"]
    assert admin.skips_silent is True


def test_ls_has_a_table(admin, run):
    admin.add_topic("orders", 4, attributes={"message.type": "FIFO"})
    assert run("topic ls").output.splitlines() == [
        "topic   brokers   readQueues  writeQueues  perm  type",
        "orders  broker-a           4            4  rw    FIFO",
    ]


def test_ls_names_silent_brokers(admin, run):
    admin.add_topic("orders")
    admin.unreachable = {"broker-b": ConnectError("refused")}
    result = run("topic ls -o jsonl")
    assert (result.exit_code, result.stderr) == (4, "broker broker-b: refused\n")
    assert json.loads(result.stdout)["topic"] == "orders"


# -- create


@pytest.mark.parametrize(
    ("options", "made"),
    [
        ("", (8, 8, 6, False, {}, None, None)),
        ("-q 1", (1, 1, 6, False, {}, None, None)),
        ("-q 4 --read-queues 2", (2, 4, 6, False, {}, None, None)),
        ("-q 4 --write-queues 2", (4, 2, 6, False, {}, None, None)),
        ("--perm r --order", (8, 8, 4, True, {}, None, None)),
        ("--perm w --no-order", (8, 8, 2, False, {}, None, None)),
        ("--perm none --cluster c", (8, 8, 0, False, {}, "c", None)),
        ("--type fifo --attribute a=1", (8, 8, 6, False, {"message.type": "FIFO", "a": "1"}, None, None)),
        ("--broker a --broker b", (8, 8, 6, False, {}, None, ("a", "b"))),
    ],
)
def test_a_topic_is_created_as_the_options_say(admin, run, options, made):
    result = run(f"topic create orders {options}")
    assert (result.exit_code, result.output) == (0, "created topic orders\n")
    assert admin.changes == [("create_topic", "orders", *made)]


@pytest.mark.parametrize("option", ["-q", "--read-queues", "--write-queues"])
@pytest.mark.parametrize("verb", ["create", "update"])
def test_a_topic_has_at_least_one_queue(admin, run, verb, option):
    admin.add_topic("there")
    assert run(f"topic {verb} there {option} 0").exit_code == 2
    assert admin.changes == []


def test_a_topic_that_exists_is_not_created(admin, run):
    admin.add_topic("orders")
    refused = run("topic create orders")
    assert refused.exit_code == 1
    assert "topic orders exists already; change it with 'rocketmq topic update'" in refused.output
    accepted = run("topic create orders --if-not-exists")
    assert (accepted.exit_code, accepted.output) == (0, "")
    assert admin.changes == []


def test_the_help_lists_the_options_in_their_order(run):
    listed = [line.split()[0] for line in run("topic create --help").output.splitlines() if line.startswith("  -")]
    assert listed[:8] == [
        "-q,", "--type", "--attribute", "--read-queues", "--write-queues", "--perm", "--order", "--broker"
    ]  # fmt: skip


# -- update


@pytest.fixture
def two_brokers(admin):
    admin.add_topic("orders", 4, perm=6, order=True)
    admin.add_topic("orders", 2, "broker-b", perm=4)
    return admin


@pytest.mark.parametrize(
    ("options", "on_a", "on_b"),
    [
        ("", (4, 4, 6, True, {}), (2, 2, 4, False, {})),
        ("-q 3", (3, 3, 6, True, {}), (3, 3, 4, False, {})),
        ("-q 3 --read-queues 1", (1, 3, 6, True, {}), (1, 3, 4, False, {})),
        ("--write-queues 1", (4, 1, 6, True, {}), (2, 1, 4, False, {})),
        ("--perm none", (4, 4, 0, True, {}), (2, 2, 0, False, {})),
        ("--no-order", (4, 4, 6, False, {}), (2, 2, 4, False, {})),
        ("--order", (4, 4, 6, True, {}), (2, 2, 4, True, {})),
        ("--attribute a=", (4, 4, 6, True, {"a": None}), (2, 2, 4, False, {"a": None})),
    ],
)
def test_an_update_keeps_what_no_option_changes(two_brokers, run, options, on_a, on_b):
    result = run(f"topic update orders {options}")
    assert (result.exit_code, result.output) == (0, "updated topic orders\n")
    assert two_brokers.changes == [
        ("create_topic", "orders", *on_a, None, ("broker-a",)),
        ("create_topic", "orders", *on_b, None, ("broker-b",)),
    ]


def test_an_update_of_one_broker_leaves_the_others_alone(two_brokers, run):
    assert run("topic update orders --broker broker-b -q 7").exit_code == 0
    assert two_brokers.changes == [("create_topic", "orders", 7, 7, 4, False, {}, None, ("broker-b",))]


def test_an_update_refuses_brokers_without_the_topic(two_brokers, run):
    refused = run("topic update orders --broker x --broker broker-a --broker w")
    assert refused.exit_code == 3
    assert "topic orders is not on w, x. It is on broker-a, broker-b" in refused.output
    assert two_brokers.changes == []


@pytest.mark.parametrize("words", ["topic update nix", "topic describe nix", "topic delete nix --yes"])
def test_a_topic_that_is_not_there_is_not_found(admin, run, words):
    refused = run(words)
    assert refused.exit_code == 3
    assert "there is no topic nix. 'rocketmq topic ls' lists them" in refused.output
    assert admin.changes == []


def test_a_route_without_the_topic_is_not_found(admin, run):
    admin.topic_table["ghost"] = {}
    refused = run("topic describe ghost")
    assert refused.exit_code == 3
    assert "the name server has a route of topic ghost, but no broker has the topic" in refused.output


# -- describe and delete


@pytest.fixture
def described(admin):
    admin.info.broker_addr_table["broker-b"] = BrokerData(broker_name="broker-b", broker_addrs={1: "10.0.0.2:1"})
    admin.add_topic("orders", 2, attributes={"a": "b"}, order=True)
    admin.add_topic("orders", 1, "broker-b", perm=4)
    admin.deleted_before[MessageQueue("orders", "broker-a", 1)] = 3
    admin.add_messages(*(message(topic="orders", queue=1, offset=offset) for offset in (3, 4)))
    admin.add_messages(message(topic="orders", broker="broker-b", offset=0))
    admin.consuming["orders"] = ["g", "h"]
    return admin


def test_a_description_has_brokers_queues_and_groups(described, run):
    result = run("topic describe orders -o json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["topic"], found["messages"], found["groups"]) == ("orders", 3, ["g", "h"])
    assert found["brokers"] == [
        {"broker": "broker-a", "address": "10.0.0.1:10911", "readQueues": 2, "writeQueues": 2, "perm": "rw",
         "order": True, "attributes": {"a": "b"}},
        {"broker": "broker-b", "address": "10.0.0.2:1", "readQueues": 1, "writeQueues": 1, "perm": "r",
         "order": False, "attributes": {}},
    ]  # fmt: skip
    queues = [tuple(row.values()) for row in found["queues"]]
    assert queues == [
        ("broker-a", 0, 0, 0, 0, 0), ("broker-a", 1, 3, 5, 2, STORED), ("broker-b", 0, 0, 1, 1, STORED)
    ]  # fmt: skip
    assert list(found["queues"][0]) == ["broker", "queue", "minOffset", "maxOffset", "messages", "lastStored"]


def test_a_description_is_three_tables(described, run):
    described.unreachable = {"broker-c": ConnectError("refused")}
    result = run("topic describe orders")
    assert result.exit_code == 4
    lines = result.stdout.splitlines()
    assert lines[:4] == ["topic     orders", "messages  3", "groups    g", "          h"]
    assert lines[4] == lines[8] == ""
    assert lines[5].split()[:3] == ["broker", "address", "readQueues"]
    assert lines[9].split() == ["broker", "queue", "minOffset", "maxOffset", "messages", "lastStored"]
    assert [line.split()[-1] == "-" for line in lines[10:]] == [True, False, False]
    assert lines[11].split()[:5] == ["broker-a", "1", "3", "5", "2"]


def test_topics_are_deleted_one_after_another(described, run):
    described.add_topic("bills")
    result = run("topic delete orders bills --yes")
    assert (result.exit_code, result.output) == (0, "deleted topic orders\ndeleted topic bills\n")
    assert described.changes == [("delete_topic", "orders"), ("delete_topic", "bills")]


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "status", "changes"), [("y", 0, [("delete_topic", "orders")]), ("n", 1, [])])
def test_a_topic_is_deleted_after_the_question_only(described, run, answer, status, changes):
    result = run("topic delete orders", input=f"{answer}\n")
    assert result.exit_code == status
    assert "Delete topic orders with 3 messages, consumed by 2 groups?" in result.output
    assert described.changes == changes
