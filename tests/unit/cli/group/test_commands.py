"""``rocketmq group``: groups and their members as rows, and what each command asks of a cluster and prints."""

import json

import pytest

from rocketmq_py.cli.group import commands
from rocketmq_py.errors import ConnectError
from rocketmq_py.model import MessageQueue
from rocketmq_py.protocol.bodies.client import ConnectionInfo, ConsumerConnection, SubscriptionData

Q0, Q1, OTHER = MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-a", 1), MessageQueue("a", "broker-a", 0)
PUSH = ConsumerConnection(
    consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING", consume_from_where="CONSUME_FROM_FIRST_OFFSET",
    connection_set=[ConnectionInfo(client_id="c", client_addr="h:1", language="JAVA", version=513)],
    subscription_table={"t": SubscriptionData(topic="t", sub_string="a || b"), "new": SubscriptionData(topic="new")},
)  # fmt: skip


def test_the_consume_mode_of_members_is_shown():
    push = ConsumerConnection(consume_type="CONSUME_PASSIVELY", message_model="CLUSTERING")
    assert commands.consumption(push) == {"type": "push", "model": "clustering"}
    assert commands.consumption(None) == {"type": None, "model": None}
    odd = ConsumerConnection(consume_type="CONSUME_SOMEHOW")
    assert commands.consumption(odd) == {"type": "CONSUME_SOMEHOW", "model": None}


@pytest.mark.parametrize(
    ("kind", "model", "shown"),
    [
        ("CONSUME_ACTIVELY", "BROADCASTING", {"type": "pull", "model": "broadcasting"}),
        ("CONSUME_POP", "LITE_SELECTIVE", {"type": "pop", "model": "lite"}),
    ],
)
def test_other_consume_modes_are_shown(kind, model, shown):
    assert commands.consumption(ConsumerConnection(consume_type=kind, message_model=model)) == shown


def test_members_and_subscriptions_are_shown():
    assert commands.member_rows(PUSH) == [{"clientId": "c", "address": "h:1", "language": "JAVA", "version": "V5_5_0"}]
    assert commands.subscription_rows(PUSH) == [
        {"topic": "new", "filter": "*", "filterType": "TAG"},
        {"topic": "t", "filter": "a || b", "filterType": "TAG"},
    ]
    assert commands.member_rows(None) == commands.subscription_rows(None) == []


@pytest.fixture
def groups(admin):
    """Group g has a member and a lag of 2 + 5 + 1, idle has neither."""
    for name in ("g", "idle", "TOOLS_CONSUMER", "CID_RMQ_SYS_X"):
        admin.add_group(name)
    admin.connected["g"] = PUSH
    admin.commit("g", Q0, 8, 10)
    admin.commit("g", Q1, 5, 10)
    admin.commit("g", OTHER, 0, 1)
    return admin


def listed(result):
    assert result.exit_code == 0, result.output
    return [row["group"] for row in json.loads(result.stdout)]


# -- ls


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ("", ["g", "idle"]),
        ("-a", ["g", "idle", "TOOLS_CONSUMER", "CID_RMQ_SYS_X"]),
        ("i*", ["idle"]),
        ("* -a", ["g", "idle", "TOOLS_CONSUMER", "CID_RMQ_SYS_X"]),
        ("TOOLS*", []),
        ("I*", []),
    ],
)
def test_ls_hides_system_groups_unless_told(groups, run, options, names):
    assert listed(run(f"group ls -o json {options}")) == names
    assert groups.skips_silent is True


def test_a_row_has_members_topics_and_lag(groups, run):
    first, second = json.loads(run("group ls -o json").stdout)
    assert first == {
        "group": "g", "members": 1, "type": "push", "model": "clustering", "topics": ["a", "new", "t"], "lag": 8
    }  # fmt: skip
    assert second == {"group": "idle", "members": 0, "type": None, "model": None, "topics": [], "lag": 0}
    assert run("group ls").output.splitlines() == [
        "group  members  type  model       topics     lag",
        "g            1  push  clustering  a, new, t    8",
        "idle         0  -     -           -            0",
    ]


def test_many_groups_are_listed(admin, run):
    for number in range(40):
        admin.add_group(f"g{number}")
    assert len(listed(run("group ls -o json"))) == 40


