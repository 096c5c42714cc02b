"""``rocketmq message send``: where messages come from, how they are sent, and what is said when a send fails."""

import json
from concurrent.futures import Future

import pytest

from rocketmq_py.cli.connect.connect import Target
from rocketmq_py.cli.message import send
from rocketmq_py.cli.output.failures import CommandFailure
from rocketmq_py.client.producer.blocking import Producer
from rocketmq_py.errors import BrokerError, ConnectError, NoRouteError, RequestTimeout, TooManySends
from rocketmq_py.model import Message, MessageQueue, SendResult, SendStatus

QUEUE = MessageQueue("t", "broker-a", 3)


class MemoryProducer:
    """Stores what it is given.

    ``failures``: errors of futures by body, ``refused``: errors of calls by body, ``busy``: how often the broker is
    busy, by body.
    """

    def __init__(self):
        self.sent = []
        self.failures = {}
        self.refused = {}
        self.busy = {}
        self.held = None
        self.most_pending = 0
        self.is_open = False

    def __enter__(self):
        self.is_open = True
        return self

    def __exit__(self, *_):
        self.is_open = False

    def send(self, message, queue=None):
        assert self.is_open
        self.sent.append((message, queue))
        error = self.refused.get(message.body) or self.outcome(message)
        if error is not None:
            raise error
        return result_of(len(self.sent) - 1)

    def outcome(self, message):
        if self.busy.get(message.body, 0):
            self.busy[message.body] -= 1
            return BrokerError.of(2, "[TIMEOUT_CLEAN_QUEUE]broker busy", "a:1")
        return self.failures.get(message.body)

    def send_ordered(self, message):
        return self.send(message, "by key")

    def send_async(self, message, queue=None):
        assert self.is_open
        if message.body in self.refused:
            raise self.refused[message.body]
        self.sent.append((message, queue))
        future = PendingSend(self)
        future.outcome = self.outcome(message) or result_of(len(self.sent) - 1)
        self.most_pending = max(self.most_pending, future.count(1))
        return future

    pending = 0


class PendingSend(Future):
    """Ends when its result is asked for, so that the sender alone decides how many are pending."""

    def __init__(self, producer):
        super().__init__()
        self.producer = producer

    def count(self, by):
        self.producer.pending += by
        return self.producer.pending

    def result(self, timeout=None):
        if not self.done():
            self.count(-1)
            if isinstance(self.outcome, Exception):
                self.set_exception(self.outcome)
            else:
                self.set_result(self.outcome)
        return super().result(timeout)


def result_of(offset):
    return SendResult(SendStatus.SEND_OK, f"ID{offset}", QUEUE, offset, f"OFFSET{offset}")


@pytest.fixture
def producer(monkeypatch):
    memory = MemoryProducer()
    monkeypatch.setattr(send, "connect", lambda _: memory)
    yield memory
    assert not memory.is_open
    assert memory.pending == 0


def only(producer):
    [(message, queue)] = producer.sent
    return message, queue


# -- one message


def test_a_message_is_sent_and_its_place_is_shown(producer, run):
    result = run("message send t hello -o json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {
        "topic": "t", "broker": "broker-a", "queue": 3, "offset": 0, "msgId": "ID0", "offsetMsgId": "OFFSET0",
        "status": "SEND_OK", "recallHandle": None,
    }  # fmt: skip
    message, queue = only(producer)
    assert (message.topic, message.body, message.properties, queue) == ("t", b"hello", {"WAIT": "true"}, None)


