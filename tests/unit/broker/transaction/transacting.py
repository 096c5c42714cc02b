"""Helpers for tests of transactions in the broker: transactions, checks, crashes."""

from __future__ import annotations

from typing import Any

from rocketmq_py.errors import StoreNotWritable
from rocketmq_py.model import MessageExt
from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.transaction import EndTransaction
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.record import decode_record
from tests.unit.broker.harness import Client, InProcess
from tests.unit.broker.requests import heartbeat, send

HALF, OP, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
ROUND = 30_000


def message(running: InProcess, topic: str, offset: int = 0, queue: int = 0) -> MessageExt:
    raw = running.services.store.record_at_queue(topic, queue, offset)
    assert raw is not None
    return decode_record(raw)


def count(running: InProcess, topic: str, queue: int = 0) -> int:
    return running.services.store.queue_range(topic, queue)[1]


def ops(running: InProcess) -> list[bytes]:
    return [message(running, OP, offset).body for offset in range(count(running, OP))]


class Transaction:
    """A half message of group ``p``, as its producer knows it."""

    def __init__(self, running: InProcess, client: Client, body: bytes = b"body", **properties: str) -> None:
        self.client = client
        all_properties = {"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "U1", "TAGS": "A", "KEYS": "k"} | properties
        header = send(queue_id=2, properties=all_properties, sys_flag=4, flag=9, born_timestamp=running.now)
        answer = client.ask(Code.SEND_MESSAGE_V2, header, body)
        assert (answer.code, answer.ext["queueId"], answer.ext["transactionId"]) == (0, "2", all_properties["UNIQ_KEY"])
        self.msg_id = answer.ext["msgId"]
        self.place = {
            "commit_log_offset": int(self.msg_id[16:], 16), "tran_state_table_offset": int(answer.ext["queueOffset"]),
        }  # fmt: skip
        self.uniq_key = all_properties["UNIQ_KEY"]

    @classmethod
    def at(cls, client: Client, uniq_key: str, place: int, offset: int) -> Transaction:
        """One whose half message is stored there."""
        self = cls.__new__(cls)
        self.client, self.uniq_key, self.msg_id = client, uniq_key, uniq_key
        self.place = {"commit_log_offset": place, "tran_state_table_offset": offset}
        return self

    def header(self, outcome: int, **more: Any) -> EndTransaction:
        wanted: dict[str, Any] = {"producer_group": "p", "msg_id": self.uniq_key, "transaction_id": self.uniq_key,
                                  "commit_or_rollback": outcome}  # fmt: skip
        return EndTransaction(**wanted | self.place | more)

    def end(self, outcome: int, **more: Any) -> Command | None:
        return self.client.call(Code.END_TRANSACTION, self.header(outcome, **more))

    def ended(self, outcome: int, **more: Any) -> tuple[int, str | None]:
        answer = self.end(outcome, **more)
        assert answer is not None
        return answer.code, answer.remark


def questions(producer: Client) -> list[Command]:
    """What a producer is asked since it was last looked."""
    heard = [command for command in producer.heard if command.code == Code.CHECK_TRANSACTION_STATE]
    producer.heard.clear()
    return heard


def answer(producer: Client, question: Command, outcome: int) -> Command | None:
    fields = question.ext
    header = EndTransaction(
        producer_group="p", tran_state_table_offset=int(fields["tranStateTableOffset"]),
        commit_log_offset=int(fields["commitLogOffset"]), commit_or_rollback=outcome, msg_id=fields["msgId"],
        transaction_id=fields["transactionId"], from_transaction_check=True,
    )  # fmt: skip
    return producer.call(Code.END_TRANSACTION, header)


def producer_of(running: InProcess, group: str = "p") -> Client:
    client = running.connect()
    client.ask(Code.HEART_BEAT, body=heartbeat(group=None, producer=group))
    return client


def refuse(*_: object) -> None:
    raise StoreNotWritable("no room")


def crash(running: InProcess) -> None:
    """Ends the broker as kill -9 does: what was appended stays, nothing else is written."""
    running.services.store.commit_pending()
    running.services.store._flusher.stop()  # threads do not outlive a process
    running.services.saver.close()
    lock = running.services.store._lock
    assert lock is not None
    lock.release()
