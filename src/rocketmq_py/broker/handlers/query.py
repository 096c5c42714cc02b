"""Requests that look messages up: by key, and by their id."""

from __future__ import annotations

from rocketmq_py.errors import BrokerError
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.headers import QueryMessage, QueryMessageResponse
from rocketmq_py.protocol.requests import Request
from rocketmq_py.server import Peer, Reply, handles
from rocketmq_py.store import MessageStore

_BY_UNIQUE_KEY = 32
"""How many messages a search by unique key looks at (defaultQueryMaxNum)."""


class QueryHandlers:
    """12 and 33."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @handles(Code.QUERY_MESSAGE, lane="query")
    def by_key(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """Messages filed under a key; the client sorts out those another key of the same hash brought in."""
        del peer, body
        header: QueryMessage = request.header
        limit = _BY_UNIQUE_KEY if header.unique_key_query else header.max_num
        found = self._store.query(header.topic, header.key, limit, header.begin_timestamp, header.end_timestamp)
        answer = QueryMessageResponse(
            index_last_update_timestamp=found.index_last_update_timestamp,
            index_last_update_phyoffset=found.index_last_update_phyoffset,
        )
        if not found.count:
            said = "can not find message, maybe time range not correct"
            return Reply(ResponseCode.QUERY_NOT_FOUND, said, answer)
        return Reply(header=answer, body=found.body)

    @handles(Code.VIEW_MESSAGE_BY_ID, lane="query")
    def by_offset(self, peer: Peer, request: Request, body: bytes) -> Reply:
        """One message by its offset in the commit log, which its id holds."""
        del peer, body
        record = self._store.message_at(request.header.offset)
        if record is None:
            said = f"can not find message by the offset, {request.header.offset}"
            raise BrokerError.of(ResponseCode.SYSTEM_ERROR, said)
        return Reply(body=record)
