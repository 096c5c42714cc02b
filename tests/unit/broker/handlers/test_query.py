"""How many messages and entries the answers to queries have at most, and of which topic."""

from __future__ import annotations

import pytest

from rocketmq_py.protocol.codes import RequestCode as Code
from rocketmq_py.protocol.headers.admin import QueryConsumeQueue
from rocketmq_py.protocol.headers.pull import QueryMessage
from rocketmq_py.store import NewRecord
from rocketmq_py.wire import fastjson
from rocketmq_py.wire.record import decode_records
from tests.unit.broker.harness import Client, InProcess


def fill(running: InProcess, count: int, topic: str = "t", uniq_key: str | None = "U", keys: str | None = None) -> None:
    for number in range(count):
        running.services.store.append(NewRecord(topic, 0, b"%d" % number, b"", uniq_key=uniq_key, keys=keys))
    running.services.store.commit_pending()


def bodies(client: Client, key: str, most: int, *, unique: bool) -> list[bytes]:
    header = QueryMessage(
        topic="t", key=key, max_num=most, begin_timestamp=0, end_timestamp=2**62, unique_key_query=unique
    )
    return [message.body for message in decode_records(client.ask(Code.QUERY_MESSAGE, header).body)]


@pytest.mark.parametrize("most", [1, 64])
def test_a_search_by_unique_key_finds_32_messages_whatever_is_asked_for(
    running: InProcess, client: Client, most: int
) -> None:
    fill(running, 33)
    assert len(bodies(client, "U", most, unique=True)) == 32


def test_a_search_by_key_finds_as_many_as_are_asked_for(running: InProcess, client: Client) -> None:
    fill(running, 40, keys="k")
    assert [len(bodies(client, "k", most, unique=False)) for most in (1, 33, 64)] == [1, 33, 40]


@pytest.mark.parametrize(
    ("count", "found"), [(-1, 0), (0, 0), (2, 2), (1_024, 1_024), (1_025, 1_024), (2**31 - 1, 1_024)]
)
def test_an_answer_has_at_most_1024_entries(running: InProcess, client: Client, count: int, found: int) -> None:
    fill(running, 1_030)
    header = QueryConsumeQueue(topic="t", queue_id=0, index=3, count=count)
    tree = fastjson.loads(client.ask(Code.QUERY_CONSUME_QUEUE, header).body)
    assert (len(tree["queueData"]), tree["minQueueIndex"], tree["maxQueueIndex"]) == (found, 0, 1_030)
    assert not {"filterData", "subscriptionData"} & tree.keys(), "no group was named"


@pytest.mark.parametrize("index", [-1, 2])
def test_entries_outside_of_a_queue_do_not_exist(running: InProcess, client: Client, index: int) -> None:
    fill(running, 2)
    answer = client.ask(Code.QUERY_CONSUME_QUEUE, QueryConsumeQueue(topic="t", queue_id=0, index=index, count=1))
    assert (answer.code, answer.remark, answer.body) == (0, f"Index {index} of 0@t is not exist!", b"")
