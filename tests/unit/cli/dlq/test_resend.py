"""``rocketmq dlq resend``: what is sent, where to, what is recorded, and what ends a run."""

import asyncio
import json

import pytest

from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.cli.dlq import resend
from rocketmq_py.errors import ConnectError, NoRouteError, RequestTimeout
from rocketmq_py.model import MessageQueue
from tests.unit.cli.messages import message

TOPIC = "%DLQ%g"
Q0, Q1 = MessageQueue(TOPIC, "broker-a", 0), MessageQueue(TOPIC, "broker-a", 1)


def test_a_dead_letter_is_revived_as_it_was():
    dead = message(
        b"b", topic="%DLQ%g", TAGS="a", KEYS="k", UNIQ_KEY="ID", RETRY_TOPIC="orders", ORIGIN_MESSAGE_ID="X", DELAY="0",
        mine="1", __SHARDINGKEY="s",
    )  # fmt: skip
    assert resend.origin_of(dead) == "orders"
    again = resend.message_to_resend(dead, "g", resend.TOPIC)
    assert (again.topic, again.body, again.flag, again.sharding_key) == ("orders", b"b", 7, "s")
    assert again.properties == {
        "TAGS": "a", "KEYS": "k", "UNIQ_KEY": "ID", "mine": "1", "__SHARDINGKEY": "s", "WAIT": "true"
    }  # fmt: skip
    alone = resend.message_to_resend(dead, "g", resend.GROUP)
    assert (alone.topic, alone.properties["RETRY_TOPIC"]) == ("%RETRY%g", "orders")


def test_a_dead_letter_without_a_unique_id_gets_none():
    assert resend.message_to_resend(message(RETRY_TOPIC="t"), "g", resend.TOPIC).properties == {"WAIT": "true"}


class Sends:
    """A producer that notes what it sends; ``failures``: errors by body."""

    def __init__(self):
        self.sent = []
        self.ordered = []
        self.failures = {}
        self.options = None
        self.is_open = False
        self.during = None

    async def __aenter__(self):
        self.is_open = True
        return self

    async def __aexit__(self, *_):
        self.is_open = False

    async def send(self, message):
        assert self.is_open
        if self.during is not None:
            await self.during()
        if message.body in self.failures:
            raise self.failures[message.body]
        self.sent.append(message)

    async def send_ordered(self, message):
        self.ordered.append(message.body)
        await self.send(message)


@pytest.fixture
def sends(monkeypatch):
    producer = Sends()

    def made(_, **options):
        producer.options = options
        return producer

    monkeypatch.setattr(Target, "producer", made)
    return producer


@pytest.fixture
def dlq(admin):
    """Dead letters 2 to 5 of topics orders and bills in one queue, 0 in the other."""
    admin.add_topic(TOPIC, 2)
    admin.add_topic("orders")
    admin.add_topic("bills")
    admin.add_group("g")
    admin.deleted_before[Q0] = 2
    origins = ("orders", "bills", "orders", "orders")
    admin.add_messages(*(dead(offset, origin) for offset, origin in enumerate(origins, 2)), dead(0, "bills", 1))
    return admin


def dead(offset, origin, queue=0, **properties):
    return message(
        b"%d-%d" % (queue, offset), topic=TOPIC, queue=queue, offset=offset, RETRY_TOPIC=origin, **properties
    )  # fmt: skip


def bodies(sends):
    return [message.body.decode() for message in sends.sent]


def marks(admin):
    return [change[2:] for change in admin.changes if change[0] == "set_group_offset"]


