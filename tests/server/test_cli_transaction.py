"""``rocketmq transaction`` on an embedded cluster, and the administrator behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketmq_py import Admin, BrokerError, LitePullConsumer, Message, TransactionProducer, TransactionState
from rocketmq_py.model import ConsumeFromWhere
from rocketmq_py.testing import Cluster
from tests.server.cli import Cli, eventually

NEVER = {"transaction_check_interval": 10**9, "transaction_op_batch_interval": 0}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, **NEVER) as running:
        running.create_topic("orders", 2)
        yield running


def leave_open(producer: TransactionProducer, topic: str, key: str) -> str:
    with producer.transaction(Message(topic, b"body", keys=key)) as tx:
        tx.leave_open()
    return tx.transaction_id


def unknown(_message: object) -> TransactionState:
    return TransactionState.UNKNOWN


def test_open_transactions_are_listed(cluster: Cluster) -> None:
    cli = Cli(cluster.namesrv)
    assert cli.jsonl("transaction", "ls") == []
    with TransactionProducer("shop", cluster.namesrv, check=unknown) as shop:
        for number in range(3):
            with shop.transaction(Message("orders", b"%d" % number)) as tx:
                if number == 1:
                    tx.rollback()
        ids = [leave_open(shop, "orders", f"k{number}") for number in range(4)]
        with TransactionProducer("other", cluster.namesrv, check=unknown) as other:
            ids.append(leave_open(other, "others", "k4"))
    rows = eventually(lambda: cli.jsonl("transaction", "ls"), lambda found: len(found) == len(ids))
    assert [row["stored"] for row in rows] == sorted(row["stored"] for row in rows), "the oldest first"
    by_id = {row["transactionId"]: row for row in rows}
    assert by_id.keys() == set(ids)
    assert {row["broker"] for row in rows} == {"broker-a", "broker-b"}
    shown = [tuple(by_id[one][name] for name in ("group", "topic", "keys", "checks", "bytes")) for one in ids[3:]]
    assert shown == [("shop", "orders", "k3", 0, 4), ("other", "others", "k4", 0, 4)]
    assert [row["transactionId"] for row in cli.jsonl("transaction", "ls", "--group", "other")] == ids[4:]
    assert {row["transactionId"] for row in cli.json("transaction", "ls", "--topic", "orders")} == set(ids[:4])
    table = cli.ok("transaction", "ls")
    assert table.splitlines()[0].split()[:4] == ["stored", "age", "transactionId", "group"]
    assert all(one in table for one in ids)
    assert cli.jsonl("transaction", "ls", "--given-up") == []
    with Admin(cluster.namesrv) as admin:
        assert {half.msg_id for half in admin.open_transactions()} == set(ids)


def test_given_up_transactions_are_listed_and_resumed() -> None:
    settings = {"transaction_check_interval": 50, "transaction_time_out": 0, "transaction_check_max": 1}
    with Cluster(**settings) as cluster:
        cli = Cli(cluster.namesrv)
        said = [TransactionState.UNKNOWN]
        with TransactionProducer("shop", cluster.namesrv, check=lambda _: said[0]) as producer:
            transaction_id = leave_open(producer, "orders", "k")
            [row] = eventually(lambda: cli.jsonl("transaction", "ls", "--given-up"))
            assert (row["transactionId"], row["topic"], row["checks"]) == (transaction_id, "orders", 1)
            said[0] = TransactionState.COMMIT
            cli.ok("transaction", "resume", row["offsetMsgId"])
            with LitePullConsumer("g", cluster.namesrv, consume_from=ConsumeFromWhere.FIRST_OFFSET) as consumer:
                consumer.subscribe("orders")
                [message] = eventually(consumer.poll)
        assert message.transaction_id == transaction_id
        with Admin(cluster.namesrv) as admin:
            # Twice, if the second check was over before the producer's answer came.
            assert {half.msg_id for half in admin.given_up_transactions()} == {transaction_id}
            with pytest.raises(BrokerError, match="no message of TRANS_CHECK_MAX_TIME_TOPIC"):
                admin.resume_transaction(message.offset_msg_id)
        refused = cli("transaction", "resume", message.offset_msg_id)
        assert refused.exit_code != 0
        assert "no half message can be resumed" in refused.stderr
