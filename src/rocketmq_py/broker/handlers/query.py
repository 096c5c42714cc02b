"""Requests that look up messages by key, by message id, and by queue offset."""

from __future__ import annotations

from functools import partial

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.metadata.java_files import bean
from rocketmq_py.broker.pull.cold_read import answer_when_loaded
from rocketmq_py.broker.records.stored_record import read_stored
from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers.admin import QueryConsumeQueue
from rocketmq_py.protocol.headers.pull import QueryMessage, QueryMessageResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Hold, Peer, Reply, handles
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import Residency
from rocketmq_py.wire.fastjson import dumps_java
from rocketmq_py.wire.record import record_sizes

_BY_UNIQUE_KEY = 32
"""The maximum number of messages of a search by unique key (defaultQueryMaxNum)."""
_MOST_ENTRIES = 1024
"""The maximum number of consume queue entries in an answer."""
_BY_TAG = "T"
"""The index type of tags (INDEX_TAG_TYPE)."""


class QueryHandlers:
    """Handlers of the request codes 12, 33 and 321."""

    def __init__(self, store: MessageStore, clients: Clients) -> None:
        self._store = store
        self._clients = clients

    @handles(Code.QUERY_MESSAGE, lane="query")
    def by_key(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Return a topic's messages with a key or a tag; also those whose key only has the same hash."""
        del peer, body
        header: QueryMessage = request.header
        limit = _BY_UNIQUE_KEY if header.unique_key_query else header.max_num
        search = self._store.query_by_tag if header.index_type == _BY_TAG else self._store.query
        found = search(header.topic, header.key, limit, header.begin_timestamp, header.end_timestamp)
        answer = QueryMessageResponse(
            index_last_update_timestamp=found.index_last_update_timestamp,
            index_last_update_phyoffset=found.index_last_update_phyoffset,
        )
        body = _of_topic(found.body, header.topic)
        if not body:
            remark = "can not find message, maybe time range not correct"
            return Reply(ResponseCode.QUERY_NOT_FOUND, remark, answer)
        return Reply(header=answer, body=body)

    @handles(Code.VIEW_MESSAGE_BY_ID, lane="query")
    def by_offset(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return one message by its commit log offset, which the message id contains."""
        del peer, body
        offset = request.header.offset

        def read(residency: Residency | None) -> Reply:
            self._store.check_message(offset, residency)
            record = self._store.message_at(offset)
            if record is None:
                raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}")
            return Reply(body=record)

        return answer_when_loaded(read, self._store.new_residency())

    @handles(Code.QUERY_CONSUME_QUEUE)
    def entries(self, peer: Peer, request: Request, body: bytes) -> Reply | Hold:
        """Return entries of a consume queue as they are on disk, for diagnosis."""
        del peer, body
        return answer_when_loaded(partial(self._entries, request.header), self._store.new_residency())

    def _entries(self, header: QueryConsumeQueue, residency: Residency | None) -> Reply:
        topic, queue_id = header.topic, header.queue_id
        if not self._store.has_queue(topic, queue_id):
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
        first, end = self._store.queue_range(topic, queue_id)
        answer: dict[str, object] = {"maxQueueIndex": end, "minQueueIndex": first} | self._filter(header)
        if not first <= header.index < end:
            remark = f"Index {header.index} of {queue_id}@{topic} is not exist!"
            return Reply(remark=remark)
        count = min(max(0, header.count), _MOST_ENTRIES)
        self._store.check_entries(topic, queue_id, header.index, count, residency)
        found = self._store.queue_entries(topic, queue_id, header.index, count)
        answer["queueData"] = [
            {"eval": False, "physicOffset": offset, "physicSize": size, "tagsCode": code}
            for offset, size, code in found
        ]
        return Reply(body=dumps_java(answer))

    def _filter(self, header: QueryConsumeQueue) -> dict[str, object]:
        """Return the members that describe the subscription of the header's group; an empty dict if it names no group.

        Queues have no bit maps of SQL filters here, so none are returned.
        """
        if header.consumer_group is None:
            return {}
        found = self._clients.consumers.subscription(header.consumer_group, header.topic)
        if found is None:
            return {"filterData": f"{header.consumer_group}@{header.topic} is not online!"}
        return {"filterData": "null", "subscriptionData": bean(found)}


def _of_topic(records: bytes, topic: str) -> bytes:
    """Keep the records of one topic: the index also finds those of other topics whose keys have the same hash."""
    found = [records[at : at + size] for at, size in record_sizes(records)]
    kept = [record for record in found if read_stored(record).topic == topic]
    return records if len(kept) == len(found) else b"".join(kept)