def test_dead_letters_are_sent_to_their_topics_and_recorded(dlq, sends, run):
    result = run("dlq resend g --yes --timeout 7")
    assert result.exit_code == 0, result.output
    assert bodies(sends) == ["0-2", "0-3", "0-4", "0-5", "1-0"]
    assert [message.topic for message in sends.sent] == ["orders", "bills", "orders", "orders", "bills"]
    assert marks(dlq) == [(Q0, 3), (Q0, 4), (Q0, 5), (Q0, 6), (Q1, 1)]
    assert result.stderr == "sent 5 of 5 dead letters of group g again\n"
    assert result.stdout.splitlines() == ["origin  to      messages", "bills   bills          2",
                                          "orders  orders         3"]  # fmt: skip
    assert sends.options == {"send_timeout": 7.0, "retries": 0}
    assert (sends.ordered, sends.is_open) == ([], False)
    names = [change[0] for change in dlq.changes]
    assert names[:2] == ["lock_queue"] * 2
    assert names[-2:] == ["unlock_queue"] * 2


def test_a_second_run_has_nothing_to_send(dlq, sends, run):
    run("dlq resend g --yes")
    dlq.changes.clear()
    again = run("dlq resend g --yes -o json")
    assert (again.exit_code, again.output, dlq.changes, len(sends.sent)) == (0, "[]\n", [], 5)


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ("", ["0-4", "0-5", "1-0"]),
        ("-n 1", ["0-4"]),
        ("-n 2", ["0-4", "0-5"]),
        ("-n 3", ["0-4", "0-5", "1-0"]),
        ("-n 9", ["0-4", "0-5", "1-0"]),
        ("--from-start", ["0-2", "0-3", "0-4", "0-5", "1-0"]),
        ("--from-start -n 1", ["0-2"]),
    ],
)
def test_a_run_continues_where_the_last_one_ended(dlq, sends, run, options, sent):
    dlq.commit("TOOLS_CONSUMER", Q0, 4)
    assert run(f"dlq resend g --yes {options}").exit_code == 0
    assert bodies(sends) == sent


def test_what_another_run_sent_since_the_plan_is_left_out(dlq, sends, run, monkeypatch):
    lock_queue = dlq.lock_queue

    async def locked(group, queue):
        dlq.commit("TOOLS_CONSUMER", Q0, 5)
        return await lock_queue(group, queue)

    monkeypatch.setattr(dlq, "lock_queue", locked)
    result = run("dlq resend g --yes")
    assert bodies(sends) == ["0-5", "1-0"]
    assert result.stderr == "sent 2 of 5 dead letters of group g again\n"


def test_a_mark_of_an_older_run_does_not_go_back(dlq, sends, run, monkeypatch):
    lock_queue = dlq.lock_queue

    async def locked(group, queue):
        dlq.commit("TOOLS_CONSUMER", Q0, 1)
        return await lock_queue(group, queue)

    dlq.commit("TOOLS_CONSUMER", Q0, 4)
    monkeypatch.setattr(dlq, "lock_queue", locked)
    assert run("dlq resend g --yes").exit_code == 0
    assert bodies(sends) == ["0-4", "0-5", "1-0"]


def test_dead_letters_go_to_one_group_alone(dlq, sends, run):
    del dlq.topic_table["orders"], dlq.topic_table["bills"]
    result = run("dlq resend g --to group --yes -n 2 -o json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {"origin": "bills", "to": "%RETRY%g", "messages": 1}, {"origin": "orders", "to": "%RETRY%g", "messages": 1}
    ]  # fmt: skip
    assert [(again.topic, again.properties["RETRY_TOPIC"]) for again in sends.sent] == [
        ("%RETRY%g", "orders"), ("%RETRY%g", "bills")
    ]  # fmt: skip


def test_messages_with_a_sharding_key_keep_their_order(dlq, sends, run):
    dlq.add_messages(dead(1, "orders", 1, __SHARDINGKEY="s"))
    assert run("dlq resend g --yes").exit_code == 0
    assert sends.ordered == [b"1-1"]


@pytest.mark.parametrize(
    ("gone", "options", "said"),
    [
        ("topic", "", "topic bills, where dead letters of group g came from, no longer exists. no route of"),
        ("group", "--to group", "there is no consumer group g"),
    ],
)  # fmt: skip
def test_a_receiver_that_is_gone_is_not_created_again(dlq, sends, run, gone, options, said):
    if gone == "topic":
        del dlq.topic_table["bills"]
    else:
        dlq.group_table.clear()
    refused = run(f"dlq resend g --yes {options}")
    assert (refused.exit_code, said in refused.output) == (3, True)
    assert (sends.sent, dlq.changes) == ([], [])


