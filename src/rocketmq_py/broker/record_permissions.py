"""Permissions for the topics of stored records that a request names by commit log offset or message id.

The header of such a request may have a topic, which the client chooses. The request is about the record, so the
permissions must cover the topic that the record really has. Java's brokers check the header alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from rocketmq_py.broker.body_limits import body_fault
from rocketmq_py.broker.records.stored_record import StoredRecord, read_stored
from rocketmq_py.core.access.permissions import Action, Kind, RequiredPermission, Resource, topic
from rocketmq_py.core.access.record_topics import real_topic
from rocketmq_py.errors import ConfigError, CorruptRecord
from rocketmq_py.properties import decode_properties
from rocketmq_py.protocol.codes import RequestCode as Code, ResponseCode
from rocketmq_py.protocol.half_messages import decode_half_positions
from rocketmq_py.protocol.requests import REQUEST_HEADERS
from rocketmq_py.server import Peer, Reply
from rocketmq_py.server.access.auth_dispatcher import AuthDispatcher
from rocketmq_py.server.requests.dispatcher import Authorize, AuthorizeLater
from rocketmq_py.store import MessageStore
from rocketmq_py.store.fs.residency import NotInMemory, Residency
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.ids import parse_offset_msg_id

_ACTIONS = {
    Code.VIEW_MESSAGE_BY_ID: (Action.GET,),
    Code.CONSUMER_SEND_MSG_BACK: (Action.SUB,),
    Code.CONSUME_MESSAGE_DIRECTLY: (Action.SUB,),
    Code.END_TRANSACTION: (Action.PUB,),
    Code.END_TRANSACTIONS: (Action.PUB,),
    Code.RESUME_CHECK_HALF_MESSAGE: (Action.UPDATE,),
}  # fmt: skip
"""By request code: actions of which one must be allowed on the topic of the record, as on the topic of the header."""

MOST_ENDS = 2048
"""Maximum number of transactions that one request may commit or roll back; it bounds the time on the event loop."""


def authorization(access: AuthDispatcher, records: RecordPermissions) -> Authorize | None:
    """Return the function that authorizes each request; None if access control is off."""
    if not access.enabled:
        return None

    def authorize(peer: Peer, request: Command) -> Reply | AuthorizeLater | None:
        fault = body_fault(request.code, request.body)  # permissions may depend on the body, which is decoded then
        if fault is not None:
            return Reply(ResponseCode.INVALID_PARAMETER, fault)
        try:
            return admit(peer, request, records.store.new_residency())
        except NotInMemory:
            return partial(records.store.loader.run, partial(admit, peer, request))

    def admit(peer: Peer, request: Command, residency: Residency | None) -> Reply | None:
        return access.admit(peer, request, partial(records.required, residency=residency))

    return authorize


class RecordPermissions:
    """Determines which permissions a request needs for the stored records that it names.

    :param cluster: the broker's cluster; records whose topic cannot be verified need a permission on the cluster.
    """

    def __init__(self, store: MessageStore, cluster: str) -> None:
        self.store = store
        self._unknown = Resource(Kind.CLUSTER, cluster)

    def required(self, request: Command, residency: Residency | None = None) -> list[RequiredPermission]:
        """Return the permissions needed for the records that a request names by offset or id; empty if it names none.

        An offset without a record needs no permission, since the handler refuses it.

        :param residency: of this read; None to wait for the disk.
        :raises BadHeader: the header is malformed.
        :raises NotInMemory: the records, or their consume queue entries, are not in memory.
        """
        actions = _ACTIONS.get(request.code)  # type: ignore[call-overload]
        if actions is None:
            return []
        resources = dict.fromkeys(self._resources(tuple(_offsets(request)), residency))
        return [RequiredPermission(resource, actions) for resource in resources]

    def _resources(self, offsets: Sequence[int], residency: Residency | None) -> Iterator[Resource]:
        checks = self.store.checks
        checks.messages(offsets, residency)
        records = [(offset, _read(raw)) for offset in offsets if (raw := self.store.message_at(offset)) is not None]
        heads = [(record.topic, record.head) for _, record in records if record is not None]
        checks.store_times([(topic, head.queue_id, head.queue_offset) for topic, head in heads], residency)
        return (self._resource(offset, record) for offset, record in records)

    def _resource(self, offset: int, record: StoredRecord | None) -> Resource:
        if record is None:
            return self._unknown
        head = record.head
        # The offset may be inside the body of the client's own message, which may look like a record. Only the consume
        # queue shows that a record of this topic begins here.
        if self.store.physical_offset(record.topic, head.queue_id, head.queue_offset) != offset:
            return self._unknown
        return topic(real_topic(record.topic, lambda: decode_properties(record.properties)))


def _read(raw: bytes) -> StoredRecord | None:
    try:
        return read_stored(raw)
    except CorruptRecord:
        return None


def _offsets(request: Command) -> Iterable[int]:
    """Return the commit log offsets of the records that a request names, decoded as its handler decodes them.

    :raises BadHeader: the header is malformed.
    """
    code = Code(request.code)
    if code == Code.END_TRANSACTIONS:
        try:
            return decode_half_positions(request.body)[0][:MOST_ENDS]
        except CorruptRecord:
            return ()
    header = REQUEST_HEADERS[code].from_ext(request.ext)
    if code == Code.END_TRANSACTION:
        return (header.commit_log_offset,)  # type: ignore[attr-defined]
    if code in (Code.RESUME_CHECK_HALF_MESSAGE, Code.CONSUME_MESSAGE_DIRECTLY):
        try:
            return (parse_offset_msg_id(header.msg_id or "")[2],)  # type: ignore[attr-defined]
        except ConfigError:
            return ()
    return (header.offset,)  # type: ignore[attr-defined]