@pytest.mark.parametrize(
    ("options", "properties", "queue"),
    [
        (["-t", "a"], {"TAGS": "a"}, None),
        (["-k", "k l"], {"KEYS": "k l"}, None),
        (["-p", "x=1", "-p", "y=a=b"], {"x": "1", "y": "a=b"}, None),
        (["--sharding-key", "s"], {"__SHARDINGKEY": "s"}, "by key"),
        (["--queue", "broker-a:3"], {}, QUEUE),
        (["--queue", "broker-a:3", "--sharding-key", "s"], {"__SHARDINGKEY": "s"}, QUEUE),
        (["--delay-level", "3"], {"DELAY": "3"}, None),
        (["--delay-level", "0"], {}, None),
        (["--delay", "1.5"], {"TIMER_DELAY_MS": "1500"}, None),
    ],
)
def test_options_are_fields_of_the_message(producer, run, options, properties, queue):
    assert run("message", "send", "t", "hello", *options).exit_code == 0
    message, sent_to = only(producer)
    assert message.properties == properties | {"WAIT": "true"}
    assert sent_to == queue


@pytest.mark.parametrize("options", [["--delay-level", "-1"], ["--delay", "-1"], ["--queue", "x"], ["-p", "x"]])
def test_invalid_options_are_refused(producer, run, options):
    assert run("message", "send", "t", "hello", *options).exit_code == 2
    assert producer.sent == []


def test_a_body_comes_from_a_file_or_from_standard_input(producer, run, tmp_path):
    (tmp_path / "body").write_bytes(b"\xff\n")
    assert run("message", "send", "t", "-f", str(tmp_path / "body")).exit_code == 0
    assert run("message", "send", "t", "-f", "-", input=b"dash").exit_code == 0
    assert run("message", "send", "t", input=b"piped\n").exit_code == 0
    assert run("message", "send", "t", "").exit_code == 0
    assert [message.body for message, _ in producer.sent] == [b"\xff\n", b"dash", b"piped\n", b""]


def test_a_terminal_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(send.sys.stdin, "isatty", lambda: True, raising=False)
    with pytest.raises(send.click.UsageError, match="there is no message: give BODY"):
        send._body(None, None)


@pytest.mark.parametrize(
    "sources", [["x", "-f", "-"], ["x", "--lines", "-"], ["x", "--jsonl", "-"], ["--lines", "-", "--jsonl", "-"]]
)
def test_two_sources_exclude_each_other(producer, run, sources):
    refused = run("message", "send", "t", *sources)
    assert refused.exit_code == 2
    assert "BODY, --file, --lines and --jsonl exclude each other" in refused.output
    assert producer.sent == []


def test_a_send_that_fails_is_one_line(producer, run):
    producer.refused[b"x"] = NoRouteError("no route of t")
    result = run("message send t x")
    assert (result.exit_code, result.output) == (3, "Error: no route of t\n")