def test_dead_letters_without_an_origin_are_refused(dlq, sends, run):
    dlq.add_messages(message(topic=TOPIC, queue=1, offset=1))
    result = run("dlq resend g --yes -o json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)[0] == {"origin": None, "to": None, "messages": 1}
    assert "1 dead letters of group g do not contain their original topic; export them, and send them" in result.stderr
    assert sends.sent == []


def test_a_dry_run_sends_nothing(dlq, sends, run):
    assert run("dlq resend g --dry-run").exit_code == 0
    assert (sends.sent, dlq.changes) == ([], [])


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(("answer", "status", "count"), [("y", 0, 5), ("n", 1, 0)])
@pytest.mark.parametrize(("to", "receivers"), [("topic", "every group of those topics"), ("group", "group g alone")])
def test_dead_letters_are_sent_after_the_question_only(dlq, sends, run, to, receivers, answer, status, count):
    result = run(f"dlq resend g --to {to}", input=f"{answer}\n")
    assert (result.exit_code, len(sends.sent)) == (status, count)
    assert f"Send 5 messages again, to {receivers}?" in result.output


def test_another_run_refuses_this_one(dlq, sends, run):
    dlq.locked_elsewhere.add(Q1)
    result = run("dlq resend g --yes")
    assert result.exit_code == 1
    assert "another run is sending the dead letters" in result.output
    assert "sent 0 of 5 dead letters" in result.output
    assert sends.sent == []


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (NoRouteError("no route"), 3, "to orders was not sent: no route. The next run starts with it"),
        (ConnectError("refused"), 1, "to orders was not sent: refused. The next run starts with it"),
        (RequestTimeout("late"), 1, "to orders was sent but not answered, and may have been stored: late. Find it"),
    ],
)  # fmt: skip
def test_the_first_failure_ends_the_run(dlq, sends, run, error, status, said):
    sends.failures[b"0-4"] = error
    result = run("dlq resend g --yes")
    assert result.exit_code == status
    assert f"({Q0} at 4) {said}" in result.stderr
    assert result.stderr.startswith("sent 2 of 5 dead letters of group g again\n")
    assert marks(dlq) == [(Q0, 3), (Q0, 4)]
    assert [change[0] for change in dlq.changes][-2:] == ["unlock_queue"] * 2


def test_a_send_that_is_not_recorded_is_named(dlq, sends, run):
    dlq.failures["set_group_offset"] = ConnectError("refused")
    result = run("dlq resend g --yes")
    assert result.exit_code == 1
    assert f"({Q0} at 2) was sent to orders, but recording this failed: refused" in result.stderr
    assert "set the offset of group TOOLS_CONSUMER to 3" in result.stderr
    assert "sent 1 of 5 dead letters" in result.stderr


def test_an_interrupted_run_records_the_message_that_is_under_way(dlq, sends):
    async def interrupted():
        plan = await resend.make_plan(dlq, "g", None, from_start=False)
        under_way, goes_on = asyncio.Event(), asyncio.Event()

        async def during():
            under_way.set()
            await goes_on.wait()

        sends.during = during
        task = asyncio.ensure_future(resend._resend(Target("h:1", ""), dlq, plan, "g", resend.TOPIC))
        await under_way.wait()
        task.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    assert bodies(sends) == ["0-2"]
    assert marks(dlq) == [(Q0, 3)]
    assert [change[0] for change in dlq.changes][-2:] == ["unlock_queue"] * 2


def test_a_lock_is_renewed_while_messages_are_sent(dlq, sends, run, monkeypatch):
    monkeypatch.setattr("rocketmq_py.client.dead_letters.RENEW_SECONDS", 0.0)
    assert run("dlq resend g --yes -n 3").exit_code == 0
    assert [change[0] for change in dlq.changes].count("lock_queue") == 4


def test_a_limit_is_one_or_more(dlq, run):
    assert run("dlq resend g -n 0").exit_code == 2