def test_silent_brokers_make_a_listing_unhealthy(groups, run):
    groups.unreachable = {"broker-b": ConnectError("refused")}
    for words in ("group ls", "group describe g", "group describe nix"):
        result = run(words)
        assert result.exit_code == 4
        assert "broker broker-b: refused" in result.stderr
    assert "there is no consumer group nix. 'rocketmq group ls' lists them; brokers that do not answer may" in (
        result.stderr
    )


# -- describe


def test_a_description_has_everything(groups, run):
    groups.add_group("g", "broker-b", consume_enable=False, consume_broadcast_enable=False,
                     consume_message_orderly=True, retry_max_times=3, retry_queue_nums=2)  # fmt: skip
    found = json.loads(run("group describe g -o json").stdout)
    assert {name: value for name, value in found.items() if not isinstance(value, list)} == {
        "group": "g", "type": "push", "model": "clustering", "startsFrom": "CONSUME_FROM_FIRST_OFFSET", "lag": 8,
    }  # fmt: skip
    assert found["brokers"] == [
        {"broker": "broker-a", "consumeEnable": True, "broadcastEnable": True, "orderly": False, "retryMaxTimes": 16,
         "retryQueues": 1},
        {"broker": "broker-b", "consumeEnable": False, "broadcastEnable": False, "orderly": True, "retryMaxTimes": 3,
         "retryQueues": 2},
    ]  # fmt: skip
    assert found["members"] == commands.member_rows(PUSH)
    assert found["subscriptions"] == commands.subscription_rows(PUSH)
    assert found["topics"] == [{"topic": "a", "lag": 1}, {"topic": "t", "lag": 7}]


def test_a_description_is_a_list_of_tables(groups, run):
    lines = run("group describe g").output.splitlines()
    assert lines[:5] == [
        "group       g", "type        push", "model       clustering", "startsFrom  CONSUME_FROM_FIRST_OFFSET",
        "lag         8",
    ]  # fmt: skip
    assert [lines[number + 1].split()[0] for number, line in enumerate(lines) if not line] == [
        "broker", "clientId", "topic", "topic",
    ]  # fmt: skip
    assert lines[-2:] == ["a        1", "t        7"]


def test_a_description_of_an_idle_group_says_what_is_missing(groups, run):
    lines = run("group describe idle").output.splitlines()
    assert lines[3] == "startsFrom  -"
    assert lines[-6:] == ["", "no members", "", "no subscriptions", "", "no topics"]


@pytest.mark.parametrize("words", ["group describe nix", "group delete nix --yes", "group lag nix"])
def test_a_group_that_is_not_there_is_not_found(groups, run, words):
    refused = run(words)
    assert refused.exit_code == 3
    assert "there is no consumer group nix. 'rocketmq group ls' lists them" in refused.output
    assert groups.changes == []


# -- delete


@pytest.mark.parametrize(("option", "cleans"), [("", True), ("--keep-offsets", False)])
def test_groups_are_deleted_with_their_offsets_unless_told(groups, run, option, cleans):
    groups.add_group("more")
    result = run(f"group delete idle more --yes {option}")
    assert (result.exit_code, result.output) == (0, "deleted group idle\ndeleted group more\n")
    assert groups.changes == [("delete_group", "idle", cleans), ("delete_group", "more", cleans)]


def test_a_group_with_members_is_not_deleted(groups, run):
    refused = run("group delete g --yes")
    assert refused.exit_code == 1
    assert "group g is in use by c: stop its members first, or they create it again" in refused.output
    assert groups.changes == []


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "status", "changes"), [("y", 0, [("delete_group", "g", True)]), ("n", 1, [])])
def test_a_group_is_deleted_after_the_question_only(groups, run, answer, status, changes):
    del groups.connected["g"]
    result = run("group delete g", input=f"{answer}\n")
    assert result.exit_code == status
    assert "Delete consumer group g, with a lag of 8 messages?" in result.output
    assert groups.changes == changes


def test_without_a_terminal_nothing_is_deleted(groups, run):
    assert run("group delete idle").exit_code == 2
    assert groups.changes == []
