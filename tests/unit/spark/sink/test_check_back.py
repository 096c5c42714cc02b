"""Open transactions of a decided micro-batch: which are waited for, resumed and answered."""

from types import SimpleNamespace

import pytest

from rocketmq_py.errors import BrokerError, ConnectError
from rocketmq_py.model import MessageExt, MessageQueue, TransactionState
from rocketmq_py.properties import encode_properties
from rocketmq_py.spark.decision_store.decisions import Verdict
from rocketmq_py.spark.sink import check_back
from rocketmq_py.spark.sink.check_back import CheckBack, OpenTransactionsError


def half(key, group="g", counts=True, offset=0, topic="T"):
    properties = {"UNIQ_KEY": key, "PGROUP": group, "REAL_TOPIC": topic, "counts": str(counts)}
    host = bytes([127, 0, 0, 1, 0, 0, 42, 159])
    head = (0, 0, 0, 0, 0, offset, offset, 0, 0, host, 0, host, 0, 0, 1)
    return MessageExt(head, "RMQ_SYS_TRANS_HALF_TOPIC", b"x", encode_properties(properties), "a")


class Admin:
    """The half messages of a cluster, as its tools see them."""

    def __init__(self, brokers=("a", "b"), opened=(), given_up=(), delivered=()):
        self.brokers, self.opened, self.given_up, self.delivered = brokers, list(opened), list(given_up), set(delivered)
        self.resumed, self.asked, self.error = [], [], None

    def queues(self, topic):
        assert topic == "RMQ_SYS_TRANS_HALF_TOPIC"
        if self.error is not None:
            raise self.error
        return [MessageQueue(topic, broker, 0) for broker in self.brokers]

    def open_transactions(self):
        return list(self.opened)

    def given_up_transactions(self):
        return list(self.given_up)

    def resume_transaction(self, msg_id):
        self.resumed.append(msg_id)

    def messages_by_key(self, topic, key, *, unique, max_messages):
        self.asked.append((topic, key, unique, max_messages))
        return ["found"] if key in self.delivered else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


DECISION = SimpleNamespace(
    brokers=["b", "a"], batch_id=7, topics=["T"], counts=lambda properties: properties["counts"] == "True"
)
SETTINGS = SimpleNamespace(producer_group="g", namesrv=("n:1",), security=SimpleNamespace(tls=None, credentials=None))


@pytest.fixture
def back():
    return CheckBack(SETTINGS, DECISION, 30.0)


def test_a_complete_micro_batch_is_not_waited_for(back):
    others = [half("1", group="other"), half("2", counts=False)]
    assert back._pending(Admin(opened=others, given_up=others)) == ""


def test_open_transactions_of_the_query_are_pending(back):
    opened = [half("0", group="other"), half("1"), half("2")]
    assert back._pending(Admin(opened=opened)) == f"2 transactions are open, the first in {opened[1].queue}"


def test_a_broker_that_is_away_may_have_open_transactions(back):
    assert back._pending(Admin(brokers=("b",))) == "broker a is away"
    assert back._pending(Admin(brokers=())) == "broker a is away"


def test_errors_that_may_pass_are_pending_and_others_are_raised(back):
    admin = Admin()
    admin.error = ConnectError("nobody listens")
    assert back._pending(admin) == "nobody listens"
    admin.error = BrokerError.of(13, "illegal")
    with pytest.raises(BrokerError, match="illegal"):
        back._pending(admin)


def test_transactions_given_up_are_resumed_once_unless_delivered(back):
    admin = Admin(given_up=[half("1"), half("2", offset=1), half("3", group="other", offset=2)], delivered=["2"])
    for _ in range(2):
        assert back._pending(admin).startswith("1 transactions are open")
    assert admin.resumed == [admin.given_up[0].offset_msg_id]
    assert admin.asked == [("T", "1", True, 1), ("T", "2", True, 1)] * 2


@pytest.mark.parametrize(
    ("decided", "delivered", "state"),
    [
        (Verdict.COMMIT, False, TransactionState.COMMIT),
        (Verdict.COMMIT, True, TransactionState.ROLLBACK),
        (Verdict.ROLLBACK, False, TransactionState.ROLLBACK),
        (Verdict.ROLLBACK, True, TransactionState.ROLLBACK),
    ],
)
def test_a_message_that_is_in_its_topic_is_not_committed_again(back, monkeypatch, decided, delivered, state):
    monkeypatch.setattr(check_back, "verdict", lambda properties, decision: decided)
    back._admin = Admin(delivered=["1"] if delivered else [])
    message = half("1")
    assert back._check(message) is state
    assert back._admin.asked == ([(message.topic, "1", True, 1)] if decided is Verdict.COMMIT else [])


class Producer:
    """Takes the arguments of a producer; ``opened`` counts those that run."""

    made = None

    def __init__(self, *given, **named):
        Producer.made = (given, named)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def run(monkeypatch, admin, timeout=1.0, after=2):
    """Runs with a clock of which each sleep is half a second; the transactions end after some of them."""
    now, slept = [0.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds
        if len(slept) == after:
            admin.opened = []

    Producer.made = None
    monkeypatch.setattr(check_back, "Admin", lambda namesrv, **_: admin)
    monkeypatch.setattr(check_back, "TransactionProducer", Producer)
    monkeypatch.setattr(check_back, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    try:
        CheckBack(SETTINGS, DECISION, timeout).run()
    finally:
        run.slept = slept
    return slept


def test_nothing_is_produced_if_nothing_is_open(monkeypatch):
    assert run(monkeypatch, Admin()) == []
    assert Producer.made is None


def test_a_producer_answers_until_all_transactions_have_ended(monkeypatch):
    assert run(monkeypatch, Admin(opened=[half("1")])) == [0.5, 0.5]
    given, named = Producer.made
    assert given == ("g", ["n:1"])
    assert named["topics"] == ["T"]
    assert callable(named["check"])


def test_transactions_open_after_the_timeout_are_an_error(monkeypatch):
    with pytest.raises(OpenTransactionsError) as caught:
        run(monkeypatch, Admin(opened=[half("1")]), timeout=1.0, after=99)
    assert run.slept == [0.5, 0.5, 0.5]  # at the timeout it looks once more
    text = str(caught.value)
    assert text.startswith("micro-batch 7 (group g) is decided, and not delivered within 1 s: 1 transactions are open")