class Clock:
    """Time that passes only in pauses."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(send, "time", clock)
    monkeypatch.setattr(send.random, "random", lambda: 1.0)
    return clock


@pytest.mark.parametrize("words", ["message send t x", "message send t x --queue broker-a:3"])
def test_a_message_that_a_busy_broker_refuses_is_sent_again(producer, run, clock, words):
    producer.busy[b"x"] = 6
    assert run(words).exit_code == 0
    assert len(producer.sent) == 7
    assert clock.pauses == [0.05, 0.1, 0.2, 0.4, 0.5, 0.5]


def test_a_broker_that_stays_busy_is_given_up_at_the_timeout(producer, run, clock):
    producer.busy[b"x"] = 1000
    result = run("message send t x --timeout 2.25")
    assert (result.exit_code, "[TIMEOUT_CLEAN_QUEUE]broker busy" in result.output) == (1, True)
    assert clock.now == 2.25, "the pause that ends at the time limit is made"
    assert len(producer.sent) == 8


def test_other_answers_of_the_broker_are_final(producer, run, clock):
    producer.failures[b"x"] = BrokerError.of(1, "[TIMEOUT_CLEAN_QUEUE]", "a:1")
    assert run("message send t x").exit_code == 1
    assert (len(producer.sent), clock.pauses) == (1, [])


# -- many messages


@pytest.mark.parametrize("order", [[], ["--queue", "broker-a:3"]])
def test_lines_that_a_busy_broker_refuses_are_sent_again(producer, run, clock, order):
    producer.busy = {b"a": 1, b"c": 2}
    result = run("message", "send", "t", "--lines", "-", "-o", "jsonl", *order, input=LINES)
    assert (result.exit_code, result.stderr) == (0, "sent 3 messages to t\n")
    assert len(result.stdout.splitlines()) == 3
    assert sorted(sent_bodies(producer)) == [b"a", b"a", b"b", b"c", b"c", b"c"]
    assert len(clock.pauses) == 3


def test_lines_that_a_busy_broker_keeps_refusing_are_named(producer, run, clock):
    producer.busy[b"b"] = 1000
    result = run("message", "send", "t", "--lines", "-", "--timeout", "1", input=LINES)
    assert result.exit_code == 1
    assert result.output.startswith("sent 2 messages to t\nError: line 3: code 2")
    assert result.output.endswith("Nothing after line 4 was sent; not sent: 3\n")


LINES = b"a\n\nb\r\nc"


def sent_bodies(producer):
    return [message.body for message, _ in producer.sent]


@pytest.mark.parametrize(
    ("order", "place", "pending"),
    [([], None, 3), (["--queue", "broker-a:3"], QUEUE, 0), (["--sharding-key", "s"], "by key", 0)],
)
def test_every_line_is_a_message(producer, run, order, place, pending):
    result = run("message", "send", "t", "--lines", "-", "-t", "tag", *order, input=LINES)
    assert (result.exit_code, result.output) == (0, "sent 3 messages to t\n")
    assert sent_bodies(producer) == [b"a", b"b", b"c"]
    assert {message.tags for message, _ in producer.sent} == {"tag"}
    assert {queue for _, queue in producer.sent} == {place}
    assert producer.most_pending == pending


def test_results_of_lines_are_printed_in_order(producer, run):
    result = run("message", "send", "t", "--lines", "-", "-o", "jsonl", input=LINES)
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 1, 2]
    assert result.stderr == "sent 3 messages to t\n"


def test_lines_of_json_have_their_own_fields(producer, run):
    row = {"body": "6869", "bodyEncoding": "hex", "tags": "a", "keys": "k", "properties": {"x": "1"}}
    assert run("message", "send", "t", "--jsonl", "-", input=json.dumps(row) + "\n{}").exit_code == 0
    first, second = (message for message, _ in producer.sent)
    assert (first.topic, first.body, first.tags, first.keys, first.properties["x"]) == ("t", b"hi", "a", "k", "1")
    assert (second.body, second.tags) == (b"", None)


@pytest.mark.parametrize("options", [["-t", "a"], ["-p", "x=1"], ["--sharding-key", "s"], ["--delay-level", "1"]])
def test_lines_of_json_and_options_exclude_each_other(producer, run, options):
    refused = run("message", "send", "t", "--jsonl", "-", *options, input="{}")
    assert (refused.exit_code, "every line has its own tag" in refused.output) == (2, True)
    assert producer.sent == []


@pytest.mark.parametrize("order", [[], ["--queue", "broker-a:3"]])
@pytest.mark.parametrize(("line", "why"), [("[]", "it is no JSON object"), ("{", "Expecting"), ('{"body": 1}', "the ")])
def test_a_line_that_is_no_message_ends_the_run(producer, run, order, line, why):
    result = run("message", "send", "t", "--jsonl", "-", *order, input=f"{{}}\n{line}\n{{}}")
    assert result.exit_code == 1
    assert f"line 2 is no message: {why}" in result.output
    assert "it and what follows was not sent" in result.output
    assert "sent 1 messages to t\n" in result.output


@pytest.mark.parametrize("count", [1, 64, 65, 200])
def test_at_most_64_sends_are_pending(producer, run, count):
    lines = b"\n".join(b"%d" % number for number in range(count))
    result = run("message", "send", "t", "--lines", "-", input=lines)
    assert (result.exit_code, result.output) == (0, f"sent {count} messages to t\n")
    assert producer.most_pending == min(count, 65), "one is started before the oldest is awaited"
    assert sent_bodies(producer) == lines.split(b"\n")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (NoRouteError("gone"), 3, "line 3: gone. Nothing after line 4 was sent; not sent: 3"),
        (ConnectError("refused"), 1, "line 3: refused. Nothing after line 4 was sent; not sent: 3"),
        (
            RequestTimeout("late"),
            1,
            "line 3: late. Nothing after line 4 was sent; not answered, may have been stored: 3",
        ),
    ],
)
def test_a_failure_of_a_pending_send_is_reported_with_its_line(producer, run, error, status, said):
    producer.failures[b"b"] = error
    result = run("message", "send", "t", "--lines", "-", input=LINES)
    assert result.exit_code == status
    assert result.output == f"sent 2 messages to t\nError: {said}\n"


def test_no_send_starts_after_a_failure(producer, run):
    producer.failures = {b"0": ConnectError("refused"), b"3": RequestTimeout("late")}
    lines = b"\n".join(b"%d" % number for number in range(100))
    result = run("message", "send", "t", "--lines", "-", input=lines)
    assert result.output == (
        "sent 63 messages to t\n"
        "Error: line 1: refused. Nothing after line 65 was sent; not sent: 1; not answered, may have been stored: 4\n"
    )
    assert len(producer.sent) == 65


def test_a_send_that_is_refused_at_once_ends_the_run(producer, run):
    producer.refused[b"b"] = TooManySends("full")
    result = run("message", "send", "t", "--lines", "-", input=LINES)
    assert result.output == "sent 1 messages to t\nError: line 3: full. Nothing after line 3 was sent; not sent: 3\n"
    assert sent_bodies(producer) == [b"a"]


def test_the_first_send_may_be_refused(producer, run):
    producer.refused[b"a"] = TooManySends("full")
    result = run("message", "send", "t", "--lines", "-", input=LINES)
    assert result.output == "sent 0 messages to t\nError: line 1: full. Nothing after line 1 was sent; not sent: 1\n"


@pytest.mark.parametrize(
    ("error", "end"),
    [(ConnectError("x"), "; not sent: 3"), (RequestTimeout("x"), "; not answered, may have been stored: 3")],
)
def test_a_failure_in_order_ends_the_run(producer, run, error, end):
    producer.failures[b"b"] = error
    result = run("message", "send", "t", "--lines", "-", "--queue", "broker-a:3", input=LINES)
    assert result.output == f"sent 1 messages to t\nError: line 3: x. Nothing after line 3 was sent{end}\n"
    assert sent_bodies(producer) == [b"a", b"b"]


def test_an_interrupted_send_is_named(producer, run):
    producer.refused[b"b"] = KeyboardInterrupt()
    result = run("message", "send", "t", "--lines", "-", "--queue", "broker-a:3", input=LINES)
    assert result.exit_code == 130
    assert result.output == (
        "sent 1 messages to t; the send of line 3 was interrupted, and the message may have been stored\n"
    )


def test_the_producer_does_not_repeat_a_send(monkeypatch):
    seen = []
    monkeypatch.setattr(Producer, "__init__", lambda _, *args, **options: seen.append((args, options)))
    send.connect(Target("h:1", "--namesrv", {"a": "b"}, 7.0, credentials="both"))
    assert seen == [
        (("rocketmq-cli", "h:1"),
         {"address_map": {"a": "b"}, "tls": None, "credentials": "both", "send_timeout": 7.0, "retries": 0})
    ]  # fmt: skip


def test_lines_are_numbered_from_one():
    lines = [b"\n", b"a\n"]
    assert [number for number, _ in send._messages(lines, lambda text: Message("t", text))] == [2]
    with pytest.raises(CommandFailure, match="line 2 is no message: odd"):
        list(send._messages(lines, lambda _: (_ for _ in ()).throw(ValueError("odd"))))
