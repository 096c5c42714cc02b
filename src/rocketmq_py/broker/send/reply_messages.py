"""Reply messages: pushed to the requesting client, and stored (ReplyMessageProcessor)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rocketmq_py.broker.cluster.clients import Clients
from rocketmq_py.broker.config.broker_config import BrokerConfig
from rocketmq_py.broker.records.message_properties import decode, encode
from rocketmq_py.broker.send.ack_waiter import AckWaiter
from rocketmq_py.broker.send.send import SendService
from rocketmq_py.broker.send.send_validation import SendHeader, SendTarget
from rocketmq_py.errors import BrokerError, MessageIllegal, NetworkError, StoreError
from rocketmq_py.properties import Property
from rocketmq_py.protocol.codes import RequestCode, ResponseCode
from rocketmq_py.protocol.headers.send import PushReplyMessage, SendResponse
from rocketmq_py.protocol.sys_flag import COMPRESSED
from rocketmq_py.server import Hold, Peer, Reply
from rocketmq_py.store import MessageStore, NewRecord
from rocketmq_py.wire.command import Command
from rocketmq_py.wire.compression import TYPE_MASK
from rocketmq_py.wire.ids import offset_msg_id

_log = logging.getLogger(__name__)

_SECONDS = 10.0
"""The timeout for a client's acknowledgement of a pushed reply."""


class ReplyService:
    """Pushes replies to the clients that sent the requests, and stores them.

    :param store_host: this broker's packed address, part of every message id.
    :param address: the same address as text.
    :param clock: returns the time in milliseconds since the epoch.
    :param ack_waiter: decides which answers wait until the message is safe; None if none waits.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        sender: SendService,
        clients: Clients,
        store_host: bytes,
        address: str,
        clock: Callable[[], int],
        ack_waiter: AckWaiter | None,
    ) -> None:
        self._config = config
        self._store = store
        self._sender = sender
        self._clients = clients
        self._host = store_host
        self._address = address
        self._clock = clock
        self._ack_waiter = ack_waiter

    async def take(self, peer: Peer, header: SendHeader, body: bytes) -> Reply | Hold:
        """Push a reply to its client, then store it, whether the push succeeded or not; return the sender's answer.

        :raises BrokerError: the topic accepts no messages.
        """
        target = self._sender.target(header, peer)
        fault = await self._push(peer, header, body)
        reply = Reply(ResponseCode.SUCCESS, ext=self._sender.extra)
        if fault is not None:
            _log.warning(
                "a reply of group %s at %s did not reach its client: %s", header.producer_group, peer.address, fault
            )
            reply = Reply(ResponseCode.SYSTEM_ERROR, fault, ext=self._sender.extra)
        else:
            reply.header = SendResponse(msg_id="0", queue_id=target.queue_id, queue_offset=0)
        return (
            self._store_reply(reply, peer, header, target, body) if self._config.store_reply_message_enable else reply
        )

    # -- to the requesting client

    async def _push(self, peer: Peer, header: SendHeader, body: bytes) -> str | None:
        """Push a reply to its client; return an error message if it did not arrive, otherwise None."""
        properties = decode(header.properties or "")
        client_id = properties.get(Property.REPLY_TO_CLIENT)
        if client_id is None:
            return f"reply message properties[{Property.REPLY_TO_CLIENT}] is null"
        channel = self._clients.producers.find(client_id)
        if not isinstance(channel, Peer):
            return f"push reply message fail, channel of <{client_id}> not found."
        properties[Property.PUSH_REPLY_TIME] = str(self._clock())
        try:
            answer = await channel.invoke(self._command(peer, header, encode(properties), body), _SECONDS)
        except NetworkError as e:
            return f"push reply message to {client_id}fail. {e}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to {client_id}fail. code {answer.code}: {answer.remark}"
        return None

    def _command(self, peer: Peer, header: SendHeader, properties: str, body: bytes) -> Command:
        pushed = PushReplyMessage(
            producer_group=header.producer_group, topic=header.topic, default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums, queue_id=header.queue_id,
            sys_flag=header.sys_flag, born_timestamp=header.born_timestamp, flag=header.flag, properties=properties,
            reconsume_times=header.reconsume_times, unit_mode=bool(header.unit_mode), born_host=_plain(peer.address),
            store_host=_plain(self._address), store_timestamp=self._clock(),
        )  # fmt: skip
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=pushed.to_ext(), body=body)

    # -- to the store

    def _store_reply(
        self, reply: Reply, peer: Peer, header: SendHeader, target: SendTarget, body: bytes
    ) -> Reply | Hold:
        """Store a reply with its original properties; return the answer to its sender.

        A failure to store is only logged, as in Java, since the client has the reply. The stored record keeps the
        compression flags, which Java drops.
        """
        properties = decode(header.properties or "")
        record = NewRecord(
            target.topic, target.queue_id, body, (header.properties or "").encode(), 0,
            header.sys_flag & (COMPRESSED | TYPE_MASK), header.flag, header.born_timestamp, peer.host,
            header.reconsume_times or 0, 0, properties.get(Property.UNIQUE_KEY), properties.get(Property.KEYS),
        )  # fmt: skip
        try:
            if self._ack_waiter is not None:
                self._ack_waiter.check(header.properties)
            appended = self._store.append(record)
        except (BrokerError, MessageIllegal, StoreError) as e:
            _log.warning("a reply of group %s at %s was not stored: %s", header.producer_group, peer.address, e)
            return reply
        reply.header = SendResponse(
            msg_id=offset_msg_id(self._host, appended.physical_offset), queue_id=target.queue_id,
            queue_offset=appended.queue_offset,
        )  # fmt: skip
        if self._ack_waiter is None:
            return reply
        return self._ack_waiter.answer(reply, appended.physical_offset + appended.size, header.properties)


def _plain(address: str) -> str:
    """Remove the brackets of an IPv6 address, as Java expects in this request."""
    return address.replace("[", "").replace("]", "")
